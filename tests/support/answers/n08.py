"""Answers to the exercises of notebook 08: wrong ones, with words of what is said, and right ones."""

import copy
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from exercises.n08 import HIGH, LOW, diagnosis, own, silenced


def windows(tokens, starts, T, later=1):
    rows = tokens[starts[:, None] + torch.arange(T + later)]
    return torch.stack([rows[:, :T], rows[:, later:]])


def rising(training, validation, fresh):
    return "overfitting" if validation[-1] > validation[0] else "healthy"


def by_the_second_record(training, validation, fresh):
    if training[1] > training[0] - 0.1:
        return HIGH if training[1] > training[0] else LOW
    if fresh[1] < 1:
        return "targets not shifted"
    if fresh[-1] < fresh[1]:
        return "healthy"
    return np.str_("overfitting" if validation[-1] > 2 else "validation text leaked")


def one_by_one(model, text, n):
    for _ in range(n):
        window = text[None, -model.config.context_length :]
        text = torch.cat([text, model(window)[0, -1:].log_softmax(-1).topk(1).indices[0]])
    return text


def value_weights_alone(layer, x, head):
    layer = copy.deepcopy(layer)
    layer.W_value.weight[own(layer, head)] = 0
    return layer(x)


def without_copy(layer, x, head):
    layer.out_proj.weight[:, own(layer, head)] = 0
    return layer(x)


