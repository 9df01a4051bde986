"""Sizes and recipes that are known to work, with the loss to expect from each."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxtyping import Integer
from torch import Tensor

from helpers import ROOT
from helpers.counted import CountedConfig, CountedGPT
from helpers.data import BUNDLED, TINY, Corpus, PreparedCorpus
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.models import build_gpt, config_of
from helpers.optim import TrainConfig

# `make test` sets NANOGPT_RUNS.
RUNS = Path(os.environ.get("NANOGPT_RUNS") or ROOT / "build" / "runs")


@dataclass(frozen=True)
class Preset:
    """A size of model, a way to train it, and the validation loss to expect.

    The bands are what seeds 1, 2, 3 gave on two CPU cores, with 0.03 to spare on either side,
    unless said otherwise.
    """

    about: str
    model: dict[str, Any]  # everything of GPTConfig, or of ModernConfig, but the vocabulary
    training: TrainConfig
    expected_loss: dict[str, tuple[float, float]]  # corpus name -> lowest, highest

    def model_config(self, vocab_size: int, counted: int = 0) -> GPTConfig:
        """The config for an alphabet of this size, and for a training text of `counted` letters."""
        config = config_of({"vocab_size": vocab_size, **self.model})
        return replace(config, counted=counted) if isinstance(config, CountedConfig) else config

    def build(self, vocab_size: int, train_tokens: Integer[Tensor, "N"]) -> GPT:
        """A fresh model for this alphabet; one that counts has counted the training text."""
        model = build_gpt(self.model_config(vocab_size, len(train_tokens)))
        if isinstance(model, CountedGPT):
            model.count(train_tokens)
        return model


# Today's changes that help at this size.
CHANGES: dict[str, Any] = dict(rotary=True, qk_norm=True, mlp="relu2", zero_start=True, softcap=15.0, tied=False)
# 4,356 = (65 + 1)^2: each pair of letters has its row
TABLES = dict(bigrams=4356, trigrams=8192, fourgrams=16384)
# Of three minutes on two cores, alone and beside counts.
SMALL = dict(context_length=256, n_layer=4, n_head=2, n_embd=128, before=3, **CHANGES)
MUON_IN_WINDOWS = TrainConfig(
    batch_size=8,
    max_steps=2800,
    eval_interval=700,
    learning_rate=0.01,
    min_learning_rate=0.0,
    warmup_steps=0,
    schedule="stable",
    decay=0.6,
    optimizer="muon",
    muon_scale=2.0,
    windows=((0.7, 64),),
    bfloat16=True,
    bfloat16_cpu=True,
)

PRESETS = {
    "smoke": Preset(
        about="2 layers, 2 heads, width 64, context 32: seconds, to see that everything works",
        model=dict(context_length=32, n_layer=2, n_head=2, n_embd=64),
        training=TrainConfig(batch_size=16, max_steps=300, eval_interval=100, learning_rate=3e-3, warmup_steps=30),
        expected_loss={TINY: (2.35, 2.47), BUNDLED: (2.23, 2.36)},
    ),
    "laptop": Preset(
        about="4 layers, 4 heads, width 128, context 64: about a minute on two cores (nanoGPT's CPU recipe)",
        model=dict(context_length=64, n_layer=4, n_head=4, n_embd=128),
        training=TrainConfig(batch_size=12, max_steps=2000, eval_interval=250),
        expected_loss={TINY: (1.87, 1.93), BUNDLED: (1.68, 1.76)},
    ),
    "gpu": Preset(
        about="6 layers, 6 heads, width 384, context 256: minutes on a GPU (nanoGPT's baby GPT)",
        model=dict(context_length=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2),
        training=TrainConfig(batch_size=64, max_steps=5000, eval_interval=250, bfloat16=True, compile=True),
        # Published by nanoGPT, not measured by this project: 1.4697, the best of its estimates on
        # 200 random batches.
        expected_loss={TINY: (1.44, 1.52)},
    ),
    "speedrun": Preset(
        about="1 layer, 2 heads, width 64, context 64, n-gram tables: the loss of laptop in a second or two",
        model=dict(context_length=64, n_layer=1, n_head=2, n_embd=64, mlp_width=128, **CHANGES, **TABLES),
        training=TrainConfig(
            batch_size=64,
            max_steps=24,
            eval_interval=24,
            learning_rate=0.03,
            min_learning_rate=0.0,
            warmup_steps=0,
            schedule="stable",
            decay=0.8,
            optimizer="muon",
            betas=(0.6, 0.95),
            weight_decay=0.0,
            muon_scale=2.0,
            muon_momentum=0.85,
        ),
        expected_loss={TINY: (1.79, 1.90), BUNDLED: (1.64, 1.72)},
    ),
    "three-minutes": Preset(
        about="4 layers, 2 heads, width 128, context 256: three minutes on two cores with bfloat16, six without",
        model=SMALL,
        training=MUON_IN_WINDOWS,
        expected_loss={TINY: (1.44, 1.49)},  # of seeds 1 to 4
    ),
    "playground": Preset(
        about="laptop with a window of 128, trained longer and by Muon: what the page to play with writes with",
        model=dict(context_length=128, n_layer=4, n_head=4, n_embd=128),
        training=replace(MUON_IN_WINDOWS, max_steps=6000, eval_interval=500, windows=()),
        expected_loss={},
    ),
    "counted": Preset(
        about="three-minutes beside counts of what followed up to eight letters: a lower loss in the same time",
        model=SMALL | dict(lengths=(2, 3, 4, 5, 6, 8), temperature=1.1),
        training=replace(MUON_IN_WINDOWS, max_steps=1900, eval_interval=950),
        expected_loss={TINY: (1.37, 1.44)},  # of seeds 21 to 23
    ),
    "gpu-counted": Preset(
        about="4 layers, 4 heads, width 256, context 256, beside counts: a minute on a large GPU",
        model=dict(context_length=256, n_layer=4, n_head=4, n_embd=256, dropout=0.2, before=3)
        | dict(lengths=(2, 3, 4, 5, 6, 8), temperature=1.1)
        | CHANGES,
        training=replace(
            MUON_IN_WINDOWS,
            batch_size=64,
            max_steps=900,
            eval_interval=300,
            windows=(),
            compile=True,
        ),
        # Of seeds 21 to 23 on one H100, by this recipe outside of the trainer: 1.3837, 1.3792, 1.3776.
        expected_loss={TINY: (1.35, 1.41)},
    ),
}


def choose_preset(name: object, *, max_steps: Any = None, seed: Any = 1, device: Any = "auto") -> Preset:
    """The preset of this name with the given settings; ConfigError names a bad one.

    `max_steps=None` keeps the preset's; for another number no loss is expected. `device` is "auto"
    (CUDA if there is one, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    settings = {"seed": seed, "device": device}
    if max_steps is not None:
        replace(preset.training, max_steps=max_steps)  # refuses what is no number of steps
        settings |= {
            "max_steps": max_steps,
            "warmup_steps": min(preset.training.warmup_steps, max_steps // 10),
        }
        if max_steps != preset.training.max_steps:
            preset = replace(preset, expected_loss={})
    return replace(preset, training=replace(preset.training, **settings))


def run_folder(name: str, preset: Preset, corpus: Corpus | PreparedCorpus) -> Path:
    """Where the run of a preset goes by default: build/runs/, its name, and what differs from it.

    So a run with another seed, another text or fewer steps never meets the one that is there.
    """
    usual = PRESETS[name].training
    parts = [name]
    if preset.training.max_steps != usual.max_steps:
        parts.append(f"{preset.training.max_steps}-steps")
    if preset.training.seed != usual.seed:
        parts.append(f"seed-{preset.training.seed}")
    if corpus.name != TINY:
        parts.append("bundled" if corpus.name == BUNDLED else corpus.sha256[:8])
    return RUNS / "-".join(parts)


def describe_loss(loss: float, corpus_name: str, preset: Preset) -> str:
    """One sentence: where `loss` lies in the band that the preset expects on this corpus."""
    if corpus_name not in preset.expected_loss:
        steps = f"{preset.training.max_steps:,} steps on {corpus_name}"
        return f"validation loss {loss:.3f}; no band is known for {steps}"
    low, high = preset.expected_loss[corpus_name]
    position = "BELOW" if loss < low else "ABOVE" if loss > high else "inside"
    band = f"the expected band {low} to {high} for {corpus_name}"
    return f"validation loss {loss:.3f}, {position} {band}"
