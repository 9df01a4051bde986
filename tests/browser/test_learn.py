"""The page on which a GPT learns the reader's text, in a real browser: what a visitor sees and does."""

import base64
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from helpers.data import BUNDLED_PLAY
from tools import learn, play

pytestmark = pytest.mark.slow
DRAWN = ".explore-play[data-drawn=wholly]"
SHORTLY = "(select) => select.add(new Option('shortly', 3, true, true))"  # three seconds
PLAY = BUNDLED_PLAY.read_text(encoding="utf-8")
WORD = re.compile(r"(?:[^\W\d_]|['’])+")
WORDS = set(WORD.findall(PLAY.lower()))
WITHOUT = """delete window.WebAssembly;
const Whole = Blob;
window.Blob = function (parts, options) {
  return new Whole(options.type === "text/javascript" ? ["delete self.WebAssembly;\\n", ...parts] : parts, options);
};"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    learn.write(folder)
    return folder


@pytest.fixture
def visit(open_page, site):
    def opened(path: Path = site / "learn.html", width: int = 1280, scheme: str = "light", script: str = ""):
        return open_page(path, width, scheme, script)

    return opened


def begin(page, text: str | bytes, name: str = "my diary.txt") -> str:
    """Choose a file with this text and press Start; what is said then."""
    content = text if isinstance(text, bytes) else text.encode()
    before = page.locator("[role=status]").first.inner_text()
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
    page.wait_for_function(
        "(old) => ![old, 'Reading …'].includes(document.querySelector('[role=status]').textContent)", arg=before
    )
    page.locator("select").evaluate(SHORTLY)
    page.get_by_role("button", name="Start").first.click()
    return page.locator("[role=status]").last.inner_text()


def serious(page) -> list:
    violations = Axe().run(page).response["violations"]
    return [(v["id"], v["nodes"][0]["html"][:160]) for v in violations if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_text_is_learned_played_with_and_taken_home(visit, screens, tmp_path, width, scheme):
    page = visit(width=width, scheme=scheme)
    assert serious(page) == []
    begin(page, PLAY)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1000)  # a report may have been on its way
    paused = page.inner_text(".explore-counted")
    page.wait_for_timeout(1500)
    assert page.inner_text(".explore-counted") == paused
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Time is up").wait_for()
    first, last = map(float, re.findall(r"\d\.\d\d", page.locator(".explore-curve").get_attribute("aria-label")))
    assert last < first
    written, standing_out = page.inner_text(".explore-verse"), page.locator(".explore-verse b").all_inner_texts()
    assert standing_out == [word for word in WORD.findall(written) if word.lower() in WORDS]
    assert f"{len(standing_out)} of {len(WORD.findall(written))} word" in page.inner_text(".explore-learning")
    assert page.locator(".explore-learning canvas").count() == 1 + 8
    page.get_by_role("button", name="Layer 2, head 3").click()
    assert "Layer 2, head 3" in page.inner_text(".explore-learning > div:last-child h3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(page) == []
    page.screenshot(path=screens / f"learn-{width}-{scheme}.png", full_page=True)
    with page.expect_download() as download:
        page.get_by_role("button", name="Take it home").click()
    page.get_by_role("button", name="Play with it").click()
    page.wait_for_selector(DRAWN)
    assert page.get_by_label("Start a line").input_value() in PLAY
    assert page.get_by_label("Step of the training").get_attribute("max") in "12"
    download.value.save_as(tmp_path / "my_gpt.html")
    assert "{{" not in (tmp_path / "my_gpt.html").read_text(encoding="utf-8")
    home = visit(tmp_path / "my_gpt.html", width, scheme)
    home.wait_for_selector(DRAWN)
    assert "good at guessing the next letter of my diary" in home.inner_text("h1 + p")
    both = [each.locator(".explore-bars").first.inner_text() for each in (page, home)]
    assert both[0] == both[1] and serious(home) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("too short", "That is 9 letters, and a GPT needs 2,000"),
        ("a" * 3000, "there is nothing to guess"),
        (b"PK\0\0" * 999, "isn't plain text"),
    ],
    ids=["short", "one letter", "no text"],
)
def test_what_can_not_be_learned_is_refused_in_a_sentence(visit, text, says):
    page = visit()
    begin(page, text)
    page.get_by_text(says).wait_for()
    assert page.locator("canvas").first.is_hidden() and page.get_by_role("button", name="Pause").count() == 0


def test_a_training_goes_on_when_the_next_text_is_refused_and_ends_when_another_begins(visit):
    page = visit()
    begin(page, PLAY)
    begin(page, "too short", "note.txt")
    page.get_by_text("That is 9 letters").wait_for()
    page.get_by_role("button", name="Pause").wait_for()
    begin(page, PLAY[:30_000], "half.txt")
    page.get_by_text("Time is up").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Take it home").click()
    model = re.search(r'model: bytes\("(.+?)"\)', download.value.path().read_text(encoding="utf-8"))
    assert play.header(base64.b64decode(model[1]))["about"]["corpus"] == "half"


@pytest.mark.parametrize(
    ("text", "letters", "ends"),
    [
        ("🐄🐎 🌿\n🐑" * 500, 6, "Time is up"),
        ("".join(map(chr, range(0x4E00, 0x4E00 + 900))) * 9, 500, "Time is up"),
        ("ab" * 4500 + "aabb" * 250, 2, "It stopped early"),  # what it learns is wrong of the last tenth
    ],
    ids=["emoji", "Chinese", "by heart"],
)
def test_any_alphabet_is_learned_and_of_a_large_one_the_most_frequent_letters(visit, text, letters, ends):
    page = visit()
    said = begin(page, text)
    assert ("learns the 500 most frequent; the others, 44% of the text, are left out" in said) == (letters == 500)
    page.get_by_text(ends).wait_for()
    page.get_by_role("button", name="Play with it").click()
    page.wait_for_selector(DRAWN)
    assert f"each of the {letters} characters" in page.locator("#learn").inner_text()


def test_without_webassembly_a_smaller_one_learns(visit):
    page = visit(script=WITHOUT)
    begin(page, PLAY)
    page.get_by_text("Without WebAssembly this browser takes its time, so the GPT is a smaller one").wait_for()
    page.get_by_text("Time is up").wait_for()
    first, last = map(float, re.findall(r"\d\.\d\d", page.locator(".explore-curve").get_attribute("aria-label")))
    assert last < first
