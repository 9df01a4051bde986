"""Answers to the exercises 9h and 9i, writing: wrong ones, with words that must refuse them, and right."""

import numpy as np
import torch
import torch.nn.functional as F
from gpt_variants import GPT, WITH_CACHE, AlibiGPT, Block, Heads, PostNormGPT, RotaryGPT, SinusGPT
from nanogpt import NanoGPT


def nucleus(odds, p):
    ordered, order = odds.sort(descending=True)
    kept = torch.zeros_like(odds)
    kept[order] = (ordered.cumsum(0) - ordered < p).to(odds)
    return kept


def odds_of(logits, temperature, top_p):
    odds = (logits / temperature).softmax(-1)
    return odds * nucleus(odds, top_p)


def drawn(odds):
    return torch.multinomial(odds, 1)


def writing(view=lambda text, T: text[-T:], row=lambda logits: logits[-1], odds_of=odds_of, draw=drawn, mode=False,
            grad=torch.no_grad, steps=lambda n: n, result=lambda text, prompt: text):  # fmt: skip
    """A loop with places for mistakes."""

    def my_write(model, prompt, n, temperature=1.0, top_p=1.0):
        with grad():
            model.train(mode)
            text = prompt
            for _ in range(steps(n)):
                logits = row(model(view(text, model.context_length)[None])[0])
                text = torch.cat([text, draw(odds_of(logits, temperature, top_p)).view(1)])
            return result(text, prompt)

    return my_write


def nucleus_first(logits, temperature, top_p):
    odds = logits.softmax(-1)
    odds = odds * nucleus(odds, top_p)
    return odds ** (1 / temperature)


def nucleus_below(logits, temperature, top_p):
    """Without the token that reaches top_p."""
    odds = (logits / temperature).softmax(-1)
    ordered, order = odds.sort(descending=True)
    kept = torch.zeros_like(odds)
    kept[order] = (ordered.cumsum(0) <= top_p).to(odds)
    kept[order[0]] = 1
    return odds * kept


def one_too_many(logits, temperature, top_p):
    odds = (logits / temperature).softmax(-1)
    ordered, order = odds.sort(descending=True)
    kept = torch.zeros_like(odds)
    kept[order] = (ordered.cumsum(0) - ordered < top_p).roll(1).index_fill(0, torch.tensor([0]), True).to(odds)
    return odds * kept


def unsorted(logits, temperature, top_p):
    odds = (logits / temperature).softmax(-1)
    return odds * (odds.cumsum(0) - odds < top_p)


def not_fed_back(model, prompt, n, temperature=1.0, top_p=1.0):
    model.eval()
    with torch.no_grad():
        odds = odds_of(model(prompt[None, -model.context_length :])[0, -1], temperature, top_p)
    return torch.cat([prompt, torch.multinomial(odds, n, replacement=True)]) if n else prompt


def in_place(model, prompt, n, temperature=1.0, top_p=1.0):
    text = writing()(model, prompt, n, temperature, top_p)
    prompt[:] = 0
    return text


def seeded(model, prompt, n, temperature=1.0, top_p=1.0):
    torch.manual_seed(1)
    return writing()(model, prompt, n, temperature, top_p)


def with_a_cache(model, prompt, n, temperature=1.0, top_p=1.0):
    model.eval()
    return model(prompt[None], {})


