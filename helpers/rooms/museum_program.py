"""The healthy program of the museum: a GPT, its training and its writing. Each part is a method
that a fault replaces.

Shapes: B texts, T tokens, C channels, H heads, V vocabulary. The sizes are small: 300 updates take
a few seconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

C, H, L, T = 64, 4, 2, 48  # channels, heads, layers, context
IGNORED = -1  # a target that nobody asks for


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.query, self.key, self.value, self.project = (nn.Linear(C, C, bias=False) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))


class Program(nn.Module):
    """A GPT for a vocabulary of V tokens, drawn with a seed; `dropout` is the share of what
    branches write.
    """

    seen_by = ""  # of a fault: the check of museum_checks.py that the museum names

    def __init__(self, V: int, seed: int = 0, dropout: float = 0.0):
        super().__init__()
        torch.manual_seed(seed)
        self.V, self.dropout = V, dropout
        self.token, self.place = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = self.stack()
        self.norm = nn.LayerNorm(C)
        self.head = nn.Linear(C, V, bias=False)
        self.start()

    # ---------------------------------------------------------------- how it begins
    def stack(self) -> nn.ModuleList:
        return nn.ModuleList(Block() for _ in range(L))

    def start(self) -> None:
        for table in (self.token.weight, self.place.weight):
            nn.init.normal_(table, std=0.02)
        self.head.weight = self.token.weight  # reading and writing share one table

    # ---------------------------------------------------------------- attention
    def split(self, x: Tensor) -> Tensor:  # (B, T, C) -> (B, H, T, C / H)
        return x.view(*x.shape[:2], H, -1).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:  # (B, H, T, C / H) -> (B, T, C)
        return x.transpose(1, 2).flatten(2)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT / query.shape[-1] ** 0.5

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)

    def allowed(self, real: Tensor) -> Tensor:
        """Who may look at whom (B, 1, T, T): at real tokens (B, T) of the past, and at itself."""
        past = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
        itself = torch.eye(real.shape[1], dtype=torch.bool)
        return ((past & real[:, None]) | itself)[:, None]

    def attention(self, block: Any, x: Tensor, allowed: Tensor) -> Tensor:
        query, key, value = (self.split(matrix(x)) for matrix in (block.query, block.key, block.value))
        return block.project(self.join(self.weights(self.scores(query, key), allowed) @ value))

    # ---------------------------------------------------------------- the model
    def places(self, real: Tensor) -> Tensor:
        """Each token's place (B, T), counted from the first real one."""
        return (real.cumsum(dim=1) - 1).clamp(min=0)

    def normed(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x)

    def dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:  # (B, T) -> (B, T, V)
        """Logits. `real` (B, T) is False where a text that begins later is padded."""
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        allowed = self.allowed(real)
        x = self.token(tokens) + self.place(self.places(real))
        for block in self.blocks:
            x = x + self.dropped(self.attention(block, self.normed(block.norm1, x), allowed))
            x = x + self.dropped(block.mlp(self.normed(block.norm2, x)))
        return self.head(self.normed(self.norm, x))

    # ---------------------------------------------------------------- training
    def pairs(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """What is read, and what comes next: (B, T + 1) -> (B, T), (B, T)."""
        return windows[:, :-1], windows[:, 1:]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The sum over all targets that are asked for."""
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")

    def gradient(self, pieces: Sequence[tuple[Tensor, Tensor]]) -> float:
        """Of a batch that comes in pieces: the mean loss of all its targets, and their gradient in
        .grad.
        """
        self.zero_grad()
        asked = max(1, sum(int((targets != IGNORED).sum()) for _, targets in pieces))
        losses = [self.loss(self(tokens), targets) / asked for tokens, targets in pieces]
        for loss in losses:
            loss.backward()
        return sum(loss.item() for loss in losses)

    def groups(self, decay: float = 0.1) -> list[dict[str, Any]]:
        """Matrices decay; norms and biases don't."""
        parameters = list(self.parameters())
        return [
            {"params": [x for x in parameters if x.dim() > 1], "weight_decay": decay},
            {"params": [x for x in parameters if x.dim() == 1], "weight_decay": 0.0},
        ]

    def fit(self, text: Tensor, steps: int = 300, seed: int = 0, rate: float = 2e-3) -> "Program":
        optimizer = torch.optim.AdamW(self.groups(), lr=rate)
        for windows in self.deck(text, steps, seed):
            self.train()
            self.gradient([self.pairs(windows)])
            optimizer.step()
        return self.eval()

    def deck(self, text: Tensor, steps: int, seed: int, worker: int = 0) -> Iterator[Tensor]:
        """Batches of 16 windows, drawn anew for each step and by each worker."""
        dice = torch.Generator().manual_seed(1000 * seed + worker)
        for _ in range(steps):
            starts = torch.randint(len(text) - T, (16, 1), generator=dice)
            yield text[starts + torch.arange(T + 1)]

    @torch.no_grad()
    def evaluate(self, texts: Sequence[Tensor], batch: int = 16) -> float:
        """The mean loss of all letters of texts of different lengths."""
        training = self.training
        self.eval()
        total, count = 0.0, 0
        for text in texts:  # one by one, so that `batch` makes no difference
            tokens, targets = self.pairs(text[None])
            total, count = total + self.loss(self(tokens), targets).item(), count + targets.numel()
        self.train(training)
        return total / count

    # ---------------------------------------------------------------- writing
    def kept(self, logits: Tensor, k: int) -> Tensor:
        """The k likeliest; the others can't come."""
        return logits.masked_fill(logits < logits.topk(k).values[..., -1:], float("-inf"))

    @torch.no_grad()
    def write(self, prompt: Tensor, n: int, k: int = 8, seed: int = 0) -> Tensor:
        dice = torch.Generator().manual_seed(seed)
        text = self.remembered(prompt)
        for _ in range(n):
            odds = self.kept(self(text[None, -T:])[0, -1], k).softmax(dim=-1)
            text = torch.cat([text, torch.multinomial(odds, 1, generator=dice)])
        return text[-len(prompt) - n :]

    def remembered(self, prompt: Tensor) -> Tensor:
        """What it has read before the first letter that it writes: the prompt, and nothing else."""
        return prompt
