"""The classroom: what is handed out, how an answer is found, and a line for whatever came back."""

import csv
import dataclasses
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import nbformat
import pytest

from exercises.judge import every
from tools.classroom import __main__ as commands
from tools.classroom import grade, handout
from tools.classroom.answers import needed, statements
from tools.lessons import everyone

pytestmark = pytest.mark.slow  # it starts processes that judge
SCORES = "def my_scores(queries, keys):\n    return queries @ keys.transpose(-2, -1)"
WRONG = "def my_scores(queries, keys):\n    return keys @ queries.T"
DOT = "def my_dot(a, b, both):\n    return (both**2 - a**2 - b**2) / 2"
CHECK = 'exercises.check("1a", my_scores)'


@pytest.fixture(scope="module")
def shipped():
    return handout.lessons()


@pytest.fixture(scope="module")
def first(shipped):
    return next(lesson for lesson in shipped if lesson.name == "01_dot_product_scores")


# ---------------------------------------------------------------- what is handed out
def test_every_exercise_is_in_its_lesson_and_no_lesson_gives_an_answer_away(shipped):
    assert [lesson.path for lesson in shipped] == everyone()
    labels = [task.label for lesson in shipped for task in lesson.tasks]
    assert sorted(labels) == sorted(every())
    for lesson in shipped:
        notebook = handout.assignment(lesson)
        nbformat.validate(notebook)
        text = "\n".join(cell.source for cell in notebook.cells)
        assert "](solutions/" not in text
        facts = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
        assert len(facts) == 2 * len(lesson.tasks)
        points = {fact.grade_id: fact.points for fact in facts if fact.grade}
        assert points == {f"check-{task.label}": task.points for task in lesson.tasks if task.points}


def test_a_prediction_has_no_points(first):
    assert [task.points for task in first.tasks] == [2, 2, 0, 2]


def test_a_copy_is_no_lesson_and_a_solved_lesson_is_not_handed_out(first, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    monkeypatch.setattr(handout, "NOTEBOOKS", tmp_path / "notebooks")
    notebook = tmp_path / "notebooks" / first.path.name
    notebook.parent.mkdir()
    shutil.copy(first.path, notebook)
    shutil.copy(first.path, notebook.with_stem(f"{notebook.stem}-Copy1"))
    commands.main(["student", str(tmp_path / "out")])
    assert [path.name for path in tmp_path.glob("out/notebooks/*")] == [first.path.name]
    assert "01_dot_product_scores-Copy1.ipynb is none of the lessons" in capsys.readouterr().err
    content = nbformat.read(notebook, as_version=4)
    content.cells.append(nbformat.v4.new_code_cell(SCORES))
    nbformat.write(content, notebook)
    with pytest.raises(SystemExit, match="2"):
        commands.main(["student", str(tmp_path / "again")])
    assert "answers 1a already" in capsys.readouterr().err and not (tmp_path / "again").exists()


# ---------------------------------------------------------------- how an answer is found
def source_of(name: str, *cells: str) -> list[str]:
    return needed(name, [statement for cell in cells for statement in statements(cell)])[0].split("\n\n")


def test_an_answer_comes_with_what_it_needs_and_nothing_else():
    helper = "def helper(x):\n    return math.sqrt(x) * scale"
    lines = ["import math, os\nmodel = train()", "scale = 2; scale += 1", helper, "f = helper"]
    assert source_of("f", *lines) == [
        "import math",
        "scale = 2",
        "scale += 1",
        helper,
        "f = helper",
    ]
    late, default, own = (
        "def f(): return a",
        "def f(x=a): return x",
        "def f(x): return [a for a in x]",
    )
    assert source_of("f", "a = slow()", late, "a = 2") == [late, "a = 2"]
    assert source_of("f", "a = 1", default, "a = 2") == ["a = 1", default]
    assert source_of("f", late, "def a(): return 1") == [late, "def a(): return 1"]
    assert source_of("f", own, "a = slow()") == [own]


def test_what_changes_a_name_comes_along():
    loop = "for word in words:\n    table.append(word)"
    assert source_of("table", "words = ''", "table = []", loop) == [
        "words = ''",
        "table = []",
        loop,
    ]
    forward = ["class A: pass", "def g(self): return 1", "A.forward = g"]
    assert source_of("A", *forward) == forward
    branch = "if False:\n    x = 2"
    assert source_of("x", "x = 1", branch) == ["x = 1", branch]
    training = "for step in range(9):\n    torch.manual_seed(step)"
    assert source_of("torch", "import torch", training) == ["import torch"]


# ---------------------------------------------------------------- what came back
def hand_in(path: Path, lesson, *more: str, ids: bool = True) -> None:
    """The lesson as it was handed out, with more cells at its end."""
    notebook = handout.assignment(lesson)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in more]
    if not ids:  # as Colab and older Jupyter write it
        notebook.nbformat_minor = 4
        for cell in notebook.cells:
            cell.pop("id")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")