WRITERS = [
    ("the last 6, is right", writing(view=lambda text, T: text[:T])),
    ("once the text outgrows it, give the last of them", writing(view=lambda text, T: text)),
    ("where all of it is right", writing(view=lambda text, T: text[-1:])),
    ("where all of it is right", writing(view=lambda text, T: text[-T + 1 :])),
    ("is right", writing(view=lambda text, T: text[-((len(text) - 1) % T + 1) :])),
    ("has no chance by the logits of the last place", writing(row=lambda logits: logits[0])),
    ("should come with", writing(odds_of=lambda logits, *_: logits - logits.min() + 1e-9)),
    ("the model is in training while it writes", writing(mode=True)),
    ("gradients are kept", writing(grad=torch.enable_grad)),
    ("it asks the model 1 times to write 4", not_fed_back),
    ("should give 7 tokens, the prompt first", writing(result=lambda text, prompt: text[len(prompt) :])),
    ("should give 7 tokens, the prompt first", writing(result=lambda text, prompt: text[None])),
    ("should give 7 tokens", writing(steps=lambda n: n + 1)),
    ("should give 7 tokens", writing(steps=lambda n: n - 1)),
    ("it returns a list", writing(result=lambda text, prompt: text.tolist())),
    ("doesn't begin with the prompt, as tokens", writing(result=lambda text, prompt: text.float())),
    ("doesn't begin with the prompt, as tokens", writing(result=lambda text, prompt: text.flip(0))),
    ("it changes the prompt", in_place),
    ("it returns nothing", writing(result=lambda text, prompt: None)),
    ("it always takes the likeliest token: draw", writing(draw=lambda odds: odds.argmax())),
    ("temperature is not used", writing(odds_of=lambda logits, t, p: odds_of(logits, 1.0, p))),
    ("logits are multiplied by the temperature", writing(odds_of=lambda logits, t, p: odds_of(logits, 1 / t, p))),
    ("top_p is not used", writing(odds_of=lambda logits, t, p: odds_of(logits, t, 1.0))),
    ("the temperature comes before it", writing(odds_of=nucleus_first)),
    ("the nucleus is too small", writing(odds_of=nucleus_below)),
    ("the nucleus is too large", writing(odds_of=one_too_many)),
    ("should come with", writing(odds_of=unsorted)),
    ("should come with", writing(odds_of=lambda logits, t, p: odds_of(logits, t, p) ** 0.5)),
    ("are those taken, and their softmax", writing(odds_of=lambda logits, t, p: (logits > -100).float())),
    ("are those taken, and their softmax", writing(odds_of=lambda logits, t, p: odds_of(logits.softmax(-1), t, p))),
    ("two calls write the same text", seeded),
    ("it raises TypeError", with_a_cache),
    ("for a prompt of 3 tokens and n=4 it raises AttributeError", writing(view=lambda text, T: text.last(T))),
]  # fmt: skip


# ---------------------------------------------------------------- right
def by_cumsum(model, prompt, n, temperature=1.0, top_p=1.0):
    """Draws from the sorted odds with a number between 0 and 1."""
    model.eval()
    text = list(prompt)
    for _ in range(n):
        with torch.inference_mode():
            logits = model(torch.stack(text[-model.context_length :]).unsqueeze(0))[:, -1, :].squeeze()
        ordered, order = F.softmax(logits / temperature, dim=0).sort(descending=True)
        sums = ordered.cumsum(0)
        end = int(torch.searchsorted(sums, torch.tensor(min(top_p, sums[-1].item()))))
        place = torch.searchsorted(sums[: end + 1], torch.rand(()) * sums[end])
        text.append(order[place])
    return torch.stack(text).clone()


@torch.inference_mode()
def by_gumbel(model, prompt, n, temperature=1.0, top_p=1.0):
    model.train(False)
    text = torch.cat([prompt, prompt.new_zeros(n)])
    for t in range(len(prompt), len(text)):
        logits = model(text[None, max(0, t - model.context_length) : t])[0, -1] / temperature
        logits = logits.masked_fill(nucleus(logits.softmax(0), top_p) == 0, -torch.inf)
        text[t] = (logits - torch.empty_like(logits).exponential_().log()).argmax()
    return text


@torch.no_grad()
def by_numpy(model, prompt, n, temperature=1.0, top_p=1.0):
    model.eval()
    generator = np.random.default_rng(torch.randint(2**31, ()).item())
    text = prompt.tolist()
    while len(text) < len(prompt) + n:
        logits = model(torch.tensor([text[-model.context_length :]]))[0][-1].double().numpy() / temperature
        odds = np.exp(logits - logits.max())
        odds /= odds.sum()
        kept, total = [], 0.0
        for token in np.argsort(-odds):
            kept.append(token)
            total += odds[token]
            if total >= top_p:
                break
        text.append(int(generator.choice(kept, p=odds[kept] / total)))
    return torch.tensor(text)


@torch.no_grad()
def and_back_to_training(model, prompt, n, temperature=1.0, top_p=1.0):
    was = model.training
    model.eval()
    text = prompt.clone()[None]
    for _ in range(n):
        odds = odds_of(model(text[:, -model.context_length :])[0, -1], temperature, top_p)
        text = torch.cat((text, torch.distributions.Categorical(probs=odds / odds.sum()).sample()[None, None]), dim=1)
    model.train(was)
    return text[0]


