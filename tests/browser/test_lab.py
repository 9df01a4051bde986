"""The notebooks in JupyterLab: opened from the start page, run whole, an exercise solved."""

import platform
import re
import shutil

import pytest
from lab import SHOWN, jupyterlab

from helpers import ROOT
from tools.lessons import NOTEBOOKS, lessons

pytestmark = pytest.mark.slow
LESSONS = [path.relative_to(NOTEBOOKS).as_posix() for path in lessons()]
BLANK = "beyond/blank_page.ipynb"
WHOLE = ("03_query_key_value.ipynb", "08_nanogpt_shakespeare.ipynb", BLANK)  # nbval runs them all
ROOM = "beyond/what_matters.ipynb"
CELLS = f"{SHOWN}.content.widgets"
OUTPUTS = f"{CELLS}.flatMap((cell) => cell.model.sharedModel.toJSON().outputs ?? [])"
# Every output that is a picture; where a live kernel made it an explorer's, it says so, and the
# explorer stands there.
PICTURES = f"{OUTPUTS}.filter(({{ data }}) => data?.['image/png'])"
PLACES = f"{PICTURES}.filter(({{ data }}) => `${{data['text/html'] ?? ''}}`.includes('data-mount'))"
IMAGES = f"[...{SHOWN}.node.querySelectorAll('img')]"
EXPLORERS = ":is(.explore, .explore-play)"
INSIDE = f"image.closest('.jp-OutputArea') && !image.closest('{EXPLORERS}')"  # the machine has its picture inside
PAINTED = f"{IMAGES}.filter((image) => image.naturalWidth > 0 && {INSIDE})"


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """A JupyterLab on a copy of the notebooks, with a folder of its own for runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NANOGPT_RUNS", str(tmp_path_factory.mktemp("runs")))
        with jupyterlab(tmp_path_factory.mktemp("lab")) as lab:
            shutil.copytree(ROOT / "notebooks", lab.notebooks, dirs_exist_ok=True)
            # As this Python would store them: the lab notes its version.
            for path in lab.notebooks.rglob("*.ipynb"):
                text = re.sub(
                    r'"version": "3[\d.]+"',
                    f'"version": "{platform.python_version()}"',
                    path.read_text("utf-8"),
                )
                path.write_text(text, encoding="utf-8")
            eight = lab.notebooks / "08_nanogpt_shakespeare.ipynb"  # which would train for minutes
            text = eight.read_text(encoding="utf-8")
            assert text.count(r"preset = \"laptop\"") == 1
            eight.write_text(text.replace(r"preset = \"laptop\"", r"preset = \"smoke\""), encoding="utf-8")
            yield lab


@pytest.fixture
def page(browser, lab):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    yield page
    page.close()
    lab.stop_kernels()


def open_from_start(lab, page, name: str) -> None:
    lab.open(page, "index.ipynb")
    file = name.rpartition("/")[2]
    page.locator(f".jp-RenderedMarkdown td a[href*='{file}']").click()
    page.wait_for_function(f"{SHOWN}?.title.label === '{file}'")
    page.wait_for_function(f"{SHOWN}.sessionContext?.session?.kernel?.status === 'idle'")
    page.wait_for_function(f"{SHOWN}.content.widgets.length > 10")


def test_the_start_page_lists_the_lessons_in_light_and_dark(lab, page, screens):
    lab.open(page, "index.ipynb")
    links = page.locator(".jp-RenderedMarkdown td a").evaluate_all("(links) => links.map((a) => a.innerText)")
    assert len(links) == len(LESSONS)
    files = page.locator(".jp-DirListing-itemName").all_inner_texts()
    assert {name for name in LESSONS if "/" not in name} < {name.strip() for name in files}
    for theme in ("Light", "Dark"):
        change_theme(page, theme)
        page.screenshot(path=screens / f"lab-index-{theme.lower()}.png")


def change_theme(page, theme: str) -> None:
    page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})")
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{theme == 'Light'}'.toLowerCase()")
    page.wait_for_timeout(300)


@pytest.mark.parametrize("name", WHOLE)
def test_a_lesson_runs_whole_after_a_restart(lab, page, screens, name):
    open_from_start(lab, page, name)
    page.wait_for_timeout(1000)  # whatever the lab might do by itself
    assert not page.evaluate(f"{SHOWN}.context.model.dirty")
    page.evaluate("void jupyterapp.commands.execute('notebook:restart-clear-output')")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_function(f"{OUTPUTS}.length === 0")
    page.wait_for_function(f"{SHOWN}.sessionContext.session.kernel.status === 'idle'")
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")  # until the last has run
    errors = page.evaluate(f"{OUTPUTS}.filter((o) => o.output_type === 'error').map((o) => o.traceback.join('\\n'))")
    assert not errors, "\n".join(errors)
    counts = page.evaluate(f"{CELLS}.filter((c) => c.model.type === 'code').map((c) => c.model.executionCount)")
    assert counts == list(range(1, len(counts) + 1))

    page.evaluate("jupyterapp.commands.execute('toc:show-panel')")
    contents = page.locator(".jp-TableOfContents-content .jp-tocItem-content").filter(visible=True)
    heading = "It learns, and it writes" if name == BLANK else "Exercises"
    contents.filter(has_text=heading).first.wait_for()
    page.screenshot(path=screens / f"lab-{name[:2]}.png")
    page.evaluate("jupyterapp.commands.execute('notebook:expand-all-headings')")
    pictures, places = (page.evaluate(f"{which}.length") for which in (PICTURES, PLACES))
    sources = page.evaluate(f"{CELLS}.map((c) => c.model.sharedModel.getSource())")
    assert pictures >= 2 and places == len(re.findall(r"^explore\.\w+\(", "\n".join(sources), re.M))
    page.wait_for_function(f"{PAINTED}.length === {pictures - places}")
    page.wait_for_function(f"{SHOWN}.node.querySelectorAll('[data-mount] > {EXPLORERS}').length === {places}")
    assert page.evaluate(f"{IMAGES}.filter((image) => !image.naturalWidth).length") == 0
    told = page.evaluate(f"{PICTURES}.map(({{ metadata }}) => metadata['image/png'].alt)")
    assert all(text in told for text in page.evaluate(f"{PAINTED}.map((image) => image.alt || '(no text)')"))
    if name.startswith(("03", "08")):
        for theme in ("Light", "Dark"):
            change_theme(page, theme)
            shown = page.locator(f".jp-OutputArea-output:has(img), {EXPLORERS}")
            look = page.evaluate("getComputedStyle(document.querySelector('.jp-RenderedImage img')).filter")
            assert ("invert" in look) == (theme == "Dark")
            for i, place in enumerate(shown.filter(visible=True).all()[:3]):
                place.scroll_into_view_if_needed()
                page.screenshot(path=screens / f"lab-{name[:2]}-{theme.lower()}-{i}.png")


def test_an_exercise_is_solved_by_typing(lab, page):
    open_from_start(lab, page, "01_dot_product_scores.ipynb")  # it runs soon
    sources = page.evaluate(f"{CELLS}.map((c) => c.model.sharedModel.getSource())")
    cell = next(i for i, source in enumerate(sources) if 'check("1a"' in source)
    page.evaluate(f"{SHOWN}.content.activeCellIndex = {cell}")
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-above')")
    # The start page is open behind it.
    notebook = page.locator(".jp-NotebookPanel").filter(visible=True)
    shown = notebook.locator(".jp-Cell.jp-mod-active")
    for wrong_or_right, verdict in (
        ("keys @ queries.mT", "1a: not yet, "),
        ("queries @ keys.mT", "1a: right"),
    ):
        page.evaluate(f"{SHOWN}.content.activeCellIndex = {cell}")
        shown.locator(".cm-content").click()
        page.keyboard.press("Control+a")
        # The editor indents.
        page.keyboard.type(f"def my_scores(queries, keys):\nreturn {wrong_or_right}\n")
        page.keyboard.press("Backspace")
        page.keyboard.type('\nexercises.check("1a", my_scores)')
        page.keyboard.press("Control+Enter")
        shown.locator(".jp-OutputArea-output").filter(has_text=verdict).wait_for()
    lab.save(page)
    lab.open(page, "index.ipynb")
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".jp-RenderedMarkdown tr", has_text="Dot-product scores").filter(has_text="1 of 4: 1a").wait_for()
