"""The notebooks in JupyterLab, as a reader has them: opened from the start page, run whole, an exercise solved."""

import http.client
import shutil
from contextlib import closing

import nbformat
import pytest
from lab import ROOT, SHOWN, jupyterlab

LESSONS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
QUICK = {"08_nanogpt_shakespeare.ipynb": "smoke", "09_sampling.ipynb": "smoke"}  # these train for minutes otherwise
CELLS = f"{SHOWN}.content.widgets"
ERRORS = (
    f"{CELLS}.flatMap((cell) => cell.model.sharedModel.toJSON().outputs ?? [])"
    ".filter((output) => output.output_type === 'error').map((output) => output.evalue)"
)


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """A JupyterLab on a copy of the notebooks; of 08 and 09 with the smallest preset."""
    with jupyterlab(tmp_path_factory.mktemp("lab")) as lab:
        shutil.copytree(ROOT / "notebooks", lab.notebooks, dirs_exist_ok=True)
        for name, preset in QUICK.items():
            notebook = nbformat.read(lab.notebooks / name, as_version=4)
            settings = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
            settings.source = settings.source.replace('preset = "laptop"', f'preset = "{preset}"')
            nbformat.write(notebook, lab.notebooks / name)
        yield lab


@pytest.fixture
def page(browser, lab):
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.set_default_timeout(300_000)
    yield page
    page.close()
    lab.stop_kernels()


def answer(lab, path: str, host: str | None = None) -> int:
    """The status that a request without a token gets, or one that came by another name."""
    with closing(http.client.HTTPConnection(lab.address.removeprefix("http://"))) as connection:
        connection.request("GET", path, headers={"Host": host} if host else {})
        return connection.getresponse().status


def test_strangers_are_refused(lab):
    assert answer(lab, "/api/contents") == 403
    assert answer(lab, "/lab") == 302  # to the page that asks for the token
    assert answer(lab, f"/api/contents?token={lab.token}") == 200
    assert answer(lab, f"/api/contents?token={lab.token}", host="evil.example") == 403


def test_a_lesson_opens_from_the_start_page(lab, page, screens):
    lab.open(page, "index.ipynb")
    page.screenshot(path=screens / "lab-start.png")
    assert page.get_by_role("link", name="Query, key, value").is_visible()
    page.get_by_role("link", name="Query, key, value").click()
    page.wait_for_function(f"{SHOWN}?.title.label === '03_query_key_value.ipynb'")


@pytest.mark.parametrize("name", LESSONS)
def test_it_runs_whole(lab, page, screens, name):
    lab.open(page, name)
    assert not page.evaluate(f"{SHOWN}.context.model.dirty")  # opening alone changes nothing
    hidden = page.evaluate(f"{CELLS}.map((cell) => cell.isHidden)")
    proofs = page.evaluate(f"{CELLS}.findIndex((c) => c.model.sharedModel.getSource().startsWith('## The proofs'))")
    assert hidden[proofs + 1] and not any(hidden[: proofs + 1])
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    assert page.evaluate(ERRORS) == []
    assert page.evaluate(f"{CELLS}.filter((c) => c.model.type === 'code').every((c) => c.model.executionCount > 0)")
    page.evaluate("jupyterapp.commands.execute('toc:show-panel')")
    page.wait_for_function("document.querySelectorAll('.jp-tocItem-content').length > 4")
    page.wait_for_timeout(500)
    pictures = page.evaluate(
        "[...document.querySelectorAll('.jp-OutputArea img')].map((i) => [i.complete, i.naturalWidth])"
    )
    assert all(complete and width > 0 for complete, width in pictures)
    page.screenshot(path=screens / f"lab-{name[:2]}.png")


def test_an_exercise_is_solved_by_typing(lab, page):
    lab.open(page, "03_query_key_value.ipynb")
    place = page.evaluate(f"{CELLS}.findIndex((c) => c.model.sharedModel.getSource().includes('check(\"3f\"'))")
    for cell in range(place):
        page.evaluate(f"{CELLS}[{cell}].model.sharedModel.getSource().includes('from helpers import')") and run(
            page, cell
        )
    for returned, verdict in (("W_query + W_key", "3f: not yet"), ("W_query @ W_key.T", "3f: right")):
        page.evaluate(f"{SHOWN}.content.activeCellIndex = {place}")
        page.evaluate(f"{SHOWN}.content.scrollToItem({place}).then(() => {SHOWN}.content.activeCell.editor.focus())")
        page.keyboard.press("Control+a")
        page.keyboard.type(f'def my_table(W_query, W_key): return {returned}\nexercises.check("3f", my_table)')
        run(page, place)
        assert verdict in page.evaluate(f"JSON.stringify({CELLS}[{place}].model.sharedModel.toJSON().outputs)")


def run(page, cell: int) -> None:
    page.evaluate(f"{SHOWN}.content.activeCellIndex = {cell}")
    page.evaluate("jupyterapp.commands.execute('notebook:run-cell')")
