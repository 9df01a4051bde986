"""The page that lets you play with the model, in a real browser: what it computes, and what a visitor does with it."""

import base64
import gzip
import math
import random
import re

import play
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from helpers import explore, microscope, runs
from helpers.packing import pack, unpack

pytestmark = pytest.mark.slow
PACKED = sorted(play.PACKED.glob("step-*.gz"))
DRAWN = ".explore-play[data-drawn=wholly]"
START = "O Romeo, Romeo! wherefore"
IMPORT = """async ({ source, packed }) => {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  window.ours = { ...module, packed: bytes, model: new module.GPT(bytes) };
}"""
LOGITS = """(texts) => texts.map((tokens) => {
  const cache = ours.model.newCache();
  return tokens.map((token) => Array.from(ours.model.forward(token, cache)));
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    play.write(folder)
    return folder


@pytest.fixture
def visit(browser, site):
    """Open the page as a visitor with such a screen does; afterwards: no error was logged, nothing was fetched."""
    contexts, asked, errors = [], [], []

    def opened(width: int = 1200, scheme: str = "light"):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce"))
        page = clocked(contexts[-1].new_page())
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto((site / "play.html").as_uri())
        page.wait_for_selector(DRAWN)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == [] and [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def engine(browser):
    """The model's JavaScript as JupyterLab gets it, in a page of the browser, with the bytes of a model."""
    page = browser.new_page()

    def start(packed: bytes, simd: bool = True):
        if not simd:
            page.evaluate("delete window.WebAssembly")
        given = {"source": explore.front_end("sampling"), "packed": base64.b64encode(packed).decode()}
        page.evaluate(IMPORT, given)
        assert page.evaluate("ours.compiled !== null") == simd  # bytes that are damaged would only make it slow
        return page

    yield start
    page.close()


def texts(alphabet: str, longest: int, count: int = 200) -> list[str]:
    """Half of them random letters, half cut out of the bundled play."""
    dice = random.Random(0)
    whole = (play.FRONT.parent / "bundled_play.txt").read_text(encoding="utf-8")
    whole = "".join(letter for letter in whole if letter in alphabet)
    found = []
    for number in range(count):
        length, start = dice.randint(1, longest), dice.randrange(len(whole) - longest)
        found.append("".join(dice.choices(alphabet, k=length)) if number % 2 else whole[start : start + length])
    return found


@torch.no_grad()
def farthest(page, model, tokens: list[torch.Tensor]) -> float:
    """The largest difference between the browser's logits and PyTorch's, at any place of any text."""
    theirs = page.evaluate(LOGITS, [each.tolist() for each in tokens])
    return max(
        float((model(each[None])[0].double() - torch.tensor(found, dtype=torch.float64)).abs().max())
        for each, found in zip(tokens, theirs, strict=True)
    )


def cpu(page) -> float:
    """Seconds of processor time that the page's own thread has taken so far: other programs don't count."""
    return {metric["name"]: metric["value"] for metric in page.devtools.send("Performance.getMetrics")["metrics"]}[
        "TaskDuration"
    ]


def clocked(page):
    page.devtools = page.context.new_cdp_session(page)
    page.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return page


# ---------------------------------------------------------------- what it computes
@pytest.mark.parametrize("simd", [True, False], ids=["webassembly", "javascript"])
def test_the_browser_computes_what_pytorch_computes(engine, simd):
    packed = gzip.decompress(PACKED[-1].read_bytes())
    model, tokenizer, about = unpack(packed)
    page = engine(packed, simd)
    tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, model.config.context_length)]
    difference = farthest(page, model, tokens)
    print(f"\n{len(tokens)} texts, {sum(map(len, tokens)):,} places: from the same weights {difference:.1e} at most")
    assert difference < 1e-4
    run = runs.RUNS / "laptop"
    if not runs.is_run(run) or pack(*runs.load_model(run), about=about) != packed:
        pytest.skip("the page's model comes from another run than yours: only the rounded weights were compared")
    difference = farthest(page, runs.load_model(run)[0], tokens)
    print(f"from the unrounded ones {difference:.4f} at most")
    assert difference < 0.02


