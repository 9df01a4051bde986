"""Real faults of real projects, each in its few lines.

A fault is the healthy program of museum_program.py with one part replaced.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.rooms.museum_program import IGNORED, Block, C, L, Program


# ---------------------------------------------------------------- it stops, or turns into NaN
class TooLargeForHalf(Program):
    """apex 1052: minus a billion, in a kind of number that ends at 65,504."""

    seen_by = "it runs in half precision"

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -1e9).softmax(dim=-1)


class EmptyRow(Program):
    """PyTorch 41508: a padded token may look at nobody, and 0 is divided by 0."""

    seen_by = "gradients are numbers, also of padded and of empty texts"

    def allowed(self, real: Tensor) -> Tensor:
        past = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
        return (past & real[:, None])[:, None]


# ---------------------------------------------------------------- only the first loss tells
class LoudTable(Program):
    """xLSTM 83, a relative: reading and writing share a table, and nobody gives it a small start."""

    seen_by = "the first loss is ln V"

    def start(self) -> None:
        self.head.weight = self.token.weight


# ---------------------------------------------------------------- too good to be true
class NotShifted(Program):
    """Transformers 17960: the target is the letter that is read."""

    seen_by = "the target is the next letter"

    def pairs(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        return windows[:, :-1], windows[:, :-1]


class TurnedRound(Program):
    """LLMs-from-scratch 1061: True where it is forbidden, for a function that takes True for
    allowed.
    """

    seen_by = "no letter sees the future"

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        future = torch.ones_like(scores[0, 0], dtype=torch.bool).triu()
        return scores.masked_fill(~future, float("-inf")).softmax(dim=-1)


class ClimbedOver(Program):
    """minGPT 75, Transformers 3181: minus ten thousand is not minus infinity."""

    seen_by = "no letter sees the future, however large the scores"

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -1e4).softmax(dim=-1)


class WrongAxis(Program):
    """labml 146: the columns add up to 1, and not the rows. (There in a model of images, which has
    no future.)
    """

    seen_by = "weights of a row add up to 1"

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-2)


class NoWayBack(Program):
    """transformer-from-scratch 6: heads are joined without a transpose."""

    seen_by = "no letter sees the future"

    def join(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), x.shape[2], C)


class WrongBothWays(Program):
    """FuxiCTR 30: heads are split and joined without a transpose. (There the rows are features, and
    no text.)
    """

    seen_by = "a text means the same, however it goes on"

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), 4, x.shape[1], -1)

    def join(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), x.shape[2], C)


# ---------------------------------------------------------------- a little worse
class WrongRoot(Program):
    """ng-video-lecture 6: the root of the model's width, and not of a head's."""

    seen_by = "scores have size 1"

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT / C**0.5


class SoftmaxTwice(Program):
    """cross_entropy takes a softmax itself."""

    seen_by = "one batch is learned by heart"

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return Program.loss(self, logits.softmax(dim=-1), targets)


class NeverCleared(Program):
    """wekws 73: the gradients of all steps add up."""

    seen_by = "a new update forgets the last one's gradients"

    def zero_grad(self, set_to_none: bool = True) -> None:
        pass


class MeanOfMeans(Program):
    """Transformers 34191: the mean of the pieces' means, whatever their sizes."""

    seen_by = "a batch in pieces is the batch"

    def gradient(self, pieces) -> float:
        self.zero_grad()
        losses = []
        for tokens, targets in pieces:
            loss = self.loss(self(tokens), targets) / (targets != IGNORED).sum() / len(pieces)
            loss.backward()
            losses.append(loss.item())
        return sum(losses)


class SameDeck(Program):
    """minGPT 28: all workers have the same dice."""

    seen_by = "every step and every worker reads other pages"

    def deck(self, text: Tensor, steps: int, seed: int, worker: int = 0):
        return Program.deck(self, text, steps, seed)


class Clones(Program):
    """PyTorch 72253: one block is drawn, and the others are copies of it."""

    seen_by = "no two parameters start alike"

    def stack(self) -> nn.ModuleList:
        block = Block()
        return nn.ModuleList(copy.deepcopy(block) for _ in range(L))


class NormsDecay(Program):
    """minGPT 16 and 23: the filter looks for names that the norms don't have, so norms decay, too."""

    seen_by = "every parameter moves, and only matrices decay"

    def groups(self, decay: float = 0.1):
        named = list(self.named_parameters())
        spared = ("LayerNorm.weight", "bias")
        return [
            {
                "params": [x for name, x in named if not name.endswith(spared)],
                "weight_decay": decay,
            },
            {"params": [x for name, x in named if name.endswith(spared)], "weight_decay": 0.0},
        ]


# ---------------------------------------------------------------- only in writing
class AlmostZero(Program):
    """minGPT 10: 1e-10 was meant to be -1e10."""

    seen_by = "what is cut off never comes"

    def kept(self, logits: Tensor, k: int) -> Tensor:
        return logits.masked_fill(logits < logits.topk(k).values[..., -1:], 1e-10)


class LastVisitor(Program):
    """AutoAWQ 170: what was read for the last text is still there."""

    seen_by = "one text knows nothing of the last one"

    def remembered(self, prompt: Tensor) -> Tensor:
        self.read = torch.cat([getattr(self, "read", prompt[:0]), prompt])
        return self.read


# ---------------------------------------------------------------- nothing is seen
class AlwaysDrops(Program):
    """nanoGPT 240: a function that doesn't know that it is an exam."""

    seen_by = "two exams give one mark, and training goes on as before"

    def dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout)


class ByBatch(Program):
    """ParlAI 623, after its repair: the mean of the batches' means."""

    seen_by = "the mark doesn't depend on the size of a batch"

    def evaluate(self, texts, batch: int = 16) -> float:
        parts = [Program.evaluate(self, texts[first : first + batch]) for first in range(0, len(texts), batch)]
        return sum(parts) / len(parts)


FAULTS = [thing for thing in list(vars().values()) if isinstance(thing, type) and Program in thing.__bases__]
