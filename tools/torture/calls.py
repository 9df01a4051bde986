"""Calls of the functions that notebooks use, with good and bad values: a good call works, a bad one gets one sentence.

The table is the oracle: what stands in the first column of a parameter must work, what stands in the second must not.
"""

import math
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from torch import nn

from helpers.core.attention import MultiHeadAttention
from helpers.core.data import CharTokenizer, get_batch, split
from helpers.core.gpt import GPT, GPTConfig
from helpers.core.optim import TrainConfig, learning_rate
from helpers.core.sampling import filter_logits, generate
from helpers.core.training import evaluate
from helpers.runs.presets import choose_preset
from helpers.runs.train import record_steps, train
from helpers.support.errors import HelpersError, TrainingError
from helpers.world.book import CausalAttention, MultiHeadAttentionWrapper, SelfAttention
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group

V = 7
NO_NUMBER = [None, "3", "", b"3", [3], (3,), {}, 1j, math.nan, torch.tensor([3, 4]), object(), print]
COUNT = ([1, 2, 4], [0, -1, 2.0, 2.5, True, False, math.inf, 10**30, -(10**30), *NO_NUMBER])
WHOLE = ([0, 1, 5], [-1, 2.0, True, math.inf, 10**30, *NO_NUMBER])
SHARE = ([0.0, 0, 0.1, 0.5], [1.0, 1, -0.1, 2, True, math.inf, -math.inf, *NO_NUMBER])
POSITIVE = ([0.1, 1, 1e-4, 3.0], [0, 0.0, -1, -0.5, True, math.inf, -math.inf, *NO_NUMBER])
NOT_NEGATIVE = ([0.0, 0, 0.1], [-0.1, -1, True, math.inf, -math.inf, *NO_NUMBER])
FLAG = ([True, False], [None, 0, 1, 2.0, "yes", "", [], math.nan])
NO_TENSOR = [None, 3, "abc", [1, 2, 3], (), b"abc", {}, math.nan, print]


