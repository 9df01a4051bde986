"""Calls of the functions that notebooks use, with good and bad values.

At a door a bad value gets one sentence. Behind the doors PyTorch speaks for itself: a bad value may raise anything or
do no harm, and only a wrong result in silence is bad. Tables say which values are good, oracles which results.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from helpers.core.attention import KVCache, MultiHeadAttention, attention, causal_mask
from helpers.core.counted import build_gpt
from helpers.core.data import CharTokenizer, get_batch, split
from helpers.core.gpt import GPT, GPTConfig
from helpers.core.modern import ModernConfig
from helpers.core.optim import TrainConfig, make_optimizer
from helpers.core.sampling import Drawing, filter_logits, generate
from helpers.core.training import evaluate, updates
from helpers.runs.presets import choose_preset
from helpers.runs.state import Facts
from helpers.runs.train import record_steps, train
from helpers.support.errors import HelpersError, TrainingError
from helpers.support.modes import evaluating
from helpers.world.book import CausalAttention, MultiHeadAttentionWrapper
from helpers.world.corpus import load_corpus
from helpers.world.decoding import beam_search
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group

V, T = 7, 8  # vocabulary and context of the small models
ALPHABET = "\n abcde"


# ---------------------------------------------------------------- values
class Make:
    """A value with a state: it is made anew for each call, when the case begins."""

    def __init__(self, make: Callable[[], object], name: str):
        self.make = make
        self.name = name

    def __repr__(self) -> str:
        return self.name


def small_config(**changes: object) -> GPTConfig:
    sizes = dict(vocab_size=V, context_length=T, n_layer=1, n_head=2, n_embd=8, dropout=0.1)
    return GPTConfig(**{**sizes, **changes})


def quick(**changes: object) -> TrainConfig:
    return TrainConfig(**{**dict(batch_size=2, max_steps=2, eval_interval=1, warmup_steps=1), **changes})


def some_tokens(length: int = 100, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(V, (length,), generator=torch.Generator().manual_seed(length)).to(dtype)


class Broken(nn.Module):
    """A model that gives NaN, infinite or no logits, or fails."""

    def __init__(self, how: str):
        super().__init__()
        self.how = how
        self.config = small_config()
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, V)
        if self.how == "raises":
            raise ArithmeticError("boom")
        return logits + {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[self.how]


def diverged() -> GPT:
    model = GPT(small_config())
    nn.init.constant_(model.norm.weight, math.nan)
    return model


NO_NUMBER = [None, "3", "", b"3", [3], (3,), {}, 1j, math.nan, torch.tensor([3, 4]), object(), print]
COUNT = ([1, 2, 4], [0, -1, 2.0, 2.5, True, False, math.inf, 10**30, -(10**30), *NO_NUMBER])
WHOLE = ([0, 1, 5], [-1, 2.0, True, math.inf, 10**30, *NO_NUMBER])
SHARE = ([0.0, 0, 0.1, 0.5], [1.0, 1, -0.1, 2, True, math.inf, -math.inf, *NO_NUMBER])
POSITIVE = ([0.1, 1, 1e-4, 3.0], [0, 0.0, -1, -0.5, True, math.inf, -math.inf, *NO_NUMBER])
NOT_NEGATIVE = ([0.0, 0, 0.1], [-0.1, -1, True, math.inf, -math.inf, *NO_NUMBER])
OPTIONAL = ([None, 1, 2], [0, -1, 2.0, True, 10**30, *NO_NUMBER[1:]])
FLAG = ([True, False], [None, 0, 1, 2.0, "yes", "", [], math.nan])
SEED = ([0, 1, 2**63 - 1], [2**63, 2**64, -1, 1.0, True, *NO_NUMBER])
DEVICE = (
    ["cpu", "auto"],
    ["gpu", "", "CPU ", "cuda:x", "cpu:-1", "meta", "mps:9", "cuda:99", None, 3, True, [], math.nan],
)
TEMPERATURE = ([0.5, 1, 2.0], [0, -1, 1e-9, True, math.inf, *NO_NUMBER])
TOP_K = ([None, 1, 3, 100], OPTIONAL[1])
TOP_P = ([None, 0.1, 1.0, 1], [0, 0.0, 1.1, -1, True, math.inf, *NO_NUMBER[1:]])
BETAS = (
    [(0.9, 0.99), (0.0, 0.5)],
    [None, 0.9, (0.9,), (0.9, 1.0), (-0.1, 0.9), (0.9, math.nan), ("a", "b"), (True, False), (0.9,) * 3, {}, "ab"],
)
WINDOWS = (
    [(), ((0.5, 4),), ((0.2, 2), (1, 8))],
    [None, 4, (4,), ((0.5,),), ((0.5, 0),), ((0, 4),), ((1.5, 4),), ((0.5, 4.0),), [(0.5, 4)], "ab"],
)
NO_JSON = ["", "{", "[]", "null", '{"characters": 3}', '{"characters": "aa"}', '{"characters": ["a"]}', None,
           "[" * 10**5]  # fmt: skip

NO_TENSOR = [None, 3, "abc", [1, 2, 3], (), b"abc", {}, math.nan, print]
KINDS = (torch.uint8, torch.int16, torch.int32, torch.int64)
TOKENS = [Make(lambda kind=kind: some_tokens(dtype=kind), f"tokens {kind}") for kind in KINDS]
ROWS = Make(lambda: some_tokens().view(10, 10), "tokens in two dimensions")
OUTSIDE = [
    Make(lambda: some_tokens() + V, "ids too large"),
    Make(lambda: some_tokens() - 1, "a negative id"),
    Make(lambda: some_tokens() + 2**40, "ids beyond 32 bits"),
]
TOO_FEW = [Make(lambda: some_tokens(0), "no tokens"), Make(lambda: some_tokens(1), "one token")]
ODD_TOKENS = [
    *NO_TENSOR,
    *TOO_FEW,
    ROWS,
    Make(lambda: some_tokens().float(), "float tokens"),
    Make(lambda: some_tokens().bool(), "bool tokens"),
    Make(lambda: some_tokens().to(torch.complex64), "complex tokens"),
    Make(lambda: torch.tensor(3), "a tensor without dimension"),
]
PROMPTS = [Make(lambda: some_tokens(3), "a prompt of 3"), Make(lambda: some_tokens(20), "a prompt of 20"), ROWS]
LOGITS = [
    Make(lambda: torch.randn(V), "logits (V)"),
    Make(lambda: torch.randn(2, 3, V), "logits (2, 3, V)"),
    Make(lambda: torch.tensor([0.0, -math.inf, 1.0]), "some -inf"),
]
ODD_LOGITS = [
    *NO_TENSOR,
    Make(lambda: torch.zeros(0), "no logits"),
    Make(lambda: torch.full((V,), math.nan), "NaN logits"),
    Make(lambda: torch.full((V,), -math.inf), "only -inf"),
    Make(lambda: torch.tensor([0.0, math.nan]), "a NaN"),
    Make(lambda: torch.tensor([0.0, math.inf]), "an inf"),
    Make(lambda: torch.arange(V), "whole logits"),
    Make(lambda: torch.tensor(1.0), "one number"),
]
MODEL = [Make(lambda: GPT(small_config()), "a GPT")]
NO_MODEL = [None, 3, "model", print, [], {}, Make(lambda: nn.Linear, "the class Linear")]
DIVERGED = [Make(lambda how=how: Broken(how), f"a model of {how}") for how in ("nan", "inf", "-inf", "raises")]
GENERATOR = ([None, Make(lambda: torch.Generator().manual_seed(1), "a generator")], [3, "x", True, torch.Generator, []])
CONFIG = [Make(quick, "a TrainConfig"), Make(lambda: quick(grad_clip=0.5, optimizer="muon"), "a TrainConfig of Muon's")]
FACTS = [None, Make(lambda: Facts(CharTokenizer(ALPHABET)), "facts")]
HEADS = ([1, 2, 4], [0, -1, 2.0, 3, 16, False, *NO_NUMBER])
LAYER = dict(d_in=COUNT, d_out=([4, 8], COUNT[1]), context_length=COUNT, dropout=SHARE, qkv_bias=FLAG)


# ---------------------------------------------------------------- the tables
@dataclass(frozen=True)
class Call:
    """A function, and for each of its parameters the values that must work and those that must not."""

    function: Callable
    parameters: dict[str, tuple[list, list]]
    right: Callable[[Any, dict[str, Any]], bool] | None = (
        None  # what a function behind the doors may give; a door: None
    )


SIZES = dict(
    vocab_size=COUNT, context_length=COUNT, n_layer=([1, 2], [*COUNT[1], 10**7]), n_head=([1, 2], [3, *COUNT[1]]),
    n_embd=([4, 8], [5, *COUNT[1]]), dropout=SHARE, bias=FLAG)  # fmt: skip
CHANGES = dict(
    rotary=FLAG, rms_norm=FLAG, mlp=(["gelu", "relu2", "swiglu"], ["relu", "", None, 3, True]), mlp_width=OPTIONAL,
    qk_norm=FLAG, n_kv_head=([None, 1], OPTIONAL[1]), window=OPTIONAL, tied=FLAG, softcap=NOT_NEGATIVE, zero_start=FLAG,
    bigrams=WHOLE, trigrams=WHOLE, fourgrams=WHOLE, before=([0, 1, 16], [17, *WHOLE[1]]))  # fmt: skip

DOORS = {
    "GPTConfig": Call(GPTConfig, SIZES),
    "ModernConfig": Call(ModernConfig, SIZES | CHANGES),
    "TrainConfig": Call(TrainConfig, dict(
        batch_size=COUNT, max_steps=COUNT, eval_interval=COUNT, learning_rate=([0.1, 1, 3.0], POSITIVE[1]),
        min_learning_rate=NOT_NEGATIVE, warmup_steps=WHOLE, schedule=(["cosine", "stable"], ["linear", "", None, 1]),
        decay=([0.1, 1], [1.5, *POSITIVE[1]]), optimizer=(["adamw", "muon"], ["sgd", "", None, True]), betas=BETAS,
        weight_decay=NOT_NEGATIVE, muon_scale=POSITIVE, muon_momentum=SHARE, grad_clip=POSITIVE, windows=WINDOWS,
        bfloat16=FLAG, bfloat16_cpu=FLAG, compile=FLAG, seed=SEED, device=DEVICE)),
    "Drawing": Call(Drawing, dict(temperature=TEMPERATURE, top_k=TOP_K, top_p=TOP_P)),
    "choose_preset": Call(choose_preset, dict(
        name=(["smoke", "laptop", "gpu", "speedrun"],
              ["", "Smoke", "smoke ", None, 3, True, [], ["smoke"], {}, b"smoke"]),
        max_steps=([None, 1, 50], [0, -1, 2.0, True, 10**30, math.inf, *NO_NUMBER[1:]]), seed=SEED, device=DEVICE)),
    "CharTokenizer": Call(CharTokenizer, dict(
        characters=(["ab", "\n abc", "é中\U0001f600"], ["", "aa", None, 3, ["a", "b"], b"ab", {"a": 1}, True]))),
    "CharTokenizer.from_json": Call(CharTokenizer.from_json, dict(text=(['{"characters": "ab"}'], NO_JSON))),
    "encode": Call(CharTokenizer(ALPHABET).encode, dict(text=(["abc", "", "\n a"], ["x", "abcx", "\ud800"]))),
    "decode": Call(CharTokenizer(ALPHABET).decode, dict(
        ids=([[0, 1], [], Make(lambda: some_tokens(5), "tokens")], [[V], [-1], [10**30]]))),
    "load_corpus": Call(load_corpus, dict(
        path=(["TEXT"], [3, True, b"text", [], "", ".", "nowhere.txt", "a\0b", "~nobody-here/x", "https://x.org/a"]))),
    "train": Call(train, dict(
        model=(MODEL, [Make(diverged, "a diverged GPT"), Make(lambda: GPT(small_config()).half(), "a GPT in half")]),
        train_tokens=(TOKENS, [*TOO_FEW, *OUTSIDE]), val_tokens=(TOKENS, [*TOO_FEW, *OUTSIDE]), config=(CONFIG, []),
        out_dir=([None, "RUN"], ["/dev/null/run", "a\0b"]), resume=([False], [True]),
        on_record=([None, Make(lambda: lambda model, record: model.eval(), "a function")], []),
        facts=(FACTS, [Make(lambda: Facts(CharTokenizer("ab")), "facts of another tokenizer")]))),
}  # fmt: skip


# ---------------------------------------------------------------- oracles
def is_batch(batch: tuple[Tensor, Tensor], given: dict[str, Any]) -> bool:
    """Windows of the text and the same ones later, as many and as long as asked for; of less than nothing, none."""
    x, y = batch
    text = [int(token) for token in given["tokens"]]
    asked = (max(0, given["batch_size"]), max(0, given["context_length"]))
    windows = [row.tolist() + later[-1:].tolist() for row, later in zip(x, y, strict=True)]
    inside = all(any(text[i : i + len(w)] == w for i in range(len(text))) for w in windows)
    return (
        x.dtype == y.dtype == torch.int64
        and x.shape == y.shape == asked
        and inside
        and bool((x[:, 1:] == y[:, :-1]).all())
    )


def is_split(parts: tuple[Tensor, Tensor], given: dict[str, Any]) -> bool:
    train_tokens, val_tokens = parts
    whole = torch.cat(parts).equal(given["tokens"]) and len(train_tokens) == 9 * len(given["tokens"]) // 10
    return whole and min(len(train_tokens), len(val_tokens)) > given["context_length"]


@torch.no_grad()
def is_loss(loss: float, given: dict[str, Any]) -> bool:
    """One token after the other, each with what its window has before it."""
    model, tokens, window = given["model"], given["tokens"].long(), int(given["context_length"])
    total = 0.0
    with evaluating(model):
        for i in range(len(tokens) - 1):
            logits = model(tokens[None, i // window * window : i + 1])[0, -1]
            total -= logits.double().log_softmax(-1)[tokens[i + 1]].item()
    expected = total / (len(tokens) - 1)
    return math.isclose(loss, expected, abs_tol=1e-4) or math.isnan(loss + expected)


def is_filtered(filtered: Tensor, given: dict[str, Any]) -> bool:
    """Cut are the least likely tokens, and what is left is divided by the temperature; NaN shows."""
    if filtered.numel() == 0:
        return given["logits"].numel() == 0
    logits = given["logits"].float()
    if logits.isnan().any() or not logits.amax(dim=-1).isfinite().all():
        return bool(filtered.softmax(dim=-1).isnan().any())
    kept = filtered > -math.inf
    least = filtered.where(kept, math.inf).amin(dim=-1, keepdim=True)
    scaled = logits / given["temperature"]
    unchanged = torch.allclose(filtered[kept], scaled[kept])
    return unchanged and bool((kept | (scaled <= least)).all()) and bool(kept.any(dim=-1).all())


def is_text(text: Tensor, given: dict[str, Any]) -> bool:
    """The prompt, and as many tokens of the vocabulary as asked for; of less than none, none."""
    prompt = given["prompt"]
    start = prompt.shape[-1]
    long_enough = text.shape[-1] == start + max(0, given["max_new_tokens"])
    known = bool(((text >= 0) & (text < V)).all())
    return long_enough and known and text[..., :start].equal(prompt)


def attended(make: Callable[..., nn.Module]) -> Callable[..., tuple[Tensor, Tensor]]:
    """What a layer makes of as many tokens as its context holds, and what it should: each token alone with its past."""

    def both(**given: Any) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        layer = make(**given).eval()
        x = torch.randn(2, given["context_length"], given["d_in"])
        alone = [layer(x[:, : t + 1])[:, -1:] for t in range(x.shape[1])]
        return layer(x), torch.cat(alone, dim=1) if alone else x[:, :, :0]

    return both


def are_equal(both: tuple[Tensor, Tensor], given: dict[str, Any]) -> bool:
    return both[0].numel() == both[1].numel() == 0 or torch.allclose(*both, atol=1e-5)


def formula(heads: int, T_query: int, mask: Any, dropout_p: Any) -> tuple[Tensor, Tensor]:
    """`attention`, and each of its rows written out."""
    query, key, value = torch.randn(3, heads, 5, 4)
    query = query[:, 5 - T_query :]
    context, _ = attention(query, key, value, mask, dropout_p)
    allowed = torch.ones(T_query, 5).bool() if mask is None else mask.expand(T_query, 5)
    weights = (query @ key.mT / 2).exp() * allowed
    return context, weights / weights.sum(dim=-1, keepdim=True) @ value


def cached(pieces: list[int], rows: list[int]) -> tuple[Tensor, Tensor]:
    """A text through a cache of eight tokens, piece by piece, and at once."""
    torch.manual_seed(0)
    layer, cache = MultiHeadAttention(4, 4, T, 0.0, 2), KVCache(T)
    x = torch.randn(3, sum(pieces), 4)
    found = []
    for piece, B in zip(x.split(pieces, dim=1), rows, strict=True):
        found.append(layer(piece[:B], cache=cache))
    return torch.cat(found, dim=1), layer(x[: rows[0]])


def trained(config: TrainConfig, tokens: Tensor, todays: bool) -> list[float]:
    config_of_model = ModernConfig(V, T, 1, 2, 8, bigrams=20, before=1) if todays else small_config()
    model = build_gpt(config_of_model)
    return list(updates(model, tokens, config, make_optimizer(model, config), torch.Generator().manual_seed(1)))


def are_losses(losses: list[float], given: dict[str, Any]) -> bool:
    return len(losses) == given["config"].max_steps and all(0 < loss < 5 for loss in losses)


def never(result: Any, given: dict[str, Any]) -> bool:
    return False


MASKS = [None, Make(lambda: causal_mask(5)[-3:], "a causal mask"), Make(lambda: torch.ones(5).bool(), "all")]
ODD_MASKS = [
    Make(lambda: causal_mask(5)[-3:].float(), "a mask of floats"),
    Make(lambda: causal_mask(5)[-3:].long(), "a mask of whole numbers"),
    Make(lambda: causal_mask(4), "a mask of other sizes"),
    "causal",
    True,
]
NEW = ([0, 1, 12], [-1, 2.0, True, math.inf, *NO_NUMBER])
WRITTEN = dict(max_new_tokens=([1, 3], []), prompt=(PROMPTS[:1], []))

CORE = {
    "get_batch": Call(get_batch, dict(
        tokens=(TOKENS, ODD_TOKENS), batch_size=COUNT, context_length=([1, 8, 50], [100, 101, *COUNT[1]]),
        generator=GENERATOR), is_batch),
    "split": Call(split, dict(tokens=(TOKENS, ODD_TOKENS), context_length=([1, 8, 9], [10, 100, *COUNT[1]])), is_split),
    "CharTokenizer.from_text": Call(CharTokenizer.from_text, dict(
        text=(["abca", "\n"], ["", None, 3, b"ab", ["a", "b"], True])),
        lambda tokenizer, given: tokenizer.characters == "".join(sorted(set(given["text"])))),
    "encode odd texts": Call(CharTokenizer(ALPHABET).encode, dict(text=([], [None, 3, b"abc", ["a"], True])), never),
    "decode odd ids": Call(CharTokenizer(ALPHABET).decode, dict(ids=([], [
        [0.5], ["a"], [None], None, 3, "ab", Make(lambda: torch.zeros(3), "floats"),
        Make(lambda: torch.zeros(2, 2).long(), "two dimensions")])), never),
    "evaluate": Call(evaluate, dict(
        model=(MODEL, [*NO_MODEL, *DIVERGED]), tokens=(TOKENS, [*ODD_TOKENS, *OUTSIDE]),
        context_length=([1, 3, 8], [9, 1000, 0, 2.0, 10**30, *NO_NUMBER])), is_loss),
    "filter_logits": Call(filter_logits, dict(
        logits=(LOGITS, ODD_LOGITS), temperature=(TEMPERATURE[0], []), top_k=(TOP_K[0], []), top_p=(TOP_P[0], [])),
        is_filtered),
    "generate": Call(generate, dict(
        model=(MODEL, NO_MODEL), prompt=(PROMPTS, [*ODD_TOKENS, *OUTSIDE]), max_new_tokens=NEW,
        temperature=(TEMPERATURE[0], []), top_k=(TOP_K[0], []), generator=GENERATOR, use_cache=FLAG), is_text),
    "generate with a broken model": Call(generate, dict(WRITTEN, model=([], DIVERGED)), never),
    "beam_search with a broken model": Call(beam_search, dict(WRITTEN, model=([], DIVERGED)), never),
    "attention": Call(formula, dict(
        heads=([1, 3], []), T_query=([3], []), mask=(MASKS, ODD_MASKS), dropout_p=([0.0, 0], [2, "0", None, -1.0])),
        are_equal),
    "CausalAttention": Call(attended(CausalAttention), LAYER, are_equal),
    "MultiHeadAttentionWrapper": Call(attended(MultiHeadAttentionWrapper), dict(LAYER, num_heads=HEADS), are_equal),
    "MultiHeadAttention": Call(attended(MultiHeadAttention), dict(LAYER, num_heads=HEADS),
                               are_equal),
    "a cache": Call(cached, dict(
        pieces=([[5, 1, 2], [1, 1, 1], [8, 0, 0]], [[8, 1, 1], [5, 3, 1], [7, 2, 1], [9, 1, 1]]),
        rows=([[1, 1, 1], [3, 3, 3]], [[1, 2, 1], [3, 1, 1], [3, 3, 2]])), are_equal),
    "updates": Call(trained, dict(
        config=(CONFIG, [Make(lambda: quick(windows=((1.0, 9),)), "windows beyond the context")]),
        tokens=(TOKENS, [*ODD_TOKENS, *OUTSIDE]), todays=FLAG), are_losses),
    "record_steps": Call(record_steps, dict(
        config=([Make(lambda: quick(max_steps=10**9, eval_interval=10**6), "a billion steps"), *CONFIG], [])),
        lambda steps, given: steps[0] == 0 and steps[-1] == given["config"].max_steps and len(steps) <= 100_004),
}  # fmt: skip


# ---------------------------------------------------------------- the cases
TABLE = DOORS | CORE
MOST_USED = ("TrainConfig", "ModernConfig", "generate", "train", "evaluate", "updates")


@group("API calls", count=500, quick=60, seconds=20)
def api_calls(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    names = list(TABLE)
    name = names[k % len(names)] if k % 3 else random.choice(MOST_USED)
    call = TABLE[name]
    spoilable = [parameter for parameter, (_, wrong) in call.parameters.items() if wrong]
    must = [parameter for parameter, (right, _) in call.parameters.items() if not right]
    spoilt = set(must) or set(random.sample(spoilable, min(len(spoilable), random.choice((0, 1, 1, 1, 1)))))
    chosen = {parameter: random.choice(values[parameter in spoilt]) for parameter, values in call.parameters.items()}
    mode = random.choice(("train", "eval", "mixed"))
    shown = [f"{parameter}={_shown(value)}" for parameter, value in chosen.items() if parameter in (spoilt or chosen)]
    return f"{name}({', '.join(shown)})", lambda: _attempt(name, chosen, bool(spoilt), mode, folder)


def _value(entry: object, folder: Path) -> object:
    if isinstance(entry, Make):
        return entry.make()
    if entry == "TEXT":
        (folder / "text.txt").write_text("a text of my own")
        return folder / "text.txt"
    return str(folder / "run") if entry == "RUN" else entry


def _shown(entry: object) -> str:
    shown = ascii(entry)
    return shown if len(shown) < 70 else f"{shown[:60]}..."


def _attempt(name: str, chosen: dict, spoilt: bool, mode: str, folder: Path) -> str:
    arguments = {parameter: _value(entry, folder) for parameter, entry in chosen.items()}
    model = arguments.get("model")
    modes = None
    if isinstance(model, nn.Module):
        model.train(mode != "eval")
        if mode == "mixed" and hasattr(model, "dropout"):
            model.dropout.eval()
        modes = [module.training for module in model.modules()]
    verdict = _at_a_door(name, arguments, spoilt) if name in DOORS else _behind_it(name, arguments, spoilt)
    if modes is not None and name != "train" and modes != [module.training for module in model.modules()]:
        return bad(f"the model is left in another mode ({verdict})")
    return verdict


def _at_a_door(name: str, arguments: dict, spoilt: bool) -> str:
    before = torch.get_rng_state()
    try:
        DOORS[name].function(**arguments)
    except HelpersError as error:
        if not spoilt:
            return bad(f"a good call is refused: {error}")
        if "\n" in str(error) or not str(error) or len(str(error)) > 1000:
            return bad(f"not one sentence: {error}")
        late = isinstance(error, TrainingError)  # a loss is no number only after something was drawn
        if not late and not torch.equal(before, torch.get_rng_state()):
            return bad(f"refused, but the global generator has moved: {error}")
        return REFUSED
    except Exception as error:
        return bad(f"{type(error).__name__}: {error}")
    return bad("accepted") if spoilt else RIGHT


def _behind_it(name: str, arguments: dict, spoilt: bool) -> str:
    call = CORE[name]
    try:
        result = call.function(**arguments)
    except Exception as error:  # whatever PyTorch says of it
        return RIGHT if spoilt else bad(f"a good call fails: {type(error).__name__}: {error}")
    try:
        right = call.right(result, arguments)
    except Exception as error:  # the oracle can't make sense of it
        return bad(f"accepted in silence, and the oracle says {type(error).__name__}: {error}")
    return RIGHT if right else bad(f"wrong in silence: {_shown(result)}")
