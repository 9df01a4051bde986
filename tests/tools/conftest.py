"""What the tests of the tools share: an empty project around them, and notebooks without a kernel."""

import contextlib
import io
from pathlib import Path

import nbformat
import pytest

from tools import notebooks, site

COURSE = """\
path = ["01_a", "01_bad", "02_b", "02_dead", "03_c", "03_good", "08_x", "18_y"]
rooms = [{ name = "far", number = 10 }]
sources = []
long = []
"""


@pytest.fixture
def project(monkeypatch, tmp_path) -> Path:
    """An empty project around the tools; it builds no pages, which takes seconds."""
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(notebooks, "BUILD", tmp_path / "build")
    monkeypatch.setattr(notebooks, "MINE", tmp_path / "mine")
    monkeypatch.setattr(site, "build", lambda *_: "")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks" / "course.toml").write_text(COURSE, "utf-8")
    return tmp_path


@pytest.fixture
def in_process(monkeypatch):
    """Notebooks run in this process: their outputs need no kernel, which takes seconds."""

    def run(path, target, values):
        notebook, scope = nbformat.read(path, as_version=4), {}
        if values:
            settings = "\n".join(f"{name} = {value!r}" for name, value in values.items())
            notebook.cells.insert(1, nbformat.v4.new_code_cell(settings, metadata={"tags": ["injected-parameters"]}))
        for number, cell in enumerate([cell for cell in notebook.cells if cell.cell_type == "code"], start=1):
            cell.execution_count, printed = number, io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(cell.source, scope)
            except Exception as error:
                name, text = type(error).__name__, str(error)
                cell.outputs.append(nbformat.v4.new_output("error", ename=name, evalue=text, traceback=[]))
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
