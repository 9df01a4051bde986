"""What a training run is and where it stands: identity, records, and everything it needs to go on."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from helpers.errors import CheckpointError
from helpers.gpt import GPT, GPTConfig
from helpers.guards import NotNegative, Steps, checked

# Settings that may differ in a resumed run: to train longer, or on another machine.
MAY_CHANGE = {"max_steps", "warmup_steps", "device", "compile"}
MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # what AdamW keeps for each parameter
LARGEST = torch.finfo(torch.float16).max  # beyond it, a snapshot would hold infinities


@checked
@dataclass(frozen=True)
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


@checked
@dataclass(frozen=True)
class Identity:
    """What a run is, with nothing left out that its numbers depend on (`torch` and `python` are for the record)."""

    preset: str
    corpus: str  # its name
    corpus_sha256: str  # of the file
    tokens_sha256: str  # of what was trained and validated on
    alphabet: str
    model: dict[str, Any]  # GPTConfig
    train: dict[str, Any]  # TrainConfig
    torch: str = field(default_factory=lambda: str(torch.__version__))
    python: str = field(default_factory=platform.python_version)

    @classmethod
    def of(cls, model, config, train_tokens, val_tokens, *, tokenizer=None, preset="", corpus=None):
        """The identity of the run that `training.train` makes of these arguments."""
        return cls(
            preset=preset,
            corpus=corpus.name if corpus else "",
            corpus_sha256=corpus.sha256 if corpus else "",
            tokens_sha256=_sha256_of(train_tokens, val_tokens),
            alphabet=tokenizer.characters if tokenizer else "",
            model=asdict(model.config),
            train=asdict(config),
        )

    def difference(self, asked: "Identity") -> str:
        """In words, where `asked` is another run; empty when this run can go on as the one asked for."""
        here, there = ({**run.model, **run.train} for run in (self, asked))
        if (self.tokens_sha256, self.alphabet) != (asked.tokens_sha256, asked.alphabet):
            return "it was trained on another text"
        names = [*asked.model, *asked.train]
        differing = [name for name in names if name not in MAY_CHANGE and here.get(name) != there[name]]
        return "; ".join(f"its {name} is {here.get(name)}, not {there[name]}" for name in differing)


@checked
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
    step: Steps = 0
    losses: list[float] = field(default_factory=list)  # since the last record
    seconds: NotNegative = 0.0
    seconds_before: NotNegative = 0.0  # at the last record

    @property
    def finished(self) -> bool:
        return self.step >= self.identity.train["max_steps"]

    def add_update(self, loss: float, seconds: float) -> None:
        self.step += 1
        self.losses.append(loss)
        self.seconds += seconds

    def add_record(self, model: nn.Module, val_loss: float, tokens_per_step: int, learning_rate: float) -> None:
        tokens, seconds = len(self.losses) * tokens_per_step, self.seconds - self.seconds_before
        train_loss, speed = sum(self.losses) / len(self.losses), tokens / seconds if seconds else 0.0
        self.history.append(Record(self.step, train_loss, val_loss, self.seconds, speed, learning_rate))
        self.losses, self.seconds_before = [], self.seconds
        if self.history.best is self.history[-1]:
            self.best = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        if self.step in self.history.doublings and (self.snapshots or self.step == 0):
            halves = {name: p.detach().clamp(-LARGEST, LARGEST).half() for name, p in model.named_parameters()}
            self.snapshots[self.step] = {name: half.cpu() for name, half in halves.items()}

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
        """Take up what the objects of a training hold now."""
        self.model = model.state_dict()
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.optimizer = {name: dict(optimizer.state[p]) for name, p in trained} if self.step else {}
        self.generators = {"batches": generator.get_state(), "dropout": torch.get_rng_state()}
        device = next(model.parameters()).device
        if device.type == "cuda":
            self.generators["device"] = torch.cuda.get_rng_state(device)
        elif device.type == "mps":
            self.generators["device"] = torch.mps.get_rng_state()

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
        """Put it back into them."""
        model.load_state_dict(self.model)
        names = {parameter: name for name, parameter in model.named_parameters() if parameter.requires_grad}
        if self.step and set(self.optimizer) != set(names.values()):
            raise CheckpointError("the checkpoint can't be used: its optimizer is of another model")
        ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        moments = {i: self.optimizer[names[p]] for i, p in enumerate(ordered) if self.step and p in names}
        # Rates, betas and decay come from the settings, not from a file.
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        generator.set_state(self.generators["batches"])
        torch.set_rng_state(self.generators["dropout"])
        device = next(model.parameters()).device
        if device.type == "cuda" and "device" in self.generators:
            torch.cuda.set_rng_state(self.generators["device"], device)
        elif device.type == "mps" and "device" in self.generators:
            torch.mps.set_rng_state(self.generators["device"])


def _sha256_of(*parts: Tensor) -> str:
    """One checksum over tensors of whole numbers, whatever integer type keeps them."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in part.cpu().split(1 << 20):
            digest.update(piece.to(torch.int32).numpy().tobytes())
        digest.update(b"|")
    return digest.hexdigest()


