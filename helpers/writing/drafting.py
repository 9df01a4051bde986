"""A draft of what a model will write, so that it reads several tokens in one pass: the text stays the same.

Leviathan et al. 2023 (Fast Inference from Transformers via Speculative Decoding) accept a guess by a rule of chance.
Here the draft throws the model's own dice. Where the two agree on what is likely, the dice fall on the same token, and
where they don't, the model's draw stands: token by token, it is the text that the model writes alone.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

AHEAD = 5  # tokens at once: more are seldom right, and each costs a row of the pass


class Counts:
    """How often each token followed each short context of a text: a language model that is ready at once.

    A long context was seen too seldom to be trusted alone. So the probabilities after the context without its first
    token are added to its counts, as if they were PRIOR more observations; and so on, down to no context at all.
    """

    PRIOR = 50.0

    def __init__(self, tokens: Integer[Tensor, "N"], vocab_size: int, order: int = 4):
        self.vocab_size = vocab_size
        self.order = min(order, int(62 / math.log2(vocab_size + 1)) - 1)  # each n-gram is a number of 63 bits
        self.known: dict[tuple[int, ...], Tensor] = {}
        self.tables = []  # for each length of context: its n-grams as numbers, sorted, and how often each occurs
        text = tokens.cpu().numpy().astype("int64")
        grams = text  # as numbers: (a, b, c) is (a V + b) V + c, so all that follow one context are neighbours
        for n in range(self.order + 1):
            self.tables.append(np.unique(grams, return_counts=True))
            grams = grams[:-1] * vocab_size + text[n + 1 :]

    def logits(self, tokens: list[int]) -> Float[Tensor, "1 V"]:
        """The logarithms of the probabilities of the next token."""
        return self.probabilities(tuple(tokens[max(0, len(tokens) - self.order) :])).log()[None]

    def probabilities(self, context: tuple[int, ...]) -> Float[Tensor, "V"]:
        """The probability of each next token after `context`; computed once."""
        if context not in self.known:
            V = self.vocab_size
            shorter = self.probabilities(context[1:]) if context else torch.full((V,), 1 / V)
            first = sum(token * V ** (len(context) - i) for i, token in enumerate(context))  # context, then token 0
            grams, counts = self.tables[len(context)]
            here = slice(*np.searchsorted(grams, (first, first + V)))
            found = torch.zeros(V)
            found[grams[here] - first] = torch.from_numpy(counts[here]).float()
            self.known[context] = (found + self.PRIOR * shorter) / (found.sum() + self.PRIOR)
        return self.known[context]

    def ahead(
        self, draw: Callable[[Tensor, torch.Generator], Tensor], generator: torch.Generator | None
    ) -> Callable[[list[int], int], list[int]]:
        """A function that guesses which tokens `draw` will draw next, with the dice that it will throw."""

        def guess(tokens: list[int], most: int) -> list[int]:
            dice = (generator or torch.default_generator).clone_state()  # a copy: the model throws them again
            text = list(tokens)
            for _ in range(min(AHEAD, most)):
                text.append(int(draw(self.logits(text), dice)))
            return text[len(tokens) :]

        return guess
