"""The site in a browser, as files: no network, keyboard, phone, paper, light and dark."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image, ImageStat

from helpers import ROOT
from tools import site as site_builder

SCREENS = ((375, "dark"), (768, "light"), (1400, "light"))
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # the rules of axe that see colours


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    site_builder.build(ROOT, out)
    return out


@pytest.fixture
def tab(browser) -> Iterator:
    """A page that has no network, and that must end without an error in its console."""
    context = browser.new_context(offline=True, viewport={"width": 1400, "height": 900})
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    # A picture that is on its way when a reader leaves is no fault.
    page.on(
        "requestfailed",
        lambda r: None if "ABORTED" in (r.failure or "") else errors.append(f"{r.url}: {r.failure}"),
    )
    yield page
    context.close()
    assert not errors


def opened(tab, site: Path, address: str):
    tab.goto(f"{site.as_uri()}/{address}")
    return tab


@pytest.mark.parametrize("pages", ("lessons", "others"))  # tests of a length that four workers share well
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_everybody_can_read_it(browser, site, screens, width, scheme, pages):
    """With all folds open, axe-core finds no serious or critical fault; nothing sticks out."""
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": 900})
    page, faults = context.new_page(), []
    for path in sorted(site.rglob("*.html")):
        if (pages == "lessons") != path.name[:1].isdigit():
            continue
        name = path.relative_to(site).with_suffix("").as_posix()
        opened(page, site, f"{name}.html")
        page.screenshot(path=screens / f"{name.replace('/', '-')}-{width}-{scheme}.png")
        page.evaluate("for (const details of document.querySelectorAll('article details')) details.open = true")
        page.wait_for_timeout(50)  # folds tell that they were opened
        if page.evaluate("document.documentElement.scrollWidth") > width:
            faults.append(f"{name} is wider than the window")
        # A scheme is nothing but other colours: what the other rules say in the light they would
        # say again in the dark.
        if scheme == "light":
            faults += serious(page, name, {"rules": {rule: {"enabled": False} for rule in COLOUR_RULES}})
        page.evaluate(THIN_OUT)
        faults += serious(page, name, {"runOnly": COLOUR_RULES})
    context.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("width", "scheme"), SCREENS[::2])
def test_every_drawing_of_every_lesson_answers(browser, site, width, scheme):
    """Keys alone or pointer alone change what is said; nothing sticks out at the side."""
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": 1300})
    page, silent, answered = context.new_page(), [], 0
    for path in sorted(site.glob("[0-9]*.html")):
        opened(page, site, path.name)
        page.evaluate("for (const details of document.querySelectorAll('article details')) details.open = true")
        for number, drawing in enumerate(page.locator("article .explore").all()):
            says = drawing.locator(".explore-line").inner_text
            by_keys = _answers(says, _keys_everywhere(page, drawing))
            by_pointer = _answers(says, _pointer_everywhere(page, drawing))
            answered += by_keys and by_pointer
            if not (by_keys and by_pointer):
                silent.append(f"{path.stem}, drawing {number}: keys {by_keys}, pointer {by_pointer}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            silent.append(f"{path.stem} is wider than the window")
    context.close()
    assert not silent and answered > 13, "\n".join(silent)


def _answers(says, tries) -> bool:
    """Does one of the tries change what is said?"""
    before = says()
    return any(says() != before for _ in tries)


def _keys_everywhere(page, drawing) -> Iterator[None]:
    for part in drawing.locator(":is(button, input, select, [tabindex='0']):visible").all():
        part.focus()
        for key in ("ArrowRight", "ArrowUp", "ArrowDown", "Enter"):
            yield page.keyboard.press(key)


def _pointer_everywhere(page, drawing) -> Iterator[None]:
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    for row in range(1, 24):
        for column in range(1, 12):
            at = box["x"] + box["width"] * column / 12, box["y"] + box["height"] * row / 24
            if drawing.evaluate("(it, at) => it.contains(document.elementFromPoint(...at))", at):  # not under the menu
                yield page.mouse.click(*at)


def test_every_figure_is_in_view_and_an_answer_is_folded_until_one_looks(tab, site, screens):
    page = opened(tab, site, "01_dot_product_scores.html")
    explorer = page.locator(".explore-shadows")
    assert all(figure.is_visible() for figure in page.locator("article .explore").all())
    assert not explorer.locator(".explore-line").is_visible()  # it waits for the reader
    assert page.get_by_text("the answer:").count() and not page.get_by_text("the answer:").first.is_visible()
    page.set_viewport_size({"width": 1180, "height": 900})
    page.get_by_role("button", name="make all keys equally long").click()
    assert "a wins" in explorer.inner_text()
    page.get_by_role("button", name="start again").click()
    explorer.evaluate("(it) => it.scrollIntoView({ block: 'center' })")
    page.wait_for_timeout(300)
    page.screenshot(path=screens / "lesson.png")


# Formulas and code are thousands of letters in a handful of looks, and axe takes a quarter of a
# minute for a page of them. Its verdict on a letter follows from how the letter is painted, what
# lies behind it, and the text it stands in: where all that is equal, so is the verdict. Three of a
# look are left, in case something lies over one of them.
THIN_OUT = """() => {
  const known = new Map(), seen = {};
  const behind = (element) => {
    if (!element) return "";
    if (!known.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      known.set(element, [behind(element.parentElement), backgroundColor, backgroundImage, opacity].join());
    }
    return known.get(element);
  };
  const painted = (element) => {
    const { color, fontSize, fontWeight, textDecoration, textShadow } = getComputedStyle(element);
    return [color, fontSize, fontWeight, textDecoration, textShadow].join();
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (element.childElementCount || !element.textContent.trim() || !element.checkVisibility()) continue;
    const look = [element.tagName === "A", painted(element), painted(element.parentElement), behind(element)].join();
    seen[look] = (seen[look] ?? 0) + 1;
    if (seen[look] > 3) element.remove();
  }
}"""


def serious(page, name: str, options: dict) -> list[str]:
    """What axe-core calls serious or critical in page `name`, each with its first place."""
    violations = Axe().run(page, options={"resultTypes": ["violations"]} | options).response["violations"]
    violations = [(fault, fault["nodes"][0]) for fault in violations if fault["impact"] in ("serious", "critical")]
    return [f"{name}: {f['id']} ({len(f['nodes'])}x): {at['html'][:150]} {at['target']}" for f, at in violations]


def test_search_finds_what_an_answer_hides(tab, site):
    opened(tab, site, "index.html")
    tab.fill("input.sidebar-search", "Jerusalem")
    tab.press("input.sidebar-search", "Enter")
    tab.wait_for_selector("#search-results li a")
    addresses = [link.get_attribute("href") for link in tab.query_selector_all("#search-results li a")]
    assert any("speedrun.html" in link for link in addresses)


def test_readers_walk_from_lesson_to_lesson_and_back_home(tab, site):
    lessons = [path.name for path in sorted(site.glob("[0-9]*.html"))]
    opened(tab, site, lessons[0])
    for name in lessons[1:]:
        tab.click(".related-pages .next-page")
        tab.wait_for_url(f"**/{name}")
    tab.click(".sidebar-brand")
    tab.wait_for_url("**/index.html")


def test_predictions_are_folded_and_open_by_keyboard(tab, site):
    opened(tab, site, "beyond/what_matters.html")
    folds = tab.query_selector_all("article details")
    assert len(folds) > 10 and not any(fold.get_attribute("open") for fold in folds)
    summary = tab.query_selector("article details > summary")
    summary.focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.querySelector('article details').open")


def test_what_follows_a_prediction_waits_for_a_guess(browser, tab, site):
    opened(tab, site, "03_query_key_value.html")
    text = tab.locator(".veil")
    before = tab.locator("section#how-large-is-a-score > :not([hidden])").count()
    assert text.count() > 2 and "Open the choice" in text.first.inner_text()
    first = tab.locator("section#how-large-is-a-score > details > summary").first
    first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function(
        f"document.querySelectorAll('section#how-large-is-a-score > :not([hidden])').length > {before}"
    )
    assert tab.locator("section#how-large-is-a-score > .veil").count() == 1  # of the section's second prediction
    waiting = text.count()
    text.first.get_by_role("button").click()
    tab.wait_for_function(f"document.querySelectorAll('.veil').length === {waiting - 1}")
    tab.reload()
    assert text.count() == waiting - 1
    context = browser.new_context(java_script_enabled=False)
    page = opened(context.new_page(), site, "03_query_key_value.html")
    assert not page.locator("[hidden]").count() and not page.locator(".veil").count()
    context.close()


def test_a_link_to_what_waits_shows_it(tab, site):
    opened(tab, site, "03_query_key_value.html")
    hidden = tab.evaluate("document.querySelector('article [hidden] [id], article [hidden][id]').id")
    tab.goto("about:blank")
    opened(tab, site, f"03_query_key_value.html#{hidden}")
    tab.wait_for_function(f"document.getElementById('{hidden}').closest('[hidden]') === null")


def test_pictures_are_dark_in_the_dark(browser, site):
    brightness = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(offline=True, color_scheme=scheme)
        page = opened(context.new_page(), site, "03_query_key_value.html")
        picture = Image.open(io.BytesIO(page.query_selector("article img.figure-card").screenshot()))
        brightness[scheme] = ImageStat.Stat(picture.convert("L")).mean[0]
        context.close()
    assert brightness["dark"] < 80 < 180 < brightness["light"]


def test_on_paper_everything_is_unfolded_but_the_code_of_pictures(tab, site):
    opened(tab, site, "03_query_key_value.html")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    closed = tab.query_selector_all("article details:not([open])")
    assert all("source_hidden" in fold.get_attribute("class") for fold in closed)
    tab.emulate_media(media="print")
    assert not any(fold.is_visible() for fold in closed)
    widest = "Math.max(...[...document.querySelectorAll('article pre')].map(pre => pre.scrollWidth - pre.clientWidth))"
    assert tab.evaluate(widest) <= 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(tab.query_selector_all("article details[open]")) == 0


def test_it_counts_what_was_foreseen_by_keyboard_too_and_keeps_it(tab, site):
    """Of each prediction, what was opened first; all of it can be forgotten."""
    opened(tab, site, "beyond/todays_models.html")
    told, choices = tab.locator(".foresaw"), tab.locator("article details:not(.source_hidden)")
    assert told.inner_text() == ""
    right = choices.filter(has_text="it stays: nothing changes").first.locator("summary")
    right.focus()
    tab.keyboard.press("Enter")
    choices.filter(has_text="it grows: the angles").first.locator("summary").click()  # a second one doesn't count
    choices.filter(has_text="better: it sees more").last.locator("summary").click()
    assert told.inner_text().startswith("You foresaw 1 of 6, with 4 still to open.")
    tab.reload()
    assert told.inner_text().startswith("You foresaw 1 of 6")
    told.get_by_role("button").click()
    assert told.inner_text() == ""
    tab.reload()
    assert told.inner_text() == ""
