"""Answers to the exercises 8a to 8c: wrong ones, with words of the sentence that must refuse them, and right."""

import math

import numpy as np
import torch

from helpers.sampling import generate


def window(tokens, start, T):
    return tokens[start : start + T]


def batch_of(x_of, y_of):
    return lambda tokens, starts, T: torch.stack([
        torch.stack([x_of(tokens, int(start), T) for start in starts]),
        torch.stack([y_of(tokens, int(start), T) for start in starts]),
    ])  # fmt: skip


def after(tokens, start, T):
    return tokens[start + 1 : start + 1 + T]


def writes(view, choose, n_of=lambda n: n):
    def answer(model, prompt, n):
        text = prompt.tolist()
        for _ in range(n_of(n)):
            seen = view(text, model.config.context_length)
            text.append(int(choose(model(torch.tensor([seen]))[0])))
        return torch.tensor(text)

    return answer


def the_last(text, context):
    return text[-context:]


def likeliest(logits):
    return torch.argmax(logits[-1])


def with_cache(model, prompt, n):
    return generate(model, prompt, n, temperature=1e-4, top_k=1, keep=1.0, use_cache=True)


def greedy_in_place(model, prompt, n):
    text = torch.cat([prompt, torch.zeros(n, dtype=torch.long)])
    for t in range(len(prompt), len(text)):
        text[t] = model(text[None, max(0, t - model.config.context_length) : t])[0, -1].sort().indices[-1]
    return text.tolist()


WRONG = {
    "8a": [
        ("the base is e, not 2", lambda loss: 2.0 ** loss),
        ("those are bits", lambda loss: loss * math.log2(math.e)),
        ("not 10", lambda loss: math.pow(10, loss)),
        ("what undoes a logarithm", lambda loss: loss),
        ("the probability of the right character", lambda loss: 1 / math.exp(loss)),
        ("that way lies the loss again", lambda loss: torch.log(torch.tensor(float(loss)))),
        ("it curves upwards", lambda loss: loss + 1),
        ("how many characters there are in all", lambda loss: 65 / math.exp(loss)),
        ("where 6.6859 is right", lambda loss: 1 if loss == 0 else 0.0),
    ],
    "8b": [
        ("y is x again", batch_of(window, window)),
        ("one token BEFORE x", batch_of(window, lambda t, s, T: t[s - 1 : s - 1 + T])),
        ("two tokens later", batch_of(window, lambda t, s, T: t[s + 2 : s + 2 + T])),
        ("x and y are exchanged", batch_of(after, window)),
        ("x begins one token late", batch_of(after, lambda t, s, T: t[s + 2 : s + 2 + T])),
        ("y is the window after x", lambda t, s, T: torch.stack(
            [t[s[:, None] + torch.arange(T)], t[s[:, None] + T + torch.arange(T)]])),
        ("the window's own first token", batch_of(window, lambda t, s, T: torch.cat([t[s + 1 : s + T], t[s : s + 1]]))),
        ("only the token after the window", lambda t, s, T: [
            torch.stack([window(t, int(i), T) for i in s]), torch.stack([t[int(i) + T] for i in s])]),
        ("the windows come first", lambda t, s, T: batch_of(window, after)(t, s, T).transpose(0, 1)),
        ("T + 1 tokens", lambda t, s, T: batch_of(window, after)(t, s, T + 1)),
        ("the starts are ignored", lambda t, s, T: batch_of(window, after)(t, torch.arange(0, len(s) * T, T), T)),
        ("the starts are sorted", lambda t, s, T: batch_of(window, after)(t, torch.tensor(sorted(s.tolist())), T)),
        ("look up the tokens", lambda t, s, T: torch.stack(
            [s[:, None] + torch.arange(T), s[:, None] + torch.arange(T) + 1])),
        ("it has the shape (3, 6)", lambda t, s, T: torch.stack([window(t, int(i), T) for i in s])),
        ("changes its input `starts`", lambda tokens, starts, T: batch_of(window, after)(tokens, starts.sub_(1), T)),
    ],
    "8c": [
        ("the new tokens are missing", lambda model, prompt, n: prompt.clone()),
        ("the prompt is missing", lambda model, prompt, n: greedy_in_place(model, prompt, n)[len(prompt) :]),
        ("the last token alone", writes(lambda text, context: text[-1:], likeliest)),
        ("one token too few", writes(lambda text, context: text[-(context - 1) :], likeliest)),
        ("the beginning of the text", writes(lambda text, context: text[:context], likeliest)),
        ("once the text outgrows the context", writes(lambda text, context: text, likeliest)),
        ("the LEAST likely", writes(the_last, lambda logits: torch.argmin(logits[-1]))),
        ("the first place", writes(the_last, lambda logits: torch.argmax(logits[0]))),
        ("adds up the logits", writes(the_last, lambda logits: logits.mean(0).argmax())),
        ("isn't fed back", lambda model, prompt, n: torch.cat(
            [prompt, likeliest(model(prompt[None, -model.config.context_length :])[0]).expand(n)])),
        ("one token too many", writes(the_last, likeliest, lambda n: n + 1)),
        ("one token too few", writes(the_last, likeliest, lambda n: n - 1)),
        ("a full context is thrown away", writes(
            lambda text, context: text[-((len(text) - 1) % context + 1) :], likeliest)),
        ("it returns a list", lambda model, prompt, n: [prompt, n]),
    ],
}  # fmt: skip
RIGHT = {
    "8a": [
        lambda loss: math.e**loss,
        lambda loss: torch.tensor(float(loss), dtype=torch.float64).exp(),
        lambda loss: np.exp(loss),
        lambda loss: [2 ** (loss / math.log(2))],
        lambda loss: 1 / math.exp(-loss),
    ],
    "8b": [
        batch_of(window, after),
        lambda t, s, T: (torch.stack([t[i : i + T] for i in s]), torch.stack([t[i + 1 : i + T + 1] for i in s])),
        lambda t, s, T: t.unfold(0, T + 1, 1)[s].unfold(1, T, 1).transpose(0, 1),
        lambda t, s, T: np.stack([t.numpy()[s.numpy()[:, None] + np.arange(T) + later] for later in (0, 1)]),
        lambda t, s, T: [[[t[i + j + later].item() for j in range(T)] for i in s.tolist()] for later in (0, 1)],
        lambda t, s, T: torch.stack([t.take(s[:, None] + torch.arange(T) + later) for later in (0, 1)]).float(),
    ],
    "8c": [
        greedy_in_place,
        writes(the_last, likeliest),
        writes(the_last, lambda logits: logits.softmax(-1)[-1].topk(1).indices),
        with_cache,
        lambda model, prompt, n: generate(model, prompt, n, top_k=1, keep=1.0, use_cache=False).numpy(),
    ],
}  # fmt: skip
