"""The explorers of the notebooks in Chromium: on a page, and inside JupyterLab."""

import base64
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse

import nbformat
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from lab import SHOWN, jupyterlab
from notebook_file import cells
from scipy.special import stdtrit

from helpers.attention import attention
from helpers.modern import rotate, rotations
from helpers.rooms.tokens import BPETokenizer, chunks, learn
from helpers.rooms.verdicts import verdict
from helpers.sampling import filter_logits
from pictures import explore, host, multi_head, plotting
from tools.lessons import lessons

MERGES = learn("to the other moor, to the other door", 20)
CELLS = {
    "shadows": 'explore.shadows("arrows", torch.tensor([0.8, 0.6]), '
    'torch.tensor([[1.2, 0.9], [1.0, 3.0], [-1.2, -0.9]]), ["a", "b", "c"])',
    "mask": 'explore.mask(torch.arange(16.0).view(4, 4) % 5, ["to", "be", "or", "not"])',
    "votes": """says = torch.tensor([[8.0, 0.0, 0.0], [0.0, 6.0, 0.0], [-4.0, 0.0, 4.0]])
explore.votes(["Ann gives the ring", "Bob gives the rose", "Cleo gives the lute"], ["ring", "rose", "lute"], 0, 0,
              {"loud": (torch.tensor([3.0, 0.0, 0.0]), says), "quiet": (torch.zeros(3), says)})""",
    "attend": """keys = 2 * torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
explore.attend(keys, keys[[2, 0, 3, 1]], ["east", "north", "west", "south"], ["ring", "rose", "lute", "mask"],
               {"east asks": keys[0], "south asks": keys[3]})""",
    "filters": 'explore.filters(torch.randn(3, 30, generator=torch.Generator().manual_seed(0)), "abc", '
    "[chr(97 + i) for i in range(30)])",
    "machine": """x, mask = torch.arange(9.0).view(3, 3) % 4 / 2 - 0.6, torch.ones(3, 3).tril().bool()
query, key, value = x[:, :2] + 0.1, x[:, 1:] - 0.3, x[:, :2].flip(0)
scores = query @ key.T / 2**0.5
weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
explore.machine(["to", "be", "or"], x=x, query=query, key=key, value=value, scores=scores, mask=mask, weights=weights,
                context=weights @ value, follow=2)""",
    "sheets": """words, numbers, x, matrices = multi_head.letter()
heads = {}
for question, (W_query, W_key, W_value, slice_of_W_o) in matrices.items():
    query, key, value = x @ W_query, x @ W_key, x @ W_value
    context, weights = attention(query, key, value)
    heads[question] = {"query": query, "key": key, "value": value, "weights": weights, "context": context,
                       "slice": slice_of_W_o}
explore.sheets(words, numbers, x, heads, follow=9)""",
    "cut": 'explore.cut(["to", "be", "or"], heads=2, width=3)',
    "clock": "explore.clock(*torch.randn(2, 8, generator=torch.Generator().manual_seed(1)))",
    "lines": """german, english = "Hilf mir zu lesen".split(), "Help me read".split()
sharp = 6 * torch.eye(8)[[3, 0, 1, 2, 4, 5, 6, 7]] + torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
shares = torch.stack([(0.01 * sharp).softmax(-1), sharp.softmax(-1)])
explore.lines([("before", "heaDache", "Dheaache", shares[0]), ("after", "heaDache", "Dheaache", shares[1]),
               ("words", german, english, torch.eye(4)[[0, 1, 3]])], "letters and lines")""",
    "verdict": """explore.verdict({
    "no positions": {"400 steps": [0.054, 0.014, 0.027, 0.0, 0.045, 0.024], "1,200 steps": [0.23, 0.216, 0.235]},
    "one head": {"400 steps": [0.012, -0.02, 0.018, 0.016, 0.101, 0.02], "1,200 steps": [0.012, 0.026, -0.008]}})""",
    "questions": """people, things = ["Ann", "Bob", "Cleo", "Dora"], ["ring", "rose", "lute", "mask", "torch"]
cards = [[people[i], things[i], people[(i + 1) % 4]] for i in (0, 2, 1, 3)]
draw = torch.Generator().manual_seed(6)
networks = {name: ((2 * torch.randn(4, H, 4, generator=draw)).softmax(-1), torch.randn(4, 2, 5, generator=draw) / 3)
            for H, name in ((1, "one head"), (2, "two heads"))}
given = torch.tensor([[i, (i - 1) % 4] for i in range(4)])  # what each gives, and what each gets
networks["two heads"][1][:3].scatter_add_(2, given[:3, :, None], torch.ones(3, 2, 1))  # Dora's answers stay as they are
explore.questions(people, cards, things, networks)""",
    "ring": """explore.ring(["Ann", "Bob", "Cleo", "Dora", "Eve", "Fay"],
             ["ring", "rose", "lute", "mask", "torch", "letter"], asker=1)""",
    "rewards": """explore.rewards([("nothing", [0.52, 0.7, 0.79], [1.91, 2.2, 2.61], "any, any"),
                                 ("a penalty of 1", [0.52, 0.6, 0.66], [1.91, 1.93, 1.95], "any make")])""",
    "tokens": f"explore.tokens('to the moor', {MERGES}, stops=(0, 5, 20, 100))",
    "temperature": """explore.temperature("values", torch.tensor([0.8, 0.6]),
                    torch.tensor([[-1.0, -1.4], [1.3, 2.3], [2.4, 0.2]]), ["bread", "apple", "honey"])""",
}
NAMES = {"torch": torch, "attention": attention, "multi_head": multi_head}  # what these cells may use
LINE = ".explore-{} .explore-line"
HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>explorer</title>'
    '<meta name="viewport" content="width=device-width"><style>body { margin: 8px }</style>'
)


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1200, "height": 1600})
    problems = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    yield page
    page.close()
    assert not problems


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The address of a page for each explorer, on the disk."""
    shown, addresses, folder = [], {}, tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotting, "display", lambda *bundle, **options: shown.append((bundle, options)))
        patch.delenv("JPY_SESSION_NAME", raising=False)
        for name, cell in CELLS.items():
            exec(cell, NAMES | {"explore": explore})
            (bundle,), options = shown[-1]
            png, metadata = base64.b64encode(bundle["image/png"]).decode(), options["metadata"]
            part = host.page({"data": {"image/png": png}, "metadata": metadata})
            script = host.mounting(metadata["explore"]["front_end"])
            path = folder / f"{name}.html"
            path.write_text(f"{HEAD}<main><h1>{name}</h1>{part}</main>{script}", encoding="utf-8")
            addresses[name] = path.as_uri()
    return addresses


def module(page, name: str, expression: str, data) -> list:
    """What an expression makes of `data`, with the exports of a front end as `it`."""
    source = "data:text/javascript;base64," + base64.b64encode(host.front_end(name).encode()).decode()
    plain = "(_, x) => x !== x ? 'NaN' : x"
    script = f"([source, data]) => import(source).then((it) => JSON.stringify({expression}, {plain}))"
    return json.loads(page.evaluate(script, [source, data]), parse_constant=float)


# ---------------------------------------------------------------- what they compute
def test_the_filters_equal_those_of_sampling(page):
    torch.manual_seed(1)
    settings = [
        (1, 65, 1),
        (0.1, 65, 1),
        (2, 5, 1),
        (0.7, 65, 0.9),
        (1.3, 10, 0.5),
        (1, 1, 1),
        (1, 65, 0.05),
    ]
    cases, expected = [], []
    for heat, k, p in settings * 20:
        logits = 3 * torch.randn(65, dtype=torch.float64)
        logits[torch.randint(65, (5,))] = logits[7].item()  # ties
        cases.append([logits.tolist(), {"temperature": heat, "topK": k, "topP": p}])
        expected.append(filter_logits(logits, float(heat), k, float(p)).softmax(dim=-1))
    ours = torch.tensor(module(page, "filters", "data.map((one) => it.probabilities(...one))", cases))
    assert (ours - torch.stack(expected).float()).abs().max() < 1e-6
    assert ((ours == 0) == (torch.stack(expected).float() == 0)).all() and (ours == 0).any()


def test_weights_and_mixture_equal_those_of_attention(page):
    torch.manual_seed(2)
    query, keys, values = torch.randn(2), torch.randn(6, 2), torch.randn(6, 3)
    ours = module(page, "attend", "it.attend(...data, true)", [query.tolist(), keys.tolist(), values.tolist()])
    context, weights = attention(query[None], keys, values)
    assert torch.allclose(torch.tensor(ours["weights"]), weights[0], atol=1e-6)
    assert torch.allclose(torch.tensor(ours["mixture"]), context[0], atol=1e-6)
    ours = module(
        page,
        "attend",
        "it.attend(...data, false, 3)",
        [query.tolist(), keys.tolist(), values.tolist()],
    )
    assert torch.allclose(torch.tensor(ours["weights"]), (keys @ query / 3).softmax(dim=0), atol=1e-6)
    ours = {
        name: torch.tensor(x)
        for name, x in module(page, "shadows", "it.shadows(...data)", [query.tolist(), keys.tolist()]).items()
    }
    assert torch.allclose(ours["scores"], keys @ query, atol=1e-6)
    assert torch.allclose(ours["cosines"], torch.cosine_similarity(query, keys, dim=1), atol=1e-6)
    # The foot has the key's score, ...
    assert torch.allclose(ours["feet"] @ query, keys @ query, atol=1e-5)
    # ... on the line.
    assert torch.allclose(ours["feet"][:, 0] * query[1], ours["feet"][:, 1] * query[0], atol=1e-6)
    scores, allowed = torch.randn(5, 5), torch.rand(5, 5) > 0.4
    allowed[2] = False
    ours = module(page, "mask", "it.masked(...data)", [scores.tolist(), allowed.tolist()])
    ours = torch.tensor([[float(x) for x in row] for row in ours])
    expected = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    assert torch.allclose(ours, expected, atol=1e-6, equal_nan=True) and ours[2].isnan().all()


def test_a_cut_number_lands_where_view_and_transpose_put_it(page):
    sizes = [(3, 2, 3), (2, 3, 2), (6, 3, 4)]
    landed = "data.map(([T, H, D]) => ['view', 'transpose'].map((way) => [...Array(T * H * D).keys()].map((k) => "
    landed += "{ const { head, row, column } = it.landing(k, T, H, D, way); return [head, row, column]; })))"
    for (T, H, D), ours in zip(sizes, module(page, "cut", landed, sizes), strict=True):
        number = torch.arange(T * H * D)
        for expected, places in zip((number.view(H, T, D), number.view(T, H, D).transpose(0, 1)), ours, strict=True):
            assert expected.shape == (H, T, D)
            assert torch.equal(expected[tuple(torch.tensor(places).T)], number)


def test_the_score_of_the_clocks_equals_that_of_rotary_positions(page):
    """Numbers i and i + D/2 are the two of a complex number."""
    torch.manual_seed(4)
    places = [(3, 1), (13, 11), (0, 0), (0, 40)]
    for D in (2, 8):
        query, key = torch.randn(2, D)
        cases = [[query.tolist(), key.tolist(), m, n, 10_000] for m, n in places]
        clocks = module(page, "clock", "data.map((one) => it.clock(...one))", cases)
        tables = rotations(41, D)
        asks, offers = (rotate(x.expand(41, D), *tables) for x in (query, key))
        for (m, n), clock in zip(places, clocks, strict=True):
            pairs = torch.complex(*asks[m].chunk(2)) * torch.complex(*offers[n].chunk(2)).conj()
            assert torch.allclose(torch.tensor(clock["parts"]), pairs.real, atol=1e-5)
            assert abs(clock["score"] - asks[m] @ offers[n]) < 1e-5
            assert torch.allclose(torch.tensor(clock["angles"]), pairs.angle(), atol=1e-4)
        assert torch.allclose(torch.tensor(clocks[0]["angles"]), torch.tensor(clocks[1]["angles"]), atol=1e-5)


def test_verdicts_on_one_comparison_equal_those_of_the_studies(page):
    random = torch.Generator().manual_seed(5)
    cases, expected = [[0.0] * 3, [0.04] * 3, [0.05] * 4, [-0.3] * 20], []
    for n in [*range(2, 21)] * 12:
        mean, spread = 0.15 * torch.rand(2, generator=random) - torch.tensor([0.075, 0.0])
        cases.append((mean + spread / 3 * torch.randn(n, generator=random, dtype=torch.float64)).tolist())
    ours = module(page, "verdict", "data.map((numbers) => it.judged(numbers, 0.05))", cases)
    for numbers, judged in zip(cases, ours, strict=True):
        right = verdict(numbers, margin=0.05)
        assert judged["says"] == right.says
        assert all(abs(judged[name] - getattr(right, name)) < 1e-5 for name in ("mean", "low", "high"))
        expected.append(right.says)
    ways = {"worse", "better", "slightly worse", "slightly better", "no difference", "undecided"}
    assert set(expected) == ways


@pytest.mark.parametrize("name", CELLS)
def test_a_page_shows_the_picture_without_scripts_and_the_explorer_with_them(browser, page, pages, name):
    without = browser.new_context(java_script_enabled=False).new_page()
    without.goto(pages[name])
    assert without.locator("img[alt]").is_visible() and without.locator(".explore").count() == 0
    without.context.close()
    page.goto(pages[name])
    assert page.locator(f".explore-{name}").is_visible() and page.locator("img").count() == 0


@pytest.mark.parametrize("name", CELLS)
def test_an_explorer_is_mounted_twice_and_removed_without_a_trace(page, pages, name):
    page.goto(pages[name])
    before = page.evaluate("document.body.outerHTML.length")
    data = page.locator('script[type="application/json"]').text_content()
    places = "[0, 1].map(() => document.body.appendChild(document.createElement('div')))"
    mounted = f"{places}.map((place) => [place, it.mount(place, data)])"
    kept = f"{mounted}.map(([place, remove]) => (remove(), place.innerHTML + (place.remove() ?? '')))"
    assert module(page, name, kept, json.loads(data)) == ["", ""]
    assert page.evaluate("document.body.outerHTML.length") == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_for_everybody(browser, pages, scheme):
    """No fault that axe calls serious; no sideways scroll on a phone."""
    page = browser.new_page(viewport={"width": 360, "height": 700}, color_scheme=scheme)
    for name, address in pages.items():
        page.goto(address)
        faults = Axe().run(page).response["violations"]
        faults = [fault for fault in faults if fault["impact"] in ("serious", "critical")]
        assert not faults, [(name, f["id"], [at["html"] for at in f["nodes"]]) for f in faults]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
    page.close()


def test_a_query_is_dragged_and_turned_by_keys(page, pages):
    page.goto(pages["attend"])
    line, plane = page.locator(LINE.format("attend")), page.locator(".explore-plane")
    assert "east" in line.inner_text() and "ring" in line.inner_text()
    box = plane.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] + 60, middle[1])
    page.mouse.down()
    page.mouse.move(middle[0], middle[1] - 70, steps=4)
    page.mouse.up()
    page.mouse.move(middle[0], middle[1] + 70)  # let go: nothing moves any more
    assert "north has the highest score" in line.inner_text() and "rose" in line.inner_text()
    for _ in range(18):
        page.keyboard.press("ArrowLeft")
    assert "west has the highest score" in line.inner_text()
    share = page.locator(".explore-best").last.inner_text()
    page.get_by_label("divide scores").uncheck()
    assert int(page.locator(".explore-best").last.inner_text()[:-1]) > int(share[:-1])
    page.get_by_role("button", name="south asks").click()
    assert "south has the highest score" in line.inner_text()


def test_a_mask_is_painted_by_pointer_and_by_keys(page, pages):
    page.goto(pages["mask"])
    line, cells = page.locator(LINE.format("mask")), page.locator(".explore-cell")
    assert "to (word 1) sees be (word 2), which comes later: it cheats" in line.inner_text()
    boxes = [cells.nth(i).bounding_box() for i in range(4)]
    page.mouse.move(boxes[0]["x"] + 9, boxes[0]["y"] + 9)
    page.mouse.down()
    for box in boxes[1:]:
        page.mouse.move(box["x"] + 9, box["y"] + 9, steps=5)
    page.mouse.up()
    assert "to (word 1) may look at nobody" in line.inner_text() and page.locator(".explore-broken").count() == 4
    page.get_by_role("button", name="causal mask", exact=True).click()
    assert "this is the causal mask" in line.inner_text() and page.locator(".explore-hidden").count() == 6
    cells.first.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "Nobody cheats. But be (word 2) doesn't see itself" in line.inner_text()


def test_a_cut_is_tapped(browser, pages):
    context = browser.new_context(viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(pages["cut"])
    page.locator("[role=grid] [data-k='10']").tap()
    text = page.locator(LINE.format("cut")).inner_text()
    assert text.startswith("10, number 5 of be, lands in head 2, in the row of to: from now on to asks with")
    page.get_by_role("button", name="transpose").tap()
    assert page.locator(LINE.format("cut")).inner_text() == "10, number 5 of be, lands in head 2, in the row of be."
    page.locator(".explore-cut .explore-invitation").tap()
    assert page.locator(LINE.format("cut")).inner_text().startswith("view and transpose")
    context.close()


def test_sliders_strike_letters_out(page, pages):
    page.goto(pages["filters"])
    line, out = page.locator(LINE.format("filters")), page.locator(".explore-out")
    assert "All 30 letters may come" in line.inner_text() and out.count() == 0
    page.get_by_label("top-k").fill("5")
    assert "5 of 30 letters may come" in line.inner_text() and out.count() == 24 - 5
    assert "line-through" in out.first.locator(".explore-letter").evaluate("(x) => getComputedStyle(x).textDecoration")
    page.get_by_label("temperature").fill("0.1")
    page.get_by_label("top-p").fill("0.5")
    assert "Only one of 30 letters may come" in line.inner_text() and "0.00 nats" in line.inner_text()
    page.get_by_text("draw 20 letters").click()
    assert len(set(page.locator(".explore-drawn").inner_text().split())) == 1
    page.get_by_text("start again").click()
    before = line.inner_text()
    page.get_by_label("place").focus()
    page.keyboard.press("ArrowLeft")
    assert line.inner_text() != before


def turned_score(m: int, n: int) -> str:
    """What the clocks of CELLS must show for these places, computed with helpers/modern.py."""
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    query, key = rotate(x[:, None].expand(2, 41, 8), *rotations(41, 8))
    return f"{(query[m] @ key[n]).item():z.2f}".replace("-", "−")


def interval(numbers: list[float]) -> tuple[float, float, float]:
    x = torch.tensor(numbers, dtype=torch.float64)
    half = stdtrit(len(x) - 1, 0.975) * x.std() / len(x) ** 0.5
    return x.mean().item(), (x.mean() - half).item(), (x.mean() + half).item()


def test_a_key_is_dragged_and_its_shadow_follows(page, pages):
    page.goto(pages["shadows"])
    line, handles = page.locator(LINE.format("shadows")), page.locator(".explore-handle")
    assert "b wins with 2.6, though a points more nearly" in line.inner_text()
    box, plane = handles.nth(2).bounding_box(), page.locator(".explore-plane").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)  # from the tip of b to where c points
    page.mouse.down()
    page.mouse.move(plane["x"] + 30, plane["y"] + plane["height"] - 30, steps=4)
    page.mouse.up()
    assert "a wins" in line.inner_text()
    handles.nth(0).focus()
    for _ in range(36):  # half a turn: now a points the other way, b and c the query's
        page.keyboard.press("ArrowLeft")
    assert "b wins" in line.inner_text()
    page.get_by_role("button", name="start again").click()
    page.get_by_role("button", name="make all keys equally long").click()
    assert "a wins: it points the query's way more" in line.inner_text()


def test_the_mixture_follows_the_temperature(page, pages):
    page.goto(pages["temperature"])
    line, slider = page.locator(LINE.format("temperature")), page.get_by_role("slider", name="temperature")
    where = page.locator(".explore-mixed")
    warm = where.get_attribute("transform")
    slider.fill("-2.995732")
    assert "So cold that apple takes" in line.inner_text()
    assert where.get_attribute("transform") != warm
    slider.press("End")
    assert "the scores hardly differ" in line.inner_text()


BESIDE = """() => {
  const faults = [];
  for (const image of document.querySelectorAll(".explore svg")) {
    const edge = image.getBoundingClientRect();
    const shown = (text) => text.textContent.trim() && text.checkVisibility();
    const texts = [...image.querySelectorAll("text")].filter(shown);
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [k, [name, box]] of boxes.entries()) {
      const cut = Math.max(edge.left - box.left, box.right - edge.right, edge.top - box.top, box.bottom - edge.bottom);
      if (cut > 1.5) faults.push(`${name} is cut`);
      if (Math.max(box.width, box.height) < 9) faults.push(`${name} is tiny`);
      for (const [other, next] of boxes.slice(k + 1)) {
        const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const tall = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (wide > 1 && tall > 0.3 * Math.min(box.height, next.height)) faults.push(`${name} on ${other}`);
      }
    }
  }
  const drawn = document.querySelectorAll(":is(.explore-machine, .explore-sheets) svg");
  for (const image of drawn) {
    const texts = [...image.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const line of image.querySelectorAll(":is(.explore-arrow, .explore-way)")) {
      for (let far = 0; far < line.getTotalLength(); far += 1) {
        const at = line.getPointAtLength(far).matrixTransform(line.getScreenCTM());
        const on = ([, box]) => at.x > box.left && at.x < box.right && at.y > box.top + 2 && at.y < box.bottom - 2;
        const struck = texts.find(on);
        if (struck) faults.push(`an arrow runs through ${struck[0]}`);
      }
    }
  }
  for (const part of document.querySelectorAll(".explore :is(.explore-row > span, label, output, p, td, th)")) {
    if (part.scrollWidth > part.clientWidth + 1 && part.clientWidth) faults.push(`${part.textContent} is cut`);
  }
  return [...new Set(faults)];
}"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The address of a page for each explorer of the lessons."""
    folder, addresses = tmp_path_factory.mktemp("stored"), {}
    for lesson in lessons():
        for cell in cells(nbformat.read(lesson, as_version=4)):
            for output in cell.outputs:
                if explorer := output.get("metadata", {}).get("explore"):
                    name = f"{lesson.stem} {cell.id}"
                    path = folder / f"{name.replace(' ', '-')}.html"
                    path.write_text(
                        f"{HEAD}<main>{host.page(output)}</main>{host.mounting(explorer.front_end)}", encoding="utf-8"
                    )
                    addresses[name] = path.as_uri()
    return addresses


