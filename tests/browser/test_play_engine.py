"""The model's JavaScript in a browser: it computes as PyTorch does, is mounted and removed."""

import base64
import gzip
import math
import random

import pytest
import torch

from helpers import microscope
from helpers.attention import MultiHeadAttention
from helpers.data import BUNDLED_PLAY, CharTokenizer
from helpers.gpt import GPT
from helpers.models import build_gpt
from helpers.modern import ModernConfig
from helpers.sampling import filter_logits
from pictures import host
from pictures.packing import pack, unpack
from tools import play

pytestmark = pytest.mark.slow
# The page's own model.
LAST = gzip.decompress(sorted(play.PACKED.glob("step-*.gz"))[-1].read_bytes())
IMPORT = """async ({ source, packed }) => {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  window.ours = { ...module, packed: bytes, model: new module.GPT(bytes) };
}"""
LOGITS = """(texts) => texts.map((tokens) => {
  const cache = ours.model.newCache();
  return tokens.map((token) => Array.from(ours.model.forward(token, cache)));
})"""


@pytest.fixture
def engine(browser):
    """The model's JavaScript as JupyterLab gets it, in a browser's page with a model's bytes."""
    page = browser.new_page()

    def start(packed: bytes, simd: bool = True):
        if not simd:
            page.evaluate("delete window.WebAssembly")
        argument = {"source": host.front_end("broken"), "packed": base64.b64encode(packed).decode()}
        page.evaluate(IMPORT, argument)
        # Bytes that are damaged would only make it slow.
        assert page.evaluate("ours.compiled !== null") == simd
        return page

    yield start
    page.close()


def texts(alphabet: str, longest: int, count: int = 200) -> list[str]:
    """Half of them random letters, half cut out of the bundled play."""
    dice = random.Random(0)
    whole = "".join(letter for letter in BUNDLED_PLAY.read_text(encoding="utf-8") if letter in alphabet)
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


# ---------------------------------------------------------------- what it computes
@pytest.mark.parametrize("simd", [True, False], ids=["webassembly", "javascript"])
def test_the_browser_computes_what_pytorch_computes(engine, simd):
    packed = LAST
    model, tokenizer, _ = unpack(packed)
    page = engine(packed, simd)
    tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, model.config.context_length)]
    assert farthest(page, model, tokens) < 1e-4


ALL = dict(
    bias=True,
    rotary=True,
    rms_norm=True,
    qk_norm=True,
    mlp="swiglu",
    mlp_width=15,
    n_kv_head=2,
    window=5,
)
ALL |= dict(tied=False, softcap=5.0, bigrams=81, trigrams=700, fourgrams=97, before=3)
SNOWMAN = CharTokenizer("abcdefg☃")


