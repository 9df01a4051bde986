"""Answers to the exercises of notebook 13: wrong ones, with words of the sentence that must refuse them, and right."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from helpers.modern import ngram_rows


# ---------------------------------------------------------------- one place left out
def share(c, n, kinds, d, lower):
    return (max(c - d, 0) + d * kinds * lower) / n


def struck_out(c, n, kinds, d, lower):
    """The letters one by one: ours is 0, and the first of them is struck out."""
    others = [1 + i % max(kinds - 1, 1) for i in range(n - c)]
    rest = ([0] * c + others)[1:]
    if not rest:
        return lower
    return share(rest.count(0), len(rest), len(set(rest)), d, lower)


def by_cases(c, n, kinds, d, lower):
    if n == 1:
        return lower
    if c == 1:
        return d * (kinds - 1) / (n - 1) * lower
    return (c - 1 - d) / (n - 1) + d * kinds / (n - 1) * lower


def by_fractions(c, n, kinds, d, lower):
    if n == 1:
        return lower
    d, left = Fraction(d), n - 1
    return float(max(c - 1 - d, 0) / left) + float(d * (kinds - (c < 2)) / left) * lower


def by_tensors(c, n, kinds, d, lower):
    c, n, kinds = torch.tensor([c - 1.0, n - 1.0, kinds - float(c == 1)])
    p = (c - d).relu() / n + d * kinds / n * lower
    return torch.where(n > 0, p, lower)


def unless(nothing, otherwise):
    """`nothing` where n was 1."""
    return lambda c, n, kinds, d, lower: nothing(d, lower) if n == 1 else otherwise(c, n, kinds, d, lower)


# ---------------------------------------------------------------- smoothing
def smoothed_by_loop(counts, lower, d):
    total, given, kept = counts.sum().item(), 0.0, []
    for count in counts.tolist():
        take = d if count else 0.0
        given += take
        kept.append(count - take)
    if total == 0:
        return lower
    return [(k + given * p) / total for k, p in zip(kept, lower.tolist(), strict=True)]


def smoothed_by_what_is_left(counts, lower, d):
    kept = (counts - d).clamp(min=0) / max(counts.sum(), 1)
    return kept + (1 - kept.sum()) * lower


def smoothed_by_numpy(counts, lower, d):
    counts, lower = counts.numpy(), lower.numpy()
    if counts.sum() == 0:
        return lower
    seen = np.count_nonzero(counts)
    return np.maximum(counts - d, 0) / counts.sum() + d * seen / counts.sum() * lower


def smoothed_in_place(counts, lower, d):
    kept = counts.clone()
    kept[kept > 0] -= d
    p = (kept + d * counts.bool().sum() * lower) / counts.sum()
    return p.where(counts.sum() > 0, lower)


def unseen(what, kinds=lambda counts: (counts > 0).sum()):
    """Something else for a run that was never seen."""

    def answer(counts, lower, d):
        if counts.sum() == 0:
            return what(lower)
        return ((counts - d).relu() + d * kinds(counts) * lower) / counts.sum()

    return answer


def as_given(counts, lower, d):
    total = counts.sum()
    return (counts - d).clamp(min=0) / total + d / total * lower


# ---------------------------------------------------------------- neighbours
def neighbours_by_sets(tokens, V):
    before = {letter: set() for letter in range(V)}
    tokens = tokens.tolist()
    for i in range(1, len(tokens)):
        before[tokens[i]].add(tokens[i - 1])
    sizes = [len(before[letter]) for letter in range(V)]
    return [size / sum(sizes) for size in sizes]


def neighbours_by_pairs(tokens, V):
    pairs = torch.stack([tokens[:-1], tokens[1:]], dim=1).unique(dim=0)
    return pairs[:, 1].bincount(minlength=V) / len(pairs)


def neighbours_by_numbers(tokens, V):
    different = (tokens[:-1] * V + tokens[1:]).unique()
    return F.one_hot(different % V, V).double().mean(0)


def neighbours_by_numpy(tokens, V):
    table = np.zeros((V, V), dtype=bool)
    table[tokens[:-1], tokens[1:]] = True
    return table.sum(0) / table.sum()


def neighbours_by_counter(tokens, V):
    pairs = set(zip(tokens.tolist(), tokens.tolist()[1:], strict=False))
    found = Counter(b for _, b in pairs)
    return np.array([found[letter] for letter in range(V)]) / found.total()


def pairs_of(tokens):
    return list(zip(tokens.tolist(), tokens.tolist()[1:], strict=False))


def counted(pairs, V, of=1):
    """The shares of what stands second (or first) in these pairs."""
    return torch.tensor([pair[of] for pair in pairs]).bincount(minlength=V) / len(pairs)


def rows_by_loop(tokens, V, rows):
    found = []
    for text in tokens.tolist():
        found.append([(a * (V + 1) + b) % rows for a, b in zip([V, *text], text, strict=False)])
    return found


def rows_by_windows(tokens, V, rows):
    pairs = F.pad(tokens, (1, 0), value=V).unfold(1, 2, 1)
    return (pairs * torch.tensor([V + 1, 1])).sum(-1).remainder(rows)


def rows_by_numpy(tokens, V, rows):
    before = np.hstack([np.full((len(tokens), 1), V), tokens.numpy()[:, :-1]])
    return np.mod(before * (V + 1) + tokens.numpy(), rows)


def pairs_from(start, make=lambda a, b, V: a * (V + 1) + b):
    def answer(tokens, V, rows):
        return [[make(a, b, V) % rows for a, b in zip([start(text, V), *text], text, strict=False)]
                for text in tokens.tolist()]  # fmt: skip

    return answer


# ---------------------------------------------------------------- together
def together_by_powers(alone, counts, gates):
    log = gates[:, :1] * alone.log_softmax(-1)
    for i in range(counts.shape[1]):
        log = log + gates[:, 1 + i, None] * counts[:, i].log()
    return (log - log.logsumexp(-1, keepdim=True)).exp()


def together_by_loops(alone, counts, gates):
    rows = []
    for b in range(len(alone)):
        sums = [
            gates[b, 0].item() * alone[b, v].item()
            + sum(gates[b, 1 + i].item() * math.log(counts[b, i, v].item()) for i in range(counts.shape[1]))
            for v in range(alone.shape[1])
        ]
        powers = [math.exp(x - max(sums)) for x in sums]
        rows.append([x / sum(powers) for x in powers])
    return rows


def together_by_numpy(alone, counts, gates):
    experts = np.concatenate([alone.numpy()[:, None], np.log(counts.numpy())], axis=1)
    logits = np.einsum("be,bev->bv", gates.numpy(), experts)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def logits_together(alone, counts, gates):
    return gates[:, :1] * alone + torch.einsum("bl,blv->bv", gates[:, 1:], counts.log())


def mixed(alone, counts, gates):
    experts = torch.cat([alone.softmax(-1)[:, None], counts], 1)
    return (gates[..., None] * experts).sum(1)


WRONG = {
    "13a": [
        ("the letters are exchanged", (3, 3, 4, 1)),
        ("the two ways are exchanged", (1, 4, 3, 3)),
        ("letter by letter", [4, 3, 1, 3]),
        ("those come AFTER it", (4, 2, 3, 3)),
        ("how many DIFFERENT letters", (4, 4, 3, 3)),
        ("a letter may stand after itself", (4, 1, 3, 2)),
        ("to the left of each e", (4, 1, 3, 4)),
        ("has one u", (5, 1, 3, 3)),
        ("two of e", (4, 1, 2, 3)),
        ("those are shares", (0.16, 0.04, 0.12, 0.12)),
        ("those are shares", (4 / 22, 1 / 22, 3 / 22, 3 / 22)),
        ("4 things in a tuple", (4, 1)),
    ],
    "13b": [
        ("nothing is left out", share),
        ("n counts the place, too", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            share(c - 1, n, kinds - (c == 1), d, lower)))),
        ("c counts the place, too", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            share(c, n - 1, kinds - (c == 1), d, lower)))),
        ("still divided by n", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            max(c - 1 - d, 0) / (n - 1) + d * (kinds - (c == 1)) / n * lower))),
        ("and no longer is", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            share(c - 1, n - 1, kinds, d, lower)))),
        ("still one of the kinds", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            share(c - 1, n - 1, kinds - 1, d, lower)))),
        ("not below", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            (c - 1 - d) / (n - 1) + d * (kinds - (c == 1)) / (n - 1) * lower))),
        ("nothing is left to divide by", lambda c, n, kinds, d, lower: (
            share(c - 1, n - 1, kinds - (c == 1), d, lower))),
        ("nothing is left to divide by", unless(lambda d, lower: 0, by_cases)),
        ("not a part of it", unless(lambda d, lower: d * lower, by_cases)),
        ("not everything", lambda c, n, kinds, d, lower: lower if c == 1 else by_cases(c, n, kinds, d, lower)),
        ("not impossible", lambda c, n, kinds, d, lower: (
            by_cases(c, n, kinds, d, lower) if c > 1 or n == 1 else 0)),
        ("all that is given away", lambda c, n, kinds, d, lower: (
            by_cases(c, n, kinds, d, 1) if n > 1 else lower)),
        ("gives away d, not 1", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            max(c - 1 - d, 0) / (n - 1) + (kinds - (c == 1)) / (n - 1) * lower))),
        ("once for each kind", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            max(c - 1 - d, 0) + d * lower) / (n - 1))),
        ("is missing", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: by_cases(c, n, kinds, d, 0))),
        ("own count gives d away", unless(lambda d, lower: lower, lambda c, n, kinds, d, lower: (
            (c - 1 + d * (kinds - (c == 1)) * lower) / (n - 1)))),
        ("is right", lambda c, n, kinds, d, lower: (c - 1) / n),
    ],
    "13c": [
        ("gives NaN", lambda counts, lower, d: (
            ((counts - d).clamp(min=0) + d * counts.count_nonzero() * lower) / counts.sum())),
        ("nothing at all", lambda counts, lower, d: (
            ((counts - d).clamp(min=0) + d * (counts != 0).sum() * lower) / counts.sum().clamp(min=1))),
        ("which knows better", unseen(lambda lower: torch.ones_like(lower) / len(lower))),
        ("still don't add up", lambda counts, lower, d: as_given(counts, lower, d) if counts.any() else lower),
        ("hides the hole", lambda counts, lower, d: F.normalize(as_given(counts, lower, d), p=1, dim=0)),
        ("DIFFERENT letter", lambda counts, lower, d: (counts - d).clamp(min=0) / counts.sum() + d * lower),
        ("not all V of them", unseen(lambda lower: lower, len)),
        ("falls below 0", lambda counts, lower, d: (
            lower if not counts.any() else (counts - d + d * len(counts) * lower) / counts.sum())),
        ("not everything once more", lambda counts, lower, d: (counts - d).relu() / counts.sum() + lower),
        ("no share of the whole", lambda counts, lower, d: (counts - d).relu() / counts.sum() + (1 - d) * lower),
        ("d, not 1", lambda counts, lower, d: (
            ((counts - d).relu() + (counts > 0).sum() * lower) / counts.sum() if counts.any() else lower)),
        ("what it keeps is less", lambda counts, lower, d: (
            (counts + d * (counts > 0).sum() * lower) / counts.sum() if counts.any() else lower)),
        ("get their part", lambda counts, lower, d: (
            torch.where(counts > 0, counts - d, d * (counts > 0).sum() * lower) / counts.sum()
            if counts.any() else lower)),
        ("not evenly", lambda counts, lower, d: (
            ((counts - d).relu() + d * (counts > 0).sum() / len(counts)) / counts.sum() if counts.any() else lower)),
        ("changes its input `counts`", lambda counts, lower, d: counts.sub_(d).clamp_(min=0) + lower),
    ],
    "13d": [
        ("how often each letter occurs", lambda tokens, V: F.one_hot(tokens, V).float().mean(0)),
        ("a pair that comes again", lambda tokens, V: counted(pairs_of(tokens), V)),
        ("FOLLOW it", lambda tokens, V: counted(list(set(pairs_of(tokens))), V, of=0)),
        ("on both sides", lambda tokens, V: counted(
            list({*pairs_of(tokens), *pairs_of(tokens.flip(0))}), V)),
        ("no ring", lambda tokens, V: counted(list({*pairs_of(tokens), (tokens[-1].item(), tokens[0].item())}), V)),
        ("the start of the text is no letter", lambda tokens, V: counted(
            list({*pairs_of(tokens), (None, tokens[0].item())}), V)),
        ("after itself, too", lambda tokens, V: torch.tensor(
            [len({a for a, b in pairs_of(tokens) if b == v != a}) for v in range(V)])
            / len({(a, b) for a, b in pairs_of(tokens) if a != b} or {()})),
        ("divide by their sum", lambda tokens, V: [
            len({a for a, b in pairs_of(tokens) if b == v}) for v in range(V)]),
        ("they don't add up to 1", lambda tokens, V: [
            len({a for a, b in pairs_of(tokens) if b == v}) / V for v in range(V)]),
        ("by how often it occurs", lambda tokens, V: [
            len({a for a, b in pairs_of(tokens) if b == v}) / max(1, tokens.tolist().count(v)) for v in range(V)]),
        ("that is a softmax", lambda tokens, V: torch.tensor(
            [float(len({a for a, b in pairs_of(tokens) if b == v})) for v in range(V)]).softmax(0)),
        ("V shares", lambda tokens, V: torch.tensor(list(set(pairs_of(tokens))))[:, 1].unique(return_counts=True)[1]
            / len(set(pairs_of(tokens)))),
        ("changes its input `tokens`", lambda tokens, V: tokens.add_(1).bincount(minlength=V)),
    ],
    "13e": [
        ("the base is V + 1", pairs_from(lambda text, V: V, lambda a, b, V: a * V + b)),
        ("the digits are exchanged", pairs_from(lambda text, V: V, lambda a, b, V: b * (V + 1) + a)),
        ("not 0", pairs_from(lambda text, V: 0)),
        ("not V - 1", pairs_from(lambda text, V: V - 1)),
        ("not -1", pairs_from(lambda text, V: -1)),
        ("no ring", pairs_from(lambda text, V: text[-1])),
        ("that token again", pairs_from(lambda text, V: text[0])),
        ("each begins anew", lambda x, V, rows: np.reshape(
            pairs_from(lambda text, V: V)(x.reshape(1, -1), V, rows), tuple(x.shape))),
        ("the NEXT token", lambda x, V, rows: (
            (torch.cat([x[:, 1:], torch.full((len(x), 1), V)], 1) * (V + 1) + x) % rows)),
        ("the modulo is missing", lambda x, V, rows: rows_by_loop(x, V, 10**12)),
        ("only added", pairs_from(lambda text, V: V, lambda a, b, V: a + b)),
        ("those are the tokens", lambda x, V, rows: x % rows),
        ("those are triples", lambda x, V, rows: ngram_rows(x, 3, V, rows)),
        ("has a row, too", lambda x, V, rows: rows_by_windows(x, V, rows)[:, 1:]),
        ("changes its input `x`", lambda x, V, rows: x.roll(1, 1).copy_(x.mul_(2))),
    ],
    "13f": [
        ("a mixture", mixed),
        ("a mixture", lambda alone, counts, gates: mixed(alone, counts, gates.softmax(-1))),
        ("a mixture", lambda alone, counts, gates: (
            mixed(alone, counts, gates) / mixed(alone, counts, gates).sum(-1, keepdim=True))),
        ("not their probabilities", lambda alone, counts, gates: (
            logits_together(alone, counts.exp(), gates).softmax(-1))),
        ("logarithms already", lambda alone, counts, gates: logits_together(alone.log(), counts, gates).softmax(-1)),
        ("logarithms already", lambda alone, counts, gates: (
            logits_together(alone.softmax(-1), counts, gates).softmax(-1))),
        ("the network's gate is forgotten", lambda alone, counts, gates: (
            alone + logits_together(0 * alone, counts, gates)).softmax(-1)),
        ("the counts' gates are forgotten", lambda alone, counts, gates: (
            (gates[:, [0]] * alone + counts.log().sum(1)).softmax(-1))),
        ("the gates are forgotten", lambda alone, counts, gates: (alone + counts.prod(1).log()).softmax(-1)),
        ("the first gate is the network's", lambda alone, counts, gates: (
            logits_together(alone, counts, torch.cat([gates[:, -1:], gates[:, :-1]], 1)).softmax(-1))),
        ("needn't add up to 1", lambda alone, counts, gates: (
            logits_together(alone, counts, gates.softmax(-1)).softmax(-1))),
        ("the network has no say", lambda alone, counts, gates: (
            (gates[:, 1:, None] * counts.log()).sum(1).softmax(-1))),
        ("the counts have no say", lambda alone, counts, gates: (gates[:, :1] * alone).softmax(-1)),
        ("a mean over the lengths", lambda alone, counts, gates: (
            (gates[:, :1] * alone + (gates[:, 1:, None] * counts.log()).mean(1)).softmax(-1))),
        ("those are logits", logits_together),
        ("those are logarithms", lambda alone, counts, gates: logits_together(alone, counts, gates).log_softmax(-1)),
        ("they don't add up to 1", lambda alone, counts, gates: logits_together(alone, counts, gates).exp()),
        ("over the texts", lambda alone, counts, gates: logits_together(alone, counts, gates).softmax(0)),
        ("the natural logarithm", lambda alone, counts, gates: (
            (gates[:, :1] * alone + (gates[:, 1:, None] * counts.log2()).sum(1)).softmax(-1))),
        ("the sign is wrong", lambda alone, counts, gates: F.softmin(logits_together(alone, counts, gates), -1)),
        ("e^x overflows", lambda alone, counts, gates: (
            logits_together(alone, counts, gates).exp()
            / logits_together(alone, counts, gates).exp().sum(-1, keepdim=True))),
        ("it raises RuntimeError", lambda alone, counts, gates: (gates @ counts + alone).softmax(-1)),
    ],
}  # fmt: skip
RIGHT = {
    "13a": [
        (4, 1, 3, 3),
        [4, 1, 3, 3],
        torch.tensor([4, 1, 3, 3]),
        np.array([4.0, 1.0, 3.0, 3.0]),
    ],
    "13b": [
        by_cases,
        by_fractions,
        by_tensors,
        struck_out,
        lambda c, n, kinds, d, lower: lower if n == 1 else share(c - 1, n - 1, kinds - (c == 1), d, lower),
        unless(lambda d, lower: [lower], lambda c, n, kinds, d, lower: (
            [share(c - 1, n - 1, kinds - (c < 2), d, lower)])),
    ],
    "13c": [
        smoothed_by_loop,
        smoothed_by_what_is_left,
        smoothed_by_numpy,
        smoothed_in_place,
        unseen(lambda lower: lower),
        unseen(torch.clone, torch.count_nonzero),
    ],
    "13d": [
        neighbours_by_sets,
        neighbours_by_pairs,
        neighbours_by_numbers,
        neighbours_by_numpy,
        neighbours_by_counter,
        lambda tokens, V: counted(list(set(pairs_of(tokens))), V),
    ],
    "13e": [
        rows_by_loop,
        rows_by_windows,
        rows_by_numpy,
        lambda x, V, rows: ngram_rows(x, 2, V, rows),
        lambda x, V, rows: (ngram_rows(x, 2, V, rows) + rows).float() - rows,
    ],
    "13f": [
        together_by_powers,
        together_by_loops,
        together_by_numpy,
        lambda alone, counts, gates: logits_together(alone, counts, gates).softmax(-1),
        lambda alone, counts, gates: F.softmax(
            (gates.unsqueeze(1) @ torch.cat([alone[:, None], counts.log()], 1)).squeeze(1), dim=-1),
        lambda alone, counts, gates: torch.stack(
            [(g[0] * a + g[1:] @ c.log()).softmax(0) for a, c, g in zip(alone, counts, gates, strict=True)]),
    ],
}  # fmt: skip