@pytest.mark.parametrize("width", [350, 830, 1280])
def test_no_label_touches_another_or_is_cut(page, pages, stored, width):
    faults = {}
    for name, address in (pages | stored).items():
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(address)
        if found := page.evaluate(BESIDE):
            faults[name] = found
    assert not faults


def defined(name: str) -> dict:
    """The names that the cell of this explorer defines."""
    quiet = {part: lambda *_, **__: None for part in dir(explore)}
    names = NAMES | {"explore": SimpleNamespace(**quiet)}
    exec(CELLS[name], names)
    return names


@pytest.mark.parametrize(("width", "kind"), [(1200, 0), (366, 1)])
def test_each_number_of_the_machine_says_where_it_comes_from(page, pages, width, kind):
    """By pointer, wherever one points; and by keys. On a phone it has two rows."""
    page.set_viewport_size({"width": width, "height": 1600})
    page.goto(pages["machine"])
    line, board = page.locator(LINE.format("machine")), page.locator(".explore-board")
    opened, names = line.inner_text(), defined("machine")
    data = json.loads(page.locator('script[type="application/json"]').text_content())
    drawing = data["drawings"][kind]
    corner, scale = board.bounding_box(), board.bounding_box()["width"] / drawing["width"]
    for name in ("x", "query", "key", "value", "scores", "weights"):
        table = names[name].T if name == "key" else names[name]  # the key lies on its side
        left, top, wide, tall = drawing["boxes"][name]
        n, m = table.shape
        for i, j in itertools.product(range(n), range(m)):
            x, y = left + (j + 0.5) * wide / m, top + (i + 0.5) * tall / n
            page.mouse.move(corner["x"] + x * scale, corner["y"] + y * scale)
            number = line.inner_text().partition(":")[0].replace("−", "-")
            assert abs(float(number) - table[i, j]) < 0.0051, (name, i, j)
            if (name, i, j) == ("scores", 2, 0):
                sentence = "Row times column: 0.50 × −0.40 + 1.00 × 0.10 = −0.10, and divided by √2"
                assert sentence in line.inner_text()
                assert page.locator(".explore-machine .explore-source").count() == 2
    page.mouse.move(2, 2)
    board.focus()
    heard = []
    for key in ("Escape", "ArrowUp", "ArrowRight", "Escape"):
        page.keyboard.press(key)
        heard.append(line.inner_text())
    assert heard[1].startswith("be looks") and "number 1 of the 3 that stand for be" in heard[2]
    assert heard[0] == heard[3] == opened


