"""The exercises of notebook 08: nanoGPT."""

import math

import torch
from torch import nn

from helpers.exercises import Answer, Pairs, exercise
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import generate


@exercise("8a", hint="a model that hesitates between n equally likely characters has the loss ln n")
def perplexity(answer: Answer) -> Pairs:
    """answer(loss in nats) -> between how many equally likely characters the model hesitates."""
    for loss in (0.0, 1.9, math.log(65)):
        yield answer(loss), math.exp(loss)


@exercise("8b", hint="y is the same window, one token later")
def batch(answer: Answer) -> Pairs:
    """answer(tokens (N,), starts (B,), T) -> x stacked on y: (2, B, T)."""
    tokens, starts = torch.arange(100).flip(0) % 7, torch.tensor([3, 50, 0])
    x, y = (torch.stack([tokens[s + later : s + later + 6] for s in starts]) for later in (0, 1))
    yield answer(tokens, starts, 6), torch.stack([x, y])


@exercise("8c", hint="the last row of logits says what comes next; feed the model.config.context_length last tokens")
def greedy(answer: Answer) -> Pairs:
    """answer(model, prompt (T,), n) -> prompt and the n likeliest next tokens, one after the other."""
    model = GPT(GPTConfig(vocab_size=11, context_length=8, n_layer=1, n_head=1, n_embd=16)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
    prompt = torch.tensor([1, 2, 3])
    for n in (1, 12):
        yield answer(model, prompt, n), generate(model, prompt, n, top_k=1, keep=1.0)
