"""The notebooks as a set: what nbval does not look at."""

import re
from pathlib import Path

import nbformat
import papermill
import pytest
from ipykernel.ipkernel import IPythonKernel
from notebook_file import BY_NAME, LESSONS, cells, prose, run, tags
from scheduling import COURSE, belongs, shortened

from exercises import yours
from helpers import ROOT, commands, training
from helpers.errors import HelpersError, RunError
from tools import notebooks as tools
from tools.lessons import everyone, named

each = pytest.mark.parametrize("name", BY_NAME)
NANOGPT, SAMPLING = named("08").stem, named("09").stem


def choices(question: str) -> list[str]:
    """What each choice of a prediction answers. (Within HTML, *stars* would be stars.)"""
    choice = r"<summary>[^\n*`]+</summary>\n\n(.+?)\n</details>"
    return re.findall(choice, question, re.S)


def test_the_course_lists_what_lies_in_the_folders():
    beyond = {path.stem for path in (ROOT / "notebooks" / "beyond").glob("*.ipynb")}
    assert beyond == {room["name"] for room in COURSE["rooms"]}
    beside = {path.stem for path in (ROOT / "notebooks" / "sources").glob("*.ipynb")}
    assert beside == set(COURSE["sources"])
    assert set(COURSE["long"]) | set(COURSE["shortened"]) <= BY_NAME.keys()


@pytest.mark.parametrize(
    ("test", "notebook", "does"),
    [
        ("tests/exercises/test_exercises.py::test_x[13a-0]", "speedrun", True),
        ("tests/exercises/test_exercises.py::test_x[13a-0]", "scaling_out", False),
        ("tests/exercises/test_exercises.py::test_x[3a]", "03_query_key_value", True),
        ("tests/exercises/test_exercises.py::test_x[13a]", "03_query_key_value", False),
        ("tests/lessons/test_solutions.py::test_x[solutions_03]", "03_query_key_value", True),
        ("tests/lessons/test_notebooks.py::test_x[raschka]", "raschka", True),
    ],
)
def test_a_notebook_is_tested_with_its_own_exercises(test, notebook, does):
    assert belongs(test, notebook) == does


def test_only_the_whole_setting_is_shortened():
    assert shortened("steps = 40  # or steps = 400", "speedrun") == "steps = 10  # or steps = 400"
    assert shortened("max_steps=500", "speedrun") == "max_steps=500"


def test_what_make_test_shortens_stands_in_the_notebooks():
    for name, changes in COURSE["shortened"].items():
        source = "\n".join(cell.source for cell in cells(BY_NAME[name]))
        assert all(setting in source for setting in changes), name


def pictures(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    return [output for output in outputs if "image/png" in output.get("data", {})]


# ---------------------------------------------------------------- each as it is stored
@each
def test_outputs_come_from_one_run_from_top_to_bottom(name):
    code = cells(BY_NAME[name])
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell.outputs if out.output_type == "error"]


@each
def test_nothing_in_it_changes_by_itself(name):
    """JupyterLab would write this metadata too: a notebook that was only opened is unchanged."""
    metadata = BY_NAME[name].metadata
    language = metadata.language_info
    assert set(metadata) == {"kernelspec", "language_info"}
    assert metadata.kernelspec == tools.KERNEL
    assert language == {**IPythonKernel.language_info, "version": language.version}


@each
def test_settings_if_it_has_any_stand_in_its_first_cell(name):
    code = cells(BY_NAME[name])
    assert [cell for cell in code if "parameters" in tags(cell)] in ([], code[:1])


@each
def test_no_cell_is_left_out_by_nbval(name):
    skipped = {"nbval-skip", "raises-exception"}
    assert not [cell.id for cell in cells(BY_NAME[name]) if skipped & set(tags(cell))]
    assert not [cell.id for cell in cells(BY_NAME[name]) if "NBVAL" in cell.source]


