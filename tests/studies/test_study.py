"""`make study`: what it refuses, what its table says of itself, and that a run is what `measure` gives."""

import pickle
import re

import pytest
import study as tool
import torch

from helpers.data import CharTokenizer, load_corpus
from helpers.errors import ConfigError, RunError
from helpers.studies.experiments import REPORT, Comparison, Run
from helpers.studies.parts import WHOLE
from helpers.studies.study import Variant
from helpers.tables import csv_table, read_table

TEXT = "to be, or not to be: that is the question\n" * 60
SIZES = dict(context_length=8, n_layer=1, n_head=1, n_embd=8)
SMALL = Comparison({WHOLE: Variant(), "other": Variant()}, SIZES, (5,), rates=(0.01,), seeds=2)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A study of two variants under the name "small", a text, and the options that keep all files in `tmp_path`."""
    monkeypatch.setattr(tool, "STUDIES", {"small": SMALL})
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return ["--corpus", str(tmp_path / "text.txt"), "--out", str(tmp_path), "--growing", str(tmp_path / "growing")]


@pytest.fixture
def in_process(monkeypatch):
    """The runs are made one after the other in this process. What would go to another process is pickled."""

    def grow(study, lines, path, comments, measure, jobs):
        measure = pickle.loads(pickle.dumps(measure))
        threads = torch.get_num_threads()
        lines += [measure(run) for run in study.missing(lines)]
        torch.set_num_threads(threads)
        path.write_text(csv_table(lines, comments), "utf-8")

    monkeypatch.setattr(tool.side_by_side, "grow", grow)


@pytest.mark.slow
def test_the_table_moves_when_it_is_whole_and_says_how_it_was_made(small, in_process, capsys, tmp_path):
    tool.main(["small", *small])
    said = capsys.readouterr().out
    assert not (tmp_path / "growing" / "small.csv").exists()
    comments, lines = read_table(tmp_path / "small.csv")
    starts = [comment.split()[0] for comment in comments]
    assert starts == ["made", "Python", "corpus:", "budget:", "settings:", "code:"]
    assert "make study NAME=small, at commit" in comments[0] and all(comment in said for comment in comments)
    tokenizer = CharTokenizer.from_text(TEXT)
    run = Run(5, "other", 0.01, 2, REPORT)
    expected = SMALL.measure(run, tokenizer.encode(TEXT), tokenizer.vocab_size)
    found = next(line for line in lines if SMALL.run_of(line) == run)
    assert {**found, "seconds": 0} == {**expected, "seconds": 0} and len(lines) == 4

    tool.main(["small", "--verdicts", *small])
    assert said.endswith(capsys.readouterr().out) and said.splitlines()[-1].split()[1] == "other"


@pytest.mark.slow
def test_what_is_there_is_not_made_again(small, in_process, tmp_path):
    """A made-up loss in the table that grows is still there at the end, for its run was not made again."""
    path = tmp_path / "growing" / "small.csv"
    path.parent.mkdir()
    run = Run(5, WHOLE, 0.01, 1, REPORT)
    line = {**run._asdict(), "parameters": 1, "loss": 77.0, "last_loss": 77.0, "seconds": 0.1}
    ours = tool.identity(SMALL, load_corpus(tmp_path / "text.txt"), "cpu")
    path.write_text(csv_table([line], ["made by: somebody, at another commit", *ours]), "utf-8")
    tool.main(["small", *small])
    _, lines = read_table(tmp_path / "small.csv")
    assert lines[0] == line and [each["loss"] == 77.0 for each in lines] == [True, False, False, False]


@pytest.mark.slow
def test_runs_of_another_state_are_refused_and_left_as_they_are(small, tmp_path):
    """Whoever changes the code, the text or the budget must not mix old runs with new ones."""
    path = tmp_path / "growing" / "small.csv"
    path.parent.mkdir()
    line = {**Run(5, WHOLE, 0.01, 1, REPORT)._asdict(), "loss": 1.0, "last_loss": 1.0}
    ours = ["made by: us", *tool.identity(SMALL, load_corpus(tmp_path / "text.txt"), "cpu")]
    for place, name in enumerate(("Python", "corpus: your own text", "budget", "settings", "code"), start=1):
        other = [comment + "?" if i == place else comment for i, comment in enumerate(ours)]
        path.write_text(csv_table([line], other), "utf-8")
        refusal = rf"small.csv has runs of another state \({name}.*\): go back to it, or move"
        with pytest.raises(RunError, match=refusal):
            tool.main(["small", *small])
        assert path.read_text("utf-8") == csv_table([line], other)


def test_a_run_is_not_made_when_text_or_code_have_changed_meanwhile(small, tmp_path):
    path = tmp_path / "text.txt"
    ours = tool.identity(SMALL, load_corpus(path), "cpu")
    path.write_text(TEXT + "!", "utf-8")
    with pytest.raises(ConfigError, match="the text or the code has changed since the command was started"):
        tool.measure("small", str(path), "cpu", ours, Run(5, WHOLE, 0.01, 1, REPORT))


@pytest.mark.parametrize("name", tool.STUDIES)
def test_every_study_can_say_what_it_depends_on(name, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    corpus = load_corpus(tmp_path / "text.txt")
    versions, text, budget, *sums = tool.identity(tool.STUDIES[name], corpus, "cpu")
    assert torch.__version__ in versions and corpus.sha256 in text and "seeds" in budget
    assert [re.sub(r"[0-9a-f]{64}$", "", line) for line in sums] == ["settings: SHA-256 ", "code: SHA-256 "]
    assert tool.identity(tool.STUDIES[name], corpus, "cuda")[0] != versions


def test_what_can_not_be_made_is_refused(small, capsys):
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
