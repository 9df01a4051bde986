"""The reader's file: what is right is kept and runs alone, what isn't harms nothing, and a lesson goes on."""

import linecache
import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from exercise_answers import NOTEBOOKS, module_at
from jupyter_client.manager import start_new_kernel

import exercises
from exercises import growing, yours
from exercises.steps import STEPS
from helpers import errors
from helpers.errors import RunError

SCORES = "def my_scores(queries, keys):\n    return queries @ keys.transpose(-2, -1)\n"
SOFTMAX = "def my_softmax(scores):\n    return torch.softmax(scores, dim=-1)\n"
CONTEXTS = (
    "def my_contexts(queries, keys, values):\n    return my_softmax(my_scores(queries, keys)) @ values  # as in 02\n"
)
ATTENTION = """
def my_attention(query, key, value):
    weights = my_softmax(my_scores(query, key) / key.shape[-1] ** 0.5)
    return weights @ value, weights
"""
MASKED = """
def my_attention(query, key, value, mask=None):
    scores = my_scores(query, key) / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -INFINITE)
    weights = my_softmax(scores)
    return weights @ value, weights
"""


class Notebook:
    """A notebook whose cells are run as IPython runs them: each has its own source, all share their names."""

    def __init__(self):
        self.names = {"__name__": "__main__", "In": []}
        self.run("import math\nimport torch\nfrom torch import nn\nINFINITE = math.inf")

    def run(self, source):
        name = f"<cell {id(self)} {len(self.names['In'])}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        self.names["In"].append(source)
        exec(compile(source, name, "exec"), self.names)

    def check(self, label, name):
        exercises.check(label, self.names[name])

    def solve(self, *steps):
        for label, source, name in steps:
            self.run(source)
            self.check(label, name)


ONE = ("1a", SCORES, "my_scores")
TWO = ("2a", SOFTMAX, "my_softmax")
THREE = ("2b", CONTEXTS, "my_contexts")
FOUR = ("3a", ATTENTION, "my_attention")
FIVE = ("4a", MASKED, "my_attention")


@pytest.fixture
def file(tmp_path, monkeypatch, unchecked):
    path = tmp_path / "mine" / "my_gpt.py"
    monkeypatch.setenv("MY_GPT", str(path))
    return path


@pytest.fixture
def notebook(file):
    return Notebook()


def text(path):
    return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- what is right is kept
def test_a_solved_step_is_kept_and_the_line_says_how_far_the_file_is(file, notebook, capsys):
    notebook.solve(ONE)
    assert capsys.readouterr().out == f"1a: right; kept in {file}: 1 of {len(STEPS)} steps, 9 lines\n"
    assert SCORES in text(file) and len(text(file).splitlines()) == 9


def test_what_is_wrong_or_no_step_is_not_kept(file, notebook, capsys):
    notebook.run("def my_scores(queries, keys):\n    return queries + 1\n")
    notebook.check("1a", "my_scores")
    notebook.run("def my_dot(a, b, s):\n    return (s**2 - a**2 - b**2) / 2\n")
    notebook.check("1b", "my_dot")
    assert "kept" not in capsys.readouterr().out and not file.exists()


def test_where_nobody_reads_nothing_is_kept_and_ours_does_the_work(tmp_path, monkeypatch, unchecked, capsys):
    """Papermill, nbval and CI: their kernels can't be asked for input."""
    monkeypatch.delenv("MY_GPT", raising=False)
    monkeypatch.setattr(growing, "PLACE", tmp_path / "my_gpt.py")
    Notebook().solve(ONE)
    assert yours.run(lambda my_scores: my_scores(2), my_scores=lambda x: x + 1) == (3, "our")
    assert capsys.readouterr().out == "1a: right\n" and not list(tmp_path.iterdir())


