"""Train a GPT on a text: the settings, the loss over a whole split, the loop of updates, and runs that survive a stop.

python -m helpers.training --preset laptop --corpus FILE --out DIR --seed 1
"""

import argparse
import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers import console, runs
from helpers.data import CharTokenizer, Corpus, get_batch, load_corpus, split
from helpers.errors import ConfigError, CorpusError, TrainingError
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.guards import Count, NotNegative, Positive, Seed, Share, Steps, checked, evaluating
from helpers.products import quick_products
from helpers.sampling import generate, stream
from helpers.state import History, Identity, Record, State


@checked
@dataclass(frozen=True)
class TrainConfig:
    """How to train. Steps count updates; the learning rate warms up, then falls along a cosine until `max_steps`.

    `device` is "auto" (CUDA if there is one, else the CPU), "cpu", "cuda", "cuda:N" or "mps"; `bfloat16` and `compile`
    take effect on CUDA only. ConfigError for a value that makes no sense, and for a device that isn't there.
    """

    batch_size: Count
    max_steps: Count
    eval_interval: Count
    learning_rate: Positive = 1e-3
    min_learning_rate: NotNegative = 1e-4
    warmup_steps: Steps = 100
    betas: tuple[Share, Share] = (0.9, 0.99)
    weight_decay: NotNegative = 0.1
    grad_clip: Positive = 1.0
    bfloat16: bool = False
    compile: bool = False
    seed: Seed = 1
    device: str = "cpu"

    def __post_init__(self):
        object.__setattr__(self, "device", _device(self.device))
        if self.max_steps // self.eval_interval > 100_000:
            raise ConfigError(f"a record every {self.eval_interval} of {self.max_steps:,} steps: allowed are 100,000")
        low, high = self.min_learning_rate, self.learning_rate
        if low > high:
            raise ConfigError(f"min_learning_rate={low} must not be above learning_rate={high}")


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        kind = None
    if kind not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"unknown device {name!r}: choose auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and (torch.device(name).index or 0) >= torch.cuda.device_count():
        raise ConfigError(f'device={name!r}, but this PyTorch finds no CUDA GPU of that number: choose "auto" or "cpu"')
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f'device={name!r}, but this PyTorch finds no Apple GPU: choose "auto" or "cpu"')
    return name


