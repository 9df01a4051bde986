"""Answers to the exercises of notebook 09: wrong ones, with words of the sentence that must refuse them, and right."""

import itertools
import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F


def nucleus_by_loop(probabilities, p):
    kept, total = [0] * len(probabilities), 0.0
    for token in sorted(range(len(probabilities)), key=lambda v: -probabilities[v]):
        if total >= p:
            break
        kept[token], total = 1, total + probabilities[token].item()
    return kept


def nucleus_by_cases(probabilities, p):
    """A token is in it when all that are likelier have less than p together."""
    return [float(probabilities[probabilities > q].sum()) < p for q in probabilities]


def smallest_set(probabilities, p):
    numbers = range(len(probabilities))
    sets = itertools.chain.from_iterable(itertools.combinations(numbers, size) for size in range(1, len(numbers) + 1))
    best = max(
        (chosen for chosen in sets if probabilities[list(chosen)].sum() >= p),
        key=lambda chosen: (-len(chosen), probabilities[list(chosen)].sum().item()),
    )
    return np.isin(numbers, best)


def by_search(probabilities, p):
    ranked, order = torch.sort(-probabilities)
    count = int(torch.searchsorted((-ranked).cumsum(0), p)) + 1
    return F.one_hot(order[:count], len(probabilities)).sum(0)


def stops_before(probabilities, p):
    kept, total = torch.zeros(len(probabilities)), 0.0
    for token in probabilities.argsort(descending=True):
        total += probabilities[token]
        if total > p:
            break
        kept[token] = 1
    return kept


def goes_too_far(probabilities, p):
    kept, total = torch.zeros(len(probabilities)), 0.0
    for token in probabilities.argsort(descending=True):
        if total > p:
            break
        kept[token], total = 1, total + probabilities[token]
    return kept


def ranked_mask(probabilities, p):
    descending = probabilities.sort(descending=True).values
    return ((descending.cumsum(0) - descending) < p).int()


def windows(tokens, n):
    return [" ".join(map(str, tokens[i : i + n].tolist())) for i in range(len(tokens) - n + 1)]


def repeats(tokens, n, same=lambda a, b: a == b):
    pieces = [tokens[i : i + n].tolist() for i in range(len(tokens) - n + 1)]
    return sum(any(same(piece, pieces[j]) for j in range(i)) for i, piece in enumerate(pieces)) / len(pieces)


def by_counter(tokens, n):
    counts = Counter(windows(tokens, n)).values()
    return sum(count - 1 for count in counts) / sum(counts)


def entropy(logits, temperature):
    return torch.special.entr((logits / temperature).softmax(0)).sum()


def by_autograd(logits, temperature):
    hot = torch.tensor(float(temperature), requires_grad=True)
    entropy(logits, hot).backward()
    return hot.grad


def by_difference(logits, temperature, step=1e-5):
    logits = logits.double()
    return (entropy(logits, temperature + step) - entropy(logits, temperature - step)) / (2 * step)


def by_moments(logits, temperature):
    p = torch.exp(logits / temperature)
    p = p / p.sum()
    return (p @ logits**2 - (p @ logits) ** 2) / temperature**3


def by_pairs(logits, temperature):
    p = F.softmax(logits / temperature, 0)
    return float(((logits[:, None] - logits) ** 2 * p[:, None] * p).sum() / 2 / temperature**3)


def of_scaled(logits, temperature):
    p, y = F.softmax(logits / temperature, 0), logits / temperature
    return [(p * (y - p @ y) ** 2).sum() / temperature]


def one_by_one(place, start_over=False):
    """Logits row by row through a cache; place(t) is where token t is said to stand."""

    def answer(model, tokens):
        cache = model.new_cache()
        rows = []
        for t in range(len(tokens)):
            if start_over:
                cache = model.new_cache()
            x = model.token_embedding(tokens[t]) + model.position_embedding(torch.tensor(place(t, len(tokens))))
            x = x[None, None]
            for layer in range(len(model.blocks)):
                x = model.blocks[layer](x, cache[layer])
            rows.append(model.head(model.norm(x)).flatten())
        return torch.stack(rows)

    return answer


