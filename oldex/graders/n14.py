"""The exercises of *scaling out*: one model, trained by many processes."""

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor, randint, randn

from exercises import compare
from exercises.compare import Near
from exercises.judge import Answer, Given, Pairs, exercise

PARAMETERS, GPUS = 7e9, 8
EVERYTHING = 16 * PARAMETERS  # weight, gradient and AdamW's two averages, four bytes each
PADDING = -100  # PyTorch's sign for a target that does not count


@exercise(
    "14a",
    {
        "the two are exchanged: first with DistributedDataParallel": (EVERYTHING / GPUS, EVERYTHING),
        "it is bytes that are asked for, all of them: a billion has nine zeros": [
            (EVERYTHING / unit, ...) for unit in (1e9, 1e6, 1e3, 2**30, 2**20)
        ],
        "that is eight times as much as each GPU holds: all eight together, or bits": (GPUS * EVERYTHING, ...),
        "DistributedDataParallel cuts nothing: everyone holds everything": (EVERYTHING / GPUS, ...),
        "those are the weights alone: gradients and AdamW's two averages are held as well": (EVERYTHING / 4, ...),
        "one number of four is missing: a weight, its gradient, and TWO averages of AdamW": (EVERYTHING * 3 / 4, ...),
        "that is half of it: two averages are held beside weight and gradient, and each number takes four bytes": (
            EVERYTHING / 2,
            ...,
        ),
        "four numbers of four bytes for each parameter are 16 bytes, not 64": (4 * EVERYTHING, ...),
        "a number of float32 takes four bytes, not eight": (2 * EVERYTHING, ...),
        "everything is in float32, so nobody holds a second copy of the weights": [
            (20 * PARAMETERS, ...),
            (18 * PARAMETERS, ...),
        ],
        "with FSDP nothing is held whole: that is everything": (..., EVERYTHING),
        "there only one number of four is cut: weights, gradients AND both averages are": (
            ...,
            (3 + 1 / GPUS) * EVERYTHING / 4,
        ),
        "there two numbers of four are cut, and two are whole: all four are cut": (
            ...,
            (2 + 2 / GPUS) * EVERYTHING / 4,
        ),
        "there the weights are still whole: FSDP cuts them as well": (..., (1 + 3 / GPUS) * EVERYTHING / 4),
        "that is an eighth of the weights alone: the gradients and both averages are cut, not gone": (
            ...,
            EVERYTHING / 4 / GPUS,
        ),
        "an eighth of what? Two or three numbers of four: the weight, its gradient and both averages are held": [
            (..., EVERYTHING * 3 / 4 / GPUS),
            (..., EVERYTHING / 2 / GPUS),
        ],
        "those are parameters: for each of them sixteen bytes are held": (..., PARAMETERS / GPUS),
        "eight GPUs share everything, not fewer": [
            (..., EVERYTHING / 2),
            (..., EVERYTHING / 4),
        ],
    },
)
def memory(answer: Answer) -> Pairs:
    """answer = the bytes that each of 8 GPUs holds of 7 billion parameters, with DDP and with FSDP."""
    yield answer, (EVERYTHING, EVERYTHING / GPUS), Near(0.01, 0.0)


