"""Answers to the exercises of notebook 14: wrong ones, with words of the sentence that must refuse them, and right."""

import math
from fractions import Fraction

import numpy as np
import torch


def by_average(P, M):
    table = np.zeros((P, M + P - 1))
    for gpu in range(P):
        table[gpu, gpu : gpu + M] = 1
    return 1 - table.mean()


# ---------------------------------------------------------------- windows
def dice(number):
    return torch.Generator().manual_seed(number)


def batch(step, count, places):
    return torch.randint(places, (count,), generator=dice(step)).tolist()


def dealt_like_cards(step, rank, size, batch_size, places):
    hands = [[] for _ in range(size)]
    for i, start in enumerate(batch(step, batch_size, places)):
        hands[i % size].append(start)
    return hands[rank]


def from_the_end(step, rank, size, batch_size, places):
    return sorted(batch(step, batch_size, places))[::-1][size - 1 - rank :: size]


def skipping(step, rank, size, batch_size, places):
    """Draws what those before it draw, one after the other, and then its own."""
    own = dice(step)
    for worker in range(rank + 1):
        count = batch_size // size + (worker < batch_size % size)
        drawn = torch.randint(places, (count,), generator=own)
    return drawn


def with_the_global_dice(step, rank, size, batch_size, places):
    torch.manual_seed(step)
    return torch.randint(places, (batch_size, 1))[rank::size].flatten().numpy()


def by_bounds(step, rank, size, batch_size, places):
    start, end = rank * batch_size // size, (rank + 1) * batch_size // size
    return torch.randint(0, places, [batch_size], generator=dice(step))[start:end]


def one_after_the_other(step, rank, size, batch_size, places):
    own = dice(step)
    for i in range(batch_size):
        start = torch.randint(places, (), generator=own)
        if i % size == rank:
            yield start.item()


def sampler_of_pytorch(step, rank, size, batch_size, places):
    sampler = torch.utils.data.DistributedSampler(batch(step, batch_size, places), size, rank, shuffle=False)
    return [batch(step, batch_size, places)[i] for i in sampler]


def sampler_that_drops(step, rank, size, batch_size, places):
    starts = batch(step, batch_size, places)
    return [starts[i] for i in torch.utils.data.DistributedSampler(starts, size, rank, shuffle=False, drop_last=True)]


def own_dice(number):
    """A part of the batch, from dice with another number."""

    def answer(step, rank, size, batch_size, places):
        return batch(number(step, rank, size), batch_size // size, places)

    return answer


def own_dice_shared_out(number):
    def answer(step, rank, size, batch_size, places):
        return np.array_split(batch(number(step, rank), batch_size, places), size)[rank]

    return answer


def part(take):
    return lambda step, rank, size, batch_size, places: take(batch(step, batch_size, places), rank, size)


def the_last_takes_the_rest(starts, rank, size):
    n = len(starts) // size
    return starts[rank * n :] if rank + 1 == size else starts[rank * n : rank * n + n]


def rounded_up(starts, rank, size):
    n = math.ceil(len(starts) / size)
    return starts[rank * n : rank * n + n]


def the_first_takes_the_rest(starts, rank, size):
    return the_last_takes_the_rest(starts[::-1], size - 1 - rank, size)


# ---------------------------------------------------------------- gradients
def letters(y):
    return (y != -100).sum().item()


def one_text_at_a_time(x, y, parts, gradient):
    total = 0.0
    for i in range(len(x)):
        if letters(y[i]):
            total = total + letters(y[i]) / letters(y) * gradient(x[i : i + 1], y[i : i + 1])
    return total


def running_mean(x, y, parts, gradient):
    """The mean so far, moved by each text's share."""
    mean, seen = 0, 0
    for text, answers in zip(x.split(1), y.split(1), strict=True):
        if (answers == -100).all():
            continue
        seen += letters(answers)
        mean = mean + (gradient(text, answers) - mean) * letters(answers) / seen
    return mean.tolist()


def longest_together(x, y, parts, gradient):
    """Sorted by length first, as one does against padding."""
    order = (y != -100).sum(1).argsort(descending=True)
    pieces = [order[i::parts] for i in range(parts)]
    sums = [gradient(x[piece], y[piece]).nan_to_num() * letters(y[piece]) for piece in pieces]
    return torch.stack(sums).sum(0) / letters(y)


def as_large_as_fits(x, y, parts, gradient):
    n = math.ceil(len(x) / parts)
    found = [(letters(y[i : i + n]), gradient(x[i : i + n], y[i : i + n])) for i in range(0, len(x), n)]
    return np.average([g.numpy() for n, g in found if n], axis=0, weights=[n for n, _ in found if n])


def as_small_as_need_be(x, y, parts, gradient):
    n = len(x) // parts
    found = [(letters(y[i : i + n]), gradient(x[i : i + n], y[i : i + n])) for i in range(0, len(x), n)]
    return sum(torch.where(torch.tensor(n > 0), n * g, 0.0) for n, g in found) / sum(n for n, _ in found)


def without_padded_texts(x, y, parts, gradient):
    real = (y >= 0).any(dim=1)
    x, y = x[real], y[real]
    pieces = [(a, b) for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True)]
    return sum(gradient(a, b) * (b >= 0).sum() for a, b in pieces) / (y >= 0).sum()


