"""The classroom: assignments, the source of answers, what crosses over from a jail, and what is written."""

import csv
import os
import re
import tomllib
from pathlib import Path

import nbformat
import numpy as np
import pytest
import submissions
import torch

from helpers.errors import ConfigError, RunError
from helpers.grading import exercises, judge
from helpers.grading.judge import RIGHT, Verdict
from tools.classroom import answering, course, doors, grade, jail, judging, plain, slicing, student
from tools.classroom.assignments import CHECK, ROOT, TASK, assignment, lessons
from tools.classroom.judging import Judged


@pytest.fixture(scope="module")
def first():
    return lessons()["01"]


# ---------------------------------------------------------------- assignments
def test_all_exercises_are_asked_for_in_order_and_their_points_are_the_stars_of_the_lesson():
    tasks = [task for lesson in lessons().values() for task in lesson.tasks]
    assert [task.label for task in tasks] == list(exercises.exercises())
    for lesson in lessons().values():
        text = lesson.path.read_text("utf-8")
        for task in lesson.tasks:
            stars = "★" * task.stars + "☆" * (5 - task.stars)
            assert f"**{task.label} · {task.title}**" in text and f"({task.kind}; difficulty {stars}" in text
            assert task.points == (0 if task.kind == "predict" else task.stars)


