"""The start page of the lab."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from exercises import judge
from helpers.course import NOTEBOOKS
from pictures import progress


def test_the_table_lists_every_lesson_with_its_time_and_all_its_exercises_unsolved():
    rows = progress.lesson_table(NOTEBOOKS).splitlines()[2:]
    links = [re.search(r"\]\((.+?)\)", row)[1] for row in rows]
    assert links[:11] == [path.name for path in sorted(NOTEBOOKS.glob("0*_*.ipynb"))]
    assert sorted(links[11:]) == sorted(f"beyond/{path.name}" for path in NOTEBOOKS.glob("beyond/*.ipynb"))
    blank_page = rows.pop()  # which asks for the steps again
    assert blank_page.endswith("| Two to four hours | 0 of 13 |")
    assert all(re.search(r"\| ([\w-]+ )*(minutes|hour) \| 0 of \d \|$", row) for row in rows)
    assert sum(int(re.search(r"(\d+) \|$", row)[1]) for row in rows) == len(judge.every())


def test_what_is_solved_is_what_the_saved_notebook_printed_last(tmp_path):
    prints = [
        "3a: right\n",
        "3b: not yet, right sum, wrong order\n",
        "3c: still to do\n",
        "3d: right\n",
    ]
    cells = [new_code_cell("x", outputs=[new_output("stream", text=text)]) for text in prints]
    head = new_markdown_cell("# 03 · A title\n\n**How long.** An hour to read, a minute to run.")
    nbformat.write(new_notebook(cells=[head, *cells]), tmp_path / "03_query_key_value.ipynb")
    (row,) = progress.lesson_table(tmp_path).splitlines()[2:]
    assert row == "| 03 | [A title](03_query_key_value.ipynb) | An hour | 2 of 4: 3a, 3d |"


def test_a_copy_beside_the_lessons_is_no_lesson(tmp_path):
    for name in ("03_query_key_value", "03_query_key_value-Copy1", "03_mine"):
        nbformat.write(new_notebook(cells=[new_markdown_cell("# A")]), tmp_path / f"{name}.ipynb")
    assert progress.lesson_table(tmp_path).count(".ipynb") == 1


@pytest.mark.parametrize("content", ["", "{", '{"cells": [7]}', "\xff"])
def test_a_damaged_notebook_is_one_row_and_the_others_are_listed(tmp_path, content):
    (tmp_path / "04_causal_mask.ipynb").write_bytes(content.encode("latin-1"))
    nbformat.write(new_notebook(cells=[new_markdown_cell("# 05 · Whole")]), tmp_path / "05_dropout.ipynb")
    broken, whole = progress.lesson_table(tmp_path).splitlines()[2:]
    assert broken.startswith("| 04 |") and "can't be read: `python -m tools.notebooks fresh`" in broken
    assert "[Whole](05_dropout.ipynb)" in whole
