"""What `python -m tools.bench` measures: seven groups of lines, each of them ours against a rival."""

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from helpers.commands.prepare import prepare
from helpers.core.attention import MultiHeadAttention, attention, causal_mask
from helpers.core.counted import build_gpt
from helpers.core.data import CharTokenizer, get_batch, split
from helpers.core.gpt import GPT
from helpers.core.optim import make_optimizer
from helpers.core.sampling import generate
from helpers.core.training import evaluate, updates
from helpers.runs.presets import PRESETS, Preset
from helpers.scaling import shards
from helpers.world.corpus import Corpus, load_corpus
from helpers.writing.drafting import Counts
from helpers.writing.quick import quick_reader
from tools import bench_rivals as rivals

Seconds = tuple[float, float]  # by the clock on the wall, and of all processors together
COLUMNS = ("unit", "ratio", "low", "high", "cpu_ratio", "seconds", "their_seconds", "rounds", "note")


# ---------------------------------------------------------------- measuring
def clocks() -> Seconds:
    return time.perf_counter(), time.process_time()


def race(
    ours: Callable, theirs: Callable, rounds: int = 5, note: str = "", clock: Callable[[], Seconds] = clocks
) -> dict:
    """Call ours, theirs, ours, theirs, ... and `compare` them; a first round, for caches and imports, doesn't count."""
    taken: tuple[list[Seconds], list[Seconds]] = ([], [])
    for _ in range(1 + rounds):
        for function, times in zip((ours, theirs), taken, strict=True):
            before = clock()
            function()
            after = clock()
            times.append((after[0] - before[0], after[1] - before[1]))
    return compare(taken[0][1:], taken[1][1:], note)


def compare(ours: Sequence[Seconds], theirs: Sequence[Seconds], note: str = "") -> dict:
    """The ratio of medians, with the range of the rounds' own ratios, in which it lies; and that of processor times."""
    (wall, cpu), (their_wall, their_cpu) = (list(map(median, zip(*times, strict=True))) for times in (ours, theirs))
    rounds = [a / b for (a, _), (b, _) in zip(ours, theirs, strict=True)]
    return {"unit": "time", "ratio": wall / their_wall, "low": min(rounds), "high": max(rounds)} | {
        "cpu_ratio": cpu / their_cpu,
        "seconds": wall,
        "their_seconds": their_wall,
        "rounds": len(ours),
        "note": note,
    }


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of values ~ size^exponent, by least squares on a log-log scale."""
    x, y = (torch.tensor(numbers, dtype=torch.float64).log() for numbers in (sizes, values))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


@dataclass(frozen=True)
class Line:
    """A line of the table: what is measured against what. `aim`: the ratio that it should not exceed."""

    group: str
    ours: str
    theirs: str
    measure: Callable[[], dict]
    aim: float | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        return self.group, self.ours, self.theirs

    def row(self) -> dict:
        """Measure it: the line of the table, with four digits of each number."""
        found = dict.fromkeys(COLUMNS, "") | self.measure()
        short = {name: float(f"{x:.4g}") if isinstance(x, float) else x for name, x in found.items()}
        named = dict(zip(("group", "ours", "theirs"), self.name, strict=True))
        return named | short | {"aim": "" if self.aim is None else self.aim}


# ---------------------------------------------------------------- (a) attention
def both_passes(layer: Callable, x: Tensor, gradient: Tensor) -> None:
    """Forward and backward, to the input and to the weights."""
    wanted = [x, *(layer.parameters() if isinstance(layer, nn.Module) else ())]
    torch.autograd.grad(layer(x), wanted, gradient)


def attention_lines(quick: bool) -> Iterator[Line]:
    B, T, C, H = (2, 256, 128, 4) if quick else (8, 1024, 768, 12)

    def against(way: type[rivals.Rival]) -> dict:
        torch.manual_seed(1)
        ours, (x, gradient) = MultiHeadAttention(C, C, T, 0.0, H, out_bias=False), torch.randn(2, B, T, C)
        if way is not rivals.Flex:
            x.requires_grad_()
            return race(lambda: both_passes(ours, x, gradient), partial(both_passes, way(ours), x, gradient))
        with torch.no_grad():
            try:
                return race(partial(ours.requires_grad_(False), x), partial(way(ours).requires_grad_(False), x))
            except Exception as error:  # it takes a C++ compiler, and fails in many ways
                return {"unit": "time", "note": f"does not run here: {type(error).__name__}"}

    def line(name: str, way: type[rivals.Rival], passes: str) -> Line:
        what, aim = f"MultiHeadAttention, {passes}, B {B}, T {T}, C {C}, H {H}", way is rivals.CausalSDPA
        return Line("attention", what, name, partial(against, way), 1.05 if aim else None)

    for name, way in rivals.WAYS.items():
        yield line(name, way, "forward and backward")
    if not quick:  # compiling it takes most of a minute; on a CPU it has no backward
        yield line("FlexAttention, compiled", rivals.Flex, "forward")


# ---------------------------------------------------------------- (b) time and memory against T
def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attention(query, key, value, causal_mask(query.shape[-2]))[0]


def once(way: Callable, T: int) -> Callable[[], None]:
    """A call of `way` on one head of width 64, forward and backward."""
    three = torch.randn(3, 1, 1, T, 64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    gradient = torch.ones(1, 1, T, 64)
    return lambda: both_passes(lambda x: way(*x.unbind()), three, gradient)


def bytes_kept(way: Callable, T: int) -> int:
    """What the forward pass keeps for the backward pass, its input included; shared memory counts once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = way(*torch.randn(3, 1, 1, T, 64, requires_grad=True).unbind())
        del result
    return sum(kept.values())


