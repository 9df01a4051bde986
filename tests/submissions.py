"""Notebooks as students hand them in, for the tests of the classroom."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.classroom.assignments import CHECK, LESSONS, Lesson, assignment
from tools.classroom.slicing import slice_for, statements
from tools.lessons import solution_of

EARLIER = "from my_gpt import"  # a solution's way to earlier steps; students have `yours.bring()`


def solved(lesson: Lesson) -> dict[str, str]:
    """The source of each answer, by its label, as the solutions have it."""
    script = solution_of(lesson.tasks[0].label).read_text("utf-8")
    script = "\n\n".join(each.text for each in statements([script]) if not each.text.startswith(EARLIER))
    ours = statements([(LESSONS / "solutions" / "my_gpt.py").read_text("utf-8")])
    return {task.label: slice_for(task.name, [script], 1, ours).source for task in lesson.tasks}


def handed_in(lesson: Lesson, answers: dict[str, str], *more: str) -> NotebookNode:
    """The assignment with these answers in the cells for them, and more code cells at its end."""
    notebook = assignment(lesson)
    for place, cell in enumerate(notebook.cells):
        check = CHECK.search(cell.source) if cell.cell_type == "code" else None
        if check and check[1] in answers:
            notebook.cells[place - 1].source = answers[check[1]]
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    notebook.cells += [nbformat.v4.new_code_cell(source, id=f"more-{i}") for i, source in enumerate(more)]
    return notebook


def write(folder: Path, student: str, lesson: Lesson, notebook: NotebookNode) -> Path:
    path = folder / student / lesson.path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