def test_an_answer_is_kept_with_all_that_it_uses(file, notebook):
    notebook.run("LARGE = (1.0, None)\n\n\ndef root(x):\n    return math.sqrt(x) * LARGE[0]\n")
    notebook.run("from torch import softmax as shares")
    notebook.solve(
        ("2a", "def my_softmax(scores):\n    return shares(scores, -1)\n", "my_softmax"),
        (
            "3a",
            "def my_attention(q, k, v):\n    w = my_softmax(q @ k.mT / root(k.shape[-1]))\n    return w @ v, w\n",
            "my_attention",
        ),
    )
    told = text(file)
    assert "import math\n" in told and "from torch import softmax as shares\n" in told
    assert told.index("LARGE = (1.0, None)") < told.index("def root") < told.index("def my_attention")
    query, key, value = torch.randn(3, 2, 4, 5)
    mine, _ = growing.loaded(told, file).my_attention(query, key, value)
    assert torch.allclose(mine, torch.nn.functional.scaled_dot_product_attention(query, key, value), atol=1e-6)


def test_it_may_be_written_under_another_name_or_as_a_lambda(file, notebook):
    notebook.run("def f(q, k):\n    return q @ k.mT\n\n\ng = lambda scores: torch.softmax(scores, -1)")
    notebook.check("1a", "f")
    notebook.check("2a", "g")
    module = growing.loaded(text(file), file)
    assert module.my_scores(torch.ones(1, 3), torch.ones(2, 3)).tolist() == [[3, 3]]
    assert module.my_softmax(torch.zeros(4)).tolist() == [0.25] * 4


KEPT = {
    "a dataclass": "from dataclasses import dataclass\n\n\n@dataclass\nclass Sizes:\n    width: int = 3\n",
    "a class that only names another": "class Base:\n    width = 3\n\n\nclass Sizes(Base):\n    pass\n",
    "a name that ours had": "from helpers.gpt import GPTConfig as Sizes\n\n\nclass Sizes:\n    width = 3\n",
    "a guard": "class Sizes:\n    width = 3 if __name__ else 4\n",
    "a star": "from torch import *\n\n\nclass Sizes:\n    width = ones(3).numel()\n",
}


@pytest.mark.parametrize("what", KEPT)
def test_what_people_write_around_an_answer_is_kept(what, file, notebook, capsys):
    notebook.run(KEPT[what])
    text_ = "text = 7\n\n\ndef my_scores(q, k):\n    assert Sizes().width == 3 and text\n    return q @ k.mT\n"
    notebook.solve(("1a", text_, "my_scores"))
    assert "kept in" in capsys.readouterr().out and "class Sizes" in text(file) and "__name__ =" not in text(file)


