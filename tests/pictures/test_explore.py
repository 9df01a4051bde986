"""The explorers' host: the picture is always there, the explorer only where somebody can move it."""

import base64
import html
import json
import math
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
import torch

from helpers.counted import build_gpt
from helpers.data import CharTokenizer
from helpers.errors import ConfigError
from helpers.modern import ModernConfig
from helpers.sampling import filter_logits
from pictures import explore, host, plotting, widget
from pictures.packing import unpack

WORDS = ["Your", "journey", "starts"]
KEYS = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0]])
SCORES = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [1.0, 1.0, 1.0]])
SEEN = "Three arrows of equal length, to the right, to the top and to the left."
LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 5.0, 0.0]])
QUERY = torch.tensor([0.8, 0.6])
WEIGHTS = SCORES.masked_fill(torch.ones(3, 3).triu(1) > 0, -torch.inf).softmax(dim=-1)
SHARES = torch.tensor([[0.1, 0.1, 0.8], [0.0, 0.9, 0.1], [0.5, 0.25, 0.25]])
LINED = "The word abc above, cba below, and lines between them that are as thick as the weights."
DAMAGES = {
    "no positions": {"400 steps": [0.054, 0.014, 0.027, 0.0], "1,200 steps": [0.23, 0.216, 0.235]},
    "one head": {"400 steps": [0.012, -0.02, 0.018, 0.016], "1,200 steps": [0.012, 0.026, -0.008]},
}
RING = [
    ["Ann", "ring", "Bob"],
    ["Cleo", "lute", "Ann"],
    ["Bob", "rose", "Cleo"],
]  # Ann gives the ring, gets the lute
GIFTS = ["ring", "rose", "lute", "mask"]
NETWORKS = {
    "one": (
        torch.tensor([[0.3, 0.5, 0.2], [0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])[:, None],
        torch.tensor([[0.2, 0.1, 0.3, -0.1], [0.5, 0.0, 0.7, -0.3]]).expand(3, 2, 4),
    ),
    "two": (
        torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.875, 0.025]]).expand(3, 2, 3),
        torch.tensor([[0.3, -0.5, -0.4, -0.6], [-0.4, -0.3, 0.5, -0.2]]).expand(3, 2, 4),
    ),
}
LOPSIDED = {"one": (torch.tensor([[[0.9, 0.4, -0.3]]]).expand(3, 1, 3), NETWORKS["one"][1])}
SAID = torch.zeros(2, 4, 3)  # by a tower of two layers, with none, the first, the second, and both
OFTEN = torch.tensor([[0.0, 0.5, 0.25, 1.0], [0.0, 0.1, 0.2, 0.3]])
CALLS = {
    "stream": lambda: explore.stream({"each adds": (SAID, OFTEN)}, WORDS, "starts"),
    "questions": lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS, NETWORKS),
    "shadows": lambda: explore.shadows(SEEN, QUERY, KEYS, WORDS),
    "temperature": lambda: explore.temperature(SEEN, QUERY, KEYS, WORDS),
    "attend": lambda: explore.attend(
        KEYS, KEYS.flip(0), WORDS, ["ring", "rose", "lute"], {"a query": KEYS[1]}
    ),
    "mask": lambda: explore.mask(SCORES, WORDS),
    "filters": lambda: explore.filters(LOGITS, "ab", list("ab\n ")),
    "coins": lambda: explore.coins(WEIGHTS, WORDS),
    "machine": lambda: explore.machine(WORDS, x=KEYS, scores=SCORES, lit=("scores",), follow=1),
    "cut": lambda: explore.cut(WORDS),
    "clock": lambda: explore.clock(
        torch.tensor([1.0, 0.5, -0.4, 2.0]), torch.tensor([0.6, 1.5, 0.8, -1.0])
    ),
    "lines": lambda: explore.lines([("a word", "abc", "cba", SHARES)], LINED),
    "verdict": lambda: explore.verdict(DAMAGES),
}

