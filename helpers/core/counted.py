"""A GPT together with the counts of a text: it needn't learn what counting knows, and its gates learn whom to believe.

Counts are sure inside words and know nothing of what was said a hundred letters ago; of a network the opposite is true.
At each place, gates read off how often the contexts were seen, and off the network's last layer, how much each of them
is worth there. The answer is the product of all opinions, each to the power of its gate (a product of experts, Hinton
2002), so its logarithm is a weighted sum.

The counts must not know the letter that is asked for: in training, each place is predicted as if it had not been
counted (`asked`). Otherwise the gates would learn that counts are always right. And the network learns to answer alone
as well as together with the counts, so that it has an opinion of its own and doesn't only fill their gaps.
"""

from dataclasses import fields
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from pydantic import Field
from torch import Tensor, nn

from helpers.core.attention import KVCache
from helpers.core.counting import KneserNey
from helpers.core.gpt import GPT, GPTConfig
from helpers.core.modern import ModernConfig, ModernGPT, TokenCache
from helpers.support.errors import ConfigError
from helpers.support.guards import Positive, settings

Tokens = Annotated[int, Field(ge=0, le=20_000_000)]  # a million of them take about half a gigabyte to count
Lengths = Annotated[tuple[Annotated[int, Field(ge=0, le=16)], ...], Field(min_length=1)]


@settings
class CountedConfig(ModernConfig):
    """A ModernGPT's config, with the lengths of the contexts that are counted, and of the text."""

    lengths: Lengths = (2, 3, 4, 5, 6, 8)  # rising; the last but one is believed at first
    counted: Tokens = 0  # how many tokens the counted text has: those of the training text
    temperature: Positive = 1.0  # outside training: a text that both half know by heart makes them too sure of others

    def __post_init__(self):
        super().__post_init__()
        if list(self.lengths) != sorted(set(self.lengths)):
            raise ConfigError(f"lengths: each must be longer than the one before, and {self.lengths} are not")


class CountedGPT(ModernGPT):
    """A ModernGPT and the counts of a text: (B, T) -> logits (B, T, V), unnormalised.

    `count` gives it the text, which is saved with the weights. It is counted again when it is needed, in a second or
    two for a million letters.
    """

    asks = True  # whoever trains it must pass `asked`

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
        self._counted: tuple[Tensor, int, KneserNey] | None = None  # a text, its version, its counts

    def count(self, tokens: Integer[Tensor, "N"]) -> None:
        """Count this text from now on; ConfigError unless it has as many tokens as the config says."""
        if len(tokens) != len(self.text):
            raise ConfigError(f"counted={len(self.text)}, but the text has {len(tokens)} tokens: make the two equal")
        self.text.copy_(tokens)

    @property
    def counts(self) -> KneserNey:
        if not len(self.text):
            raise ConfigError("there is no text to count: `counted` must be the length of one")
        found = self._counted
        if found is None or found[0] is not self.text or found[1] != self.text._version:  # moved, or loaded anew
            counts = KneserNey(self.text, self.config.vocab_size, self.lengths[-1])
            found = self._counted = self.text, self.text._version, counts
        return found[2]

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        cache: list[KVCache] | None = None,
        asked: Int64[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], Float[Tensor, "B T V"]]:
        """With `asked`, the tokens that follow in the counted text, these places are not counted; then the network's
        own logits come too, so that it learns to answer alone."""
        past = tokens[:, :0]
        if cache:
            assert asked is None, "what is learned is not written"
            assert isinstance(cache[0], TokenCache)  # as `new_cache` makes it
            past = cache[0].extend(tokens)
        x = self.through_blocks(self.embed(tokens, past.shape[1], past), cache)
        alone = self.logits(x).float()
        opinions, features = self._by_counting(tokens, past, asked)
        features = torch.cat([self.norm(x).float(), features], dim=-1)
        gates = F.linear(features, self.gates.weight.float(), self.gates.bias.float())  # (B, T, 1 + L)
        together = gates[..., :1] * alone + (gates[..., 1:, None] * opinions).sum(-2)
        return together / self.temperature if asked is None else (together, alone)

    @torch.no_grad()
    def _by_counting(
        self, tokens: Tensor, past: Tensor, asked: Tensor | None
    ) -> tuple[Float[Tensor, "B T L V"], Float[Tensor, "B T F"]]:
        """The logarithms of the counts' probabilities, and what the gates get to know: how often each context was seen,
        and how many were seen at all."""
        text = torch.cat([past[:, -self.lengths[-1] :], tokens], dim=1)
        p, seen = self.counts.probabilities(text.cpu(), self.lengths, None if asked is None else asked.cpu())
        p, seen = (x[:, -tokens.shape[1] :].to(tokens.device) for x in (p, seen))
        how_many = F.one_hot((seen > 0).sum(-1), len(self.lengths) + 1)
        return p.log(), torch.cat([seen.log1p(), how_many], dim=-1)


def build_gpt(config: GPTConfig) -> GPT:
    """The GPT that a config describes: plain, today's, or today's beside counts."""
    if isinstance(config, CountedConfig):
        return CountedGPT(config)
    return ModernGPT(config) if isinstance(config, ModernConfig) else GPT(config)


def config_of(sizes: dict[str, Any]) -> GPTConfig:
    """A config from its fields by name: the first kind that has them all."""
    for kind in (GPTConfig, ModernConfig):
        if sizes.keys() <= {field.name for field in fields(kind)}:
            return kind(**sizes)
    return CountedConfig(**sizes)