def modern(changes: dict) -> GPT:
    """A small model with large weights: small ones hide mistakes, and biases begin as zeros."""
    torch.manual_seed(1)
    config = ModernConfig(vocab_size=8, context_length=13, n_layer=2, n_head=4, n_embd=24, **changes)
    model = build_gpt(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


OTHERS = (dict(), dict(mlp="relu2", n_kv_head=1, bigrams=7), dict(mlp_width=30, rotary=True))


@pytest.mark.parametrize("simd", [True, False], ids=["webassembly", "javascript"])
@pytest.mark.parametrize("changes", [ALL, *OTHERS], ids=["all", "plain", "shared", "wide"])
def test_todays_models_are_computed_too(engine, changes, simd):
    packed = pack(modern(changes), SNOWMAN)
    tokens = [SNOWMAN.encode(text) for text in texts(SNOWMAN.characters, 13, 20) if text]
    assert farthest(engine(packed, simd), unpack(packed)[0], tokens) < 1e-5


@pytest.mark.parametrize("changes", [{}, ALL], ids=["plain", "all"])
def test_what_is_shown_on_the_way_is_what_the_microscope_shows(engine, changes):
    packed = pack(modern(changes), SNOWMAN)
    tokens = SNOWMAN.encode("abc☃gfedabab")
    theirs = engine(packed).evaluate(
        """([tokens, names]) => {
          const reader = new ours.Reader(ours.model);
          reader.reread(tokens);
          return reader.places.map(({ stream, layers }) => ({
            stream: stream.map((row) => [...row]),
            weights: layers.map(({ weights }) => weights.map((row) => [...row])),
            ...Object.fromEntries(names.map((name) => [name, layers.map((layer) => [...layer[name]])])),
          }));
        }""",
        [tokens.tolist(), ["query", "key", "context", "attended", "hidden"]],
    )
    ours = microscope.every_tensor(unpack(packed)[0], tokens)
    for t, place in enumerate(theirs):
        expected = {name: getattr(ours, name)[:, t] for name in ("stream", "attended", "hidden")}
        # All heads.
        expected |= {name: getattr(ours, name)[:, :, t].flatten(1) for name in ("query", "key", "context")}
        expected["weights"] = ours.weights[:, :, t, : t + 1]
        for name, tensor in expected.items():
            torch.testing.assert_close(torch.tensor(place[name]).float(), tensor, atol=1e-5, rtol=1e-5)


def test_what_is_kept_of_another_text_changes_nothing(engine):
    """The cache holds tokens for the tables' sake: it must forget those behind what is kept."""
    page = engine(pack(modern(ALL), SNOWMAN))
    kept, fresh = page.evaluate(
        """(texts) => {
          const reader = new ours.Reader(ours.model);
          const last = (reader) => Array.from(reader.places.at(-1).logits);
          const kept = texts.map((text) => (reader.reread(text), last(reader)));
          const fresh = texts.map((text) => {
            const other = new ours.Reader(ours.model);
            other.reread(text);
            return last(other);
          });
          return [kept, fresh];
        }""",
        [
            [1, 2, 3, 4, 5, 6],
            [1, 2, 3, 7],
            [1, 2],
            [0, 0, 0],
            [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5],
        ],
    )
    assert kept == fresh


def test_a_head_switched_off_is_one_whose_columns_of_out_proj_are_zero(engine):
    packed = LAST
    model, tokenizer, _ = unpack(packed)
    page = engine(packed)
    tokens = [tokenizer.encode(text) for text in texts(tokenizer.characters, 64, 20)]
    D = model.config.n_embd // 4
    with torch.no_grad():
        model.blocks[2].attention.out_proj.weight[:, D : 2 * D] = 0
    assert farthest(page, model, tokens) > 0.1
    page.evaluate("ours.model.off.add(2 * 4 + 1)")
    assert farthest(page, model, tokens) < 1e-4


def test_full_windows_refill_as_in_python_and_kept_places_are_not_computed(engine):
    page = engine(LAST)
    moves = page.evaluate(
        """() => {
          const reader = new ours.Reader(ours.model), read = (text) => reader.reread(ours.model.encode(text));
          const counts = [read("to be or not to be"), read("to be or not to see"), read("to be")];
          while (reader.window.length < 128) counts.push(reader.write(5));
          counts.push(reader.write(5), reader.window.length, reader.write(5));
          return counts;
        }"""
    )
    assert moves[:3] == [18, 3, 0] and set(moves[3:-3]) == {1} and moves[-3:] == [64, 64, 1]


def test_filters_are_those_of_sampling(engine):
    page = engine(LAST)
    torch.manual_seed(1)
    for temperature, top_k, top_p in (
        (1.0, 65, 1.0),
        (0.5, 5, 1.0),
        (1.7, 65, 0.6),
        (0.8, 12, 0.9),
        (1.0, 1, 0.05),
    ):
        logits = torch.randn(65).mul(3).double()
        settings = {"temperature": temperature, "topK": top_k, "topP": top_p}
        found = page.evaluate(
            "([l, s]) => Array.from(ours.probabilities(l, s))",  # a plain array sorts as text
            [logits.tolist(), settings],
        )
        expected = filter_logits(logits, temperature, top_k, top_p).softmax(-1)
        torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected)