def in_parts(weigh, finish, cut=lambda x, parts: np.array_split(x, parts)):
    """Adds up `weigh(gradient, y of the part)` and ends with `finish(sum, y, parts)`."""

    def answer(x, y, parts, gradient):
        total = 0
        for a, b in zip(cut(x.numpy(), parts), cut(y.numpy(), parts), strict=True):
            if (b != -100).any():
                total = total + weigh(gradient(torch.tensor(a), torch.tensor(b)), b)
        return finish(total, y, parts)

    return answer


def count(b):
    return (b != -100).sum().item()


def mean_of_means(x, y, parts, gradient):
    pairs = zip(x.chunk(parts), y.chunk(parts), strict=True)
    return torch.stack([gradient(a, b) for a, b in pairs]).mean(dim=0)


def mean_of_what_is_there(x, y, parts, gradient):
    means = [gradient(x[i::parts], y[i::parts]) for i in range(parts)]
    return torch.stack([mean for mean in means if not mean.isnan().any()]).mean(0)


def mean_of_texts(x, y, parts, gradient):
    means = torch.stack([gradient(x[i : i + 1], y[i : i + 1]) for i in range(len(x))])
    return means.nanmean(dim=0)


def nothing_passed_over(x, y, parts, gradient):
    pairs = zip(x.tensor_split(parts), y.tensor_split(parts), strict=True)
    return sum(gradient(a, b) * letters(b) for a, b in pairs) / letters(y)


def nothing_passed_over_text_by_text(x, y, parts, gradient):
    return sum(gradient(x[i : i + 1], y[i : i + 1]) * letters(y[i]) for i in range(len(x))) / letters(y)


def weighed_by_texts(x, y, parts, gradient):
    pairs = list(zip(x.tensor_split(parts), y.tensor_split(parts), strict=True))
    return sum(len(a) / len(x) * gradient(a, b) for a, b in pairs)


def returned_too_early(x, y, parts, gradient):
    for a, b in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        return gradient(a, b)


def begun_anew(x, y, parts, gradient):
    for a, b in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        total = 0
        total = total + gradient(a, b) * letters(b)
    return total / letters(b)


def without_the_rest(x, y, parts, gradient):
    n, total, seen = len(x) // parts, 0, 0
    for i in range(parts):
        a, b = x[i * n : (i + 1) * n], y[i * n : (i + 1) * n]
        if letters(b):
            total, seen = total + letters(b) * gradient(a, b), seen + letters(b)
    return total / seen