@pytest.mark.parametrize("simd", [True, False], ids=["webassembly", "javascript"])
@pytest.mark.parametrize("bias", [False, True])
def test_models_of_other_shapes_are_computed_too(engine, bias, simd):
    from helpers.data import CharTokenizer
    from helpers.gpt import GPT, GPTConfig

    torch.manual_seed(1)
    tokenizer = CharTokenizer("abcdefg☃")
    model = GPT(GPTConfig(vocab_size=8, context_length=13, n_layer=3, n_head=3, n_embd=21, bias=bias)).eval()
    for weight in model.parameters():  # biases begin as zeros, and small weights hide mistakes
        torch.nn.init.normal_(weight, std=0.3)
    packed = pack(model, tokenizer)
    tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, 13, 20) if text]
    assert farthest(engine(packed, simd), unpack(packed)[0], tokens) < 1e-4


def test_a_head_switched_off_is_what_the_microscope_switches_off(engine):
    packed = gzip.decompress(PACKED[-1].read_bytes())
    model, tokenizer, _ = unpack(packed)
    page = engine(packed)
    tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, 64, 20)]
    with microscope.switch_off(model, 2, 1):
        assert farthest(page, model, tokens) > 0.1
        page.evaluate("ours.model.off.add(2 * 4 + 1)")
        assert farthest(page, model, tokens) < 1e-4


def test_snapshots_are_near_the_models_that_they_stand_for(engine):
    run = runs.RUNS / "laptop"
    if not runs.is_run(run):
        pytest.skip("no run of the preset laptop to compare with")
    models = dict(runs.load_snapshots(run))
    for path in PACKED[:-1]:
        packed = gzip.decompress(path.read_bytes())
        rounded, tokenizer, about = unpack(packed)
        tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, 64, 50)]
        assert farthest(engine(packed), rounded, tokens) < 1e-4
        with torch.no_grad():
            gaps = torch.cat([(models[about["step"]](each[None]) - rounded(each[None])).flatten() for each in tokens])
        print(
            f"\nstep {about['step']:,}: off by {gaps.square().mean().sqrt():.4f} (rms), {gaps.abs().max():.2f} at most"
        )
        assert gaps.square().mean().sqrt() < 0.1


def test_full_windows_refill_as_in_python_and_kept_places_are_not_computed(engine):
    page = engine(gzip.decompress(PACKED[-1].read_bytes()))
    moves = page.evaluate(
        """() => {
          const reader = new ours.Reader(ours.model), read = (text) => reader.reread(ours.model.encode(text));
          const counts = [read("to be or not to be"), read("to be or not to see"), read("to be")];
          while (reader.window.length < 64) counts.push(reader.write(5));
          counts.push(reader.write(5), reader.window.length, reader.write(5));
          return counts;
        }"""
    )
    assert moves[:3] == [18, 3, 0] and set(moves[3:-3]) == {1} and moves[-3:] == [32, 32, 1]


def test_filters_are_those_of_sampling(engine):
    from helpers.sampling import filter_logits

    page = engine(gzip.decompress(PACKED[-1].read_bytes()))
    torch.manual_seed(1)
    for temperature, top_k, top_p in ((1.0, 65, 1.0), (0.5, 5, 1.0), (1.7, 65, 0.6), (0.8, 12, 0.9), (1.0, 1, 0.05)):
        logits = torch.randn(65).mul(3).double()
        settings = {"temperature": temperature, "topK": top_k, "topP": top_p}
        found = page.evaluate(
            "([l, s]) => Array.from(ours.probabilities(Float64Array.from(l), s))", [logits.tolist(), settings]
        )
        expected = filter_logits(logits, temperature, top_k, top_p).softmax(-1)
        torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected)


def test_how_fast_it_is(engine):
    """Printed, not judged: it depends on the machine."""
    page = clocked(engine(gzip.decompress(PACKED[-1].read_bytes())))
    window = """() => {
      const cache = ours.model.newCache(), start = performance.now();
      for (let i = 0; i < 64; i++) ours.model.forward(i, cache);
      return (performance.now() - start) / 1000;
    }"""
    seconds, before = [page.evaluate(window) for _ in range(60)], cpu(page)
    for _ in range(20):
        page.evaluate(window)
    spent = (cpu(page) - before) / 20
    print(f"\nletters a second, cached: {64 / sorted(seconds)[30]:,.0f} (median), {64 / min(seconds):,.0f} (best)")
    print(f"letters in a second of processor time: {64 / spent:,.0f}")