@exercise(
    "14b",
    {
        "that is waiting against WORK: a share of all the time is asked for, which is both": lambda P, M: (P - 1) / M,
        "that is right for one piece only: with more of them, GPUs work side by side": lambda P, M: (P - 1) / P,
        "that is the share in which it works: take it from 1": lambda P, M: M / (M + P - 1),
        "it waits P - 1 units, not P: its own is work": [
            lambda P, M: P / (M + P),
            lambda P, M: P / (M + P - 1),
        ],
        "P and M are exchanged: with more pieces it waits a smaller share": [
            lambda P, M: (M - 1) / (M + P - 1),
            lambda P, M: (M - 1) / P,
        ],
        "the last piece leaves after M + P - 1 units, not M + P": lambda P, M: (P - 1) / (M + P),
        "all takes M + P - 1 units: it does each of the M pieces, and waits P - 1": [
            lambda P, M: (P - 1) / (M + P - 2),
            lambda P, M: (P - 1) / (M + P + 1),
        ],
        "that is the number of units: divide it by all of them": [
            lambda P, M: P - 1,
            lambda P, M: P * (P - 1),
        ],
        "that is how long all takes: what share of it does a GPU wait?": lambda P, M: M + P - 1,
        "that is upside down: divide waiting by all": lambda P, M: (M + P - 1) / (P - 1),
        "that is twice the waiting: before its first piece and after its last, P - 1 units TOGETHER": [
            lambda P, M: 2 * (P - 1) / (M + P - 1),
            lambda P, M: 2 * (P - 1) / (M + 2 * (P - 1)),
        ],
        "the waiting of all GPUs stands against the time of one": lambda P, M: P * (P - 1) / (M + P - 1),
        "the waiting of one GPU stands against the time of all": lambda P, M: (P - 1) / (P * (M + P - 1)),
        "more pieces don't divide the waiting by M: it stays P - 1 units, and the work grows to M": [
            lambda P, M: (P - 1) / (P * M),
            lambda P, M: (P - 1) / M**2,
        ],
        "how long it waits depends on the number of GPUs": [
            lambda P, M: 1 / M,
            lambda P, M: 1 / (M + 1),
        ],
        "how long it waits depends on the number of pieces": lambda P, M: 1 / P,
        "that is percent: a share lies between 0 and 1": lambda P, M: 100 * (P - 1) / (M + P - 1),
    },
)
def idle(answer: Answer) -> Pairs:
    """answer(P, M) -> the share of the time that each of P GPUs waits, with M pieces."""
    for P, M in ((4, 8), (2, 1), (1, 5), (1, 1), (8, 1), (3, 3), (2, 7), (16, 64), (5, 1000)):
        yield answer(P, M), (P - 1) / (M + P - 1)


# ---------------------------------------------------------------- the same windows, whoever reads them
Draw = Callable[[int, int, int, int, int], Tensor]


def _drawn(seed: int, count: int, places: int) -> Tensor:
    return randint(places, (count,), generator=torch.Generator().manual_seed(seed))


def _strided(batch: Tensor, rank: int, size: int) -> Tensor:
    return batch[rank::size]


def _side_by_side(batch: Tensor, rank: int, size: int) -> Tensor:
    return batch.tensor_split(size)[rank]


def _everything(batch: Tensor, rank: int, size: int) -> Tensor:
    return batch


def _starts(
    take: Callable[[Tensor, int, int], Tensor] = _strided,
    draw: Draw = lambda step, rank, size, count, places: _drawn(step, count, places),
) -> Answer:
    """What a worker takes of a batch, and how the batch is drawn."""
    return lambda step, rank, size, count, places: take(draw(step, rank, size, count, places), rank, size)


def _seeded(seed: Callable[[int, int, int], int]) -> list[Answer]:
    """Other dice, from (step, rank, size): for a worker's own part alone, or for a batch of which it takes its part."""

    def draw(step: int, rank: int, size: int, count: int, places: int) -> Tensor:
        return _drawn(seed(step, rank, size), count, places)

    def rounded_down(step: int, rank: int, size: int, count: int, places: int) -> Tensor:
        return draw(step, rank, size, count // size, places)

    def as_even_as_can_be(step: int, rank: int, size: int, count: int, places: int) -> Tensor:
        return draw(step, rank, size, len(range(rank, count, size)), places)

    alone = [_starts(_everything, rounded_down), _starts(_everything, as_even_as_can_be)]
    return [*alone, _starts(_strided, draw), _starts(_side_by_side, draw)]


def _length(batch: Tensor, size: int) -> int:
    """Of a part, if all were equally long and none were left out."""
    return math.ceil(len(batch) / size)


def _padded(more: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int, int], Tensor]:
    """A part of a batch that is first made longer, until all parts are of the same length."""

    def take(batch: Tensor, rank: int, size: int) -> Tensor:
        missing = _length(batch, size) * size - len(batch)
        return torch.cat([batch, more(batch).expand(len(batch))[:missing]])[rank::size]

    return take


def _rest_to_the_last(batch: Tensor, rank: int, size: int) -> Tensor:
    length = len(batch) // size
    return batch[rank * length : len(batch) if rank == size - 1 else (rank + 1) * length]


