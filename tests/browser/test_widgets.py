"""The explorers of the notebooks in Chromium: on a page, and inside JupyterLab."""

import base64
import itertools
import json
import re
from types import SimpleNamespace

import nbformat
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from lab import SHOWN, jupyterlab
from scipy.special import stdtrit

from helpers.attention import attention
from helpers.modern import rotate, rotations
from helpers.rooms.verdicts import verdicts
from helpers.sampling import filter_logits
from pictures import explore, host, plotting

CELLS = {
    "shadows": 'explore.shadows("arrows", torch.tensor([0.8, 0.6]), '
    'torch.tensor([[1.2, 0.9], [1.0, 3.0], [-1.2, -0.9]]), ["a", "b", "c"])',
    "mask": 'explore.mask(torch.arange(16.0).view(4, 4) % 5, ["to", "be", "or", "not"])',
    "coins": "explore.coins((torch.arange(16.0).view(4, 4) % 5).masked_fill(torch.ones(4, 4).triu(1) > 0, "
    '-torch.inf).softmax(-1), ["to", "be", "or", "not"])',
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
    "stream": """chance = torch.Generator().manual_seed(3)
says, right = torch.rand(3, 2, 16, 4, generator=chance) - 0.3, torch.randint(101, (3, 2, 16), generator=chance) / 100
says[:, :, 0], right[:, :, 0] = 0, 0  # without any layer, nothing is said
right[0, 0, 13], right[1, 0, 13], right[2, 0, [12, 13]] = 0.1, 0.9, torch.tensor([0.2, 0.997])
explore.stream({"each replaces": (says[0], right[0]), "each adds": (says[1], right[1]),
                "each adds, behind a norm": (says[2], right[2])}, ["ring", "rose", "lute", "mask"], "lute")""",
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
    """The address of a page for each explorer, on the disk, and of one for all of them."""
    shown, parts, scripts = [], {}, {}
    monkeypatch.setattr(
        plotting, "display", lambda bundle, metadata, raw: shown.append((bundle, metadata))
    )
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for name, cell in (CELLS | {"temperature": WARM}).items():
        exec(cell, {"explore": explore, "torch": torch})
        bundle, metadata = shown[-1]
        output = {
            "data": {"image/png": base64.b64encode(bundle["image/png"]).decode()},
            "metadata": metadata,
        }
        parts[name], scripts[name] = (
            host.page(output),
            host.mounting(metadata["explore"]["front_end"]),
        )
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>explorer</title>'
    head += '<meta name="viewport" content="width=device-width"><style>body { margin: 8px }</style>'
    parts |= {"all": "\n".join(parts.values()), "twice": 2 * parts["machine"]}
    scripts |= {"all": "\n".join(set(scripts.values())), "twice": scripts["machine"]}
    for name, part in parts.items():
        text = f"{head}<main><h1>{name}</h1>{part}</main>{scripts[name]}"
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    return {path.stem: path.as_uri() for path in tmp_path.glob("*.html")}


def module(page, name: str, expression: str, data) -> list:
    """What an expression makes of `data`, with the exports of a front end as `it`."""
    source = (
        "data:text/javascript;base64," + base64.b64encode(host.front_end(name).encode()).decode()
    )
    script = (
        "([source, data]) => import(source).then((it) => "
        f"JSON.stringify({expression}, (_, x) => x !== x ? 'NaN' : x))"
    )
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
    cases, wanted = [], []
    for heat, k, p in settings * 20:
        logits = 3 * torch.randn(65, dtype=torch.float64)
        logits[torch.randint(65, (5,))] = logits[7].item()  # ties
        cases.append([logits.tolist(), heat, k, p])
        wanted.append(filter_logits(logits, float(heat), k, float(p)).softmax(dim=-1))
    ours = torch.tensor(
        module(page, "filters", "data.map((one) => it.softmax(it.filterLogits(...one)))", cases)
    )
    assert (ours - torch.stack(wanted).float()).abs().max() < 1e-6
    assert ((ours == 0) == (torch.stack(wanted).float() == 0)).all() and (ours == 0).any()


def test_weights_and_mixture_equal_those_of_attention(page):
    torch.manual_seed(2)
    query, keys, values = torch.randn(2), torch.randn(6, 2), torch.randn(6, 3)
    ours = module(
        page, "attend", "it.attend(...data, true)", [query.tolist(), keys.tolist(), values.tolist()]
    )
    context, weights = attention(query[None], keys, values)
    assert torch.allclose(torch.tensor(ours["weights"]), weights[0], atol=1e-6)
    assert torch.allclose(torch.tensor(ours["mixture"]), context[0], atol=1e-6)
    ours = module(
        page,
        "attend",
        "it.attend(...data, false, 3)",
        [query.tolist(), keys.tolist(), values.tolist()],
    )
    assert torch.allclose(
        torch.tensor(ours["weights"]), (keys @ query / 3).softmax(dim=0), atol=1e-6
    )
    ours = {
        name: torch.tensor(x)
        for name, x in module(
            page, "shadows", "it.shadows(...data)", [query.tolist(), keys.tolist()]
        ).items()
    }
    assert torch.allclose(ours["scores"], keys @ query, atol=1e-6)
    assert torch.allclose(ours["cosines"], torch.cosine_similarity(query, keys, dim=1), atol=1e-6)
    square = [[0, 0], [4, 0], [1, 1], [4, 4], [0, 4], [2, 0]]
    assert module(page, "attend", "it.band(data)", square) == [[0, 0], [4, 0], [4, 4], [0, 4]]
    assert torch.allclose(
        ours["feet"] @ query, keys @ query, atol=1e-5
    )  # the foot has the key's score, ...
    assert torch.allclose(
        ours["feet"][:, 0] * query[1], ours["feet"][:, 1] * query[0], atol=1e-6
    )  # ... on the line
    scores, allowed = torch.randn(5, 5), torch.rand(5, 5) > 0.4
    allowed[2] = False
    ours = module(page, "mask", "it.masked(...data)", [scores.tolist(), allowed.tolist()])
    ours = torch.tensor([[float(x) for x in row] for row in ours])
    wanted = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    assert torch.allclose(ours, wanted, atol=1e-6, equal_nan=True) and ours[2].isnan().all()


def test_a_cut_number_lands_where_view_and_transpose_put_it(page):
    sizes = [(3, 2, 3), (2, 2, 2), (2, 3, 2), (3, 3, 2), (4, 2, 2), (5, 3, 4), (6, 2, 4), (6, 3, 4)]
    landed = "data.map(([T, H, D]) => ['view', 'transpose'].map((way) => [...Array(T * H * D).keys()].map((k) => "
    landed += "{ const { head, row, column } = it.landing(k, T, H, D, way); return [head, row, column]; })))"
    for (T, H, D), ours in zip(sizes, module(page, "cut", landed, sizes), strict=True):
        number = torch.arange(T * H * D)
        for wanted, places in zip(
            (number.view(H, T, D), number.view(T, H, D).transpose(0, 1)), ours, strict=True
        ):
            assert wanted.shape == (H, T, D)
            assert torch.equal(wanted[tuple(torch.tensor(places).T)], number)


def test_a_cut_counts_the_strangers(page):
    """What is said of all numbers, and of each, against the tables that PyTorch makes."""
    words = ["Your", "journey", "starts", "with", "one", "step"]
    for T, H, D in [(3, 2, 3), (2, 3, 2), (6, 3, 4), (6, 2, 2)]:
        number = torch.arange(T * H * D)
        word, head = number // (H * D), number % (H * D) // D  # to whom each belongs
        wrong = word.view(H, T, D) != torch.arange(T)[:, None]
        astray = ~wrong & (head.view(H, T, D) != torch.arange(H)[:, None, None])
        script = "[null, ...Array(data[0].length * data[1] * data[2]).keys()].map((k) => it.told(...data, k))"
        total, *each = module(page, "cut", script, [words[:T], H, D, "view"])
        assert f"{wrong.sum()} of {T * H * D} numbers stand in another word's row" in total
        assert (f", {astray.sum()} more in the wrong head" in total) == bool(astray.any())
        for h, t, d in itertools.product(range(H), range(T), range(D)):
            k = number.view(H, T, D)[h, t, d].item()
            assert each[k].startswith(
                f"*{k}*, number {k % (H * D) + 1} of *{words[word[k]]}*, lands in head {h + 1}, "
            )
            assert f", in the row of *{words[t]}*: " in each[k]
            assert ("from now on" in each[k]) == wrong[h, t, d] and (
                "the right row, but" in each[k]
            ) == astray[h, t, d]


def test_the_score_of_the_clocks_equals_that_of_rotary_positions(page):
    """Numbers i and i + D/2 are the two of a complex number."""
    torch.manual_seed(4)
    places = [(3, 1), (13, 11), (0, 0), (0, 40), (40, 17), (1, 40)]
    for D in (2, 4, 6, 8):
        query, key = torch.randn(2, D)
        cases = [[query.tolist(), key.tolist(), m, n, 10_000] for m, n in places]
        found = module(page, "clock", "data.map((one) => it.clock(...one))", cases)
        tables = rotations(41, D)
        asks, offers = (rotate(x.expand(41, D), *tables) for x in (query, key))
        for (m, n), ours in zip(places, found, strict=True):
            pairs = torch.complex(*asks[m].chunk(2)) * torch.complex(*offers[n].chunk(2)).conj()
            assert torch.allclose(torch.tensor(ours["parts"]), pairs.real, atol=1e-5)
            assert abs(ours["score"] - asks[m] @ offers[n]) < 1e-5
            assert torch.allclose(torch.tensor(ours["angles"]), pairs.angle(), atol=1e-4)
        assert torch.allclose(
            torch.tensor(found[0]["angles"]), torch.tensor(found[1]["angles"]), atol=1e-5
        )
        turned = torch.tensor(
            module(page, "clock", "it.hands(...data)", [query.tolist(), 17, 10_000])
        )
        assert torch.allclose(turned.T.flatten(), asks[17], atol=1e-5)
        # With a base of 1 all hands turn by one radian
        alone = module(page, "clock", "it.clock(...data)", [query.tolist(), key.tolist(), 1, 0, 1])
        pairs = torch.complex(*query.chunk(2)) * torch.complex(*key.chunk(2)).conj()
        assert torch.allclose(
            torch.tensor(alone["parts"]), (pairs * torch.exp(torch.tensor(1j))).real, atol=1e-5
        )


def test_what_the_lines_say_is_what_pytorch_finds(page):
    torch.manual_seed(3)
    for T, S in [(1, 1), (5, 3), (8, 8), (16, 16)]:
        weights = (3 * torch.randn(T, S, dtype=torch.float64)).softmax(dim=-1)
        ours = module(page, "lines", "it.looks(data)", weights.tolist())
        for found, dim in ((ours["rows"], 1), (ours["columns"], 0)):
            share, best = weights.max(dim=dim)
            least = weights.amin(dim=dim)
            assert [one["best"] for one in found] == best.tolist()
            assert torch.allclose(
                torch.tensor([one["share"] for one in found], dtype=torch.float64), share
            )
            assert torch.allclose(
                torch.tensor([one["least"] for one in found], dtype=torch.float64), least
            )
            assert [one["over"] for one in found] == (weights > 0.5).sum(dim=dim).tolist()
            even = (share <= 1.5 * least) & (weights.shape[dim] > 1)
            assert [one["even"] for one in found] == even.tolist()
        sorted_weights, order = weights.sort(dim=-1, descending=True)
        enough = (sorted_weights.cumsum(dim=-1) < 0.8).sum(dim=-1) + 1
        wanted = [
            places[: min(3, int(n))].tolist() for places, n in zip(order, enough, strict=True)
        ]
        assert module(page, "lines", "data.map(it.largest)", weights.tolist()) == wanted


def test_verdicts_on_one_comparison_equal_those_of_the_studies(page):
    random = torch.Generator().manual_seed(5)
    cases, wanted = [[0.0] * 3, [0.04] * 3, [0.05] * 4, [-0.3] * 20], []
    for n in [*range(2, 21)] * 12:
        mean, spread = 0.15 * torch.rand(2, generator=random) - torch.tensor([0.075, 0.0])
        cases.append(
            (mean + spread / 3 * torch.randn(n, generator=random, dtype=torch.float64)).tolist()
        )
    ours = module(page, "verdict", "data.map((numbers) => it.judged(numbers, 0.05))", cases)
    for numbers, one in zip(cases, ours, strict=True):
        (verdict,) = verdicts(
            {"alone": numbers}, margin=0.05
        ).values()  # a single row: nothing to correct
        assert one["says"] == verdict.says
        assert all(
            abs(one[name] - getattr(verdict, name)) < 1e-5 for name in ("mean", "low", "high")
        )
        wanted.append(verdict.says)
    ways = {"worse", "better", "slightly worse", "slightly better", "no difference", "undecided"}
    assert set(wanted) == ways


def test_the_quantiles_of_the_verdicts_are_students(page):
    """By integration: between minus and plus the quantile lies the share of the density."""
    for name, share in (("T95", 0.95), ("T90", 0.9)):
        found = module(page, "verdict", f"it.{name}", None)
        assert len(found) == 19
        for df, t in enumerate(found, start=1):
            x = torch.linspace(0, t, 20_001, dtype=torch.float64)
            density = (
                torch.distributions.StudentT(torch.tensor(df, dtype=torch.float64))
                .log_prob(x)
                .exp()
            )
            assert abs(2 * torch.trapezoid(density, x) - share) < 1e-7
            assert abs(t - stdtrit(df, (1 + share) / 2)) < 1e-6


MACHINE = {"rows": ["to", "be"], "columns": ["to", "be"], "alone": [], "kept": None}
ALIKE = {"rows": ["o", "o"], "columns": ["o", "o"], "alone": [], "kept": None}
SCORES = [[1.0, 2.0], [0.0, 0.0]]
CAUSAL = {"scores": SCORES, "mask": [[1, 0], [1, 1]], "weights": [[1, 0], [0.5, 0.5]]}
NAN_ROW = {"mask": [[0, 0], [1, 0]], "scores": SCORES}
HALF = {
    "scores": SCORES,
    "weights": [[0, 0], [1.0, 0]],
    "context": [[0, 0], [3.0, 1.0]],
    "value": [[3.0, 1.0], [1, 1]],
}
ODDS = {"scores": [[-5.0, -6.0]], "weights": [[0.7311, 0.2689]]}
SMALL = {
    "query": [[0.1, 0.2], [0, 0]],
    "key": [[0.1, 0.1], [0, 0]],
    "scores": [[0.0212, 0], [0, 0]],
}


@pytest.mark.parametrize(
    ("data", "asked", "said"),
    [
        (MACHINE | {"tables": {}}, "of_row(0)", "*to*: its row would run through every table"),
        (MACHINE | {"tables": {}}, "of_column(1)", "*be* is looked at: all rows meet its key."),
        (
            MACHINE | {"tables": {"scores": SCORES}},
            "of_row(0)",
            "It has its highest score, 2.00, with *be*.",
        ),
        (
            MACHINE | {"tables": {"scores": SCORES}},
            "of_column(1)",
            "*to* fits it best, with a score of 2.00.",
        ),
        (MACHINE | {"tables": CAUSAL}, "of_column(0)", "*to* gives it the most, 1.00."),
        (
            MACHINE | {"tables": CAUSAL},
            "of_number('weights', 0, 1)",
            "the mask forbids *to* to look at *be*, which comes later.",
        ),
        (MACHINE | {"tables": NAN_ROW}, "of_row(0)", "The mask lets it look at nobody."),
        (MACHINE | {"tables": NAN_ROW}, "of_column(1)", "*be*: the mask lets nobody look at it."),
        (
            MACHINE | {"tables": HALF, "kept": [[0, 0], [1, 0]]},
            "of_row(0)",
            "gives nothing to anybody: dropout has dropped its whole row.",
        ),
        (
            MACHINE | {"tables": HALF, "kept": [[0, 0], [1, 0]]},
            "of_number('context', 0, 0)",
            "takes home, and nothing is left to mix.",
        ),
        (
            MACHINE | {"tables": HALF, "kept": [[0, 0], [1, 0]]},
            "of_number('weights', 0, 1)",
            "the coin said no: dropout has dropped",
        ),
        (
            MACHINE | {"tables": HALF, "kept": [[0, 0], [1, 0]]},
            "of_number('weights', 1, 0)",
            "in its row, 2.00, is 0.50; dropout has kept it and multiplied it by 2.00, to make up for what it drops.",
        ),
        (
            MACHINE | {"tables": HALF},
            "of_number('context', 1, 0)",
            "3.00: number 1 of what *be* takes home, a mixture: 1.00 × 3.00 from *to*.",
        ),
        (
            MACHINE | {"tables": SMALL},
            "of_number('scores', 0, 0)",
            "= 0.03, and divided by √2 that is 0.02.",
        ),
        (
            MACHINE | {"tables": {"x": [[1], [2]], "query": [[1], [2]]}, "alone": ["query"]},
            "of_number('query', 1, 0)",
            "nothing is projected yet, so *be* asks its own vector",
        ),
        (
            MACHINE | {"rows": ["a"], "tables": {"x": [[1]], "key": [[1], [2]]}},
            "of_number('key', 0, 1)",
            "what *be* offers, number 1 of 1. Column 1 of the matrix W_key made it.",
        ),
        (
            MACHINE | {"rows": ["a"], "tables": ODDS},
            "of_number('weights', 0, 0)",
            "e^−5.000 = 0.00674, divided by the sum of all such powers in its row, 0.00922.",
        ),
        (
            ALIKE | {"tables": CAUSAL},
            "of_row(1)",
            "from left to right. It gives its largest share, 0.50, to *o* (place 1).",
        ),
        (MACHINE | {"rows": ["a*", "the"], "tables": CAUSAL}, "of_row(0)", "“*a∗*” looks"),
    ],
)
def test_the_machine_has_a_sentence_for_every_case(page, data, asked, said):
    assert said in module(page, "machine", f"[it.answers(data).{asked}]", data)[0]


ANN = {
    "people": ["Ann", "Bob"],
    "cards": [["Ann", "ring", "Bob"], ["Bob", "lute", "Ann"]],
    "things": ["ring", "lute", "mask"],
}
LUTE, RING, MASK = [0.2, 0.7, -0.1], [0.7, 0.2, -0.1], [0.1, 0.2, 0.7]


@pytest.mark.parametrize(
    ("weights", "scores", "said"),
    [
        (
            [[0.25, 0.75]],
            [LUTE, LUTE],
            "The one head looks most at the *lute* (0.75), which Ann gets, and at the *ring*",
        ),
        (
            [[0.25, 0.75]],
            [LUTE, LUTE],
            "closest to *lute*, the louder of the two: right about what Ann gets, wrong about",
        ),
        (
            [[0.25, 0.75]],
            [RING, RING],
            "closest to *ring*: right about what Ann gives, wrong about what Ann gets.",
        ),
        (
            [[0.25, 0.75]],
            [RING, LUTE],
            "closest to *ring* in its first half, and to *lute* in its second: both are right.",
        ),
        ([[0.25, 0.75]], [LUTE, RING], "both are wrong, for they are swapped."),
        (
            [[0.25, 0.75]],
            [MASK, RING],
            "closest to *mask* in its first half, and to *ring* in its second: both are wrong.",
        ),
        (
            [[0.25, 0.75]],
            [[0.31, 0.24, 0], LUTE],
            "both are right, but *ring* narrowly, with 0.31 against 0.24 for *lute*.",
        ),
        (
            [[0.25, 0.75]],
            [RING, [0, 0.31, 0.3]],
            "both are right, but *lute* narrowly, with 0.31 against 0.30 for *mask*.",
        ),
        (
            [[0.9, 0.1], [0.3, 0.7]],
            [RING, LUTE],
            "Head 1 looks most at the *ring* (0.90), which Ann gives, and head 2 at",
        ),
        (
            [[0.9, 0.1], [0.3, 0.7]],
            [RING, LUTE],
            "of its own, closest to *ring* and to *lute*: both are right.",
        ),
        (
            [[0.9, 0.1], [0.3, 0.7]],
            [RING, MASK],
            "right about what Ann gives, wrong about what Ann gets.",
        ),
    ],
)
def test_two_questions_have_a_sentence_for_every_case(page, weights, scores, said):
    network = {"weights": [weights], "scores": [scores]}
    assert said in module(page, "questions", "[it.told(...data, 0)]", [ANN, network])[0]


def test_the_closest_thing_is_the_answer(page):
    torch.manual_seed(7)
    people, things = list("abcdef"), list("uvwxyz")
    cards = [[people[i], things[i], people[(i + 1) % 6]] for i in torch.randperm(6).tolist()]
    scores = torch.randn(6, 2, 6, dtype=torch.float64)
    data = [{"people": people, "cards": cards, "things": things}, {"scores": scores.tolist()}]
    ours = module(
        page,
        "questions",
        "data[0].people.map((one, a) => it.answered(data[0], one, data[1].scores[a]))",
        data,
    )
    right = torch.tensor([[i, (i - 1) % 6] for i in range(6)])
    (lead, behind), (said, second) = (x.unbind(dim=-1) for x in scores.topk(2))
    for name, wanted in {
        "right": right,
        "said": said,
        "next": second,
        "isRight": said == right,
        "lead": lead - behind,
    }.items():
        found = torch.tensor([[one[name] for one in pair] for pair in ours])
        assert torch.allclose(found.double(), wanted.double()), name
    assert [[cards[one["card"]][1] for one in pair] for pair in ours] == [
        [things[i] for i in pair] for pair in right
    ]
    assert module(page, "questions", "[it.rightOnes(...data)]", data) == [(said == right).sum()]


@pytest.mark.parametrize("adds", [0, 1])
def test_at_each_height_the_stream_says_what_the_layers_below_make(page, adds):
    torch.manual_seed(6)
    L, start, matrices = 4, torch.randn(5), torch.randn(4, 5, 5)

    def through(on: int, layers: int) -> torch.Tensor:
        x = start
        for i in range(layers):
            x = adds * x + torch.tanh(x @ matrices[i]) if on >> i & 1 else x
        return x

    says = torch.stack([through(on, L) for on in range(2**L)])
    found = module(page, "stream", "data.map((_, on) => it.heights(data, on))", says.tolist())
    for on, ours in enumerate(found):
        assert torch.equal(torch.tensor(ours), torch.stack([through(on, k) for k in range(L + 1)]))
    winners = module(page, "stream", "data.map(it.winner)", says.tolist())
    (first, second), (best, following) = (each.T for each in says.topk(2))
    assert [one["best"] for one in winners] == best.tolist() and [
        one["next"] for one in winners
    ] == following.tolist()
    assert torch.allclose(torch.tensor([one["ahead"] for one in winners]), first - second)
    assert module(page, "stream", "[it.winner(data)]", [0.5] * 3) == [
        {"best": -1, "next": -1, "ahead": 0}
    ]


RIGHT = [
    0.0,
    0.93,
    0.3,
    0.96,
    0.125,
    0.95,
    0.14,
    1.0,
]  # with none of three layers, the first, the second, both, ...
ADDS, NORMED, REPLACES = "each adds", "each adds, behind a norm", "each replaces"


@pytest.mark.parametrize(
    ("name", "right", "on", "quiet", "said"),
    [
        (
            ADDS,
            RIGHT,
            7,
            0,
            "All layers are on. The answer is *ring*: right, and 0.70 ahead of lute. The tower is",
        ),
        (ADDS, RIGHT, 7, 0, "right in *100%* of 1,000 scenes. From layer 1 on, it can be read off"),
        (
            ADDS,
            RIGHT,
            5,
            0,
            "Layer 2 is out. The answer is *ring*: right, and 0.30 ahead of lute. The tower is right",
        ),
        (
            ADDS,
            RIGHT,
            5,
            0,
            "What the others add still arrives: the stream goes past a layer that is out.",
        ),
        (ADDS, RIGHT, 1, 0, "Only layer 1 is on. The answer is *ring*: right"),
        (ADDS, RIGHT, 1, 0, "What it adds arrives: the stream goes past"),
        (
            ADDS,
            RIGHT,
            6,
            0,
            "The answer is *rose*: wrong, ring would be right. The tower is right in *14%*",
        ),
        (
            ADDS,
            RIGHT,
            6,
            0,
            "worse than a blind guess. Put layer 1 back, and it is right in 100%: the others need",
        ),
        (ADDS, RIGHT, 4, 0, "Only layer 3 is on. "),
        (ADDS, RIGHT, 4, 0, "Put layer 1 back, and it is right in 95%."),
        (
            ADDS,
            [*RIGHT[:4], 0.3, 0.4, 0.5, 1],
            4,
            0,
            "in *30%* of 1,000 scenes, about as good as a blind guess.",
        ),
        (
            ADDS,
            RIGHT,
            0,
            0,
            "No layer is on, so *nothing was said*: what arrives is the question itself",
        ),
        (
            ADDS,
            RIGHT,
            0,
            1,
            "The cards come a tenth as loud. No layer is on, so *nothing was said*",
        ),
        (
            ADDS,
            [0.45] * 8,
            7,
            1,
            "hardly better than a blind guess. Queries and keys are a tenth as long, scores",
        ),
        (NORMED, [0.998] * 8, 7, 1, "loud. All layers are on. The answer is *ring*: right"),
        (
            NORMED,
            [0.998] * 8,
            7,
            1,
            "right in *more than 99%* of 1,000 scenes. Before a layer reads them, the norm",
        ),
        (NORMED, RIGHT, 6, 1, "Put layer 1 back, and it is right in 100%"),
        (REPLACES, RIGHT, 7, 0, "Before layer 3 the stream would say *rose*."),
        (
            REPLACES,
            [0.1] * 8,
            5,
            0,
            "Layer 3 has learned to read what layer 2 makes, and now it gets something else.",
        ),
        (
            REPLACES,
            [0.1] * 8,
            4,
            0,
            "Layer 3 has learned to read what layer 2 makes, and now it gets something else.",
        ),
        (
            REPLACES,
            [0.1] * 8,
            6,
            0,
            "Layer 2 has learned to read what layer 1 makes, and now it gets something else.",
        ),
        (REPLACES, [0.1] * 8, 3, 0, "Only layer 3 has learned to make an answer of what it reads."),
        (
            REPLACES,
            [0.1] * 8,
            7,
            1,
            "each card gets nearly the same weight, and what comes out is a mixture of all.",
        ),
    ],
)
def test_the_stream_has_a_sentence_for_every_case(page, name, right, on, quiet, said):
    ring, rose = [0.5, 0.1, 0.2], [0.1, 0.5, 0.2]
    says = [
        [0, 0, 0],
        ring,
        rose,
        rose if name == REPLACES else ring,
        rose,
        ring,
        rose,
        [0.9, 0.1, 0.2],
    ]
    tower = {"name": name, "says": [says, says], "right": [right, right]}
    data = {"things": ["ring", "rose", "lute"], "asked": 0, "towers": [tower]}
    state = {"tower": 0, "on": on, "quiet": quiet}
    assert said in module(page, "stream", "[it.told(...data)]", [data, state])[0]


# ---------------------------------------------------------------- on a page
@pytest.mark.parametrize("name", CELLS)
def test_a_page_shows_the_picture_without_scripts_and_the_explorer_with_them(
    browser, page, pages, name
):
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
    data = page.locator('script[type="application/json"]').text_content()
    places = "[0, 1].map(() => document.body.appendChild(document.createElement('div')))"
    mounted = f"{places}.map((place) => [place, it.mount(place, data)])"
    kept = (
        f"{mounted}.map(([place, remove]) => (remove(), place.innerHTML + (place.remove() ?? '')))"
    )
    assert module(page, name, kept, json.loads(data)) == ["", ""]
    assert page.evaluate("document.body.outerHTML.length") == before


@pytest.mark.parametrize("name", [*CELLS, "temperature"])
def test_no_rule_of_its_look_is_lost(page, pages, name):
    """A browser skips what it can't read, without a word."""
    page.goto(pages[name])
    read = """(style) => { const all = (rules) => [...rules].reduce((n, rule) => n + 1 + all(rule.cssRules ?? []), 0);
      return all(style.sheet.cssRules); }"""
    styles = page.locator(".explore > style")
    assert styles.evaluate(read) == styles.inner_text().count("{") > 30


def test_a_page_may_show_the_same_drawing_twice(page, pages):
    page.goto(pages["twice"])
    assert (
        page.locator("[data-explorer]").count()
        == page.locator("[data-explorer] > .explore").count()
        == 2
    )


@pytest.mark.parametrize("name", [*CELLS, "temperature"])
def test_it_is_for_everybody(browser, pages, name):
    """No fault that axe calls serious, in light and in dark; no sideways scroll on a phone."""
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 360, "height": 700}, color_scheme=scheme)
        page.goto(pages[name])
        faults = [
            f
            for f in Axe().run(page).response["violations"]
            if f["impact"] in ("serious", "critical")
        ]
        assert not faults, [(f["id"], [node["html"] for node in f["nodes"]]) for f in faults]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.close()


