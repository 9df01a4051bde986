"""The explorers of the notebooks in Chromium: on a page, and inside JupyterLab."""

import base64
import itertools
import json
from types import SimpleNamespace

import nbformat
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from lab import SHOWN, jupyterlab

from helpers.core.attention import attention
from helpers.core.sampling import filter_logits
from helpers.pictures import plotting
from helpers.widgets import explore

CELLS = {
    "shadows": 'explore.shadows("arrows", torch.tensor([0.8, 0.6]), '
    'torch.tensor([[1.2, 0.9], [1.0, 3.0], [-1.2, -0.9]]), ["a", "b", "c"])',
    "mask": 'explore.mask(torch.arange(16.0).view(4, 4) % 5, ["to", "be", "or", "not"])',
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
}
WARM = """explore.temperature("values", torch.tensor([0.8, 0.6]),
                    torch.tensor([[-1.0, -1.4], [1.3, 2.3], [2.4, 0.2]]), ["bread", "apple", "honey"])"""
LINE = ".explore-{} .explore-line"


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1200, "height": 1600})
    problems = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    yield page
    page.close()
    assert not problems


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """The address of a page for each explorer, on the disk."""
    shown = []
    monkeypatch.setattr(plotting, "display", lambda bundle, metadata, raw: shown.append((bundle, metadata)))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for name, cell in (CELLS | {"temperature": WARM}).items():
        exec(cell, {"explore": explore, "torch": torch})
        bundle, metadata = shown[-1]
        output = {"data": {"image/png": base64.b64encode(bundle["image/png"]).decode()}, "metadata": metadata}
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>explorer</title>'
        head += '<meta name="viewport" content="width=device-width"><style>body { margin: 8px }</style>'
        text = f"{head}<main><h1>{name}</h1>{explore.page(output)}</main>"
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    return {path.stem: path.as_uri() for path in tmp_path.glob("*.html")}


def module(page, name: str, expression: str, data) -> list:
    """What an expression makes of `data`, with the exports of a front end as `it`."""
    source = "data:text/javascript;base64," + base64.b64encode(explore.front_end(name).encode()).decode()
    script = (
        f"([source, data]) => import(source).then((it) => JSON.stringify({expression}, (_, x) => x !== x ? 'NaN' : x))"
    )
    return json.loads(page.evaluate(script, [source, data]), parse_constant=float)


# ---------------------------------------------------------------- what they compute
def test_the_filters_equal_those_of_sampling(page):
    torch.manual_seed(1)
    settings = [(1, 65, 1), (0.1, 65, 1), (2, 5, 1), (0.7, 65, 0.9), (1.3, 10, 0.5), (1, 1, 1), (1, 65, 0.05)]
    cases, wanted = [], []
    for heat, k, p in settings * 20:
        logits = 3 * torch.randn(65, dtype=torch.float64)
        logits[torch.randint(65, (5,))] = logits[7].item()  # ties
        cases.append([logits.tolist(), heat, k, p])
        wanted.append(filter_logits(logits, float(heat), k, float(p)).softmax(dim=-1))
    ours = torch.tensor(module(page, "filters", "data.map((one) => it.softmax(it.filterLogits(...one)))", cases))
    assert (ours - torch.stack(wanted).float()).abs().max() < 1e-6
    assert ((ours == 0) == (torch.stack(wanted).float() == 0)).all() and (ours == 0).any()


def test_weights_and_mixture_equal_those_of_attention(page):
    torch.manual_seed(2)
    query, keys, values = torch.randn(2), torch.randn(6, 2), torch.randn(6, 3)
    ours = module(page, "attend", "it.attend(...data, true)", [query.tolist(), keys.tolist(), values.tolist()])
    context, weights = attention(query[None], keys, values)
    assert torch.allclose(torch.tensor(ours["weights"]), weights[0], atol=1e-6)
    assert torch.allclose(torch.tensor(ours["mixture"]), context[0], atol=1e-6)
    ours = module(page, "attend", "it.attend(...data, false, 3)", [query.tolist(), keys.tolist(), values.tolist()])
    assert torch.allclose(torch.tensor(ours["weights"]), (keys @ query / 3).softmax(dim=0), atol=1e-6)
    ours = {
        name: torch.tensor(x)
        for name, x in module(page, "shadows", "it.shadows(...data)", [query.tolist(), keys.tolist()]).items()
    }
    assert torch.allclose(ours["scores"], keys @ query, atol=1e-6)
    assert torch.allclose(ours["cosines"], torch.cosine_similarity(query, keys, dim=1), atol=1e-6)
    square = [[0, 0], [4, 0], [1, 1], [4, 4], [0, 4], [2, 0]]
    assert module(page, "attend", "it.band(data)", square) == [[0, 0], [4, 0], [4, 4], [0, 4]]
    assert torch.allclose(ours["feet"] @ query, keys @ query, atol=1e-5)  # the foot has the key's score, ...
    assert torch.allclose(ours["feet"][:, 0] * query[1], ours["feet"][:, 1] * query[0], atol=1e-6)  # ... on the line
    scores, allowed = torch.randn(5, 5), torch.rand(5, 5) > 0.4
    allowed[2] = False
    ours = module(page, "mask", "it.masked(...data)", [scores.tolist(), allowed.tolist()])
    ours = torch.tensor([[float(x) for x in row] for row in ours])
    wanted = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    assert torch.allclose(ours, wanted, atol=1e-6, equal_nan=True) and ours[2].isnan().all()


