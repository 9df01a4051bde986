"""One answer to each exercise of notebook 09. Yours may look different and be as good: the checks decide."""

import torch
from my_gpt import MyGPT, my_fast_write


def my_temperature(probabilities, temperature):
    # The logarithm undoes the softmax, up to a constant that the next softmax doesn't see.
    return (probabilities.log() / temperature).softmax(dim=-1)


def my_nucleus(probabilities, p):
    # A token is kept as long as those before it have not reached p.
    descending, order = probabilities.sort(descending=True)
    before = descending.cumsum(dim=0) - descending
    kept = torch.zeros(len(probabilities), dtype=torch.long)
    kept[order] = (before < p).long()
    return kept


def my_repetition(tokens, n):
    # A set keeps each window once: what does not enlarge it has occurred before.
    windows = [tuple(window) for window in tokens.unfold(0, n, 1).tolist()]
    return 1 - len(set(windows)) / len(windows)


def my_slope(logits, temperature):
    # The variance of the logits, each weighed with its probability, over the third power.
    shares = (logits / temperature).softmax(dim=0)
    mean = (shares * logits).sum()
    return (shares * (logits - mean) ** 2).sum() / temperature**3


# Keys and values, 36 layers, 1,024 tokens, 1,280 numbers of two bytes; heads only cut the 1,280 up.
my_cache = (2 * 36 * 1024 * 1280 * 2, 1, 2)


def my_logits(model, tokens):
    cache, rows = model.new_cache(), []
    for t, token in enumerate(tokens):
        x = model.embed(token.view(1, 1), start=t)  # the place where the token stands
        for block, kept in zip(model.blocks, cache, strict=True):
            x = block(x, kept)
        rows.append(model.head(model.norm(x))[0, 0])
    return torch.stack(rows)


def my_speculation(target, draft):
    # What the draft has too much of is thinned out; what it has too little of is made up for.
    kept = (target / draft).clamp(max=1)
    missing = (target - draft).clamp(min=0)
    return kept, missing / missing.sum()


@torch.no_grad()
def my_write(model, prompt, n, temperature=1.0, top_p=1.0):
    model.eval()
    text = prompt
    for _ in range(n):
        # A window at the end of the text, of which only the last place's logits count.
        logits = model(text[None, -model.context_length :])[0, -1]
        odds = (logits / temperature).softmax(dim=0)
        odds = odds * my_nucleus(odds, top_p)
        text = torch.cat([text, torch.multinomial(odds, 1)])
    return text


# These two, and the layers that pass the cache along, stand on one page: my_gpt.py.
my_pair = (MyGPT, my_fast_write)
