"""Writes small notebooks, for the tests of the tools that run them."""

from pathlib import Path

import nbformat


def write_notebook(path: Path, *sources: str, tags: dict[int, str] | None = None) -> None:
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    for i, tag in (tags or {}).items():
        cells[i].metadata["tags"] = [tag]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