@each
def test_figures_have_a_text(name):
    for output in pictures(BY_NAME[name]):
        alt = output.metadata["image/png"]["alt"]
        assert len(alt.split()) >= 8 and output.data["text/plain"] == alt
    assert not re.search(r"!\[|<img", prose(BY_NAME[name]))


@each
def test_no_address_or_folder_of_a_machine(name):
    text = nbformat.writes(BY_NAME[name])
    assert not re.search(r"/home/|/Users/|/tmp/|site-packages|127\.0\.0\.1", text)
    assert str(ROOT) not in text and str(Path.home()) not in text


@each
def test_a_text_is_loaded_and_named_at_the_top(name):
    """Without Shakespeare, the first output says so, and how to get him."""
    loading = [i for i, cell in enumerate(cells(BY_NAME[name])) if "load_corpus(" in cell.source]
    assert not loading or loading == [3] or name == "blank_page"  # which has no numbers of ours


# ---------------------------------------------------------------- what a reader is asked
@each
def test_one_choice_of_each_prediction_is_right(name):
    lesson = re.split(r"\n## Exercises\n", prose(BY_NAME[name]))[0]
    questions = lesson.split("**Predict before you run.**")[1:]
    for question in questions:
        answers = choices(question)
        right = [answer for answer in answers if answer.startswith("Yes")]
        assert 2 <= len(answers) <= 4 and len(right) == 1, question


@each
def test_a_covered_output_is_covered_in_jupyterlab_too(name):
    for cell in cells(BY_NAME[name]):
        hidden = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
        assert hidden == ("covered" in tags(cell)), cell.id


@each
def test_every_exercise_has_a_check(name):
    """`**3a · …** (build; …)` asks, and a cell checks "3a"; what is explored has none."""
    heading = r"^\*\*(\d+[a-z]) · .+?\*\* \((?!explore)"
    asked = set(re.findall(heading, prose(BY_NAME[name]), re.M))
    code = "\n".join(cell.source for cell in cells(BY_NAME[name]))
    checked = set(re.findall(r'^exercises\.check\("(\w+)", \w+\)$', code, re.M))
    assert asked <= checked
    assert asked or not prose(BY_NAME[name]).count("## Exercises")


@pytest.mark.parametrize("here", everyone(), ids=lambda path: path.stem)
def test_links_lead_somewhere(here):
    """To a file, and to one of its headings or cells: JupyterLab writes a heading's text with - for each space."""
    for target in re.findall(r"\]\(([^)]+)\)", prose(nbformat.read(here, 4))):
        if target.startswith("https://"):
            continue
        page, _, heading = target.partition("#")
        path = (here.parent / page).resolve() if page else here
        assert path.exists(), target
        if heading.startswith("cell-id="):
            assert heading.removeprefix("cell-id=") in [cell.id for cell in nbformat.read(path, 4).cells], target
        elif heading:
            lesson = path.suffix == ".ipynb"
            text = prose(nbformat.read(path, 4)) if lesson else path.read_text(encoding="utf-8")
            heads = re.findall(r"^#+ (.+)$", re.sub("[`*]", "", text), re.M)
            assert heading in [line.replace(" ", "-") for line in heads], target


# ---------------------------------------------------------------- other settings, other texts
@pytest.fixture
def own_text(tmp_path, monkeypatch):
    """A notebook's parameters for a text of the reader's, in a folder outside the project."""
    monkeypatch.chdir(tmp_path)
    text = "Wörter mit Umlauten \U0001f600,\r\nund Zeilen wie unter Windows!\n"
    (tmp_path / "own.txt").write_text(50 * text, encoding="utf-8")
    return {"corpus_path": "own.txt"}


# How short a lesson may be with a text of the reader's own. 00, 08 and 09 are run below; scaling
# out takes minutes, and learns nothing from the text.
SHORT = {named(number).stem: {"seeds": [0]} for number in ("01", "04", "06")}
SHORT |= {
    named("what_matters").stem: {"steps": 8},
    named("todays_models").stem: {},
    named("tokens").stem: {},
    named("speedrun").stem: {"steps": 4},
}
# Of 08, what trains models of its own, whatever the text is.
OWN_MODELS = {"ladder-2", "ladder-3", "ladder-4", "ladder-5", "tower"}