def test_side_by_side_they_leave_each_others_look_alone(page, pages):
    """Each part of each explorer lies where it lies when no other is on the page."""
    where = """(root) => { const from = root.getBoundingClientRect();
      const boxes = [...root.querySelectorAll("*")].map((part) => part.getBoundingClientRect());
      return boxes.filter((box) => box.width).map((box) =>
        [box.x - from.x, box.y - from.y, box.width, box.height].map((x) => Math.round(x))); }"""
    page.goto(pages["all"])
    together = page.locator(".explore").evaluate_all(f"(all) => all.map({where})")
    for number, name in enumerate([*CELLS, "temperature"]):
        page.goto(pages[name])
        assert page.locator(".explore").evaluate(where) == together[number], name


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
    page.mouse.move(
        plane["x"] + 30, plane["y"] + plane["height"] - 30, steps=4
    )  # ... to where c points
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
    line, slider = (
        page.locator(LINE.format("attend")),
        page.get_by_role("slider", name="temperature"),
    )
    assert "apple has the highest score" in line.inner_text()
    where = page.locator(".explore-mixed")
    warm = where.get_attribute("transform")
    slider.fill("-2.995732")
    assert (
        "So cold that apple takes" in line.inner_text() and where.get_attribute("transform") != warm
    )
    slider.focus()
    page.keyboard.press("End")
    assert "all have nearly equal weights" in line.inner_text()
    assert page.locator(".explore-path").get_attribute("points").count(" ") == 80
    page.get_by_role("button", name="start again").click()
    assert (
        where.get_attribute("transform") == warm
        and "apple has the highest score" in line.inner_text()
    )


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
    assert (
        "to (word 1) may look at nobody" in line.inner_text()
        and page.locator(".explore-broken").count() == 4
    )
    page.get_by_role("button", name="causal mask", exact=True).click()
    assert (
        "this is the causal mask" in line.inner_text()
        and page.locator(".explore-hidden").count() == 6
    )
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
        (("weights", 2, 0), "or gives to to. e^−0.071 = 0.93, divided by the sum of all such powers that the"),
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
    name, lit = place[0], page.locator(".explore-machine .explore-source")
    numbers = {"weights": 2, "output": 0}.get(
        name, 1
    )  # a weight, and the score that it is made from
    assert page.locator(".explore-machine .explore-number").count() == numbers
    made_of = {"x": 0, "mask": 0, "scores": 2, "weights": 2, "context": 2}.get(
        name, 1
    )  # rows and columns
    assert lit.count() == made_of and page.locator(".explore-way").count() == 0


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
    assert line.inner_text().startswith(
        "or looks: follow its row from left to right. It gives its largest share, "
    )
    page.locator(".explore-board").focus()
    heard = []
    for key in (
        "ArrowUp",
        "ArrowRight",
        *["ArrowRight"] * 5,
        "ArrowUp",
        "ArrowUp",
        "ArrowUp",
        "ArrowUp",
        "Escape",
    ):
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
    """The data of the machine, as the page holds it."""
    return json.loads(page.locator('script[type="application/json"]').text_content())


