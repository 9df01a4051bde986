"""Train a preset of FAST on tokens: short windows first, in bfloat16 where the processor computes in it.

model = fast.train(FAST["three-minutes"], train_tokens, tokenizer.vocab_size)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers import console
from helpers.guards import Count, checked
from helpers.modern import ModernConfig, ModernGPT
from helpers.presets import FastPreset
from helpers.training import TrainConfig, updates


class View(nn.Module):
    """A model as one part of its training sees it: with a shorter context, and with weights rounded to bfloat16.

    What learns are the model's own float32 weights, so that no small step is lost in rounding.
    """

    def __init__(self, model: ModernGPT, context_length: int, bfloat16: bool):
        super().__init__()
        self.model, self.bfloat16 = model, bfloat16
        self.config: ModernConfig = replace(model.config, context_length=context_length)

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        if not self.bfloat16:
            return self.model(tokens)
        named = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        rounded = {name: tensor.bfloat16() for name, tensor in named.items() if tensor.is_floating_point()}
        return torch.func.functional_call(self.model, rounded, (tokens,))


class Ensemble(nn.Module):
    """Models that vote: its logits are the logarithm of their mean probability. It keeps no cache."""

    def __init__(self, models: list[ModernGPT]):
        super().__init__()
        self.models, self.config = nn.ModuleList(models), models[0].config

    def forward(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logs = torch.stack([model(tokens).log_softmax(dim=-1) for model in self.models])
        return logs.logsumexp(dim=0) - math.log(len(self.models))


def has_bfloat16() -> bool:
    """Whether the processor multiplies matrices in bfloat16; others only imitate it, and slowly."""
    known = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of PyTorch can't tell
    return any(has for name, has in known.items() if name.endswith("bf16"))


@checked
def train(
    preset: FastPreset,
    tokens: Integer[Tensor, "N"],
    vocab_size: Count,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> ModernGPT | Ensemble:
    """A new model, trained as the preset says; `on_step(step, loss)` is called after each step, from 1 on.

    The seed in the preset's `training` draws weights, batches and dropout. An Ensemble where the preset has several
    members, trained one after the other. ConfigError and CorpusError as for ModernGPT and `updates`.
    """
    config, models = preset.training, []
    torch.manual_seed(config.seed)
    generator, on_cpu = torch.Generator().manual_seed(config.seed), torch.device(config.device).type == "cpu"
    bfloat16 = config.bfloat16 and on_cpu and has_bfloat16()  # on CUDA, `updates` sees to it
    if config.bfloat16 and on_cpu and not bfloat16:
        console.say("this processor has no bfloat16: the same steps in float32 take about twice as long")
    for member in range(preset.members):
        models.append(ModernGPT(preset.model_config(vocab_size)).to(config.device))
        losses = parts(preset, models[-1], tokens.to(config.device), generator, bfloat16)
        for step, loss in enumerate(losses, start=member * config.max_steps + 1):
            on_step(step, loss)
    return models[0].eval() if len(models) == 1 else Ensemble(models).eval()


def parts(
    preset: FastPreset, model: ModernGPT, tokens: Integer[Tensor, "N"], generator: torch.Generator, bfloat16: bool
) -> Iterator[float]:
    """`updates`, one part for each length of windows; a step sees equally many tokens in all of them."""
    config, first, T = preset.training, 0, model.config.context_length
    optimizer = preset.optimizer(model, config)

    def schedule(step: int, part: TrainConfig) -> float:
        return preset.schedule(step, config)  # of the whole, not of the part

    for share, length in (*preset.windows, (1.0, T)):
        end, batch_size = math.ceil(share * config.max_steps), config.batch_size * T // length
        part, view = replace(config, max_steps=end, batch_size=batch_size), View(model, length, bfloat16)
        yield from updates(view, tokens, part, optimizer, generator, first, schedule)
        first = end