WRONG = {
    "14a": [
        ("exchanged", (14_000_000_000, 112_000_000_000)),
        ("a billion has nine zeros", (112, 14)),
        ("a billion has nine zeros", (104.3, 13)),
        ("all eight together, or bits", (896_000_000_000, 112_000_000_000)),
        ("cuts nothing", (14e9, 14e9)),
        ("the weights alone", (28e9, 3.5e9)),
        ("TWO averages", (7e9 * 12, 7e9 * 12 / 8)),
        ("that is half of it", (7e9 * 8, 7e9 * 8 / 8)),
        ("are 16 bytes, not 64", (448e9, 56e9)),
        ("not eight", (224e9, 28e9)),
        ("second copy", (7e9 * 18, 7e9 * 18 / 8)),
        ("nothing is held whole", (112e9, 112e9)),
        ("only one number of four", (112e9, 28e9 / 8 + 84e9)),
        ("two numbers of four are cut", (112e9, 56e9 + 56e9 / 8)),
        ("the weights are still whole", (112e9, 28e9 + 84e9 / 8)),
        ("of the weights alone", (112e9, 3.5e9)),
        ("an eighth of what", (112e9, 7e9)),
        ("those are parameters", (112e9, 875_000_000)),
        ("not fewer", (112e9, 56e9)),
        ("is not right", (115e9, 14e9)),
        ("2 things in a tuple", 112e9),
    ],
    "14b": [
        ("waiting against WORK", lambda P, M: (P - 1) / M),
        ("right for one piece only", lambda P, M: 1 - 1 / P),
        ("take it from 1", lambda P, M: M / (P + M - 1)),
        ("its own is work", lambda P, M: P / (P + M)),
        ("its own is work", lambda P, M: P / (P + M - 1)),
        ("P and M are exchanged", lambda P, M: by_average(M, P)),
        ("not M + P", lambda P, M: (P - 1) / (P + M)),
        ("each of the M pieces", lambda P, M: (P - 1) / (P + M + 1)),
        ("the number of units", lambda P, M: P - 1.0),
        ("how long all takes", lambda P, M: P + M - 1),
        ("upside down", lambda P, M: (M + P - 1) / (P - 1)),
        ("twice the waiting", lambda P, M: (2 * P - 2) / (M + P - 1)),
        ("twice the waiting", lambda P, M: (2 * P - 2) / (M + 2 * P - 2)),
        ("the time of one", lambda P, M: (P**2 - P) / (M + P - 1)),
        ("the time of all", lambda P, M: (P - 1) / ((M + P - 1) * P)),
        ("don't divide the waiting", lambda P, M: (1 - 1 / P) / M),
        ("depends on the number of GPUs", lambda P, M: 1 / M),
        ("depends on the number of pieces", lambda P, M: 1 / P),
        ("that is percent", lambda P, M: 100 - 100 * M / (M + P - 1)),
        ("it gives 0.5", lambda P, M: 0.5),
    ],
    "14c": [
        ("dice of its own", own_dice(lambda step, rank, size: step + rank)),
        ("dice of its own", own_dice_shared_out(lambda step, rank: rank + step)),
        ("dice of its own", own_dice(lambda step, rank, size: size * step + rank)),
        ("the step is forgotten", own_dice(lambda step, rank, size: rank)),
        ("the step is forgotten", own_dice_shared_out(lambda step, rank: 1337)),
        ("everybody's", lambda step, rank, size, batch_size, places: (
            np.array_split(torch.randint(places, (batch_size,)), size)[rank])),
        ("everybody's", lambda step, rank, size, batch_size, places: torch.randint(0, places, (batch_size // size,))),
        ("reads the whole batch", part(lambda starts, rank, size: starts)),
        ("a whole batch of its own", lambda step, rank, size, batch_size, places: (
            batch(step + rank, batch_size, places))),
        ("is left out", part(lambda starts, rank, size: starts[rank::size][: len(starts) // size])),
        ("is left out", sampler_that_drops),
        ("are read twice", sampler_of_pytorch),
        ("all that is left over", part(the_last_takes_the_rest)),
        ("all that is left over", part(the_first_takes_the_rest)),
        ("rounded up", part(rounded_up)),
        ("rounded up", part(lambda starts, rank, size: torch.tensor(starts).split(-(-len(starts) // size))[rank])),
        ("one worker alone would, too", part(lambda starts, rank, size: sorted(set(starts))[rank::size])),
        ("randperm", lambda step, rank, size, batch_size, places: (
            torch.randperm(places, generator=dice(step))[:batch_size].tensor_split(size)[rank])),
        ("the same part", part(lambda starts, rank, size: starts[0::size])),
        ("ranks count from 0", part(lambda starts, rank, size: starts[1 + rank :: size])),
        ("not of windows", part(lambda starts, rank, size: starts[size * rank : size * rank + size])),
        ("places in the batch", lambda step, rank, size, batch_size, places: np.arange(batch_size)[rank::size]),
        ("the last one, too", lambda step, rank, size, batch_size, places: (
            batch(step, batch_size, places - 1)[rank::size])),
        ("a row of starts is asked for", lambda step, rank, size, batch_size, places: (
            torch.tensor(batch(step, batch_size, places))[rank::size, None])),
        ("no list of starts", lambda step, rank, size, batch_size, places: (
            set(batch(step, batch_size, places)[rank::size]))),
        ("share them out evenly", part(lambda starts, rank, size: starts if rank == 0 else [])),
        ("all workers together", part(lambda starts, rank, size: [start + 1 for start in starts[rank::size]])),
    ],
    "14d": [
        ("0 · NaN is NaN", nothing_passed_over),
        ("0 · NaN is NaN", nothing_passed_over_text_by_text),
        ("a mean of means", mean_of_means),
        ("a mean of means", mean_of_what_is_there),
        ("a mean of means", mean_of_texts),
        ("it weighs by texts", weighed_by_texts),
        ("it weighs by texts", in_parts(lambda g, b: g * b.size, lambda total, y, parts: total / y.numel())),
        ("the sum over the letters", in_parts(lambda g, b: g * count(b), lambda total, y, parts: total)),
        ("the sum of the parts' gradients", in_parts(lambda g, b: g, lambda total, y, parts: total)),
        ("by the number of texts", in_parts(lambda g, b: g * count(b), lambda total, y, parts: total / len(y))),
        ("by all places", in_parts(lambda g, b: g * count(b), lambda total, y, parts: total / y.numel())),
        ("divided by the number of parts", in_parts(lambda g, b: count(b) * g, lambda total, y, parts: total / parts)),
        ("once too often", in_parts(lambda g, b: count(b) * g, lambda total, y, parts: total / letters(y) / parts)),
        ("like the first one", lambda x, y, parts, gradient: sum(
            gradient(a, b).nan_to_num() * -(-len(x) // parts) / len(x)
            for a, b in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True))),
        ("are not all", without_the_rest),
        ("what does not count is -100", in_parts(
            lambda g, b: g * np.count_nonzero(b), lambda total, y, parts: total / y.count_nonzero())),
        ("counts the padding", in_parts(
            lambda g, b: g * (b == -100).sum(), lambda total, y, parts: total / (y == -100).sum())),
        ("the first part alone", returned_too_early),
        ("the last part alone", begun_anew),
        ("the last part is missing", lambda x, y, parts, gradient: sum(
            gradient(a, b).nan_to_num() * letters(b)
            for a, b in zip(x.tensor_split(parts)[:-1], y.tensor_split(parts)[:-1], strict=True)) / letters(y)),
        ("it raises MemoryError: there is room for 2 texts at a time, not for 4", lambda x, y, parts, gradient: (
            gradient(x, y))),
        ("should both be (B, T)", lambda x, y, parts, gradient: sum(map(gradient, x, y)) / len(x)),
        ("changes its input `y`", lambda x, y, parts, gradient: (
            one_text_at_a_time(x, y.clamp_(min=0), parts, gradient))),
    ],
    "14e": [
        ("TWICE over", lambda flops, bandwidth, share: (4 / bandwidth) / (6 / flops) / share),
        ("not 2", lambda flops, bandwidth, share: (2 / bandwidth) / (6 / flops) / share),
        ("not four times", lambda flops, bandwidth, share: (16 / bandwidth) / (6 / flops) / share),
        ("the backward pass takes 4 more", lambda flops, bandwidth, share: 4 * flops / bandwidth / share),
        ("the forward pass 2 more", lambda flops, bandwidth, share: 2 * flops / bandwidth / share),
        ("they are forgotten", lambda flops, bandwidth, share: 8 / bandwidth / (share / flops)),
        ("the bandwidth counts bytes", lambda flops, bandwidth, share: flops / (6 * bandwidth * share)),
        ("not bits", lambda flops, bandwidth, share: 64 * flops / (6 * bandwidth * share)),
        ("as many of the one", lambda flops, bandwidth, share: flops / bandwidth / share),
        ("6 and 8 are exchanged", lambda flops, bandwidth, share: 6 * flops / (8 * bandwidth * share)),
        ("not of the whole step", lambda flops, bandwidth, share: 8 / bandwidth * (1 - share) / share / (6 / flops)),
        ("divide by it", lambda flops, bandwidth, share: share * 8 * flops / (6 * bandwidth)),
        ("`share` is forgotten", lambda flops, bandwidth, share: 4 * flops / (3 * bandwidth)),
        ("not what is left", lambda flops, bandwidth, share: 4 * flops / (3 * bandwidth * (1 - share))),
        ("no percentage", lambda flops, bandwidth, share: 400 * flops / (3 * bandwidth * share)),
        ("a faster GPU needs MORE", lambda flops, bandwidth, share: 4 * bandwidth / (3 * flops * share)),
        ("upside down", lambda flops, bandwidth, share: 3 * bandwidth * share / (4 * flops)),
        ("that multiplies", lambda flops, bandwidth, share: 8 * bandwidth / (6 / flops) / share),
        ("where 26667 is right", lambda flops, bandwidth, share: 25_000),
    ],
}  # fmt: skip
RIGHT = {
    "14a": [
        (112_000_000_000, 14_000_000_000),
        [7e9 * (4 + 4 + 8), 7e9 * (4 + 4 + 8) / 8],
        torch.tensor([112e9, 14e9]),
        np.array([1.12e11, 14e9]),
        (Fraction(7 * 10**9 * 16), Fraction(14 * 10**9)),
    ],
    "14b": [
        by_average,
        lambda P, M: 1 - M / (M + P - 1),
        lambda P, M: 1 / (1 + M / (P - 1)) if P > 1 else 0,
        lambda P, M: np.divide(P - 1, P - 1 + M),
        lambda P, M: torch.tensor([(P - 1) / (P - 1 + M)]),
        lambda P, M: Fraction(P - 1, M + P - 1),
    ],
    "14c": [
        dealt_like_cards,
        from_the_end,
        skipping,
        with_the_global_dice,
        by_bounds,
        one_after_the_other,
        lambda step, rank, size, batch_size, places: (
            torch.randint(places, (batch_size,), generator=dice(step)).tensor_split(size)[rank]),
        lambda step, rank, size, batch_size, places: np.array_split(batch(step, batch_size, places), size)[rank],
    ],
    "14d": [
        one_text_at_a_time,
        running_mean,
        longest_together,
        as_large_as_fits,
        as_small_as_need_be,
        in_parts(lambda g, b: g * count(b), lambda total, y, parts: total / letters(y)),
        in_parts(lambda g, b: g.numpy() * count(b), lambda total, y, parts: (total / letters(y)).astype(np.float32)),
    ],
    "14e": [
        lambda flops, bandwidth, share: 4 * flops / (3 * bandwidth * share),
        lambda flops, bandwidth, share: (8 / bandwidth) / (6 / flops) / share,
        lambda flops, bandwidth, share: math.ceil(8 * flops / (6 * bandwidth * share)),
        lambda flops, bandwidth, share: torch.tensor(flops) / bandwidth * 8 / 6 / share,
        lambda flops, bandwidth, share: math.exp(
            math.log(8) - math.log(6) + math.log(flops) - math.log(bandwidth) - math.log(share)),
    ],
}  # fmt: skip
