"""Train a GPT on a text: presets, the loop, the loss over a whole split, checkpoints, and a command line.

python -m helpers.training --preset laptop --corpus FILE --out DIR --seed 1
"""

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor, nn

from helpers import data
from helpers.data import CharTokenizer, get_batch, load_corpus, split
from helpers.errors import CheckpointError, ConfigError, CorpusError, HelpersError, TrainingError
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.sampling import generate

# Where runs go unless told otherwise, one folder a preset. `make test` names another place, so as to spare your runs.
RUNS = Path(os.environ.get("NANOGPT_RUNS") or Path(__file__).parents[1] / "build" / "runs")


def _whole_number(name: str, value: object, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigError(f"{name} must be a whole number of at least {at_least}, not {value!r}")
    if value >= 2**63:
        raise ConfigError(f"{name} must be below 2 to the power of 63, not {value}")
    return value


@dataclass(frozen=True)
class TrainConfig:
    """How to train. Steps count updates; the learning rate warms up, then falls along a cosine until `max_steps`.

    `bfloat16` and `compile` take effect on CUDA only. ConfigError when a count is below 1.
    """

    batch_size: int
    max_steps: int
    eval_interval: int
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-4
    warmup_steps: int = 100
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    bfloat16: bool = False
    compile: bool = False
    seed: int = 1
    device: str = "cpu"

    def __post_init__(self):
        for name in ("batch_size", "max_steps", "eval_interval"):
            _whole_number(name, getattr(self, name), at_least=1)


@dataclass(frozen=True)
class Preset:
    """A size of model, a way to train it, and the whole-split validation loss to expect on each known corpus.

    The bands are what seeds 1, 2, 3 gave on two CPU cores, with 0.03 to spare on either side, unless said otherwise.
    """

    about: str
    sizes: dict[str, int | float]  # everything of GPTConfig but the vocabulary
    train: TrainConfig
    expected_loss: dict[str, tuple[float, float]]  # corpus name -> lowest, highest

    def model_config(self, vocab_size: int) -> GPTConfig:
        return GPTConfig(vocab_size=vocab_size, **self.sizes)


PRESETS = {
    "smoke": Preset(
        about="2 layers, 2 heads, width 64, context 32: seconds, to see that everything works",
        sizes=dict(context_length=32, n_layer=2, n_head=2, n_embd=64),
        train=TrainConfig(batch_size=16, max_steps=300, eval_interval=100, learning_rate=3e-3, warmup_steps=30),
        expected_loss={data.TINY: (2.35, 2.47), data.BUNDLED: (2.23, 2.36)},
    ),
    "laptop": Preset(
        about="4 layers, 4 heads, width 128, context 64: about a minute on two cores (nanoGPT's CPU recipe)",
        sizes=dict(context_length=64, n_layer=4, n_head=4, n_embd=128),
        train=TrainConfig(batch_size=12, max_steps=2000, eval_interval=250),
        expected_loss={data.TINY: (1.87, 1.93), data.BUNDLED: (1.68, 1.76)},
    ),
    "gpu": Preset(
        about="6 layers, 6 heads, width 384, context 256: minutes on a GPU (nanoGPT's baby GPT)",
        sizes=dict(context_length=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2),
        train=TrainConfig(batch_size=64, max_steps=5000, eval_interval=250, bfloat16=True, compile=True),
        # Published by nanoGPT, not measured by this project: 1.4697, the best of its estimates on 200 random batches.
        expected_loss={data.TINY: (1.44, 1.52)},
    ),
}


def choose_preset(name: object, *, max_steps: object = None, seed: object = 1, device: object = "auto") -> Preset:
    """The preset called `name` with the given settings in place; ConfigError names a bad one and what is allowed.

    `max_steps=None` keeps the preset's. `device` is "auto" (CUDA if there is one, else the CPU), "cpu", "cuda",
    "cuda:N" or "mps".
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    settings = {"seed": _whole_number("seed", seed, at_least=0), "device": _device(device)}
    if max_steps is not None:
        steps = _whole_number("max_steps", max_steps, at_least=1)
        settings |= {"max_steps": steps, "warmup_steps": min(preset.train.warmup_steps, steps // 10)}
    return dataclasses.replace(preset, train=dataclasses.replace(preset.train, **settings))


def _device(name: object) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except (RuntimeError, TypeError):
        kind = None
    if kind not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"unknown device {name!r}: choose auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f'device={name!r}, but this PyTorch finds no CUDA GPU: choose "auto" or "cpu"')
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f'device={name!r}, but this PyTorch finds no Apple GPU: choose "auto" or "cpu"')
    return str(name)


@dataclass(frozen=True)
class Record:
    """One line of the history, in nats per character.

    `train_loss` is the mean over the batches since the last record (at step 0: the first batch), `val_loss` that over
    the whole validation split; `seconds` is the time spent on updates so far, evaluation left out; the speed is that
    since the last record (0 at step 0).
    """

    step: int
    train_loss: float
    val_loss: float
    seconds: float
    tokens_per_second: float
    learning_rate: float


class History(list[Record]):
    """The records of a run, in order of their steps."""

    @property
    def best(self) -> Record:
        return min(self, key=lambda record: record.val_loss)

    def column(self, name: str) -> list[int | float]:
        return [getattr(record, name) for record in self]

    def to_json(self) -> str:
        return json.dumps([asdict(record) for record in self], indent=1)


@torch.no_grad()
def evaluate(model: nn.Module, tokens: Int64[Tensor, "N"], context_length: int) -> float:
    """Mean cross-entropy in nats per token over ALL of `tokens` but the first, which nothing predicts.

    The split is cut into windows of `context_length` side by side, the last one shorter: no random draw, so the same
    model gives the same number. CorpusError when there is nothing to predict.
    """
    if len(tokens) < 2:
        raise CorpusError(f"{len(tokens)} tokens leave nothing to predict: a split needs at least 2")
    was_training = model.training
    model.eval()
    inputs, targets = tokens[:-1], tokens[1:]
    whole = len(inputs) // context_length * context_length
    windows_at_once = max(1, 8192 // context_length)
    batches = list(
        zip(
            inputs[:whole].view(-1, context_length).split(windows_at_once),
            targets[:whole].view(-1, context_length).split(windows_at_once),
            strict=True,
        )
    )
    if whole < len(inputs):
        batches.append((inputs[None, whole:], targets[None, whole:]))
    total = sum(cross_entropy(model(x), y, reduction="sum").item() for x, y in batches if x.numel())
    model.train(was_training)
    return total / len(targets)


def cross_entropy(logits: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits (B, T, V) against targets (B, T), in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


def learning_rate(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then a cosine down to the minimum at `max_steps` (nanoGPT's schedule)."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / (config.warmup_steps + 1)
    progress = min(1.0, (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps))
    span = config.learning_rate - config.min_learning_rate
    return config.min_learning_rate + span * (1 + math.cos(math.pi * progress)) / 2


def record_steps(config: TrainConfig) -> list[int]:
    """0, three early ones, where learning is fastest, every `eval_interval`, and `max_steps`."""
    early = {config.eval_interval // part for part in (10, 5, 2)}
    regular = range(0, config.max_steps, config.eval_interval)
    return sorted(step for step in {*early, *regular, config.max_steps} if step <= config.max_steps)


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW that decays matrices (embeddings too) and leaves biases and norms alone."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


def train(
    model: nn.Module,
    train_tokens: Int64[Tensor, "N_train"],
    val_tokens: Int64[Tensor, "N_val"],
    config: TrainConfig,
    *,
    out_dir: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[nn.Module, Record], None] | None = None,
    tokenizer: CharTokenizer | None = None,
    notes: dict[str, str] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> History:
    """Train `model`, a GPT or one that has a GPTConfig as `config`, in place; return the history.

    It is left with the weights of its best record. The `optimizer` is `make_optimizer`'s unless another is given; its
    learning rate follows the schedule in any case.

    At each of `record_steps`: a record, and `on_record(model, record)`. With `out_dir`, the best state so far is in
    `checkpoint.pt` there, next to `config.json` (with `notes`), `history.json` and `tokenizer.json`; `resume` goes on
    from it, that is, from the best record. (The generators of the CPU are restored, those of a GPU are not.)
    Raises CorpusError for splits shorter than a window, ConfigError for a folder that can't be written,
    CheckpointError for a checkpoint that doesn't fit, all before anything is written; TrainingError when the loss is
    no longer a number (the best checkpoint stays).
    """
    T = model.config.context_length
    for name, tokens in (("training", train_tokens), ("validation", val_tokens)):
        if len(tokens) <= T:
            raise CorpusError(f"the {name} split has {len(tokens)} tokens: a context of {T} needs at least {T + 1}")
    if resume and out_dir is None:
        raise ConfigError("resume needs out_dir: the folder with the checkpoint to go on from")
    checkpoint = Path(out_dir) / "checkpoint.pt" if out_dir is not None else None
    saved = load_checkpoint(checkpoint, model.config) if resume else None

    on_cuda = torch.device(config.device).type == "cuda"
    model.to(config.device).train()
    train_tokens, val_tokens = train_tokens.to(config.device), val_tokens.to(config.device)
    optimizer = optimizer or make_optimizer(model, config)
    generator = torch.Generator().manual_seed(config.seed)  # draws the batches
    torch.manual_seed(config.seed)  # draws the dropout
    alphabet = tokenizer.characters if tokenizer else ""
    history = _restore(saved, model, optimizer, generator, alphabet) if saved else History()
    first_step, best = (history[-1].step, _copy(model)) if history else (0, None)
    if first_step > config.max_steps:
        raise ConfigError(f"the checkpoint is already at step {first_step}: max_steps must not be below it")
    if checkpoint:
        prepare_folder(checkpoint.parent)
        settings = {"model": asdict(model.config), "train": asdict(config), "torch": torch.__version__, **(notes or {})}
        write_text(checkpoint.parent / "config.json", json.dumps(settings, indent=1))
        if tokenizer:
            write_text(checkpoint.parent / "tokenizer.json", tokenizer.to_json())
    forward = torch.compile(model) if config.compile and on_cuda else model
    record_at = record_steps(config)

    losses, seconds = [], history[-1].seconds if history else 0.0
    seconds_before = seconds
    for step in range(first_step, config.max_steps + 1):
        if step in record_at and not (saved and step == first_step):
            if not losses:  # step 0: nothing has been trained on yet, so look at the first batch without using it up
                x, y = get_batch(train_tokens, config.batch_size, T, torch.Generator().manual_seed(config.seed))
                with torch.no_grad():
                    losses = [cross_entropy(model(x), y).item()]
            tokens = len(losses) * config.batch_size * T
            speed = tokens / (seconds - seconds_before) if seconds > seconds_before else 0.0
            val_loss = evaluate(model, val_tokens, T)
            _stop_if_not_a_number(val_loss, step)
            rate = learning_rate(step, config)
            history.append(Record(step, sum(losses) / len(losses), val_loss, seconds, speed, rate))
            losses, seconds_before = [], seconds
            if history.best is history[-1]:
                best = _copy(model)
                if checkpoint:
                    _save_checkpoint(checkpoint, model, optimizer, generator, history, alphabet)
            if checkpoint:
                write_text(checkpoint.parent / "history.json", history.to_json())
            if on_record:
                on_record(model, history[-1])
                model.train()
        if step == config.max_steps:
            break
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        x, y = get_batch(train_tokens, config.batch_size, T, generator)
        with torch.autocast("cuda", torch.bfloat16, enabled=config.bfloat16 and on_cuda):
            loss = cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        losses.append(loss.item())
        _stop_if_not_a_number(losses[-1], step)
        seconds += time.perf_counter() - start
    model.load_state_dict(best)
    return history


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _stop_if_not_a_number(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}: training diverged. Try a lower learning rate; "
            "the best checkpoint before it, if any, is kept"
        )


def prepare_folder(folder: str | Path) -> None:
    """Create `folder`; ConfigError when that, or writing into it, is impossible."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / ".writable", "")
        (folder / ".writable").unlink()
    except OSError as error:
        raise ConfigError(f"can't write into the output folder {folder}: {error.strerror}") from None


def write_text(path: Path, text: str) -> None:
    """Write the whole file or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _save_checkpoint(path: Path, model, optimizer, generator: torch.Generator, history: History, alphabet: str) -> None:
    state = {
        "config": asdict(model.config),
        "alphabet": alphabet,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": generator.get_state(),
        "rng": torch.get_rng_state(),
        "history": [asdict(record) for record in history],
    }
    part = path.with_name(path.name + ".part")
    torch.save(state, part)
    os.replace(part, path)


def load_checkpoint(path: str | Path, config: GPTConfig | None = None) -> dict:
    """The state saved at `path`; CheckpointError when it is missing, broken, foreign, or not of `config`."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {path}: train first, or name another folder") from None
    except Exception:  # a damaged archive raises nearly anything
        raise CheckpointError(f"{path} is not a readable checkpoint: it is damaged or of another kind") from None
    expected = {"config": dict, "alphabet": str, "model": dict, "optimizer": dict, "history": list}
    if not isinstance(state, dict) or not all(isinstance(state.get(name), kind) for name, kind in expected.items()):
        raise CheckpointError(f"{path} was not written by this project: it lacks some of {', '.join(expected)}")
    there, here = state["config"], asdict(config) if config is not None else state["config"]
    differing = [
        f"{name} is {there.get(name)} there, {here[name]} here" for name in here if there.get(name) != here[name]
    ]
    if differing:
        raise CheckpointError(f"{path} is a checkpoint of another configuration: {'; '.join(differing)}")
    return state


