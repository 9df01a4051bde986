"""A training that survives a stop: core's loop of updates, with records, saves, and a way back from any of them."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers.core.counted import CountedGPT
from helpers.core.data import get_batch
from helpers.core.optim import TrainConfig, learning_rate, make_optimizer
from helpers.core.training import loss_of, updates
from helpers.runs import checkpoint
from helpers.runs.folder import hold
from helpers.runs.state import Facts, History, Identity, Record, State, load_weights
from helpers.scaling.sharing import Sharing
from helpers.support import console
from helpers.support.errors import ConfigError, CorpusError, TrainingError
from helpers.support.modes import evaluating

OnRecord = Callable[[nn.Module, Record], None]


def train(
    model: nn.Module,
    train_tokens: Integer[Tensor, "N_train"],
    val_tokens: Integer[Tensor, "N_val"],
    config: TrainConfig,
    *,
    out_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    facts: Facts | None = None,
    on_record: OnRecord | None = None,
    sharing: Sharing | None = None,
) -> History:
    """Train `model`, a GPT or another model whose `config` is a GPTConfig, in place; return the history.

    The model is left with the weights of its best record. At each of `record_steps` there is a record, and
    `on_record(model, record)` is called.

    With `out_dir`, that folder holds the run (see helpers/runs/folder.py), and `facts` with it. The run is saved at
    every record, and when Ctrl-C or a signal asks to stop. `resume` goes on from there to the same end, to the last bit
    on the same machine; a finished run stays as it is. `overwrite` replaces the run. With `sharing`, several processes
    that all call `train` do the work together, and their leader alone reads and writes the folder.

    Raises CorpusError for tokens outside the vocabulary, RunError and StorageError for a folder that can't be used,
    CheckpointError for a checkpoint that doesn't fit, all before the run is changed; TrainingError when the loss is
    no longer a number (what was saved stays); console.Stopped when asked to stop.
    """
    sharing = sharing or Sharing()
    sharing.check(config)
    _refuse_misfits(model, train_tokens, val_tokens, facts)
    if isinstance(model, CountedGPT):
        model.count(train_tokens)
    if out_dir is None and (resume or overwrite):
        raise ConfigError("out_dir must name the folder of the run; resume and overwrite need one")
    folder = Path(out_dir) if out_dir is not None and sharing.team.leads else None
    identity = Identity.of(model, config, train_tokens, val_tokens, facts, sharing)
    _refuse_different_starts(sharing.team.everyones(identity))
    holding = nullcontext() if folder is None else hold(folder, resume=resume, overwrite=overwrite)
    with console.stop_requests() as stop, holding:
        training = _Training(model, train_tokens, val_tokens, config, identity, folder, on_record, sharing)
        if resume:
            training.restore()
        training.go(stop)
    load_weights(model, sharing.team.from_leader(training.state.best))
    return training.state.history


class _Training:
    """The objects that a training works with, and the state that is saved of them."""

    def __init__(
        self,
        model: nn.Module,
        train_tokens: Tensor,
        val_tokens: Tensor,
        config: TrainConfig,
        identity: Identity,
        folder: Path | None,
        on_record: OnRecord | None,
        sharing: Sharing,
    ):
        self.model = model.to(config.device)
        self.train_tokens = train_tokens.to(config.device)
        self.val_tokens = val_tokens.to(config.device)
        self.config = config
        self.folder = folder
        self.on_record = on_record
        self.sharing = sharing
        self.wrapped = sharing.wrap(self.model)
        self.optimizer = make_optimizer(model, config)
        self.generator = torch.Generator().manual_seed(config.seed)  # draws the batches
        torch.manual_seed(config.seed)  # draws the dropout
        self.state = State(identity)

    def restore(self) -> None:
        if self.folder is not None:
            self.state = checkpoint.load(self.folder, self.model, self.state.identity)
            checkpoint.write_views(self.folder, self.state)  # a kill may have come after the checkpoint and before them
        self.state = self.sharing.team.from_leader(self.state)
        self.state.restore(self.model, self.optimizer, self.generator)

    def go(self, stop: console.Request) -> None:
        state = self.state
        record_at = set(record_steps(self.config))
        if not state.history or self._ends_without_a_record:
            self.record()
        started = time.perf_counter()
        for loss in updates(
            self.wrapped,
            self.train_tokens,
            self.sharing.settings(self.config),
            self.optimizer,
            self.generator,
            first_step=state.step,
            learn=self.sharing.learn,
        ):
            state.add_update(_number(loss, state.step), time.perf_counter() - started)
            if state.step in record_at:
                self.record()
            if number := self.sharing.team.largest(stop.number or 0):
                self.stop(number)
            started = time.perf_counter()

    @property
    def _ends_without_a_record(self) -> bool:
        """A run that was stopped between two records may be asked, when it is resumed, to end just there."""
        return self.state.finished and bool(self.state.losses)

    def record(self) -> None:
        state = self.state
        T = self.model.config.context_length
        if not state.losses:
            state.losses = [self.first_loss()]
        val_loss = _number(self.sharing.evaluate(self.model, self.val_tokens, T), state.step)
        state.add_record(self.model, val_loss, self.config.batch_size * T, learning_rate(state.step, self.config))
        self.save()
        if self.on_record:
            self.on_record(self.model, state.history[-1])

    def first_loss(self) -> float:
        """The loss of the first batch, before anything is trained.

        A generator of its own draws the batch, so that the training gets the same one.
        """
        generator = torch.Generator().manual_seed(self.config.seed)
        x, y = get_batch(self.train_tokens, self.config.batch_size, self.model.config.context_length, generator)
        with torch.no_grad(), evaluating(self.model):
            return loss_of(self.model, x, y).item()

    def save(self) -> None:
        if self.folder is not None or self.sharing.fsdp:  # cut weights are gathered by all
            self.state.keep(self.model, self.optimizer, self.generator)
        if self.folder is not None:
            checkpoint.save(self.folder, self.state)

    def stop(self, signal: int) -> None:
        self.save()
        self.sharing.team.from_leader(None)  # when one process ends, torchrun ends all: the leader saves first
        if not self.sharing.team.leads:
            raise console.Silent(128 + signal)
        done = f"after {self.state.step:,} of {self.config.max_steps:,} steps"
        kept = (
            f"all saved in {console.shown(self.folder)}: resume continues from there"
            if self.folder
            else "none of them saved"
        )
        raise console.Stopped(signal, f"{done}, {kept}")


def record_steps(config: TrainConfig) -> list[int]:
    """0, three early ones, where learning is fastest, every `eval_interval`, and `max_steps`."""
    early = {config.eval_interval // part for part in (10, 5, 2)}
    regular = range(0, config.max_steps, config.eval_interval)
    return sorted(step for step in {*early, *regular, config.max_steps} if step <= config.max_steps)


def print_record(model: nn.Module, record: Record) -> None:
    """For `on_record`: one line."""
    print(
        f"step {record.step:5}  train {record.train_loss:.4f}  val {record.val_loss:.4f}  "
        f"{record.tokens_per_second:8,.0f} tokens/s  learning rate {record.learning_rate:.1e}",
        flush=True,
    )


def _refuse_misfits(model: nn.Module, train_tokens: Tensor, val_tokens: Tensor, facts: Facts | None) -> None:
    """What would go wrong late, after work, or without a word: it is refused before the first step."""
    T, V = model.config.context_length, model.config.vocab_size
    for name, tokens in (("training", train_tokens), ("validation", val_tokens)):
        if len(tokens) <= T:
            raise CorpusError(f"the {name} split has {len(tokens)} tokens: a context of {T} needs at least {T + 1}")
        if not 0 <= int(tokens.min()) <= int(tokens.max()) < V:
            raise CorpusError(f"the {name} split has a token outside the vocabulary of 0 .. {V - 1}")
    if facts and facts.tokenizer and facts.tokenizer.vocab_size != V:
        raise ConfigError(f"the tokenizer has {facts.tokenizer.vocab_size} characters, and the model's vocabulary {V}")
    if any(p.dtype != torch.float32 for p in model.parameters()):
        raise ConfigError("weights are trained in float32: model.float() makes them so; bfloat16 is a setting")


def _refuse_different_starts(identities: list[Identity]) -> None:
    """Processes that train on different texts, as when one machine lacks the text, would spoil a run without a word."""
    first = identities[0]
    for rank, other in enumerate(identities):
        why = first.difference(other)
        if first.train["max_steps"] != other.train["max_steps"]:
            why = "its max_steps is another"
        if first.shared_by != other.shared_by:
            why = f"it shares the work as {first.shared_by}, not as {other.shared_by}"
        if why:
            raise ConfigError(f"process 0 was started otherwise than process {rank}: {why}")


def _number(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}: training diverged. Try a lower learning rate; what was saved is kept"
        )
    return loss