# ---------------------------------------------------------------- what a visitor does
def test_the_page_is_light_and_holds_the_tested_code(site):
    page = (site / "play.html").read_text(encoding="utf-8")
    size = (site / "play.html").stat().st_size
    print(f"\nplay.html: {size / 1e6:.2f} MB")
    assert size < 2.5e6 and sum(path.stat().st_size for path in PACKED) <= 4e6
    tested = [(play.FRONT / name).read_text(encoding="utf-8") for name in ("matvec.js", "gpt.js", "sampling.js")]
    assert all(play.BEFORE.sub("", text) in page for text in tested) and "://" not in page


def test_the_first_letter_comes_soon_and_writing_pauses_and_goes_on(visit):
    page = visit()
    page.get_by_role("button", name="Let it write").first.click()
    page.wait_for_function("document.querySelector('.explore-written').textContent.length > 0")
    print(f"\nfirst letter after {cpu(page):.2f} s of processor time, the whole page drawn")
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


def test_typing_changes_all_that_is_seen(visit):
    page = visit()
    page.get_by_label("Begin a line").fill("Thou art a été")
    page.wait_for_function("document.querySelectorAll('.explore-ruler span').length === 12")
    page.wait_for_selector(DRAWN)
    assert "é" in page.inner_text(".explore-stage [role=status]")
    assert page.evaluate("document.querySelector('.explore-framed canvas').width") == 12
    page.get_by_label("Begin a line").fill("")
    page.wait_for_function("document.querySelector('.explore-ruler').textContent === '↵'")
    page.get_by_label("Begin a line").fill("x" * 100)
    page.wait_for_function("document.querySelectorAll('.explore-ruler span').length === 64")


def test_sliders_change_the_chances(visit):
    page = visit()
    first = page.locator(".explore-bars").first.locator(".explore-bar").first.locator("span").last
    bold = page.locator("[data-setting=temperature]")
    before = first.inner_text()
    bold.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(before) => document.querySelector('.explore-bar > :last-child').textContent !== before", arg=before
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
    page.locator(".explore-maps").screenshot(path=screens / "play-maps.png")  # docs/play.png, in the README
    cells = page.locator(".explore-why > *").all_inner_texts()[4:-1]
    shown = zip(cells[2::4], cells[3::4], strict=True)
    rows = [(float(score.replace("−", "-")), float(share.strip("<%")) / 100) for score, share in shown]
    assert len(rows) == 3 and all("key of " in name for name in cells[::4])
    assert page.locator(".explore-why canvas").count() == 4
    (high, most), (second, some), (low, _) = rows  # softmax: a difference of scores is a ratio of shares (both rounded)
    assert abs(math.log(most / some) - (high - second)) < 0.1 + 0.006 / some and high >= second > low


def test_a_letter_is_held_until_it_is_let_go(visit):
    page = visit(1200)
    letters, place = page.locator(".explore-ruler span"), lambda: page.get_attribute(".explore-ruler", "aria-valuenow")

    def now(expected):
        page.wait_for_function(
            f"document.querySelector('.explore-ruler').getAttribute('aria-valuenow') === '{expected}'"
        )

    letters.nth(4).hover()
    now(5)
    letters.nth(7).click()
    letters.nth(12).hover()
    page.wait_for_selector(DRAWN)
    assert place() == "8"  # the pointer passes on, and the letter stays
    page.keyboard.press("Escape")
    letters.nth(12).hover()
    letters.nth(13).hover()
    now(14)
    box = page.locator(".explore-framed .explore-map").bounding_box()
    page.locator(".explore-framed .explore-map").click(position={"x": 20, "y": box["height"] * 9.5 / 25})
    now(10)
    letters.nth(3).hover()
    page.wait_for_selector(DRAWN)
    assert place() == "10"
    letters.nth(9).click()  # once more: let go
    letters.nth(3).hover()
    now(4)


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
    page.get_by_role("button", name="Switch this head on again").click()
    page.wait_for_selector(DRAWN)
    assert "Guess" in said.inner_text() and page.locator(".explore-bars").first.inner_text() == first


