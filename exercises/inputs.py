"""The inputs with which answers are asked: drawn from one line, from the smallest to the largest.

"query: T D, key: S D, value: S E"   three tables; equal letters are equal sizes
"x: B T H*D, num_heads = H"          a table, and a size as a number
"l: T 1 positive"                    numbers above 1
"x: ... C, gain: C"                  x alone may have more dimensions in front
"""

import copy
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

HAND = 24  # a table of at most this many numbers can be checked by hand: they are small integers
RISING = (2, 3, 4, 5, 6, 7, 8)
FALLING = (3, 2, 5, 1, 4, 2, 1)


@dataclass(frozen=True)
class Case:
    names: tuple[str, ...]
    inputs: tuple[Any, ...]
    right: Any
    sizes: dict[str, int] = field(default_factory=dict)
    batch: tuple[int, ...] = ()
    scale: float = 1.0
    words: dict[str, int] = field(default_factory=dict)  # sizes as the line has them: H*D, too

    @property
    def count(self) -> int:
        return sum(x.numel() if isinstance(x, Tensor) else 1 for x in self.inputs)

    def copies(self) -> tuple[Any, ...]:
        return copy.deepcopy(self.inputs)


@dataclass(frozen=True)
class Part:
    """One input of the line."""

    name: str
    shape: tuple[str, ...] | None  # None for a size that is handed over as a number
    kind: str
    batched: bool = False

    def draw(self, sizes: dict[str, int], batch: tuple[int, ...], scale: float, by_hand: bool, generator: Any) -> Any:
        if self.shape is None:
            return _size(self.kind, sizes)
        shape = (*(batch if self.batched else ()), *(_size(word, sizes) for word in self.shape))
        if by_hand:
            x = _integers(shape, generator)
        else:
            x = torch.randn(shape, generator=generator)
            x = (10 * x).round() / 10 if scale == 1 else x  # rounded, large scores might be equal
        return 1 + x.abs() if self.kind == "positive" else scale * x


def _integers(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """All different, and none of them 0: some of 1, 2, 3, ... in any order, some with a minus."""
    count = torch.Size(shape).numel()
    signs = 2 * torch.randint(2, (count,), generator=generator) - 1
    order = torch.randperm(max(count, 3), generator=generator)[:count]
    return ((order + 1) * signs).float().view(shape)


def _size(word: str, sizes: dict[str, int]) -> int:
    return eval(word, {}, sizes)  # "H*D", written by a teacher


def read(line: str) -> list[Part]:
    """The inputs of a line; ValueError for one that is written in another way."""
    parts = []
    for text in line.split(","):
        if number := re.fullmatch(r"\s*(\w+) = ([A-Z]\S*)", text):
            parts.append(Part(number[1], None, number[2]))
        elif table := re.fullmatch(r"\s*(\w+):( \.\.\.)?((?: [A-Z1]\S*)*)( positive)?", text):
            name, batched, sizes, kind = table.groups("")
            parts.append(Part(name, tuple(sizes.split()), kind.strip(), bool(batched)))
        else:
            raise ValueError(f"{text.strip()!r}: an input is a table, as 'x: ... T D', or a number, as 'k = K'")
    return parts


def size_names(parts: list[Part]) -> list[str]:
    words = " ".join(word for part in parts for word in (part.shape or (part.kind,)))
    return list(dict.fromkeys(re.findall(r"[A-Z]\w*", words)))


def tables_of_sizes(names: list[str]) -> Iterator[dict[str, int]]:
    """All 1, one or two of them 2, all 2, all 3, and all different in two ways."""
    yield dict.fromkeys(names, 1)
    for some in (1, 2):
        for larger in itertools.combinations(names, some):
            yield {name: 2 if name in larger else 1 for name in names}
    for size in (2, 3):
        yield dict.fromkeys(names, size)
    for table in (RISING, FALLING):
        yield dict(zip(names, table, strict=False))


def precise(x: Any) -> Any:
    """In double precision, so that what is right is not off by rounding."""
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def cases_of(
    inputs: str | Callable[[], Iterable[tuple[Any, ...]]],
    reference: Callable[..., Any],
    prepare: Callable[..., dict[str, Any]] | None = None,
    scales: tuple[float, ...] = (),
) -> list[Case]:
    """Every input that an answer gets, and what is right for it, the smallest first."""
    if isinstance(inputs, str):
        return drawn(inputs, reference, prepare, scales)
    names = tuple(inspect.signature(reference).parameters)
    return [Case(names[: len(values)], values, reference(*copy.deepcopy(values))) for values in inputs()]


def drawn(
    line: str,
    reference: Callable[..., Any],
    prepare: Callable[..., dict[str, Any]] | None,
    scales: tuple[float, ...],
) -> list[Case]:
    """The cases of a line of inputs."""
    parts = read(line)
    generator = torch.Generator().manual_seed(0)
    cases = []

    def add(sizes: dict[str, int], batch: tuple[int, ...] = (), scale: float = 1.0) -> None:
        whole = sum(torch.Size([_size(word, sizes) for word in part.shape or ()]).numel() for part in parts)
        by_hand = whole <= HAND and not batch and scale == 1
        inputs = []
        for place, part in enumerate(parts):
            inputs.append(part.draw(sizes, batch, scale if place == 0 else 1.0, by_hand, generator))
        by_name = dict(zip((part.name for part in parts), inputs, strict=True))
        if prepare:  # inputs that depend on each other
            by_name = prepare(**by_name)
        inputs = tuple(by_name.values())
        right = reference(*map(precise, inputs))
        if isinstance(right, Tensor) and right.isnan().any():
            raise ValueError(f"the right answer has NaN for {by_name}: `prepare` such inputs first")
        words = {word: _size(word, sizes) for part in parts for word in part.shape or ()}
        cases.append(Case(tuple(by_name), inputs, right, sizes, batch, scale, sizes | words))

    every = [dict(sizes) for sizes in dict.fromkeys(tuple(x.items()) for x in tables_of_sizes(size_names(parts)))]
    has_tables = any(part.shape is not None for part in parts)
    again = every[:-2] if has_tables else []  # the small ones: numbers may agree by chance
    for sizes in [*every, *again]:
        add(sizes)
    for scale in scales:
        add(every[-2], scale=scale)
        add(every[-1], scale=scale)
    if any(part.batched for part in parts):
        add(dict.fromkeys(every[-1], 2), batch=(2,))
        add(every[-1], batch=(2,))
        add(every[-2], batch=(3, 2))
    return sorted(cases, key=lambda case: (case.scale != 1, bool(case.batch), case.count))
