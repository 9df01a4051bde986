"""GPTs as readers may write them: `model(tokens)` and, where possible, `model(tokens, cache)`."""

import math

import torch
import torch.nn.functional as F
from nanogpt import NanoGPT
from torch import nn


def attend(query, key, value, scores=0.0):
    """Causal attention (B, H, T, D) to S keys, the last T of which belong to the queries."""
    T, S = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5 + scores
    mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ value


class Heads(nn.Module):
    """Plain heads. Subclasses change how they are cut, joined and weighed, and what they keep."""

    def __init__(self, C, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value, self.W_out = (nn.Linear(C, C, bias=False) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def attend(self, query, key, value, start):
        return attend(query, key, value)

    def kept(self, key, value, cache):
        if cache is not None:
            if self in cache:
                key, value = (torch.cat([old, new], 2) for old, new in zip(cache[self], (key, value), strict=True))
            cache[self] = key, value
        return key, value

    def start(self, cache):
        return cache[self][0].shape[2] if cache is not None and self in cache else 0

    def forward(self, x, cache=None):
        start = self.start(cache)
        query, key, value = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        key, value = self.kept(key, value, cache)
        return self.W_out(self.join(self.attend(query, key, value, start)))


class Dropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)


class Block(nn.Module):
    """Pre-norm. Subclasses change `forward`."""

    attention = Heads
    dropout_layer = Dropout
    norm = nn.LayerNorm
    bend = nn.GELU

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__()
        self.norm1, self.heads = self.norm(C), self.attention(C, num_heads)
        self.norm2 = self.norm(C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), self.bend(), nn.Linear(4 * C, C))
        self.drop = self.dropout_layer(dropout)

    def forward(self, x, cache=None):
        x = x + self.drop(self.heads(self.norm1(x), cache))
        return x + self.drop(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """The plain one. Subclasses change its parts."""

    block = Block
    std = 0.02

    def __init__(self, vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.token = nn.Embedding(vocab_size, n_embd)
        self.make_places(context_length, n_embd)
        self.blocks = self.make_blocks(n_layer, n_embd, n_head, dropout)
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)
        self.head.weight = self.token.weight
        self.begin()

    def make_places(self, T, C):
        self.place = nn.Embedding(T, C)

    def make_blocks(self, n_layer, C, n_head, dropout):
        return nn.ModuleList(self.block(C, n_head, dropout) for _ in range(n_layer))

    def begin(self):
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                ends_a_branch = name.endswith(("W_out.weight", "mlp.2.weight"))
                branches = 2 * len(self.blocks) if ends_a_branch else 1
                nn.init.normal_(weight, std=self.std / branches**0.5)

    def placed(self, x, start):
        return x + self.place(torch.arange(start, start + x.shape[1]))

    def through(self, x, cache=None):
        for block in self.blocks:
            x = block(x, cache)
        return x

    def forward(self, tokens, cache=None):
        start = cache.get("read", 0) if cache is not None else 0
        if cache is not None:
            cache["read"] = start + tokens.shape[1]
        return self.head(self.norm(self.through(self.placed(self.token(tokens), start), cache)))


# ---------------------------------------------------------------- of PyTorch's own parts
class TorchGPT(nn.Module):
    """Post-norm, an encoder with a mask, and a head of its own with a bias."""

    def __init__(self, vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0, norm_first=False):
        super().__init__()
        self.context_length = context_length
        self.embed = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Parameter(torch.zeros(1, context_length, n_embd))
        layer = nn.TransformerEncoderLayer(
            n_embd,
            n_head,
            4 * n_embd,
            dropout,
            batch_first=True,
            norm_first=norm_first,
            activation="gelu",
        )
        self.encoder = nn.TransformerEncoder(layer, n_layer, enable_nested_tensor=False)
        self.out = nn.Linear(n_embd, vocab_size)
        nn.init.normal_(self.out.weight, std=0.02)

    def forward(self, tokens):
        T = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        x = self.encoder(self.embed(tokens) + self.pos[:, :T], mask=mask, is_causal=True)
        return self.out(x)


class TorchBlock(nn.Module):
    """Pre-norm around nn.MultiheadAttention, with the mask as True where it is forbidden."""

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__()
        self.attention = nn.MultiheadAttention(C, num_heads, dropout=dropout, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(C) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(C, 2 * C), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * C, C))

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=future, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class TorchPreNormGPT(TorchGPT):
    def __init__(self, *sizes):
        super().__init__(*sizes, norm_first=True)


# ---------------------------------------------------------------- as today's are written
class RMSNorm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(C))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain


def turned(x, start):
    """Rotary positions: pairs of numbers (B, T, H, D) are turned by the angles of their places."""
    D = x.shape[-1]
    angle = torch.arange(start, start + x.shape[1])[:, None, None] * 100.0 ** (-torch.arange(0, D, 2) / D)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