def _cut_by(
    length: Callable[[Tensor, int], int], first: Callable[[int], int] = lambda rank: rank
) -> Callable[[Tensor, int, int], Tensor]:
    """A part of this length, after as many as `first` says."""

    def take(batch: Tensor, rank: int, size: int) -> Tensor:
        start = first(rank) * length(batch, size)
        return batch[max(start, 0) : max(start + length(batch, size), 0)]

    return take


@exercise(
    "14c",
    {
        "each worker has dice of its own: with another number of workers it is another training": [
            *_seeded(lambda step, rank, size: step + rank),
            *_seeded(lambda step, rank, size: step * size + rank),
            *_seeded(lambda step, rank, size: 1000 * step + rank),
            *_seeded(lambda step, rank, size: step + 1000 * rank),
            *_seeded(lambda step, rank, size: step * (rank + 1)),
        ],
        "the step is forgotten: the dice fall the same way each time": [
            *_seeded(lambda step, rank, size: 0),
            *_seeded(lambda step, rank, size: 1),
            *_seeded(lambda step, rank, size: 42),
            *_seeded(lambda step, rank, size: 1337),
            *_seeded(lambda step, rank, size: rank),
            *_seeded(lambda step, rank, size: torch.Generator().initial_seed()),
        ],
        "those dice are everybody's, dropout's too, and soon fall differently for each worker: use the step's own": [
            lambda step, rank, size, count, places: randint(places, (count,))[rank::size],
            lambda step, rank, size, count, places: randint(places, (count // size,)),
            lambda step, rank, size, count, places: randint(places, (len(range(rank, count, size)),)),
        ],
        "every worker reads the whole batch: each window once, by one of them": _starts(_everything),
        "every worker reads a whole batch of its own: batch_size is what all read together": [
            _starts(_everything, lambda step, rank, size, count, places: _drawn(step + rank, count, places)),
            _starts(_side_by_side, lambda step, rank, size, count, places: _drawn(step, count * size, places)),
        ],
        "what does not come out even is left out: some workers must read one window more": _starts(
            _cut_by(lambda batch, size: len(batch) // size)
        ),
        "some windows are read twice, to make all parts equally long: some workers may read one less": [
            _starts(_padded(lambda batch: batch)),
            _starts(_padded(lambda batch: batch[-1])),
        ],
        "one worker takes all that is left over: share it out, one each": _starts(_rest_to_the_last),
        "the last workers get less, or nothing: the parts are rounded up, so take tensor_split or [rank::size]": [
            _starts(_cut_by(_length)),
            _starts(lambda batch, rank, size: batch.chunk(size)[rank]),
            _starts(lambda batch, rank, size: list(batch.chunk(size))[rank]),
        ],
        "a window that falls twice is read twice: one worker alone would, too": [
            _starts(lambda batch, rank, size: batch.unique()[rank::size]),
            _starts(lambda batch, rank, size: batch.unique().tensor_split(size)[rank]),
        ],
        "randperm never draws a window twice: one worker alone takes randint": _starts(
            draw=lambda step, rank, size, count, places: torch.randperm(
                places, generator=torch.Generator().manual_seed(step)
            )[:count]
        ),
        "everyone takes the same part: who reads the others?": [
            _starts(lambda batch, rank, size: batch[::size]),
            _starts(lambda batch, rank, size: batch.tensor_split(size)[0]),
        ],
        "ranks count from 0: the first part is never read, or not by the first worker": [
            _starts(lambda batch, rank, size: batch[rank + 1 :: size]),
            _starts(lambda batch, rank, size: batch[rank - 1 :: size]),
            _starts(_cut_by(lambda batch, size: len(batch) // size, lambda rank: rank + 1)),
            _starts(_cut_by(lambda batch, size: len(batch) // size, lambda rank: rank - 1)),
        ],
        "size is the number of workers, not of windows in a part": _starts(_cut_by(lambda batch, size: size)),
        "those are places in the batch: return the starts that stand there": [
            lambda step, rank, size, count, places: range(rank, count, size),
            lambda step, rank, size, count, places: torch.arange(count).tensor_split(size)[rank],
        ],
        "every start below `places` may fall, the last one, too": _starts(
            draw=lambda step, rank, size, count, places: _drawn(step, count, places - 1)
        ),
    },
    broken=(
        "the curve is as noisy as with a smaller batch. Print what the two workers read",
        lambda step, rank, size, count, places: _drawn(step, count // size, places),
    ),
)
def starts(answer: Answer) -> Pairs:
    """answer(step, rank, size, batch_size, places) -> the windows of a worker, by their starts."""
    for step, size, batch_size, places in (
        (3, 2, 8, 100),
        (0, 3, 7, 50),
        (5, 4, 11, 1000),
        (250, 4, 9, 100_000),
        (7, 3, 8, 30),
        (12, 2, 9, 3),
        (2, 1, 5, 40),
        (4, 5, 8, 60),
    ):
        torch.rand(1)  # the global dice should not lie as after a seed
        workers = [answer(step, rank, size, batch_size, places) for rank in range(size)]
        read, shared = _together(workers, f"{step=}, {size=}, {batch_size=}, {places=}")
        yield read, _drawn(step, batch_size, places).sort().values, 0.01
        yield shared, None


def _together(workers: list[Given], described: str) -> tuple[Given, Given]:
    """What all workers read, sorted, and whether it is shared out evenly; or of both what is wrong with one worker."""
    for worker in workers:
        problem = _no_starts(worker)
        if problem:
            return problem, problem
    parts = [compare.tensor(worker.value) for worker in workers]
    fewest, most = min(map(len, parts)), max(map(len, parts))
    uneven = f"one worker reads {most} windows and another {fewest}: share them out evenly" if most - fewest > 1 else ""
    everything = f"{described}, all workers together, with their windows sorted,"
    return Given(torch.cat(parts).sort().values, everything), Given(None, described, uneven)


def _no_starts(worker: Given) -> Given | None:
    if worker.fault or compare.is_stub(worker.value):
        return worker
    try:
        shape = tuple(compare.tensor(worker.value).shape)
    except (TypeError, ValueError, RuntimeError):
        fault = f"it returns {compare.kind(worker.value)}, which is no list of starts"
    else:
        fault = f"it has the shape {shape}: a row of starts is asked for" if len(shape) != 1 else ""
    return dataclasses.replace(worker, fault=fault) if fault else None


# ---------------------------------------------------------------- a batch that is too large
Cut = Callable[[Tensor, int], list[Tensor]]


def _real(y: Tensor) -> int:
    return int((y != PADDING).sum())


def _split(x: Tensor, parts: int) -> list[Tensor]:
    return list(x.tensor_split(parts))


def _one_by_one(x: Tensor, parts: int) -> list[Tensor]:
    return list(x.split(1))


def _in_turn(x: Tensor, parts: int) -> list[Tensor]:
    return [x[i::parts] for i in range(parts)]


def _chunks(x: Tensor, parts: int) -> list[Tensor]:
    return list(x.chunk(parts))


def _without_the_rest(x: Tensor, parts: int) -> list[Tensor]:
    return list(x.split(len(x) // parts))[:parts]


def _added(
    weight: Callable[[Tensor], float] = _real,
    whole: Callable[[Tensor, int, int], float] = lambda y, parts, passes: _real(y),
    cut: Cut = _split,
    skip: bool = True,
    which: slice = slice(None),
) -> Answer:
    """Gradients of parts, each times a weight of its y, over something of all y, of `parts` and of how many there are.

    With `skip`, parts without any real letter are passed over.
    """

    def variant(x: Tensor, y: Tensor, parts: int, gradient: Answer) -> Tensor:
        pieces = list(zip(cut(x, parts), cut(y, parts), strict=True))[which]
        if skip:
            pieces = [(a, b) for a, b in pieces if _real(b)]
        return sum((weight(b) * gradient(a, b) for a, b in pieces), torch.zeros(())) / whole(y, parts, len(pieces))

    return variant


def _both(**how) -> list[Answer]:
    """With parts that have no real letter, and without them."""
    return [_added(skip=skip, **how) for skip in (True, False)]


def _like_the_first(count: Callable[[Tensor], int]) -> list[Answer]:
    """Every part weighed as if it were the first one, by something that is counted of it and of all."""

    def with_cut(cut: Cut, skip: bool) -> Answer:
        def variant(x: Tensor, y: Tensor, parts: int, gradient: Answer) -> Tensor:
            share = count(cut(y, parts)[0]) / count(y)
            return _added(lambda _: share, lambda *_: 1, cut, skip)(x, y, parts, gradient)

        return variant

    return [with_cut(cut, skip) for cut in (_split, _chunks) for skip in (True, False)]


@exercise(
    "14d",
    {
        "0 · NaN is NaN: pass over a part that has no real letter": [
            _added(skip=False, cut=cut) for cut in (_split, _chunks, _one_by_one, _in_turn)
        ],
        "that is a mean of means: a part with few letters counts as much as a full one": [
            *(
                answer
                for cut in (_split, _chunks, _one_by_one, _in_turn)
                for answer in _both(weight=lambda y: 1, whole=lambda y, parts, passes: passes, cut=cut)
            ),
            *_both(weight=lambda y: 1, whole=lambda y, parts, passes: parts),
            *_both(weight=lambda y: 1, whole=lambda y, parts, passes: parts, cut=_in_turn),
        ],
        "it weighs by texts, padding and all: weigh by real letters": [
            answer
            for cut in (_split, _chunks, _in_turn)
            for answer in _both(weight=len, whole=lambda y, parts, passes: len(y), cut=cut)
        ],
        "that is the sum over the letters: divide it by their number": _both(whole=lambda y, parts, passes: 1),
        "that is the sum of the parts' gradients: each is a mean, so weigh them, and divide": _both(
            weight=lambda y: 1, whole=lambda y, parts, passes: 1
        ),
        "it divides by the number of texts: divide by that of real letters": _both(
            whole=lambda y, parts, passes: len(y)
        ),
        "it divides by all places, padding too: divide by the number of real letters": [
            *_both(whole=lambda y, parts, passes: y.numel()),
            *_both(whole=lambda y, parts, passes: len(y[0])),
        ],
        "it is weighed by letters, and then divided by the number of parts: by all letters, once": [
            *_both(whole=lambda y, parts, passes: parts),
            *_both(whole=lambda y, parts, passes: passes),
        ],
        "divided by the number of letters it is the mean already: `parts` comes once too often": [
            *_both(whole=lambda y, parts, passes: _real(y) * parts),
            *_both(whole=lambda y, parts, passes: _real(y) / parts),
        ],
        "every part is weighed like the first one: their numbers of letters differ": [
            *_like_the_first(len),
            *_like_the_first(_real),
        ],
        "what does not come out even is left out: B // parts texts in each part are not all": [
            answer
            for whole in (
                lambda y, parts, passes: _real(y),
                lambda y, parts, passes: _real(y[: len(y) // parts * parts]),
            )
            for answer in _both(whole=whole, cut=_without_the_rest)
        ],
        "a letter may have the number 0: what does not count is -100": [
            *_both(weight=lambda y: (y != 0).sum(), whole=lambda y, parts, passes: (y != 0).sum()),
            *_both(weight=lambda y: (y > 0).sum(), whole=lambda y, parts, passes: (y > 0).sum()),
        ],
        "it counts the padding and not the letters": _both(
            weight=lambda y: (y == PADDING).sum(), whole=lambda y, parts, passes: (y == PADDING).sum()
        ),
        "that is the first part alone: is a `return` inside the loop?": [
            lambda x, y, parts, gradient: gradient(x.tensor_split(parts)[0], y.tensor_split(parts)[0]),
            *_both(which=slice(1)),
        ],
        "that is the last part alone: add up, instead of starting anew in each part": [
            lambda x, y, parts, gradient: gradient(x.tensor_split(parts)[-1], y.tensor_split(parts)[-1]),
            *_both(which=slice(-1, None)),
        ],
        "the last part is missing": _both(which=slice(-1)),
    },
)
def accumulated(answer: Answer) -> Pairs:
    """answer(x (B, T), y (B, T), parts, gradient) -> the gradient (P,) of the mean loss over the real letters of y."""
    for lengths, T, parts in (
        ((5, 5, 5, 5), 5, 2),
        ((6, 2, 5, 1), 6, 2),
        ((4, 7, 1, 3, 2), 7, 2),
        ((3, 1, 6, 2, 6, 4, 5), 6, 3),
        ((2, 5, 0, 0, 4, 1), 5, 3),
        ((0, 0, 3, 4, 2, 1), 4, 3),
        ((3, 6, 2), 6, 1),
        ((1, 4, 0, 2), 4, 4),
        ((4, 4, 4, 4, 4), 4, 3),
    ):
        V, P, B = 6, 4, len(lengths)
        table = randn(V, V, P, dtype=torch.float64)
        real = torch.arange(T) < torch.tensor(lengths)[:, None]
        x = randint(V, (B, T)) * real
        y = (randint(V, (B, T)) * (torch.arange(T) > 0)).masked_fill(~real, PADDING)  # each text's first y is 0
        yield answer(x, y, parts, _gradient(table, math.ceil(B / parts))), table[x[real], y[real]].mean(0)


def _gradient(table: Tensor, room: int) -> Answer:
    """A gradient to be judged with: each real letter adds the vector that the table has for it and for what it is read
    from."""

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        if x.dim() != 2 or x.shape != y.shape:
            raise ValueError(f"x and y should both be (B, T), not {tuple(x.shape)} and {tuple(y.shape)}")
        if len(x) > room:
            raise MemoryError(f"there is room for {room} texts at a time, not for {len(x)}")
        real = y != PADDING
        return table[x[real], y[real]].mean(0)  # of nothing: NaN

    gradient.__doc__ = f"with room for {room} texts at a time"
    return gradient


# ---------------------------------------------------------------- when does sending pay?
def _tokens(factor: float = 8 / 6, of_share: Callable[[float], float] = lambda share: 1 / share) -> Answer:
    return lambda flops, bandwidth, share: factor * flops / bandwidth * of_share(share)


@exercise(
    "14e",
    {
        "4 bytes for each parameter, TWICE over: 8": _tokens(4 / 6),
        "each number takes 4 bytes, and all is sent twice over: 8 for each parameter, not 2": _tokens(2 / 6),
        "sent twice over, not four times: 8 bytes for each parameter": _tokens(16 / 6),
        "the forward pass alone takes 2 operations: the backward pass takes 4 more": _tokens(8 / 2),
        "the backward pass takes 4 operations, and the forward pass 2 more": _tokens(8 / 4),
        "each token takes 6 operations for each parameter: they are forgotten": _tokens(8.0),
        "each parameter is 8 bytes on the way, and the bandwidth counts bytes": _tokens(1 / 6),
        "the bandwidth counts bytes, not bits": _tokens(64 / 6),
        "each parameter takes 6 operations and 8 bytes: that counts as many of the one as of the other": _tokens(1.0),
        "6 and 8 are exchanged: what is sent wants more tokens, what is computed fewer": _tokens(6 / 8),
        "those are multiplied: more bytes want more tokens, more operations fewer": _tokens(48.0),
        "`share` is of the time of computing, not of the whole step": _tokens(of_share=lambda share: 1 / share - 1),
        "a small share needs MANY tokens: divide by it": _tokens(of_share=lambda share: share),
        "there both take the same time: `share` is forgotten": _tokens(of_share=lambda share: 1.0),
        "`share` is what sending takes, measured in computing: not what is left": [
            _tokens(of_share=lambda share: 1 / (1 - share)),
            _tokens(of_share=lambda share: 1 - share),
        ],
        "the share is no percentage: 0.1 is a tenth": _tokens(of_share=lambda share: 100 / share),
        "flops and bandwidth are exchanged: a faster GPU needs MORE tokens to be busy": [
            lambda flops, bandwidth, share: 8 * bandwidth / (6 * flops * share),
            lambda flops, bandwidth, share: 8 * bandwidth / (6 * flops) * share,
        ],
        "that is upside down: tokens are wanted": [
            lambda flops, bandwidth, share: 6 * bandwidth * share / (8 * flops),
            lambda flops, bandwidth, share: 6 * bandwidth / (8 * flops * share),
        ],
        "sending takes bytes divided by bandwidth: that multiplies": (
            lambda flops, bandwidth, share: 8 * flops * bandwidth / (6 * share)
        ),
    },
)
def tokens(answer: Answer) -> Pairs:
    """answer(flops, bandwidth, share) -> the tokens with which sending takes that share of the time of computing."""
    for flops, bandwidth, share in (
        (4e14, 5e10, 0.4),
        (1e15, 4.5e11, 0.1),
        (3e13, 1e9, 0.02),
        (8e14, 1.25e10, 0.8),
        (2e12, 1e8, 2.5),
        (312e12, 6e11, 0.05),
    ):
        yield answer(flops, bandwidth, share), _tokens()(flops, bandwidth, share), Near(1e-4, 0.0)  # or rounded up