def test_the_machine_follows_another_row_and_no_arrow_crosses_a_word(page, pages):
    page.goto(pages["machine"])
    board = page.locator(".explore-board")
    followed = page.locator(".explore-frame.explore-followed").first
    assert followed.is_visible()
    board.focus()
    page.keyboard.press("ArrowUp")
    assert not followed.is_visible() and page.locator(".explore-way").count() == 4
    # Lights lie below all that is written.
    order = "(board) => [...board.children].map((node) => node.tagName === 'g' ? 'lights' : node.tagName)"
    nodes = board.evaluate(order)
    assert "text" not in nodes[: nodes.index("lights")] and nodes.count("text") > 20


@pytest.mark.parametrize(("width", "kind"), [(1200, 0), (366, 1)])
def test_what_the_heads_add_up_to_is_said_for_each_word(page, pages, width, kind):
    """By pointer, beside x and above the keys; and by keys."""
    page.set_viewport_size({"width": width, "height": 2400})
    page.goto(pages["sheets"])
    line, board, names = page.locator(LINE.format("sheets")), page.locator(".explore-board"), defined("sheets")
    drawing = json.loads(page.locator('script[type="application/json"]').text_content())["drawings"][kind]
    corner, scale = board.bounding_box(), board.bounding_box()["width"] / drawing["width"]
    opened, words, parts = line.inner_text(), names["words"], []
    for head in names["heads"].values():
        parts.append(head["context"] @ head["slice"])
    for name, (left, top, wide, tall) in drawing["boxes"].items():
        if name not in ("x", "weights 1", "key 2"):
            continue
        for t, word in enumerate(words):
            y = top - 8 if name == "key 2" else top + (t + 0.5) * tall / len(words)
            x = {"x": left - 20, "weights 1": left + 3, "key 2": left + (t + 0.5) * wide / len(words)}[name]
            page.mouse.move(corner["x"] + x * scale, corner["y"] + y * scale)
            said = line.inner_text().replace("−", "-")
            assert said.startswith(word) and said.count("alike") == sum(
                head["weights"][t].std() < 1e-6 for head in names["heads"].values()
            )
            sums = zip(names["numbers"], parts[0][t].tolist(), parts[1][t].tolist(), strict=True)
            for number, one, two in sums:
                assert f"{number} {one:z.2f} + {two:z.2f} = {one + two:z.2f}" in said
    page.mouse.move(2, 2)
    board.focus()
    page.keyboard.press("Escape")
    assert line.inner_text() == opened
    assert "(which thing?) looks most at letter, 0.83. Head 2 (which deed?) looks most at opened, 0.83." in opened
    page.keyboard.press("ArrowUp")
    assert line.inner_text().startswith("opened: ")