def _restore(saved: dict, model, optimizer, generator: torch.Generator, alphabet: str) -> History:
    """Put a checkpoint's state into the objects of a training run; return the history up to it."""
    if saved["alphabet"] != alphabet:
        raise CheckpointError("the checkpoint was trained on a text with other characters: resume with the same corpus")
    try:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        generator.set_state(saved["generator"])
        torch.set_rng_state(saved["rng"])
        history = History(Record(**record) for record in saved["history"])
        history[-1]  # an empty one is no history
        return history
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        raise CheckpointError("the checkpoint is incomplete or was changed: train again without resume") from None


def load_model(folder: str | Path) -> tuple[GPT, CharTokenizer]:
    """The best model of a run folder, in evaluation mode, and its tokenizer; CheckpointError when they aren't there."""
    path = Path(folder) / "checkpoint.pt"
    state = load_checkpoint(path)
    try:
        model = GPT(GPTConfig(**state["config"]))
        model.load_state_dict(state["model"])
        tokenizer = CharTokenizer(state["alphabet"])
    except (KeyError, RuntimeError, TypeError, ValueError):
        raise CheckpointError(f"{path} is incomplete, or was trained without a tokenizer") from None
    return model.eval(), tokenizer


def is_finished(folder: str | Path, corpus_name: str) -> bool:
    """Has the run in `folder` made all the steps of its preset, on this corpus? False also when there is none."""
    try:
        history, settings = (
            json.loads((Path(folder) / name).read_text(encoding="utf-8")) for name in ("history.json", "config.json")
        )
        steps = PRESETS[settings["preset"]].train.max_steps
        return settings["corpus"] == corpus_name and history[-1]["step"] >= steps
    except (OSError, ValueError, LookupError, TypeError):
        return False