def length_lines(quick: bool) -> Iterator[Line]:
    lengths = [128, 256, 512, 1024] if quick else [512, 1024, 2048, 4096, 8192]
    ways = {"SDPA, causal flag": fused, "attention(), written out": written_out}
    names = list(ways)

    def race_at(T: int) -> dict:
        return race(once(fused, T), once(written_out, T), rounds=25 if T <= 1024 else 5)  # these take milliseconds

    def memory() -> dict:
        ratio = bytes_kept(fused, lengths[-1]) / bytes_kept(written_out, lengths[-1])
        return {"unit": "memory", "ratio": ratio, "low": ratio, "high": ratio}

    def time_exponent(way: Callable, rounds: int = 5) -> dict:
        calls, slopes = [once(way, T) for T in lengths], []
        for _ in range(1 + rounds):
            times = []
            for call in calls:
                before = time.perf_counter()
                call()
                times.append(time.perf_counter() - before)
            slopes.append(slope(lengths, times))
        slopes = slopes[1:]  # the first round warms up
        return {"unit": "exponent", "ratio": median(slopes), "low": min(slopes), "high": max(slopes), "rounds": rounds}

    def memory_exponent(way: Callable) -> dict:
        exponent = slope(lengths, [bytes_kept(way, T) for T in lengths])
        return {"unit": "exponent", "ratio": exponent, "low": exponent, "high": exponent}

    for T in lengths:
        yield Line("length", f"{names[0]}, T {T}", names[1], partial(race_at, T))
    yield Line("length", f"{names[0]}, T {lengths[-1]}, bytes kept for backward", names[1], memory)
    for name, way in ways.items():
        reach = f"T from {lengths[0]} to {lengths[-1]}"
        yield Line("length", f"time of {name}", reach, partial(time_exponent, way))
        yield Line("length", f"memory of {name}", reach, partial(memory_exponent, way))


# ---------------------------------------------------------------- (c) a step of training
def encoded(corpus: Corpus, T: int) -> tuple[CharTokenizer, Tensor, Tensor]:
    tokenizer = CharTokenizer(corpus.alphabet)
    return tokenizer, *split(tokenizer.encode_compactly(corpus.text), T)


