"""Answers to notebook 09: wrong ones, with words of what is said, and unusual right ones."""

import numpy as np
import torch
import torch.nn.functional as F
from gpt_variants import GPT, AlibiGPT, Block, Heads, RotaryGPT
from nanogpt import NanoGPT

from exercises.n09 import nucleus, speculated


def nucleus_by_loop(probabilities, p):
    kept, total = [0] * len(probabilities), 0.0
    for token in probabilities.argsort(descending=True).tolist():
        if total >= p:
            break
        kept[token], total = 1, total + probabilities[token].item()
    return kept


# ---------------------------------------------------------------- 9h
def odds_of(logits, temperature, top_p):
    odds = (logits / temperature).softmax(-1)
    return odds * nucleus(odds, top_p)


def at_least_two(logits, temperature):
    odds = (logits / temperature).softmax(-1)
    return odds * (odds >= odds.topk(2).values[-1])


def view(text, T):
    return text[-T:]


def seeded(text, T):
    torch.manual_seed(len(text))
    return text[-T:]


def writing(view=view, row=-1, mode=False, grad=torch.no_grad, odds=odds_of, result=None):
    """A loop with places for mistakes."""

    def my_write(model, prompt, n, temperature=1.0, top_p=1.0):
        with grad():
            model.train(mode)
            text = prompt
            for _ in range(n):
                logits = model(view(text, model.context_length)[None])[0, row]
                new = torch.multinomial(odds(logits, temperature, top_p), 1)
                text = torch.cat([text, new])
            return result(text, prompt) if result else text

    return my_write


def not_fed_back(model, prompt, n, temperature=1.0, top_p=1.0):
    with torch.no_grad():
        odds = odds_of(model.eval()(prompt[None, -6:])[0, -1], temperature, top_p)
    return torch.cat([prompt, odds.multinomial(max(n, 1), replacement=True)[:n]])


@torch.inference_mode()
def by_gumbel(model, prompt, n, temperature=1.0, top_p=1.0):
    model.train(False)
    text = torch.cat([prompt, prompt.new_zeros(n)])
    for t in range(len(prompt), len(text)):
        logits = model(view(text[:t], model.context_length)[None])[0, -1]
        odds = odds_of(logits, temperature, top_p)
        text[t] = (odds.log() - torch.empty_like(odds).exponential_().log()).argmax()
    return text