# ---------------------------------------------------------------- on a page
@pytest.mark.parametrize("name", CELLS)
def test_a_page_shows_the_picture_without_scripts_and_the_explorer_with_them(browser, page, pages, name):
    without = browser.new_context(java_script_enabled=False).new_page()
    without.goto(pages[name])
    assert without.locator("img[alt]").is_visible() and without.locator(".explore").count() == 0
    without.context.close()
    page.goto(pages[name])
    assert page.locator(f".explore-{name}").is_visible() and page.locator("img").count() == (
        name == "machine"
    )  # which is drawn upon


@pytest.mark.parametrize("name", CELLS)
def test_an_explorer_is_mounted_twice_and_removed_without_a_trace(page, pages, name):
    page.goto(pages[name])
    before = page.evaluate("document.body.outerHTML.length")
    data = page.locator("script").inner_text().rpartition("takePlace(")[2].partition(", ")[2].rpartition(");")[0]
    places = "[0, 1].map(() => document.body.appendChild(document.createElement('div')))"
    mounted = f"{places}.map((place) => [place, it.mount(place, data)])"
    kept = f"{mounted}.map(([place, remove]) => (remove(), place.innerHTML + (place.remove() ?? '')))"
    assert module(page, name, kept, json.loads(data)) == ["", ""]
    assert page.evaluate("document.body.outerHTML.length") == before


@pytest.mark.parametrize("name", [*CELLS, "temperature"])
def test_it_is_for_everybody(browser, pages, name):
    """No fault that axe calls serious, in light and in dark; no sideways scroll on a phone."""
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 360, "height": 700}, color_scheme=scheme)
        page.goto(pages[name])
        faults = [f for f in Axe().run(page).response["violations"] if f["impact"] in ("serious", "critical")]
        assert not faults, [(f["id"], [node["html"] for node in f["nodes"]]) for f in faults]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
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


def test_a_key_is_dragged_and_its_shadow_follows(page, pages):
    page.goto(pages["shadows"])
    line, handles = page.locator(LINE.format("shadows")), page.locator(".explore-handle")
    assert "b wins with 2.6, though a points more nearly" in line.inner_text()
    page.get_by_role("button", name="make all keys equally long").click()
    assert "a wins: it points the query's way more" in line.inner_text()
    page.get_by_role("button", name="start again").click()
    box, plane = handles.nth(2).bounding_box(), page.locator(".explore-plane").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)  # the tip of b, ...
    page.mouse.down()
    page.mouse.move(plane["x"] + 30, plane["y"] + plane["height"] - 30, steps=4)  # ... to where c points
    page.mouse.up()
    assert "a wins" in line.inner_text() and "b" not in line.inner_text()
    handles.nth(0).focus()
    for _ in range(36):  # half a turn: now a points the other way, b and c the query's
        page.keyboard.press("ArrowLeft")
    assert "b wins" in line.inner_text() and "The query is" not in line.inner_text()
    page.keyboard.press("ArrowUp")
    assert "The query is 1.1 long, so each score is 1.1 times" in line.inner_text()
    handles.nth(1).focus()
    for _ in range(18):
        page.keyboard.press("ArrowLeft")
    assert "a stands at a right angle to the query: no shadow, a score of 0" in line.inner_text()


def test_the_mixture_follows_the_temperature(page, pages):
    page.goto(pages["temperature"])
    line, slider = page.locator(LINE.format("attend")), page.get_by_role("slider", name="temperature")
    assert "apple has the highest score" in line.inner_text()
    where = page.locator(".explore-mixed")
    warm = where.get_attribute("transform")
    slider.fill("-2.995732")
    assert "So cold that apple takes" in line.inner_text() and where.get_attribute("transform") != warm
    slider.focus()
    page.keyboard.press("End")
    assert "all have nearly equal weights" in line.inner_text()
    assert page.locator(".explore-path").get_attribute("points").count(" ") == 80
    page.get_by_role("button", name="start again").click()
    assert where.get_attribute("transform") == warm and "apple has the highest score" in line.inner_text()


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


# Rows and columns as the machine is drawn: the key lies on its side.
@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("x", 1, 2), "−0.10: number 3 of the 3 that stand for be."),
        (("query", 2, 0), "0.50: what or asks, number 1 of 2. It is the row of or in x, times column 1 of"),
        (("key", 1, 0), "0.10: what to offers, number 2 of 2."),
        (("scores", 2, 0), "Row times column: 0.50 × −0.40 + 1.00 × 0.10 = −0.10, and divided by √2 that is −0.07."),
        (("weights", 2, 0), "or gives to to. e^−0.07 = 0.93, divided by the sum of all such powers in its"),
        (("weights", 0, 2), "0: the mask forbids to to look at or, which comes later."),
        (("mask", 0, 2), "to may not look at or: it must guess without it."),
        (("mask", 2, 0), "or may look at to."),
        (("context", 0, 1), "number 2 of what to takes home, a mixture: 1.00 × "),
        (("output", 0, 0), "output: an outline, without numbers here. Notebook 06 builds it."),
    ],
)  # fmt: skip
def test_a_number_of_the_machine_says_where_it_comes_from(page, pages, place, said):
    page.goto(pages["machine"])
    assert said in point_at(page, *place)
    assert page.locator(".explore-machine .explore-source, .explore-machine .explore-cell").count() > 0


