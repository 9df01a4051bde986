"""The page that lets you play with the model, in a real browser: what a visitor sees and does."""

import math
import re
from pathlib import Path

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from helpers.data import CharTokenizer
from helpers.gpt import count_parameters
from helpers.models import build_gpt
from helpers.modern import ModernConfig
from pictures.packing import pack
from tools import play

pytestmark = pytest.mark.slow
DRAWN = ".explore-play[data-drawn=wholly]"
START = "O Romeo, Romeo! wherefore"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    play.write(folder)
    return folder


@pytest.fixture
def visit(open_page, site):
    def opened(width: int = 1200, scheme: str = "light", folder: Path = site):
        page = open_page(folder / "play.html", width, scheme)
        page.wait_for_selector(DRAWN)
        return page

    return opened


def test_the_first_letter_comes_soon_and_writing_pauses_and_goes_on(visit):
    page = visit()
    page.get_by_role("button", name="Let it write").first.click()
    page.wait_for_function("document.querySelector('.explore-written').textContent.length > 0")
    page.wait_for_function("document.querySelector('.explore-written').textContent.length > 12")
    page.get_by_role("button", name="Pause").first.click()
    page.get_by_role("button", name="Continue").first.wait_for()
    paused = page.inner_text(".explore-paper")
    page.wait_for_timeout(300)
    assert page.inner_text(".explore-paper") == paused and paused.startswith(START)
    heard = page.text_content(".explore-unseen").strip()
    assert heard and paused.rstrip().endswith(heard)  # what a screen reader says
    page.get_by_role("button", name="One letter").first.click()
    page.wait_for_function(
        f"document.querySelector('.explore-written').textContent.length === {len(paused) - len(START) + 1}"
    )
    page.get_by_role("button", name="Back to your line").click()
    page.wait_for_function("document.querySelector('.explore-written').textContent === ''")


def test_the_start_page_takes_a_habit_away_and_gives_it_back(browser, site):
    page = browser.new_page(viewport={"width": 740, "height": 340})
    page.goto((site / "play.html").as_uri() + "?head")
    page.wait_for_function("document.querySelector('.explore-written')?.textContent.length > 0", timeout=10_000)
    effect = page.locator(".explore-note")
    before = effect.inner_text()
    page.get_by_role("button", name="Switch that part off").click()
    page.wait_for_function("document.querySelector('.explore-without')?.textContent.length > 5")
    letters, without, whole = map(int, re.findall(r"\d+", effect.inner_text())[:3])
    assert without < 0.7 * whole < letters
    page.get_by_role("button", name="Switch that part on again").click()
    assert effect.inner_text() == before
    page.get_by_role("button", name="Start again").click()
    page.locator(".explore-without").wait_for(state="detached")
    assert page.locator("h1, footer, .explore-contents").count() == 0
    page.close()


def test_the_page_lists_its_sections(visit):
    page = visit()
    links = page.locator(".explore-contents a")
    titles = page.locator(".explore-play h2").all_inner_texts()
    assert links.all_inner_texts() == titles and len(titles) > 7
    assert all(page.locator(link.get_attribute("href")).count() == 1 for link in links.all())


@pytest.mark.parametrize("leave", ["key", "link"])
def test_whoever_leaves_the_letter_is_not_pulled_back(visit, leave):
    page = visit()
    button = page.locator(".explore-buttons button", has_text="Follow the letter")
    button.click()
    page.locator(".explore-lit").wait_for()
    assert not button.count()
    if leave == "key":
        page.keyboard.press("Home")
    else:
        page.locator(".explore-contents a").last.evaluate("(link) => link.click()")
    button.wait_for(timeout=1000)


def test_typing_changes_all_that_is_seen(visit):
    page = visit()
    page.get_by_label("Start a line").fill("Thou art a été")
    page.wait_for_function("document.querySelectorAll('.explore-ruler span').length === 12")
    page.wait_for_selector(DRAWN)
    assert "é" in page.inner_text(".explore-stage [role=status]")
    assert page.evaluate("document.querySelector('.explore-framed canvas').width") == 12
    page.get_by_label("Start a line").fill("")
    page.wait_for_function("document.querySelector('.explore-ruler').textContent === '↵'")
    page.get_by_label("Start a line").fill("x" * 200)
    page.wait_for_function("document.querySelectorAll('.explore-ruler span').length === 128")


def test_sliders_change_the_chances(visit):
    page = visit()
    first = page.locator(".explore-bars").first.locator(".explore-bar").first.locator("span").last
    bold = page.locator("[data-setting=temperature]")
    before = first.inner_text()
    bold.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(before) => document.querySelector('.explore-bar > :last-child').textContent !== before",
        arg=before,
    )
    assert int(first.inner_text().rstrip("%")) < int(before.rstrip("%"))
    page.locator("[data-setting=topK]").fill("2")
    page.wait_for_function(
        "document.querySelectorAll('.explore-bars')[0].querySelectorAll('.explore-cut').length === 10"
    )
    page.locator("[data-setting=topP]").fill("0.05")
    page.wait_for_function(
        "document.querySelectorAll('.explore-bars')[0].querySelectorAll('.explore-cut').length === 11"
    )
    assert first.inner_text() == "100%"
    page.locator(".explore-bar").nth(3).click()  # a cut one: the visitor may
    page.wait_for_function(f"document.querySelectorAll('.explore-ruler span').length === {len(START) + 1}")


