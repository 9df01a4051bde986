"""A run in its folder: one file that is whole whatever happens, and what it holds."""

import hashlib
import io
import json
import os
import platform
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from helpers import team
from helpers.counted import CountedConfig
from helpers.data import SHA256, CharTokenizer, Corpus, PreparedCorpus
from helpers.errors import ConfigError, RunError
from helpers.files import write
from helpers.gpt import GPT, GPTConfig
from helpers.models import build_gpt, config_of
from helpers.optim import Optimizer, TrainConfig

CHECKPOINT = "checkpoint.pt"  # what torch.save writes, then the 64 hex digits of its SHA-256
# For people to read; the code reads only sample.txt.
VIEWS = ("config.json", "history.json", "tokenizer.json", "sample.txt")
# Settings that a resume may change.
MAY_CHANGE = ("max_steps", "warmup_steps", "accumulate", "device", "compile")
# What a setting is in a run that was saved before there was such a setting.
DEFAULTS = {
    field.name: field.default
    for config in (CountedConfig, TrainConfig)
    for field in fields(config)
    if field.default is not MISSING
}


@dataclass(frozen=True)
class Record:
    """One line of the history, in nats per token.

    `train_loss` is the mean over the batches since the last record (at step 0: the first batch),
    `val_loss` that over the whole validation text. `seconds` is the time that all updates took so
    far; `tokens_per_second` covers the updates since the last record.
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

    settings: dict[str, Any]  # all that its numbers depend on: text, sizes, TrainConfig
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

    def take_state(self, model: nn.Module, optimizer: Optimizer, batches: torch.Generator) -> None:
        """Keep the state that a resume needs."""
        self.model, self.optimizer = model.state_dict(), optimizer.state_dict()
        self.batches = batches.get_state()

    def has_record(self) -> bool:
        """Whether this step is recorded already."""
        return bool(self.history) and self.history[-1].step == self.step

    def add(self, record: Record, model: nn.Module) -> None:
        """Put a record of this step into the history, and the weights it measured where due."""
        self.losses = []
        self.history.append(record)
        if self.history.best is record:
            self.best = {name: t.detach().clone() for name, t in model.state_dict().items()}
        if not self.snapshots or self.step >= 2 * max(self.snapshots):
            largest = torch.finfo(torch.float16).max
            self.snapshots[self.step] = {
                name: parameter.detach().clamp(-largest, largest).half().cpu()
                for name, parameter in model.named_parameters()
            }


def new_run(
    model: nn.Module,
    config: TrainConfig,
    train_tokens: Tensor,
    val_tokens: Tensor,
    corpus: Corpus | PreparedCorpus | None,
    preset: str,
) -> Run:
    """A run at its first step: what its numbers depend on, and where it comes from."""
    tokenizer = corpus.tokenizer if corpus else None
    return Run(
        settings=settings_of(model, config, train_tokens, val_tokens, tokenizer),
        sizes=asdict(model.config),
        about={
            "preset": preset,
            "corpus": corpus.name if corpus else "",
            "corpus_sha256": corpus.sha256 if corpus else "",
            "shared_by": f"{team.size()} processes",
            "launch": team.LAUNCH,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        tokenizer=tokenizer.to_json() if tokenizer else "",
    )


def settings_of(
    model: nn.Module,
    config: TrainConfig,
    train_tokens: Tensor,
    val_tokens: Tensor,
    tokenizer: CharTokenizer | None = None,
) -> dict[str, Any]:
    """All that the numbers of a run depend on, by name; "text" is a SHA-256."""
    digest = hashlib.sha256(tokenizer.to_json().encode() if tokenizer else b"")
    for tokens in (train_tokens, val_tokens):
        for piece in tokens.cpu().split(1 << 20):
            digest.update(piece.to(torch.int32).numpy().tobytes())  # whatever type keeps them
        digest.update(b"|")
    return {"text": digest.hexdigest()} | asdict(model.config) | asdict(config)


# ---------------------------------------------------------------- to save
def save(folder: Path, run: Run) -> None:
    """Replace the checkpoint in one step, then the views.

    RunError when that fails: the old checkpoint stays.
    """
    file = io.BytesIO()
    torch.save(vars(run) | {"history": [asdict(record) for record in run.history]}, file)
    archive = file.getvalue()
    write(folder / CHECKPOINT, archive + hashlib.sha256(archive).hexdigest().encode())
    write_views(folder, run)


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
        raise RunError(f"no checkpoint at {path} ({error.strerror}): train first, or name another folder") from None
    archive, checksum = content[:-64], content[-64:]
    if hashlib.sha256(archive).hexdigest().encode() != checksum:
        raise RunError(f"{path} is damaged, or is no run: its SHA-256 is wrong; use a copy or train anew")
    try:
        saved = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
        saved["history"] = History(Record(**record) for record in saved["history"])
        return Run(**saved)
    except Exception:  # somebody has put a checksum behind something else
        raise RunError(f"{path} is no run of this project: name another folder") from None


def load_for_resume(folder: Path, settings: dict[str, Any]) -> Run:
    """The run in `folder`, to go on with these settings; RunError names the first that differs.

    A setting that one of them lacks has its default there: the run was saved before there was such
    a setting, or by another class of model.
    """
    run = load(folder)
    for name in settings | run.settings:
        saved, new = (config.get(name, DEFAULTS.get(name)) for config in (run.settings, settings))
        if saved == new or name in MAY_CHANGE:
            continue
        if name == "text":
            raise RunError(f"{folder} holds another run: it was trained on another text")
        raise RunError(f"{folder} holds another run: its {name} is {saved}, not {new}")
    if run.step > settings["max_steps"]:
        raise RunError(f"{folder} is at step {run.step:,} already: max_steps must not be below")
    run.settings = settings
    return run


def load_model(folder: str | Path) -> tuple[GPT, CharTokenizer]:
    """The best model of a run, in evaluation mode, and its tokenizer.

    RunError as in `load`; ConfigError for a model of another version.
    """
    run = load(folder)
    if not run.tokenizer:
        raise RunError(f"the run in {folder} has no tokenizer: it can't write")
    model = build_gpt(config_of(run.sizes))
    model.load_state_dict(run.best)
    return model.eval(), CharTokenizer.from_json(run.tokenizer)


def load_snapshots(folder: str | Path) -> list[tuple[int, GPT]]:
    """A run's model as it learned: steps, each with a GPT in evaluation mode.

    First the untrained one, then those of the records that had at least twice the steps of the one
    before, all of them rounded to float16; last, not rounded, the run's last state. RunError as in
    `load`.
    """
    run, models = load(folder), []
    for step, weights in (run.snapshots | {run.step: run.model}).items():
        model = build_gpt(config_of(run.sizes))
        model.load_state_dict(run.model)  # for what is no parameter: a counted text
        model.load_state_dict(weights, strict=False)  # a matrix that two layers share is kept once
        models.append((step, model.eval()))
    return models


# ---------------------------------------------------------------- which folder
def refuse_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """RunError unless a run may be written into `folder`: what no run wrote is never touched."""
    if resume and overwrite:
        raise RunError("resume goes on with a run, overwrite replaces it: choose one of the two")
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is not a folder: name another one for the run")
    names = [name for name in (CHECKPOINT, *VIEWS) if (folder / name).exists()]
    if names and not is_run(folder):
        raise RunError(f"{folder} holds {names[0]}, which no run wrote: choose another folder")
    if names and not (resume or overwrite):
        raise RunError(f"{folder} holds a run already: resume it, overwrite it, or choose another folder")


def is_run(folder: Path) -> bool:
    """Whether a run wrote what lies in `folder`; it may be damaged."""
    try:
        with (folder / CHECKPOINT).open("rb") as file:
            file.seek(-64, os.SEEK_END)
            return len(bytes.fromhex(file.read().decode())) == 32
    except (OSError, ValueError):
        return False


def was_launched_now(folder: Path) -> bool:
    """Whether the run in `folder` was saved under the torchrun that has started this process."""
    try:
        return load(folder).about.get("launch") == team.LAUNCH
    except RunError:
        return False


def is_trained(folder: Path, corpus_sha256: str, config: GPTConfig, steps: int) -> bool:
    """Whether `folder` holds a finished run of at least this many updates, of this model on this corpus."""
    try:
        run = load(folder)
        same = config_of(run.sizes) == config and run.about["corpus_sha256"] == corpus_sha256
    except (RunError, ConfigError):  # none, or one of another version
        return False
    return same and run.finished and run.step >= steps


def prepare_folder(
    folder: Path, settings: dict[str, Any], reuse: bool, overwrite: bool, may_move_aside: bool
) -> tuple[bool, str]:
    """For a notebook: whether to resume the run in `folder`, and a sentence on what will happen.

    With `reuse`, the same run goes on. Another run in a folder that was named by default
    (`may_move_aside`) gets a new name, and the sentence says why; where the user named the folder,
    it is a RunError.
    """
    fresh = f"a new run, in {folder.name}"
    if overwrite or not is_run(folder):
        return False, fresh
    why = ""
    try:
        if reuse:
            return True, describe_progress(folder, load_for_resume(folder, settings))
    except RunError as error:
        if not may_move_aside:
            raise
        why = f" ({str(error).replace(str(folder), folder.name)})"
    if not may_move_aside:
        return False, fresh
    number = 1
    while (aside := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    folder.rename(aside)
    return False, f"{fresh}; what was there is kept in {aside.name}{why}"


def describe_progress(folder: Path, run: Run) -> str:
    """A sentence: how far a run has come, and whether it goes on."""
    steps = f"{run.step:,} of {run.settings['max_steps']:,} steps"
    then = ": it is finished, and nothing is left to do" if run.finished else ", and goes on"
    return f"the run in {folder.name} has made {steps}{then}"


def best_run(runs: Path) -> tuple[Path, str]:
    """The finished run in `runs` with the lowest loss, and a sentence that says so.

    Losses on different texts can't be compared: runs on tiny Shakespeare come first. RunError when
    there is no finished run; those that can't be read are passed over.
    """
    finished: dict[Path, Run] = {}
    for path in sorted(runs.glob(f"*/{CHECKPOINT}")):
        with suppress(RunError):
            run = load(path.parent)
            if run.finished and run.tokenizer:
                finished[path.parent] = run
    if not finished:
        raise RunError(f"no finished run in {runs}: train first, or name a folder by --run")
    on_tiny = {at: run for at, run in finished.items() if run.about["corpus_sha256"] == SHA256}
    rivals = on_tiny or finished
    folder = min(rivals, key=lambda at: rivals[at].history.best.val_loss)
    loss = f"validation loss {rivals[folder].history.best.val_loss:.3f}"
    text = rivals[folder].about["corpus"] or "its text"
    return folder, f"writing with {folder.name}, {loss}, the lowest on {text}"