SAYS = {  # in words, what each picture shows
    "stream": [
        "How often towers of 2 layers are right, as bars. Each adds: 100% with all layers, from 25% to 50% without one",
        "(the worst to lose is layer 1), and 30% with all layers where the cards come a tenth as loud. A blind guess",
        "right in 1 of 3.",
    ],
    "questions": [
        "one: 0.50 to the lute and 0.30 to the ring; it says that Ann gives the lute (wrong: the ring) and gets",
        "two, head 1: 0.80 to the ring and 0.15 to the lute; it says that Ann gives the ring (right).",
        "two, head 2: 0.88 to the lute and 0.10 to the ring; it says that Ann gets the lute (right).",
    ],
    "shadows": [SEEN],
    "temperature": [SEEN],
    "attend": ["journey has the largest, 0.89"],  # e^(4/√2) against twice e^0
    "mask": ["3 words", "Your sees only itself"],
    "filters": ["after “ab”", "likeliest is '↵'"],
    "coins": ["one draw of dropout with p = 0.5, in which 4 of 6 weights are dropped"],
    "machine": ["Followed: journey; the largest of its scores is 3.00, for starts."],
    "cut": ["By view alone 12 of 18 numbers stand in another word's row: head 1 has the first 9"],
    # By hand: (1, −0.4) lies at −21.8 and (0.6, 0.8) at 53.1 degrees, and 2 radians more at 114.6:
    # 39.7 between
    "clock": [
        "at the places 3 and 1, below at 13 and 11",
        "the same in both rows: 40°, 111°. So is the score: −0.49 above, −0.49 below.",
    ],
    "lines": [LINED],
    "verdict": [
        "2 parts left out, after 1,200 steps, each with its 95 % interval",
        "from −0.05 to 0.05: no positions +0.23, worse; one head +0.01, no difference.",
    ],
}