@pytest.fixture(scope="module")
def graded(first, tmp_path_factory):
    """The lines of points.csv by student, and the folder that it lies in."""
    folder, out = tmp_path_factory.mktemp("submissions"), tmp_path_factory.mktemp("out")
    name = first.path.name
    rename = {  # whatever people and their systems call a folder or a file, the answer is right
        unicodedata.normalize("NFD", "José"): name,
        "प्रिया": "x.ipynb.txt",
        "O'Brien": "X.IPYNB",
        "Doe, Jane": "01_dot_product_scores-Copy1.ipynb",
        "=cmd()": "deep/in/a folder/my work.ipynb",
    }
    for student, file in rename.items():
        hand_in(folder / student / file, first, SCORES, ids=student != "Doe, Jane")
    answers = {  # each below what IPython makes Python of
        "time": f"%%time\n{SCORES}\n{CHECK}",
        "capture": f"%%capture out\n{SCORES}",
        "help": f"my_scores?\n!echo hello\n%timeit -n1 -r1 1\n{SCORES}",
        "lambda": 'exercises.check("1a", lambda q, k: q @ k.transpose(-2, -1))',
        "overwritten": f"{SCORES}\n{CHECK}\n{WRONG}",
        "elsewhere": f"%%writefile my.py\n{SCORES}",
        "timeit": f"%%timeit -n1 -r1\n{SCORES}",
        "wrong": WRONG,
        "runs": "%run -i answers.py",
        "runs nothing": "%run ../runs/answers.py",
        "broken": "def my_scores(queries, keys:",
        "endless": "def my_scores(queries, keys):\n    while True:\n        pass",
        "sleeping": "import time\nmy_scores = time.sleep(1000)",
        "dying": "import os\nmy_scores = os._exit(0)",
        "exit": "my_scores = exit(3)",
        "evil": "def my_scores(queries, keys):\n    raise ValueError('<script>alert(1)</script>')",
    }
    for student, answer in answers.items():
        hand_in(folder / student / name, first, DOT, answer)
    (folder / "runs" / "answers.py").write_text(SCORES)
    hand_in(folder / ".dotted" / name, first, SCORES)
    (folder / "linked").mkdir()
    (folder / "linked" / name).symlink_to(folder / unicodedata.normalize("NFD", "José") / name)
    for student in ("utf-16", "damaged"):
        hand_in(folder / student / name, first, SCORES)
    whole = (folder / "utf-16" / name).read_text("utf-8")
    (folder / "utf-16" / name).write_text(whole, "utf-16")
    damaged = json.loads(whole)  # by a merge or a script: the other cells are as good as ever
    damaged["cells"] += ["no cell", {"cell_type": "code", "source": None}, {"cell_type": "code"}]
    del damaged["metadata"]
    (folder / "damaged" / name).write_text(json.dumps(damaged), "utf-8")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"{SCORES}\n{CHECK}")])
    (folder / "alone").mkdir()
    nbformat.write(notebook, folder / "alone" / "only the answer.ipynb")
    for stem, answer in (("a", WRONG), ("b", SCORES), ("c", "...")):
        hand_in(folder / "twice" / f"{stem}.ipynb", first, answer)
        os.utime(folder / "twice" / f"{stem}.ipynb", (1, 1))
    zipped = io.BytesIO()
    zipfile.ZipFile(zipped, "w").close()
    others = {
        "empty": {},
        "hidden": {".x.ipynb": b"{}"},
        "pdf": {"1.pdf": b"%PDF-1.7\xff"},
        "zip": {"1.zip": zipped.getvalue()},
        "tar": {"1.tar.gz": gzip.compress(tarfile.TarInfo("1.ipynb").tobuf())},
        "cut": {"1.gz": gzip.compress(b"half of a hand-in")[:-20]},
    }
    others["garbage"] = {f"x{text}.ipynb": text.encode() for text in ("{", "", "[]", '{"cells": 3}')}
    for student, files in others.items():
        (folder / student).mkdir()
        for file, content in files.items():
            (folder / student / file).write_bytes(content)
    (folder / "loose.ipynb").touch()
    short = dataclasses.replace(first, tasks=first.tasks[:3])
    grade.grade(folder, out, [short], seconds=4.0, jobs=2)
    with (out / "points.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = {line["student"].removeprefix("'"): line for line in csv.DictReader(file)}
    assert set(lines) == {path.name for path in folder.iterdir()}
    return lines, out


@pytest.mark.weekly  # it starts thirty processes
def test_a_right_answer_is_right_whatever_it_is_called_and_wherever_it_stands(graded):
    lines, out = graded
    right = {student for student, line in lines.items() if line["1a said"] == "right"}
    names = {unicodedata.normalize("NFD", "José"), "प्रिया", "O'Brien", "Doe, Jane", "=cmd()"}
    names |= {"damaged", "utf-16", "linked"}
    assert lines["=cmd()"]["student"] == "'=cmd()"  # no formula for a table program
    assert right == names | {
        "runs",
        "time",
        "capture",
        "help",
        "lambda",
        "overwritten",
        "alone",
        "twice",
    }
    assert {lines[student]["points"] for student in names} == {"2"}
    for student in right:
        assert (out / "feedback" / student / "01_dot_product_scores").is_dir()


@pytest.mark.weekly
def test_a_fault_costs_one_answer_and_says_why(graded):
    lines, out = graded
    verdicts = {student: line["1a said"] for student, line in lines.items()}
    assert verdicts["wrong"].startswith("not yet, rows and columns are exchanged: ")
    assert verdicts["broken"].startswith("not yet, its cell is no Python, line 1: ")
    assert "still at work after 4 seconds" in verdicts["endless"]
    assert "still at work after 4 seconds" in verdicts["sleeping"]
    assert verdicts["dying"] == "not yet, it ends the process that it runs in"
    assert verdicts["elsewhere"] == verdicts["timeit"] == "still to do"
    assert verdicts["runs nothing"] == "still to do, and this was not followed: %run ../runs/answers.py"
    assert verdicts["exit"].startswith("not yet, it ")
    page = out / "feedback" / "evil" / "01_dot_product_scores" / "01_dot_product_scores.html"
    text = page.read_text("utf-8")
    assert "alert(1)&lt;/script&gt;" in text and "<script>alert(1)" not in text
    assert {lines[student]["1b said"] for student in ("broken", "endless", "dying")} == {"right"}


@pytest.mark.weekly
def test_there_is_a_note_where_two_notebooks_are_or_none(graded):
    lines, _ = graded
    assert lines["twice"]["note"].startswith("3 notebooks, of which the better one counts: a.ipynb")
    assert lines["empty"]["note"] == "the folder is empty, but for hidden files"
    assert lines["hidden"]["note"] == lines["empty"]["note"]
    assert lines["pdf"]["note"] == "1.pdf is no notebook"
    assert lines["zip"]["note"] == "1.zip is an archive: unpack it"
    assert lines["tar"]["note"] == "1.tar.gz is an archive: unpack it"
    assert lines["cut"]["note"] == "1.gz is no notebook"
    assert "hidden" in lines[".dotted"]["note"] and lines[".dotted"]["points"] == "0"
    assert lines["linked"]["note"] == "01_dot_product_scores.ipynb is a link"
    assert lines["garbage"]["note"].endswith("is no notebook; and 1 more")
    assert "outside" in lines["loose.ipynb"]["note"]


def test_a_notebook_may_hold_two_lessons_and_what_is_missing_is_named(shipped, tmp_path):
    both = ["exercises.check('1a', my_scores)", "exercises.check('2a', my_softmax)"]
    for student, cells in {"both": both, "one": both[:1]}.items():
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
        (tmp_path / student).mkdir()
        nbformat.write(notebook, tmp_path / student / "homework.ipynb")
    hand_ins = [hand_in for student in ("both", "one") for hand_in in grade.read(tmp_path / student, shipped)]
    grade.note_missing(hand_ins)
    assert [(hand_in.student, hand_in.lesson.name[:2], hand_in.notes) for hand_in in hand_ins] == [
        ("both", "01", []),
        ("both", "02", []),
        ("one", "01", ["not handed in: 02_softmax_weights"]),
    ]


def test_a_folder_for_temporary_files_may_have_a_long_name(tmp_path):
    """A socket's name may not, and answers wait at one."""
    (tmp_path / ("x" * 120)).mkdir()
    words = (
        "import tools.classroom.process; from multiprocessing import connection;"
        "print(len(connection.arbitrary_address('AF_UNIX')))"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path / ("x" * 120))}
    process = subprocess.run([sys.executable, "-c", words], env=environment, stdout=-1, check=True)
    assert int(process.stdout) < 108


def test_steps_of_earlier_lessons_are_ours_and_what_is_asked_for_is_not(shipped):
    seventh = next(lesson for lesson in shipped if lesson.name == "07_transformer_block")
    block = """class MyBlock(nn.Module):
    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__()
        self.heads = MyHeads(C, num_heads)

    def forward(self, x):
        return x + self.heads(x)"""
    cells = [block, 'exercises.check("7f", MyGPT)']
    verdicts = {verdict.task.label: verdict for verdict in grade.judge_notebook(seventh, cells, 10.0)}
    assert verdicts["7b"].word == "not yet" and "NameError" not in verdicts["7b"].why
    assert verdicts["7f"].word == "missing"


@pytest.mark.parametrize(
    "arguments",
    [
        "student {0}",
        "student {0}/file",
        "student {0}/file/out",
        "student {0}/out --only 77",
        "grade {0}/in {0}/in/out",
        "grade {0}/none {0}/out",
        "grade {0}/in {0}/out --jobs 0",
    ],
)
def test_a_wrong_folder_is_refused_in_a_sentence_and_nothing_is_written(arguments, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="2"):
        commands.main(arguments.format(tmp_path).split())
    assert capsys.readouterr().err.startswith("error: ")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "in"]