def test_the_machine_says_what_each_part_does(visit):
    page = visit()
    parts = page.locator(".explore-part")
    assert parts.count() == 2 + 3 * 4 + 1
    heard = set()
    for number in range(parts.count()):
        parts.nth(number).focus()
        assert "explore-lit" in parts.nth(number).get_attribute("class")
        heard.add(page.inner_text(".explore-told"))
    assert len(heard) == parts.count()
    page.get_by_role("button", name="Follow the letter").click()
    page.wait_for_function("document.querySelector('.explore-told').textContent.startsWith('The letter is')")


def test_snapshots_are_loaded_when_asked_for_and_differ(visit):
    page = visit()
    slider = page.get_by_label("Step of the training")
    slider.focus()
    verses, title = [], page.locator("h3[aria-live]")
    for step in ("1,000", "250", "50", "0"):
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(
            "(s) => document.querySelector('h3[aria-live]').textContent.includes(`After ${s} of`)", arg=step
        )
        page.wait_for_function("document.querySelector('.explore-verse span').textContent.length === 150")
        verses.append(page.inner_text(".explore-verse"))
    assert len(set(verses)) == 4 and all(verse.startswith(START) for verse in verses)
    assert float(re.search(r"loss ([\d.]+)", title.inner_text())[1]) > 4  # about ln 65: it knows nothing yet


def test_the_cache_says_what_was_not_computed(visit):
    page = visit()
    page.get_by_role("button", name="One letter").first.click()
    page.wait_for_function("document.body.textContent.includes('1 place computed, 25 taken from the cache')")
    page.get_by_label("Begin a line").fill("x" * 64)
    page.get_by_role("button", name="One letter").first.click()
    page.wait_for_function("document.body.textContent.includes('32 places recomputed')")


@pytest.mark.parametrize("width", [375, 768, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(visit, width, scheme):
    page = visit(width, scheme)
    page.get_by_role("button", name="One letter").first.click()
    page.wait_for_selector(DRAWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    serious = [(v["id"], v["nodes"][0]["html"][:160]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []


def test_every_picture_has_a_name_before_it_is_drawn(engine):
    """A screen reader may come before the first frame, and what is out of sight is drawn late."""
    page = engine(gzip.decompress(PACKED[-1].read_bytes()))
    page.add_script_tag(content=f"{{ {play.code()}\nwindow.mount = mount; }}")
    pictures = page.evaluate(
        """() => {
          const never = { step: 0, loss: 4, load: () => new Promise(() => {}) };
          mount(document.body, { model: ours.packed, snapshots: [never] });
          return [...document.querySelectorAll("canvas[role=img]")].map((canvas) => canvas.getAttribute("aria-label"));
        }"""
    )
    assert len(pictures) == 3 and all(pictures)


def test_the_slider_of_the_training_names_its_stops(visit):
    """Its step under each stop, where the middle of the thumb comes to rest, in a phone's width, too."""
    page = visit(375)
    stops, slider = page.locator(".explore-stops > span"), page.get_by_label("Step of the training")
    assert stops.all_inner_texts() == ["0", "50", "250", "1,000", "2,000"] and slider.get_attribute("max") == "4"
    middles = stops.evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect()).map((box) => box.x + box.width / 2)"
    )
    track = slider.bounding_box()
    assert all(abs((x - track["x"]) / track["width"] - i / 4) < 0.04 for i, x in enumerate(middles)), middles


def test_it_is_mounted_twice_and_removed(engine):
    """As in JupyterLab, where a cell may be run again: bytes that begin inside a buffer, and nothing else."""
    page = engine(gzip.decompress(PACKED[-1].read_bytes()))
    page.add_script_tag(content=f"{{ {play.code()}\nwindow.mount = mount; }}")
    counts = page.evaluate(
        """(packed) => {
          const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
          const padded = new Uint8Array(bytes.length + 3);
          padded.set(bytes, 3);
          const before = document.body.innerHTML, all = () => document.querySelectorAll(".explore-play").length;
          const removers = [1, 2].map(() => mount(document.body, { model: new DataView(padded.buffer, 3) }));
          const found = [all(), document.querySelectorAll("[id], .explore-verse").length];
          removers.forEach((remove) => remove());
          return [...found, all(), document.body.innerHTML === before];
        }""",
        base64.b64encode(gzip.decompress(PACKED[-1].read_bytes())).decode(),
    )
    assert counts == [2, 0, 0, True]
