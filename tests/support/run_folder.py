"""What the tests of a run share: its end, ways to stop it, and small models with every part."""

import dataclasses
import signal
from typing import Any

import torch

from helpers import checkpoint
from helpers.presets import Preset

ALPHABET = "".join(map(chr, range(65)))

# All that the quick presets have and the plain ones lack, in small.
TODAY: dict[str, Any] = dict(
    rotary=True,
    qk_norm=True,
    mlp="relu2",
    zero_start=True,
    softcap=15.0,
    tied=False,
    bigrams=500,
    before=2,
)
# And `counted`, the length of the text, which the fixtures know.
COUNTED: dict[str, Any] = dict(lengths=(1, 2, 4))
MUON: dict[str, Any] = dict(
    optimizer="muon",
    muon_scale=2.0,
    schedule="stable",
    decay=0.6,
    learning_rate=0.01,
    min_learning_rate=0.0,
    windows=((0.5, 4),),  # of 12 steps, update 6 (the seventh) is the first with the whole context
)


def in_small(preset: Preset) -> Preset:
    """The preset in sizes for a test: the same changes to the model, the same way to train."""
    tables = {name: 500 for name in ("bigrams", "trigrams", "fourgrams") if name in preset.model}
    windows = tuple((share, 8) for share, _ in preset.training.windows)
    sizes = dict(batch_size=4, max_steps=12, eval_interval=4, windows=windows)
    training = dataclasses.replace(preset.training, **sizes, warmup_steps=0, compile=False, device="cpu")
    model = {
        **preset.model,
        **tables,
        "context_length": 32,
        "n_layer": 1,
        "n_head": 2,
        "n_embd": 32,
    }
    return dataclasses.replace(preset, model=model, training=training)


def end_of(folder) -> Any:
    """All that must be equal after a stop and a resume, to the last bit; the clock is left out."""
    run = vars(checkpoint.load(folder))
    run["history"] = [{**dataclasses.asdict(r), "seconds": 0, "tokens_per_second": 0} for r in run["history"]]
    run["settings"]["max_steps"] = run["seconds"] = run["about"] = 0
    return plain(run)


def plain(value: Any) -> Any:
    """Tensors as Python numbers, all the way down: they can be compared by ==."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def stop_at(step, number=signal.SIGTERM):
    """An `on_record` that asks the training to stop."""
    return lambda model, record: signal.raise_signal(number) if record.step == step else None