def test_a_letter_is_pointed_at_by_mouse_and_by_keyboard(visit):
    page = visit()
    looks = page.inner_text(".explore-looks")
    page.locator(".explore-ruler span").nth(9).hover()
    page.wait_for_function("document.querySelector('.explore-ruler').getAttribute('aria-valuenow') === '10'")
    page.wait_for_selector(DRAWN)
    assert page.inner_text(".explore-looks") != looks and "“R” at place 10" in page.inner_text(".explore-looks")
    page.locator(".explore-ruler").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.explore-ruler').getAttribute('aria-valuetext').startsWith('“o”')")
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.explore-looks').textContent.includes('place 25')")
    page.get_by_role("button", name="Layer 4, head 1").press("Enter")
    page.wait_for_function("document.querySelector('.explore-maps h3').textContent.startsWith('Layer 4, head 1')")


def test_the_scores_of_query_and_key_explain_the_shares(visit, screens):
    page = visit(1000)
    page.set_viewport_size({"width": 1000, "height": 1400})  # all of it, below the strip that stays
    # docs/play.png, the picture that goes with links to the site.
    page.locator(".explore-maps").screenshot(path=screens / "play-maps.png")
    cells = page.locator(".explore-why > *").all_inner_texts()[4:-1]
    shown = zip(cells[2::4], cells[3::4], strict=True)
    rows = [
        (float(score.replace("−", "-")), 0.0 if "<" in share else float(share.strip("%")) / 100)
        for score, share in shown
    ]
    assert len(rows) == 3 and all("key of " in name for name in cells[::4])
    assert page.locator(".explore-why canvas").count() == 4
    (high, most), (second, some), (low, _) = rows  # softmax: a difference of scores is a ratio of shares (both rounded)
    assert high >= second > low
    if some:
        assert abs(math.log(most / some) - (high - second)) < 0.1 + 0.006 / some
    else:  # less than one in a hundred
        assert high - second > math.log(most / 0.01) - 0.1


def test_a_head_is_switched_off_and_missed(visit):
    page = visit()
    said = page.locator(".explore-maps [role=status]")
    assert "Guess" in said.inner_text()
    first = page.locator(".explore-bars").first.inner_text()
    page.get_by_role("button", name="Switch this head off").click()
    page.wait_for_selector(DRAWN)
    assert re.match(r"Without head \d of layer \d: after “e”, .+ gets \d+% instead of \d+%", said.inner_text())
    without, whole = map(float, re.findall(r"(\d\.\d\d)", said.inner_text()))
    assert without != whole and page.locator(".explore-bars").first.inner_text() != first
    assert page.locator(".explore-off").count() == 1
    head, layer = re.search(r"head (\d) of layer (\d)", said.inner_text()).groups()
    assert page.get_by_text(f"It writes without head {head} of layer {layer}.").is_visible()  # at the top of the page
    page.locator(".explore-reads").nth(int(layer) - 1).click()
    assert f"head {head} is switched off" in page.inner_text(".explore-told")
    page.get_by_role("button", name="Switch all heads on").click()
    page.wait_for_selector(DRAWN)
    assert "Guess" in said.inner_text() and not page.get_by_text("It writes without").is_visible()
    page.get_by_role("button", name="Switch this head off").click()
    page.wait_for_selector(DRAWN)
    page.get_by_role("button", name="Switch this head on again").click()
    page.wait_for_selector(DRAWN)
    assert "Guess" in said.inner_text() and page.locator(".explore-bars").first.inner_text() == first


