import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from helpers.core.data import CharTokenizer
from helpers.studies import experiments
from helpers.studies.experiments import REPORT, Run, Study, Variant
from helpers.studies.ladder import Ladder
from helpers.studies.parts import WHOLE
from helpers.support.errors import ConfigError, RunError
from helpers.world import corpus

COMMAND = Path(__file__).parents[2] / "tools" / "study.py"
TEXT = "to be, or not to be: that is the question\n" * 60
SIZES = dict(context_length=8, n_layer=1, n_head=1, n_embd=8)


@pytest.fixture(scope="module")
def tool():
    """tools/study.py as a module."""
    spec = importlib.util.spec_from_file_location("study_tool", COMMAND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The command with studies that take no time, and whose runs wait while a file of their variant's name lies in the
# working folder; "broken" fails with seed 1, and a signal ends it with seed 2.
SCRIPT = f"""
import os, signal, sys, time
sys.path.insert(0, {str(COMMAND.parent)!r})
import study
from helpers.support.errors import TrainingError
from helpers.studies.experiments import Study, Variant

measure = study.experiments.measure

def waiting(which, run, *arguments):
    end = time.monotonic() + 60  # or a test that is red would never end
    while os.path.exists(run.variant) and time.monotonic() < end:
        time.sleep(0.01)
    if run.variant == "broken" and run.seed == 1:
        raise TrainingError("the loss is nan")
    if run.variant == "broken" and run.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(which, run, *arguments)

study.experiments.measure = waiting

def small(*names, **settings):
    return Study({{name: Variant() for name in names}}, {SIZES}, (5,), seeds=2, rates=(0.01,), **settings)

study.STUDIES.clear()
study.STUDIES |= {{"three": small("a", "b", "c"), "broken": small("a", "broken", whole_seeds=3)}}
if __name__ == "__main__":
    sys.exit(study.command(study.main))
"""


@pytest.fixture
def start(tmp_path):
    """Starts the script in `tmp_path`, and ends it if a test did not."""
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    folders = ["--out", tmp_path / "out", "--growing", tmp_path / "growing", "--corpus", tmp_path / "text.txt"]
    started = []

    def start(*arguments, **environment):
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        command = [sys.executable, "script.py", "--jobs", "2", *arguments, *folders]
        started.append(subprocess.Popen(command, env=env, cwd=tmp_path, **pipes))
        return started[-1]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # orphans too
        process.communicate()


def read_until(process, pattern):
    for line in process.stdout:
        if re.search(pattern, line):
            return
    raise AssertionError(process.stderr.read())


def kept(path):
    return [(line["variant"], line["seed"]) for line in experiments.read_table(path)[1]]


@pytest.mark.slow
def test_a_kill_and_ctrl_c_lose_the_runs_in_progress_and_no_more(start, tmp_path):
    """Every process ends with the one that is stopped, or `communicate` would wait for its end of the pipe."""
    growing, out = tmp_path / "growing" / "three.csv", tmp_path / "out" / "three.csv"
    for name in ("b", "c"):
        (tmp_path / name).touch()  # these wait
    process = start("three")
    read_until(process, "2 of 6  a, 5 steps, rate 0.01, seed")
    process.kill()
    process.communicate(timeout=60)
    assert sorted(kept(growing)) == [("a", 1), ("a", 2)]

    (tmp_path / "b").unlink()
    process = start("three")
    read_until(process, "2 of 6 runs are done already, 4 to go")
    read_until(process, "4 of 6  b, ")
    process.send_signal(signal.SIGSTOP)  # so that a child that heard Ctrl-C would have the time to say so
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group gets it
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and len(kept(growing)) == 4 and not out.exists()
    assert re.fullmatch(r"stopped by Ctrl-C: 4 runs are kept in .+; the same command goes on from there\n", error)

    said, _ = start("three", "--verdicts").communicate(timeout=60)
    assert [line.split()[1] for line in said.splitlines()] == ["changed", "b"] and not out.exists()

    (tmp_path / "c").unlink()
    said, error = start(NAME="three").communicate(timeout=120)
    assert "4 of 6 runs are done already, 2 to go" in said and not error and not growing.exists()
    assert re.findall(r"^ +\d of 6  (.), ", said, re.M) == ["c", "c"]
    assert sorted(kept(out)) == [(name, seed) for name in "abc" for seed in (1, 2)]
    again, _ = start("three", "--verdicts").communicate(timeout=60)
    assert said.endswith(again) and len(again.splitlines()) == 3

    tokenizer, threads = CharTokenizer.from_text(TEXT), torch.get_num_threads()
    torch.set_num_threads(1)
    study, run = Study({"c": Variant()}, SIZES, (5,)), Run(5, "c", 0.01, 2, REPORT)
    expected = experiments.measure(study, run, tokenizer.encode(TEXT), tokenizer.vocab_size)
    torch.set_num_threads(threads)
    comments, lines = experiments.read_table(out)
    found = next(line for line in lines if (line["variant"], line["seed"]) == ("c", 2))
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}
    starts = [comment.split()[0] for comment in comments]
    assert starts == ["made", "Python", "corpus:", "budget:", "code:"] and "make study NAME=three, at" in comments[0]


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(start, tmp_path):
    process = start("broken")
    _, error = process.communicate(timeout=120)
    run = "broken, 5 steps, rate 0.01, seed"
    assert f"error: {run} 1: the loss is nan\n" in error and f"error: {run} 2: ended by SIGKILL\n" in error
    last = error.splitlines()[-1]
    assert last.startswith("error: 2 runs failed (broken, 5 steps") and "the table is not whole" in last
    assert process.returncode == 2 and not (tmp_path / "out" / "broken.csv").exists()
    assert sorted(kept(tmp_path / "growing" / "broken.csv")) == [("a", 1), ("a", 2), ("a", 3)]