@pytest.mark.slow
@pytest.mark.lesson
@pytest.mark.filterwarnings("ignore:Glyph")  # of the reader's text
@pytest.mark.parametrize(("name", "settings"), SHORT.items(), ids=SHORT)
def test_it_runs_on_a_text_of_the_reader_s_own(name, settings, own_text, monkeypatch, capsys):
    run(BY_NAME[name], own_text | settings, monkeypatch)
    assert "your own text" in capsys.readouterr().out


@pytest.mark.lesson
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array_wrap__")  # torch's way with NumPy 2
@pytest.mark.filterwarnings("ignore:Glyph")  # of the reader's text
def test_08_goes_on_with_a_run_of_the_command_and_09_writes_with_it(own_text, tmp_path, monkeypatch, capsys):
    """In a folder that is not the project's, on a text of the reader's, too shortly to warm up."""
    command = "--preset smoke --max-steps 3 --seed 5 --corpus own.txt --out run"
    assert commands.command(training.main, command.split()) == 0
    capsys.readouterr()
    settings = own_text | {"preset": "smoke", "max_steps": 9, "seed": 5, "out_dir": "run"}
    others = tuple(cell.id for cell in cells(BY_NAME[NANOGPT]) if cell.id not in OWN_MODELS)
    run(BY_NAME[NANOGPT], settings, monkeypatch, only=others)
    printed = capsys.readouterr().out
    assert "your own text" in printed and "has made 3 of 9 steps" in printed
    assert "step     9  train" in printed and "step     0  train" not in printed

    run(BY_NAME[SAMPLING], own_text | {"run_dir": "run"}, monkeypatch)
    printed = capsys.readouterr().out
    assert "your own text" in printed and "loaded the trained run" in printed


@pytest.mark.lesson
@pytest.mark.slow
def test_09_needs_the_run_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="no checkpoint at gone"):
        run(BY_NAME[SAMPLING], {"run_dir": "gone"}, monkeypatch)


WRONG_SETTINGS = [
    ({"preset": "huge"}, "ConfigError", "unknown preset 'huge': choose one of smoke, laptop, gpu"),
    ({"max_steps": "many"}, "ConfigError", "max_steps"),
    ({"corpus_path": "gone.txt"}, "CorpusError", "can't read the corpus gone.txt"),
]


@pytest.mark.usefixtures("unchecked")  # the sentence is ours, and not the type checker's
@pytest.mark.parametrize(("wrong", "error", "message"), WRONG_SETTINGS)
def test_a_wrong_setting_stops_it_with_one_sentence(wrong, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"preset": "smoke", "out_dir": "run", **wrong}
    first = ("settings", "helpers", "imports", "corpus")
    with pytest.raises(HelpersError) as raised:
        run(BY_NAME[NANOGPT], settings, monkeypatch, only=first)
    assert type(raised.value).__name__ == error and str(raised.value).startswith(message)
    assert "\n" not in str(raised.value) and not (tmp_path / "run").exists()


def test_papermill_lists_every_setting_of_every_notebook():
    for name, path in LESSONS.items():
        for cell in [cell for cell in cells(BY_NAME[name]) if "parameters" in tags(cell)]:
            known = papermill.inspect_notebook(str(path))
            assert list(known) == re.findall(r"^(\w+)\b.* = ", cell.source, re.M)


# ---------------------------------------------------------------- README
def test_the_readme_lists_every_notebook():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in LESSONS.values():
        assert f"({path.relative_to(ROOT).as_posix()})" in readme


def test_the_blank_page_shows_how_the_finished_file_ends():
    blank = BY_NAME[named("blank_page").stem]
    (shown,) = [cell.source for cell in blank.cells if "my_train(gpt" in cell.source]
    lines = shown.split("```python\n")[1].split("\n```")[0]
    assert yours.PROGRAM.endswith(lines) and lines.count("\n") >= 10
