"""Answers to the exercises of notebook 06: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange


def split(x, heads):
    return rearrange(x, "b t (h d) -> b h t d", h=heads)


def join(x):
    return rearrange(x, "b h t d -> b t (h d)")


def attend(query, key, value, divisor=None, fill=-torch.inf, dim=-1, diagonal=1):
    T = query.shape[-2]
    future = torch.arange(T) >= torch.arange(T)[:, None] + diagonal
    scores = torch.einsum("bhtd,bhsd->bhts", query, key) / (divisor or math.sqrt(query.shape[-1]))
    return F.softmax(torch.where(future, fill, scores), dim=dim) @ value


def heads(query, key, value, num_heads, cut=split, together=join, **more):
    return together(attend(*(cut(x, num_heads) for x in (query, key, value)), **more))


def layer(x, W_query, W_key, W_value, W_out, num_heads, **more):
    return heads(x @ W_query, x @ W_key, x @ W_value, num_heads, **more) @ W_out


def head_by_head(x, W_query, W_key, W_value, W_out, num_heads):
    outputs, D = [], x.shape[2] // num_heads
    for h in range(num_heads):
        columns = slice(h * D, (h + 1) * D)
        query, key, value = (x @ W[:, columns] for W in (W_query, W_key, W_value))
        outputs.append(F.scaled_dot_product_attention(query, key, value, is_causal=True))
    return torch.cat(outputs, -1) @ W_out


def added_up(x, W_query, W_key, W_value, W_out, num_heads):
    """Each head writes to the output by its own rows of W_out, and the heads are added up."""
    parts = (W.chunk(num_heads, 1) for W in (W_query, W_key, W_value))
    written = [
        attend(*((x @ W)[:, None] for W in (q, k, v)))[:, 0] @ out
        for q, k, v, out in zip(*parts, W_out.chunk(num_heads, 0), strict=True)
    ]
    return sum(written)


def by_pytorch(x, W_query, W_key, W_value, W_out, num_heads):
    module = torch.nn.MultiheadAttention(x.shape[2], num_heads, bias=False, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([W_query, W_key, W_value], 1).T)
        module.out_proj.weight.copy_(W_out.T)
    hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    return module(x, x, x, attn_mask=hidden, need_weights=False)[0]


def view(x, H):
    return x.reshape(len(x), H, -1, x.shape[2] // H)


def by_loop(x):
    B, H, T, D = x.shape
    joined = torch.zeros(B, T, H * D)
    for h in range(H):
        joined[:, :, h * D : (h + 1) * D] = x[:, h]
    return joined


def shares(m1, l1, m2, l2):
    """Softmax of the two logarithms of what the pieces weigh."""
    return torch.cat([m1 + l1.log(), m2 + l2.log()], 1).softmax(1).split(1, 1)


def by_logarithms(m1, l1, c1, m2, l2, c2):
    one, two = m1.double() + l1.double().log(), m2.double() + l2.double().log()
    m, both = torch.maximum(m1, m2), torch.logaddexp(one, two)
    return m, (both - m).exp(), (one - both).exp() * c1 + (two - both).exp() * c2


def by_moving(m1, l1, c1, m2, l2, c2):
    """The first context moves towards the second by the second's share, as FlashAttention does it."""
    m = torch.where(m1 > m2, m1, m2)
    before, new = l1 * torch.exp(m1 - m), l2 * torch.exp(m2 - m)
    return m, before + new, c1 + new / (before + new) * (c2 - c1)


def row_by_row(m1, l1, c1, m2, l2, c2):
    rows = []
    for a, b, x, c, d, y in zip(m1, l1, c1, m2, l2, c2, strict=True):
        m = max(a.item(), c.item())
        one, two = b.item() * math.exp(a.item() - m), d.item() * math.exp(c.item() - m)
        rows.append(([m], [one + two], (one * x + two * y) / (one + two)))
    return list(zip(*rows, strict=True))