@pytest.mark.parametrize("number", lessons())
def test_an_assignment_gives_no_answer_away_and_has_a_check_for_each_exercise(number):
    lesson = lessons()[number]
    notebook = assignment(lesson)
    nbformat.validate(notebook)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "## The proofs" not in text and "](solutions/" not in text and "olutions_" not in text
    headings = {line.lstrip("# ").replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    links = [link for link in re.findall(r"\]\(#([^)]*)\)", text) if not link.startswith("cell-id=")]
    assert set(links) <= headings
    about = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    names = [each.grade_id for each in about]
    assert sorted(names) == sorted(f"{kind}-{t.label}" for t in lesson.tasks for kind in ("answer", "check"))
    points = {each.grade_id: each.points for each in about if each.grade}
    assert points == {f"check-{task.label}": task.points for task in lesson.tasks if task.points}
    for task in lesson.tasks:
        (check,) = [cell for cell in notebook.cells if cell.id == f"check-{task.label}"]
        assert check.metadata.nbgrader.locked and check.source == f'exercises.check("{task.label}", {task.name})'
    for name, each in ((name, cell) for name in ("1d", "2d") for cell in notebook.cells if cell.id == f"check-{name}"):
        assert not each.metadata.nbgrader.grade, name


def test_cells_that_need_the_proofs_go_with_them(first):
    ids = [cell.id for cell in assignment(first).cells]
    assert "yours-2" not in ids and "yours-1" not in ids
    assert "yours-2" in [cell.id for cell in assignment(lessons()["03"]).cells]


# ---------------------------------------------------------------- the source of an answer
def sliced(name: str, *cells: str, before: int | None = None) -> str:
    found = slicing.slice_for(name, cells, len(cells) if before is None else before)
    return found.source if found else ""


def test_an_answer_comes_with_what_it_needs_and_nothing_else():
    cells = (
        "import math, os\nimport torch",
        "print('a long training')\nmodel = train()",
        "scale = 2\nscale += 1",
        "def helper(x):\n    return math.sqrt(x) * scale",
        'def my_answer(x):\n    return helper(x)\n\n\nexercises.check("1a", my_answer)',
    )
    assert sliced("my_answer", *cells).split("\n\n") == [
        "import math",
        "scale = 2",
        "scale += 1",
        cells[3],
        "def my_answer(x):\n    return helper(x)",
    ]


def test_an_answer_counts_as_it_stands_at_its_check_and_takes_from_below_only_what_is_nowhere_above():
    cells = ("def f(): return g() + h()", "def g(): return 1", "def g(): return 2", "def h(): return 3")
    assert sliced("f", *cells, before=2).split("\n\n") == [cells[0], cells[1], cells[3]]


def test_a_class_has_what_it_needs_when_it_is_made_and_what_it_needs_when_it_is_used():
    cells = ("from torch import nn", "class A(nn.Module):\n    def f(self): return nn", "from torch import nn")
    assert sliced("A", *cells).split("\n\n") == list(cells)
    cells = ("scale = slow()", "def f(x): return scale", "scale = 2")
    assert sliced("f", *cells).split("\n\n") == list(cells[1:])
    cells = ("scale = 1", "def f(x=scale): return x", "scale = 2")
    assert sliced("f", *cells).split("\n\n") == list(cells[:2])


def test_what_changes_a_name_comes_along():
    cells = ("class A: pass", "def forward(self): return 1", "A.forward = forward", "names = []", "names.append(A)")
    assert sliced("A", *cells).split("\n\n") == list(cells[:3])
    assert sliced("names", *cells).split("\n\n") == list(cells)


def test_magic_and_broken_cells_are_no_answers():
    assert sliced("f", "%matplotlib inline\n!ls\ndef f(): return 1") == "def f(): return 1"
    assert sliced("f", "%%time\ndef f(): return 1") == "" == sliced("f", "def f(:")
    assert sliced("f", "from math import *", "def f(): return sqrt(2)").startswith("from math import *")
    assert sliced("x", "x = (7\n% 4)") == "x = (7\n% 4)"
    assert [each.why for each in slicing.broken(["x = 1", "def f(:"])] == ["line 1: invalid syntax"]


def test_what_leads_behind_the_curtain_is_named():
    texts = ["import torch, os", "from helpers.grading import judge", "def f(x): return x.__globals__, open('a')"]
    assert slicing.unusual(texts) == ("os", "helpers.grading", "__globals__", "open")
    assert slicing.unusual(["import math\nclass A:\n    def __init__(self): super().__init__()"]) == ()


def test_earlier_steps_stand_in_but_are_no_answer():
    ours = judging.earlier_steps(lessons()["07"], ROOT / "notebooks" / "solutions" / "my_gpt.py")
    names = set().union(*(each.binds for each in ours))
    assert {"MyHeads", "MyDropout", "my_scores"} <= names and not {"MyBlock", "MyGPT", "my_layer_norm"} & names
    assert slicing.slice_for("MyHeads", ["x = 1"], 1, ours) is None
    found = slicing.slice_for("MyBlock", ["def MyBlock(): return MyHeads"], 1, ours)
    assert "class MyHeads" in found.source and found.unusual == ()


# ---------------------------------------------------------------- what crosses over
def test_plain_values_come_back_as_they_were():
    values = [1, True, None, ..., "é☃", float("inf"), (1, [2.5, (None,)]), {"a": 1, 2: "b"}, []]
    assert plain.unpack(plain.pack(values)) == values
    assert isinstance(plain.unpack(plain.pack(True)), bool)
    for tensor in (torch.randn(2, 3).T, torch.zeros(0, 2), torch.tensor(True), torch.arange(3)):
        assert torch.equal(plain.unpack(plain.pack((tensor,)))[0], tensor)
    assert torch.equal(plain.unpack(plain.pack(np.arange(3.0))), torch.arange(3.0, dtype=torch.float64))


@pytest.mark.parametrize("value", [len, object(), torch.nn.Linear(1, 1), {1, 2}, b"x", 1j, torch.float32])
def test_what_is_not_plain_does_not_cross(value):
    with pytest.raises(plain.NotPlainError):
        plain.pack([value])


def test_bytes_that_are_no_message_are_refused():
    good = plain.pack((torch.randn(3), "x"))
    for data in (
        b"",
        good[:-1],
        good[:9],
        b"\xff" * 100,
        good.replace(b"tensor", b"object"),
        b"\x02\0\0\0[]",
        b"[" * 9999,
    ):
        with pytest.raises(plain.NotPlainError):
            plain.unpack(data)


def test_checks_that_somebody_rewrites_give_no_verdict_of_right(monkeypatch):
    exercises.exercises()
    sound = answering.checks()
    assert answering.judged(len, sound, "1a", 5)["word"] == "not yet"
    monkeypatch.setitem(judge.EXERCISES, "1a", judge.Question(lambda answer: iter([(judge.Given(1), 1)])))
    said = answering.judged(len, sound, "1a", 5)
    assert said == {"word": "not yet", "why": "it changes what it is checked with"}


# ---------------------------------------------------------------- doors
@pytest.mark.parametrize("given", ["", "a\0b"])
def test_a_folder_must_be_named(given):
    with pytest.raises(ConfigError, match="OUT must name a folder"), doors.a_new_folder("OUT", given):
        pass


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    for given in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigError, match="is there already"), doors.a_new_folder("OUT", str(given)):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path):
    out = tmp_path / "a" / "out"
    with pytest.raises(ZeroDivisionError), doors.a_new_folder("OUT", str(out)) as (folder, _):
        (folder / "half").write_text("x")
        raise ZeroDivisionError
    assert not list(out.parent.iterdir())
    out.mkdir()
    with doors.a_new_folder("OUT", str(out)) as (folder, _):
        (folder / "whole").write_text("x")
    assert list(out.iterdir()) == [out / "whole"] and list(out.parent.iterdir()) == [out]


