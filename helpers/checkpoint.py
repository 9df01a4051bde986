"""A run in its folder: one file that is whole whatever happens, what it holds, and how to find it
again."""

import hashlib
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from helpers.counted import build_gpt, config_of
from helpers.data import SHA256, Tokenizer, tokenizer_of
from helpers.errors import RunError, shown, write
from helpers.gpt import GPT, GPTConfig
from helpers.optim import TrainConfig

CHECKPOINT = (
    "checkpoint.pt"  # what torch.save writes, and behind it the 64 characters of its SHA-256
)
VIEWS = (
    "config.json",
    "history.json",
    "tokenizer.json",
    "sample.txt",
)  # for people; nothing reads them
MAY_CHANGE = ("max_steps", "warmup_steps", "accumulate", "device", "compile")  # when a run goes on


@dataclass(frozen=True)
class Record:
    """One line of the history, in nats per token.

    `train_loss` is the mean over the batches since the last record (at step 0: the first batch),
    `val_loss` that over the whole validation text. `seconds` is the time that all updates took so
    far; the speed is that since the last record.
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


@dataclass
class Run:
    """All that a run needs to go on, after `step` updates, as if it had never stopped."""

    settings: dict[
        str, Any
    ]  # all that its numbers depend on: text, sizes of the model, TrainConfig
    sizes: dict[str, Any]  # of the model's config
    about: dict[str, Any]  # preset, corpus, versions
    tokenizer: str = ""  # as JSON
    step: int = 0
    losses: list[float] = field(default_factory=list)  # of the updates since the last record
    seconds: float = 0.0
    history: History = field(default_factory=History)
    model: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights of the best record
    optimizer: Any = None
    batches: Tensor | None = None  # the state of the generator that draws them
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by step, in float16

    @property
    def finished(self) -> bool:
        return self.step >= self.settings["max_steps"]

    def add_record(self, model: nn.Module, val_loss: float, rate: float, tokens: int) -> None:
        """A line of the history, the weights if it is the best one, and a snapshot if it is time.

        An update sees so many `tokens`. Snapshots are kept of step 0 and of each record that has at
        least twice the steps of the last one.
        """
        seconds = self.seconds - (self.history[-1].seconds if self.history else 0.0)
        speed = len(self.losses) * tokens / seconds if seconds else 0.0
        train_loss = sum(self.losses) / len(self.losses)
        self.history.append(Record(self.step, train_loss, val_loss, self.seconds, speed, rate))
        self.losses = []
        if self.history.best is self.history[-1]:
            weights = model.state_dict().items()
            self.best = {name: weight.detach().clone() for name, weight in weights}
        if not self.snapshots or self.step >= 2 * max(self.snapshots):
            self.snapshots[self.step] = {name: _half(p) for name, p in model.named_parameters()}


def _half(weight: Tensor) -> Tensor:
    most = torch.finfo(torch.float16).max  # beyond it there would be infinities
    return weight.detach().clamp(-most, most).half().cpu()


def settings_of(
    model: nn.Module,
    config: TrainConfig,
    train_tokens: Tensor,
    val_tokens: Tensor,
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any]:
    """All that the numbers of a run depend on, by name."""
    digest = hashlib.sha256(tokenizer.to_json().encode() if tokenizer else b"")
    for tokens in (train_tokens, val_tokens):
        for piece in tokens.cpu().split(1 << 20):
            digest.update(
                piece.to(torch.int32).numpy().tobytes()
            )  # whatever integer type keeps them
        digest.update(b"|")
    return {"text": digest.hexdigest()} | asdict(model.config) | asdict(config)


# ---------------------------------------------------------------- to save
def save(folder: Path, run: Run) -> None:
    """Replace the checkpoint in one step, then the views; RunError when that fails: the old one
    stays."""
    packed = io.BytesIO()
    torch.save(vars(run) | {"history": [asdict(record) for record in run.history]}, packed)
    archive = packed.getvalue()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / CHECKPOINT, archive + hashlib.sha256(archive).hexdigest().encode())
        write_views(folder, run)
        (folder / "sample.txt").unlink(missing_ok=True)  # of the run as it was before
    except (OSError, RunError) as error:
        why = getattr(error, "strerror", None) or error
        go_on = "go on with --resume" if (folder / CHECKPOINT).exists() else "start again"
        raise RunError(f"can't save in {shown(folder)}: {why}; make room and {go_on}") from None


def write_views(folder: Path, run: Run) -> None:
    """What people may want to read, beside the checkpoint."""
    best = {"step": run.history.best.step, "val_loss": run.history.best.val_loss}
    config = {"step": run.step, "best": best} | run.about | run.settings
    write(folder / "config.json", json.dumps(config, indent=1))
    write(folder / "history.json", json.dumps([asdict(record) for record in run.history], indent=1))
    if run.tokenizer:
        write(folder / "tokenizer.json", run.tokenizer)


# ---------------------------------------------------------------- to read
def load(folder: str | Path) -> Run:
    """The run in `folder`. RunError when there is none, or when a byte of it has changed.

    weights_only=True reads tensors and plain values only: no checkpoint can run a program.
    """
    path = Path(folder) / CHECKPOINT
    try:
        content = path.read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise RunError(
            f"no checkpoint at {shown(path)} ({why}): train first, or name another folder"
        ) from None
    archive, checksum = content[:-64], content[-64:]
    if hashlib.sha256(archive).hexdigest().encode() != checksum:
        raise RunError(
            f"{shown(path)} is damaged, or no run's: its SHA-256 is wrong; use a copy or train anew"
        )
    if archive.endswith(b"sha256:"):
        raise RunError(
            f"{shown(path)} is a run of the first edition: train anew, in another folder"
        )
    try:
        found = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
        found["history"] = History(Record(**record) for record in found["history"])
        return Run(**found)
    except Exception:  # somebody has put a checksum behind something else
        raise RunError(f"{shown(path)} is no run of this project: name another folder") from None


def load_to_go_on(folder: Path, settings: dict[str, Any]) -> Run:
    """The run in `folder`, if it is the one of these settings; RunError names the first that
    differs."""
    run = load(folder)
    for name, asked in settings.items():
        there = run.settings.get(name)
        if there != asked and name == "text":
            raise RunError(f"{shown(folder)} holds another run: it was trained on another text")
        if there != asked and name not in MAY_CHANGE:
            raise RunError(f"{shown(folder)} holds another run: its {name} is {there}, not {asked}")
    if run.step > settings["max_steps"]:
        raise RunError(
            f"{shown(folder)} is at step {run.step:,} already: max_steps must not be below"
        )
    run.settings = settings
    return run


def load_model(folder: str | Path) -> tuple[GPT, Tokenizer]:
    """The best model of a run, in evaluation mode, and its tokenizer; RunError as in `load`."""
    run = load(folder)
    if not run.tokenizer:
        raise RunError(
            f"the run in {shown(folder)} was trained without a tokenizer: it can't write"
        )
    model = build_gpt(config_of(run.sizes))
    model.load_state_dict(run.best)
    return model.eval(), tokenizer_of(run.tokenizer)


def load_snapshots(folder: str | Path) -> list[tuple[int, GPT]]:
    """A run's model as it learned: pairs of a step and a GPT in evaluation mode, the untrained one
    first.

    Then come the models of those records that had at least twice the steps of the one before, all
    of them rounded to float16; last, and not rounded, the run's last state. RunError as in `load`.
    """
    run, models = load(folder), []
    for step, weights in (run.snapshots | {run.step: run.model}).items():
        model = build_gpt(config_of(run.sizes))
        model.load_state_dict(run.model)  # for what is no parameter: a counted text
        model.load_state_dict(weights, strict=False)  # a matrix that two layers share is kept once
        models.append((step, model.eval()))
    return models


# ---------------------------------------------------------------- which folder
def refuse(folder: Path, resume: bool, overwrite: bool) -> None:
    """RunError unless a run may be written into `folder`: what no run wrote is never touched."""
    if resume and overwrite:
        raise RunError("resume goes on with a run, overwrite replaces it: choose one of the two")
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{shown(folder)} is not a folder: name another one for the run")
    there = [name for name in (CHECKPOINT, *VIEWS) if (folder / name).exists()]
    if there and not is_run(folder):
        raise RunError(
            f"{shown(folder)} holds {there[0]}, which no run wrote: choose another folder"
        )
    if there and not (resume or overwrite):
        raise RunError(
            f"{shown(folder)} holds a run already: resume it, overwrite it, or choose another folder"
        )


def is_run(folder: Path) -> bool:
    """Whether a run wrote what lies in `folder`; it may be damaged, or of the first edition."""
    try:
        return bytes.fromhex((folder / CHECKPOINT).read_bytes()[-64:].decode()) != b""
    except (OSError, ValueError):
        return False


def is_trained(folder: Path, corpus_sha256: str, config: GPTConfig, steps: int) -> bool:
    """Whether `folder` holds a finished run of at least so many updates, of such a model on this
    corpus."""
    try:
        run = load(folder)
    except RunError:
        return False
    same = run.sizes == asdict(config) and run.about["corpus_sha256"] == corpus_sha256
    return same and run.finished and run.step >= steps


def plan(
    folder: Path, settings: dict[str, Any], reuse: bool, overwrite: bool, ours: bool
) -> tuple[bool, str]:
    """For a notebook: whether to resume the run in `folder`, and a sentence that says what will
    happen.

    With `reuse`, the same run goes on. Another one is moved aside if the folder is one of `ours`;
    if the user named the folder, it is a RunError.
    """
    if overwrite or not is_run(folder):
        return False, f"a new run, in {folder.name}"
    try:
        if reuse:
            return True, progress(folder, load_to_go_on(folder, settings))
    except RunError:
        if not ours:
            raise
    if not ours:
        return False, f"a new run, in {folder.name}"
    number = 1
    while (aside := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    folder.rename(aside)
    return False, f"a new run, in {folder.name}; what was there is kept in {aside.name}"


def progress(folder: Path, run: Run) -> str:
    steps = f"{run.step:,} of {run.settings['max_steps']:,} steps"
    done = f"the run in {shown(folder.name)} has made {steps}"
    return (
        f"{done}: it is finished, and nothing is left to do"
        if run.finished
        else f"{done}, and goes on"
    )


def best_run(runs: Path) -> tuple[Path, str]:
    """The finished run in `runs` that predicts best, and a sentence that says so; RunError when
    there is none.

    Losses on different texts can't be compared: the text is tiny Shakespeare, or that of the newest
    run.
    """
    found: dict[Path, Run] = {}
    for path in sorted(runs.glob(f"*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime):
        try:
            run = load(path.parent)
        except RunError:
            continue
        if run.finished and run.tokenizer:
            found[path.parent] = run
    if not found:
        raise RunError(f"no finished run in {shown(runs)}: train first, or name a folder by --run")
    of_tiny = [run for run in found.values() if run.about["corpus_sha256"] == SHA256]
    text = (of_tiny or [*found.values()])[-1].settings["text"]
    alike = {folder: run for folder, run in found.items() if run.settings["text"] == text}
    folder = min(alike, key=lambda folder: alike[folder].history.best.val_loss)
    best = alike[folder]
    count = (
        "the only finished run" if len(alike) == 1 else f"the best of {len(alike)} finished runs"
    )
    loss = best.history.best.val_loss
    text = best.about["corpus"] or "its text"
    return folder, f"writing with {folder.name}, validation loss {loss:.3f}: {count} on {text}"