def merged(mix, m=None, total=None):
    """The right m and l, unless others are given, with the contexts mixed by what each piece weighs."""

    def answer(m1, l1, c1, m2, l2, c2):
        right = by_moving(m1, l1, c1, m2, l2, c2)
        return (
            m(m1, m2) if m else right[0],
            total(l1, l2) if total else right[1],
            mix(m1, l1, c1, m2, l2, c2) if mix else right[2],
        )

    return answer


def on(scale, sign=1):
    """Both pieces on one scale."""

    def answer(m1, l1, c1, m2, l2, c2):
        m = scale(m1, m2)
        a, b = l1 * torch.exp(sign * (m1 - m)), l2 * torch.exp(sign * (m2 - m))
        return m, a + b, (a * c1 + b * c2) / (a + b)

    return answer


OF_HEADS = [
    ("the future is not hidden", lambda q, k, v, H: join(F.scaled_dot_product_attention(
        split(q, H), split(k, H), split(v, H)))),
    ("does not see itself", lambda q, k, v, H: heads(q, k, v, H, diagonal=0)),
    ("the past is hidden", lambda q, k, v, H: heads(q.flip(1), k.flip(1), v.flip(1), H).flip(1)),
    ("set to a number", lambda q, k, v, H: heads(q, k, v, H, fill=-1e9)),
    ("not divided by √D", lambda q, k, v, H: heads(q, k, v, H, divisor=1)),
    ("divided by D:", lambda q, k, v, H: heads(q, k, v, H, divisor=q.shape[2] // H)),
    ("the number of heads", lambda q, k, v, H: heads(q, k, v, H, divisor=H**0.5)),
    ("over the queries", lambda q, k, v, H: heads(q, k, v, H, dim=2)),
    ("over the heads", lambda q, k, v, H: heads(q, k, v, H, dim=1)),
    ("are split by view", lambda q, k, v, H: heads(q, k, v, H, cut=view)),
    ("dealt out to the heads", lambda q, k, v, H: heads(
        q, k, v, H, cut=lambda x, H: rearrange(x, "b t (d h) -> b h t d", h=H))),
    ("shuffled into each other", lambda q, k, v, H: heads(
        q, k, v, H, together=lambda x: rearrange(x, "b h t d -> b t (d h)"))),
    ("in reverse order", lambda q, k, v, H: heads(q, k, v, H, together=lambda x: join(x.flip(1)))),
]  # fmt: skip


def whole(answer):
    """A layer with these heads in it."""
    return lambda x, q, k, v, o, H: answer(x @ q, x @ k, x @ v, H) @ o


WRONG = {
    "6a": [
        ("view alone", lambda x, H: x.view(x.shape[0], H, x.shape[1], x.shape[2] // H)),
        ("dealt out one by one", lambda x, H: rearrange(x, "b t (d h) -> b h t d", h=H)),
        ("T stands before H", lambda x, H: rearrange(x, "b t (h d) -> b t h d", h=H)),
        ("T and D are exchanged", lambda x, H: rearrange(x, "b t (h d) -> b h d t", h=H)),
        ("not how wide one is", lambda x, H: rearrange(x, "b t (h d) -> b h t d", d=H)),
        ("in reverse order", lambda x, H: torch.stack(x.chunk(H, -1)[::-1], 1)),
        ("all C numbers", lambda x, H: torch.stack([x] * H, 1)),
        ("B comes first", lambda x, H: torch.stack(x.chunk(H, -1))),
        ("the first text only", lambda x, H: torch.stack(x[0].chunk(H, -1))),
        ("into pieces", lambda x, H: torch.stack(x.chunk(H, 1), 1)),
        ("view first", lambda x, H: x.transpose(1, 2).contiguous().view(len(x), H, x.shape[1], -1)),
        ("it has the shape", lambda x, H: x),
    ],
    "6b": [
        ("view alone", lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])),
        ("take reshape or flatten", lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1)),
        ("shuffled into each other", lambda x: rearrange(x, "b h t d -> b t (d h)")),
        ("in reverse order", lambda x: torch.cat(list(x.unbind(1))[::-1], -1)),
        ("are added up", lambda x: torch.einsum("bhtd->btd", x)),
        ("are averaged", lambda x: x.mean(1)),
        ("one below the other", lambda x: torch.cat(list(x.unbind(1)), 1)),
        ("still to be joined", lambda x: x.permute(0, 2, 1, 3)),
        ("only the first head", lambda x: next(iter(x.unbind(1)))),
        ("all words are in one row", lambda x: rearrange(x, "b h t d -> b (t h d)")),
        ("for x of shape (1, 4, 2, 1) it gives", lambda x: join(x) * (len(x) > 1)),
    ],
    "6c": [
        *[(words, whole(answer)) for words, answer in OF_HEADS],
        ("divided by √C", lambda *x: layer(*x, divisor=x[0].shape[2] ** 0.5)),
        ("joined by view", lambda *x: layer(*x, together=lambda y: y.reshape(len(y), y.shape[2], -1))),
        ("one head for everything", lambda *x: layer(*x[:5], 1)),
        ("W_out still has to", lambda x, q, k, v, o, H: heads(x @ q, x @ k, x @ v, H)),
        ("W_out stands to the right", lambda x, q, k, v, o, H: layer(x, q, k, v, o.T, H)),
        ("all matrices stand", lambda x, q, k, v, o, H: layer(x, q.T, k.T, v.T, o.T, H)),
        ("W_query and W_key are exchanged", lambda x, q, k, v, o, H: layer(x, k, q, v, o, H)),
        ("W_query is used where", lambda x, q, k, v, o, H: layer(x, q, q, v, o, H)),
        ("W_key is used where", lambda x, q, k, v, o, H: layer(x, q, k, k, o, H)),
    ],
    "6d": [
        ("multiply it by its sum", merged(lambda m1, l1, c1, m2, l2, c2: (
            (torch.exp(m1 - torch.maximum(m1, m2)) * c1 + torch.exp(m2 - torch.maximum(m1, m2)) * c2)
            / by_moving(m1, l1, c1, m2, l2, c2)[1]))),
        ("the contexts are averaged", merged(lambda m1, l1, c1, m2, l2, c2: torch.stack([c1, c2]).mean(0))),
        ("the contexts are added", merged(lambda m1, l1, c1, m2, l2, c2: c1 + c2)),
        ("not divided by the whole sum", merged(lambda *x: by_moving(*x)[2] * by_moving(*x)[1])),
        ("different scales", lambda m1, l1, c1, m2, l2, c2: (
            torch.maximum(m1, m2), l1 + l2, (l1 * c1 + l2 * c2) / (l1 + l2))),
        ("different scales", merged(None, total=torch.add)),
        ("the largest scores alone", merged(lambda m1, l1, c1, m2, l2, c2: (
            torch.sigmoid(m1 - m2) * c1 + torch.sigmoid(m2 - m1) * c2))),
        ("the sign in the exponent", on(torch.maximum, sign=-1)),
        ("large scores overflow", merged(lambda m1, l1, c1, m2, l2, c2: (
            (l1 * m1.exp() * c1 + l2 * m2.exp() * c2) / (l1 * m1.exp() + l2 * m2.exp())))),
        ("the first piece's m", on(lambda m1, m2: m1.clone())),
        ("the second piece's m", on(lambda m1, m2: m2)),
        ("not the smaller", on(torch.minimum)),
        ("is not their sum", merged(None, m=torch.add)),
        ("takes everything", merged(lambda m1, l1, c1, m2, l2, c2: torch.where(m2 > m1, c2, c1))),
        ("each row has its own", on(lambda m1, m2: torch.max(m1.max(), m2.max()))),
        ("only the context", lambda *x: by_logarithms(*x)[2]),
        ("m and the sum are exchanged", lambda *x: (by_moving(*x)[1], by_moving(*x)[0], by_moving(*x)[2])),
        ("3 things in a tuple", lambda *x: by_moving(*x)[:2]),
    ],
    "6e": [
        *[(words, answer) for words, answer in OF_HEADS],
        ("the scores are still divided by √C", lambda q, k, v, H: heads(q, k, v, H, divisor=q.shape[2] ** 0.5)),
        ("still joined by view alone", lambda q, k, v, H: heads(
            q, k, v, H, together=lambda y: y.reshape(len(y), y.shape[2], -1))),
        ("the split was right", lambda q, k, v, H: heads(
            q, k, v, H, view, together=lambda y: y.reshape(len(y), y.shape[2], -1))),
        ("still has H before T", lambda q, k, v, H: heads(q, k, v, H, together=lambda y: y.flatten(1, 2))),
    ],
    "6f": [
        ("the two halves are exchanged", (2, 3, 30, 31)),
        ("reads on where the first head stopped", (2, 3, 2, 3)),
        ("every head keeps every word", (30, 31, 30, 31)),
        ("that is the first head", (0, 1, 0, 1)),
        ("that is the second row", (32, 33, 12, 13)),
        ("owns D neighbours", (30, 31, 1, 3)),
        ("which is 30, not 12", (12, 13, 2, 3)),
        ("both rows together are four", (30, 31)),
        ("3 is not right", (30, 31, 3, 2)),
    ],
}  # fmt: skip
RIGHT = {
    "6a": [
        split,
        lambda x, H: torch.stack(x.chunk(H, dim=-1), dim=1),
        lambda x, H: x.unflatten(-1, (H, -1)).permute(0, 2, 1, 3).requires_grad_(),
        lambda x, H: np.moveaxis(x.numpy().reshape(*x.shape[:2], H, -1), 2, 1),
        lambda x, H: [[[row[h * len(row) // H : (h + 1) * len(row) // H] for row in text] for h in range(H)]
                      for text in x.tolist()],
    ],
    "6b": [
        join,
        by_loop,
        lambda x: torch.cat(list(x.unbind(1)), -1).double(),
        lambda x: x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1).requires_grad_(),
        lambda x: x.numpy().swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1),
        lambda x: [[[a for head in text for a in head[t]] for t in range(x.shape[2])] for text in x.tolist()],
    ],
    "6c": [
        layer,
        head_by_head,
        added_up,
        by_pytorch,
        lambda x, *rest: layer(x.double(), *(W.double() for W in rest[:4]), rest[4]).tolist(),
        lambda x, q, k, v, o, H: torch.stack([head_by_head(text[None], q, k, v, o, H)[0] for text in x]).numpy(),
        lambda *x: layer(*x, fill=torch.finfo(torch.float32).min),
    ],
    "6d": [
        by_logarithms,
        by_moving,
        row_by_row,
        on(lambda m1, m2: torch.stack([m1, m2]).amax(0)),
        lambda *x: [y.numpy() for y in by_moving(*(y.double() for y in x))],
        merged(lambda m1, l1, c1, m2, l2, c2: shares(m1.double(), l1, m2.double(), l2)[0] * c1
               + shares(m1.double(), l1, m2.double(), l2)[1] * c2),
    ],
    "6e": [
        heads,
        lambda q, k, v, H: torch.cat([F.scaled_dot_product_attention(*x, is_causal=True) for x in zip(
            *(y.chunk(H, 2) for y in (q, k, v)), strict=True)], -1),
        lambda q, k, v, H: by_loop(attend(*(split(x.double(), H) for x in (q, k, v)))),
        lambda q, k, v, H: F.scaled_dot_product_attention(
            split(q, H), split(k, H), split(v, H), is_causal=True).transpose(1, 2).reshape(q.shape).tolist(),
        lambda q, k, v, H: heads(q, k, v, H, fill=torch.finfo(torch.float32).min).numpy(),
    ],
    "6f": [
        (30, 31, 2, 3),
        [30.0, 31.0, 2.0, 3.0],
        torch.tensor([30, 31, 2, 3]),
        np.array([30, 31, 2, 3]),
        (torch.tensor(30), np.int64(31), 2, 3.0),
    ],
}  # fmt: skip