class RotaryBlock(nn.Module):
    """Einsum, one tensor for query, key and value, a gated MLP, no biases, branches from 0."""

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__()
        D = C // num_heads
        self.qkv = nn.Parameter(torch.randn(3, C, num_heads, D) * 0.02)
        self.out = nn.Parameter(torch.zeros(num_heads, D, C))
        self.norm1, self.norm2, self.drop = RMSNorm(C), RMSNorm(C), nn.Dropout(dropout)
        self.up, self.gate = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, 3 * C, bias=False)
        self.down = nn.Linear(3 * C, C, bias=False)
        nn.init.zeros_(self.down.weight)

    def forward(self, x, cache=None):
        start = cache[self][0].shape[1] if cache is not None and self in cache else 0
        query, key, value = torch.einsum("btc,nchd->nbthd", self.norm1(x), self.qkv)
        query, key = turned(query, start), turned(key, start)
        if cache is not None:
            if start:
                old_key, old_value = cache[self]
                key, value = torch.cat([old_key, key], 1), torch.cat([old_value, value], 1)
            cache[self] = key, value
        scores = torch.einsum("bthd,bshd->bhts", query, key) / query.shape[-1] ** 0.5
        past = torch.arange(key.shape[1]) <= torch.arange(start, key.shape[1])[:, None]
        weights = torch.where(past, scores, -torch.inf).softmax(-1)
        x = x + self.drop(torch.einsum("bhts,bshd,hdc->btc", weights, value, self.out))
        y = self.norm2(x)
        return x + self.drop(self.down(F.silu(self.gate(y)) * self.up(y)))


class RotaryGPT(nn.Module):
    """Untied."""

    block = RotaryBlock

    def __init__(self, vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embedding = nn.Embedding(vocab_size, n_embd)
        self.blocks = nn.ModuleList(self.block(n_embd, n_head, dropout) for _ in range(n_layer))
        self.norm, self.unembedding = RMSNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)
        nn.init.normal_(self.unembedding.weight, std=0.02)

    def forward(self, tokens, cache=None):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cache)
        return self.unembedding(self.norm(x))


class OneHead(nn.Module):
    def __init__(self, C, D):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(C, D), nn.Linear(C, D), nn.Linear(C, D)

    def forward(self, x, cache=None):
        query, key, value = self.query(x), self.key(x), self.value(x)
        if cache is not None:
            mine = cache.setdefault(self, {"key": key[:, :0], "value": value[:, :0]})
            key = mine["key"] = torch.cat([mine["key"], key], 1)
            value = mine["value"] = torch.cat([mine["value"], value], 1)
        rows = []
        for t in range(query.shape[1]):
            end = key.shape[1] - query.shape[1] + t + 1
            weights = (query[:, t : t + 1] * key[:, :end]).sum(-1, keepdim=True).div(key.shape[-1] ** 0.5).softmax(1)
            rows.append((weights * value[:, :end]).sum(1))
        return torch.stack(rows, 1)


class ManyHeads(nn.Module):
    def __init__(self, C, num_heads):
        super().__init__()
        self.parts = nn.ModuleList(OneHead(C, C // num_heads) for _ in range(num_heads))
        self.mix = nn.Linear(C, C)

    def forward(self, x, cache=None):
        return self.mix(torch.cat([head(x, cache) for head in self.parts], -1))


class LoopBlock(Block):
    attention = ManyHeads
    bend = nn.Tanh


class SinusGPT(GPT):
    """Sines and cosines of the place, and heads in a loop."""

    block = LoopBlock

    def make_places(self, T, C):
        angles = torch.arange(T)[:, None] / 10_000 ** (torch.arange(0, C, 2) / C)
        self.register_buffer("waves", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def placed(self, x, start):
        return x * x.shape[-1] ** 0.5 + self.waves[start : start + x.shape[1]]


class AlibiHeads(Heads):
    def attend(self, query, key, value, start):
        T, S = query.shape[2], key.shape[2]
        slopes = 2.0 ** (-8 * (torch.arange(self.num_heads) + 1) / self.num_heads)
        distance = torch.arange(S)[None] - torch.arange(S - T, S)[:, None]
        return attend(query, key, value, slopes[:, None, None] * distance)


class AlibiBlock(Block):
    attention = AlibiHeads


class AlibiGPT(GPT):
    """No places are added: scores fall with the distance."""

    block = AlibiBlock

    def make_places(self, T, C):
        pass

    def placed(self, x, start):
        return x


class PostNormBlock(Block):
    def forward(self, x, cache=None):
        x = self.norm1(x + self.drop(self.heads(x, cache)))
        return self.norm2(x + self.drop(self.mlp(x)))


class PostNormGPT(GPT):
    block = PostNormBlock


class ParallelBlock(Block):
    """Both branches read the same, and their ends are small."""

    bend = nn.ReLU

    def forward(self, x, cache=None):
        y = self.norm1(x)
        return x + self.norm2(self.drop(self.heads(y, cache))) + self.drop(self.mlp(y))


WITH_CACHE = [GPT, NanoGPT, RotaryGPT, SinusGPT, AlibiGPT, PostNormGPT]
WITHOUT = [TorchGPT, TorchPreNormGPT]
