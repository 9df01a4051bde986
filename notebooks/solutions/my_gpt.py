"""A GPT on one page: what the steps of the notebooks 01 to 09 grow into. It learns to write from any text.

python my_gpt.py corpus.txt
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn


# ---- attention
def my_scores(queries, keys):  # 1a
    return queries @ keys.transpose(-2, -1)  # (..., T, D), (..., S, D) -> (..., T, S)


def my_softmax(scores):  # 2a
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))  # so that none is too large
    return powers / powers.sum(dim=-1, keepdim=True)


def my_attention(query, key, value, mask=None):  # 3a, 4a
    scores = my_scores(query, key) / key.shape[-1] ** 0.5
    if mask is not None:  # True where looking is allowed
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = my_softmax(scores)
    return weights @ value, weights


# ---- the parts of a block
class MyDropout(nn.Module):  # 5f
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)  # right on average


class MyHeads(nn.Module):  # 6g, 9i
    def __init__(self, C, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_query, self.W_key = nn.Linear(C, C, bias=False), nn.Linear(C, C, bias=False)
        self.W_value, self.W_out = nn.Linear(C, C, bias=False), nn.Linear(C, C, bias=False)

    def split(self, x):  # (B, T, C) -> (B, H, T, D)
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, cache=None):
        query, key, value = map(self.split, (self.W_query(x), self.W_key(x), self.W_value(x)))
        if cache is not None:
            if self in cache:  # what was read before stands in front
                key = torch.cat([cache[self][0], key], dim=2)
                value = torch.cat([cache[self][1], value], dim=2)
            cache[self] = key, value
        T, S = query.shape[2], key.shape[2]
        mask = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        context, _ = my_attention(query, key, value, mask)
        return self.W_out(context.transpose(1, 2).flatten(2))


def my_layer_norm(x, gain, shift):  # 7a
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * gain + shift


class MyNorm(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        return my_layer_norm(x, self.gain, self.shift)


# ---- the model
class MyBlock(nn.Module):  # 7b
    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__()
        self.norm1, self.heads = MyNorm(C), MyHeads(C, num_heads)
        self.norm2 = MyNorm(C)
        self.mlp = nn.Sequential(
            nn.Linear(C, 4 * C, bias=False), nn.GELU(), nn.Linear(4 * C, C, bias=False)
        )
        self.dropout = MyDropout(dropout)

    def forward(self, x, cache=None):
        x = x + self.dropout(self.heads(self.norm1(x), cache))  # tokens talk
        return x + self.dropout(self.mlp(self.norm2(x)))  # each token thinks


class MyGPT(nn.Module):  # 7f, 9i
    def __init__(self, vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.places = nn.Embedding(context_length, n_embd)
        self.dropout = MyDropout(dropout)
        self.blocks = nn.ModuleList(MyBlock(n_embd, n_head, dropout) for _ in range(n_layer))
        self.norm = MyNorm(n_embd)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:  # those that write into the stream write little at first
                writes = name.endswith(("W_out.weight", "mlp.2.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * n_layer) ** 0.5 if writes else 0.02)

    def forward(self, tokens, cache=None):  # (B, T) -> (B, T, V)
        start = 0 if cache is None else cache.get("read", 0)
        places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x, cache)
        if cache is not None:
            cache["read"] = start + tokens.shape[1]
        return self.norm(x) @ self.tokens.weight.T  # the table that reads also writes


# ---- learning
def my_batch(tokens, starts, T):  # 8b
    places = starts[:, None] + torch.arange(T)
    return torch.stack([tokens[places], tokens[places + 1]])


def my_train(model, tokens, steps, batch_size, report):  # 8g
    T = model.context_length
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]  # gains stay
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(1, steps + 1):
        cosine = 0.55 + 0.45 * math.cos(math.pi * step / steps)  # from 1 down to 0.1
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, step / 100) * cosine
        model.train()
        x, y = my_batch(tokens, torch.randint(len(tokens) - T, (batch_size,)), T)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        report(step, loss.item())


@torch.no_grad()
def mean_loss(model, tokens):
    model.eval()
    T, losses = model.context_length, []
    for starts in torch.arange(0, len(tokens) - T, T).split(100):
        x, y = my_batch(tokens, starts, T)
        losses += F.cross_entropy(model(x).mT, y, reduction="none").mean(dim=1).tolist()
    return sum(losses) / len(losses)


# ---- writing
def my_nucleus(probabilities, p):  # 9b
    ordered, order = probabilities.sort(descending=True)
    kept = torch.zeros_like(order)
    before = ordered.cumsum(dim=0) - ordered  # what the likelier ones have reached
    kept[order] = (before < p).long()
    return kept


def draw(logits, temperature, top_p):
    odds = my_softmax(logits / temperature)
    return torch.multinomial(odds * my_nucleus(odds, top_p), 1)


@torch.no_grad()
def my_write(model, prompt, n, temperature=1.0, top_p=1.0):  # 9h
    model.eval()
    text = prompt
    for _ in range(n):
        logits = model(text[None, -model.context_length :])[0, -1]
        text = torch.cat([text, draw(logits, temperature, top_p)])
    return text


@torch.no_grad()
def my_fast_write(model, prompt, n, temperature=1.0, top_p=1.0):  # 9i
    model.eval()
    T, start, cache = model.context_length, 0, {}  # the window begins at `start`
    text = new = prompt
    for _ in range(n):
        if (
            len(text) - start > T
        ):  # full: its last half moves to the first places, and is read anew
            start, cache = len(text) - T // 2, {}
            new = text[start:]
        new = draw(model(new[None], cache)[0, -1], temperature, top_p)
        text = torch.cat([text, new])
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        corpus = file.read()
    letters = sorted(set(corpus))
    number = {letter: i for i, letter in enumerate(letters)}
    ids = torch.tensor([number[letter] for letter in corpus])
    learned, unseen = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]

    def report(step, loss):
        if step % 100 == 0:
            print(f"step {step:5,}  loss {loss:.3f}")

    torch.manual_seed(1)
    gpt = MyGPT(len(letters), context_length=64, n_layer=4, n_head=4, n_embd=128)
    my_train(gpt, learned, 2000, 12, report)
    print(f"on the last tenth, which it never saw: loss {mean_loss(gpt, unseen):.3f}")
    written = my_fast_write(gpt, ids[:1], 500, temperature=0.8, top_p=0.95)
    print("".join(letters[i] for i in written.tolist()))