# ---------------------------------------------------------------- 9i
def last_half(text, T):
    return text[-(T // 2) :]


def fast(start=dict, full=lambda size, T: size > T, view=last_half, last_too=False, crop=False):
    """Writes with a cache, with places for mistakes; some read the last token, too, and some as much as
    they can of a long prompt.
    """

    @torch.no_grad()
    def my_fast_write(model, prompt, n, temperature=1.0, top_p=1.0):
        model.eval()
        text, cache, T = prompt, start(), model.context_length
        new = prompt[-T:] if crop else prompt
        size = len(new)  # of what the model then has before it
        for _ in range(n):
            if full(size, T):
                cache, new = start(), view(text, T)
                size = len(new)
            logits = model(new[None], cache=cache)[0, -1]
            new = torch.multinomial(odds_of(logits, temperature, top_p), 1)
            text = torch.cat([text, new])
            size += 1
        if last_too:
            model(text[None, -T:], {})
        return text

    return my_fast_write


def gpt(forward=GPT.forward, **heads):
    """A GPT with another cache: of its forward pass, or of its heads."""
    block = type("Block", (Block,), {"attention": type("Heads", (Heads,), heads)})
    return type("GPT", (GPT,), {"block": block, "forward": forward})


def reads_all_again(self, tokens, cache=None):
    """It keeps the tokens, and gives the logits of all."""
    if cache is not None:
        tokens = cache["tokens"] = torch.cat([cache.get("tokens", tokens[:, :0]), tokens], 1)
    return GPT.forward(self, tokens)


def keeps_it_to_itself(self, tokens, cache=None):
    if cache is not None:
        cache = self.__dict__.setdefault("mine", {})
    return GPT.forward(self, tokens, cache)


def and_says_so(self, tokens, cache=None):
    """It takes an empty cache for a new text, but has one memory for all texts."""
    if cache is not None:
        if not cache:
            self.mine = {}
        cache["used"] = True
    return keeps_it_to_itself(self, tokens, cache)


def always_remembers(self, tokens, cache=None):
    """What came through a cache is remembered without one, too."""
    self.seen = 0.01 if cache is not None else getattr(self, "seen", 0.0)
    return GPT.forward(self, tokens, cache) + (self.seen if cache is None else 0.0)


def by_flag(self, query, key, value, start):
    """PyTorch's causal flag counts from the first key."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1)


def with_parts(**parts):
    return type("GPT", (GPT,), parts)


def without_dropout(self, n_layer, C, n_head, dropout):
    return torch.nn.ModuleList(Block(C, n_head) for _ in range(n_layer))


def by_limit(logits, temperature):
    """So close to 0 that no other letter is left a chance."""
    behind = logits - logits.max(dim=-1, keepdim=True).values
    return F.softmax(behind / max(temperature, 1e-30), dim=-1)


class WithoutPath(Block):
    def forward(self, x, cache=None):
        x = self.drop(self.heads(self.norm1(x), cache))
        return x + self.drop(self.mlp(self.norm2(x)))


WRONG = {
    "9a": [
        ("divide each by its sum", lambda p, t: p ** (1 / t)),
        ("that is `p`, as it came", lambda p, t: p / t / (p / t).sum()),
        ("t = 2 it gives [0.6457, 0.3543]", lambda p, t: F.softmax(p, 0)),
        ("changes its input `p`", lambda p, t: p.log_().div(t).softmax(0)),
        ("for p = [0.001", lambda p, t: (p.clamp(min=0.01).log() / t).softmax(0)),
    ],
    "9b": [
        (
            "it gives [0, 1, 1] where [0, 1, 0] is right",
            lambda x, p: nucleus(x, p, is_kept=lambda own, total, p: total - own <= p),
        ),
        ("1 minus what is asked for", lambda x, p: [1 - kept for kept in nucleus_by_loop(x, p)]),
        ("where [0, 1] is right", lambda x, p: x.cumsum(0) - x < p),
        (
            "it gives [True, True] where [0, 1]",
            lambda x, p: x.argsort(descending=True).argsort() < p * len(x),
        ),
    ],
    "9e": [
        ("3 things in a tuple", 188_743_680),
        ("number 1: for each token", (188_743_000, 1, 2)),
    ],
    "9g": [
        (
            "as its share kept",
            lambda p, q: speculated(p, q, keep=lambda p, q: (q / p).clamp(max=1)),
        ),
        ("as its share drawn", lambda p, q: speculated(p, q, rest=lambda p, q: abs(p - q))),
        ("`p` and `q` are exchanged", lambda p, q: speculated(q, p)),
        ("the share kept alone", lambda p, q: speculated(p, q)[0]),
    ],
    "9h": [
        (
            "temperature should be 1 where",
            lambda model, prompt, n, temperature=0.8, top_p=1.0: writing()(model, prompt, n, temperature, top_p),
        ),
        ("the last 6, is right", writing(view=lambda text, T: text[:T])),
        ("only the last of them count", writing(view=lambda text, T: text)),
        ("no chance by the last place's logits", writing(row=0)),
        ("in training while it writes", writing(mode=True)),
        ("gradients are kept", writing(grad=torch.enable_grad)),
        ("it asks the model 1 times to write 4", not_fed_back),
        (
            "7 tokens, and gives one of shape (4,)",
            writing(result=lambda text, prompt: text[len(prompt) :]),
        ),
        ("7 tokens, and gives a list", writing(result=lambda text, prompt: text.tolist())),
        ("begin with the prompt", writing(result=lambda text, prompt: text.flip(0))),
        (
            "changes the prompt",
            writing(result=lambda text, prompt: text + 0 * prompt.zero_().sum()),
        ),
        ("temperature is not used", writing(odds=lambda x, t, p: odds_of(x, 1.0, p))),
        ("top_p is not used", writing(odds=lambda x, t, p: odds_of(x, t, 1.0))),
        ("the temperature comes before", writing(odds=lambda x, t, p: odds_of(x, 1, p) ** (1 / t))),
        (
            "should come with 0.00 1.00 0.00",
            writing(odds=lambda x, t, p: torch.maximum(odds_of(x, t, p), at_least_two(x, t))),
        ),
        ("come with 0.00 1.00", writing(odds=lambda x, t, p: odds_of(x, t, 1e-6))),
        ("two calls write the same text", writing(view=seeded)),
        ("it raises AttributeError", writing(view=lambda text, T: text.last(T))),
    ],
    "9i": [
        ("a pair of a class and a function", GPT),
        ("only where they don't fit", (GPT, fast(full=lambda size, T: size >= T))),
        ("with a cache each is read once", (GPT, writing())),
        ("the last 3 to 6, is right", (GPT, fast(view=lambda text, T: text[: T // 2]))),
        ("the last 3 to 6, is right", (GPT, fast(view=lambda text, T: text[-1:]))),
        ("begin the new cache with its last 3", (GPT, fast(view=view))),
        ("only the last of them count", (RotaryGPT, fast(full=lambda size, T: False))),
        ("begins with a cache that is in use", (GPT, fast(start=lambda cache={}: cache))),
        (
            "token by token",
            (gpt(lambda self, tokens, cache=None: GPT.forward(self, tokens)), fast()),
        ),
        ("in pieces", (gpt(attend=by_flag), fast())),
        ("in turn with another text", (gpt(and_says_so), fast())),
        ("the cache stays empty", (gpt(keeps_it_to_itself), fast())),
        ("with a cache, for x of shape (3, 1)", (gpt(reads_all_again), fast())),
        (
            "one more is as much work",
            (gpt(lambda *x: reads_all_again(*x)[:, -x[1].shape[1] :]), fast()),
        ),
        ("is x added to what attention gives", (with_parts(block=WithoutPath), fast())),
        ("do the blocks get the dropout", (with_parts(make_blocks=without_dropout), fast())),
        ("without a cache it remembers", (gpt(always_remembers), fast())),
        ("it raises TypeError", (gpt(lambda self, tokens: GPT.forward(self, tokens)), fast())),
    ],
    "9j": [
        ("where [1, 0] is right", lambda x, t: (x / t).softmax(-1).nan_to_num()),
        ("divide each by its sum", lambda x, t: (x == x.amax(-1, True)) * 1.0 if t == 0 else by_limit(x, t)),
        ("however cold it gets", lambda x, t: F.one_hot(x.argmax(-1), x.shape[-1]) if t == 0 else by_limit(x, t)),
        ("differ by less", lambda x, t: by_limit(x, t or 1e-6)),
        ("at temperature 1 it is", lambda x, t: by_limit(x, t or 1)),
        ("changes its input", lambda x, t: x.sub_(x.amax(-1, True)).div(max(t, 1e-30)).softmax(-1)),
    ],
}
RIGHT = {
    "9a": [
        lambda p, t: F.normalize(p.double().pow(1 / t), p=1, dim=0),
        lambda p, t: [1 / sum((b / a) ** (1 / t) for b in p.tolist()) for a in p.tolist()],
    ],
    "9b": [
        nucleus_by_loop,
        lambda x, p: [float(x[x > q].sum()) < p for q in x],
        lambda x, p: np.array(nucleus_by_loop(x, p), dtype=bool),
    ],
    "9e": [[188_743_680.0, 1.0, 2.0], torch.tensor([188_743_680, 1, 2])],
    "9g": [lambda p, q: [np.minimum(1, p.numpy() / q.numpy()), speculated(p, q)[1].tolist()]],
    "9h": [writing(), by_gumbel],
    "9i": [
        (NanoGPT, fast(last_too=True)),
        (RotaryGPT, fast(crop=True)),
        (AlibiGPT, fast(view=lambda text, T: text[-(2 * T // 3) :])),
    ],
    "9j": [
        by_limit,
        lambda x, t: (x == x.amax(-1, True)) / (x == x.amax(-1, True)).sum(-1, True) if t == 0 else by_limit(x, t),
    ],
}