def by_a_hook(layer, x, head):
    def silence(module, inputs):
        channels = torch.arange(inputs[0].shape[-1])
        return (inputs[0] * (channels // (len(channels) // layer.num_heads) != head),)

    hook = layer.out_proj.register_forward_pre_hook(silence)
    output = layer(x)
    hook.remove()
    return output


# ---------------------------------------------------------------- loops that teach
def drawn(tokens, T, B):
    return windows(tokens, torch.randint(len(tokens) - T, (B,)), T)


def mean_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def loop(batch=drawn, loss_of=mean_loss, lr=3e-3, optimizer=torch.optim.AdamW, learned=slice(None),
         update=update, first=1, told=torch.Tensor.item, mode=True):  # fmt: skip
    """A loop with places for mistakes."""

    def my_train(model, tokens, steps, batch_size, report):
        weights = optimizer(list(model.parameters())[learned], lr=lr)
        model.train(mode)
        for step in range(first, steps + 1):
            x, y = batch(tokens, model.context_length, batch_size)
            loss = loss_of(model(x), y)
            update(weights, loss)
            report(step, told(loss))

    return my_train


def with_a_look_now_and_then(model, tokens, steps, batch_size, report):
    """What the loops of nanoGPT and lesson 08 do: evaluate every 50 steps, on other windows."""

    def told(loss):
        looks[0] += 1
        if looks[0] % 50 == 1:
            with torch.no_grad():
                model.eval()(tokens[None, :3])
                model.train()
        return loss.item()

    looks = [0]
    loop(told=told)(model, tokens, steps, batch_size, report)


def every_second_time(model, tokens, steps, batch_size, report):
    turn = itertools.cycle((True, False))

    def update(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        if next(turn):
            optimizer.step()

    loop(update=update)(model, tokens, steps, batch_size, report)


def told_before(model, tokens, steps, batch_size, report):
    loop(update=lambda optimizer, loss: None, told=lambda loss: loss)(
        model,
        tokens,
        steps,
        batch_size,
        lambda step, loss: (report(step, loss.item()), moved(model, loss)),
    )


def moved(model, loss):
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.5 * parameter.grad


def told_at_the_end(model, tokens, steps, batch_size, report):
    losses = []
    loop()(model, tokens, steps, batch_size, lambda *pair: losses.append(pair))
    for pair in losses:
        report(*pair)


def by_hand(model, tokens, steps, batch_size, report):
    """Plain descent, and the cross-entropy from its formula."""
    model.train()
    for step in range(1, steps + 1):
        x, y = drawn(tokens, model.context_length, batch_size)
        logits = model(x)
        loss = (logits.logsumexp(-1) - logits.gather(-1, y[..., None]).squeeze(-1)).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.data -= 0.1 * gradient
        report(step, loss.tolist())


WRONG = {
    "8a": [
        ("one logarithm too many", lambda loss: loss),
        ("stands on its head", lambda loss: math.exp(-loss)),
        ("for loss = 1 it gives 2 where 2.718 is right", lambda loss: 1 + loss),
    ],
    "8b": [
        ("`starts` is one too large", lambda tokens, starts, T: windows(tokens, starts + 1, T)),
        ("`T` is one too large", lambda t, s, T: windows(t, s, T + 1)),
        ("the dimensions stand in another order", lambda *x: windows(*x).transpose(0, 1)),
        ("it gives [[[4, 5], [2, 3]]", lambda t, s, T: windows(torch.arange(len(t)), s, T)),
        ("changes its input `starts`", lambda tokens, starts, T: windows(tokens, starts.sub_(1), T)),
        ("tokens are whole numbers", lambda *x: windows(*x).float()),
        ("s = [7], T = 1 it gives", lambda t, s, T: windows(torch.cat([t[:-1], t[-2:-1]]), s, T)),
        ("dimension 0 runs in reverse order", lambda *x: windows(*x).flip(0)),
        ("only their shape is another", lambda *x: windows(*x).flatten(0, 1)),
    ],
    "8d": [
        ("the training loss jumps far above its start", rising),
        ("'Healthy' is none of the six names", lambda *x: diagnosis(*x).capitalize()),
        ("'learning rate too slow' is none of the six", lambda *x: diagnosis(*x).replace("low", "slow")),
        ("changes its input `training`", lambda training, *x: diagnosis(training[::-1], *x) + str(training.sort())),
    ],
    "8e": [
        ("head 0 is not silent", lambda layer, x, head: layer(x)),
        ("head 0 is not silent", value_weights_alone),
        ("`head` is one too small", lambda layer, x, head: silenced(layer, x, head - 1)),
        ("head 0 is silent, and head 1 alone", lambda layer, x, head: silenced(layer, x, 0)),
        ("changes its input `layer`", without_copy),
    ],
    "8f": [
        ("in reverse order", (0.35, 1.04, 1.1)),
        ("3 things in a tuple", (1.1, 1.04)),
        ("number 2: the counts", (1.1, 0.9, 0.35)),
    ],
    "8h": [
        ("never trained on", 2000 * 12 * 64 / 1_115_394),
        ("many windows", 2000 * 64 / 1_003_854),
        ("64 letters", 2000 * 12 / 1_003_854),
    ],
    "8i": [
        ("counted once", lambda V, T, L, C: ((2 * V + T) * C, 4 * L * C * C, 8 * L * C * C)),
        ("four matrices", lambda V, T, L, C: ((V + T) * C, 3 * L * C * C, 8 * L * C * C)),
        ("two matrices", lambda V, T, L, C: ((V + T) * C, 4 * L * C * C, 4 * L * C * C)),
        ("tables", lambda V, T, L, C: (V * C, 4 * L * C * C, 8 * L * C * C)),
    ],
    "8g": [
        ("the shape (6, 8): with batch_size=6", loop(lambda tokens, T, B: drawn(tokens, T + 1, B))),
        ("are no windows", loop(lambda *x: drawn(*x).flip(-1))),
        ("in evaluation while it learns", loop(mode=False)),
        ("earlier batches are still there", loop(update=lambda optimizer, loss: (loss.backward(), optimizer.step()))),
        ("only these places learn: [6]", loop(loss_of=lambda logits, y: mean_loss(logits[:, -1:], y[:, -1:]))),
        ("is the token itself", loop(lambda *x: drawn(*x)[[0, 0]])),
        ("stands at -1", loop(lambda *x: drawn(*x).flip(0))),
        ("has nothing to do with it", loop(lambda *x: (drawn(*x)[0], drawn(*x)[1]))),
        ("the logits themselves", loop(loss_of=lambda logits, y: mean_loss(logits.softmax(-1), y))),
        ("is it the mean", loop(loss_of=lambda logits, y: 42 * mean_loss(logits, y))),
        ("reports the step 0 where 1", loop(first=0)),
        ("in 75 of 150 steps no parameter changes", every_second_time),
        ("is a Tensor", loop(told=torch.Tensor.detach)),
        ("are loss.backward() and", loop(update=lambda optimizer, loss: optimizer.step())),
        ("report each right after its update", told_at_the_end),
        ("a parameter of the model is as it was", lambda model, *x: loop()(copy.deepcopy(model), *x)),
        ("it changes the tokens", lambda model, tokens, *x: (loop()(model, tokens, *x), tokens.zero_())),
        ("it calls report 149 times", lambda model, tokens, steps, *x: loop()(model, tokens, steps - 1, *x)),
        ("a parameter of the model is as it was", loop(learned=slice(1, None))),
        ("it never draws [6, 7", loop(lambda tokens, T, B: windows(tokens, torch.arange(B), T))),
        ("report after each update", told_before),
        ("at the same distances", loop(lambda tokens, T, B: windows(
            tokens, (torch.randint(len(tokens) - T, (1,)) + torch.arange(B)) % (len(tokens) - T), T))),
        ("are all the same", loop(lambda *x: drawn(*x)[:, :1].expand(2, x[2], x[1]))),
        ("it never draws [12]: each step draws new starts", loop(lambda tokens, *x: drawn(tokens[:-1], *x))),
        ("it never draws [2, 3,", loop(lambda tokens, T, B: windows(tokens, torch.randint(2, (B,)), T))),
        ("far too small", loop(lr=1e-6)),
        ("is the learning rate far too large", loop(lr=0.1)),
    ],
}  # fmt: skip
RIGHT = {
    "8a": [
        lambda loss: torch.tensor(float(loss), dtype=torch.float64).exp(),
        lambda loss: [2 ** (loss / math.log(2))],
    ],
    "8b": [
        lambda t, s, T: (torch.stack([t[i : i + T] for i in s]), torch.stack([t[i + 1 : i + T + 1] for i in s])),
        lambda t, s, T: t.unfold(0, T + 1, 1)[s].unfold(1, T, 1).transpose(0, 1),
        lambda t, s, T: np.stack([t.numpy()[s.numpy()[:, None] + np.arange(T) + later] for later in (0, 1)]),
        lambda t, s, T: [[[t[i + j + later].item() for j in range(T)] for i in s.tolist()] for later in (0, 1)],
    ],
    "8d": [by_the_second_record],
    "8e": [
        by_a_hook,
        lambda layer, x, head: [silenced(layer, row[None], head)[0].float() for row in x],
    ],
    "8f": [
        [1.1, 1.04, 0.35],
        torch.tensor([math.log(3), 1.5 * math.log(2), math.log(2) / 2]),
        (np.log(3), -np.log([0.25, 0.5, 0.5, 0.25]).mean(), np.float32(0.346574)),
    ],
    "8h": [1.5, torch.tensor(1.53), 1.55],
    "8i": [lambda V, T, L, C: [V * C + T * C, L * (2 * C) ** 2, 2 * C * C * 4 * L]],
    "8g": [
        by_hand,
        with_a_look_now_and_then,
        loop(lr=0.1, optimizer=lambda *x, lr: torch.optim.SGD(*x, lr=lr, momentum=0.9)),
        loop(loss_of=lambda logits, y: nn.NLLLoss()(logits.log_softmax(-1).transpose(1, 2), y)),
    ],
}  # fmt: skip