def without_last_norm(model, tokens):
    x = model.embed(tokens[None])
    for block in model.blocks:
        x = block(x)
    return model.head(x)[0]


def without_places(model, tokens):
    x = model.token_embedding(tokens[None])
    for block in model.blocks:
        x = block(x)
    return model.head(model.norm(x))[0]


def by_forward(model, tokens):
    cache = model.new_cache()
    return torch.cat([model(token.view(1, 1), cache=cache)[0] for token in tokens])


def by_cache_length(model, tokens):
    cache, rows = model.new_cache(), torch.empty(0)
    for token in tokens:
        x = model.embed(token[None, None], len(cache[-1]))
        for block, kept in zip(model.blocks, cache, strict=True):
            x = block(x, kept)
        rows = torch.cat([rows, model.head(model.norm(x))[0]])
    return rows.numpy()


def in_two_pieces(model, tokens):
    cache = model.new_cache()
    return torch.cat([model(piece[None], cache)[0] for piece in (tokens[:1], tokens[1:]) if len(piece)]).tolist()


def length_after_the_first_layer(model, tokens):
    cache, rows = model.new_cache(), []
    for token in tokens:
        x = model.embed(token[None, None], len(cache[0]) + 1)
        for block, kept in zip(model.blocks, cache, strict=True):
            x = block(x, kept)
        rows.append(model.head(model.norm(x))[0, 0])
    return torch.stack(rows)


def spec(keep, rest):
    return lambda target, draft: (keep(target, draft), rest(target, draft))


def ratio(target, draft):
    return torch.minimum(torch.ones(len(target)), target / draft)


def missing(target, draft):
    return F.normalize(F.relu(target - draft), p=1, dim=0)


def spec_by_loop(target, draft):
    kept = [min(1.0, p / q) for p, q in zip(target.tolist(), draft.tolist(), strict=True)]
    left = [max(0.0, p - q) for p, q in zip(target.tolist(), draft.tolist(), strict=True)]
    return kept, [x / sum(left) for x in left]


def spec_by_what_is_left(target, draft):
    kept = ratio(target, draft)
    return kept, (target - draft * kept) / (1 - (draft * kept).sum())


def spec_by_overlap(target, draft):
    overlap = torch.minimum(target, draft)
    return [overlap / draft, (target - overlap) / (1 - overlap.sum())]