def test_a_number_is_pointed_at_and_lands_in_anothers_row_until_transpose_helps(page, pages):
    page.goto(pages["cut"])
    line, lit = page.locator(LINE.format("cut")), page.locator(".explore-cut .explore-lit")
    number = torch.arange(18)
    strangers = (number.view(2, 3, 3) // 6 != torch.arange(3)[:, None]).sum()
    opening = f"view alone: {strangers} of 18 numbers stand in another word's row, and no error warns you."
    assert line.inner_text().startswith(opening) and lit.count() == 0

    def seen():
        tables = page.get_by_role("table").all()
        return [[int(x) for x in table.locator("[data-k]").all_inner_texts()] for table in tables]

    assert seen() == number.view(2, 9).tolist() and page.get_by_text("≠", exact=True).count() == 4
    big = page.get_by_role("grid", name="the big table")
    big.locator("[data-k='4']").hover()
    said = "4, number 5 of to, lands in head 1, in the row of be: from now on be asks with a number of to."
    assert line.inner_text() == said and lit.all_inner_texts() == ["4", "4"]
    page.mouse.move(2, 2)
    assert line.inner_text().startswith(opening) and lit.count() == 0
    big.locator("[data-k='4']").click()  # it stays, so that one can watch it move
    page.get_by_role("button", name="transpose").click()
    assert (
        line.inner_text() == "4, number 5 of to, lands in head 2, in the row of to."
        and lit.count() == 2
    )
    assert seen() == number.view(3, 2, 3).transpose(0, 1).flatten(1).tolist()
    assert page.get_by_text("≠", exact=True).count() == 0
    page.locator(".explore-cut .explore-invitation").click()  # beside all numbers
    assert "all 18 numbers stand in their own word's row" in line.inner_text() and lit.count() == 0
    page.get_by_role("table").nth(1).locator(
        "[data-k='9']"
    ).hover()  # from where it landed back to where it lay
    assert line.inner_text().startswith("9, number 4 of be, lands in head 2") and lit.count() == 2


def test_a_cut_is_walked_by_keys(page, pages):
    page.goto(pages["cut"])
    line, way = page.locator(LINE.format("cut")), page.get_by_role("button", name="transpose")
    way.focus()
    page.keyboard.press("Tab")  # to the first number
    heard = [line.inner_text()]
    for key in ("ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
        heard.append(line.inner_text())
    assert [text.partition(",")[0] for text in heard] == ["0", "0", "0", "6", "7", "13", "13"]
    assert (
        "the right place, by luck" in heard[0]
        and "in the row of or: from now on or asks with" in heard[3]
    )
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")  # the number is kept, and lands elsewhere
    assert line.inner_text() == "13, number 2 of or, lands in head 1, in the row of or."
    assert way.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.k") == "13"
    page.keyboard.press("Escape")
    assert line.inner_text().startswith("view and transpose: all 18")


def test_a_cut_is_tapped(browser, pages):
    context = browser.new_context(
        viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(pages["cut"])
    page.locator("[role=grid] [data-k='10']").tap()
    text = page.locator(LINE.format("cut")).inner_text()
    assert text.startswith(
        "10, number 5 of be, lands in head 2, in the row of to: from now on to asks with"
    )
    page.get_by_role("button", name="transpose").tap()
    assert (
        page.locator(LINE.format("cut")).inner_text()
        == "10, number 5 of be, lands in head 2, in the row of be."
    )
    page.locator(".explore-cut .explore-invitation").tap()
    assert page.locator(LINE.format("cut")).inner_text().startswith("view and transpose")
    context.close()


def test_sliders_strike_letters_out(page, pages):
    page.goto(pages["filters"])
    line, out = page.locator(LINE.format("filters")), page.locator(".explore-out")
    assert "All 30 letters may come" in line.inner_text() and out.count() == 0
    page.get_by_label("top-k").fill("5")
    assert "5 of 30 letters may come" in line.inner_text() and out.count() == 24 - 5
    assert "line-through" in out.first.locator(".explore-letter").evaluate(
        "(x) => getComputedStyle(x).textDecoration"
    )
    page.get_by_label("temperature").fill("0.1")
    page.get_by_label("top-p").fill("0.5")
    assert (
        "Only one of 30 letters may come" in line.inner_text() and "0.00 nats" in line.inner_text()
    )
    page.get_by_text("draw 20 letters").click()
    assert len(set(page.locator(".explore-drawn").inner_text().split())) == 1
    page.get_by_text("start again").click()
    before = line.inner_text()
    page.get_by_label("place").focus()
    page.keyboard.press("ArrowLeft")
    assert line.inner_text() != before


def turned_score(m: int, n: int) -> str:
    """What the clocks of CELLS must show for these places, computed with helpers/core/modern.py."""
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    query, key = rotate(x[:, None].expand(2, 41, 8), *rotations(41, 8))
    return f"{(query[m] @ key[n]).item():z.2f}".replace("-", "−")


def test_both_hands_move_on_and_the_score_stays_and_one_alone_changes_it(page, pages):
    page.goto(pages["clock"])
    line, strong = page.locator(LINE.format("clock")), page.locator(".explore-line strong")
    hand = page.locator(".explore-faces .explore-query:not(.explore-before)").first
    between = page.locator(".explore-faces").get_by_text("between")
    tip, angles, first = hand.get_attribute("x2"), between.all_inner_texts(), turned_score(3, 1)
    assert (
        f"The query stands at 3, the key at 1: two places apart. The score is {first}: "
        in line.inner_text()
    )
    assert line.inner_text().endswith("from the fourth.") and len(angles) == 4
    page.get_by_role("button", name="both ten places on").click()
    assert "Both have turned, to the places 13 and 11" in line.inner_text()
    assert (
        f"the score is still {first}." in line.inner_text() and between.all_inner_texts() == angles
    )
    assert hand.get_attribute("x2") != tip
    page.get_by_role("button", name="both one place on").click()
    assert "to the places 14 and 12" in line.inner_text() and strong.inner_text() == first
    page.get_by_label("the key's place").fill("9")
    assert (
        f"Now they are five places apart, and the score is {turned_score(14, 9)}."
        in line.inner_text()
    )
    assert (
        f"At the start it was {first}." in line.inner_text() and between.all_inner_texts() != angles
    )
    page.get_by_label("the query's place").fill("11")
    assert (
        f"Again they are two places apart, as at the start, and again the score is {first}:"
        in line.inner_text()
    )
    box = page.get_by_label("the key's place").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    assert (
        "Now the key stands 29 places ahead" in line.inner_text()
        and strong.inner_text() == turned_score(11, 40)
    )
    page.get_by_role("button", name="start again").click()
    assert (
        "The query stands at 3, the key at 1" in line.inner_text()
        and hand.get_attribute("x2") == tip
    )


def test_the_clocks_are_moved_by_keys_and_end_where_the_sliders_end(page, pages):
    page.goto(pages["clock"])
    line, strong = page.locator(LINE.format("clock")), page.locator(".explore-line strong")
    page.get_by_label("the query's place").focus()
    for key, m, said in [
        ("ArrowLeft", 2, "one place apart"),
        ("ArrowLeft", 1, "both stand at 1"),
        ("ArrowLeft", 0, "the key stands one place ahead (in a GPT, the mask would hide it)"),
        ("End", 40, "39 places apart"),
    ]:
        page.keyboard.press(key)
        assert said in line.inner_text() and strong.inner_text() == turned_score(m, 1)
    page.get_by_role("button", name="start again").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="both ten places on").focus()
    for m in (13, 23, 33, 40, 40):
        page.keyboard.press("Enter")
        assert page.get_by_label("the query's place").input_value() == str(m)
        assert page.get_by_label("the key's place").input_value() == str(m - 2)
        assert strong.inner_text() == turned_score(3, 1)
    assert "Neither has moved, for the sliders end at place 40." in line.inner_text()


def test_a_slow_hand_says_so(page, pages):
    page.goto(pages["clock"])
    paces = page.locator(".explore-clock .explore-faces .explore-caption").all_inner_texts()
    assert paces == ["57° a place", "5.7° a place", "0.57° a place", "hardly moves: 0.057°"]
    page.get_by_label("the query's place").fill("4")
    line = page.locator(LINE.format("clock"))
    assert "On the third and the fourth face the angle has hardly changed" in line.inner_text()
    page.get_by_label("the query's place").fill("40")
    assert "hardly changed" not in line.inner_text()  # 37 places: 2 degrees for the slowest


def thrown(page, p: float, n: int):
    """The weights of the coins' cell and their first n draws, in PyTorch, by the coins that the
    front end throws.
    """
    weights = (
        (torch.arange(16.0).view(4, 4) % 5)
        .masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf)
        .softmax(-1)
    )
    numbers = module(page, "coins", "((coin) => data.map(coin))(it.coins(it.SEED))", [0] * (10 * n))
    coins = torch.zeros(n, 4, 4, dtype=torch.float64)
    coins[:, weights > 0] = torch.tensor(numbers, dtype=torch.float64).view(n, 10)
    return weights.double(), weights.double() * (coins >= p) / (1 - p)


def test_coins_are_fair_and_what_is_kept_is_scaled(page):
    numbers = torch.tensor(
        module(page, "coins", "((coin) => data.map(coin))(it.coins(3))", [0] * 20_000)
    )
    assert numbers.min() >= 0 and numbers.max() < 1 and abs(numbers.mean() - 0.5) < 0.01
    assert (
        abs(numbers[:-1].sub(0.5) @ numbers[1:].sub(0.5)) / 20_000 < 0.003
    )  # one coin knows nothing of the last
    for p in (0.1, 0.5, 0.9):
        weights, draws = thrown(page, p, 200)
        one = "((coin) => data[2].map(() => it.drop(data[0], data[1], coin)))(it.coins(it.SEED))"
        ours = torch.tensor(
            module(page, "coins", one, [weights.tolist(), p, [0] * 200]), dtype=torch.float64
        )
        assert torch.allclose(ours, draws) and 0 < (ours == 0).double().mean() < 1


def test_one_draw_is_wild_and_the_mean_of_many_comes_close(page, pages):
    page.goto(pages["coins"])
    line = page.locator(LINE.format("coins"))
    weights, draws = thrown(page, 0.5, 202)
    opened = line.inner_text()
    assert (
        opened.startswith("Draw 1: ")
        and page.get_by_text("mean of 1 draw", exact=True).is_visible()
    )
    for n in (1, 2):
        draw, sums = draws[n - 1], draws[n - 1].sum(dim=-1)
        lost = int((draw == 0).sum()) - 6
        assert (
            f"Draw {n}: {lost} of 10 weights are gone, and the others are twice as large."
            in line.inner_text()
        )
        assert page.locator(".explore-gone").count() == lost
        assert page.locator(".explore-empty").count() == int((sums == 0).sum())
        far = sums[sums > 0][(sums[sums > 0] - 1).abs().argmax()]
        assert f"{far:.2f} instead of 1." in line.inner_text()
        page.get_by_role("button", name="throw the coins again").click()
    page.get_by_role("button", name="start again").click()
    assert line.inner_text() == opened
    for n in (101, 201):
        page.get_by_role("button", name="throw 100 times").click()
        mean = draws[:n].mean(dim=0)
        s = int(weights[3].argmax())
        said = f"mean of not on {['to', 'be', 'or', 'not'][s]} is {mean[3, s]:.2f}, its weight {weights[3, s]:.2f}:"
        assert (
            f"After {n} draws the {said} each draw gave it 0 or {2 * weights[3, s]:.2f}."
            in line.inner_text()
        )
        assert f"off by {(mean - weights).abs().max():.2f}; after one draw" in line.inner_text()
    tables = page.locator(".explore-table").all()
    assert tables[2].get_attribute("aria-label") == "mean of 201 draws"
    shown = tables[2].locator(".explore-share").all_inner_texts()
    assert shown == [f"{x:.2f}" for x in mean[weights > 0].tolist()]


def test_coins_are_thrown_by_keys_and_a_new_p_starts_again(page, pages):
    page.goto(pages["coins"])
    line, chance = (
        page.locator(LINE.format("coins")),
        page.get_by_role("slider", name="dropped with p ="),
    )
    page.get_by_role("button", name="throw the coins again").focus()
    page.keyboard.press("Enter")
    assert (
        line.inner_text().startswith("Draw 2: ")
        and "The mean of 2 draws is off by" in line.inner_text()
    )
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert line.inner_text().startswith("After 102 draws")
    chance.focus()
    for p in (0.55, 0.6):
        page.keyboard.press("ArrowRight")
        lost = int((thrown(page, p, 1)[1] == 0).sum()) - 6
        assert line.inner_text().startswith(f"Draw 1: {lost} of 10 weights are gone")
    assert "2.5 times as large" in line.inner_text()
    page.keyboard.press("End")
    assert (
        chance.get_attribute("aria-valuetext") == "0.90"
        and "10 times as large" in line.inner_text()
    )
    page.keyboard.press("Home")
    assert (
        chance.get_attribute("aria-valuetext") == "0.10"
        and "1.11 times as large" in line.inner_text()
    )


def test_lines_go_where_the_network_looked(page, pages):
    names = {"torch": torch, "explore": SimpleNamespace(lines=lambda *_: None)}
    exec(CELLS["lines"], names)
    before, after = names["shares"]
    page.goto(pages["lines"])
    line, below, above = (
        page.locator(x) for x in (LINE.format("lines"), "[data-side=below]", "[data-side=above]")
    )
    low, high = before[0].aminmax()
    equally = f"To write its first letter, D, it looks at all places about equally, {low:.0%} to {high:.0%}."
    assert line.inner_text() == equally and page.locator("line.explore-lit").count() == 8
    page.get_by_role("button", name="after", exact=True).click()
    assert (
        line.inner_text()
        == f"To write its first letter, D, it takes {after[0, 3]:.0%} from place 4, D."
    )
    for t, letter in enumerate("Dheaache"):
        below.nth(t).hover()
        share, s = after[t].max(dim=-1)
        assert (
            f"letter, {letter}, it takes {share:.0%} from place {s + 1}, {'heaDache'[s]}"
            in line.inner_text()
        )
        assert page.locator("line.explore-lit").count() == (after[t] >= 0.01).sum()
        assert above.nth(int(s)).locator(".explore-share").inner_text() == f"{share:.0%}"
    for s, letter in enumerate("heaDache"):
        above.nth(s).hover()
        share, t = after[:, s].max(dim=-1)
        said = f"Place {s + 1}, {letter}, is looked at most when letter {t + 1} is written: {share:.0%}."
        assert (
            line.inner_text() == said
            and page.locator("line.explore-lit").count() == (after[:, s] >= 0.01).sum()
        )
    above.nth(3).click()  # kept, while the pointer goes elsewhere
    below.nth(5).hover()
    assert "To write its sixth letter" in line.inner_text()
    page.mouse.move(2, 2)
    assert "Place 4, D," in line.inner_text()
    page.get_by_role("button", name="before", exact=True).click()
    low, high = before[:, 3].aminmax()
    wanted = f"Place 4, D, is looked at about as much for every letter that is written, {low:.0%} to {high:.0%}."
    assert line.inner_text() == wanted


def test_lines_are_walked_by_keys_and_words_come_from_words(page, pages):
    page.goto(pages["lines"])
    line = page.locator(LINE.format("lines"))
    page.get_by_role("button", name="before", exact=True).focus()
    page.keyboard.press("Shift+Tab")  # all letters are one stop
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "written, 1: D"
    for key, said in [
        ("ArrowLeft", "To write its first letter, D,"),
        ("ArrowRight", "To write its second letter, h,"),
        ("ArrowDown", "To write its second letter, h,"),
        ("Escape", "To write its first letter, D,"),
    ]:
        page.keyboard.press(key)
        assert line.inner_text().startswith(said), key
    page.get_by_role("button", name="after", exact=True).press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    for key, said in [
        (
            "ArrowUp",
            "Place 4, D, is looked at most when letter 1 is written",
        ),  # along the thickest line
        ("ArrowUp", "Place 4, D, is looked at most when letter 1 is written"),
        ("ArrowRight", "Place 5, a, is looked at most when letter 5 is written"),
        ("ArrowDown", "To write its fifth letter, a, it takes"),
    ]:
        page.keyboard.press(key)
        assert line.inner_text().startswith(said), key
    page.get_by_role("button", name="words", exact=True).press(
        "Enter"
    )  # four words: there is no fifth
    assert line.inner_text() == "Help comes from Hilf."
    page.get_by_role("button", name="written, 3: read").click()
    assert line.inner_text() == "read comes from lesen."
    page.keyboard.press("ArrowUp")
    assert line.inner_text() == "lesen becomes read."
    page.keyboard.press("ArrowLeft")
    assert line.inner_text() == "zu has no line: none of the words below comes from it."


def test_lines_are_chosen_with_a_finger(browser, pages):
    page = browser.new_page(viewport={"width": 360, "height": 700}, has_touch=True)
    page.goto(pages["lines"])
    page.get_by_role("button", name="after", exact=True).tap()
    page.get_by_role("button", name="read, 8: e").tap()
    assert (
        page.locator(LINE.format("lines"))
        .inner_text()
        .startswith("Place 8, e, is looked at most when letter 8")
    )
    page.close()


NEARLY = [[0.0, 1.0], [0.003, 0.997]]


@pytest.mark.parametrize(
    ("above", "below", "weights", "side", "place", "said"),
    [
        (
            "ab",
            "b",
            [[0.25, 0.75]],
            "below",
            0,
            "75% from place 2, *b*, and 25% from place 1, *a*.",
        ),
        (
            "abcd",
            "a",
            [[0.4, 0.2, 0.15, 0.25]],
            "below",
            0,
            "40% from place 1, *a*, 25% from place 4, *d*, and 20%",
        ),
        (
            "abcde",
            "a",
            [[0.3, 0.1, 0.2, 0.2, 0.2]],
            "below",
            0,
            "*d*. The rest comes from the other 2 places.",
        ),
        (
            "abcd",
            "a",
            [[0.31, 0.24, 0.24, 0.21]],
            "below",
            0,
            "at all places about equally, 21% to 31%.",
        ),
        (
            "abcd",
            "a",
            [[0.34, 0.23, 0.22, 0.21]],
            "below",
            0,
            "*c*. The rest comes from the other place.",
        ),
        ("aaaa", "a", [[0.25] * 4], "below", 0, "looks at all places about equally, 25% each."),
        ("ab", "ba", NEARLY, "below", 0, "it takes 100% from place 2, *b*."),
        (
            "ab",
            "ba",
            NEARLY,
            "below",
            1,
            "it takes more than 99% from place 2, *b*. Place 2 holds *b*, not *a*.",
        ),
        ("ab", "ba", NEARLY, "above", 0, "Place 1, *a*, is hardly looked at: never more than 1%."),
        (
            "ab",
            "ba",
            NEARLY,
            "above",
            1,
            "for every letter that is written, more than 99% to 100%.",
        ),
        (
            "ab",
            "bab",
            [[0.4, 0.6], [0.1, 0.9], [0.7, 0.3]],
            "above",
            1,
            "90%. For 2 of the 3 letters it gets more",
        ),
        (
            ["to", "be"],
            ["sein"],
            [[0.5, 0.5]],
            "below",
            0,
            "first word, *sein*, it looks at all places about equally",
        ),
        (
            ["to", "be"],
            ["sein"],
            [[0.3, 0.7]],
            "below",
            0,
            "it takes 70% from *be* and 30% from *to*.",
        ),
        (["the", "end", "the"], ["x"], [[0, 0, 1]], "below", 0, "*x* comes from place 3, *the*."),
        (["the", "end", "the"], ["x"], [[0, 0, 1]], "above", 2, "Place 3, *the*, becomes *x*."),
        (["zum"], ["to", "the"], [[1], [1]], "above", 0, "*zum* becomes *to* and *the*."),
    ],
)
def test_lines_have_a_sentence_for_every_case(page, above, below, weights, side, place, said):
    case = {"above": list(above), "below": list(below), "weights": weights}
    assert said in module(page, "lines", f"[it.sentences(data).{side}({place})]", case)[0]


def interval(numbers: list[float]) -> tuple[float, float, float]:
    x = torch.tensor(numbers, dtype=torch.float64)
    half = stdtrit(len(x) - 1, 0.975) * x.std() / len(x) ** 0.5
    return x.mean().item(), (x.mean() - half).item(), (x.mean() + half).item()


def test_a_verdict_moves_with_the_seeds_and_with_the_budget(page, pages):
    page.goto(pages["verdict"])
    line, seeds = page.locator(LINE.format("verdict")), page.get_by_role("slider", name="seeds")
    early, late = [0.054, 0.014, 0.027, 0.0, 0.045, 0.024], [0.23, 0.216, 0.235]
    widths = []
    for n, says in (
        (2, "undecided"),
        (3, "undecided"),
        (5, "slightly worse"),
        (6, "slightly worse"),
    ):
        seeds.fill(str(n))
        mean, low, high = interval(early[:n])
        said = f"With {n} seeds the damage is {mean:+.2f}, somewhere between {signed(low)} and {signed(high)}: {says}"
        assert line.inner_text().startswith(said)
        assert ("With 6 seeds the interval is narrower." in line.inner_text()) == (n < 5)
        now = page.locator(".explore-now")
        assert now.locator(".explore-dot").count() == n and now.inner_text().split("\n")[-1] == says
        assert page.locator(".explore-mean").count() == n - 1  # what fewer seeds have said stays
        widths.append(now.locator(".explore-bar").bounding_box()["width"])
    assert widths == sorted(widths, reverse=True)
    page.get_by_role("button", name="1,200 steps").click()  # which has three seeds only
    mean, low, high = interval(late)
    said = f"With 3 seeds the damage is {mean:+.2f}, somewhere between {low:+.2f} and {high:+.2f}: worse."
    assert line.inner_text() == f"{said} After 400 steps the same seeds said +0.03: undecided."
    assert seeds.input_value() == "3" and seeds.get_attribute("max") == "3"
    page.get_by_role("button", name="1,200 steps").click()
    assert line.inner_text() == said


def test_a_bar_lies_where_its_interval_does(page, pages):
    """On the axis between the margin's ends, which are 0.1 apart."""
    page.goto(pages["verdict"])
    page.get_by_role("slider", name="seeds").fill("6")
    now = page.locator(".explore-now")
    mean, low, high = interval([0.054, 0.014, 0.027, 0.0, 0.045, 0.024])
    margin = now.locator(".explore-margin").bounding_box()
    for name, left, right in (("bar", low, high), ("zero", 0, 0), ("mean", mean, mean)):
        box = now.locator(f".explore-{name}").bounding_box()
        found = [
            (x - margin["x"]) / margin["width"] * 0.1 - 0.05
            for x in (box["x"], box["x"] + box["width"])
        ]
        assert abs(found[0] - left) < 0.002 and abs(found[1] - right) < 0.002


def test_a_verdict_is_chosen_by_keys(page, pages):
    page.goto(pages["verdict"])
    line = page.locator(LINE.format("verdict"))
    page.get_by_role("combobox", name="part").focus()
    page.keyboard.press("ArrowDown")
    assert (
        "undecided" not in line.inner_text() and "no difference that matters" in line.inner_text()
    )
    for _ in range(3):  # past the budgets
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert line.inner_text().startswith(
        "With 6 seeds the damage is +0.02, somewhere between −0.02 and +0.07: undec"
    )
    assert "it takes more seeds to tell" in line.inner_text()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert line.inner_text().startswith("With 3 seeds")
    assert line.inner_text().endswith("After 400 steps the same seeds said +0.003: no difference.")


def signed(x: float) -> str:
    """As the front end writes it: a third decimal where two would be zero."""
    return f"{x:+.{2 if abs(x) >= 0.005 else 3}f}".replace("-", "−")


ENDS = "(all) => all.map(({ style }) => [parseFloat(style.left), parseFloat(style.width)])"  # in percent


def test_who_asks_and_how_many_heads_answer_is_chosen(page, pages):
    names = {"torch": torch, "explore": SimpleNamespace(questions=lambda *_: None)}
    exec(CELLS["questions"], names)
    people, cards, things, given = (names[name] for name in ("people", "cards", "things", "given"))
    page.goto(pages["questions"])
    line, card = page.locator(LINE.format("questions")), page.locator(".explore-card")
    assert line.inner_text().startswith("Ann asks. The one head looks most at the")
    for name, (weights, scores) in names["networks"].items():
        page.get_by_role("button", name=name).click()
        said = scores.argmax(dim=-1)
        hits = f"{(said == given).sum()} of 8 answers are right"
        assert page.get_by_role("group", name="who answers").inner_text().endswith(hits)
        for a, person in enumerate(people):
            page.get_by_role("button", name=person).click()
            assert line.inner_text().startswith(f"{person} asks.")
            top, t = weights[a].max(dim=-1)
            for share, i in zip(top.tolist(), t.tolist(), strict=True):
                assert f"at the {cards[i][1]} ({share:.2f}), which" in line.inner_text()
            shares = page.locator(".explore-shares").all()
            assert [x.inner_text().split() for x in shares] == [
                [f"{x:.2f}" for x in row] for row in weights[a].T.tolist()
            ]
            widths = page.locator(".explore-fan path").evaluate_all(
                "(all) => all.map((x) => parseFloat(x.style.strokeWidth))"
            )
            assert torch.allclose(torch.tensor(widths), 22 * weights[a].flatten(), atol=0.01)
            marks = {
                cards[i][1]: x.locator("strong").inner_text() for i, x in enumerate(card.all())
            }
            assert {thing: mark for thing, mark in marks.items() if mark} == {
                things[i]: f"{person} {role}"
                for i, role in zip(given[a], ("gives", "gets"), strict=True)
            }
            for q, half in enumerate(page.locator(".explore-half").all()):
                numbers = [f"{x:z.2f}".replace("-", "−") for x in scores[a, q].tolist()]
                assert half.locator(".explore-number").all_inner_texts() == numbers
                word, wanted = things[said[a, q]], things[given[a, q]]
                verdict = "right" if word == wanted else f"wrong, it is the {wanted}"
                assert half.inner_text().endswith(f"says {word}: {verdict}")
                heard = half.locator(".explore-caption").inner_text()
                assert heard.endswith("one head" if name == "one head" else f"head {q + 1}")
                left, wide = zip(*half.locator(".explore-bar").evaluate_all(ENDS), strict=True)
                reach = max(x.abs().max() for _, x in names["networks"].values())
                assert torch.allclose(
                    torch.tensor(left), 50 + 50 * scores[a, q].clamp(max=0) / reach, atol=0.1
                )
                assert torch.allclose(torch.tensor(wide), 50 * scores[a, q].abs() / reach, atol=0.1)


def test_two_questions_are_asked_by_keys(page, pages):
    page.goto(pages["questions"])
    line, one, two = (
        page.locator(LINE.format("questions")),
        *(page.get_by_role("button", name=x) for x in ("one head", "two heads")),
    )
    opened = line.inner_text()
    page.get_by_role("button", name="Ann").focus()
    for name in ("Bob", "Cleo"):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert line.inner_text().startswith(f"{name} asks. The one head")
        assert page.get_by_role("button", name=name).get_attribute("aria-pressed") == "true"
    for _ in range(3):  # past Dora and one head
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert (
        two.get_attribute("aria-pressed") == "true" and one.get_attribute("aria-pressed") == "false"
    )
    assert line.inner_text().startswith("Cleo asks. Head 1 looks") and line.inner_text().endswith(
        "closest to lute and to rose: both are right."
    )
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Ann").press("Enter")
    assert line.inner_text() == opened


def test_two_questions_are_asked_with_a_finger(browser, pages):
    page = browser.new_page(viewport={"width": 360, "height": 700}, has_touch=True)
    page.goto(pages["questions"])
    page.get_by_role("button", name="Bob").tap()
    page.get_by_role("button", name="two heads").tap()
    assert page.locator(LINE.format("questions")).inner_text().startswith("Bob asks. Head 1 looks")
    page.close()


def test_layers_are_taken_out_and_all_towers_say_how_often_they_are_right(page, pages):
    names = {"torch": torch, "explore": SimpleNamespace(stream=lambda *_: None)}
    exec(CELLS["stream"], names)
    page.goto(pages["stream"])
    line, rows = page.locator(LINE.format("stream")), page.locator(".explore-said")
    shares = page.locator(".explore-share")
    assert "Layer 2 is out." in line.inner_text() and "in 90% of 1,000 scenes." in line.inner_text()
    on, tower = 0b1101, 1
    for layer, choice in [
        (1, NORMED),
        (4, REPLACES),
        (2, ADDS),
        (3, NORMED),
        (4, ADDS),
        (2, REPLACES),
        (4, ADDS),
    ]:
        page.get_by_role("switch", name=f"layer {layer}").click()
        on ^= 2 ** (layer - 1)
        page.get_by_role("button", name=choice, exact=True).click()
        tower = [REPLACES, ADDS, NORMED].index(choice)
        for quiet in (1, 0):
            page.get_by_label("cards a tenth as loud").click()
            assert shares.all_inner_texts() == [
                f"{x:.0%}" for x in names["right"][:, quiet, on].tolist()
            ]
            said = [told_at(names["says"][tower, quiet, on & (2**k - 1)]) for k in range(1, 5)]
            assert [text.replace("\n", " ") for text in rows.all_inner_texts()][1:] == said
            assert page.locator(".explore-answer").inner_text() == "answer: " + re.sub(
                " [0-9].*", "", said[-1]
            )
            assert line.inner_text().startswith("The cards come a tenth as loud. ") == bool(quiet)
            wanted = f"The tower is right in {names['right'][tower, quiet, on]:.0%} of 1,000 scenes"
            assert (wanted in line.inner_text()) == (on > 0)
            checked = [
                one.get_attribute("aria-checked") for one in page.get_by_role("switch").all()
            ]
            assert checked == [("true" if on >> i & 1 else "false") for i in range(4)]
            assert page.locator(".explore-plus").count() == (tower > 0) * on.bit_count()
            assert page.locator(".explore-norm").count() == (tower == 2) * on.bit_count()
    assert on == 0 and "nothing was said" in line.inner_text()
    page.get_by_role("button", name="all on").click()
    assert line.inner_text().startswith("All layers are on. The answer is")


def told_at(scores: torch.Tensor) -> str:
    """What stands at a height of the stream in which these are the scores of CELLS["stream"], and
    the lute is right.
    """
    things = ["ring", "rose", "lute", "mask"]
    if not scores.any():
        return "nothing"
    (first, second), (best, _) = scores.topk(2)
    ahead = round(first.item(), 4) - round(second.item(), 4)
    return f"{things[best]} {'✓' if best == 2 else '✗'} {ahead:.{3 if ahead < 0.095 else 2}f} ahead"


def test_layers_are_taken_out_by_keys_and_a_bar_is_as_high_as_its_score(page, pages):
    names = {"torch": torch, "explore": SimpleNamespace(stream=lambda *_: None)}
    exec(CELLS["stream"], names)
    page.goto(pages["stream"])
    line = page.locator(LINE.format("stream"))
    page.get_by_role("button", name="all on").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert line.inner_text().startswith("Only layers 3 and 4 are on.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the second is back
    assert line.inner_text().startswith("Layer 1 is out.")
    assert page.evaluate("document.activeElement.textContent") == "layer 2"
    for _ in range(3):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert line.inner_text().startswith("The cards come a tenth as loud. Layer 1 is out.")
    scores = names["says"][1, 1, 0b1110]
    bars = page.locator(".explore-bars").last.locator(".explore-score")
    boxes = [bars.nth(i).bounding_box() for i in range(4)]
    unit = boxes[int(scores.abs().argmax())]["height"] / scores.abs().max()
    bottoms = [box["y"] + box["height"] for box in boxes]
    zero = min(bottom for bottom, score in zip(bottoms, scores, strict=True) if score > 0)
    for box, score in zip(boxes, scores, strict=True):
        assert abs(box["height"] - unit * abs(score)) < 0.3
        assert abs(box["y"] + (box["height"] if score > 0 else 0) - zero) < 0.3
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name=ADDS, exact=True).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert (
        page.get_by_role("button", name=REPLACES, exact=True).get_attribute("aria-pressed")
        == "true"
    )
    assert page.locator(".explore-plus").count() == 0


def test_layers_are_taken_out_with_a_finger(browser, pages):
    page = browser.new_page(viewport={"width": 360, "height": 900}, has_touch=True)
    page.goto(pages["stream"])
    page.get_by_role("switch", name="layer 2").tap()
    page.get_by_role("button", name=NORMED).tap()
    page.get_by_role("switch", name="layer 4").tap()
    assert page.locator(LINE.format("stream")).inner_text().startswith("Layer 4 is out.")
    page.close()


# ---------------------------------------------------------------- inside JupyterLab
def test_in_jupyterlab_explorers_live_while_the_kernel_does_and_leave_their_pictures(
    page, screens, tmp_path
):
    page.set_default_timeout(60_000)
    sources = ["import torch\nfrom pictures import explore", *CELLS.values()]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )
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
        page.wait_for_function(
            "document.querySelectorAll('.explore').length === " + str(len(CELLS))
        )
        assert page.locator(".jp-OutputArea img").count() == 1  # the machine's
        page.get_by_role("button", name="causal mask", exact=True).click()
        assert "this is the causal mask" in page.locator(LINE.format("mask")).inner_text()
        page.locator(".explore-cell").nth(
            1
        ).click()  # now it has the focus, and the notebook is in command mode
        page.keyboard.press("b")  # which would add a cell
        for key in ("ArrowDown", "Enter"):
            page.keyboard.press(key)
        assert "to (word 1) sees be (word 2)" in page.locator(LINE.format("mask")).inner_text()
        assert (
            "be (word 2) doesn't see itself" not in page.locator(LINE.format("mask")).inner_text()
        )
        assert page.evaluate(f"{SHOWN}.content.model.cells.length") == 1 + len(
            CELLS
        )  # the keys are not the notebook's
        page.get_by_role("button", name="south asks").click()
        assert "south has the highest score" in page.locator(LINE.format("attend")).inner_text()
        page.get_by_label("top-k").fill("5")
        assert "5 of 30 letters" in page.locator(LINE.format("filters")).inner_text()
        for theme in ("Light", "Dark"):
            page.evaluate(
                f"jupyterapp.commands.execute('apputils:change-theme', {{ theme: 'JupyterLab {theme}' }})"
            )
            page.wait_for_function(
                f"document.body.dataset.jpThemeLight === '{theme == 'Light'}'.toLowerCase()"
            )
            ink = page.locator(".explore").first.evaluate("(x) => getComputedStyle(x).color")
            assert ink == {"Light": "rgb(27, 27, 27)", "Dark": "rgb(236, 236, 236)"}[theme]
            page.screenshot(path=screens / f"widgets-{theme.lower()}.png")
        lab.save(page)
        stored = nbformat.read(path, as_version=4)
        assert "widgets" not in stored.metadata and "widget-view" not in path.read_text("utf-8")

        lab.open(page, path.name)  # the kernel lives: so do they
        page.wait_for_function(
            "document.querySelectorAll('.explore').length === " + str(len(CELLS))
        )
        page.goto("about:blank")
        lab.stop_kernels()
        lab.open(page, path.name)  # another kernel, which knows nothing of them
        page.wait_for_timeout(1000)
        pictures = page.locator(".jp-OutputArea img[alt]")
        assert pictures.count() == len(CELLS) and page.locator(".explore").count() == 0
        assert all(picture.evaluate("(x) => x.naturalWidth") > 300 for picture in pictures.all())
        assert (
            page.get_by_text("Error").count() == 0
            and page.get_by_text("Loading widget").count() == 0
        )
        assert not page.evaluate(f"{SHOWN}.context.model.dirty")
        page.screenshot(path=screens / "widgets-reopened.png")
