"""What may stand behind NB= and P= in `make run`, and what happens to anything else."""

import shlex
from pathlib import Path

import nbformat
import parameters
import pytest

import notebooks
from helpers.errors import command

ROOT = Path(__file__).parents[2]

SETTINGS = """\
preset = "laptop"  # text
corpus_path: str | None = None  # text or None
max_steps: int | None = None
seed = 1
rate = 0.1
reuse = False
seeds = [1, 2]
"""


def settings_notebook() -> nbformat.NotebookNode:
    cell = nbformat.v4.new_code_cell(SETTINGS, metadata={"tags": ["parameters"]})
    return nbformat.v4.new_notebook(cells=[cell])


VALUES = [
    ("", {}),
    ("-p seed 2 -p rate 3 -p reuse true", {"seed": 2, "rate": 3.0, "reuse": True}),
    ("-p seed -3 -p seed +4", {"seed": 4}),
    ("-p max_steps None -p corpus_path None", {"max_steps": None, "corpus_path": None}),
    ("-p max_steps 7 -r corpus_path None", {"max_steps": 7, "corpus_path": "None"}),
    ("-p seeds '[3, 4, 5]'", {"seeds": [3, 4, 5]}),
    ("-p preset None", {"preset": "None"}),
    ("-p preset True -r corpus_path 5", {"preset": "True", "corpus_path": "5"}),
    *[(f"-p preset {shlex.quote(text)}", {"preset": text}) for text in (
        "$HOME", "; rm -rf x", "`touch x`", "$(touch x)", "'", '"', "\\", "a\nb", "-y", "--version", "-p", "", "{x}",
        "\x1b[2J", "#", "ä\u202e\U0001f600", "!!", "*", "&& touch x", "| touch x", "%s", "\ttab", "None # x")],
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), VALUES, ids=lambda value: repr(value)[:40])
def test_values_arrive_as_they_were_meant(text, values):
    found = parameters.read(text, settings_notebook(), "08_n")
    assert found == values and [type(value) for value in found.values()] == [type(value) for value in values.values()]


HOSTILE = [
    ("08_n", "-y '{seed: 3}'", "where -p or -r must stand"),
    ("08_n", "-f settings.yaml", "where -p or -r must stand"),
    ("08_n", "-b c2VlZDogMw==", "where -p or -r must stand"),
    ("08_n", "--version", "where -p or -r must stand"),
    ("08_n", "--help", "where -p or -r must stand"),
    ("08_n", "-k other", "where -p or -r must stand"),
    ("08_n", "--parameters seed 3", "where -p or -r must stand"),
    ("08_n", "-pseed 3", "where -p or -r must stand"),
    ("08_n", "stray", "where -p or -r must stand"),
    ("08_n", "-p seed 3 stray", "where -p or -r must stand"),
    ("08_n", "-p seed 3; touch x", "where -p or -r must stand"),
    ("08_n", "-p seed `touch$IFS.x`", "seed takes a whole number, not '`touch$IFS.x`'"),
    ("08_n", "''", "where -p or -r must stand"),
    ("08_n", "-p seed 3 -y", "where -p or -r must stand"),
    ("08_n", "-p", "a name must follow"),
    ("08_n", "-p seed", "a value must follow"),
    ("08_n", "-p seed 3 -r preset", "a value must follow"),
    ("08_n", "-p preset 'open", "No closing quotation"),
    ("08_n", "-p preset \\", "No escaped character"),
    ("08_n", "-p preset \udcff", "no UTF-8"),
    ("08_n", "-p gone 1", "08_n has no parameter 'gone': it has preset, corpus_path"),
    ("08_n", "-p -p 1", "has no parameter '-p'"),
    ("08_n", "-p reuse no", "reuse takes True or False, not 'no'"),
    ("08_n", "-p reuse 1", "reuse takes True or False"),
    ("08_n", "-p reuse ''", "reuse takes True or False"),
    ("08_n", "-r reuse True", "-r gives text: use -p reuse"),
    ("08_n", "-p seed 1.5", "seed takes a whole number"),
    ("08_n", "-p seed 1e3", "seed takes a whole number"),
    ("08_n", "-p seed ٣", "seed takes a whole number"),
    ("08_n", "-p seed None", "seed takes a whole number"),
    ("08_n", f"-p seed {'9' * 5000}", "seed takes a whole number, not '9999"),
    ("08_n", "-p max_steps many", "max_steps takes a whole number or None, not 'many'"),
    ("08_n", "-p max_steps none", "max_steps takes a whole number or None"),
    ("08_n", "-p rate nan", "rate takes a number"),
    ("08_n", "-p rate inf", "rate takes a number"),
    ("08_n", "-p seeds 1", "seeds takes a list of whole numbers such as [1, 2]"),
    ("08_n", "-p seeds '[1, True]'", "seeds takes a list of whole numbers"),
    ("08_n", "-p seeds '[1, \"a\\d\"]'", "seeds takes a list of whole numbers"),
    ("08_n", "-p seeds '[__import__(\"os\").getcwd()]'", "seeds takes a list of whole numbers"),
    ("08_n", f"-p seeds {'[' * 9999}", "seeds takes a list of whole numbers"),
    ("", "-p seed 3", "parameters need a notebook"),
    ("../x", "", "no notebook '../x': choose one of 08_n"),
    ("a b", "", "no notebook 'a b'"),
    ("-h", "", "no notebook '-h'"),
    ("*", "", "no notebook '*'"),
    ("$(touch x)", "", "no notebook '$(touch x)'"),
    (" ", "", "no notebook ' '"),
    ("08_n\n", "", "no notebook '08_n\\n'"),
    ("08_n.ipynb.ipynb", "", "no notebook"),
    ("\x1b[2J", "", "no notebook '\\x1b[2J'"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), HOSTILE, ids=lambda value: ascii(value)[:40])
def test_a_hostile_command_line_gets_one_sentence_and_the_last_result_stays(
    name, text, sentence, project, monkeypatch, capsys
):
    nbformat.write(settings_notebook(), notebooks.NOTEBOOKS / "08_n.ipynb")
    last = notebooks.make_folder("notebooks") / "08_n.ipynb"
    last.write_text("the last result", encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setenv("NB", name)
    monkeypatch.setenv("P", text)
    before = sorted(project.rglob("*"))
    assert command(notebooks.main, ["run"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and sentence in err and err.count("\n") == 1 and len(err) < 400
    assert err[:-1].isprintable()
    assert last.read_text(encoding="utf-8") == "the last result" and sorted(project.rglob("*")) == before


def test_every_setting_of_the_notebooks_has_a_type():
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        kinds = parameters.settings(nbformat.read(path, as_version=4))
        known = {*parameters.IN_WORDS, "None", "list[int]"}
        assert kinds and all(set(types) - {"None"} and set(types) <= known for types in kinds.values()), path.stem