def test_no_folder_can_be_made_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="can't write OUT"), doors.a_new_folder("OUT", str(tmp_path / "file" / "x")):
        pass


@pytest.mark.parametrize("folder", [ROOT, ROOT.parent, ROOT / "no such folder", ROOT / "Makefile"])
def test_submissions_are_a_folder_of_their_own(folder):
    with pytest.raises(ConfigError):
        doors.a_folder("SUBMISSIONS", str(folder))


def test_out_must_not_lie_in_the_submissions(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMISSIONS", str(tmp_path))
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="elsewhere"):
        grade.main([])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["--seconds 0", "--memory x", "--no", "'"])
def test_settings_are_refused_in_a_sentence(given, monkeypatch):
    monkeypatch.setenv("P", given)
    with pytest.raises(ConfigError):
        grade.main([])


@pytest.mark.parametrize("command", [grade.main, student.main])
def test_without_nbgrader_both_say_how_to_get_it_and_write_nothing(command, monkeypatch, tmp_path, first):
    submissions.write(tmp_path / "in", "anna", first, nbformat.v4.new_notebook())
    monkeypatch.setattr(course.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SUBMISSIONS", str(tmp_path / "in"))
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="make classroom"):
        command([])
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


# ---------------------------------------------------------------- what came back
def test_names_that_no_student_has_are_refused(tmp_path):
    for name in ("=cmd()", "a;b", "-x", "a+b"):
        folder = tmp_path / name / name
        folder.mkdir(parents=True)
        with pytest.raises(ConfigError, match="can't be a student's name"):
            grade.read(tmp_path / name)
    with pytest.raises(ConfigError, match="one folder for each student"):
        grade.read(tmp_path / "=cmd()" / "=cmd()")


def test_whatever_came_back_is_read_or_has_a_note(tmp_path, first):
    notebook = submissions.handed_in(first, {})
    old = submissions.write(tmp_path, "anna lee", first, notebook)
    os.utime(old, (1, 1))
    nbformat.write(notebook, old.with_name("My copy of 01_dot_product_scores (2).ipynb"))
    nbformat.write(notebook, old.with_name("by its checks.ipynb"))
    os.utime(old.with_name("by its checks.ipynb"), (2, 2))
    for name, text in (
        ("garbage", "{"),
        ("empty", ""),
        ("list", "[]"),
        ("deep", "[" * 10**5),
        ("cells", '{"cells": 3}'),
    ):
        path = tmp_path / "bad" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "bad" / "other.ipynb")
    (tmp_path / "bad" / "link_01_dot_product_scores.ipynb").symlink_to(old)
    (tmp_path / "notes.txt").touch()
    found = grade.read(tmp_path)
    (good,) = [each for each in found if each.student == "anna lee"]
    assert good.lesson == first and "(2).ipynb" in good.file and "newer than" in good.note
    bad = {Path(each.file).stem: each.note for each in found if each.student == "bad"}
    assert set(bad) == {"garbage", "empty", "list", "deep", "cells", "other"}
    assert bad.pop("other").startswith("no lesson") and all(note.startswith("no notebook: ") for note in bad.values())


def as_judged(lesson, wrong: dict[str, Verdict]) -> list[Judged]:
    return [Judged(task, wrong.get(task.label, RIGHT)) for task in lesson.tasks]


def test_grades_have_a_line_for_each_submission(first):
    wrong = {"1b": Verdict("not yet", 'it raises Error: =1+1, "x"\n'), "1d": Verdict("still to do")}
    good = grade.Submission("anna", "anna/x.ipynb", first, judged=as_judged(first, wrong), seconds=1.25)
    bad = grade.Submission("ben", "ben/x.ipynb", note="no notebook: it is empty")
    lines = list(csv.DictReader(grade.table([good, bad]).splitlines()))
    assert [(line["student"], line["points"], line["of"]) for line in lines] == [("anna", "6", "8"), ("ben", "0", "")]
    assert lines[0]["1a"] == "2" and lines[0]["1b"] == "0" and "1d" not in lines[0]
    assert lines[0]["1a said"] == "right" and lines[0]["1b said"].startswith("not yet, it raises Error: =1+1")
    assert lines[0]["1d said"] == "still to do" and lines[1]["note"] == "no notebook: it is empty"


