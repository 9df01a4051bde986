"""Forty submissions in one command, ten of them hostile: nothing that one does loses or changes another's result."""

import csv
import importlib.util
import os
import shutil
import subprocess
import sys

import hostile
import psutil
import pytest
import submissions

from tools.classroom import jail, judging
from tools.classroom.assignments import ROOT, lessons
from tools.classroom.grade import digest

# What a grader of 01 names, and the answer that it means.
MISTAKES = {
    "1a": {
        "keys @ queries.T": "rows and columns are exchanged",
        "queries * keys": "",
        "queries @ keys": "the keys must be turned on their side",
        "(queries @ keys.transpose(-2, -1)).softmax(-1)": "it gives weights",
        "queries @ keys.T": "right for a table, but with more dimensions",
        "nobody(queries)": "it raises NameError: name 'nobody' is not defined",
    },
    "1b": {
        "length_a * length_b": "that holds only for vectors of one direction",
        "length_sum**2 - length_a**2 - length_b**2": "divide by 2",
        "(length_sum - length_a - length_b) / 2": "lengths must be squared first",
    },
    "1c": {
        "i": "it chooses the vector itself",
        "(vectors @ vectors[i]).argmax()": "the vector itself still takes part",
        "print(i)": "it returns nothing",
    },
}
HEADS = {
    "1a": "def my_scores(queries, keys):",
    "1b": "def my_dot(length_a, length_b, length_sum):",
    "1c": "def my_nearest(i, vectors):",
}
TEN = (
    "endless",
    "dying",
    "killing",
    "flooding",
    "flooding its grader",
    "deleting",
    "forking",
    "eating memory",
    "reading others",
    "printing right",
)


@pytest.mark.torture
def test_forty_submissions_ten_of_them_hostile(tmp_path):
    if importlib.util.find_spec("nbgrader") is None:
        pytest.skip("`make classroom` has not been run")
    (tmp_path / "try").mkdir()
    if not jail.walls(tmp_path / "try"):
        pytest.skip("this system gives no walls, and some of these would be let loose")
    lesson, place = lessons()["01"], tmp_path / "submissions"
    right = submissions.solved(lesson)
    expected: dict[str, tuple[int, str, str]] = {}  # points, an exercise, and what is said of it

    def hand_in(student: str, answers: dict[str, str], points: int, label: str, said: str, *more: str) -> None:
        submissions.write(place, student, lesson, submissions.handed_in(lesson, answers, *more))
        expected[student] = (points, label, said)

    for number in range(10):
        hand_in(f"good {number}", right, 8, "1a", "right")
    for number in range(8):
        hand_in(f"stub {number}", {}, 0, "1b", "still to do")
    wrong = [(label, body, said) for label, them in MISTAKES.items() for body, said in them.items()]
    for number, (label, body, said) in enumerate(wrong):
        hand_in(f"wrong {number}", right | {label: f"{HEADS[label]}\n    return {body}"}, 6, label, said)
    for name in TEN:
        answer, said = hostile.SCORES[name]
        more = "exercises.check = print\nprint('1a: right')\nwhile True:\n    pass"
        hand_in(f"hostile {name}", right | {"1a": answer.replace("PLACE", str(place))}, 6, "1a", said, more)
    assert len(expected) == 40

    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "mine").write_text("mine")
    watched = [place, beside, ROOT / "helpers", ROOT / "tools", ROOT / "notebooks", ROOT / "tests"]
    shutil.rmtree(tmp_path / "try")
    jails = tmp_path / "jails"  # where the folders of all jails will lie
    jails.mkdir()
    before = digest(watched)
    done = subprocess.run(
        [sys.executable, "-m", "tools.classroom", "grade", "--jobs", "2"],
        cwd=ROOT,
        env=os.environ | {"SUBMISSIONS": str(place), "OUT": str(tmp_path / "out"), "TMPDIR": str(jails)},
        capture_output=True,
        text=True,
    )
    print(done.stderr, done.stdout)
    assert done.returncode == 0, done.stderr
    assert digest(watched) == before and not list(jails.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"jails", "submissions", "beside", "out"}
    running = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert not [words for words in running if any(str(jails) in word for word in words)]
    with (tmp_path / "out" / "points.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = {line["student"]: line for line in csv.DictReader(file)}
    assert set(lines) == set(expected)
    bad = []
    for student, (points, label, said) in expected.items():
        line = lines[student]
        if int(line["points"]) != points or said not in line[f"{label} said"]:
            bad.append((student, line["points"], line[f"{label} said"]))
        assert (tmp_path / "out" / "feedback" / student / lesson.name / f"{lesson.name}.html").is_file()
    assert not bad
    assert "while this was graded" not in done.stderr


@pytest.mark.torture
@pytest.mark.parametrize("name", hostile.LAYERS)
def test_checks_that_judge_beside_an_answer_are_not_rewritten_for_points(name, tmp_path):
    (tmp_path / "try").mkdir()
    if not jail.walls(tmp_path / "try"):
        pytest.skip("this system gives no walls, and some of these would be let loose")
    lesson = lessons()["04"]
    room = judging.Room(jail.copy_of_the_code(ROOT, tmp_path / "code"), True, (), jail.Limits(answer=20))
    answers = submissions.solved(lesson) | {"4g": hostile.LAYERS[name]}
    cells = [cell.source for cell in submissions.handed_in(lesson, answers).cells if cell.cell_type == "code"]
    said = {each.task.label: each.verdict.word for each in judging.judged(lesson, cells, room)}
    assert said.pop("4g") == "not yet" and set(said.values()) == {"right"}


@pytest.mark.torture
@pytest.mark.parametrize("number", lessons())
def test_every_solution_is_right_in_its_jail_and_every_stub_still_to_do(number, tmp_path):
    (tmp_path / "try").mkdir()
    lesson, code = lessons()[number], jail.copy_of_the_code(ROOT, tmp_path / "code")
    earlier = ROOT / "notebooks" / "solutions" / "my_gpt.py"
    room = judging.Room(code, jail.walls(tmp_path / "try"), (), jail.Limits(20.0, 600), earlier)
    for answers, word in ((submissions.solved(lesson), "right"), ({}, "still to do")):
        cells = [cell.source for cell in submissions.handed_in(lesson, answers).cells if cell.cell_type == "code"]
        said = {each.task.label: each.verdict.word for each in judging.judged(lesson, cells, room)}
        assert set(said.values()) == {word}, said