# ---------------------------------------------------------------- with a cache
def fast(start=dict, window=lambda tokens, T: tokens[-T:], odds_of=odds_of, full=lambda tokens, T: len(tokens) > T):
    """Writes with a cache, with places for mistakes."""

    @torch.no_grad()
    def my_fast_write(model, prompt, n, temperature=1.0, top_p=1.0):
        model.eval()
        tokens, cache, new = prompt, start(), prompt
        for _ in range(n):
            if full(tokens, model.context_length):
                cache, new = start(), window(tokens, model.context_length)
            new = drawn(odds_of(model(new[None], cache)[0, -1], temperature, top_p))
            tokens = torch.cat([tokens, new])
        return tokens

    return my_fast_write


def gpt(forward=None, heads=None, **parts):
    """A GPT with another cache: of its forward pass, or of its heads."""
    if heads:
        parts["block"] = type("Block", (Block,), {"attention": type("Heads", (Heads,), heads)})
    if forward:
        parts["forward"] = forward
    return type("GPT", (GPT,), parts)


def always_at_the_start(self, tokens, cache=None):
    if cache is not None:
        cache.pop("read", None)
    return GPT.forward(self, tokens, cache)


def one_for_all_layers(self, key, value, cache):
    if cache is not None:
        if "kept" in cache:
            key, value = (torch.cat([old, new], 2) for old, new in zip(cache["kept"], (key, value), strict=True))
        cache["kept"] = key, value
    return key, value


def in_itself(self, key, value, cache):
    if cache is not None:
        if getattr(self, "kept_so_far", None) is not None and cache:
            key, value = (torch.cat([old, new], 2) for old, new in zip(self.kept_so_far, (key, value), strict=True))
        self.kept_so_far = key, value
        cache["used"] = True
    return key, value


def new_ones_first(self, key, value, cache):
    if cache is not None:
        if self in cache:
            key, value = (torch.cat([new, old], 2) for old, new in zip(cache[self], (key, value), strict=True))
        cache[self] = key, value
    return key, value


def keys_alone(self, key, value, cache):
    kept = Heads.kept(self, key, value, cache)
    return kept[0], torch.cat([torch.zeros_like(kept[1][:, :, : -value.shape[2]]), value], 2)


def of_the_last_one(self, key, value, cache):
    """Only what the call before has brought."""
    found = Heads.kept(self, key, value, cache)
    if cache is not None:
        cache[self] = key, value
    return found


