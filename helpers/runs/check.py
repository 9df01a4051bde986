"""Whether a checkpoint makes sense: all its parts fit together and belong to the model that they describe."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from helpers.core.counted import CountedGPT, build_gpt, config_of
from helpers.core.gpt import GPT
from helpers.core.optim import TrainConfig, muon_matrices
from helpers.runs.state import Identity, State
from helpers.scaling.vocabulary import tokenizer_of
from helpers.support.errors import CheckpointError

# What an optimizer keeps for each of its parameters.
OF_ADAMW = {"step", "exp_avg", "exp_avg_sq"}
OF_MUON = {"momentum"}


def check(state: State, model: nn.Module | None = None) -> None:
    """CheckpointError unless all parts fit together and belong to `model` (default: the GPT that they describe).

    A value of a wrong type may raise any error: the caller takes that for a refusal, too.
    """
    config = config_of(state.identity.model)
    said: dict[str, Any] = state.identity.train | {"device": "cpu"}  # which every machine has
    settings = TrainConfig(**said)  # each of the right type, and in its range
    _check_vocabulary(state.identity, config.vocab_size)
    _check_history(state)
    if model is None:
        _insist(config.n_layer < len(state.model), "its weights are of another model")  # or this would take long
        with torch.device("meta"):
            described = build_gpt(config)
    _check_weights(state, model or described)
    _check_optimizer(state, model or described, settings)
    if model is not None and state.step:  # nobody but a model knows which of its weights are frozen
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        _insist(set(state.optimizer) == trained, "its optimizer is of another model")
    torch.Generator().set_state(state.generators["batches"])
    torch.Generator().set_state(state.generators["dropout"])


def _insist(fits: object, what: str) -> None:
    if not fits:
        raise CheckpointError(what)


def _check_vocabulary(identity: Identity, vocab_size: int) -> None:
    alphabet = identity.alphabet
    if identity.tokenizer:
        _insist(not alphabet, "it has two tokenizers")
        _insist(tokenizer_of(identity.tokenizer).vocab_size == vocab_size, "its tokenizer is of another vocabulary")
    _insist(len(alphabet) in (0, vocab_size), "its alphabet and its vocabulary differ in size")
    _insist(len(set(alphabet)) == len(alphabet), "its alphabet has a character twice")


def _check_history(state: State) -> None:
    steps = state.history.column("step")
    _insist(type(state.step) is int, "its step is no whole number")
    _insist(steps and steps == sorted(set(steps)) and steps[-1] <= state.step, "its history is out of order")
    _insist(isinstance(state.losses, list), "its losses are no list")
    _insist(state.step - steps[-1] == len(state.losses), "its losses and its steps differ in number")
    numbers = [*state.losses, state.seconds, state.seconds_before]
    _insist(all(isinstance(number, float) for number in numbers), "its losses or its seconds are no numbers")
    _insist(0 <= state.seconds_before <= state.seconds < math.inf, "its seconds make no sense")
    snapshots = list(state.snapshots)  # none, if the run began before there were any
    _insist(
        all(type(step) is int for step in snapshots) and snapshots in ([], state.history.doublings),
        "its snapshots and its history differ",
    )


def _check_weights(state: State, model: nn.Module) -> None:
    whole = {name: (weight.shape, weight.dtype) for name, weight in model.state_dict().items()}
    halves = {name: (parameter.shape, torch.float16) for name, parameter in model.named_parameters()}
    kept = [(state.model, whole), (state.best, whole)]
    kept += [(weights, halves) for weights in state.snapshots.values()]
    for weights, fitting in kept:
        _insist({n: (w.shape, w.dtype) for n, w in weights.items()} == fitting, "its weights are of another model")
        _insist(all(_is_whole(weight) for weight in weights.values()), "its weights are not stored whole")
        _insist(all(weight.isfinite().all() for weight in weights.values()), "its weights are not all finite")
    if isinstance(model, CountedGPT):
        letters = set(range(model.config.vocab_size))
        for weights in (state.model, state.best):
            _insist(letters.issuperset(weights["text"].unique().tolist()), "its text is not of its vocabulary")
    if isinstance(model, GPT) and model.head.weight is model.token_embedding.weight:
        for weights in (state.model, state.best):
            same = torch.equal(weights["head.weight"], weights["token_embedding.weight"])
            _insist(same, "its head and its token table differ")


def _check_optimizer(state: State, model: nn.Module, settings: TrainConfig) -> None:
    parameters = dict(model.named_parameters())
    by_muon = set(muon_matrices(model)) if settings.optimizer == "muon" else set()
    of_ours = settings.optimizer in ("adamw", "muon")  # of others nobody here knows what they keep
    _insist(bool(state.optimizer) == bool(state.step), "its optimizer is at another step")
    _insist(set(state.optimizer) <= set(parameters), "its optimizer is of another model")
    for name, moments in state.optimizer.items():
        parameter = parameters[name]
        kept = OF_MUON if parameter in by_muon else OF_ADAMW
        _insist(not of_ours or set(moments) == kept, "its optimizer is incomplete")
        for kind, value in moments.items():
            shape = torch.Size() if kind == "step" else parameter.shape
            _insist(isinstance(value, Tensor) and value.dtype == torch.float32, "its optimizer holds no numbers")
            _insist(value.shape == shape, "its optimizer is of another model")
            _insist(_is_whole(value), "its optimizer's numbers are not stored whole")
            _insist(value.isfinite().all(), "its optimizer's numbers are not all finite")
            _insist(kind != "step" or value == state.step, "its optimizer is at another step")
            _insist(kind != "exp_avg_sq" or (value >= 0).all(), "its optimizer has a negative square")
    tensors = [value for moments in state.optimizer.values() for value in moments.values() if value.numel()]
    places = {value.data_ptr() for value in tensors}
    _insist(len(places) == len(tensors), "its optimizer keeps two things in one place")


def _is_whole(tensor: Tensor) -> bool:
    """Whether all of its numbers are there, one after the other. A view may claim far more than the file holds, and an
    optimizer that writes into such a view writes into foreign memory."""
    return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