REFUSED = {
    "from helpers.attention import attention\n\n\ndef my_scores(q, k):\n    attention\n    return q @ k.mT\n": (
        "`attention` is ours"
    ),
    "import numpy\n\n\ndef my_scores(q, k):\n    numpy\n    return q @ k.mT\n": "nothing but PyTorch",
    "table = torch.ones(3)\n\n\ndef my_scores(q, k):\n    table\n    return q @ k.mT\n": "a value of this notebook",
    "my_scores = type('Q', (), {'__call__': lambda self, q, k: q @ k.mT})()": "written with `def` or `class`",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_run_alone_is_right_and_not_kept(source, file, notebook, capsys):
    notebook.solve(("1a", source, "my_scores"))
    said = capsys.readouterr().out
    assert said.startswith("1a: right; not kept: ") and REFUSED[source] in said and not file.exists()


# ---------------------------------------------------------------- it grows
def test_attention_grows_in_its_place_and_what_it_grew_out_of_goes(file, notebook):
    notebook.solve(ONE, TWO, THREE, FOUR)
    assert "my_contexts" not in text(file) and "Solved: 1a, 2a, 2b, 3a." in text(file)
    notebook.solve(FIVE)
    assert text(file).count("def my_attention") == 1 and "mask=None" in text(file)
    assert "Solved: 1a, 2a, 2b, 3a, 4a." in text(file) and 'INFINITE = float("inf")' in text(file)


def test_a_later_step_counts_for_those_that_it_grew_out_of(file, notebook, capsys):
    notebook.solve(ONE, TWO, FIVE)
    assert "5 of" in capsys.readouterr().out.splitlines()[-1]


def test_a_step_that_would_break_another_is_not_kept(file, notebook, capsys):
    """Right by itself, but a later step calls it by the names that its inputs had."""
    by_name = CONTEXTS.replace("my_scores(queries, keys)", "my_scores(queries=queries, keys=keys)")
    notebook.solve(ONE, TWO, ("2b", by_name, "my_contexts"))
    before = text(file)
    capsys.readouterr()
    notebook.solve(("1a", "def my_scores(q, k):\n    return q @ k.mT\n", "my_scores"))
    said = capsys.readouterr().out
    assert said.startswith("1a: right; not kept: with it, your 2b would be not yet, ") and text(file) == before


def test_a_step_that_has_been_outgrown_is_not_put_back(file, notebook, capsys):
    notebook.solve(ONE, TWO, FIVE)
    before = text(file)
    capsys.readouterr()
    notebook.solve(FOUR)
    said = capsys.readouterr().out
    assert said == "3a: right; not kept: in your file stands what it grew into, your 4a, which can do more\n"
    assert text(file) == before


def test_what_the_reader_writes_into_the_file_stays(file, notebook):
    notebook.solve(ONE)
    file.write_text(text(file) + "\n\n# mine\ndef extra():\n    return 7\n\n\nprint  # nothing\n", encoding="utf-8")
    notebook.solve(TWO)
    assert "# mine\ndef extra():\n    return 7\n" in text(file) and text(file).rstrip().endswith("print  # nothing")
    assert str(growing.parsed(text(file))) == text(file)


ROOTS = "LARGE = 1.0\n\n\ndef root(x):\n    return math.sqrt(x) * LARGE\n"
BY_ROOTS = ("3a", ATTENTION.replace("key.shape[-1] ** 0.5", "root(key.shape[-1])"), "my_attention")


def test_what_only_the_code_before_used_goes_with_it(file, notebook):
    notebook.run(ROOTS)
    notebook.solve(ONE, TWO, BY_ROOTS)
    assert all(words in text(file) for words in ("def root", "LARGE", "import math\n"))
    notebook.solve(FOUR)
    assert not any(words in text(file) for words in ("def root", "LARGE", "import math\n"))
    assert "def my_scores" in text(file) and "def my_softmax" in text(file)


def test_what_the_reader_wrote_by_hand_stays_with_all_that_it_uses(file, notebook):
    notebook.run(ROOTS)
    notebook.solve(ONE, TWO, BY_ROOTS)
    by_hand = "import random\n\n\ndef luck():\n    return root(4)\n\n\nif luck() < 1:\n    print(LARGE)\n"
    file.write_text(f"{text(file)}\n\n{by_hand}", encoding="utf-8")
    notebook.solve(FOUR)
    assert all(
        words in text(file) for words in ("def root", "LARGE = 1.0", "import math\n", "import random\n", by_hand[15:])
    )


def test_what_is_used_stands_before_what_uses_it():
    grown = growing.Grown(parts={"last": "last = first + 1", "first": "first = 1"})
    assert growing.loaded(str(grown), growing.PLACE).last == 2


@pytest.mark.weekly
def test_two_notebooks_at_once_lose_nothing(file):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=solve_alone, args=(step,)) for step in (ONE, TWO)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert "Solved: 1a, 2a." in text(file) and sorted(p.name for p in file.parent.iterdir() if p != file) == [
        ".my_gpt.py.lock"
    ]


def solve_alone(step):
    Notebook().solve(step)


# ---------------------------------------------------------------- later notebooks run on it
def test_a_notebook_gets_what_stands_in_the_file(file, notebook, capsys):
    notebook.solve(ONE, TWO)
    capsys.readouterr()
    assert set(yours.parts()) == {"my_scores", "my_softmax"}
    assert capsys.readouterr().out == "from your file: my_scores, my_softmax\n"
    yours.show("my_scores")
    yours.show("MyGPT")
    assert capsys.readouterr().out == f"{SCORES}`MyGPT` isn't in your file yet\n"
    again = Notebook()
    again.names |= yours.parts()
    again.solve(THREE)  # which stands on those of the file
    assert "Solved: 1a, 2a, 2b." in text(file)


