"""What several test files share: small models and texts. No test needs the network or a corpus on
this machine.
"""

import contextlib
import dataclasses
import gc
import io
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
import torch
from run_folder import ALPHABET

from helpers import training
from helpers.counted import build_gpt, config_of
from helpers.data import BUNDLED_PLAY, OWN, CharTokenizer, Corpus, split
from helpers.errors import Stopped
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig
from helpers.training import train

if (
    "OMP_NUM_THREADS" not in os.environ
):  # as `make` sets it: on a busy machine several threads wait for each other
    torch.set_num_threads(1)


def pytest_collection_finish():
    """Thousands of tests have been collected, which Python's collector need not look through again
    and again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def signals_are_heard():
    """Under nohup, and behind a shell's &, signals are ignored that some tests send, to themselves
    or to a child.
    """
    ends = {
        getattr(signal, "SIGHUP", signal.SIGINT): signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    ignored = [number for number in ends if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, ends[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def play() -> str:
    return BUNDLED_PLAY.read_text(encoding="utf-8")


@pytest.fixture
def small_config() -> GPTConfig:
    return GPTConfig(vocab_size=65, context_length=16, n_layer=2, n_head=2, n_embd=32)


@pytest.fixture
def model(small_config) -> GPT:
    torch.manual_seed(0)
    return GPT(small_config)


@pytest.fixture
def tokens(play):
    """Training and validation tokens of the bundled play."""
    return split(CharTokenizer.from_text(play).encode(play), context_length=16)


@pytest.fixture
def quick() -> TrainConfig:
    return TrainConfig(batch_size=8, max_steps=12, eval_interval=4, warmup_steps=2)


@pytest.fixture(scope="session")
def empty_project() -> Callable[[Path, pytest.MonkeyPatch], Path]:
    """Puts an empty project around the tools, which build no pages: that takes seconds, and
    test_site.py does it.
    """
    from tools import notebooks, site  # slow, and only the tests of the tools need them

    def make(folder: Path, patch: pytest.MonkeyPatch) -> Path:
        patch.setattr(notebooks, "ROOT", folder)
        patch.setattr(notebooks, "NOTEBOOKS", folder / "notebooks")
        patch.setattr(notebooks, "BUILD", folder / "build")
        patch.setattr(notebooks, "MINE", folder / "mine")
        patch.setattr(site, "build", lambda *_: "")
        (folder / "notebooks").mkdir()
        (folder / "docs").mkdir()
        page = "<!-- claims, written by make store -->\n<!-- end of claims -->\n"
        (folder / "docs" / "claims.md").write_text(page, "utf-8")
        return folder

    return make


@pytest.fixture
def project(empty_project, monkeypatch, tmp_path) -> Path:
    return empty_project(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def annotations(request):
    """Quick tests check every annotation. Slow ones call the same functions thousands of times, and
    would be slower.
    """
    jaxtyping.config.update(
        "jaxtyping_disable", request.node.get_closest_marker("slow") is not None
    )
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def unchecked(annotations):
    """The same for a quick test that does so."""
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.fixture
def own_text(tmp_path, monkeypatch):
    """The parameters that make a notebook read a text of the reader's, in a folder that is not the
    project's.
    """
    monkeypatch.chdir(tmp_path)
    text = "Wörter mit Umlauten \U0001f600,\r\nund Zeilen wie unter Windows!\n"
    (tmp_path / "own.txt").write_text(50 * text, encoding="utf-8")
    return {"corpus_path": "own.txt"}


@pytest.fixture
def fresh(small_config, tokens):
    """Makes equal models, with dropout, so that every generator counts; of another kind when a
    change is of it.
    """

    def build(**changes) -> GPT:
        torch.manual_seed(0)
        if "lengths" in changes:
            changes["counted"] = len(tokens[0])
        model = build_gpt(
            config_of({**dataclasses.asdict(small_config), "dropout": 0.1, **changes})
        )
        if "lengths" in changes:
            model.count(tokens[0])
        return model

    return build


@pytest.fixture
def corpus() -> Corpus:
    """What a run remembers of its text: here, 65 characters."""
    return Corpus(ALPHABET, OWN, Path("own.txt"), 64 * "0")


@pytest.fixture
def go(fresh, tokens, quick, corpus, tmp_path):
    """Train in tmp_path/run; every argument of `train` and every setting can be changed."""

    def run(*, model=None, on=tokens, settings=None, **options):
        options = {"out_dir": tmp_path / "run", "corpus": corpus} | options
        return train(
            model or fresh(), *on, dataclasses.replace(quick, **(settings or {})), **options
        )

    return run


@pytest.fixture
def stopped(go, monkeypatch):
    """Train until a signal comes in the middle of an update (`at`, counted from where the training
    begins), as a rule the fifth, which lies between two records; what `go` takes can be given."""

    def run(number=signal.SIGTERM, at=5, **options):
        real, updates = training.get_batch, itertools.count(0)  # 0: the look at the first batch

        def get_batch(*arguments):
            if next(updates) == at - bool(options.get("resume")):
                signal.raise_signal(number)
            return real(*arguments)

        with monkeypatch.context() as patch, pytest.raises(Stopped) as stop:
            patch.setattr(training, "get_batch", get_batch)
            go(**options)
        return stop.value

    return run


@pytest.fixture
def in_process(monkeypatch):
    """Notebooks run in this process: what becomes of their outputs needs no kernel, which takes
    seconds.
    """
    import nbformat

    from tools import notebooks

    def run(path, target, values):
        notebook, scope = nbformat.read(path, as_version=4), {}
        if values:
            settings = "\n".join(f"{name} = {value!r}" for name, value in values.items())
            notebook.cells.insert(
                1, nbformat.v4.new_code_cell(settings, metadata={"tags": ["injected-parameters"]})
            )
        for number, cell in enumerate(
            [cell for cell in notebook.cells if cell.cell_type == "code"], start=1
        ):
            cell.execution_count, printed = number, io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(cell.source, scope)
            except Exception as error:
                name, text = type(error).__name__, str(error)
                cell.outputs.append(
                    nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[])
                )
            if printed.getvalue():
                cell.outputs.insert(0, nbformat.v4.new_output("stream", text=printed.getvalue()))
            if len(cell.outputs) and cell.outputs[-1].output_type == "error":
                break
        notebook.metadata["language_info"] = {"name": "python"}  # as kernels do
        nbformat.write(notebook, target)
        return ""

    def one_after_the_other(paths, values, jobs):
        return notebooks.run_in_turn([(path, notebooks.run_of(path)) for path in paths], values)

    monkeypatch.setattr(notebooks, "run_papermill", run)
    monkeypatch.setattr(notebooks, "side_by_side", one_after_the_other)


@pytest.fixture
def draw():
    """Draws the machine, and returns its axes and the alternative text."""
    import matplotlib.pyplot as plt  # slow, and only the tests of the drawing need it

    from pictures import machine

    plt.switch_backend("agg")

    def drawn(*args, **options):
        drawing = machine.draw(*args, **options)
        return drawing.figure.axes[0], drawing.text

    yield drawn
    plt.close("all")


@pytest.fixture
def verdict(capsys, monkeypatch):
    """What `check` prints, after the label."""
    from exercise_answers import (
        GIVEN,
        MISTAKES,
    )  # slow, and only the tests of the exercises need it

    import exercises
    from exercises import judge

    results = judge.results

    def checked(label, answer) -> str:
        def given(grader, other):
            if other is answer or id(other) not in MISTAKES:
                return results(grader, other)
            if (label, id(other)) not in GIVEN:
                GIVEN[label, id(other)] = list(results(grader, other))
            return GIVEN[label, id(other)]

        monkeypatch.setattr(judge, "results", given)
        assert exercises.check(label, answer) is None
        line = capsys.readouterr().out
        assert line.startswith(f"{label}: ") and line.count("\n") == 1
        return line.removeprefix(f"{label}: ").rstrip()

    return checked