FRONT_ENDS = {"temperature": "attend"}  # where it isn't called as the explorer is


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, as bundles with their metadata; nobody sees it."""
    bundles = []
    monkeypatch.setattr(
        plotting, "display", lambda bundle, metadata, raw: bundles.append((bundle, metadata))
    )
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return bundles


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_without_jupyterlab_there_is_a_picture_with_a_text_and_nothing_else(
    shown, monkeypatch, name
):
    monkeypatch.setattr(widget, "Explorer", None)  # a widget that is made is kept in the notebook
    CALLS[name]()
    ((bundle, metadata),) = shown
    assert set(bundle) == {"image/png", "text/plain"} and bundle["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == bundle["text/plain"] and len(bundle["text/plain"]) > 60
    assert metadata["explore"]["front_end"] == FRONT_ENDS.get(name, name)
    assert json.loads(json.dumps(metadata)) == metadata
    assert all(words in bundle["text/plain"] for words in SAYS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mask", "machine"])  # all of them: tests/browser/test_widgets.py
def test_in_jupyterlab_the_explorer_knows_its_place_and_the_picture_is_what_is_stored(
    shown, monkeypatch, name
):
    made = []
    monkeypatch.setattr(widget, "Explorer", lambda **traits: made.append(traits))
    monkeypatch.setenv("JPY_SESSION_NAME", "03.ipynb")
    CALLS[name]()
    ((bundle, metadata),), (traits,) = shown, made
    assert set(bundle) == {
        "image/png",
        "text/plain",
        "text/html",
    }  # no view, which would outlive its model
    assert (
        f'data-explore="{traits["place"]}"' in bundle["text/html"]
        and "<script" not in bundle["text/html"]
    )
    assert f'alt="{html.escape(bundle["text/plain"])}"' in bundle["text/html"]
    assert base64.b64encode(bundle["image/png"]).decode() in bundle["text/html"]
    assert traits["data"] == metadata["explore"]["data"]


def test_each_explorer_has_a_place_of_its_own(shown, monkeypatch):
    made = []
    monkeypatch.setattr(widget, "Explorer", lambda **traits: made.append(traits["place"]))
    monkeypatch.setenv("JPY_SESSION_NAME", "03.ipynb")
    CALLS["mask"]()
    CALLS["mask"]()
    assert len(set(made)) == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: explore.mask(SCORES, WORDS[:2]),
            "equally many, from 2 to 12, not 2 words, 3 scores",
        ),
        (lambda: explore.mask(torch.zeros(13, 13), ["x"] * 13), "from 2 to 12, not 13 words"),
        (lambda: explore.mask(SCORES.log(), WORDS), "scores must be finite"),
        (lambda: explore.attend(KEYS, KEYS, WORDS, WORDS, {}), "at least one query"),
        (
            lambda: explore.attend(KEYS, KEYS, WORDS, WORDS, {"q": torch.zeros(3)}),
            "each of two numbers",
        ),
        (
            lambda: explore.attend(KEYS, KEYS / 0, WORDS, WORDS, {"q": KEYS[0]}),
            "values must be finite",
        ),
        (
            lambda: explore.attend(KEYS, KEYS, WORDS, WORDS[:2], {"q": KEYS[0]}),
            "not 3 names, 2 says, 3 keys, 3 values",
        ),
        (lambda: explore.shadows(SEEN, QUERY, KEYS, WORDS[:2]), "not 2 names, 3 keys"),
        (lambda: explore.shadows(SEEN, QUERY, 0 * KEYS, WORDS), "points nowhere"),
        (lambda: explore.temperature(SEEN, QUERY / 0, KEYS, WORDS), "query must be finite"),
        (lambda: explore.temperature(" ", QUERY, KEYS, WORDS), "needs an alternative text"),
        (lambda: explore.cut(WORDS[:1]), "2 to 6 words, .* not 1 words, 2 heads and 3 numbers"),
        (lambda: explore.cut(WORDS * 3), "not 9 words"),
        (lambda: explore.cut(WORDS, heads=4), "2 or 3 heads .* 4 heads"),
        (lambda: explore.cut(WORDS, width=1), "2 to 4 numbers in each, .* and 1 numbers"),
        (lambda: explore.coins(WEIGHTS, WORDS[:2]), "not 2 words, 3 weights"),
        (
            lambda: explore.coins(SCORES, WORDS),
            "after softmax: zeros above the diagonal, rows that add up to 1",
        ),
        (lambda: explore.coins(SCORES.softmax(dim=-1), WORDS), "weights must be causal"),
        (lambda: explore.coins(WEIGHTS / 0, WORDS), "weights must be finite"),
        (lambda: explore.coins(WEIGHTS, WORDS, 1.0), "from 0.1 to 0.9, in steps of 0.05, not 1.0"),
        (lambda: explore.coins(WEIGHTS, WORDS, 0.33), "not 0.33"),
        (lambda: explore.lines([], LINED), "from 1 to 4 cases, each with a name of its own, not 0"),
        (
            lambda: explore.lines([(f"{i}", "abc", "cba", SHARES) for i in range(5)], LINED),
            "from 1 to 4 cases.*not 5",
        ),
        (
            lambda: explore.lines([("one", "abc", "cba", SHARES)] * 2, LINED),
            "a name of its own, not 2",
        ),
        (
            lambda: explore.lines([("one", "abc", "ab", SHARES)], LINED),
            r"3 above and 2 below.*\(2, 3\), not \(3, 3\)",
        ),
        (
            lambda: explore.lines([("x", 17 * "a", "b", torch.zeros(1, 17))], LINED),
            "17 above and 1 below, from 1 to 16",
        ),
        (
            lambda: explore.lines([("one", "abc", "cba", SHARES / 0)], LINED),
            "the weights of one must be finite",
        ),
        (
            lambda: explore.lines([("one", "abc", "cba", SHARES.mT)], LINED),
            "one: no weight may be negative, and each row",
        ),
        (
            lambda: explore.lines([("one", "ab", "c", torch.tensor([[1.5, -0.5]]))], LINED),
            "no weight may be negative",
        ),
        (lambda: explore.lines([("one", "abc", "cba", SHARES)], " "), "needs an alternative text"),
        (
            lambda: explore.filters(LOGITS, "abc", list("abcd")),
            r"logits of shape \(3, 4\), not \(2, 4\)",
        ),
        (lambda: explore.filters(LOGITS, "ab", list("abcd"), 2), "below 2, not 2"),
        (lambda: explore.filters(-LOGITS.log(), "ab", list("abcd")), "logits must be finite"),
        (
            lambda: explore.stream({}, WORDS, "starts"),
            "towers must be some of: each replaces; .*, not: none",
        ),
        (
            lambda: explore.stream({"mine": (SAID, OFTEN)}, WORDS, "starts"),
            "towers must be .* a norm, not: mine",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, OFTEN)}, WORDS, "step"),
            "asked must be .* starts, not step",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, OFTEN)}, ["x"], "x"),
            "from 2 to 12, not 1 things",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, OFTEN)}, WORDS[:2], "Your"),
            r"each adds: from 2 to 6 layers, L, and 2 things .*\(2, 2\^L, 2\).*, not \(2, 4, 3\) and \(2, 4\)",
        ),
        (
            lambda: explore.stream({"each adds": (SAID[:, :2], OFTEN[:, :2])}, WORDS, "Your"),
            r"from 2 to 6 layers.*not \(2, 2, 3\) and \(2, 2\)",
        ),
        (
            lambda: explore.stream({"each adds": (SAID[:, :3], OFTEN[:, :3])}, WORDS, "Your"),
            r"not \(2, 3, 3\) and \(2, 3\)",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, OFTEN[0, 0])}, WORDS, "Your"),
            r"not \(2, 4, 3\) and \(\)",
        ),
        (
            lambda: explore.stream(
                {
                    "each adds": (SAID, OFTEN),
                    "each replaces": (SAID.repeat(1, 2, 1), OFTEN.repeat(1, 2)),
                },
                WORDS,
                "Your",
            ),
            r"each replaces: .* as many layers in all towers, not \(2, 8, 3\) and \(2, 8\)",
        ),
        (
            lambda: explore.stream({"each adds": (SAID / 0, OFTEN)}, WORDS, "Your"),
            "the scores of each adds must be finite",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, OFTEN / 0)}, WORDS, "Your"),
            "the shares of each adds must be finite",
        ),
        (
            lambda: explore.stream({"each adds": (SAID, 2 * OFTEN)}, WORDS, "Your"),
            "each adds: the shares of right answers must be from 0 to 1",
        ),
        (lambda: explore.verdict({}), "not 0 parts and 0 budgets"),
        (lambda: explore.verdict({"a": {}}), "not 1 parts and 0 budgets"),
        (
            lambda: explore.verdict({f"{i}": {"400": [1, 2, 3]} for i in range(13)}),
            "not 13 parts and 1 budgets",
        ),
        (
            lambda: explore.verdict({"a": {f"{i}": [1, 2, 3] for i in range(5)}}),
            "not 1 parts and 5 budgets",
        ),
        (
            lambda: explore.verdict({"a": {"400": [1, 2, 3]}, "b": {"4": [1, 2, 3]}}),
            r"b has the budgets \['4'\], and",
        ),
        (
            lambda: explore.verdict({"a": {"400": [1, 2]}}),
            "a, 400: there must be from 3 to 20 seeds, not 2",
        ),
        (lambda: explore.verdict({"a": {"400": [1] * 21}}), "not 21"),
        (
            lambda: explore.verdict({"a": {"400": [1, 2, math.nan]}}),
            "differences of a, 400, must be finite",
        ),
        (lambda: explore.verdict(DAMAGES, margin=0), "margin must be a number above 0, not 0"),
        (
            lambda: explore.verdict(DAMAGES, margin=math.nan),
            "margin must be a number above 0, not nan",
        ),
        (
            lambda: explore.clock(torch.ones(3), torch.ones(3)),
            r"2, 4, 6 or 8, not shapes of \(3,\) and \(3,\)",
        ),
        (
            lambda: explore.clock(torch.ones(10), torch.ones(10)),
            r"not shapes of \(10,\) and \(10,\)",
        ),
        (lambda: explore.clock(QUERY, QUERY / 0), "key must be finite"),
        (lambda: explore.clock(0 * QUERY, QUERY), "points nowhere"),
        (lambda: explore.clock(QUERY, QUERY, 0.5), "base must be a number from 1 up, not 0.5"),
        (
            lambda: explore.clock(QUERY, QUERY, float("nan")),
            "base must be a number from 1 up, not nan",
        ),
        (lambda: explore.questions(["Ann", "Bob"], RING, GIFTS, NETWORKS), "not 2 people, 3 cards"),
        (
            lambda: explore.questions(["Ann", "Bob", "Dan"], RING, GIFTS, NETWORKS),
            "must give once and get once",
        ),
        (
            lambda: explore.questions(["Ann", "Ann", "Bob"], RING, GIFTS, NETWORKS),
            "must give once and get once",
        ),
        (
            lambda: explore.questions(["a", "b"], ["ab", "ba"], GIFTS, NETWORKS),
            "a card is a giver, a thing and a rec",
        ),
        (
            lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS[:1], NETWORKS),
            "from 2 to 12, not 1 things",
        ),
        (
            lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS[1:], NETWORKS),
            "among the things: rose, lute, mask",
        ),
        (
            lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS, {}),
            "from 1 to 4 networks, not 0",
        ),
        (
            lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, [*GIFTS, "torch"], NETWORKS),
            r"one: 3 people and 5 things .* not \(3, 1, 3\) and \(3, 2, 4\)",
        ),
        (
            lambda: explore.questions(
                ["Ann", "Bob", "Cleo"], RING, GIFTS, {"x": (SCORES, NETWORKS["one"][1])}
            ),
            r"x: .* shape \(3, 1 or 2, 3\) and scores of shape \(3, 2, 4\), not \(3, 3\)",
        ),
        (
            lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS, LOPSIDED),
            "one: no weight may be negative, and",
        ),
        (
            lambda: explore.questions(
                ["Ann", "Bob", "Cleo"],
                RING,
                GIFTS,
                {"a": (NETWORKS["one"][0], NETWORKS["one"][1].log())},
            ),
            "the scores of a must be finite",
        ),
    ],
)
def test_bad_data_is_refused_in_one_sentence(shown, call, said):
    with pytest.raises(ConfigError, match=said):
        call()
    assert not shown


def test_a_case_of_lines_is_a_tuple_or_a_dict_and_a_space_can_be_seen(shown):
    explore.lines(
        [{"weights": SHARES, "name": "one", "above": "a b", "below": ["x", "\n", "z"]}], LINED
    )
    explore.lines([("one", "a b", "x\nz", SHARES)], LINED)
    (_, first), (_, second) = shown
    assert first == second
    (case,) = first["explore"]["data"]["cases"]
    assert case["above"] == ["a", "·", "b"] and case["below"] == ["x", "↵", "z"]
    assert case["weights"][1] == [0.0, 0.9, 0.1]


def test_a_machine_with_a_number_that_is_none_stays_a_picture(shown):
    explore.machine(WORDS, x=KEYS, scores=SCORES.log())
    ((bundle, metadata),) = shown
    assert set(bundle) == {"image/png", "text/plain"} and "explore" not in metadata


@pytest.mark.parametrize(
    "changes", [{}, {"rotary": True, "n_kv_head": 1, "softcap": 3.0, "bigrams": 20}]
)
def test_the_explorer_of_a_model_holds_that_model_whichever_it_is(shown, monkeypatch, changes):
    made = []
    monkeypatch.setattr(widget, "Explorer", lambda **traits: made.append(traits))
    tokenizer = CharTokenizer("abc\n")
    torch.manual_seed(0)
    sizes = dict(vocab_size=4, context_length=6, n_layer=1, n_head=2, n_embd=8)
    ours = build_gpt(ModernConfig(**sizes, **changes))
    explore.model(ours, tokenizer, "abca")  # no kernel that lives
    monkeypatch.setenv("JPY_SESSION_NAME", "08.ipynb")
    explore.model(ours, tokenizer, "abca")
    (bundle, metadata), (live, _) = shown
    assert "explore" not in metadata and set(bundle) == {"image/png", "text/plain"}
    assert "text/html" in live
    assert unpack(made[0]["weights"])[0].config == ours.config
    for text in ("a", "abcabca"):
        with pytest.raises(ConfigError, match="from 2 to 6 letters"):
            explore.model(ours, tokenizer, text)


@pytest.mark.parametrize("name", sorted({FRONT_ENDS.get(name, name) for name in CALLS}))
def test_a_front_end_is_one_module_without_imports(name):
    source = host.front_end(name)
    assert not re.search(
        r"^\s*import\b|\bimport\(|https?://(?!www\.w3\.org/2000/svg)", source, re.M
    )
    assert (
        source.count("export function mount(element, data")
        == source.count("function takePlace(")
        == 1
    )
    names = re.findall(r"^(?:export )?(?:const|let|function|class) (\w+)", source, re.M)
    assert len(names) == len(set(names))


def test_the_bytes_of_the_kernel_are_what_its_text_becomes(tmp_path):
    if (assembler := shutil.which("wat2wasm")) is None:
        pytest.skip(
            "wat2wasm is not installed (package wabt): nobody knows if matvec.js holds what matvec.wat says"
        )
    made = tmp_path / "matvec.wasm"
    subprocess.run([assembler, host.SOURCES / "matvec.wat", "-o", made], check=True)
    held = re.search(r'^const MATVEC =\s+"(.+)";$', host.front_end("matvec"), re.M)[1]
    assert base64.b64decode(held) == made.read_bytes()


def test_a_page_gets_the_picture_and_the_explorer_and_no_text_ends_its_script(shown):
    explore.mask(SCORES, ["</script>", '"', "é"])
    ((bundle, metadata),) = shown
    output = {
        "data": {"image/png": base64.b64encode(bundle["image/png"]).decode() + "\n"},
        "metadata": metadata,
    }
    for part in (page := host.page(output), host.mounting("mask")):
        assert part.count("</script>") == 1 and part.endswith("</script>")
    assert 'alt="Scores and weights' in page
    assert page == host.page(output)  # stable: two builds of the site are the same


def test_the_filters_equal_those_of_sampling(tmp_path):
    """Only where node is: in Chromium tests/browser/test_widgets.py compares them, too."""
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed: the test in the browser compares the filters")
    torch.manual_seed(0)
    cases, wanted = [], []
    for heat, k, p in [
        (1, 65, 1),
        (0.1, 65, 1),
        (2, 5, 1),
        (0.7, 65, 0.9),
        (1.3, 10, 0.5),
        (1, 1, 1),
        (1, 65, 0.05),
    ] * 20:
        logits = 3 * torch.randn(65, dtype=torch.float64)
        logits[torch.randint(65, (5,))] = logits[7].item()  # ties
        cases.append([logits.tolist(), heat, k, p])
        wanted.append(filter_logits(logits, float(heat), k, float(p)).softmax(dim=-1))
    (tmp_path / "filters.mjs").write_text(host.front_end("filters"), encoding="utf-8")
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    script = (
        'import { filterLogits, softmax } from "./filters.mjs"; import { readFileSync } from "node:fs";'
        'const cases = JSON.parse(readFileSync("cases.json"));'
        "console.log(JSON.stringify(cases.map((one) => softmax(filterLogits(...one)))))"
    )
    command = [node, "--input-type=module", "-e", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    ours = torch.tensor(json.loads(done.stdout), dtype=torch.float64)
    assert (ours - torch.stack(wanted)).abs().max() < 1e-6
    assert ((ours == 0) == (torch.stack(wanted) == 0)).all() and (ours == 0).any()


NOTEBOOK = """import torch
explore.mask(torch.arange(9.0).view(3, 3), ["a", "b", "c"])"""


@pytest.mark.weekly
def test_a_stored_notebook_holds_the_picture_and_passes_nbval(tmp_path):
    """As `make store` runs it and `make test` compares it: no state of a widget, no id that differs
    in the next run.

    The lessons with explorers show the same to `make test`; this test also says what it is that
    failed.
    """
    import papermill

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, tmp_path / "draft.ipynb")
    papermill.execute_notebook(
        tmp_path / "draft.ipynb", tmp_path / "stored.ipynb", progress_bar=False
    )
    stored = nbformat.read(tmp_path / "stored.ipynb", as_version=4)
    (output,) = stored.cells[0].outputs
    assert set(output.data) == {"image/png", "text/plain"} and "widgets" not in stored.metadata
    assert 'data-explorer="mask"' in host.page(output)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--disable-plugin-autoload",
        "-p",
        "nbval.plugin",
        "--nbval",
        "--nbval-current-env",
    ]
    done = subprocess.run([*command, "stored.ipynb"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
