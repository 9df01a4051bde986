"""Lesson 07's towers in Verona: a look at a page, an answer, a brewer, and a look that is forced."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers import telegrams
from helpers.attention import MultiHeadAttention, attention
from helpers.telegrams import WIDTH

PAGE = 3 * WIDTH  # numbers of a place on a page: giver, thing, receiver


def train(
    name: str,
    make: Callable[[], nn.Module],
    question: str,
    seeds: Sequence[int],
    *,
    examples: Callable[..., Any] = telegrams.page,
    **recipe: Any,
) -> tuple[list[nn.Module], tuple[float, ...]]:
    """Train a network from `make` with each seed; print, and return, what share each gets right."""
    recipe = {"lr": 0.003} | recipe
    networks = [telegrams.fit(make, question, seed, examples=examples, **recipe) for seed in seeds]
    right = tuple(
        telegrams.accuracy(network, question, seed, examples=examples)
        for network, seed in zip(networks, seeds, strict=True)
    )
    print(f"{name:20} right:", *(f"{share:.0%}" for share in right))
    return networks, right


def gradient_left(layers: Sequence[nn.Module]) -> float:
    """The length of the gradient at the bottom of these layers, as a share of that at the top."""
    bottom = torch.randn(8, 16, 64, requires_grad=True)
    top = nn.Sequential(*layers)(bottom)
    gradient = torch.randn_like(top)
    top.backward(gradient)
    return (bottom.grad.norm() / gradient.norm()).item()


@torch.no_grad()
def size_left(layers: Sequence[nn.Module]) -> float:
    """How large pages are that have gone through these layers, against how large they were."""
    (x,), _ = telegrams.page("give", 200, torch.Generator().manual_seed(0))
    return (nn.Sequential(*layers)(x).norm() / x.norm()).item()


@torch.no_grad()
def brewing_loss(brewer: nn.Module) -> float:
    """Of 2,000 new scenes, in nats."""
    scenes, brews = telegrams.look_up("brew", 2000, torch.Generator().manual_seed(2))
    return telegrams.loss(brewer(*scenes), brews).item()


def least_surprised_sum() -> float:
    """The loss of the best sum for brews: each thing adds to each brew's logit what it contributes by
    itself, given or got.
    """
    pairs = torch.tensor([(i, j) for i in range(8) for j in range(8) if i != j])
    brews = pairs.sum(dim=1) % 8
    given = torch.zeros(8, 8, requires_grad=True)
    got = torch.zeros(8, 8, requires_grad=True)
    optimizer = torch.optim.Adam([given, got], lr=0.05)
    for _ in range(500):
        logits = given[pairs[:, 0]] + got[pairs[:, 1]]
        loss = F.cross_entropy(logits, brews)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


class Look(nn.Module):
    """Attention of `heads` heads, D = width / heads each, and its output matrix: (B, T, 96) -> (B, T, 96).

    After each pass `weights` are those of attention, (B, H, T, T).
    """

    weights: Tensor

    def __init__(self, width: int = 32, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.W_query = nn.Linear(PAGE, width, bias=False)
        self.W_key = nn.Linear(PAGE, width, bias=False)
        self.W_value = nn.Linear(PAGE, width, bias=False)
        self.W_out = nn.Linear(width, PAGE, bias=False)

    def split(self, x: Float[Tensor, "B T HD"]) -> Float[Tensor, "B H T D"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Float[Tensor, "B T 96"]) -> Float[Tensor, "B T 96"]:
        query, key = self.split(self.W_query(x)), self.split(self.W_key(x))
        context, self.weights = attention(query, key, self.split(self.W_value(x)))
        return self.W_out(context.transpose(1, 2).flatten(start_dim=2))


class Answer(nn.Module):
    """The box for the thing at the last place, which is the question's: (B, T, 96) -> (B, 32)."""

    def forward(self, x: Float[Tensor, "B T 96"]) -> Float[Tensor, "B 32"]:
        return x[:, -1, WIDTH : 2 * WIDTH]


class Places(nn.Module):
    """A page (B, 7, 96) plus a learned vector for each of its seven lines."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(7, PAGE))

    def forward(self, x: Float[Tensor, "B 7 96"]) -> Float[Tensor, "B 7 96"]:
        return x + self.table


class Add(nn.Module):
    """x plus what `part` makes of it."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(x)


def tower(layers: int, adds: bool = True, *, places: bool = False, **look: int) -> Callable[[], nn.Sequential]:
    """What makes a tower of looks with its answer on top. Each layer adds to what it reads, or
    replaces it; with `places`, lines know where they stand.
    """

    def make() -> nn.Sequential:
        first = [Places()] if places else []
        parts = [Add(Look(**look)) if adds else Look(**look) for _ in range(layers)]
        return nn.Sequential(*first, *parts, Answer())

    return make