def learning_rate(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then a cosine down to the minimum at `max_steps` (nanoGPT's schedule)."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / (config.warmup_steps + 1)
    progress = min(1.0, (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps))
    span = config.learning_rate - config.min_learning_rate
    return config.min_learning_rate + span * (1 + math.cos(math.pi * progress)) / 2


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW that decays matrices (embeddings too) and leaves biases and norms alone."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


def cross_entropy(
    logits: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Cross-entropy of logits against targets, in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


def updates(
    model: nn.Module,
    tokens: Integer[Tensor, "N"],
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    first_step: int = 0,
    schedule: Callable[[int, TrainConfig], float] = learning_rate,
) -> Iterator[float]:
    """The loop: one update after the other, from `first_step` to `max_steps`; each yields the loss of its batch.

    `generator` draws the batches, PyTorch's global one the dropout: whoever seeds both gets the same weights again.
    A step's learning rate is the `schedule`'s; a group of the optimizer that has a "scale" multiplies it by that.
    """
    T, on_cuda = model.config.context_length, torch.device(config.device).type == "cuda"
    # Compiling for CUDA takes Triton, which PyTorch brings along on Linux only.
    forward = torch.compile(model) if config.compile and on_cuda and importlib.util.find_spec("triton") else model
    for step in range(first_step, config.max_steps):
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = schedule(step, config) * group.get("scale", 1.0)
        x, y = get_batch(tokens, config.batch_size, T, generator)
        optimizer.zero_grad()  # before forward, which can then use the gradients' memory
        with torch.autocast("cuda", torch.bfloat16, enabled=config.bfloat16) if on_cuda else quick_products():
            loss = cross_entropy(forward(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
@checked
def evaluate(model: nn.Module, tokens: Integer[Tensor, "N"], context_length: Count) -> float:
    """Mean cross-entropy in nats per token over ALL of `tokens` but the first, which nothing predicts.

    The split is cut into windows of `context_length` side by side, the last one shorter: no random draw, so the same
    model gives the same number. CorpusError when there is nothing to predict.
    """
    if len(tokens) < 2:
        raise CorpusError(f"{len(tokens)} tokens leave nothing to predict: a split needs at least 2")
    if hasattr(model, "config"):
        _refuse_unknown(tokens, model.config.vocab_size)
    inputs, targets, total = tokens[:-1], tokens[1:], 0.0
    whole = len(inputs) // context_length * context_length
    at_once = max(1, 8192 // context_length) * context_length
    parts = [(start, min(start + at_once, whole), context_length) for start in range(0, whole, at_once)]
    parts += [(whole, len(inputs), len(inputs) - whole)] if whole < len(inputs) else []
    with evaluating(model), quick_products():
        for start, end, width in parts:
            x, y = (ids[start:end].view(-1, width).long() for ids in (inputs, targets))
            total += cross_entropy(model(x), y, reduction="sum").item()
    return total / len(targets)


def _refuse_unknown(tokens: Integer[Tensor, "N"], vocab_size: int) -> None:
    if not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise CorpusError(f"the text has a token outside the vocabulary of 0 .. {vocab_size - 1}")


def record_steps(config: TrainConfig) -> list[int]:
    """0, three early ones, where learning is fastest, every `eval_interval`, and `max_steps`."""
    early = {config.eval_interval // part for part in (10, 5, 2)}
    regular = range(0, config.max_steps, config.eval_interval)
    return sorted(step for step in {*early, *regular, config.max_steps} if step <= config.max_steps)


@checked
def train(
    model: nn.Module,
    train_tokens: Integer[Tensor, "N_train"],
    val_tokens: Integer[Tensor, "N_val"],
    config: TrainConfig,
    *,
    out_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_record: Callable[[nn.Module, Record], None] | None = None,
    tokenizer: CharTokenizer | None = None,
    preset: str = "",
    corpus: Corpus | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Callable[[int, TrainConfig], float] = learning_rate,
) -> History:
    """Train `model`, a GPT or one that has a GPTConfig as `config`, in place; return the history.

    It is left with the weights of its best record. The `optimizer` is `make_optimizer`'s unless another is given; its
    learning rate is the `schedule`'s in any case. A run in a folder takes no other of either, and plain GPTs only. At
    each of `record_steps`: a record, and `on_record(model, record)`.

    With `out_dir`, that folder holds the run (see helpers.runs), saved at every record and when Ctrl-C or a signal asks
    to stop, with snapshots of what it was like before. `resume` goes on from there to the same end, to the last bit on
    the same machine, and does nothing for a finished run; `overwrite` replaces a run. `preset` and `corpus` are kept
    with it.

    Raises CorpusError for splits shorter than a window, RunError and StorageError for a folder that can't be used,
    CheckpointError for a checkpoint that doesn't fit, all before the run is changed; TrainingError when the loss is
    no longer a number (what was saved stays); console.Stopped when asked to stop.
    """
    T = model.config.context_length
    _refuse_misfits(model, {"training": train_tokens, "validation": val_tokens}, tokenizer)
    if out_dir == "" or (out_dir is None and (resume or overwrite)):
        raise ConfigError("out_dir must name the folder of the run; resume and overwrite need one")
    changed = optimizer or schedule is not learning_rate or type(model.config) is not GPTConfig
    if out_dir is not None and (changed or any(p.dtype != torch.float32 for p in model.parameters())):
        raise ConfigError("a run in a folder keeps AdamW's state and float32 weights of a plain GPT: leave out out_dir")
    folder = None if out_dir is None else Path(out_dir)
    model.to(config.device)
    train_tokens, val_tokens = train_tokens.to(config.device), val_tokens.to(config.device)
    optimizer = optimizer or make_optimizer(model, config)
    facts = {"tokenizer": tokenizer, "preset": preset, "corpus": corpus}
    identity, record_at = Identity.of(model, config, train_tokens, val_tokens, **facts), set(record_steps(config))
    with nullcontext() if folder is None else runs.hold(folder, resume=resume, overwrite=overwrite):
        generator = torch.Generator().manual_seed(config.seed)  # draws the batches
        torch.manual_seed(config.seed)  # draws the dropout
        state = State(identity)
        if folder is not None and resume:
            state = runs.load(folder, model, identity)
            runs.write_views(folder, state)  # a kill may have come between them and the checkpoint
            state.restore(model, optimizer, generator)

        def save() -> None:
            if folder is not None:
                state.keep(model, optimizer, generator)
                runs.save(folder, state)

        def record() -> None:
            state.losses = state.losses or [_first_loss(model, train_tokens, config)]
            val_loss = _number(evaluate(model, val_tokens, T), state.step)
            state.add_record(model, val_loss, config.batch_size * T, schedule(state.step, config))
            save()
            if on_record:
                on_record(model, state.history[-1])

        with console.stop_requests() as stop:
            if not state.history or (state.finished and state.losses):  # stopped where it is now to end
                record()
            started = time.perf_counter()
            for loss in updates(model, train_tokens, config, optimizer, generator, state.step, schedule):
                state.add_update(_number(loss, state.step), time.perf_counter() - started)
                if state.step in record_at:
                    record()
                if stop.number is not None:
                    save()
                    kept = f"all saved in {folder}: resume continues from there" if folder else "none of them saved"
                    raise console.Stopped(stop.number, f"after {state.step:,} of {config.max_steps:,} steps, {kept}")
                started = time.perf_counter()
    model.load_state_dict(state.best)
    return state.history


def _refuse_misfits(model: nn.Module, splits: dict[str, Tensor], tokenizer: CharTokenizer | None) -> None:
    T, V = model.config.context_length, model.config.vocab_size
    for name, tokens in splits.items():
        if len(tokens) <= T:
            raise CorpusError(f"the {name} split has {len(tokens)} tokens: a context of {T} needs at least {T + 1}")
        _refuse_unknown(tokens, V)
    if tokenizer is not None and tokenizer.vocab_size != V:
        raise ConfigError(f"the tokenizer has {tokenizer.vocab_size} characters, and the model's vocabulary {V}")


def _first_loss(model: nn.Module, tokens: Integer[Tensor, "N"], config: TrainConfig) -> float:
    """The loss of the first batch before anything is trained, with nothing drawn that the training would miss."""
    x, y = get_batch(tokens, config.batch_size, model.config.context_length, torch.Generator().manual_seed(config.seed))
    with torch.no_grad(), evaluating(model):
        return cross_entropy(model(x), y).item()


def _number(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}: training diverged. Try a lower learning rate; what was saved is kept"
        )
    return loss


def print_record(model: nn.Module, record: Record) -> None:
    """The default `on_record`: one line."""
    print(
        f"step {record.step:5}  train {record.train_loss:.4f}  val {record.val_loss:.4f}  "
        f"{record.tokens_per_second:8,.0f} tokens/s  learning rate {record.learning_rate:.1e}",
        flush=True,
    )


# ---------------------------------------------------------------- the command
def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 0, 2 after an error, 130 after Ctrl-C."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    from helpers.presets import PRESETS, choose_preset, describe_loss, run_folder  # they are made of TrainConfigs

    parser = argparse.ArgumentParser(
        prog="python -m helpers.training",
        description="Train a GPT on a text and write config, history, tokenizer, checkpoint and sample into a folder.",
        epilog="presets: " + "; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items()),
    )
    parser.add_argument("--preset", default="laptop", help="size and recipe: smoke, laptop (default) or gpu")
    parser.add_argument("--corpus", help="UTF-8 text file to train on (default: tiny Shakespeare, found or downloaded)")
    parser.add_argument("--out", help="folder for the run (default: build/runs/ and the preset, with what differs)")
    parser.add_argument("--seed", type=int, default=1, help="for weights, batches, dropout and sample (default: 1)")
    parser.add_argument("--max-steps", type=int, help="number of updates (default: the preset's)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:N or mps")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, to the same end")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out by a new one")
    parser.add_argument("--prompt", help="what the sample continues (default: a newline)")
    parser.add_argument("--temperature", type=float, default=0.8, help="of the sample: below 1 is safer (default: 0.8)")
    parser.add_argument("--sample-length", type=int, default=500, help="characters in sample.txt (default: 500)")
    options = parser.parse_args(arguments)
    preset = choose_preset(options.preset, max_steps=options.max_steps, seed=options.seed, device=options.device)
    corpus = load_corpus(options.corpus)
    console.say(corpus)
    tokenizer = CharTokenizer(corpus.alphabet)
    train_tokens, val_tokens = split(tokenizer.encode_compactly(corpus.text), preset.model["context_length"])
    prompt = tokenizer.encode(tokenizer.start_of_text if options.prompt is None else options.prompt)
    torch.manual_seed(preset.training.seed)
    model = GPT(preset.model_config(tokenizer.vocab_size))
    drawing = {"temperature": options.temperature, "generator": torch.Generator().manual_seed(preset.training.seed)}
    stream(model, prompt, options.sample_length, **drawing)  # refuses now what would fail after the training
    folder = run_folder(options.preset, preset, corpus) if options.out is None else runs.folder_named(options.out)
    device = preset.training.device
    console.say(f"{count_parameters(model):,} parameters on {device}, {torch.get_num_threads()} threads")
    asked: dict[str, Any] = {"resume": options.resume, "overwrite": options.overwrite, "on_record": print_record}
    facts: dict[str, Any] = {"tokenizer": tokenizer, "preset": options.preset, "corpus": corpus}
    try:
        if options.resume:
            asked_for = Identity.of(model, preset.training, train_tokens, val_tokens, **facts)
            console.say(runs.status(folder, asked_for))
        history = train(model, train_tokens, val_tokens, preset.training, out_dir=folder, **asked, **facts)
        if not (folder / "sample.txt").exists():  # a finished run that is resumed has its sample
            sample = generate(model, prompt.to(device), options.sample_length, **drawing)
            runs.write_sample(folder, tokenizer.decode(sample))
    except console.Stopped as stopped:
        saved = f"{folder} keeps what was saved: resume continues from there"
        told = stopped.told or (saved if runs.is_run(folder) else "nothing was saved yet")
        raise console.Stopped(stopped.number, told) from None
    console.say(describe_loss(history.best.val_loss, corpus.name, preset))
    console.say(f"---- {folder / 'sample.txt'} ----\n{(folder / 'sample.txt').read_text(encoding='utf-8')}")


if __name__ == "__main__":
    from helpers import training  # so that there is one TrainConfig, not this file's and presets'

    console.leave(training.main)