def test_the_gradebook_gets_our_cells_whatever_a_student_made_of_them(first):
    handed = submissions.handed_in(first, {"1a": "def my_scores(q, k):\n    return 1\n\n\nexercises.check('1a', 3)"})
    forged = {"nbgrader": {"grade": True, "points": 1000, "grade_id": "check-1a", "schema_version": 3}}
    handed.cells += [
        nbformat.v4.new_code_cell("print('right')", metadata=forged, id="check-1a-2"),
        nbformat.v4.new_markdown_cell("<script>alert(1)</script>", id="note"),
    ]
    handed.cells = [cell for cell in handed.cells if cell.id != "check-1b"]
    made = course.with_verdicts(first, handed.cells, as_judged(first, {"1a": Verdict("not yet", "it is wrong")}))
    nbformat.validate(made)
    grades = [cell for cell in made.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert [cell.id for cell in grades] == [f"check-{task.label}" for task in first.tasks if task.points]
    assert sum(cell.metadata.nbgrader.points for cell in grades) == first.points
    kinds = {cell.id: [output.output_type for output in cell.outputs] for cell in grades}
    assert kinds == {"check-1a": ["error"], "check-1b": ["stream"], "check-1c": ["stream"], "check-1e": ["stream"]}
    answer = next(cell for cell in made.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "answer-1a")
    assert answer.source.startswith("def my_scores(q, k):") and CHECK.search(grades[0].source)
    sources = [cell.source for cell in made.cells]
    assert "print('right')" in sources and "    <script>alert(1)</script>" in sources
    evil = Verdict("not yet", "it raises E: <b> ![x](javascript:a) | $x$")
    (summary,) = [cell.source for cell in course.with_verdicts(first, [], as_judged(first, {"1a": evil})).cells[:1]]
    assert r"it raises E: &lt;b&gt; \!\[x\](javascript:a) \| \$x\$ |" in summary


@pytest.mark.slow
def test_the_handout_has_neither_solutions_nor_tests_nor_what_lies_around(tmp_path, first):
    for lesson in lessons().values():
        released = tmp_path / "release" / lesson.name / lesson.path.name
        released.parent.mkdir(parents=True)
        nbformat.write(assignment(lesson), released)
    student.hand_out(tmp_path, tmp_path / "handout")
    made = {path.relative_to(tmp_path / "handout") for path in (tmp_path / "handout").rglob("*")}
    parts = {part for path in made for part in path.parts}
    assert not parts & {"solutions", "tests", "classroom", "torture", ".git", ".venv", "build", "__pycache__"}
    assert {"Makefile", "pyproject.toml", "README.md", "helpers", "tools", "notebooks"} <= parts
    assert TASK.search((tmp_path / "handout" / "notebooks" / first.path.name).read_text("utf-8"))
    packages = tomllib.loads((tmp_path / "handout" / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
        "packages"
    ]
    assert all((tmp_path / "handout" / package.replace(".", "/")).is_dir() for package in packages)


# ---------------------------------------------------------------- the jail
@pytest.mark.slow
def test_a_submission_is_judged_in_its_jail(tmp_path, first):
    (tmp_path / "try").mkdir()
    code = jail.copy_of_the_code(ROOT, tmp_path / "code")
    room = judging.Room(code, jail.walls(tmp_path / "try"), (), jail.Limits(answer=20))
    answers = submissions.solved(first) | {
        "1b": "def my_dot(a, b, s):\n    return a * b",
        "1c": "def my_nearest(i, vectors):\n    raise SystemExit(7)",
    }
    handed = submissions.handed_in(first, answers, "raise RuntimeError('this cell never runs')")
    cells = [cell.source for cell in handed.cells if cell.cell_type == "code"]
    said = {each.task.label: str(each.verdict) for each in judging.judged(first, cells, room)}
    assert said["1a"] == said["1d"] == said["1e"] == "right"
    assert said["1b"] == "not yet, that holds only for vectors of one direction: |a| |b| still wants the cosine"
    assert said["1c"].endswith("it raises SystemExit: 7")