def test_snapshots_are_loaded_when_asked_for_and_differ(visit):
    page = visit()
    slider = page.get_by_label("Step of the training")
    slider.focus()
    verses, title = [], page.locator("h3[aria-live]")
    for step in ("2,000", "500", "100", "0"):
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(
            "(s) => document.querySelector('h3[aria-live]').textContent.includes(`After ${s} of`)",
            arg=step,
        )
        page.wait_for_function("document.querySelector('.explore-verse span').textContent.length === 150")
        verses.append(page.inner_text(".explore-verse"))
    assert len(set(verses)) == 4 and all(verse.startswith(START) for verse in verses)
    # About ln 65: it knows nothing yet.
    assert float(re.search(r"loss ([\d.]+)", title.inner_text())[1]) > 4


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1200, "light")])
def test_the_model_is_broken_and_mended_by_keyboard(visit, screens, width, scheme):
    page = visit(width, scheme)
    room = page.locator(".explore-broken")
    papers, said = room.locator(".explore-paper"), room.locator(".explore-result")

    def heard(sentence):
        page.wait_for_function("(s) => document.querySelector('.explore-result').textContent.includes(s)", arg=sentence)
        return [paper.strip() for paper in papers.all_inner_texts()], room.locator("td").all_inner_texts()

    assert not papers.first.is_visible() and said.inner_text() == ""
    room.get_by_role("button", name="Letters that were cut").focus()
    page.keyboard.press("Enter")
    assert "they get 1e-10" in room.inner_text() and not papers.first.is_visible()  # what it does is said first
    both = room.get_by_role("button", name="Let both write")
    both.press("Enter")
    (healthy, broken), (loss, same, judged, worse) = heard("and the text goes wrong. Watch only the loss")
    assert healthy.startswith(START) and broken.startswith(START) and healthy != broken
    assert loss == same and float(worse) > float(judged) + 0.25 and "minGPT" in room.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    room.screenshot(path=screens / f"play-broken-{width}-{scheme}.png")
    serious = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert serious == []
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    both.press("Enter")
    (healthy, broken), (loss, other, *_) = heard("not a letter of the text has changed")
    assert healthy == broken and float(other) > float(loss) + 1
    assert room.locator("[aria-pressed=true]").all_inner_texts() == ["Marked against the wrong letter"]
    page.get_by_label("Start a line").fill("To")  # one letter is judged, and none two ahead
    heard("The line is too short for a loss")
    room.get_by_role("button", name="Marked against").press("Enter")
    assert not papers.first.is_visible() and said.inner_text() == ""


def test_a_link_shows_a_friend_what_one_sees(browser, site):
    def opened(address):
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector(DRAWN)
        return page

    context = browser.new_context(reduced_motion="reduce", permissions=["clipboard-write", "clipboard-read"])
    context.route("**/*", lambda route: route.fulfill(path=site / re.search(r"[^/?]+(?=\?|$)", route.request.url)[0]))
    page = opened("https://play.test/play.html")
    page.get_by_label("Start a line").fill("Is this & that a <dagger>?")
    page.get_by_role("button", name="layer 2, head 3").click()
    page.get_by_label("Step of the training").press("Home")
    page.get_by_role("button", name="Scores that are").click()
    page.get_by_role("button", name="Copy a link").click()
    page.get_by_text("Copied").wait_for()
    theirs = opened(page.evaluate("navigator.clipboard.readText()"))
    assert theirs.get_by_label("Start a line").input_value() == "Is this & that a dagger?"  # no model has read < or >
    for seen in ("Layer 2, head 3 at that time", "After 0 of", "go into the softmax without being divided"):
        theirs.get_by_text(seen).wait_for()
    another = opened("https://play.test/play.html?head=9.9&step=7&fault=none&text=To+be")  # of another model, perhaps
    assert another.get_by_label("Start a line").input_value() == "To be"
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (768, "light"), (1400, "dark")])
def test_nobody_is_shut_out(visit, width, scheme):
    page = visit(width, scheme)
    page.get_by_role("button", name="One letter").first.click()
    page.wait_for_selector(DRAWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = Axe().run(page).response["violations"]
    serious = [(v["id"], v["nodes"][0]["html"][:160]) for v in violations if v["impact"] in ("serious", "critical")]
    assert serious == []


def test_the_page_of_another_run_writes_and_shows_its_own_parts(visit, tmp_path):
    """One layer, no positions, shared keys, another MLP: nothing of it is the plain model's."""
    torch.manual_seed(1)
    tokenizer = CharTokenizer("\n ,!ORadefhmoruw")
    sizes = dict(vocab_size=16, context_length=32, n_layer=1, n_head=4, n_embd=32, mlp="swiglu")
    model = build_gpt(ModernConfig(**sizes, rotary=True, qk_norm=True, n_kv_head=2, tied=False, trigrams=90)).eval()
    about = {
        "parameters": count_parameters(model),
        "seconds": 1,
        "step": 8,
        "loss": 2.5,
        "corpus": "your own text",
    }
    play.write(tmp_path, [pack(model, tokenizer, about=about)])
    page = visit(folder=tmp_path)
    assert "good at guessing the next letter of your own text" in page.inner_text("h1 + p")
    page.get_by_role("button", name="Let it write").first.click()
    page.wait_for_function("document.querySelector('.explore-written').textContent.length > 12")
    page.get_by_role("button", name="Pause").first.click()
    page.wait_for_selector(DRAWN)
    assert page.locator(".explore-head canvas").count() == 4
    drawn = """(canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value) => value > 128);
    }"""
    assert all(page.locator(".explore-head canvas").nth(head).evaluate(drawn) for head in range(4))
    assert page.locator(".explore-part").count() == 2 + 3 + 1
    said = []
    for number in range(6):
        page.locator(".explore-part").nth(number).focus()
        said.append(page.inner_text(".explore-told"))
    assert "say which letters stand before it (below)" in said[1] and "turns queries and keys" in said[1]
    assert "of its 128 neurons" in said[3]
    # It kept no snapshots: there is nothing to slide to.
    assert page.get_by_label("Step of the training").count() == 0