@pytest.fixture
def small(tool, monkeypatch, tmp_path):
    """Studies of two variants under the name "small", a text, and the options that keep all files in `tmp_path`."""
    studies = {"small": Study({WHOLE: Variant(), "other": Variant()}, SIZES, (5,), rates=(0.01,), seeds=2)}
    monkeypatch.setattr(tool, "STUDIES", studies)
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return ["--corpus", str(tmp_path / "text.txt"), "--out", str(tmp_path), "--growing", str(tmp_path / "growing")]


def test_runs_of_another_state_are_refused_and_left_as_they_are(tool, small, tmp_path):
    """Whoever changes the code, the text or the budget must not mix old runs with new ones."""
    corpus, path = corpus.load_corpus(tmp_path / "text.txt"), tmp_path / "growing" / "small.csv"
    path.parent.mkdir()
    line = {**Run(5, WHOLE, 0.01, 1, REPORT)._asdict(), "loss": 1.0, "last_loss": 1.0}
    ours = ["made by: somebody, at another commit", *tool.identity("small", corpus, "cpu")]
    path.write_text(experiments.table([line], ours), "utf-8")
    assert tool.read(path, ["made by: us", *ours[1:]]) == [line] and tool.read(tmp_path / "none.csv", ours) == []
    for place, name in enumerate(("Python", "corpus: your own text", "budget", "code"), start=1):
        other = [comment + "?" if i == place else comment for i, comment in enumerate(ours)]
        path.write_text(experiments.table([line], other), "utf-8")
        with pytest.raises(
            RunError, match=rf"small.csv has runs of another state \({name}.*\): go back to it, or move"
        ):
            tool.main(["small", *small])
        assert path.read_text("utf-8") == experiments.table([line], other)


def test_the_identity_is_that_of_everything_a_number_depends_on(tool, small, monkeypatch, tmp_path):
    corpus = corpus.load_corpus(tmp_path / "text.txt")
    before = tool.identity("small", corpus, "cpu")
    assert torch.__version__ in before[0] and corpus.sha256 in before[1] and "seeds" in before[2]
    assert tool.identity("small", corpus, "cuda")[0] != before[0]
    assert {"attention", "data", "experiments", "gpt", "guards", "training"} < set(tool.code_of("small"))
    monkeypatch.setitem(tool.STUDIES, "ladder", Ladder())
    assert {"gpt", "guards", "ladder", "modern", "presets", "training"} < set(tool.code_of("ladder"))
    for module in tool.code_of("small"):
        root = tmp_path / module / "helpers"
        root.mkdir(parents=True)
        for other in tool.code_of("small"):
            code = (COMMAND.parents[1] / "helpers" / f"{other}.py").read_bytes()
            (root / f"{other}.py").write_bytes(code + b"#" * (other == module))
        monkeypatch.setattr(tool, "ROOT", root.parent)
        assert tool.identity("small", corpus, "cpu")[3] != before[3], module


def test_what_can_not_be_made_is_refused(tool, small, capsys, tmp_path):
    with pytest.raises(ConfigError, match="NAME=no luck is no study: choose one of small"):
        tool.main(["no luck"])
    with pytest.raises(ConfigError, match="stored tables are of tiny Shakespeare: name another folder by --out"):
        tool.main(["small", *small[:2]])
    with pytest.raises(RunError, match="there are no runs of this study yet"):
        tool.main(["small", "--verdicts", *small])
    for number in ("0", "-1", "two", "99999999999"):
        with pytest.raises(SystemExit, match="2"):
            tool.main(["--jobs", number])
        assert "is not a whole number from 1 to 10,000" in capsys.readouterr().err
