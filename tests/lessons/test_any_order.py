"""People run a cell twice, go back to an earlier one, and change a parameter."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from notebook_file import cells, tags
from scheduling import shortened

from helpers.data import BUNDLED_PLAY
from tools.lessons import everyone, named

pytestmark = pytest.mark.weekly
each = pytest.mark.parametrize("path", everyone(), ids=lambda path: path.stem)


@pytest.fixture
def kernel(path, tmp_path, monkeypatch):
    """A fresh one, whose runs are its own."""
    monkeypatch.setenv("NANOGPT_RUNS", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # small tensors: threads would wait for each other
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(path.parent))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def code(path: Path) -> list[nbformat.NotebookNode]:
    """Its cells, with the trainings as short as `make test` has them."""
    found = cells(nbformat.read(path, as_version=4))
    for cell in found:
        cell.source = shortened(cell.source, path.stem)
    return found


def wrong_with(kernel: BlockingKernelClient, cell: nbformat.NotebookNode, shown: list[str] | None = None) -> list[str]:
    """Why the cell fails now, if it does; what it prints goes to `shown`."""

    def hook(message: dict) -> None:
        if shown is not None:
            shown.append(message["content"].get("text", ""))

    content = kernel.execute_interactive(cell.source, timeout=600, output_hook=hook)["content"]
    return [f"{cell.id}: {content['ename']}: {content['evalue']}"] if "ename" in content else []


@each
def test_each_cell_can_be_run_twice_and_one_can_go_back(path, kernel):
    """Each twice at once; and when the last has run, all of them from the last to the first."""
    found = code(path)
    order = [*(cell for cell in found for _ in range(2)), *reversed(found)]
    assert not [why for cell in order for why in wrong_with(kernel, cell)]


# Two other values of each parameter that a notebook offers. (Of `run_dir`: test_notebooks.py.)
OTHERS = {
    "beginnings": (4, 16),
    "corpus_path": (str(BUNDLED_PLAY), "own.txt"),
    "device": ("cpu",),
    "gpt2_folder": (),
    "max_steps": (5, 40),
    "out_dir": ("run", "another/run"),
    "overwrite": (True,),
    "preset": ("smoke", "speedrun"),
    "reuse": (False,),
    "run_dir": (),
    "seed": (2, 11),
    "seeds": ([0], [5, 6, 7]),
    "steps": (1, 100),
    "updates": (20, 100),
}
QUICKER = {"08_nanogpt_shakespeare": {"preset": "smoke"}}
TRIED = [
    (path, name, value)
    for path in everyone()
    for cell in cells(nbformat.read(path, as_version=4))
    if "parameters" in tags(cell)
    for name in re.findall(r"^(\w+) = ", cell.source, re.M)
    for value in OTHERS[name]
]


@pytest.mark.parametrize(("path", "name", "value"), TRIED, ids=lambda it: it.stem if isinstance(it, Path) else None)
def test_it_runs_with_other_values_of_each_parameter(path, name, value, kernel, tmp_path):
    """Or says in a sentence what is wrong with them."""
    if name in ("corpus_path", "out_dir"):
        own = BUNDLED_PLAY.read_text(encoding="utf-8")[5000:]
        (tmp_path / "own.txt").write_text(own, encoding="utf-8")
        value = str(tmp_path / value)
    chosen = QUICKER.get(path.stem, {}) | {name: value}
    for cell in code(path):
        if problem := wrong_with(kernel, cell):
            assert re.search(r": (Config|Corpus|Run)Error: ", problem[0]), problem
            break
        if "parameters" in tags(cell):
            kernel.execute_interactive("; ".join(f"{n} = {v!r}" for n, v in chosen.items()))


@pytest.mark.parametrize("path", [named("08")], ids=["08"])
def test_after_ctrl_c_in_its_training_08_says_how_far_it_came(path, kernel):
    """And not how good an earlier run was."""
    shown = []
    for cell in code(path):
        if cell.id == "part-09":  # as if the key were pressed after the first records
            stop = """
def note(model, record, kept=run.note):
    kept(model, record)
    if record.step > 0:
        raise KeyboardInterrupt

run.note = note
run.train()"""
            cell.source = cell.source.replace("run.train()", stop)
            assert "KeyboardInterrupt" in str(wrong_with(kernel, cell))
        else:
            assert not wrong_with(kernel, cell, shown)
        if cell.id == "part-15":
            break
    assert re.search(r"stopped after \d+ steps: run the training's cell again", "".join(shown))
