"""What a training run is and where it stands: identity, records, and everything it needs to go on."""

import hashlib
import json
import platform
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from helpers.core.gpt import GPTConfig
from helpers.core.modern import ModernConfig
from helpers.core.optim import Optimizer, TrainConfig
from helpers.scaling.shards import Prepared
from helpers.scaling.sharing import Sharing, cut_like, whole
from helpers.scaling.vocabulary import Tokenizer
from helpers.support.guards import NotNegative, Steps, settings
from helpers.world.corpus import Corpus

# Settings that may differ in a resumed run: to train longer, or on another machine.
MAY_CHANGE = {"max_steps", "warmup_steps", "device", "compile"}
# What a setting was before there was any: a run of then lacks it.
DEFAULTS = {entry.name: entry.default for entry in fields(TrainConfig) if entry.default is not MISSING}
LARGEST = torch.finfo(torch.float16).max  # beyond it, a snapshot would hold infinities


@settings
class Record:
    """One line of the history, in nats per character.

    `train_loss` is the mean over the batches since the last record (at step 0: the first batch), `val_loss` that over
    the whole validation split; `seconds` is the time spent on updates so far, evaluation left out; the speed is that
    since the last record (0 at step 0).
    """

    step: Steps
    train_loss: NotNegative
    val_loss: NotNegative
    seconds: NotNegative
    tokens_per_second: NotNegative
    learning_rate: NotNegative


class History(list[Record]):
    """The records of a run, in order of their steps."""

    @property
    def best(self) -> Record:
        return min(self, key=lambda record: record.val_loss)

    @property
    def doublings(self) -> list[int]:
        """The steps at which snapshots are kept: the first, then each record that has twice the steps of the last."""
        kept: list[int] = []
        for record in self:
            if not kept or record.step >= 2 * kept[-1]:
                kept.append(record.step)
        return kept

    def column(self, name: str) -> list[int | float]:
        return [getattr(record, name) for record in self]

    def to_json(self) -> str:
        return json.dumps([asdict(record) for record in self], indent=1)


@dataclass(frozen=True)
class Facts:
    """What a run keeps besides its numbers: what its tokens mean, and where they come from."""

    tokenizer: Tokenizer | None = None
    preset: str = ""
    corpus: Corpus | Prepared | None = None


@settings
class Identity:
    """What a run is: all that its numbers depend on. (`shared_by`, `torch` and `python` are not compared.)"""

    preset: str
    corpus: str  # its name
    corpus_sha256: str  # of the file
    tokens_sha256: str  # of what was trained and validated on
    alphabet: str  # of characters
    model: dict[str, Any]  # GPTConfig, or ModernConfig
    train: dict[str, Any]  # TrainConfig
    shared_by: str = "one process"  # who trained it: see helpers/scaling
    torch: str = field(default_factory=lambda: str(torch.__version__))
    python: str = field(default_factory=platform.python_version)
    tokenizer: str = ""  # as JSON, when tokens are no characters

    @classmethod
    def of(
        cls,
        model: nn.Module,
        config: TrainConfig,
        train_tokens: Tensor,
        val_tokens: Tensor,
        facts: Facts | None = None,
        sharing: Sharing | None = None,
    ) -> "Identity":
        """The identity of the run that `train` makes of these arguments."""
        facts = facts or Facts()
        alphabet = getattr(facts.tokenizer, "characters", "")
        return cls(
            preset=facts.preset,
            corpus=facts.corpus.name if facts.corpus else "",
            corpus_sha256=facts.corpus.sha256 if facts.corpus else "",
            tokens_sha256=_sha256_of(train_tokens, val_tokens),
            alphabet=alphabet,
            tokenizer=facts.tokenizer.to_json() if facts.tokenizer and not alphabet else "",
            model=asdict(model.config),
            train=asdict(config),
            shared_by=str(sharing or Sharing()),
        )

    def going_on_as(self, asked: "Identity", step: int) -> "Identity":
        """The identity asked for, with all who have shared the work so far."""
        last = self.shared_by.rpartition(": ")[2]
        if last == asked.shared_by:
            return replace(asked, shared_by=self.shared_by)
        return replace(asked, shared_by=f"{self.shared_by}; from step {step}: {asked.shared_by}")

    @property
    def _text(self) -> tuple[str, str, str]:
        return self.tokens_sha256, self.alphabet, self.tokenizer

    def difference(self, asked: "Identity") -> str:
        """What makes `asked` another run, in words; empty when this run can go on as the one asked for."""
        if self._text != asked._text:
            return "it was trained on another text"
        here = {**_defaults(asked.model), **self.model, **DEFAULTS, **self.train}
        there = {**asked.model, **DEFAULTS, **asked.train}
        names = [name for name in {**there, **here} if name not in MAY_CHANGE and here.get(name) != there.get(name)]
        return "; ".join(f"its {name} is {here.get(name)}, not {there.get(name)}" for name in names)


