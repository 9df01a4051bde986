"""A GPT together with the counts of a text: it needn't learn what counting knows.

Counts are sure inside words and know nothing of what was said a hundred letters ago; of a network
the opposite is true. At each place, gates read off how often the contexts were seen, and off the
network's last layer, how much each of them is worth there. The answer is the product of all
opinions, each to the power of its gate (a product of experts, Hinton 2002), so its logarithm is a
weighted sum.

The counts must not know the letter that is asked for: in training, each place is predicted as if it
had not been counted (`targets`). Otherwise the gates would learn that counts are always right. And
the network learns to answer alone as well as together with the counts, so that it has an opinion of
its own and doesn't only fill their gaps.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers.attention import KVCache
from helpers.counting import KneserNey
from helpers.errors import ConfigError
from helpers.modern import ModernConfig, ModernGPT
from helpers.rules import Rule, require, whole

LARGEST_TEXT = 20_000_000  # tokens: a million of them take about half a gigabyte to count


@dataclass(frozen=True)
class CountedConfig(ModernConfig):
    """A ModernGPT's config, with the lengths of the contexts that are counted, and of the text."""

    lengths: tuple[int, ...] = (2, 3, 4, 5, 6, 8)  # rising; the last but one is believed at first
    counted: int = 0  # how many tokens the counted text has: those of the training text
    # Outside training: a text that both half know by heart makes them too sure of others.
    temperature: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        require(self, "counted", whole(0, LARGEST_TEXT))
        require(self, "lengths", Rule(are_rising, "whole numbers of at least 1, each above the last"))
        require(self, "temperature", Rule(lambda t: 0 < t < math.inf, "a number above 0"))


def are_rising(lengths: Any) -> bool:
    steps = zip((0, *lengths), lengths, strict=False)
    return bool(lengths) and all(type(n) is int and before < n for before, n in steps)


class CountedGPT(ModernGPT):
    """A ModernGPT and the counts of a text: (B, T) -> logits (B, T, V), unnormalised.

    `count` gives it the text, which is saved with the weights. It is counted again when it is
    needed, in a second or two for a million letters.
    """

    def __init__(self, config: CountedConfig):
        super().__init__(config)
        self.lengths, self.temperature = config.lengths, config.temperature
        L = len(self.lengths)
        self.gates = nn.Linear(config.n_embd + L + (L + 1), 1 + L)
        nn.init.zeros_(self.gates.weight)
        start = [0.7] + [0.0] * L  # for the network, and for each length
        start[max(1, L - 1)] = 0.3
        with torch.no_grad():
            self.gates.bias.copy_(torch.tensor(start))
        kind = torch.uint8 if config.vocab_size <= 256 else torch.int32
        self.register_buffer("text", torch.zeros(config.counted, dtype=kind))
        # Of which text these are the counts, and of which version of it.
        self._counts, self._counted_text, self._counted_version = None, None, 0

    def count(self, tokens: Integer[Tensor, "N"]) -> None:
        """Count this text from now on; ConfigError unless it is as long as the config says."""
        if len(tokens) != len(self.text):
            raise ConfigError(f"counted={len(self.text)}, but the text has {len(tokens)} tokens")
        self.text.copy_(tokens)

    @property
    def counts(self) -> KneserNey:
        if not len(self.text):
            raise ConfigError("there is no text to count: `counted` must be the length of one")
        version = self.text._version
        # Another text: it was moved to another device, or weights were loaded.
        if self._counted_text is not self.text or self._counted_version != version:
            text = self.text if self.text.is_cuda else self.text.cpu()  # mps can't count
            self._counts = KneserNey(text, self.config.vocab_size, self.lengths[-1])
            self._counted_text, self._counted_version = self.text, version
        return self._counts

    def forward(self, tokens: Int64[Tensor, "B T"], cache: list[KVCache] | None = None) -> Float[Tensor, "B T V"]:
        past = self.past_of(tokens, cache)
        together, _ = self.logits_together_and_alone(tokens, past, cache)
        return together / self.temperature

    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        """The loss to learn from, for x and the y that follow in the counted text.

        Each y is left out of the counts, that once. The loss is that of network and counts
        together; the network learns to answer alone as well.
        """
        logits = self.logits_together_and_alone(x, x[:, :0], targets=y)
        together, alone = (F.cross_entropy(branch.flatten(0, 1), y.flatten()) for branch in logits)
        return together + (alone - alone.detach())  # adds its gradient, and 0 to the value

    def compile_parts(self) -> None:
        """Compile the blocks; counting can't be compiled."""
        for block in self.blocks:
            block.compile()

    def logits_together_and_alone(
        self,
        tokens: Tensor,
        past: Tensor,
        cache: list[KVCache] | None = None,
        targets: Tensor | None = None,
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T V"]]:
        """The logits of network and counts together, and those of the network alone."""
        x = self.through_blocks(self.embed(tokens, past.shape[1], past), cache)
        alone = self.logits(x).float()
        opinions, features = self._by_counting(tokens, past, targets)
        features = torch.cat([self.norm(x).float(), features], dim=-1)
        with torch.autocast(tokens.device.type, enabled=False):  # logarithms need all their digits
            # (B, T, 1 + L)
            gates = F.linear(features, self.gates.weight.float(), self.gates.bias.float())
            return gates[..., :1] * alone + (gates[..., 1:, None] * opinions).sum(-2), alone

    @torch.no_grad()
    def _by_counting(
        self, tokens: Tensor, past: Tensor, targets: Tensor | None
    ) -> tuple[Float[Tensor, "B T L V"], Float[Tensor, "B T F"]]:
        """The logarithms of the counts' probabilities, and what the gates get to know.

        That is how often each context was seen, and how many of them were seen at all.
        """
        text = torch.cat([past[:, -self.lengths[-1] :], tokens], dim=1)
        device = self.counts.device
        targets = None if targets is None else targets.to(device)
        p, totals = self.counts.probabilities(text.to(device), self.lengths, targets)
        p, totals = (x[:, -tokens.shape[1] :].to(tokens.device) for x in (p, totals))
        how_many = F.one_hot((totals > 0).sum(-1), len(self.lengths) + 1)
        return p.log(), torch.cat([totals.log1p(), how_many], dim=-1)