def start_of_text(tokenizer: CharTokenizer) -> str:
    """What a sample continues when nobody names a prompt: a newline, as at the start of every speech."""
    return "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]


def in_band(loss: float, corpus_name: str, preset: Preset) -> str:
    """One sentence: where `loss` lies in the band that the preset expects on this corpus."""
    if corpus_name not in preset.expected_loss:
        return f"validation loss {loss:.3f}; no band is known for {corpus_name}"
    low, high = preset.expected_loss[corpus_name]
    where = "inside" if low <= loss <= high else "BELOW" if loss < low else "ABOVE"
    return f"validation loss {loss:.3f}, {where} the expected band {low} to {high} for {corpus_name}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.training",
        description="Train a GPT on a text and write config, history, tokenizer, checkpoint and sample into a folder.",
        epilog="presets: " + "; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items()),
    )
    parser.add_argument("--preset", default="laptop", help="size and recipe: smoke, laptop (default) or gpu")
    parser.add_argument("--corpus", help="UTF-8 text file to train on (default: tiny Shakespeare, found or downloaded)")
    parser.add_argument("--out", help="folder for the run (default: build/runs/PRESET in the clone)")
    parser.add_argument("--seed", type=int, default=1, help="for weights, batches, dropout and sample (default: 1)")
    parser.add_argument("--max-steps", type=int, help="number of updates (default: the preset's)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:N or mps")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint in --out, that is, from its best record"
    )
    parser.add_argument("--prompt", help="what the sample continues (default: a newline)")
    parser.add_argument("--temperature", type=float, default=0.8, help="of the sample: below 1 is safer (default: 0.8)")
    parser.add_argument("--sample-length", type=int, default=500, help="characters in sample.txt (default: 500)")
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(errors="replace")  # a terminal may lack characters of the corpus
    try:
        _run(options)
    except HelpersError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    preset = choose_preset(options.preset, max_steps=options.max_steps, seed=options.seed, device=options.device)
    corpus = load_corpus(options.corpus)
    print(corpus)
    tokenizer = CharTokenizer.from_text(corpus.text)
    train_tokens, val_tokens = split(tokenizer.encode(corpus.text), preset.sizes["context_length"])
    prompt = tokenizer.encode(start_of_text(tokenizer) if options.prompt is None else options.prompt)
    torch.manual_seed(preset.train.seed)
    model = GPT(preset.model_config(tokenizer.vocab_size))
    print(f"{count_parameters(model):,} parameters on {preset.train.device}, {torch.get_num_threads()} threads")
    drawing = {"temperature": options.temperature, "generator": torch.Generator().manual_seed(preset.train.seed)}
    generate(model, prompt, min(0, options.sample_length), **drawing)  # shows now what would fail after the training
    folder = Path(options.out or RUNS / options.preset)
    history = train(
        model,
        train_tokens,
        val_tokens,
        preset.train,
        out_dir=folder,
        resume=options.resume,
        on_record=print_record,
        tokenizer=tokenizer,
        notes={"preset": options.preset, "corpus": corpus.name},
    )
    sample = generate(model, prompt.to(preset.train.device), options.sample_length, **drawing)
    write_text(folder / "sample.txt", tokenizer.decode(sample))
    print(in_band(history.best.val_loss, corpus.name, preset))
    print(f"---- {folder / 'sample.txt'} ----\n{tokenizer.decode(sample)}")


def print_record(model: nn.Module, record: Record) -> None:
    """The default `on_record`: one line."""
    print(
        f"step {record.step:5}  train {record.train_loss:.4f}  val {record.val_loss:.4f}  "
        f"{record.tokens_per_second:8,.0f} tokens/s  learning rate {record.learning_rate:.1e}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