def test_where_a_part_is_missing_ours_does_all_of_it(file, notebook):
    notebook.solve(ONE)
    ours = {"my_scores": lambda q, k: "our scores", "my_softmax": lambda scores: "our softmax"}
    assert yours.run(lambda s, w: (s(1, 2), w(3)), **ours) == (("our scores", "our softmax"), "our")
    assert yours.run(lambda s: s(torch.ones(1, 2), torch.ones(1, 2)).item(), my_scores=None) == (2.0, "your")


BROKEN = {
    "it has become wrong": ("    return queries @ keys", "    return queries - keys", "in your file is not yet, "),
    "it raises now": ("    return queries @ keys", "    return 1 / 0 + keys", "ZeroDivisionError"),
    "it is no Python": ("    return queries @", "    return queries @@", "is no Python"),
    "it leaves": ("import torch", "import torch\nraise SystemExit", "doesn't run"),
    "it never ends": ("import torch", "import torch\nwhile True:\n    pass", "doesn't come to its end"),
    "it doesn't run": ("import torch", "import torch\n1 / 0", "doesn't run"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_part_that_has_become_unusable_gives_way_to_ours_with_one_sentence(
    fault, file, notebook, capsys, monkeypatch
):
    notebook.solve(ONE, TWO)
    old, new, words = BROKEN[fault]
    monkeypatch.setattr(growing, "SECONDS", 2.0)
    file.write_text(text(file).replace(old, new), encoding="utf-8")
    capsys.readouterr()
    assert yours.run(lambda my_scores: 1, my_scores=None) == (1, "our")
    said = capsys.readouterr().out
    assert words in said and said.endswith("so here is what ours does:\n") and said.count("\n") == 1


def test_a_part_that_fails_or_never_ends_in_a_lesson_gives_way_to_ours(file, notebook, capsys):
    notebook.solve(ONE)
    capsys.readouterr()

    def work(part):
        return part.fails() if part is not ours else "ours"

    ours = object()
    assert yours.run(work, my_scores=ours) == ("ours", "our")
    assert "AttributeError" in capsys.readouterr().out
    assert yours.run(lambda part: "ours" if part is ours else time.sleep(20), seconds=0.2, my_scores=ours)[1] == "our"
    assert "took longer than 0.2 seconds" in capsys.readouterr().out


def test_a_function_of_yours_is_called_until_it_fails_and_then_ours(file, notebook, capsys):
    notebook.solve(ONE)
    part = yours.Part("my_scores", lambda *_: "ours")
    assert part.whose == "your" and part(torch.ones(1, 2), torch.ones(1, 2)).item() == 2
    capsys.readouterr()
    assert part("no tensor", None) == "ours" and part.whose == "our"
    assert capsys.readouterr().out.count("\n") == 1 and part(torch.ones(1, 2), torch.ones(1, 2)) == "ours"


def test_a_function_of_yours_has_so_many_seconds_for_all_its_calls(file, notebook, capsys):
    notebook.solve(ONE)
    part = yours.Part("my_scores", lambda *_: "ours", seconds=0.5)
    part.yours = lambda: time.sleep(0.2)
    capsys.readouterr()
    assert [part() for _ in range(4)] == [None, None, "ours", "ours"]
    assert "has taken too long, so ours does the work from here on" in capsys.readouterr().out


def test_a_deleted_file_harms_nothing(file, notebook, capsys):
    notebook.solve(ONE)
    file.unlink()
    assert yours.parts() == {} and yours.progress() == ([], "")
    assert yours.run(lambda part: part, my_scores="ours") == ("ours", "our")
    notebook.solve(TWO)
    assert "1 of" in capsys.readouterr().out.splitlines()[-1]


def test_a_file_that_cannot_be_read_or_written_is_left_as_it_is(file, notebook, monkeypatch, capsys):
    notebook.solve(ONE)
    file.write_text("def (", encoding="utf-8")
    notebook.solve(TWO)
    assert "line 1, is no Python" in capsys.readouterr().out and text(file) == "def ("
    file.unlink()

    def full(*_):
        raise RunError("can't write: the disk is full")

    monkeypatch.setattr(errors, "write", full)
    notebook.solve(TWO)
    assert capsys.readouterr().out.endswith("2a: right; not kept: can't write: the disk is full\n")


# ---------------------------------------------------------------- the whole file
def page():
    return module_at(NOTEBOOKS / "solutions" / "my_gpt.py")


def answer(step, module):
    found = tuple(getattr(module, name) for name in step.answer)
    return found if len(found) > 1 else found[0]


ON_THE_PAGE = [step for step in STEPS if all(hasattr(page(), name) for name in step.answer)]


def test_the_page_of_the_solution_has_every_step_that_nothing_grew_out_of():
    grown = {earlier for step in STEPS for earlier in step.grew}
    assert {step.label for step in STEPS} - {step.label for step in ON_THE_PAGE} <= grown
    source = (NOTEBOOKS / "solutions" / "my_gpt.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 160 and "helpers" not in source


@pytest.mark.slow
@pytest.mark.parametrize("step", ON_THE_PAGE, ids=[step.label for step in ON_THE_PAGE])
def test_the_page_of_the_solution_is_right_step_by_step(step, verdict):
    assert verdict(step.label, answer(step, page())) == "right"


@pytest.mark.slow
def test_with_all_steps_solved_the_file_learns_and_writes_without_this_project(file, tmp_path, monkeypatch, capsys):
    for step in ON_THE_PAGE:
        exercises.check(step.label, answer(step, page()))
    assert f"{len(STEPS)} of {len(STEPS)} steps" in capsys.readouterr().out.splitlines()[-1]
    (tmp_path / "corpus.txt").write_text("to be or not to be\n" * 100, encoding="utf-8")
    short = tmp_path / "alone" / "my_gpt.py"
    short.parent.mkdir()
    small = (
        text(file)
        .replace("tokens, 2000, 12,", "tokens, 200, 12,")
        .replace("n_layer=4, n_head=4, n_embd=128", "1, 2, 32")
    )
    short.write_text(
        small.replace("context_length=64, 1", "16, 1").replace("[:1], 500,", "[:1], 60,"), encoding="utf-8"
    )
    said = alone(short, tmp_path / "corpus.txt")
    assert "step   200  loss" in said.stdout and " be" in said.stdout and said.returncode == 0
    for words, refusal in (([], "name a text file"), (["gone.txt"], "can't read gone.txt")):
        monkeypatch.setattr(sys, "argv", [str(short), *words])
        with pytest.raises(SystemExit, match=refusal):
            runpy.run_path(str(short), run_name="__main__")


def alone(*command):
    """Python without this package: isolated, and in another folder."""
    environment = {name: value for name, value in os.environ.items() if name != "MY_GPT"}
    compiled = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []  # -I doesn't hear of it
    blocked = "import sys; sys.modules['helpers'] = None; import runpy; sys.argv = sys.argv[1:]; "
    blocked += "runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-I", *compiled, "-c", blocked, *map(str, command)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(command[0]).parent,
    )


# ---------------------------------------------------------------- who is there
@pytest.mark.slow
def test_a_kernel_keeps_what_a_person_solves_and_nothing_that_papermill_or_nbval_run(tmp_path):
    """JupyterLab lets a cell ask for input; nbclient, under papermill and nbval, doesn't."""
    manager, client = start_new_kernel(kernel_name="python3")
    told = []

    def run(source, person):
        told.clear()
        client.execute_interactive(
            source,
            allow_stdin=person,
            output_hook=lambda message: told.append(message["content"].get("text", "")),
            timeout=60,
        )
        return "".join(told)

    try:
        place = f"growing.PLACE = Path({str(tmp_path)!r}, 'm.py')"
        run(f"from pathlib import Path\nfrom exercises import growing\n{place}", person=True)
        cell = f"{SCORES}\nimport exercises\nexercises.check('1a', my_scores)"
        assert run(cell, person=False) == "1a: right\n" and not list(tmp_path.iterdir())
        assert "1a: right; kept in mine/my_gpt.py: 1 of" in run(cell, person=True)
        assert SCORES in text(tmp_path / "m.py")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