def _defaults(model: dict[str, Any]) -> dict[str, Any]:
    """What the fields of a model's config were before there were any: a run of then lacks them."""
    kind = ModernConfig if "rotary" in model else GPTConfig
    return {entry.name: entry.default for entry in fields(kind) if entry.default is not MISSING}


@dataclass
class State:
    """Everything that a run needs to go on, after `step` updates, as if it had never stopped."""

    identity: Identity
    model: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights of the best record
    optimizer: dict[str, dict[str, Any]] = field(default_factory=dict)  # its moments, by the name of the parameter
    generators: dict[str, Tensor] = field(default_factory=dict)
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by step: the parameters, in float16
    history: History = field(default_factory=History)
    step: int = 0
    losses: list[float] = field(default_factory=list)  # since the last record
    seconds: float = 0.0
    seconds_before: float = 0.0  # at the last record

    @property
    def finished(self) -> bool:
        return self.step >= self.identity.train["max_steps"]

    def add_update(self, loss: float, seconds: float) -> None:
        self.step += 1
        self.losses.append(loss)
        self.seconds += seconds

    def add_record(self, model: nn.Module, val_loss: float, tokens_per_step: int, learning_rate: float) -> None:
        tokens = len(self.losses) * tokens_per_step
        seconds = self.seconds - self.seconds_before
        train_loss = sum(self.losses) / len(self.losses)
        speed = tokens / seconds if seconds else 0.0
        self.history.append(Record(self.step, train_loss, val_loss, self.seconds, speed, learning_rate))
        self.losses = []
        self.seconds_before = self.seconds
        if self.history.best is self.history[-1]:
            self.best = {name: weight.detach().clone() for name, weight in whole(model.state_dict()).items()}
        if self.step in self.history.doublings and (self.snapshots or self.step == 0):
            self.snapshots[self.step] = {name: _half(p) for name, p in whole(dict(model.named_parameters())).items()}

    def keep(self, model: nn.Module, optimizer: Optimizer, generator: torch.Generator) -> None:
        """Take up what the objects of a training hold now."""
        self.model = whole(model.state_dict())
        moments = {parameter: kept for part in parts_of(optimizer) for parameter, kept in part.state.items()}
        self.optimizer = {name: whole(moments[p]) for name, p in model.named_parameters() if p in moments}
        self.generators = {"batches": generator.get_state(), "dropout": torch.get_rng_state()}
        device = next(model.parameters()).device
        if device.type == "cuda":
            self.generators["device"] = torch.cuda.get_rng_state(device)
        elif device.type == "mps":
            self.generators["device"] = torch.mps.get_rng_state()

    def restore(self, model: nn.Module, optimizer: Optimizer, generator: torch.Generator) -> None:
        """Put what was kept back into the objects of a training."""
        load_weights(model, self.model)
        names = {parameter: name for name, parameter in model.named_parameters()}
        for part in parts_of(optimizer):
            ordered = [parameter for group in part.param_groups for parameter in group["params"]]
            kept = {i: (self.optimizer.get(names[parameter], {}), parameter) for i, parameter in enumerate(ordered)}
            moments = {i: cut_moments(found, parameter) for i, (found, parameter) in kept.items() if found}
            # Rates, betas and decay come from the settings, not from a file.
            part.load_state_dict({"state": moments, "param_groups": part.state_dict()["param_groups"]})
        generator.set_state(self.generators["batches"])
        torch.set_rng_state(self.generators["dropout"])
        device = next(model.parameters()).device
        if device.type == "cuda" and "device" in self.generators:
            torch.cuda.set_rng_state(self.generators["device"], device)
        elif device.type == "mps" and "device" in self.generators:
            torch.mps.set_rng_state(self.generators["device"])


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Whole weights into a model, whether its own are whole or cut."""
    own = model.state_dict()
    model.load_state_dict({name: cut_like(weight, own[name]) for name, weight in weights.items()})


def cut_moments(kept: dict[str, Tensor], parameter: Tensor) -> dict[str, Tensor]:
    return {kind: value if kind == "step" else cut_like(value, parameter) for kind, value in kept.items()}


def parts_of(optimizer: Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers in a Together; any other optimizer alone."""
    return getattr(optimizer, "optimizers", (optimizer,))


def _half(weight: Tensor) -> Tensor:
    return weight.detach().clamp(-LARGEST, LARGEST).half().cpu()


def _sha256_of(*parts: Tensor) -> str:
    """One checksum over tensors of whole numbers, whatever integer type keeps them."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in part.cpu().split(1 << 20):
            digest.update(piece.to(torch.int32).numpy().tobytes())
        digest.update(b"|")
    return digest.hexdigest()
