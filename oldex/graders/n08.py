"""The exercises of notebook 08: a nanoGPT is trained and looked into."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn, randint, randn

from exercises.graders import learning
from exercises.graders.curves import (
    COPY,
    HEALTHY,
    HIGH,
    LEAK,
    LOW,
    NAMES,
    OVERFIT,
    RUNS,
    always,
    broken,
    confusing,
)
from exercises.graders.silence import of_changed, of_zeroed, own, silenced, swapped, without
from exercises.judge import Answer, Pairs, built, exercise
from helpers.attention import MultiHeadAttention
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import generate


@exercise(
    "8a",
    {
        "the loss is in nats, so the base is e, not 2": lambda loss: 2**loss,
        "those are bits: a number of characters is asked for": lambda loss: loss / math.log(2),
        "the loss is a natural logarithm: the base is e, not 10": lambda loss: 10**loss,
        "that is the loss itself: what undoes a logarithm?": lambda loss: loss,
        "that is the probability of the right character: among how many is it 1 / n?": lambda loss: math.exp(-loss),
        "that way lies the loss again: a loss is a logarithm already, so undo it": [
            lambda loss: math.log(loss),
            lambda loss: torch.tensor(float(loss)).log(),
        ],
        "that is where the exponential begins, and it curves upwards": lambda loss: 1 + loss,
        "it has nothing to do with how many characters there are in all": [
            lambda loss: 65 * math.exp(-loss),
            lambda loss: math.exp(loss) / 65,
            lambda loss: 65 * loss / math.log(65),
        ],
        "n ln n is not the loss of n equally likely characters: each of them costs ln n, and one comes": (
            lambda loss: loss * math.exp(loss)
        ),
    },
)
def perplexity(answer: Answer) -> Pairs:
    """answer(loss in nats) -> between how many equally likely characters the model hesitates."""
    for loss in (0.0, 1.9, math.log(65), 0.25, 1, math.log(50_257)):
        yield answer(loss), math.exp(loss)


def _windows(tokens: Tensor, starts: Tensor, T: int, later: int = 0) -> Tensor:
    return tokens[starts[:, None] + torch.arange(T) + later]


def _pair(*later: int, dim: int = 0) -> Answer:
    """Windows that begin so many places after `starts`."""
    return lambda tokens, starts, T: torch.stack([_windows(tokens, starts, T, places) for places in later], dim)


@exercise(
    "8b",
    {
        "y is x again: a model that is asked for what it sees learns to copy": _pair(0, 0),
        "y comes one token BEFORE x: it should come one later": _pair(0, -1),
        "y comes two tokens later: one is right": _pair(0, 2),
        "x and y are exchanged": _pair(1, 0),
        "x begins one token late: it begins at its start": _pair(1, 2),
        "y is the window after x: each place has its own target, the very next token": (
            lambda tokens, starts, T: torch.stack([_windows(tokens, starts, T), _windows(tokens, starts, T, T)])
        ),
        "the last target is the window's own first token: it should be the token that follows in the text": (
            lambda tokens, starts, T: torch.stack([x := _windows(tokens, starts, T), x.roll(-1, 1)])
        ),
        "only the token after the window is in y: each of the T places has a target": [
            lambda tokens, starts, T: (_windows(tokens, starts, T), tokens[starts + T]),
            lambda tokens, starts, T: (_windows(tokens, starts, T), tokens[starts + T][:, None]),
        ],
        "the windows come first and x and y second: (2, B, T) is asked for": _pair(0, 1, dim=1),
        "the windows have T + 1 tokens: x and y have T each": (
            lambda tokens, starts, T: _pair(0, 1)(tokens, starts, T + 1)
        ),
        "the starts are ignored: windows stand where they say": (
            lambda tokens, starts, T: _pair(0, 1)(tokens, torch.arange(len(starts)) * T, T)
        ),
        "the starts are sorted first: row b belongs to starts[b]": (
            lambda tokens, starts, T: _pair(0, 1)(tokens, starts.sort().values, T)
        ),
        "those are the places: look up the tokens that stand there": (
            lambda tokens, starts, T: _pair(0, 1)(torch.arange(len(tokens)), starts, T)
        ),
        "all rows are the first window": (
            lambda tokens, starts, T: _pair(0, 1)(tokens, starts[:1].expand(len(starts)), T)
        ),
    },
)
def batch(answer: Answer) -> Pairs:
    """answer(tokens (N,), starts (B,), T) -> x stacked on y: (2, B, T)."""
    for N, starts, T in (
        (100, [13, 50, 1], 6),
        (42, [30, 7, 7, 12], 9),
        (30, [4], 5),
        (25, [20, 3, 17], 1),
        (75, [45, 2], 14),
        (20, [12, 5], 2),
    ):
        tokens = randint(1000, (N,))
        yield answer(tokens, torch.tensor(starts), T), _pair(0, 1)(tokens, torch.tensor(starts), T)


def _last(model: GPT, text: Tensor) -> Tensor:
    """What the model sees of a text."""
    return text[-model.config.context_length :]


def _greedy(
    seen: Callable[[GPT, Tensor], Tensor] = _last, pick: Callable[[Tensor], Tensor] = lambda logits: logits[-1].argmax()
) -> Answer:
    """Greedy writing with another view of the text, or another choice from the logits (T, V)."""

    def variant(model: GPT, prompt: Tensor, n: int) -> Tensor:
        for _ in range(n):
            prompt = torch.cat([prompt, pick(model(seen(model, prompt)[None])[0]).view(1)])
        return prompt

    return variant


def _steps(extra: int) -> Answer:
    return lambda model, prompt, n: _greedy()(model, prompt, n + extra)


@exercise(
    "8c",
    {
        "the new tokens are missing: append them to the prompt": lambda model, prompt, n: prompt,
        "the prompt is missing: return it with the new tokens behind it": (
            lambda model, prompt, n: _greedy()(model, prompt, n)[len(prompt) :]
        ),
        "it feeds the last token alone: the model may see its whole context": _greedy(lambda model, text: text[-1:]),
        "it feeds one token too few: the context has `context_length` places": _greedy(
            lambda model, text: text[max(0, len(text) - model.config.context_length + 1) :]
        ),
        "it always feeds the beginning of the text: once the context is full, crop to the LAST tokens": _greedy(
            lambda model, text: text[: model.config.context_length]
        ),
        "once the text outgrows the context, feed only the last `context_length` tokens of it": _greedy(
            lambda model, text: text
        ),
        "a full context is thrown away: let the window slide by one token": _greedy(
            lambda model, text: text[(len(text) - 1) // model.config.context_length * model.config.context_length :]
        ),
        "it takes the LEAST likely token": _greedy(pick=lambda logits: logits[-1].argmin()),
        "it reads the logits of the first place: the last row says what comes next": _greedy(
            pick=lambda logits: logits[0].argmax()
        ),
        "it takes the likeliest of all places together: the last row alone says what comes next": _greedy(
            pick=lambda logits: logits.argmax() % logits.shape[-1]
        ),
        "it adds up the logits of all places: the last row alone says what comes next": _greedy(
            pick=lambda logits: logits.sum(0).argmax()
        ),
        "it draws a token: greedy takes the likeliest": _greedy(
            pick=lambda logits: torch.multinomial(logits[-1].softmax(-1), 1)
        ),
        "the new token isn't fed back: each step must see what the step before wrote": (
            lambda model, prompt, n: torch.cat([prompt, _greedy()(model, prompt, 1)[len(prompt) :].repeat(n)])
        ),
        "it writes one token too many": _steps(1),
        "it writes one token too few": _steps(-1),
    },
)
def greedy(answer: Answer) -> Pairs:
    """answer(model, prompt (T,), n) -> prompt and the n likeliest next tokens, one after the other."""
    for V, context_length, layers, T, n in (
        (11, 5, 1, 3, 1),
        (11, 5, 1, 3, 6),
        (7, 4, 2, 6, 4),
        (13, 3, 1, 1, 5),
        (5, 6, 1, 2, 0),
    ):
        model = GPT(GPTConfig(V, context_length, layers, n_head=1, n_embd=16)).eval().requires_grad_(False)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
        prompt = randint(V, (T,))
        yield answer(model, prompt, n), generate(model, prompt, n, top_k=1, keep=1.0)


@exercise(
    "8d",
    {
        "one name doesn't fit all runs: look at each": [always(name) for name in NAMES],
        "healthy runs are called overfitting: a validation loss a little above the training loss is normal. Does it "
        "RISE?": confusing((HEALTHY, OVERFIT)),
        "where the training rate is too high, the loss jumps far above its start: at too low a rate it never rises": (
            confusing((HIGH, LOW))
        ),
        "too high and too low are exchanged": confusing((HIGH, LOW), (LOW, HIGH)),
        "a loss that has jumped far above its start is called healthy": confusing((HIGH, HEALTHY)),
        "a loss that jumps above its start is no overfitting: there the TRAINING loss falls": confusing(
            (HIGH, OVERFIT)
        ),
        "a loss that has hardly left its start is called healthy": confusing((LOW, HEALTHY)),
        "a loss near 0, even on fresh text, is too good to be true: nobody can foresee the next letter so well": [
            confusing((COPY, HEALTHY)),
            confusing((COPY, HEALTHY), (LEAK, HEALTHY)),
        ],
        "no leak makes FRESH text easy: who gets nearly 0 there, has seen the answer in its input": confusing(
            (COPY, LEAK)
        ),
        "a leaked validation text looks healthy: fresh text, which nobody has seen, tells the truth": confusing(
            (LEAK, HEALTHY)
        ),
        "it overfits there, too, but the validation loss hides it: compare validation with fresh": confusing(
            (LEAK, OVERFIT)
        ),
        "a leaked text is learned by heart; a copied input takes the loss to 0 on fresh text, too": confusing(
            (LEAK, COPY)
        ),
        "overfitting is missed: compare the last validation loss with its lowest": confusing((OVERFIT, HEALTHY)),
        "where it overfits, validation and fresh rise together: a leak holds validation down": confusing(
            (OVERFIT, LEAK)
        ),
        "overfitting and a leak are exchanged: a leak holds the validation loss down, and fresh text rises alone": (
            confusing((OVERFIT, LEAK), (LEAK, OVERFIT))
        ),
    },
    broken=("it calls healthy runs overfitting and knows one fault of five. Does the validation loss RISE?", broken),
)
def diagnosis(answer: Answer) -> Pairs:
    """answer(training, validation, fresh), lists of losses -> the name of what is wrong, or "healthy"."""
    for name, training, validation, fresh in RUNS:
        yield answer(training, validation, fresh), name


_right_silence = silenced(without)


@exercise(
    "8e",
    {
        "nothing is silenced: that is the whole layer": lambda layer, x, head: layer(x),
        "it zeros a head's channels of the OUTPUT, where out_proj has already mixed all heads": (
            of_changed(own, "output")
        ),
        "it zeros channels of x, which every head reads": of_changed(own, "input"),
        "head h doesn't own every H-th channel: it owns D neighbours, from h D on": of_changed(
            lambda head, H, D: slice(head, None, H), "context"
        ),
        "only one channel of the head is silenced: it has D": of_changed(
            lambda head, H, D: slice(head, head + 1), "context"
        ),
        "the others are silenced, and this head speaks alone": silenced(
            lambda context, head: context - without(context, head)
        ),
        "another head is silenced: heads count from 0": [
            silenced(lambda context, head: without(context, (head + 1) % context.shape[1])),
            silenced(lambda context, head: without(context, head - 1)),
        ],
        "always the same head is silenced, whatever `head` says": [
            silenced(lambda context, head: without(context, 0)),
            silenced(lambda context, head: without(context, -1)),
        ],
        "without query or key its scores are all equal: the head then averages, and is not silent": [
            of_zeroed("W_query"),
            of_zeroed("W_key"),
            of_zeroed("W_query", "W_key"),
        ],
        "the value's bias still speaks: silence the head's context": [
            of_zeroed("W_value"),
            of_zeroed("W_query", "W_key", "W_value"),
        ],
        "the other heads speak louder to make up for it: leave them as they are": silenced(
            lambda context, head: without(context, head) * context.shape[1] / (context.shape[1] - 1)
        ),
        "it replaces the head's context by its mean: zeros are asked for": [
            silenced(lambda context, head: without(context, head, context[:, head].mean())),
            silenced(lambda context, head: without(context, head, context[:, head].mean((0, 1)))),
            silenced(lambda context, head: without(context, head, context[:, head].mean(1, keepdim=True))),
        ],
        "out_proj is forgotten": lambda layer, x, head: _right_silence(swapped(layer, out_proj=nn.Identity()), x, head),
        "out_proj's bias is forgotten: only the head is silent": lambda layer, x, head: (
            _right_silence(layer, x, head) - layer.out_proj.bias
        ),
        "it looks ahead: the layer is causal": lambda layer, x, head: _right_silence(
            swapped(layer, mask=torch.ones_like(layer.mask)), x, head
        ),
        "the head is cut out, and the matrix after it no longer fits: put zeros in its place": silenced(
            lambda context, head: torch.cat([context[:, :head], context[:, head + 1 :]], 1)
        ),
        "that is what the head adds: the output WITHOUT it is asked for": lambda layer, x, head: (
            layer(x) - _right_silence(layer, x, head)
        ),
    },
)
def without_head(answer: Answer) -> Pairs:
    """answer(layer, x (B, T, C), head) -> the layer's output (B, T, C) with zeros for that head's context."""
    for B, T, H, D, head in ((2, 5, 3, 4, 1), (1, 4, 2, 3, 0), (2, 3, 4, 2, 3), (1, 6, 2, 5, 1), (3, 2, 5, 3, 2)):
        layer = MultiHeadAttention(H * D, H * D, T + 1, dropout=0.0, num_heads=H, qkv_bias=True).requires_grad_(False)
        for parameter in layer.parameters():
            nn.init.normal_(parameter)
        x = randn(B, T, H * D)
        yield answer(layer, x, head), _right_silence(layer, x, head), 1e-4


@exercise(
    "8f",
    {
        "the order is: fresh, counts, best": [(0.3466, 1.0397, 1.0986), (1.0397, 1.0986, 0.3466)],
        "those are bits: with the natural logarithm they are nats": (1.585, 1.5, 0.5),
        "the fresh model knows nothing and spreads its guess over the letters: its loss is not 0": (0, ..., ...),
        "the fresh model doesn't know yet that b is more frequent: it gives each of the three letters 1/3": [
            (1.0397, ..., ...),
            (0.6931, ..., ...),
        ],
        "the fresh model: three equally likely letters cost ln 3 each, whichever comes": [
            (3, ..., ...),
            (1 / 3, ..., ...),
        ],
        "counting letters helps a little: b is half of the text, so it is cheaper than ln 3": (..., 1.0986, ...),
        "the counts: a and c cost ln 4 each, b costs ln 2, and half of the letters are b": [
            (..., 1.3863, ...),
            (..., 0.6931, ...),
            (..., 1.1552, ...),
        ],
        "the best is not 0: after a b, nobody can know whether a or c comes": (..., ..., 0),
        "every second letter is certain and costs nothing: the mean counts it, too": (..., ..., 0.6931),
        "who remembers one letter knows more than the counts: after a or c, b is certain": [
            (..., ..., 1.0397),
            (..., ..., 1.0986),
        ],
    },
)
def ladder(answer: Answer) -> Pairs:
    """answer = the loss of a fresh model, of the letters' shares, of the best model, on random words "ab" and "cb"."""
    yield answer, (math.log(3), 1.5 * math.log(2), 0.5 * math.log(2)), 0.0061


@built("8g", "a function")
def training(my_train: Answer) -> None:
    """my_train(model, tokens (N,), steps, batch_size, report) changes the model; report(step, loss) after each step."""
    learning.trains(my_train)
