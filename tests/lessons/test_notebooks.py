"""The notebooks as a set: what nbval does not look at."""

import ast
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import nbformat
import papermill
import pytest
from ipykernel.ipkernel import IPythonKernel
from notebook_code import BY_NAME, LESSONS, PATHS, cells
from notebook_run import run

from helpers import training
from helpers.errors import HelpersError, RunError, command
from helpers.world import ledger

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tools_notebooks", ROOT / "tools" / "notebooks.py")
tools = sys.modules["tools_notebooks"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tools)
each = pytest.mark.parametrize("notebook", BY_NAME.values(), ids=BY_NAME)
each_lesson = pytest.mark.parametrize("notebook", LESSONS.values(), ids=LESSONS)
# All others draw the machine.
DRAWING = {
    "06": "draw_heads(",
    "07": "draw_block(",
    "09": "generate(",
    "10": "draw_block(",
    "11": "draw_table(",
    "13": "draw_advice(",
    "14": "draw_shared(",
}
FOLDED = "jp-MarkdownHeadingCollapsed"


def tags(cell):
    return cell.metadata.get("tags", [])


def prose(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def code_of(notebook):
    return "\n".join(cell.source for cell in cells(notebook))


def choices(question):
    """What each choice of a prediction answers, in the order of the page. (Within HTML, *stars* would be stars.)"""
    return re.findall(r"<summary>[^\n*`]+</summary>\n\n(.+?)\n</details>", question, re.S)


def pictures(notebook):
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    return [output for output in outputs if "image/png" in output.get("data", {})]


@each
def test_outputs_come_from_one_run_from_top_to_bottom(notebook):
    assert [cell.execution_count for cell in cells(notebook)] == list(range(1, len(cells(notebook)) + 1))
    assert not [out for cell in cells(notebook) for out in cell.outputs if out.output_type == "error"]


@each
def test_nothing_in_it_changes_by_itself(notebook):
    """JupyterLab would write this metadata too, so that a notebook that was only opened counts as unchanged."""
    kernel, language = notebook.metadata.kernelspec, notebook.metadata.language_info
    assert set(notebook.metadata) == {"kernelspec", "language_info"} and kernel == tools.KERNEL
    assert language == {**IPythonKernel.language_info, "version": language.version}
    assert all(set(cell.metadata) <= {"tags", "jupyter", FOLDED} for cell in notebook.cells)


@each
def test_settings_stand_in_one_cell(notebook):
    marked = [cell for cell in cells(notebook) if "parameters" in tags(cell)]
    assert marked == cells(notebook)[:1]


@each
def test_what_waits_for_enough_training_runs_with_the_settings_given(notebook):
    """`if steps >= 900:` before an assert, and 700 steps: it would never be asked."""
    settings = {}
    exec(cells(notebook)[0].source, settings)
    for cell in cells(notebook)[1:]:
        for branch in ast.walk(ast.parse(cell.source)):
            if isinstance(branch, ast.If) and not branch.orelse and isinstance(branch.test, ast.Compare):
                names = [part.id for part in ast.walk(branch.test) if isinstance(part, ast.Name)]
                if set(names) <= set(settings):
                    assert eval(ast.unparse(branch.test), dict(settings)), (cell.id, ast.unparse(branch.test))


@each
def test_few_outputs_are_not_compared(notebook):
    ignored = [cell for cell in cells(notebook) if "nbval-ignore-output" in tags(cell)]
    counts = "KneserNey(" in code_of(notebook)  # what it prints is of the text, and that may be another one
    assert len(ignored) < (0.35 if counts else 0.15) * len(cells(notebook))
    assert not [cell for cell in notebook.cells if {"nbval-skip", "raises-exception"} & set(tags(cell))]
    assert not any("NBVAL" in cell.source for cell in notebook.cells)


@each_lesson
def test_what_is_read_fits_a_page_and_the_prose_is_not_short(notebook):
    """What is folded may be long. A page of 1,280 pixels shows 80 columns."""
    (start,) = [i for i, cell in enumerate(notebook.cells) if cell.source.startswith("## The proofs")]
    for cell in cells(nbformat.v4.new_notebook(cells=notebook.cells[:start])):
        if not cell.metadata.get("jupyter", {}).get("source_hidden"):
            lines = [line for line in cell.source.splitlines() if line.strip()]
            assert len(lines) <= 28 and max(map(len, lines), default=0) <= 80, cell.id
    assert len(prose(notebook).split()) >= 800


@each
def test_no_comment_is_torn_from_its_line(notebook):
    """The formatter breaks a long line before its comment, which then stands behind a lonely bracket."""
    lines = [line for cell in cells(notebook) for line in cell.source.splitlines()]
    assert not [line for line in lines if re.match(r"\s*[)\]}]+:?,?\s+# (?!fmt)", line)]


@pytest.mark.parametrize("name", LESSONS)
def test_the_lesson_comes_first_and_its_proofs_are_folded(name):
    notebook = BY_NAME[name]
    (start,) = [i for i, cell in enumerate(notebook.cells) if cell.source.startswith("## The proofs")]
    assert notebook.cells[start].metadata[FOLDED] is True
    lesson = nbformat.v4.new_notebook(cells=notebook.cells[:start])
    code = "".join(cell.source for cell in cells(lesson))
    # A curve that grows while one waits, something to play, a machine that is cut in two ways, a ladder
    live = ("plotting.Live(" in code) + ("explore." in code) + code.count("draw_shared(") + ("def rung(" in code)
    assert not any("ledger." in cell.source for cell in cells(lesson)) and 3 <= len(pictures(lesson)) <= 9 + live
    told = prose(lesson)
    read = re.sub(r"<details>.*?</details>", " ", told, flags=re.S)  # who predicts opens one or two of them
    read = re.sub(r"^\*\[.*\*$", " ", read, flags=re.M)  # a label beside what is shown, as in a museum
    most = 2800 if name.startswith("11") else 2200  # a museum has many rooms, each of which one may leave
    assert len(re.sub(r"<[^>]+>|\$[^$]*\$|^\|.*$", " ", read, flags=re.M).split()) <= most
    questions = told.split("**Predict before you run.**")[1:]
    assert len(questions) >= 3 and told.count("<summary>") == sum(len(choices(question)) for question in questions)
    for question in questions:
        answers = choices(question)
        assert 2 <= len(answers) <= 4 and sum(answer.startswith("Yes") for answer in answers) == 1, question
    assert DRAWING.get(name[:2], "explore.machine(") in code


@each_lesson
def test_its_exercises_are_of_every_kind(notebook):
    exercises = prose(notebook).split("## Exercises")[1]
    assert all(f"({kind};" in exercises for kind in ("predict", "derive", "repair", "build"))
    assert len(re.findall(r"^\*\*\d+[a-z] · ", exercises, re.M)) >= 5


@each
def test_figures_are_ours_and_have_a_text(notebook):
    assert len(pictures(notebook)) >= 2
    for output in pictures(notebook):
        alt = output.metadata["image/png"]["alt"]
        assert len(alt.split()) >= 8 and output.data["text/plain"] == alt
    assert not re.search(r"!\[|<img", prose(notebook))


@each
def test_no_address_or_folder_of_a_machine(notebook):
    text = nbformat.writes(notebook)
    assert not re.search(r"/home/|/Users/|/tmp/|site-packages|127\.0\.0\.1", text)
    assert str(ROOT) not in text and str(Path.home()) not in text


@each
def test_links_lead_somewhere(notebook):
    """To a page, and to one of its headings, whose place in JupyterLab is its text with - for each space."""
    for target in re.findall(r"\]\(([^)]+)\)", prose(notebook)):
        if target.startswith("https://"):
            continue
        page, _, heading = target.partition("#")
        path = ROOT / "notebooks" / page
        assert path.exists(), target
        if heading:
            text = (
                prose(notebook)
                if not page
                else prose(BY_NAME[path.stem])
                if page.endswith(".ipynb")
                else path.read_text()
            )
            places = {line.replace(" ", "-") for line in re.findall(r"^#+ (.+)$", re.sub("[`*]", "", text), re.M)}
            assert heading in places, target


# Cells of 08 and 09 that train or draw from models of their own, large or often, whatever the text is.
OWN_MODELS = {
    "08_nanogpt_shakespeare": {"cell-77", "cell-78", "rates-3", "rates-3b", "last-1", "last-2"}
    | {"ladder-10", "ladder-12", "ladder-14", "ladder-15"},
    "09_sampling": {"cell-61", "cell-63", "cell-64", "cell-74", "cell-75"},
}
OF_COMMAND = "--preset smoke --max-steps 3 --seed 5 --corpus own.txt --out run --sample-length 0"
TO_GO_ON = {"corpus_path": "own.txt", "preset": "smoke", "max_steps": 30, "seed": 5, "out_dir": "run"}


def without_own_models(name):
    return tuple(cell.id for cell in cells(BY_NAME[name]) if cell.id not in OWN_MODELS[name])


def has_gone_on(printed: str, folder: Path) -> bool:
    """08 has trained on from the third step of the run in this folder, on the reader's text."""
    assert "your own text" in printed and "has made 3 of 30 steps" in printed
    assert "step    30  train" in printed and "step     0  train" not in printed
    names = [".lock", "checkpoint.pt", "config.json", "history.json", "sample.txt", "tokenizer.json"]
    return sorted(path.name for path in folder.iterdir()) == names


@pytest.mark.lesson
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array_wrap__")  # torch's way with NumPy 2, which a kernel doesn't show
@pytest.mark.filterwarnings("ignore:Glyph")  # of the reader's text
def test_08_goes_on_with_a_run_of_the_command_and_09_writes_with_it(own_text, tmp_path, monkeypatch, capsys):
    """In a folder that is not the project's, on a text of the reader's."""
    assert command(training.main, OF_COMMAND.split()) == 0
    capsys.readouterr()
    name = "08_nanogpt_shakespeare"
    run(BY_NAME[name], TO_GO_ON, monkeypatch, only=without_own_models(name))
    assert has_gone_on(capsys.readouterr().out, tmp_path / "run")

    name, parameters = "09_sampling", own_text | {"run_dir": "run"}
    run(BY_NAME[name], parameters, monkeypatch, only=without_own_models(name), spared="karpathy-top-p")
    printed = capsys.readouterr().out
    assert "your own text" in printed and "loaded the trained run" in printed


@pytest.mark.torture
def test_the_whole_of_08_takes_settings_by_parameter_in_any_folder(own_text, tmp_path):
    """By papermill, on a kernel, with all that trains models of its own."""
    assert command(training.main, OF_COMMAND.split()) == 0
    source, out = ROOT / "notebooks" / "08_nanogpt_shakespeare.ipynb", tmp_path / "08.ipynb"
    papermill.execute_notebook(source, out, TO_GO_ON, kernel_name="python3", progress_bar=False)
    assert has_gone_on(out.read_text(encoding="utf-8"), tmp_path / "run")


@pytest.mark.lesson
@pytest.mark.slow
def test_00_runs_with_few_steps_and_09_needs_the_run_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(BY_NAME["00_why_attention"], {"steps": 4, "seeds": [5]}, monkeypatch)
    with pytest.raises(RunError, match="no checkpoint at gone"):
        run(BY_NAME["09_sampling"], {"run_dir": "gone"}, monkeypatch)


WRONG_PARAMETERS = [
    ({"preset": "huge"}, "ConfigError", "unknown preset 'huge': choose one of smoke, laptop, gpu"),
    ({"max_steps": "many"}, "ConfigError", "max_steps"),
    ({"corpus_path": "gone.txt"}, "CorpusError", "can't read the corpus gone.txt"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), WRONG_PARAMETERS)
def test_a_wrong_parameter_stops_the_notebook_with_one_sentence(parameters, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"preset": "smoke", "out_dir": "run", **parameters}
    with pytest.raises(HelpersError) as raised:
        run(BY_NAME["08_nanogpt_shakespeare"], settings, monkeypatch, only=tuple(f"cell-0{i}" for i in range(1, 6)))
    assert type(raised.value).__name__ == error and str(raised.value).startswith(message)
    assert "\n" not in str(raised.value) and not (tmp_path / "run").exists()


ROWS = {f"{row['notebook']}: {row['id']}": row for row in ledger.rows() if row["notebook"] in BY_NAME}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_row_of_the_ledger_is_reproduced_in_its_notebook(row):
    """The stored outputs say so; that the call is there and is no trick is seen in test_notebook_code."""
    outputs = [out for cell in cells(BY_NAME[row["notebook"]]) for out in cell.outputs]
    printed = "".join(out.text for out in outputs if out.output_type == "stream")
    assert f"reproduced: {row['id']} (" in printed
    if row["kind"] == "erratum":
        assert ledger.story(row) in printed  # the printed value, the cause, the right value


def test_the_page_of_the_ledger_is_what_the_notebooks_printed():
    page = (ROOT / "notebooks" / "ledger.md").read_text(encoding="utf-8")
    assert page == tools.tables.ledger_page(ROOT / "notebooks")
    for row in ledger.rows():
        numbers = "[^`|]*`[^`|]+`<br>`[^`|]+`" if "printed" in row else "[^|]*"  # the source's, and ours
        cell = rf"\[[^|]+{row['notebook']}\.ipynb#cell-id=[^|]+"
        line = rf"\*\*`{re.escape(row['id'])}`\*\*<br>[^|]+ \| {numbers} \| {cell}<br>reproduced"
        assert re.search(line, page), row["id"]
    assert "(notebooks/ledger.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_of_errata_has_them_all_and_is_what_the_notebooks_printed():
    page = (ROOT / "notebooks" / "errata.md").read_text(encoding="utf-8")
    assert page == tools.tables.errata_page(ROOT / "notebooks")
    sections = re.findall(r"^## (\d+)\. .+?\(`(.+?)`\)$", page, re.M | re.S)
    ids = [row["id"] for row in ledger.rows() if row["kind"] == "erratum"]
    assert sections == [(str(number), id) for number, id in enumerate(ids, start=1)]
    assert "not reproduced" not in page


def test_the_readme_shows_pictures_that_notebooks_drew():
    drawn = {}
    for notebook in BY_NAME.values():
        drawn |= tools.readme_pictures(notebook)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]{20,}\]\(docs/([^)]+)\.png\)", readme)
    assert len(pictures) == 5
    for page in ("play", "lesson"):  # as a browser shows them: `make browser-test` takes them
        pictures.remove(page)
    assert {name: (ROOT / "docs" / f"{name}.png").read_bytes() for name in pictures} == drawn


def test_every_claim_is_measured_by_a_cell_that_can_fail_and_listed():
    claims = tomllib.loads(tools.tables.CLAIMS.read_text(encoding="utf-8"))["claim"]
    measured = tools.tables.claim_cells(BY_NAME)
    assert [claim["number"] for claim in claims] == sorted(measured) == list(range(1, 31))
    for number, found in measured.items():
        checked = [cell for _, cell in found if re.search(r"\bassert |checks\.|ledger\.", cell.source)]
        assert checked == [cell for _, cell in found], number
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert tools.tables.with_claims(page, ROOT / "notebooks") == page


def test_the_readme_lists_every_notebook():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"(notebooks/{path.name})" in readme for path in PATHS)
