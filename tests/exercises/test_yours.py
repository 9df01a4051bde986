"""The reader's file: what is right is kept and runs alone, what isn't harms nothing."""

import linecache
import os
import runpy
import subprocess
import sys

import pytest
from exercise_answers import NOTEBOOKS, module_at
from jupyter_client.manager import start_new_kernel

import exercises
from exercises import yours
from exercises.yours import BY_LABEL, STEPS
from helpers import ROOT

SCORES = "def my_scores(queries, keys):\n    return queries @ keys.transpose(-2, -1)"
SOFTMAX = "# as in 02\ndef my_softmax(scores):\n    return torch.softmax(scores, dim=-1)"
CONTEXTS = "def my_contexts(queries, keys, values):\n    return my_softmax(my_scores(queries, keys)) @ values"
ATTENTION = """
def my_attention(query, key, value):
    weights = my_softmax(my_scores(query, key) / key.shape[-1] ** 0.5)
    return weights @ value, weights
"""
MASKED = """
INFINITE = math.inf

def my_attention(query, key, value, mask=None):
    scores = my_scores(query, key) / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -INFINITE)
    weights = my_softmax(scores)
    return weights @ value, weights
"""
ONE, TWO = ("1a", SCORES, "my_scores"), ("2a", SOFTMAX, "my_softmax")
THREE = ("2b", CONTEXTS, "my_contexts")
FOUR, FIVE = ("3a", ATTENTION, "my_attention"), ("4a", MASKED, "my_attention")


class Notebook:
    """A notebook whose cells run as IPython runs them: each has its own source, all share names."""

    def __init__(self):
        self.names, self.count = {"__name__": "__main__"}, 0
        self.run("import math\nimport torch\nfrom torch import nn")

    def run(self, source):
        self.count += 1
        name = f"<cell {id(self)} {self.count}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), self.names)

    def solve(self, *steps):
        for label, source, name in steps:
            self.run(source)
            exercises.check(label, self.names[name])


@pytest.fixture
def file(tmp_path, monkeypatch, unchecked):
    path = tmp_path / "mine" / "my_gpt.py"
    monkeypatch.setenv("MY_GPT", str(path))
    return path


@pytest.fixture
def notebook(file):
    return Notebook()


def ran_alone(file):
    return subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=file.parent)


# ---------------------------------------------------------------- kept
@pytest.mark.slow
def test_steps_are_kept_in_their_order_and_the_file_runs_alone(file, notebook, capsys):
    notebook.solve(TWO, ONE, THREE)
    text = file.read_text(encoding="utf-8")
    assert text.index("# 1a · ") < text.index("# 2a · ") < text.index("# 2b · ")
    assert "# as in 02\ndef my_softmax" in text and text.count("import torch\n") == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"2b: right; kept in {file}: 3 of 17 steps, ")
    assert ran_alone(file).returncode == 0


def test_an_empty_file_begins_as_a_new_one(file, notebook):
    notebook.solve(ONE)
    new = file.read_text("utf-8")
    file.write_text("", "utf-8")
    notebook.solve(ONE)
    assert file.read_text("utf-8") == new and "from torch import nn" in new


def test_what_was_mended_by_hand_is_not_lost_when_its_cell_is_run_again(file, notebook):
    notebook.solve(ONE)
    notebook.solve(ONE)
    assert not file.with_name("my_gpt.py.before").exists()
    mended = file.read_text(encoding="utf-8").replace("queries @ keys", "keys.new_ones(()) * queries @ keys")
    file.write_text(mended, encoding="utf-8")
    notebook.solve(ONE)
    assert file.with_name("my_gpt.py.before").read_text(encoding="utf-8") == mended
    assert "new_ones" not in file.read_text(encoding="utf-8")


def test_what_is_wrong_or_no_step_or_where_nobody_reads_is_not_kept(file, notebook, monkeypatch):
    notebook.solve(("1a", "my_scores = lambda q, k: q", "my_scores"), ("3d", "s = 12", "s"))
    monkeypatch.delenv("MY_GPT")
    notebook.solve(ONE)
    assert not file.exists()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "from exercises.n01 import scores\nmy_scores = scores",
            "elsewhere",
        ),
        ("mine = SCORE\ndef my_scores(q, k):\n    return mine(q, k)", "must stand in its own cell"),
        ("import exercises as e\ndef my_scores(q, k):\n    e\n    return q @ k.mT", "its own cell"),
    ],
)
def test_what_cannot_run_alone_is_right_and_not_kept(source, why, file, notebook, capsys):
    notebook.run("def SCORE(q, k):\n    return q @ k.transpose(-2, -1)")
    notebook.solve(("1a", source, "my_scores"))
    line = capsys.readouterr().out
    assert line.startswith("1a: right; not kept: ") and why in line and not file.exists()


