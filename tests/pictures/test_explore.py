"""The explorers' host: the picture is always there, the explorer only where somebody can move it."""

import base64
import html
import json

import pytest
import torch

from helpers.data import CharTokenizer
from helpers.errors import ConfigError
from helpers.models import build_gpt
from helpers.modern import ModernConfig
from pictures import explore, host, plotting, widget
from pictures.packing import unpack

WORDS = ["Your", "journey", "starts"]
KEYS = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0]])
SCORES = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [1.0, 1.0, 1.0]])
SEEN = "Three arrows of equal length, to the right, to the top and to the left."
LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 0.0, 5.0, 0.0]])
QUERY = torch.tensor([0.8, 0.6])
SHARES = torch.tensor([[0.1, 0.1, 0.8], [0.0, 0.9, 0.1], [0.5, 0.25, 0.25]])
LINED = "The word abc above, cba below, and lines between them that are as thick as the weights."
DAMAGES = {
    "no positions": {"400 steps": [0.054, 0.014, 0.027, 0.0], "1,200 steps": [0.23, 0.216, 0.235]},
    "one head": {"400 steps": [0.012, -0.02, 0.018, 0.016], "1,200 steps": [0.012, 0.018, 0.002]},
}
# Ann gives the ring, gets the lute.
RING = [
    ["Ann", "ring", "Bob"],
    ["Cleo", "lute", "Ann"],
    ["Bob", "rose", "Cleo"],
]
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
HEAD = {  # three words, two numbers a word, one for the head
    "query": KEYS[:, :1],
    "key": KEYS[:, 1:],
    "value": KEYS[:, 1:],
    "weights": SHARES,
    "context": torch.tensor([[0.5], [1.0], [0.0]]),
    "slice": torch.tensor([[0.5, 1.0]]),
}
CALLS = {
    "ring": lambda: explore.ring(list("abcd"), list("wxyz"), asker=0),
    "questions": lambda: explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS, NETWORKS),
    "shadows": lambda: explore.shadows(SEEN, QUERY, KEYS, WORDS),
    "temperature": lambda: explore.temperature(SEEN, QUERY, KEYS, WORDS),
    "attend": lambda: explore.attend(KEYS, KEYS.flip(0), WORDS, ["ring", "rose", "lute"], {"a query": KEYS[1]}),
    "mask": lambda: explore.mask(SCORES, WORDS),
    "filters": lambda: explore.filters(LOGITS, "ab", list("ab\n ")),
    "votes": lambda: explore.votes(
        ["a", "b"],
        WORDS,
        needed=0,
        right=0,
        students={
            "by heart": (torch.zeros(2), torch.eye(2, 3)),
            "with dropout": (torch.tensor([0.0, 9.0]), 20 * torch.tensor([[1.0, 0, 0], [5, 4, 0]])),
        },
    ),
    "machine": lambda: explore.machine(WORDS, x=KEYS, scores=SCORES, lit=("scores",), follow=1),
    "sheets": lambda: explore.sheets(WORDS, ["long", "ends"], KEYS, {"where?": HEAD, "how?": HEAD}, follow=1),
    "cut": lambda: explore.cut(WORDS),
    "clock": lambda: explore.clock(torch.tensor([1.0, 0.5, -0.4, 2.0]), torch.tensor([0.6, 1.5, 0.8, -1.0])),
    "lines": lambda: explore.lines([("a word", "abc", "cba", SHARES)], LINED),
    "verdict": lambda: explore.verdict(DAMAGES),
    "rewards": lambda: explore.rewards([("Shakespeare", [0.5, 0.75], [1.9, 2.6], "any, any")]),
    "tokens": lambda: explore.tokens("the other", [("t", "h"), ("th", "e"), (" ", "o")], stops=(0, 1, 3, 100)),
}