def by_flag(self, query, key, value, start):
    """PyTorch's causal flag counts from the first key."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1)


def by_flag_always(self, query, key, value, start):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def sees_all_new(self, query, key, value, start):
    return F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] == key.shape[2])


def without_a_mask(self, query, key, value, start):
    return F.scaled_dot_product_attention(query, key, value)


def without_memory(self, tokens, cache=None):
    if cache is not None:
        cache["anything"] = 1
    return GPT.forward(self, tokens)


def reads_all_again(self, tokens, cache=None):
    """It keeps the tokens, and gives the logits of all."""
    if cache is not None:
        tokens = cache["tokens"] = torch.cat([cache.get("tokens", tokens[:, :0]), tokens], 1)
    return GPT.forward(self, tokens)


def computes_all_again(self, tokens, cache=None):
    """The same, and it gives the logits of the new ones alone."""
    return reads_all_again(self, tokens, cache)[:, -tokens.shape[1] :]


class AlwaysRemembers(GPT):
    """What came through a cache is remembered without one, too."""

    seen = 0.0

    def forward(self, tokens, cache=None):
        if cache is not None:
            self.seen = 0.01
        return super().forward(tokens, cache) + (self.seen * self.token.weight[0, 0] if cache is None else 0.0)


PAIRS = [
    ("a new cache begins only where the text is longer", (GPT, fast(full=lambda tokens, T: len(tokens) >= T))),
    ("it reads 69: with a cache each is read once", (GPT, fast(full=lambda tokens, T: len(tokens) >= T - 1))),
    ("one more costs as much work as all 64", (gpt(computes_all_again), fast())),
    ("does each get its own place", (gpt(always_at_the_start), fast())),
    ("read token by token, the logits at place 1 differ", (gpt(without_memory), fast())),
    ("token by token", (gpt(heads={"kept": one_for_all_layers}), fast())),
    ("is something kept outside of the cache", (gpt(heads={"kept": in_itself}), fast())),
    ("token by token", (gpt(heads={"kept": keys_alone}), fast())),
    ("token by token", (gpt(heads={"kept": of_the_last_one}), fast())),
    ("token by token", (gpt(heads={"attend": by_flag_always}), fast())),
    ("in pieces", (gpt(heads={"attend": by_flag}), fast())),
    ("in pieces", (gpt(heads={"attend": sees_all_new}), fast())),
    ("in pieces", (gpt(heads={"kept": new_ones_first}), fast())),
    ("new tokens (3, 1) should give (3, 1, 11), not (3, 2, 11)", (gpt(reads_all_again), fast())),
    ("without a cache it remembers", (AlwaysRemembers, fast())),
    ("it raises TypeError", (gpt(lambda self, tokens: GPT.forward(self, tokens)), fast())),
    ("it looks into the future", (gpt(heads={"attend": without_a_mask}), fast())),
    ("it reads 290: with a cache each is read once", (GPT, writing())),
    ("is longer than the context of 8", (GPT, fast(window=lambda tokens, T: tokens[:T]))),
    ("is longer than the context of 8", (GPT, fast(window=lambda tokens, T: tokens[-T // 2 :]))),
    ("is longer than the context of 8", (GPT, fast(window=lambda tokens, T: tokens[-1:]))),
    ("it raises IndexError", (GPT, fast(full=lambda tokens, T: False))),
    ("is longer than the context of 8", (RotaryGPT, fast(full=lambda tokens, T: False))),
    ("does each call begin with a new cache", (GPT, fast(start=lambda cache={}: cache))),
    ("top_p is not used", (GPT, fast(odds_of=lambda logits, t, p: odds_of(logits, t, 1.0)))),
    ("temperature is not used", (GPT, fast(odds_of=lambda logits, t, p: odds_of(logits, 1.0, p)))),
    ("it should be a pair", GPT),
    ("it should be a pair", (GPT, fast(), fast())),
]  # fmt: skip


@torch.no_grad()
def by_keyword(model, prompt, n, temperature=1.0, top_p=1.0):
    """A cache as a keyword, and a window that is filled anew."""
    model.eval()
    text, cache = prompt.tolist(), {}
    read = 0
    for _ in range(n):
        if len(text) > model.context_length:
            cache, read = {}, len(text) - model.context_length
        logits = model(torch.tensor([text[read:]]), cache=cache)[0, -1]
        read = len(text)
        text.append(int(drawn(odds_of(logits, temperature, top_p))))
    return torch.tensor(text)


@torch.no_grad()
def slow_beyond(model, prompt, n, temperature=1.0, top_p=1.0):
    """A cache as long as the text fits, and none beyond."""
    model.eval()
    text, cache = prompt, {}
    for step in range(n):
        if len(text) > model.context_length:
            logits = model(text[None, -model.context_length :])
        else:
            logits = model((text if step == 0 else text[-1:])[None], cache)
        text = torch.cat([text, drawn(odds_of(logits[0, -1], temperature, top_p))])
    return text


@torch.no_grad()
def reads_the_last_too(model, prompt, n, temperature=1.0, top_p=1.0):
    """Each token is read as soon as it stands there."""
    model.eval()
    text, cache = prompt, {}
    logits = model(text[None, -model.context_length :], cache)
    for _ in range(n):
        text = torch.cat([text, drawn(odds_of(logits[0, -1], temperature, top_p))])
        if len(text) > model.context_length:
            cache = {}
            logits = model(text[None, -model.context_length :], cache)
        else:
            logits = model(text[None, -1:], cache)
    return text


@torch.no_grad()
def token_by_token(model, prompt, n, temperature=1.0, top_p=1.0):
    """Even the prompt, and each window."""
    model.eval()
    text, cache = prompt, {}
    if n:
        for token in prompt[-model.context_length :]:
            logits = model(token.view(1, 1), cache)
    for step in range(n):
        text = torch.cat([text, drawn(odds_of(logits[0, -1], temperature, top_p))])
        if step + 1 < n:
            if len(text) > model.context_length:
                cache = {}
                for token in text[-model.context_length : -1]:
                    model(token.view(1, 1), cache)
            logits = model(text[None, -1:], cache)
    return text


WRONG = {"9h": WRITERS, "9i": PAIRS}
RIGHT = {
    "9h": [writing(), by_cumsum, by_gumbel, by_numpy, and_back_to_training],
    "9i": [
        *((model, fast()) for model in WITH_CACHE),
        (GPT, by_keyword),
        (NanoGPT, slow_beyond),
        (RotaryGPT, token_by_token),
        (AlibiGPT, by_keyword),
        (AlibiGPT, reads_the_last_too),
        (SinusGPT, slow_beyond),
        (PostNormGPT, token_by_token),
    ],
}
