"""Answers to the exercise 8g, training: wrong ones, with words of the sentence that must refuse them, and right."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


def windows(tokens, T, B):
    starts = torch.randint(len(tokens) - T, (B,))
    x = torch.stack([tokens[i : i + T] for i in starts])
    return x, torch.stack([tokens[i + 1 : i + 1 + T] for i in starts])


def mean_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=3e-3)


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def training(batch=windows, loss_of=mean_loss, optimizer_of=adam, update=update, number=lambda step: step + 1,
             told=lambda loss: loss.item(), steps_of=lambda steps: steps, mode=True):  # fmt: skip
    """A loop with places for mistakes."""

    def my_train(model, tokens, steps, batch_size, report):
        optimizer = optimizer_of(model.parameters())
        model.train(mode)
        for step in range(steps_of(steps)):
            x, y = batch(tokens, model.context_length, batch_size)
            loss = loss_of(model(x), y)
            update(optimizer, loss)
            report(number(step), told(loss))

    return my_train


def from_starts(starts_of, later=1):
    def batch(tokens, T, B):
        places = starts_of(len(tokens), T, B)[:, None] + torch.arange(T)
        return tokens[places], tokens[places + later]

    return batch


def changed(change):
    return lambda tokens, T, B: change(*windows(tokens, T, B))


def of_other_windows(tokens, T, B):
    return windows(tokens, T, B)[0], windows(tokens, T, B)[1]


def scattered(tokens, T, B):
    places = torch.randint(len(tokens) - 1, (B, T))
    return tokens[places], tokens[places + 1]


def without_clearing(optimizer, loss):
    loss.backward()
    optimizer.step()


def cleared_too_early(optimizer, loss):
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()


def without_a_step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()


def without_gradients(optimizer, loss):
    optimizer.step()


def once(model, tokens, steps, batch_size, report):
    """The batch is drawn before the loop."""
    batch = windows(tokens, model.context_length, batch_size)
    training(lambda *_: batch)(model, tokens, steps, batch_size, report)


def report_at_the_end(model, tokens, steps, batch_size, report):
    told = []
    training()(model, tokens, steps, batch_size, lambda *pair: told.append(pair))
    for pair in told:
        report(*pair)


def every_tenth(model, tokens, steps, batch_size, report):
    training()(model, tokens, steps, batch_size, lambda step, loss: step % 10 or report(step, loss))


def on_a_copy(model, tokens, steps, batch_size, report):
    spy, ours = model, nn.Sequential(nn.Embedding(len(tokens), 8), nn.Linear(8, len(tokens)))
    ours.context_length = spy.context_length
    training()(ours, tokens, steps, batch_size, report)


def eats_the_text(model, tokens, steps, batch_size, report):
    training()(model, tokens, steps, batch_size, report)
    tokens[0] = 1


def only_the_head(model, tokens, steps, batch_size, report):
    training(optimizer_of=lambda parameters: adam(list(parameters)[1:]))(model, tokens, steps, batch_size, report)


def evaluates_once(model, tokens, steps, batch_size, report):
    training(mode=False)(model, tokens, steps, batch_size, report)


WRONG = {
    "8g": [
        ("a GPT of two layers hardly learns", training(optimizer_of=lambda p: torch.optim.SGD(p, lr=1e-3))),
        ("a GPT of two layers", training(optimizer_of=lambda p: torch.optim.AdamW(p, lr=0.1))),
        ("the target of a token is the token itself", training(from_starts(
            lambda N, T, B: torch.randint(N - T, (B,)), later=0))),
        ("the target of a token stands +2 places from the token itself", training(from_starts(
            lambda N, T, B: torch.randint(N - T - 1, (B,)), later=2))),
        ("the target of a token stands -1 places from", training(from_starts(
            lambda N, T, B: torch.randint(1, N - T, (B,)), later=-1))),
        ("has nothing to do with the token itself", training(of_other_windows)),
        ("has nothing to do with the token itself", training(changed(lambda x, y: (x, x.roll(-1, 1))))),
        ("the rows of a batch are no windows", training(scattered)),
        ("the rows of a batch are no windows", training(changed(lambda x, y: (x.flip(1), y.flip(1))))),
        ("the shape (6, 8): with batch_size=6", training(lambda tokens, T, B: windows(tokens, T + 1, B))),
        ("the shape (1, 7): with batch_size=6", training(lambda tokens, T, B: windows(tokens, T, 1))),
        ("the shape (32, 7): with batch_size=6", training(lambda tokens, T, B: windows(tokens, T, 32))),
        ("every batch is the same", once),
        ("the windows of a batch are all the same", training(from_starts(
            lambda N, T, B: torch.randint(N - T, (1,)).expand(B)))),
        ("the last window is never drawn", training(from_starts(lambda N, T, B: torch.randint(N - T - 1, (B,))))),
        ("are never drawn: [1, 2, 3", training(from_starts(
            lambda N, T, B: T * torch.randint((N - 1) // T, (B,))))),
        ("it raises", training(from_starts(lambda N, T, B: torch.randint(N - T + 1, (B,))))),
        ("the model is in evaluation while it learns", evaluates_once),
        ("gradients of earlier batches are still there", training(update=without_clearing)),
        ("is optimizer.step() called, with its gradient", training(update=without_a_step)),
        ("is optimizer.step() called, with its gradient", training(update=cleared_too_early)),
        ("a parameter of the model is as it was", only_the_head),
        ("is loss.backward() missing", training(update=without_gradients)),
        ("does cross_entropy get the logits", training(loss_of=lambda logits, y: mean_loss(logits.softmax(-1), y))),
        ("the gradient is 42 times", training(loss_of=lambda logits, y: 42 * mean_loss(logits, y))),
        ("of a window, only these places learn: [6]", training(
            loss_of=lambda logits, y: F.cross_entropy(logits[:, -1], y[:, -1]))),
        ("loss that it reports is a Tensor: loss.item()", training(told=lambda loss: loss.detach())),
        ("it reports the steps 0, 1, 2", training(number=lambda step: step)),
        ("calls report 15 times", every_tenth),
        ("calls report 149 times", training(steps_of=lambda steps: steps - 1)),
        ("report each right after its update", report_at_the_end),
        ("it reports a loss of", training(told=lambda loss: 2 * loss.item())),
        ("is the learning rate far too small", training(optimizer_of=lambda p: torch.optim.AdamW(p, lr=1e-6))),
        ("the learning rate far too large", training(optimizer_of=lambda p: torch.optim.SGD(p, lr=1e4))),
        ("a GPT of two layers", training(optimizer_of=lambda p: torch.optim.AdamW(p, lr=1.0))),
        ("the model is never called", on_a_copy),
        ("it changes the tokens", eats_the_text),
        ("it raises TypeError", training(loss_of=lambda logits: logits.sum())),
    ],
}  # fmt: skip


# ---------------------------------------------------------------- right
def as_the_lesson_does(model, tokens, steps, batch_size, report):
    """Warm-up, a cosine, clipped gradients, and weight decay for matrices alone."""
    T = model.context_length
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    for step in range(steps):
        warm = min(1, (step + 1) / 100)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * warm * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        model.train()
        places = torch.randint(len(tokens) - T, (batch_size,))[:, None] + torch.arange(T)
        loss = F.cross_entropy(model(tokens[places]).flatten(0, 1), tokens[places + 1].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        report(step + 1, loss.item())


def by_hand(model, tokens, steps, batch_size, report):
    """Plain descent, and the cross-entropy from its formula."""
    T = model.context_length
    model.train()
    for step in range(1, steps + 1):
        rows = [tokens[i : i + T + 1] for i in (random.randrange(len(tokens) - T) for _ in range(batch_size))]
        rows = torch.stack(rows)
        logits = model(rows[:, :-1])
        loss = (logits.logsumexp(-1) - logits.gather(-1, rows[:, 1:, None]).squeeze(-1)).mean()
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            parameter.data -= 0.1 * gradient
        report(step, loss.detach().item())


def by_a_loader(model, tokens, steps, batch_size, report):
    rows = tokens.unfold(0, model.context_length + 1, 1)
    sampler = RandomSampler(TensorDataset(rows), replacement=True, num_samples=steps * batch_size)
    loader = DataLoader(TensorDataset(rows), batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.train()
    for step, (batch,) in enumerate(loader, start=1):
        loss = nn.CrossEntropyLoss()(model(batch[:, :-1]).transpose(1, 2), batch[:, 1:])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        optimizer.step()
        report(step, loss.detach().tolist())


def long_warm_up(model, tokens, steps, batch_size, report):
    """As for thousands of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.001, 1.0, 500)

    def step_of_both(optimizer, loss):
        update(optimizer, loss)
        schedule.step()

    training(optimizer_of=lambda _: optimizer, update=step_of_both)(model, tokens, steps, batch_size, report)


def told_afterwards(model, tokens, steps, batch_size, report):
    """Adam, negative log-likelihood, and gradients that are cleared behind the update."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 50)
    for step in range(steps):
        model.train(True)
        x, y = windows(tokens, model.context_length, batch_size)
        loss = F.nll_loss(model(x).log_softmax(-1).reshape(-1, 20), y.reshape(-1))
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        report(step + 1, loss.item())


fast = training(optimizer_of=lambda p: torch.optim.AdamW(p, lr=3e-2))  # a GPT bears it
RIGHT = {"8g": [training(), fast, as_the_lesson_does, by_hand, by_a_loader, told_afterwards, long_warm_up]}
