"""The project's notebooks, a way to run one in this process, and small ones for tests."""

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbformat import NotebookNode

from pictures import plotting
from tools.lessons import lessons

LESSONS = {path.stem: path for path in lessons()}
BY_NAME = {name: nbformat.read(path, as_version=4) for name, path in LESSONS.items()}


def cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Its cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def prose(notebook: NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def run(
    notebook: NotebookNode,
    parameters: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    only: tuple[str, ...] = (),
) -> None:
    """Run its cells, or `only` those with these ids, with other `parameters`; nothing is shown."""
    monkeypatch.setattr(plotting, "display", lambda *_, **__: None)
    scope = {"__name__": "notebook"} | (parameters if only else {})
    for cell in cells(notebook):
        if cell.id in only or not only:
            exec(compile(cell.source, cell.id, "exec"), scope)
        if "parameters" in tags(cell):
            scope |= parameters
    plt.close("all")


def write_notebook(path: Path, *sources: str, tags: dict[int, str] | None = None) -> None:
    """A notebook with these cells of code; `tags` has a tag for some, by their place."""
    code = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    for i, tag in (tags or {}).items():
        code[i].metadata["tags"] = [tag]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel}
    nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=metadata), path)