def training_lines(quick: bool, corpus: Corpus) -> Iterator[Line]:
    preset, steps = PRESETS["laptop"], 4 if quick else 20
    config = replace(preset.training, max_steps=100_000)

    def against(rival: Callable[[rivals.NanoGPT, Path], Iterator]) -> dict:
        tokenizer, tokens, _ = encoded(corpus, preset.model["context_length"])
        torch.manual_seed(1)
        model = GPT(preset.model_config(tokenizer.vocab_size))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.bin"
            path.write_bytes(tokens.numpy().astype("uint16").tobytes())
            theirs = rival(rivals.NanoGPT(model), path)
            ours = updates(model, tokens, config, make_optimizer(model, config), torch.Generator().manual_seed(1))
            several = [lambda loop=loop: [next(loop) for _ in range(steps)] for loop in (ours, theirs)]
            return race(*several, rounds=5 if quick else 15)

    def whole_step(model: rivals.NanoGPT, path: Path) -> Iterator[float]:
        return rivals.nano_updates(model, path, config)

    def no_more_than_gradients(model: rivals.NanoGPT, path: Path) -> Iterator[Any]:
        x, y = rivals.windows(path, model.config, config.batch_size)
        while True:
            yield torch.autograd.grad(model(x, y)[1], list(model.parameters()))

    ours = f"laptop, {steps} steps of training"
    yield Line("training", ours, "nanoGPT's loop", partial(against, whole_step), aim=0.9)
    yield Line("training", ours, "nanoGPT's forward and backward alone", partial(against, no_more_than_gradients))


# ---------------------------------------------------------------- (d) writing
def generation_lines(quick: bool) -> Iterator[Line]:
    def race_of(name: str, tokens: int, rival: str) -> dict:
        torch.manual_seed(1)
        model = GPT(PRESETS[name].model_config(65)).eval()
        prompt, generator = torch.zeros(1, dtype=torch.long), torch.Generator().manual_seed(1)
        if rival == "nanoGPT's loop":
            theirs = partial(rivals.nano_generate, rivals.NanoGPT(model).eval(), prompt[None], tokens, generator)
        else:
            weights = torch.cat([p.detach().flatten() for p in model.parameters()])
            theirs = partial(read_often, weights, tokens)

        def ours() -> Tensor:
            return generate(model, prompt, tokens, generator=generator, reader=quick_reader(model))

        return race(ours, theirs)

    for name, beyond in ({"laptop": 200} if quick else {"laptop": 500, "gpu": 600}).items():
        within = PRESETS[name].model["context_length"]
        for tokens, where in ((within, "within the window"), (beyond, "beyond the window")):
            for rival in ("nanoGPT's loop", "reading all weights once a token"):
                yield Line(
                    "generation", f"{name}, {tokens} tokens, {where}", rival, partial(race_of, name, tokens, rival)
                )


def read_often(weights: Tensor, times: int) -> None:
    """The least that writing can take when the weights outgrow the caches: each is read once for each token."""
    for _ in range(times):
        torch.dot(weights, weights)


# ---------------------------------------------------------------- (e) time to a loss
def time_to(goal: float, preset: Preset, seed: int, every: int, text: Path, first: int | None) -> tuple[Seconds, str]:
    """What a training takes until its validation loss is `goal`, without the evaluations; and a note if it never is.

    All else counts: the text is read and encoded, the model is made. The loss is looked at each `every` steps of the
    second half, on the `first` tokens.
    """
    started = clocks()
    T = preset.model["context_length"]
    tokenizer, train_tokens, val_tokens = encoded(load_corpus(text), T)
    config = replace(preset.training, seed=seed)
    torch.manual_seed(seed)
    model = build_gpt(preset.model_config(tokenizer.vocab_size))
    batches = torch.Generator().manual_seed(seed)
    loop = updates(model, train_tokens, config, make_optimizer(model, config), batches)
    looking = [0.0, 0.0]
    loss = math.inf
    for step, _ in enumerate(loop, start=1):
        if step == config.max_steps or (step % every == 0 and 2 * step >= config.max_steps):
            before = clocks()
            loss = evaluate(model, val_tokens[:first], T)
            looking = [spent + now - then for spent, now, then in zip(looking, clocks(), before, strict=True)]
            if loss <= goal:
                break
    wall, cpu = (now - then - spent for now, then, spent in zip(clocks(), started, looking, strict=True))
    return (wall, cpu), "" if loss <= goal else f"seed {seed} ends at {loss:.3f}"