# ---------------------------------------------------------------- the faults of the room "Break it"
LINE = "But, soft! what light through yonder window breaks? It is the east, and Juliet is the sun."
BROKEN = """([name, text, count]) => {
  const fault = ours.FAULTS.find((fault) => fault.name === name), start = ours.model.encode(text);
  const reader = new ours.BrokenReader(ours.model, fault), dice = ours.random(7);
  const loss = reader.loss(start), written = [];
  while (written.length < count) {
    written.push(reader.draw(dice));
    reader.write(written.at(-1));
  }
  return { loss, text: ours.model.decode(written) };
}"""


def test_a_fault_changes_what_it_should_and_nothing_else(engine):
    """Which faults are seen in the loss, and which in the text: that is what the room is about."""
    page = engine(LAST)
    names = page.evaluate("ours.FAULTS.map((fault) => fault.name)")
    healthy, *broken = [page.evaluate(BROKEN, [name, LINE, 60]) for name in ("", *names)]
    seen = [
        (
            each["loss"] > healthy["loss"] + 0.2,
            each["loss"] == healthy["loss"],
            each["text"] == healthy["text"],
        )
        for each in broken
    ]
    only_text, only_loss, both = (False, True, False), (True, False, True), (True, False, False)
    visitor = (False, False, False)  # a little of each, and neither is worse
    assert seen == [only_text, only_text, visitor, only_loss, both, both]


@pytest.mark.parametrize(
    "name",
    ["Heads joined in the wrong order", "Scores that are too large", "The place jumps ahead"],
    ids=["heads", "root", "place"],
)
@torch.no_grad()
def test_a_broken_model_is_broken_as_in_python(engine, name, monkeypatch):
    packed = LAST
    model, tokenizer, _ = unpack(packed)
    tokens, P = tokenizer.encode("O Romeo, Romeo! wherefore art thou Romeo? Deny thy father"), 25
    places = torch.arange(len(tokens))
    if name.startswith("Heads"):
        monkeypatch.setattr(MultiHeadAttention, "join_heads", lambda self, x: x.reshape(len(x), x.shape[2], -1))
    elif name.startswith("Scores"):
        for block in model.blocks:
            block.attention.W_query.weight.mul_(math.sqrt(model.config.n_embd / model.config.n_head))
    else:  # P - 1, P, 2 P, 2 P + 1, … as far as there are places
        places = torch.where(places > P, places + P - 1, places).clamp(max=model.config.context_length - 1)
    x = model.token_embedding(tokens) + model.position_embedding(places)
    expected = model.logits(model.through_blocks(x[None]))[0]
    found = engine(packed).evaluate(
        """([name, tokens, P]) => {
          const reader = new ours.BrokenReader(ours.model, ours.FAULTS.find((fault) => fault.name === name));
          reader.reread(tokens.slice(0, P));
          for (const token of tokens.slice(P)) reader.write(token);
          return reader.places.map(({ logits }) => Array.from(logits));
        }""",
        [name, tokens.tolist(), P],
    )
    torch.testing.assert_close(torch.tensor(found), expected, atol=1e-4, rtol=0)


# ---------------------------------------------------------------- where it is mounted


def test_it_is_mounted_twice_and_removed(engine):
    """As in JupyterLab, where a cell may run again; the bytes begin inside a buffer."""
    page = engine(LAST)
    page.evaluate(IMPORT, {"source": host.front_end("play"), "packed": base64.b64encode(LAST).decode()})
    counts = page.evaluate(
        """() => {
          const { mount, packed } = ours;
          const padded = new Uint8Array(packed.length + 3);
          padded.set(packed, 3);
          const before = document.body.innerHTML, all = () => document.querySelectorAll(".explore-play").length;
          const removers = [1, 2].map(() => mount(document.body, { model: new DataView(padded.buffer, 3) }));
          const found = [all(), document.querySelectorAll("[id], .explore-verse").length];
          removers.forEach((remove) => remove());
          return [...found, all(), document.body.innerHTML === before];
        }"""
    )
    assert counts == [2, 0, 0, True]