SAYS = {  # in words, what each picture shows
    "ring": ["a the w to b, b the x to c, c the y to d, d the z to a."],
    "questions": [
        "one: 0.50 to the lute and 0.30 to the ring; it says that Ann gives the lute (wrong: the ring) and gets",
        "two, head 1: 0.80 to the ring and 0.15 to the lute; it says that Ann gives the ring (right).",
        "two, head 2: 0.88 to the lute and 0.10 to the ring; it says that Ann gets the lute (right).",
    ],
    "shadows": [SEEN],
    "temperature": [SEEN],
    "attend": ["journey has the largest, 0.89"],  # e^(4/√2) against twice e^0
    "mask": ["3 words", "Your sees only itself"],
    "filters": ["after “ab”", "1 may come, and the likeliest, '↵', goes from 98% to 100%"],
    "votes": [
        "by heart: most is added by the card with the answer",
        "with dropout: most is added by another card",
    ],
    "machine": ["Followed: journey; the largest of its scores is 3.00, for starts."],
    "sheets": [
        "Followed: journey; head 1 (where?) gives 0.90 to journey, head 2 (how?) gives 0.90 to journey.",
        "long 0.50 + 0.50 = 1.00; ends 1.00 + 1.00 = 2.00.",
    ],
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
    "rewards": ["round by round. Held by Shakespeare: words found from 50% to 75%, loss from 1.90 to 2.60."],
    "tokens": ["'the other', cut into tokens: by 10 merges the |  o | the | r;"],
}


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, as bundles with their metadata; nobody sees it."""
    bundles = []
    monkeypatch.setattr(plotting, "display", lambda bundle, metadata, raw: bundles.append((bundle, metadata)))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return bundles


def test_the_picture_of_a_figure_that_waits_holds_no_answer(shown):
    explore.questions(["Ann", "Bob", "Cleo"], RING, GIFTS, NETWORKS, waits=True)
    ((bundle, metadata),) = shown
    assert metadata["explore"]["data"]["waits"]
    assert bundle["text/plain"].startswith("3 cards: ") and "0." not in bundle["text/plain"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_without_jupyterlab_there_is_a_picture_with_a_text_and_nothing_else(shown, monkeypatch, name):
    monkeypatch.setattr(widget, "Explorer", None)  # a widget that is made is kept in the notebook
    CALLS[name]()
    ((bundle, metadata),) = shown
    assert set(bundle) == {"image/png", "text/plain"} and bundle["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == bundle["text/plain"] and len(bundle["text/plain"]) > 60
    assert metadata["explore"]["front_end"] == name
    assert json.loads(json.dumps(metadata)) == metadata
    assert all(words in bundle["text/plain"] for words in SAYS[name])


def test_in_jupyterlab_each_explorer_knows_its_place_and_the_picture_is_what_is_stored(shown, monkeypatch):
    made = []
    monkeypatch.setattr(widget, "Explorer", lambda **traits: made.append(traits))
    monkeypatch.setenv("JPY_SESSION_NAME", "03.ipynb")
    for _ in range(2):
        CALLS["mask"]()
    assert made[0]["place"] != made[1]["place"]
    for (bundle, metadata), traits in zip(shown, made, strict=True):
        there = bundle["text/html"]  # and no view, which would outlive its model
        assert set(bundle) == {"image/png", "text/plain", "text/html"} and "<script" not in there
        assert f'data-mount="{traits["place"]}"' in there
        assert f'alt="{html.escape(bundle["text/plain"])}"' in there
        assert base64.b64encode(bundle["image/png"]).decode() in there
        assert traits["data"] == metadata["explore"]["data"]


def test_a_machine_with_a_number_that_is_none_stays_a_picture(shown):
    explore.machine(WORDS, x=KEYS, scores=SCORES.log())
    ((bundle, metadata),) = shown
    assert set(bundle) == {"image/png", "text/plain"} and "explore" not in metadata


def test_the_explorer_of_a_model_holds_that_model_whichever_it_is(shown, monkeypatch):
    made = []
    monkeypatch.setattr(widget, "Explorer", lambda **traits: made.append(traits))
    tokenizer = CharTokenizer("abc\n")
    sizes = dict(vocab_size=4, context_length=6, n_layer=1, n_head=2, n_embd=8)
    ours = build_gpt(ModernConfig(**sizes, rotary=True, n_kv_head=1, softcap=3.0, bigrams=20))
    explore.model(ours, tokenizer, "abca")  # no kernel that lives
    monkeypatch.setenv("JPY_SESSION_NAME", "08.ipynb")
    explore.model(ours, tokenizer, "abca")
    (bundle, metadata), (live, _) = shown
    assert "explore" not in metadata and set(bundle) == {"image/png", "text/plain"}
    assert "text/html" in live and unpack(made[0]["weights"])[0].config == ours.config
    with pytest.raises(ConfigError, match="from 2 to 6 letters"):
        explore.model(ours, tokenizer, "abcabca")


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