def fresh(layers: int, adds: bool = False) -> list[nn.Module]:
    """Layers of lesson 06's attention as PyTorch draws them: four heads, 64 numbers a word."""
    stack = [MultiHeadAttention(64, 64, 16, dropout=0.0, num_heads=4) for _ in range(layers)]
    return [Add(layer) if adds else layer for layer in stack]


class Brewer(nn.Module):
    """Two heads as in lesson 06, then two matrices with `bend` between: (B, 32), (B, 6, 96) -> (B, 32).

    A card is found by its two names alone. If weights depended on the things as well, softmax would
    be a bend of its own.
    """

    def __init__(self, bend: nn.Module) -> None:
        super().__init__()
        self.W_query = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.W_key = nn.Linear(2 * WIDTH, 2 * WIDTH, bias=False)
        self.W_value = nn.Linear(PAGE, 2 * WIDTH, bias=False)
        self.widen = nn.Linear(2 * WIDTH, 4 * WIDTH)
        self.bend = bend
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def hidden(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 128"]:
        """What stands between the two matrices, behind the bend."""
        giver, _, receiver = cards.split(WIDTH, dim=-1)
        query = self.W_query(asker)[:, None]
        key = self.W_key(torch.cat([giver, receiver], dim=-1))
        parts = (x.chunk(2, dim=-1) for x in (query, key, self.W_value(cards)))
        contexts = [attention(*part)[0][:, 0] for part in zip(*parts, strict=True)]
        return self.bend(self.widen(torch.cat(contexts, dim=-1)))

    def forward(self, asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]) -> Float[Tensor, "B 32"]:
        return self.narrow(self.hidden(asker, cards))


def things_of(
    asker: Float[Tensor, "B 32"], cards: Float[Tensor, "B 6 96"]
) -> tuple[Int64[Tensor, "B"], Int64[Tensor, "B"]]:
    """What whoever asks gives, and what he or she gets, numbered from 0 to 7."""
    giver, thing, receiver = telegrams.nearest_words(cards.unflatten(-1, (3, WIDTH))).unbind(-1)
    asks = telegrams.nearest_words(asker)[:, None]
    thing = thing - len(telegrams.NAMES)
    return (thing * (giver == asks)).sum(dim=1), (thing * (receiver == asks)).sum(dim=1)


def pages_of(scenes: Int64[Tensor, "n 6 3"]) -> Float[Tensor, "n 7 96"]:
    """Pages whose last line asks for the first giver of each scene."""
    pages = torch.zeros(len(scenes), 7, PAGE)
    pages[:, :6] = telegrams.embed(scenes).flatten(start_dim=2)
    pages[:, 6, :WIDTH] = telegrams.embed(scenes[:, 0, 0])
    return pages


@torch.no_grad()
def first_looks(network: nn.Sequential, scenes: Int64[Tensor, "n 6 3"]) -> Float[Tensor, "n 7"]:
    """The weights with which the question looks at the seven lines of its page in the first layer."""
    first = network[0]
    first(pages_of(scenes))
    return first.part.weights[:, 0, 6]


@torch.no_grad()
def said_when(
    network: nn.Sequential, scenes: Int64[Tensor, "n 6 3"], looks: Float[Tensor, "n 6"]
) -> Int64[Tensor, "n"]:
    """What a two-layer `network` answers when its question is made to look at the cards as `looks`
    says in the first layer.
    """
    first, second, answer = network
    pages = pages_of(scenes)
    first(pages)
    weights = first.part.weights[:, 0].clone()
    weights[:, 6, :6], weights[:, 6, 6] = looks, 0
    x = pages + first.part.W_out(weights @ first.part.W_value(pages))
    return telegrams.nearest_words(answer(second(x)))


def of_friends(scenes: Int64[Tensor, "n 6 3"]) -> Int64[Tensor, "n"]:
    """What the first giver's friend gives in each scene."""
    of_friend = (scenes[:, :, 0] == scenes[:, :1, 2]).int().argmax(dim=1)
    return scenes[torch.arange(len(scenes)), of_friend, 1]


@torch.no_grad()
def raises(network: nn.Sequential, box: int) -> float:
    """By how much somebody in this `box` of a card that was looked at (0: giver, 2: receiver) raises
    the score of his or her own card in the second layer, on average.
    """
    first, second = (layer.part for layer in network[:2])
    people = telegrams.embed(torch.arange(len(telegrams.NAMES)))
    card, own = torch.zeros(2, len(people), 3, WIDTH)
    card[:, box], own[:, 0] = people, people
    asks = second.W_query(first.W_out(first.W_value(card.flatten(start_dim=1))))
    key = second.W_key(own.flatten(start_dim=1))
    return (asks * key).sum(dim=1).mean().item() / asks.shape[1] ** 0.5