class Broken(nn.Module):
    """A model that gives NaN, infinite or no logits, or fails."""

    def __init__(self, how: str):
        super().__init__()
        self.how, self.config, self.dropout = how, small_config(), nn.Dropout(0.1)

    def forward(self, tokens: torch.Tensor):
        logits = torch.zeros(*tokens.shape, V)
        if self.how == "raises":
            raise ArithmeticError("boom")
        return logits + {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[self.how]


def small_config(**changes: object) -> GPTConfig:
    return GPTConfig(**{**dict(vocab_size=V, context_length=8, n_layer=1, n_head=2, n_embd=8, dropout=0.1), **changes})


def quick(**changes: object) -> TrainConfig:
    return TrainConfig(**{**dict(batch_size=2, max_steps=2, eval_interval=1, warmup_steps=1), **changes})


def _model() -> GPT:
    return GPT(small_config())


def _tokens(length: int = 100, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(V, (length,), generator=torch.Generator().manual_seed(length)).to(dtype)


# Values with a state are made anew for each call: a function of no argument, called when the case begins.
class Make:
    def __init__(self, make: Callable[[], object], name: str):
        self.make, self.name = make, name

    def __repr__(self) -> str:
        return self.name


def made(make: Callable[[], object], name: str) -> Make:
    return Make(make, name)


MODEL = ([made(_model, "a GPT")], [None, 3, "model", print, [], made(lambda: nn.Linear, "the class Linear"), {}])
KINDS = (torch.uint8, torch.int16, torch.int32, torch.int64)
GOOD_TOKENS = [made(lambda kind=kind: _tokens(dtype=kind), f"tokens {kind}") for kind in KINDS]
TABLE = made(lambda: _tokens().view(10, 10), "tokens in two dimensions")  # a batch, where one is asked for
BAD_TOKENS = [
    *NO_TENSOR,
    made(lambda: _tokens().float(), "float tokens"),
    made(lambda: _tokens().bool(), "bool tokens"),
    made(lambda: _tokens().to(torch.complex64), "complex tokens"),
    TABLE,
    made(lambda: torch.tensor(3), "a tensor without dimension"),
    made(lambda: _tokens(0), "no tokens"),
    made(lambda: _tokens(1), "one token"),
]
OUTSIDE = [
    made(lambda: _tokens() + V, "ids too large"),
    made(lambda: _tokens() - 1, "a negative id"),
    made(lambda: _tokens() + 2**40, "ids beyond 32 bits"),
]
TOKENS = (GOOD_TOKENS, BAD_TOKENS)
MODEL_TOKENS = (GOOD_TOKENS, [*BAD_TOKENS, *OUTSIDE])
GENERATOR = ([None, made(lambda: torch.Generator().manual_seed(1), "a generator")], [3, "x", True, torch.Generator, []])
PROMPT = (
    [made(lambda: _tokens(3), "a prompt of 3"), made(lambda: _tokens(20), "a prompt of 20"), TABLE],
    [*(bad for bad in BAD_TOKENS[:-1] if bad is not TABLE), *OUTSIDE],
)
LOGITS = (
    [made(lambda: torch.randn(V), "logits (V)"), made(lambda: torch.randn(2, 3, V), "logits (2, 3, V)"),
     made(lambda: torch.tensor([0.0, -math.inf, 1.0]), "some -inf")],
    [*NO_TENSOR, made(lambda: torch.zeros(0), "no logits"), made(lambda: torch.full((V,), math.nan), "NaN logits"),
     made(lambda: torch.full((V,), -math.inf), "only -inf"), made(lambda: torch.full((V,), math.inf), "only inf"),
     made(lambda: torch.tensor([0.0, math.nan]), "a NaN"), made(lambda: torch.tensor([0.0, math.inf]), "an inf"),
     made(lambda: torch.arange(V), "whole logits"), made(lambda: torch.zeros(V).bool(), "bool logits"),
     made(lambda: torch.zeros(V) + 0j, "complex logits"), made(lambda: torch.tensor(1.0), "one number")],
)  # fmt: skip
DEVICE = (
    ["cpu", "auto"],
    ["gpu", "", "CPU ", "cuda:x", "cpu:-1", "meta", "mps:9", "cuda:99", None, 3, True, [], math.nan],
)
TEMPERATURE = ([0.5, 1, 2.0], [0, -1, 1e-9, True, math.inf, *NO_NUMBER])
TOP_K = ([None, 1, 3, 100], [0, -1, 2.0, True, 10**30, *NO_NUMBER[1:]])
TOP_P = ([None, 0.1, 1.0, 1], [0, 0.0, 1.1, -1, True, math.inf, *NO_NUMBER[1:]])
HEADS = dict(d_in=COUNT, d_out=([4, 8], COUNT[1]), qkv_bias=FLAG)
CAUSAL = dict(HEADS, context_length=COUNT, dropout=SHARE)
ALPHABET = "\n abcde"

BROKEN = ("nan", "inf", "-inf", "raises")
SEED = ([0, 1, 2**63 - 1], [2**63, 2**64, -1, 1.0, True, *NO_NUMBER])
NO_BETAS = [
    None,
    0.9,
    (0.9,),
    (0.9, 1.0),
    (-0.1, 0.9),
    (0.9, math.nan),
    ("a", "b"),
    (True, False),
    (0.9,) * 3,
    {},
    "ab",
]
NO_JSON = [
    "",
    "{",
    "[]",
    "null",
    '{"characters": 3}',
    '{"characters": "aa"}',
    '{"characters": ["a"]}',
    None,
    "[" * 10**5,
]
CONFIG = made(quick, "a TrainConfig")
TOKENIZER = made(lambda: CharTokenizer(ALPHABET), "a tokenizer")

# function -> parameter -> (values that must work, values that must be refused)
TABLE: dict[str, tuple[Callable, dict[str, tuple[list, list]]]] = {
    "GPTConfig": (GPTConfig, dict(
        vocab_size=COUNT, context_length=COUNT, n_layer=([1, 2], [*COUNT[1], 10**7]), n_head=([1, 2], [3, *COUNT[1]]),
        n_embd=([4, 8], [5, *COUNT[1]]), dropout=SHARE, bias=FLAG)),
    "TrainConfig": (TrainConfig, dict(
        batch_size=COUNT, max_steps=COUNT, eval_interval=COUNT, learning_rate=POSITIVE, min_learning_rate=NOT_NEGATIVE,
        warmup_steps=WHOLE, betas=([(0.9, 0.99), (0.0, 0.5)], NO_BETAS), weight_decay=NOT_NEGATIVE,
        grad_clip=([0.5, 1, 1.0], [-1, -0.1, True, math.nan, "1", None, []]), bfloat16=FLAG, compile=FLAG, seed=SEED,
        device=DEVICE)),
    "GPT": (GPT, dict(config=([made(small_config, "a GPTConfig")], [None, 3, "x", {}, print, CONFIG]))),
    "get_batch": (get_batch, dict(
        tokens=TOKENS, batch_size=COUNT, context_length=([1, 8, 50], [100, 101, *COUNT[1]]), generator=GENERATOR)),
    "split": (split, dict(tokens=TOKENS, context_length=([1, 8, 9], [10, 100, *COUNT[1]]))),
    "evaluate": (evaluate, dict(
        model=MODEL, tokens=MODEL_TOKENS, context_length=([1, 3, 8], [9, 1000, *COUNT[1]]))),
    "filter_logits": (filter_logits, dict(logits=LOGITS, temperature=TEMPERATURE, top_k=TOP_K, top_p=TOP_P)),
    "generate": (generate, dict(
        model=MODEL, prompt=PROMPT, max_new_tokens=([0, 1, 12], WHOLE[1]), temperature=TEMPERATURE, top_k=TOP_K,
        top_p=TOP_P, generator=GENERATOR, use_cache=FLAG)),
    "generate with a broken model": (generate, dict(
        model=([], [made(lambda how=how: Broken(how), f"a model of {how}") for how in BROKEN]),
        prompt=([made(lambda: _tokens(3), "a prompt")], []), max_new_tokens=([1, 3], []))),
    "evaluate a broken model": (evaluate, dict(
        model=([made(lambda: Broken("nan"), "a model of nan")], [made(lambda: Broken("raises"), "a model of raises")]),
        tokens=([made(_tokens, "tokens")], []), context_length=([8], []))),
    "SelfAttention": (SelfAttention, HEADS),
    "CausalAttention": (CausalAttention, CAUSAL),
    "MultiHeadAttentionWrapper": (MultiHeadAttentionWrapper, dict(CAUSAL, num_heads=COUNT)),
    "MultiHeadAttention": (MultiHeadAttention, dict(CAUSAL, num_heads=([1, 2, 4], [3, 16, *COUNT[1]]), out_bias=FLAG)),
    "choose_preset": (choose_preset, dict(
        name=(["smoke", "laptop", "gpu"], ["", "Smoke", "smoke ", None, 3, True, [], ["smoke"], {}, b"smoke"]),
        max_steps=([None, 1, 50], [0, -1, 2.0, True, 10**30, math.inf, *NO_NUMBER[1:]]), seed=SEED, device=DEVICE)),
    "CharTokenizer": (CharTokenizer, dict(
        characters=(["ab", "\n abc", "é中\U0001f600"], ["", "aa", None, 3, ["a", "b"], b"ab", {"a": 1}, True]))),
    "CharTokenizer.from_text": (CharTokenizer.from_text, dict(
        text=(["abca", "\n"], ["", None, 3, b"ab", ["a", "b"], True]))),
    "CharTokenizer.from_json": (CharTokenizer.from_json, dict(text=(['{"characters": "ab"}'], NO_JSON))),
    "encode": (CharTokenizer(ALPHABET).encode, dict(
        text=(["abc", "", "\n a"], ["x", "abcx", None, 3, b"abc", ["a", "b"], True, "\ud800"]))),
    "decode": (CharTokenizer(ALPHABET).decode, dict(ids=([[0, 1], [], made(lambda: _tokens(5), "tokens")], [
        [V], [-1], [0.5], ["a"], [None], None, 3, "ab", made(lambda: torch.zeros(3), "floats"),
        made(lambda: torch.zeros(2, 2).long(), "two dimensions"), [10**30]]))),
    "learning_rate": (learning_rate, dict(step=([0, 1, 2], []), config=([CONFIG], []))),
    "record_steps": (record_steps, dict(
        config=([made(lambda: quick(max_steps=10**9, eval_interval=10**6), "a billion steps"), CONFIG], []))),
    "train": (train, dict(
        model=(MODEL[0], [None, 3, "model", made(lambda: nn.Linear(2, 2), "a Linear"),
                          made(lambda: Broken("nan"), "a model of nan")]),
        train_tokens=MODEL_TOKENS, val_tokens=MODEL_TOKENS,
        config=([CONFIG, made(lambda: quick(grad_clip=0.5), "clipped")],
                [None, {}, 3, made(small_config, "a GPTConfig"), TrainConfig]),
        out_dir=([None, "RUN"], [3, True, b"run", [], "", "/dev/null/run", "a\0b"]),
        resume=([False], [True, None, "yes", 1]), overwrite=([False], [None, "yes", 1]),
        on_record=([None, made(lambda: lambda model, record: model.eval(), "a function")], [3, "print", True]),
        tokenizer=([None, TOKENIZER], [3, "ab", made(lambda: CharTokenizer("ab"), "another tokenizer")]),
        optimizer=([None], [3, "adam", torch.optim.AdamW]))),
}  # fmt: skip


MOST_USED = ("TrainConfig", "generate", "train", "GPTConfig", "evaluate")


def _value(entry: object, folder: Path) -> object:
    return entry.make() if isinstance(entry, Make) else str(folder / "run") if entry == "RUN" else entry


def _shown(entry: object) -> str:
    shown = ascii(entry)
    return shown if len(shown) < 70 else f"{shown[:60]}..."


@group("API calls", count=500, quick=60, seconds=20)
def api_calls(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    names = list(TABLE)
    name = names[k % len(names)] if k % 3 else random.choice(MOST_USED)
    function, parameters = TABLE[name]
    spoilable = [parameter for parameter, (_, wrong) in parameters.items() if wrong]
    must = [parameter for parameter, (right, _) in parameters.items() if not right]
    spoilt = set(must) or set(random.sample(spoilable, min(len(spoilable), random.choice((0, 1, 1, 1, 1)))))
    chosen = {parameter: random.choice(values[parameter in spoilt]) for parameter, values in parameters.items()}
    mode = random.choice(("train", "eval", "mixed"))
    shown = [f"{parameter}={_shown(value)}" for parameter, value in chosen.items() if parameter in (spoilt or chosen)]
    return f"{name}({', '.join(shown)})", lambda: _call(name, function, chosen, bool(spoilt), mode, folder)


def _call(name: str, function: Callable, chosen: dict, spoilt: bool, mode: str, folder: Path) -> str:
    arguments = {parameter: _value(entry, folder) for parameter, entry in chosen.items()}
    model = arguments.get("model")
    modes = None
    if isinstance(model, nn.Module):
        model.train(mode != "eval")
        if mode == "mixed" and hasattr(model, "dropout"):
            model.dropout.eval()
        modes = [module.training for module in model.modules()]
    positional = [arguments.pop("ids")] if name == "decode" else []
    before = torch.get_rng_state()
    try:
        function(*positional, **arguments)
        verdict = bad("accepted") if spoilt else RIGHT
    except HelpersError as error:
        verdict = REFUSED if spoilt else bad(f"a good call is refused: {error}")
        if "\n" in str(error) or not str(error) or len(str(error)) > 1000:
            verdict = bad(f"not one sentence: {error}")
        early = not isinstance(error, TrainingError) and "broken" not in name  # before anything was drawn
        if early and not torch.equal(before, torch.get_rng_state()):
            verdict = bad(f"refused, but the global generator has moved: {error}")
    except ArithmeticError as error:
        verdict = RIGHT if str(error) == "boom" else bad(f"ArithmeticError: {error}")  # the model's own
    except Exception as error:
        verdict = bad(f"{type(error).__name__}: {error}")
    if modes is not None and name != "train" and modes != [module.training for module in model.modules()]:
        return bad(f"the model is left in another mode ({verdict})")
    return verdict
