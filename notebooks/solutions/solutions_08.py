"""One answer to each exercise of notebook 08. Yours may look different and be as good: the checks decide."""

import math

import torch


def my_perplexity(loss):
    return math.exp(loss)


def my_batch(tokens, starts, length):
    inside = starts[:, None] + torch.arange(length)  # (B, T)
    return torch.stack([tokens[inside], tokens[inside + 1]])


def my_greedy(model, prompt, n):
    for _ in range(n):
        logits = model(prompt[None, -model.config.context_length :])
        prompt = torch.cat([prompt, logits[0, -1].argmax()[None]])
    return prompt