def test_what_pytorch_wraps_is_kept(file, notebook):
    source = "import torch\n@torch.no_grad()\ndef my_scores(q, k):\n    return q @ k.transpose(-2, -1)"
    notebook.solve(("1a", source, "my_scores"))
    assert "@torch.no_grad()\ndef my_scores" in file.read_text(encoding="utf-8")


def test_attention_grows_in_its_place_and_is_not_put_back(file, notebook, capsys):
    notebook.solve(ONE, TWO, FOUR, FIVE)
    text = file.read_text(encoding="utf-8")
    assert "# 3a" not in text and text.count("def my_attention") == 1 and "INFINITE" in text
    assert "4 of 17 steps" in capsys.readouterr().out.splitlines()[-1]
    notebook.solve(FOUR)
    assert "not kept: in your file stands what it grew into" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == text


def test_a_step_that_would_break_another_is_not_kept(file, notebook, capsys):
    notebook.solve(ONE, TWO, THREE)
    before = file.read_text(encoding="utf-8")
    scaled = SCORES + " / keys.shape[-1] ** 0.5"
    attention = ATTENTION.replace(" / key.shape[-1] ** 0.5", "")
    capsys.readouterr()
    notebook.solve(("3a", scaled + "\n" + attention, "my_attention"))
    assert "3a: right; not kept: read back from the file, 1a is not yet" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == before


def test_what_the_reader_writes_into_the_file_stays(file, notebook):
    notebook.solve(ONE)
    text = file.read_text(encoding="utf-8").replace("import math", "import math  # mine")
    file.write_text(text.replace("return queries", "# I see\n    return queries"), encoding="utf-8")
    notebook.solve(TWO)
    text = file.read_text(encoding="utf-8")
    assert "import math  # mine" in text and "# I see" in text and "my_softmax" in text


@pytest.mark.slow
def test_a_section_of_the_readers_own_stays_where_it_is(file, notebook):
    notebook.solve(ONE)
    mine = "# mine · what I tried\ndef mine(x):\n    return x"
    file.write_text(file.read_text(encoding="utf-8").rstrip() + f"\n\n\n{mine}\n", encoding="utf-8")
    notebook.solve(TWO)
    text = file.read_text(encoding="utf-8")
    assert text.index("# 1a · ") < text.index(mine) < text.index("# 2a · ")
    assert yours.solved(yours.read(file)) == ["1a", "2a"] and ran_alone(file).returncode == 0


def test_a_value_with_a_type_is_kept_like_one_without():
    assert yours.definitions("EPS: float = 1e-5\nprint(EPS)") == "EPS: float = 1e-5"


@pytest.mark.slow
def test_a_file_of_the_first_edition_is_read(file, notebook):
    file.parent.mkdir()
    file.write_text(
        '"""My GPT. I built it.\n\nSolved: 1a.\n"""\n\n\nimport torch\n\n\n'
        f"# 1a · scores: every query meets every key\n{SCORES}\n",
        encoding="utf-8",
    )
    notebook.solve(TWO)
    assert yours.solved(yours.read(file)) == ["1a", "2a"] and ran_alone(file).returncode == 0


@pytest.mark.parametrize("text", ["def (", "1 / 0", b"\xff\xfe\xff".decode("latin-1")])
def test_a_file_that_is_no_python_is_left_as_it_is(text, file, notebook, capsys):
    file.parent.mkdir()
    file.write_text(text, encoding="latin-1")
    notebook.solve(ONE)
    assert "1a: right; not kept: " in capsys.readouterr().out
    assert file.read_text(encoding="latin-1") == text
    assert yours.parts() == {} and capsys.readouterr().out


# ---------------------------------------------------------------- used by later lessons
def test_a_lesson_runs_on_what_is_in_the_file_and_says_so(file, notebook, capsys):
    ours = lambda q, k: 0  # noqa: E731
    assert yours.run(lambda f: f.__name__, my_scores=ours) == ("<lambda>", "our")
    notebook.solve(ONE, TWO)
    assert yours.run(lambda f: f.__name__, my_scores=ours) == ("my_scores", "your")
    assert yours.part("my_softmax", ours)[1] == "your" and yours.part("my_write", 3) == (3, "our")
    assert yours.run(lambda *f: len(f), my_scores=ours, my_write=ours) == (2, "our")
    capsys.readouterr()
    yours.show("my_scores")
    yours.show("my_write")
    assert capsys.readouterr().out == f"{SCORES}\n`my_write` isn't in your file yet\n"