WRONG = {
    "9a": [
        ("undo the softmax first", lambda p, t: F.softmax(p / t, 0)),
        ("it multiplies by the temperature", lambda p, t: F.softmax(p.log() * t, 0)),
        ("it multiplies by the temperature", lambda p, t: F.normalize(p.pow(t), p=1, dim=0)),
        ("they don't add up to 1", lambda p, t: p.pow(1 / t)),
        ("they don't add up to 1", lambda p, t: p / t),
        ("they are what they were", lambda p, t: (p / t) / (p / t).sum()),
        ("softmax is still to come", lambda p, t: torch.log(p) / t),
        ("the logarithms of the new", lambda p, t: F.log_softmax(p.log() / t, 0)),
        ("by the natural logarithm", lambda p, t: F.softmax(p.log2() / t, 0)),
        ("a second softmax", lambda p, t: F.softmax(p, 0)),
        ("take everything", lambda p, t: (p == p.max()).float()),
        ("changes its input `p`", lambda p, t: p.log_().div(t).softmax(0)),
    ],
    "9b": [
        ("the sum stays below", stops_before),
        ("a threshold for each token", lambda p, t: [q >= t for q in p]),
        ("one token too many", goes_too_far),
        ("in sorted order", ranked_mask),
        ("the wrong way", lambda p, t: ranked_mask(p, t)[p.sort(descending=True).indices]),
        ("the least likely", lambda p, t: [p.sort().values[: p.sort().indices.tolist().index(v)].sum() < t
            for v in range(len(p))]),
        ("in the order of the vocabulary", lambda p, t: [float(p[:i].sum()) < t for i in range(len(p))]),
        ("kept and cut are exchanged", lambda p, t: [1 - kept for kept in nucleus_by_loop(p, t)]),
        ("those are the new probabilities", lambda p, t: F.normalize(p * by_search(p, t), p=1, dim=0)),
        ("the numbers of the tokens", lambda p, t: [v for v, kept in enumerate(nucleus_by_loop(p, t)) if kept]),
        ("min-p", lambda p, t: p / p.max() >= t),
        ("only the likeliest", lambda p, t: (p == p.max()).int()),
        ("everything is kept", lambda p, t: p > 0),
    ],
    "9c": [
        ("NEW windows", lambda x, n: len(set(windows(x, n))) / len(windows(x, n))),
        ("their number", lambda x, n: len(windows(x, n)) - len(set(windows(x, n)))),
        ("T - n + 1 windows, not T", lambda x, n: (len(windows(x, n)) - len(set(windows(x, n)))) / len(x)),
        ("one is missing", lambda x, n: repeats(x[:-1], n)),
        ("single tokens", lambda x, n: 1 - len(set(x.tolist())) / len(x)),
        ("begins one token later, not n", lambda x, n: 1 - len(set(windows(x, n)[::n])) / len(windows(x, n)[::n])),
        ("the window just before", lambda x, n: sum(
            a == b for a, b in itertools.pairwise(windows(x, n))) / len(windows(x, n))),
        ("first occurrence counts", lambda x, n: np.mean([windows(x, n).count(w) > 1 for w in windows(x, n)])),
        ("the order inside a window", lambda x, n: repeats(x, n, lambda a, b: sorted(a) == sorted(b))),
        ("it compares sums", lambda x, n: repeats(x, n, lambda a, b: sum(a) == sum(b))),
        ("where 0.66667 is right", lambda x, n: 0.5),
    ],
    "9d": [
        ("the sign is wrong", lambda z, t: -by_moments(z, t)),
        ("2 from the entropy's own slope", lambda z, t: by_moments(z, t) * t),
        ("3, not 1", lambda z, t: by_moments(z, t) * t * t),
        ("the division by τ³ is missing", lambda z, t: by_moments(z, t) * t**3),
        ("at temperature 1", lambda z, t: by_moments(z, 1.0) / t**3),
        ("weigh each", lambda z, t: z.var() / t**3),
        ("weigh each", lambda z, t: np.var(z.numpy()) / t**3),
        ("the square of the mean", lambda z, t: F.softmax(z / t, 0) @ z**2 / t**3),
        ("the standard deviation", lambda z, t: (by_moments(z, t) * t**3) ** 0.5 / t**3),
        ("the entropy knows no level", lambda z, t: F.softmax(z / t, 0) @ z / t**3),
        ("that is the entropy", lambda z, t: entropy(z, t)),
        ("bits", lambda z, t: by_difference(z, t) / math.log(2)),
        ("that makes five", lambda z, t: by_moments(z, t) / t / t),
        ("3, not 4", lambda z, t: by_moments(z, t) / t),
    ],
    "9e": [
        ("keys AND values", (36 * 1024 * 1280 * 2, 1, 2)),
        ("each layer", (2 * 1024 * 1280 * 2, 1, 2)),
        ("takes two bytes, not more", (2 * 36 * 1024 * 1280 * 4, 1, 2)),
        ("share the width", (2 * 36 * 20 * 1024 * 1280 * 2, 1, 2)),
        ("not of 64", (2 * 36 * 1024 * 64 * 2, 1, 2)),
        ("old queries", (3 * 36 * 1024 * 1280 * 2, 1, 2)),
        ("all of them", (188.74368, 1, 2)),
        ("no number is added", (188_743_680, 2, 2)),
        ("twice the text", (188_743_680, 1, 4)),
        ("3 things in a tuple", 188_743_680),
        ("188743000 is not right", (188_743_000, 1, 2)),
    ],
    "9f": [
        ("one too high", length_after_the_first_layer),
        ("one too low", one_by_one(lambda t, T: max(0, t - 1))),
        ("at the last place", one_by_one(lambda t, T: T - 1)),
        ("backwards", one_by_one(lambda t, T: T - t - 1)),
        ("knows nothing of its past", one_by_one(lambda t, T: t, start_over=True)),
        ("the places are forgotten", without_places),
        ("only the last row", lambda model, tokens: by_forward(model, tokens)[-1]),
        ("the last norm", without_last_norm),
        ("those are probabilities", lambda model, tokens: F.softmax(by_forward(model, tokens), 1)),
        ("it raises IndexError", one_by_one(lambda t, T: t + 50)),
        ("changes its input `model`", lambda model, tokens: (
            model.position_embedding.weight.zero_(), by_forward(model, tokens))[1]),
    ],
    "9g": [
        ("can't be above 1", spec(lambda p, q: p / q, missing)),
        ("upside down", spec(lambda p, q: torch.minimum(torch.ones(len(p)), q / p), missing)),
        ("target and draft are exchanged", lambda p, q: spec(ratio, missing)(q, p)),
        ("divide by its probability", spec(torch.minimum, missing)),
        ("how often it is REFUSED", spec(lambda p, q: 1 - ratio(p, q), missing)),
        ("for certain", spec(lambda p, q: p >= q, missing)),
        ("counted twice", spec(ratio, lambda p, q: p)),
        ("which was wrong", spec(ratio, lambda p, q: q)),
        ("does not add up to 1", spec(ratio, lambda p, q: F.relu(p - q))),
        ("too much of has come too often", spec(ratio, lambda p, q: F.normalize(p - q, p=1, dim=0).abs())),
        ("no probability is below 0", spec(ratio, lambda p, q: p - q)),
        ("no logits", spec(ratio, lambda p, q: F.softmax(p - q, 0))),
        ("the two are exchanged", spec(missing, ratio)),
        ("the second is missing", ratio),
        ("2 things in a tuple", lambda p, q: (ratio(p, q), missing(p, q), 0)),
    ],
}  # fmt: skip
RIGHT = {
    "9a": [
        lambda p, t: p ** (1 / t) / (p ** (1 / t)).sum(),
        lambda p, t: F.normalize(p.double().pow(1 / t), p=1, dim=0),
        lambda p, t: torch.distributions.Categorical(logits=p.log() / t).probs,
        lambda p, t: np.exp(np.log(p.numpy()) / t - np.logaddexp.reduce(np.log(p.numpy()) / t)),
        lambda p, t: [1 / sum((b / a) ** (1 / t) for b in p.tolist()) for a in p.tolist()],
        lambda p, t: F.softmax((p.log2() * math.log(2) + 5) / t, 0).tolist(),
    ],
    "9b": [
        nucleus_by_loop,
        nucleus_by_cases,
        smallest_set,
        by_search,
        lambda p, t: (torch.tensor([p[p > q].sum() for q in p]) < t).float(),
        lambda p, t: np.array(nucleus_by_loop(p, t), dtype=bool),
    ],
    "9c": [
        repeats,
        by_counter,
        lambda x, n: torch.tensor([w in windows(x, n)[:i] for i, w in enumerate(windows(x, n))]).float().mean(),
        lambda x, n: 1 - len(np.unique(x.unfold(0, n, 1).numpy(), axis=0)) / (len(x) - n + 1),
        lambda x, n: [1 - len(torch.unique(x.unfold(0, n, 1), dim=0)) / len(x.unfold(0, n, 1))],
    ],
    "9d": [by_autograd, by_difference, by_moments, by_pairs, of_scaled],
    "9e": [
        (188_743_680, 1, 2),
        [188_743_680.0, 1.0, 2.0],
        torch.tensor([188_743_680, 1, 2]),
        (36 * 20 * 1024 * 64 * 2 * 16 // 8, 40 * 32 / (20 * 64), 2048 / 1024),
        np.array([1.8874368e8, 1, 2]),
    ],
    "9f": [
        one_by_one(lambda t, T: t),
        by_forward,
        by_cache_length,
        in_two_pieces,
        lambda model, tokens: torch.stack([model(tokens[None, : t + 1])[0, t] for t in range(len(tokens))]),
    ],
    "9g": [
        spec(ratio, missing),
        spec_by_loop,
        spec_by_what_is_left,
        spec_by_overlap,
        lambda p, q: (np.minimum(1, p.numpy() / q.numpy()), missing(p.double(), q.double()).tolist()),
    ],
}  # fmt: skip