def check(state: State, model: nn.Module | None = None) -> None:
    """CheckpointError unless all parts fit together and belong to `model` (default: the GPT that they describe)."""
    from helpers.training import TrainConfig  # which imports this module

    def insist(fits: object, what: str) -> None:
        if not fits:
            raise CheckpointError(what)

    identity, steps = state.identity, state.history.column("step")
    config = GPTConfig(**identity.model)
    insist(set(identity.train) == {field.name for field in fields(TrainConfig)}, "its settings are incomplete")
    settings: dict[str, Any] = identity.train | {"device": "cpu"}  # which this machine has
    TrainConfig(**settings)  # each of the right type, and in its range
    insist(len(identity.alphabet) in (0, config.vocab_size), "its alphabet and its vocabulary differ in size")
    insist(len(set(identity.alphabet)) == len(identity.alphabet), "its alphabet has a character twice")
    insist(steps and steps == sorted(set(steps)) and steps[-1] <= state.step, "its history is out of order")
    insist(state.step - steps[-1] == len(state.losses), "its losses and its steps differ in number")
    insist(all(isinstance(loss, float) for loss in state.losses), "its losses are no numbers")
    if model is None:
        insist(config.n_layer < len(state.model), "its weights are of another model")  # or this would take long
        with torch.device("meta"):
            model = GPT(config)
    shapes = {name: (weight.shape, weight.dtype) for name, weight in model.state_dict().items()}
    parameters = {name: parameter.shape for name, parameter in model.named_parameters()}
    halves = {name: (shape, torch.float16) for name, shape in parameters.items()}

    def whole(tensor: Tensor) -> bool:
        # All of its numbers are there, one after the other. A view may claim far more than the file holds, and an
        # optimizer that writes into one writes into foreign memory.
        return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes

    snapshots = list(state.snapshots)  # none, if the run began before there were any
    insist(
        all(type(step) is int for step in snapshots) and snapshots in ([], state.history.doublings),
        "its snapshots and its history differ",
    )
    kept = [(state.model, shapes), (state.best, shapes), *((weights, halves) for weights in state.snapshots.values())]
    for weights, fitting in kept:
        insist({n: (w.shape, w.dtype) for n, w in weights.items()} == fitting, "its weights are of another model")
        insist(all(map(whole, weights.values())), "its weights are not stored whole")
        insist(all(w.isfinite().all() for w in weights.values()), "its weights are not all finite")
    if isinstance(model, GPT) and model.head.weight is model.token_embedding.weight:
        for weights in (state.model, state.best):
            same = torch.equal(weights["head.weight"], weights["token_embedding.weight"])
            insist(same, "its head and its token table differ")
    insist(set(state.optimizer) <= set(parameters), "its optimizer is of another model")
    insist(bool(state.optimizer) == bool(state.step), "its optimizer is incomplete")
    for name, moments in state.optimizer.items():
        insist(set(moments) == MOMENTS, "its optimizer is incomplete")
        for kind, value in moments.items():
            shape = torch.Size() if kind == "step" else parameters[name]
            insist(isinstance(value, Tensor) and value.dtype == torch.float32, "its optimizer holds no numbers")
            insist(value.shape == shape, "its optimizer is of another model")
            insist(whole(value), "its optimizer's numbers are not stored whole")
            insist(value.isfinite().all(), "its optimizer's numbers are not all finite")
            insist(kind != "step" or value == state.step, "its optimizer is at another step")
            insist(kind != "exp_avg_sq" or (value >= 0).all(), "its optimizer has a negative square")
    places = [value.data_ptr() for moments in state.optimizer.values() for value in moments.values() if value.numel()]
    insist(len(set(places)) == len(places), "its optimizer keeps two things in one place")
    torch.Generator().set_state(state.generators["batches"])
    torch.Generator().set_state(state.generators["dropout"])