def test_a_part_that_fails_or_never_ends_gives_way_to_ours(file, notebook, capsys):
    notebook.solve(ONE)

    def work(scores):
        if scores.__name__ == "my_scores":
            raise ValueError("no")
        return "done"

    ours = lambda q, k: 0  # noqa: E731
    assert yours.run(work, my_scores=ours) == ("done", "our")
    assert "`my_scores` in your file: it raises ValueError: no: here is ours" in capsys.readouterr().out

    def endless(scores):
        while scores.__name__ == "my_scores":
            pass
        return "done"

    assert yours.run(endless, seconds=0.2, my_scores=ours) == ("done", "our")
    assert "took longer than 0.2 seconds" in capsys.readouterr().out
    file.write_text(file.read_text(encoding="utf-8").replace("-2, -1", "-1, -2"), encoding="utf-8")
    yours.run(lambda f: f, my_scores=ours)
    file.write_text(file.read_text(encoding="utf-8").replace("@", "+"), encoding="utf-8")
    assert yours.run(lambda f: 1, my_scores=ours) == (1, "our")
    assert "`my_scores` in your file is not yet, " in capsys.readouterr().out


def test_the_next_step_is_named(file, notebook, tmp_path):
    for name in ("01_dot_product_scores.ipynb", "02_softmax_weights.ipynb"):
        (tmp_path / name).touch()
    assert yours.next_step(tmp_path).startswith("**Start with [lesson 00](01_dot_product_scores.ipynb)")
    notebook.solve(ONE)
    assert yours.next_step(tmp_path).startswith("**Next:** [2a](02_softmax_weights.ipynb), softmax")


def test_a_step_pays_out_with_a_link_to_the_file(file, notebook, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda output: shown.append(output.data))
    monkeypatch.setattr(yours, "_shell", object)
    notebook.solve(ONE)
    (said,) = shown
    assert said.startswith("✅ Your GPT has **scores**: every query meets every key. It is step 1 of 17 in [my_gpt.py]")
    assert "**Next:** [2a](" in said


# ---------------------------------------------------------------- as a whole
PAGE = module_at(NOTEBOOKS / "solutions" / "my_gpt.py")
ON_THE_PAGE = [step.label for step in STEPS if all(hasattr(PAGE, name) for name in step.names)]


@pytest.mark.slow
@pytest.mark.parametrize("label", [label for label in ON_THE_PAGE if label not in ("3a", "7f")])
def test_the_page_of_the_solution_is_right_step_by_step(label, verdict):
    """But for what has grown into a later step."""
    parts = tuple(getattr(PAGE, name) for name in BY_LABEL[label].names)
    assert verdict(label, parts if len(parts) > 1 else parts[0]) == "right"


def test_the_whole_file_says_what_is_wrong_with_a_text(file, tmp_path, monkeypatch):
    steps = {"": yours.HEAD, "7f": "MyGPT = None", "8b": "", "8g": "", "9h": ""}
    file.parent.mkdir()
    file.write_text(yours.written(steps), encoding="utf-8")
    (tmp_path / "short.txt").write_text("to be", encoding="utf-8")
    (tmp_path / "utf16.txt").write_text(1000 * "to be", encoding="utf-16")
    monkeypatch.chdir(tmp_path)
    for words, names in {
        "name a text file": [],
        "can't read nowhere.txt": ["nowhere.txt"],
        "short.txt is too short": ["short.txt"],
        "can't read utf16.txt": ["utf16.txt"],
    }.items():
        monkeypatch.setattr(sys, "argv", [str(file), *names])
        with pytest.raises(SystemExit, match=words):
            runpy.run_path(str(file), run_name="__main__")


CELLS = """
import torch
import exercises
def my_softmax(x):
    return torch.softmax(x, dim=-1)
exercises.check("2a", my_softmax)
"""


@pytest.mark.slow
def test_a_kernel_keeps_what_a_person_solves_and_nothing_else(tmp_path):
    """A front end that can ask its user is a person's."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(ROOT), env=dict(os.environ))
    try:
        file = tmp_path / "my_gpt.py"
        place = f"import pathlib; from exercises import yours; yours.PLACE = pathlib.Path({str(file)!r})"
        for allow in (False, True):
            client.execute_interactive(place, timeout=120, allow_stdin=allow)
            client.execute_interactive(CELLS, timeout=120, allow_stdin=allow)
            assert file.exists() == allow
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