@pytest.mark.parametrize(
    ("name", "answer"), [("lines", "line"), ("shadows", ".explore-shade"), ("questions", ".explore-fan")]
)
def test_a_figure_that_waits_answers_at_the_first_touch(page, pages, name, answer):
    address = pages[name]
    waiting = Path(urlparse(address).path).read_text(encoding="utf-8").replace('"waits": false', '"waits": true')
    page.set_content(waiting)
    root, says = page.locator(f".explore-{name}"), page.locator(LINE.format(name))
    root.hover()
    page.keyboard.press("Tab")
    assert not root.locator(answer).first.is_visible() and not says.is_visible()
    page.keyboard.press("ArrowRight")
    assert says.is_visible() and "explore-waiting" not in root.get_attribute("class")


def test_a_number_lands_in_anothers_row_until_transpose_helps(page, pages):
    """By pointer and by keys."""
    page.goto(pages["cut"])
    line, way = page.locator(LINE.format("cut")), page.get_by_role("button", name="transpose")
    number = torch.arange(18)
    strangers = (number.view(2, 3, 3) // 6 != torch.arange(3)[:, None]).sum()
    assert line.inner_text().startswith(f"view alone: {strangers} of 18 numbers stand in another")

    def seen():
        tables = page.get_by_role("table").all()
        return [[int(x) for x in table.locator("[data-k]").all_inner_texts()] for table in tables]

    assert seen() == number.view(2, 9).tolist()
    page.get_by_role("grid", name="the big table").locator("[data-k='4']").click()
    assert line.inner_text().startswith("4, number 5 of to, lands in head 1, in the row of be: from")
    way.click()
    assert line.inner_text() == "4, number 5 of to, lands in head 2, in the row of to."
    assert seen() == number.view(3, 2, 3).transpose(0, 1).flatten(1).tolist()
    way.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert line.inner_text().startswith("10, number 5 of be, lands in head 2, in the row of be")
    page.keyboard.press("Escape")
    assert line.inner_text().startswith("view and transpose: all 18")


def test_both_hands_move_on_and_the_score_stays_and_one_alone_changes_it(page, pages):
    page.goto(pages["clock"])
    line, score = page.locator(LINE.format("clock")), page.locator(".explore-line strong")
    between = page.locator(".explore-faces").get_by_text("between")
    angles, first = between.all_inner_texts(), turned_score(3, 1)
    assert f"two places apart. The score is {first}: " in line.inner_text() and len(angles) == 4
    page.get_by_role("button", name="both ten places on").click()
    assert "Both have turned, to the places 13 and 11" in line.inner_text()
    assert score.inner_text() == first and between.all_inner_texts() == angles
    page.get_by_label("the key's place").fill("9")
    assert score.inner_text() == turned_score(13, 9) and between.all_inner_texts() != angles
    page.get_by_label("the query's place").focus()
    for key, m in [("ArrowLeft", 12), ("ArrowRight", 13), ("End", 40)]:
        page.keyboard.press(key)
        assert score.inner_text() == turned_score(m, 9)


def test_cards_are_taken_away_and_the_others_vote(page, pages):
    page.goto(pages["votes"])
    line, says = page.locator(LINE.format("votes")), defined("votes")["says"]
    things = ["ring", "rose", "lute"]

    def wanted(kept: list[bool]) -> str:
        """What the line must say, computed in PyTorch."""
        said = [f"With {sum(kept)} card{'s' * (sum(kept) > 1)}."]
        for name, score in (("loud", [3.0, 0.0, 0.0]), ("quiet", [0.0, 0.0, 0.0])):
            scores = torch.tensor(score).masked_fill(~torch.tensor(kept), -torch.inf)
            totals = scores.softmax(dim=0) @ says
            lead = totals[0] - totals[1:].max()  # of the ring, over its best rival
            verdict = "right" if lead >= 0 else "wrong"
            said.append(f"{name}: {things[totals.argmax()]}, {verdict}, by {abs(lead):.1f}.")
        return " ".join(said)

    def added() -> list[float]:
        """What the loud student's three cards add to the lead."""
        cells = page.locator("[role=cell]:nth-child(2) b").all_inner_texts()
        return [float(cell.replace("−", "-")) for cell in cells if cell]

    assert line.inner_text() == wanted([True, True, True])
    weights = torch.tensor([3.0, 0.0, 0.0]).softmax(dim=0)
    assert added() == pytest.approx((weights * (says[:, 0] - says[:, 1])).tolist(), abs=0.06)  # the rose is its rival
    page.get_by_role("button", name="Bob gives the rose").click()
    assert line.inner_text() == wanted([True, False, True])
    page.get_by_role("button", name="without the card with the answer").press("Enter")
    assert line.inner_text() == wanted([False, True, True])
    for name in ("Bob gives the rose", "Cleo gives the lute"):
        page.get_by_role("button", name=name).press(" ")
    assert line.inner_text().startswith("No card is left")
    page.get_by_role("button", name="all cards").click()
    assert line.inner_text() == wanted([True, True, True])


def test_lines_go_where_the_network_looked(page, pages):
    """By pointer and by keys, from letters and from words."""
    after = defined("lines")["shares"][1]
    page.goto(pages["lines"])
    line = page.locator(LINE.format("lines"))
    below, above = page.locator("[data-side=below]"), page.locator("[data-side=above]")
    assert "it looks at all places about equally" in line.inner_text()
    page.get_by_role("button", name="after", exact=True).click()
    for t, letter in enumerate("Dheaache"):
        below.nth(t).hover()
        share, s = after[t].max(dim=-1)
        sentence = f"letter, {letter}, it takes {share:.0%} from place {s + 1}, {'heaDache'[s]}"
        assert sentence in line.inner_text()
        assert page.locator("line.explore-lit").count() == (after[t] >= 0.01).sum()
        assert above.nth(int(s)).locator(".explore-share").inner_text() == f"{share:.0%}"
    above.nth(3).hover()
    share, t = after[:, 3].max(dim=-1)
    sentence = f"Place 4, D, is looked at most when letter {t + 1} is written: {share:.0%}."
    assert line.inner_text() == sentence
    page.get_by_role("button", name="words", exact=True).press("Enter")
    page.get_by_role("button", name="written, 3: read").click()
    assert line.inner_text() == "read comes from lesen."
    page.keyboard.press("ArrowUp")
    assert line.inner_text() == "lesen becomes read."


def test_a_verdict_moves_with_the_seeds_and_with_the_budget(page, pages):
    page.goto(pages["verdict"])
    line, seeds = page.locator(LINE.format("verdict")), page.get_by_role("slider", name="seeds")
    early, late = [0.054, 0.014, 0.027, 0.0, 0.045, 0.024], [0.23, 0.216, 0.235]
    for n, says in ((3, "undecided"), (6, "slightly worse")):
        seeds.fill(str(n))
        mean, low, high = interval(early[:n])
        sentence = f"With {n} seeds the damage is {mean:+.2f}, somewhere between "
        assert line.inner_text().startswith(sentence) and f"{high:+.2f}: {says}" in line.inner_text()
        now = page.locator(".explore-now")
        assert now.locator(".explore-dot").count() == n and now.inner_text().endswith(says)
    margin, bar = (now.locator(f".explore-{x}").bounding_box() for x in ("margin", "bar"))
    for x, end in ((bar["x"], low), (bar["x"] + bar["width"], high)):  # the margin is 0.1 wide
        assert abs((x - margin["x"]) / margin["width"] * 0.1 - 0.05 - end) < 0.002
    page.get_by_role("button", name="1,200 steps").press("Enter")  # which has three seeds only
    mean, low, high = interval(late)
    sentence = f"With 3 seeds the damage is {mean:+.2f}, somewhere between {low:+.2f} and {high:+.2f}: worse."
    assert line.inner_text().startswith(sentence) and seeds.get_attribute("max") == "3"
    page.get_by_role("combobox", name="part").press("ArrowDown")
    assert "With 3 seeds the damage is +0.01" in line.inner_text()


def test_who_asks_and_how_many_heads_answer_is_chosen(page, pages):
    names = defined("questions")
    page.goto(pages["questions"])
    line = page.locator(LINE.format("questions"))
    for name, (weights, scores) in names["networks"].items():
        page.get_by_role("button", name=name).press("Enter")
        hits = f"{(scores.argmax(dim=-1) == names['given']).sum()} of 8 answers are right"
        assert page.get_by_role("group", name="who answers").inner_text().endswith(hits)
        for a, person in enumerate(names["people"]):
            page.get_by_role("button", name=person).click()
            assert line.inner_text().startswith(f"{person} asks.")
            shares = [x.inner_text().split() for x in page.locator(".explore-shares").all()]
            assert shares == [[f"{x:.2f}" for x in row] for row in weights[a].T.tolist()]
            for q, half in enumerate(page.locator(".explore-half").all()):
                numbers = [f"{x:z.2f}".replace("-", "−") for x in scores[a, q].tolist()]
                assert half.locator(".explore-number").all_inner_texts() == numbers
                word, wanted = (names["things"][int(x)] for x in (scores[a, q].argmax(), names["given"][a, q]))
                verdict = "right" if word == wanted else f"wrong, it is the {wanted}"
                assert half.inner_text().endswith(f"says {word}: {verdict}")


def test_cards_are_clicked_away_until_the_friend_is_left(page, pages):
    page.goto(pages["ring"])
    line, arrows = page.locator(LINE.format("ring")), page.locator(".explore-arrow")
    assert "Looked at: 6 cards. Everybody cancels" in line.inner_text()
    for name in ("Ann gives the ring to Bob", "Bob gives the rose to Cleo"):
        page.get_by_role("button", name=name).press("Enter")
    assert "A plus is left for Cleo, a minus for Ann. That plus is Bob's friend." in line.inner_text()
    marks = page.locator(".explore-mark").all_text_contents()
    assert marks == ["−1", "0", "+1", "0", "0", "0"]
    page.get_by_role("button", name="only Bob's card").click()
    assert "the one right card is ruled out" in line.inner_text()
    assert arrows.nth(1).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Dora gives the mask to Eve").click()
    assert "Looked at: 2 cards. A plus is left for Bob and Dora" in line.inner_text()
    page.get_by_role("button", name="the cards without Bob").click()
    assert "Looked at: 4 cards. A plus is left for Cleo, a minus for Ann." in line.inner_text()


def test_in_jupyterlab_explorers_live_while_the_kernel_does_and_leave_their_pictures(page, screens, tmp_path):
    page.set_default_timeout(60_000)
    imports = "import torch\nfrom helpers.attention import attention\nfrom pictures import explore, multi_head"
    sources = [imports, *CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    with jupyterlab(tmp_path) as lab:
        path = lab.notebooks / "explore.ipynb"
        nbformat.write(notebook, path)
        lab.open(page, path.name)
        lab.run_all(page)
        page.wait_for_function("document.querySelectorAll('.explore').length === " + str(len(CELLS)))
        assert page.locator(".jp-OutputArea img").count() == 0
        page.get_by_role("button", name="causal mask", exact=True).click()
        assert "this is the causal mask" in page.locator(LINE.format("mask")).inner_text()
        page.locator(".explore-cell").nth(1).click()  # now it has the focus, and the notebook is in command mode
        page.keyboard.press("b")  # which would add a cell
        for key in ("ArrowDown", "Enter"):
            page.keyboard.press(key)
        assert "to (word 1) sees be (word 2)" in page.locator(LINE.format("mask")).inner_text()
        assert "be (word 2) doesn't see itself" not in page.locator(LINE.format("mask")).inner_text()
        # The keys are not the notebook's.
        assert page.evaluate(f"{SHOWN}.content.model.cells.length") == 1 + len(CELLS)
        page.get_by_role("button", name="south asks").click()
        assert "south has the highest score" in page.locator(LINE.format("attend")).inner_text()
        page.get_by_label("top-k").fill("5")
        assert "5 of 30 letters" in page.locator(LINE.format("filters")).inner_text()
        for theme in ("Light", "Dark"):
            page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})")
            page.wait_for_function(f"document.body.dataset.jpThemeLight === '{theme == 'Light'}'.toLowerCase()")
            ink = page.locator(".explore").first.evaluate("(x) => getComputedStyle(x).color")
            assert ink == {"Light": "rgb(27, 27, 27)", "Dark": "rgb(236, 236, 236)"}[theme]
            page.screenshot(path=screens / f"widgets-{theme.lower()}.png")
        lab.save(page)
        stored = nbformat.read(path, as_version=4)
        assert "widgets" not in stored.metadata and "widget-view" not in path.read_text("utf-8")

        lab.open(page, path.name)  # the kernel lives: so do they
        page.wait_for_function("document.querySelectorAll('.explore').length === " + str(len(CELLS)))
        page.goto("about:blank")
        lab.stop_kernels()
        lab.open(page, path.name)  # another kernel, which knows nothing of them
        page.wait_for_timeout(1000)
        pictures = page.locator(".jp-OutputArea img[alt]")
        assert pictures.count() == len(CELLS) and page.locator(".explore").count() == 0
        assert all(picture.evaluate("(x) => x.naturalWidth") > 300 for picture in pictures.all())
        assert page.get_by_text("Error").count() == 0 and page.get_by_text("Loading widget").count() == 0
        assert not page.evaluate(f"{SHOWN}.context.model.dirty")
        page.screenshot(path=screens / "widgets-reopened.png")


def test_a_text_is_cut_as_by_the_tokenizer(page, pages):
    page.goto(pages["tokens"])
    line, box = page.locator(LINE.format("tokens")), page.get_by_label("a text of your own")
    for count, step in ((0, "Home"), (20, "End")):
        page.get_by_role("slider").press(step)
        for text in ("to the moor", "the doors, or", "Ä 😀!"):
            box.fill(text)
            cut = [piece for chunk in chunks(text) for piece in BPETokenizer((), MERGES[:count]).cut(chunk)]
            assert line.inner_text().endswith(": " + " | ".join(piece.replace(" ", "·") for piece in cut))


def test_another_brake_shows_where_its_rounds_lead_and_what_is_written_then(page, pages):
    page.goto(pages["rewards"])
    line, dial = page.locator(LINE.format("rewards")), page.get_by_role("slider")
    assert line.inner_text() == "Held by nothing: words found from 52% to 79%, the loss from 1.91 to 2.61."
    dial.press("End")
    assert line.inner_text() == "Held by a penalty of 1: words found from 52% to 66%, the loss from 1.91 to 1.95."
    assert page.get_by_text("any make").is_visible()