def loss_lines(quick: bool, corpus: Corpus) -> Iterator[Line]:
    goal, slow, seeds, evaluated = (2.45, "smoke", [1, 2], 10_000) if quick else (1.9, "laptop", [1, 2, 3], None)

    def against() -> dict:
        contest: dict[str, tuple[Preset, int]] = {"speedrun": (PRESETS["speedrun"], 1), slow: (PRESETS[slow], 50)}
        found: tuple[list[Seconds], list[Seconds]] = ([], [])
        notes = []
        for preset, _ in contest.values():  # what an optimizer imports at its first step doesn't count
            time_to(math.inf, replace(preset, training=replace(preset.training, max_steps=1)), 1, 1, corpus.path, 100)
        for seed in seeds:
            for (name, (preset, every)), times in zip(contest.items(), found, strict=True):
                seconds, note = time_to(goal, preset, seed, every, corpus.path, evaluated)
                times.append(seconds)
                notes.append(f"{name}, {note}" if note else "")
        return compare(*found, note="; ".join(filter(None, notes)))

    yield Line("loss", f"speedrun, from the text to a loss of {goal}", slow, against)


# ---------------------------------------------------------------- (f) data
def data_lines(quick: bool, corpus: Corpus) -> Iterator[Line]:
    megabytes, config = 2 if quick else 100, PRESETS["laptop"].model_config(65)

    def with_text(make: Callable[[Path, Path], tuple[Callable, Callable]]) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            text, ids = Path(folder) / "text.txt", Path(folder) / "ids.bin"
            once = corpus.text.encode()
            text.write_bytes((once * (megabytes * 1_000_000 // len(once) + 1))[: megabytes * 1_000_000])
            return race(*make(text, ids))

    def loading(text: Path, ids: Path) -> tuple[Callable, Callable]:
        return partial(load_corpus, text), partial(rivals.nano_alphabet, text)

    def encoding(text: Path, ids: Path) -> tuple[Callable, Callable]:
        loaded, (_, number) = load_corpus(text), rivals.nano_alphabet(text)
        ours = CharTokenizer(loaded.alphabet).encode_compactly
        return partial(ours, loaded.text), partial(rivals.nano_encode, loaded.text, number)

    def batching(text: Path, ids: Path) -> tuple[Callable, Callable]:
        loaded = load_corpus(text)
        tokens = CharTokenizer(loaded.alphabet).encode_compactly(loaded.text)
        ids.write_bytes(tokens.numpy().astype("uint16").tobytes())
        many, B, T = range(1000), PRESETS["laptop"].training.batch_size, config.context_length
        return (lambda: [get_batch(tokens, B, T) for _ in many]), lambda: [rivals.windows(ids, config, B) for _ in many]

    for part, what in ((loading, "loading"), (encoding, "encoding"), (batching, "1,000 batches of laptop from")):
        yield Line("data", f"{what} {megabytes} MB", "nanoGPT's recipe", partial(with_text, part))


# ---------------------------------------------------------------- (g) a corpus larger than memory
def corpus_lines(quick: bool, corpus: Corpus) -> Iterator[Line]:
    megabytes, rounds = (4, 5) if quick else (2000, 3)

    def with_text(measured: Callable[[Path, Path], dict]) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text.txt"
            some = (corpus.text * (1_000_000 // len(corpus.text) + 1)).encode()[:1_000_000]
            with text.open("wb") as file:
                for _ in range(megabytes):
                    file.write(some)
                os.fsync(file.fileno())
            return measured(text, Path(folder) / "shards")

    def preparing(reading: Callable[[Path], None], text: Path, folder: Path) -> dict:
        def anew() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            prepare([text], folder, "characters", tqdm(disable=True))

        return race(anew, partial(reading, text), rounds)

    def peak(text: Path, folder: Path) -> dict:
        command = [sys.executable, "-m", "helpers.data", str(text), "--out", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ratio = used.ru_maxrss / (500e6 if sys.platform == "darwin" else 500e6 / 1024)
        return {"unit": "memory", "ratio": ratio, "low": ratio, "high": ratio}

    def batching(text: Path, folder: Path) -> dict:
        prepare([text], folder, "characters", tqdm(disable=True))
        stored = shards.load(folder, corpus.name)
        kept = torch.cat([stored.tokenizer.encode_compactly(text) for text in several(text)])
        same = torch.equal(stored.tokens, kept)
        B, T = PRESETS["laptop"].training.batch_size, PRESETS["laptop"].model["context_length"]
        ours, theirs = ((lambda on=on: [get_batch(on, B, T) for _ in range(1000)]) for on in (stored.tokens, kept))
        return race(ours, theirs, 15, "the same tokens" if same else "OTHER TOKENS")

    ours = f"preparing {megabytes:,} MB"
    yield Line("corpus", ours, "reading it from the disk", partial(with_text, partial(preparing, from_disk)))
    yield Line("corpus", ours, "reading its lines in Python", partial(with_text, partial(preparing, by_lines)), aim=3.0)
    yield Line("corpus", f"{ours}, most memory", "500 MB", partial(with_text, peak), aim=1.0)
    batches = f"1,000 batches of laptop from {megabytes:,} MB in shards"
    yield Line("corpus", batches, "from memory", partial(with_text, batching), aim=1.1)


def several(path: Path) -> Iterator[str]:
    """The text of a file, a million characters at a time."""
    with path.open(encoding="utf-8", newline="") as file:
        while piece := file.read(1_000_000):
            yield piece


def from_disk(path: Path) -> None:
    """Read all bytes of a file. Linux forgets first what of it lies in memory."""
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def by_lines(path: Path) -> None:
    """What the shortest program does that looks at every line."""
    with path.open(encoding="utf-8") as file:
        for _ in file:
            pass


def all_lines(quick: bool, corpus: Corpus) -> list[Line]:
    """Every line of the table, in order; nothing is measured yet."""
    of_models = (attention_lines(quick), length_lines(quick), training_lines(quick, corpus), generation_lines(quick))
    of_models += (drafted_lines(quick, corpus),)
    of_data = (data_lines(quick, corpus), corpus_lines(quick, corpus))
    return [line for lines in (*of_models, loss_lines(quick, corpus), *of_data) for line in lines]


# ---------------------------------------------------------------- (h) writing several letters in one pass
def drafted_lines(quick: bool, corpus: Corpus) -> Iterator[Line]:
    """A model that was trained for a moment, since a draft is right only about one that has learned something."""
    steps, letters = (50, 60) if quick else (500, 500)

    def race_of(rival: str) -> dict:
        preset = PRESETS["laptop"]
        tokenizer, tokens, _ = encoded(corpus, preset.model["context_length"])
        torch.manual_seed(1)
        model = GPT(preset.model_config(tokenizer.vocab_size))
        config = replace(preset.training, max_steps=steps)
        for _ in updates(model, tokens, config, make_optimizer(model, config), torch.Generator().manual_seed(1)):
            pass
        model.eval()
        prompt, generator = tokenizer.encode("\n"), torch.Generator().manual_seed(1)
        alone = partial(generate, model, prompt, letters, generator=generator)
        if rival == "nanoGPT's loop":
            nano = rivals.NanoGPT(model).eval()
            alone = partial(rivals.nano_generate, nano, prompt[None], letters, generator)
        draft = Counts(tokens, tokenizer.vocab_size)

        def drafted() -> Tensor:
            reader = quick_reader(model, generator=generator, draft=draft)
            return generate(model, prompt, letters, generator=generator, reader=reader)

        return race(drafted, alone)

    for rival in ("letter by letter", "nanoGPT's loop"):
        ours = f"laptop after {steps} steps, {letters} letters with a draft by counting"
        yield Line("generation", ours, rival, partial(race_of, rival))
