"""Answers to the exercises of notebook 05: wrong ones, with words of the sentence that must refuse them, and right."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F


def causal(scores, fill=-torch.inf, dim=-1):
    future = torch.arange(scores.shape[-1]) > torch.arange(scores.shape[-2])[:, None]
    return F.softmax(torch.where(future, fill, scores), dim=dim)


def scored(query, key, divisor=None):
    return torch.einsum("btd,bsd->bts", query, key) / (divisor or math.sqrt(query.shape[2]))


def dropped(weights, keep, p):
    return torch.where(keep, weights, 0.0) / (1 - p)


def renewed(weights, keep):
    left = torch.where(keep, weights, 0.0)
    return left / left.sum(-1, True)


def one_by_one(x, keep, p):
    flat = [a / (1 - p) if k else 0.0 for a, k in zip(x.flatten().tolist(), keep.flatten().tolist(), strict=True)]
    return torch.tensor(flat).view(x.shape)


def word_by_word(query, key, value, keep, p):
    context = torch.zeros(value.shape)
    for b, t in itertools.product(range(query.shape[0]), range(query.shape[1])):
        weights = F.softmax(key[b, : t + 1] @ query[b, t] / query.shape[2] ** 0.5, 0)
        for s in range(t + 1):
            if keep[b, t, s]:
                context[b, t] += weights[s] / (1 - p) * value[b, s]
    return context


def by_mask_of_numbers(query, key, value, keep, p):
    hidden = torch.full(keep.shape[1:], -torch.inf).triu(1)
    powers = torch.exp(F.log_softmax(torch.baddbmm(hidden, query / query.shape[2] ** 0.5, key.mT), -1))
    return torch.bmm(powers.mul(keep).div(1 - p), value)


def by_numpy(scores, keep, p, training):
    weights = np.tril(np.exp(scores.numpy() - scores.numpy().max(1, keepdims=True)))
    weights /= weights.sum(1, keepdims=True)
    return np.where(keep, weights / (1 - p), 0) if training else weights


def in_training_by_hand(scores, keep, p, training):
    rows = torch.zeros_like(scores)
    for t in range(len(scores)):
        rows[t, : t + 1] = scores[t, : t + 1].softmax(0)
    if training:
        rows[~keep] = 0
        rows /= 1 - p
    return rows


def repaired(late, early=None, evaluated=None):
    """5e, with what becomes of the weights in training, of the scores in training, and of the weights in evaluation."""

    def answer(scores, keep, p, training):
        if not training:
            return evaluated(causal(scores), keep, p) if evaluated else causal(scores)
        return late(causal(early(scores, keep, p) if early else scores), keep, p)

    return answer


WRONG = {
    "5a": [
        ("divide it by 1 - p", lambda x, keep, p: torch.where(keep, x, 0)),
        ("p is the share that is lost", lambda x, keep, p: torch.where(keep, x / p, 0) if p else x / p * keep),
        ("it multiplies by 1 - p", lambda x, keep, p: (1 - p) * x * keep),
        ("True and False are exchanged", lambda x, keep, p: x.masked_fill(keep, 0) / (1 - p)),
        ("nothing is dropped", lambda x, keep, p: x / (1 - p)),
        ("stays as it is", lambda x, keep, p: torch.where(keep, x / (1 - p), x)),
        ("minus infinity", lambda x, keep, p: (x / (1 - p)).masked_fill(~keep, -torch.inf)),
        ("numbers of its own", lambda x, keep, p: torch.nn.Dropout(p)(x)),
        ("this draw happened to keep", lambda x, keep, p: x * keep * (keep.numel() / keep.sum())),
        ("shares what is left anew", lambda x, keep, p: renewed(x, keep)),
        ("changes its input `x`", lambda x, keep, p: x.mul_(keep) / (1 - p)),
        ("it gives", lambda x, keep, p: torch.zeros_like(x)),
    ],
    "5b": [
        ("the last word alone", lambda T, p: math.pow(p, T)),
        ("different numbers of weights", lambda T, p: T * p),
        ("different numbers of weights", lambda T, p: sum(p**T for _ in range(T))),
        ("counted from 1", lambda T, p: sum(p**t for t in range(T))),
        ("keep ALL", lambda T, p: sum((1 - p) ** (t + 1) for t in range(T))),
        ("that keep something", lambda T, p: sum(1 - p ** (t + 1) for t in range(T))),
        ("that lose something", lambda T, p: sum(1 - (1 - p) ** (t + 1) for t in range(T))),
        ("ALL words lose everything", lambda T, p: math.prod(p ** (t + 1) for t in range(T))),
        ("at least one word", lambda T, p: 1 - math.prod(1 - p ** (t + 1) for t in range(T))),
        ("the weights that are lost", lambda T, p: sum(p * t for t in range(1, T + 1))),
        ("the share of the words", lambda T, p: np.mean([p**t for t in range(1, T + 1)])),
        ("without an end", lambda T, p: 1 / (1 - p) - 1),
        ("multiply, don't add", lambda T, p: sum(min(1, t * p) for t in range(1, T + 1))),
        ("for T=6, p=0.5 it gives", lambda T, p: 0),
    ],
    "5c": [
        ("the future is not hidden", lambda q, k, v, keep, p: dropped(F.softmax(scored(q, k), 2), keep, p) @ v),
        ("the past is hidden", lambda q, k, v, keep, p: (
            dropped(causal(scored(q, k).flip(1, 2)).flip(1, 2), keep, p) @ v)),
        ("they must be -inf", lambda q, k, v, keep, p: dropped(causal(scored(q, k), -1e9), keep, p) @ v),
        ("0 still gets weight: they must", lambda q, k, v, keep, p: (
            dropped(F.softmax(scored(q, k).tril(), 2), keep, p) @ v)),
        ("after the softmax, which has", lambda q, k, v, keep, p: (
            dropped(F.softmax(scored(q, k), 2).tril(), keep, p) @ v)),
        ("not divided by √D", lambda q, k, v, keep, p: dropped(causal(scored(q, k, 1)), keep, p) @ v),
        ("divided by D:", lambda q, k, v, keep, p: dropped(causal(scored(q, k, q.shape[2])), keep, p) @ v),
        ("divided by √T", lambda q, k, v, keep, p: dropped(causal(scored(q, k, len(q[0]) ** 0.5)), keep, p) @ v),
        ("over the queries", lambda q, k, v, keep, p: dropped(causal(scored(q, k), dim=1), keep, p) @ v),
        ("comes before the softmax", lambda q, k, v, keep, p: causal(dropped(scored(q, k), keep, p)) @ v),
        ("comes before the softmax", lambda q, k, v, keep, p: causal(dropped(scored(q, k), keep, 0)) @ v),
        ("by minus infinity", lambda q, k, v, keep, p: causal(torch.where(keep, scored(q, k), -torch.inf)) @ v),
        ("nothing is dropped", lambda q, k, v, keep, p: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        ("does not see itself", lambda q, k, v, keep, p: dropped(
            F.softmax(scored(q, k) + torch.full(keep.shape[1:], -torch.inf).triu(), 2), keep, p) @ v),
        ("over the batch", lambda q, k, v, keep, p: causal(scored(q, k), dim=0) * keep / (1 - p) @ v),
        ("is divided by p", lambda q, k, v, keep, p: causal(scored(q, k)) * keep / torch.tensor(p) @ v),
        ("not divided by 1 - p", lambda q, k, v, keep, p: causal(scored(q, k)) * keep @ v),
        ("True and False are exchanged", lambda q, k, v, keep, p: dropped(causal(scored(q, k)), ~keep, p) @ v),
        ("each row is divided", lambda q, k, v, keep, p: renewed(causal(scored(q, k)), keep).nan_to_num(0) @ v),
        ("numbers of its own", lambda q, k, v, keep, p: torch.dropout(causal(scored(q, k)), p, True) @ v),
        ("those are the weights", lambda q, k, v, keep, p: dropped(causal(scored(q, k)), keep, p)),
        ("for q of shape (3, 3, 9)", lambda q, k, v, keep, p: word_by_word(q, k, v, keep, 0.5)),
    ],
    "5d": [
        ("before ReLU bends it", 2),
        ("5 becomes 10", 1.75),
        ("makes a negative sum 0", 5),
        ("those that give 0 count", 7.0),
        ("divide by four", 14),
        ("one draw of four", 4),
        ("dropped by itself", 0),
        ("3 is not right", 3),
        ("it is a list, which is no number", [3.5, "and more"]),
    ],
    "5e": [
        ("it still drops before the softmax", repaired(lambda w, keep, p: w, lambda s, keep, p: s * keep)),
        ("it drops twice", repaired(dropped, dropped)),
        ("shares what is left anew", repaired(lambda w, keep, p: renewed(w, keep))),
        ("shares what is left anew", repaired(lambda w, keep, p: w, lambda s, keep, p: s.masked_fill(~keep, -torch.inf)
                                              / (1 - p))),
        ("is not divided by 1 - p", repaired(lambda w, keep, p: w * keep)),
        ("the older way", repaired(lambda w, keep, p: w * keep, evaluated=lambda w, keep, p: w * (1 - p))),
        ("is divided by p", lambda s, keep, p, training: (
            causal(s) * keep / torch.tensor(p) if training else causal(s))),
        ("on in evaluation, too", lambda s, keep, p, training: dropped(causal(s), keep, p)),
        ("so nothing is scaled", repaired(dropped, evaluated=lambda w, keep, p: w * (1 - p))),
        ("training and evaluation are exchanged", lambda s, keep, p, training: repaired(dropped)(
            s, keep, p, not training)),
        ("nothing is dropped any more", lambda s, keep, p, training: causal(s)),
        ("True and False", repaired(lambda w, keep, p: dropped(w, ~keep, p))),
        ("the mask has gone", lambda s, keep, p, training: dropped(F.softmax(s, 1), keep, p) if training
         else F.softmax(s, 1)),
        ("a second softmax", repaired(lambda w, keep, p: F.softmax(dropped(w, keep, p), 1))),
        ("changes its input `s`", lambda s, keep, p, training: s.masked_fill_(~torch.ones(s.shape).tril().bool(),
                                                                             -torch.inf).softmax(1)),
    ],
}  # fmt: skip
RIGHT = {
    "5a": [
        one_by_one,
        dropped,
        lambda x, keep, p: x.masked_fill(~keep, 0).double() / (1 - p),
        lambda x, keep, p: np.where(keep.numpy(), x.numpy() / (1 - p), 0),
        lambda x, keep, p: (x.requires_grad_() * (keep.float() * (1 / (1 - p)))).tolist(),
        lambda x, keep, p: x / (1 - p) - x / (1 - p) * ~keep,
    ],
    "5b": [
        lambda T, p: p * (1 - p**T) / (1 - p),
        lambda T, p: torch.full((T,), p, dtype=torch.float64).cumprod(0).sum(),
        lambda T, p: [np.sum(p ** np.arange(1, T + 1))],
        lambda T, p: sum(itertools.accumulate([p] * T, lambda a, b: a * b)),
        lambda T, p: sum(math.prod([p] * t) for t in range(1, T + 1)),
    ],
    "5c": [
        word_by_word,
        by_mask_of_numbers,
        lambda q, k, v, keep, p: dropped(causal(scored(q.double(), k.double())), keep, p) @ v.double(),
        lambda q, k, v, keep, p: [dropped(causal(a @ b.T / a.shape[1] ** 0.5), m, p) @ c
                                  for a, b, c, m in zip(q, k, v, keep, strict=True)],
        lambda q, k, v, keep, p: (causal(scored(q, k)) * keep @ (v / (1 - p)).requires_grad_()).numpy(force=True),
        lambda q, k, v, keep, p: dropped(causal(scored(q, k), torch.finfo(q.dtype).min), keep, p) @ v,
    ],
    "5d": [3.5, 14 / 4, [3.5], torch.tensor([4.0, 10.0, 0.0, 0.0]).mean(), np.float64(3.5), 7 / 2],
    "5e": [
        by_numpy,
        in_training_by_hand,
        repaired(dropped),
        lambda s, keep, p, training: causal(s.double()) * (keep / (1 - p) if training else 1),
        lambda s, keep, p, training: torch.where(keep | (not training), causal(s), 0) / (1 - p * training),
        lambda s, keep, p, training: dropped(causal(s), keep | (not training), p if training else 0.0).tolist(),
    ],
}  # fmt: skip