def test_each_number_that_the_machine_says_is_the_one_that_was_computed(page, pages):
    names = {"torch": torch, "explore": SimpleNamespace(machine=lambda *_, **tables: None)}
    exec(CELLS["machine"], names)
    page.goto(pages["machine"])
    for name in ("x", "query", "key", "value", "scores", "weights"):
        table = names[name].T if name == "key" else names[name]
        for i, j in itertools.product(*map(range, table.shape)):
            number = point_at(page, name, i, j).partition(":")[0].replace("−", "-")
            assert abs(float(number) - table[i, j]) < 0.0051, (name, i, j)


def test_the_machine_is_walked_by_keys(page, pages):
    page.goto(pages["machine"])
    line = page.locator(LINE.format("machine"))
    assert line.inner_text().startswith("or looks: follow its row from left to right. It gives its largest share, ")
    page.locator(".explore-board").focus()
    heard = []
    for key in ("ArrowUp", "ArrowRight", *["ArrowRight"] * 5, "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "Escape"):
        page.keyboard.press(key)
        heard.append(line.inner_text())
    assert heard[0].startswith("be looks") and "number 1 of the 3 that stand for be" in heard[1]
    assert "how well be and to fit" in heard[6] and "how well to and to fit" in heard[7]
    assert "what to offers, number 2 of 2" in heard[8] and "number 1 of 2" in heard[9] == heard[10]
    assert heard[11].startswith("or looks")


def point_at(page, name: str, i: int, j: int) -> str:
    """What the machine says when the pointer is in the middle of a cell."""
    data = data_of(page)
    left, top, wide, tall = data["boxes"][name]
    table = data["tables"].get(name, [[0]])
    n, m = (len(table), len(table[0])) if name != "key" else (len(table[0]), len(table))
    board = page.locator(".explore-board").bounding_box()
    scale = board["width"] / 700
    x, y = left + (j + 0.5) * wide / m, top + (i + 0.5) * tall / n
    page.mouse.move(board["x"] + x * scale, board["y"] + y * scale)
    return page.locator(LINE.format("machine")).inner_text()


def data_of(page) -> dict:
    """The data of the machine, read from the script that mounts it."""
    script = page.locator("script[type=module]").inner_text()
    return json.JSONDecoder().raw_decode(script[script.rindex("takePlace(") :].partition(", ")[2])[0]


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


# ---------------------------------------------------------------- inside JupyterLab
def test_in_jupyterlab_explorers_live_while_the_kernel_does_and_leave_their_pictures(page, screens, tmp_path):
    page.set_default_timeout(60_000)
    sources = ["import torch\nfrom helpers.widgets import explore", *CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with jupyterlab(tmp_path) as lab:
        path = lab.notebooks / "explore.ipynb"
        nbformat.write(notebook, path)
        lab.open(page, path.name)
        lab.run_all(page)
        page.wait_for_function("document.querySelectorAll('.explore').length === 5")
        assert page.locator(".jp-OutputArea img").count() == 1  # the machine's
        page.get_by_role("button", name="causal mask", exact=True).click()
        assert "this is the causal mask" in page.locator(LINE.format("mask")).inner_text()
        page.locator(".explore-cell").nth(1).click()  # now it has the focus, and the notebook is in command mode
        page.keyboard.press("b")  # which would add a cell
        for key in ("ArrowDown", "Enter"):
            page.keyboard.press(key)
        assert "to (word 1) sees be (word 2)" in page.locator(LINE.format("mask")).inner_text()
        assert "be (word 2) doesn't see itself" not in page.locator(LINE.format("mask")).inner_text()
        assert page.evaluate(f"{SHOWN}.content.model.cells.length") == 6  # the keys are not the notebook's
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
        page.wait_for_function("document.querySelectorAll('.explore').length === 5")
        page.goto("about:blank")
        lab.stop_kernels()
        lab.open(page, path.name)  # another kernel, which knows nothing of them
        page.wait_for_timeout(1000)
        pictures = page.locator(".jp-OutputArea img[alt]")
        assert pictures.count() == 5 and page.locator(".explore").count() == 0
        assert all(picture.evaluate("(x) => x.naturalWidth") > 300 for picture in pictures.all())
        assert page.get_by_text("Error").count() == 0 and page.get_by_text("Loading widget").count() == 0
        assert not page.evaluate(f"{SHOWN}.context.model.dirty")
        page.screenshot(path=screens / "widgets-reopened.png")
