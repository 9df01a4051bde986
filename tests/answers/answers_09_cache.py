"""Answers to the exercises 9e to 9g: wrong ones, with words of the sentence that must refuse them, and right."""

import numpy as np
import torch
import torch.nn.functional as F


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
