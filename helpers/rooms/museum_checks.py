"""What must hold for a GPT, its training and its writing; each check is named by what a user would
lose without it.

Each takes the class of a program (museum_program.py, or one of museum_faults.py) and raises CheckError, in one
sentence, where its property doesn't hold. None trains for more than a second.
"""

import functools
import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.errors import CheckError
from helpers.rooms.museum_program import IGNORED, H, Program, T

Kind = type  # of a program: Program, a fault, or a planted one, which is another class of that name
V = 65
CHECKS: dict[str, Callable[[Kind], None]] = {}


def check(name: str) -> Callable[[Callable[[Kind], None]], Callable[[Kind], None]]:
    def kept(function: Callable[[Kind], None]) -> Callable[[Kind], None]:
        CHECKS[name] = function
        return function

    return kept


def random_letters(*shape: int, seed: int = 0, V: int = V) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def with_large_weights(kind: Kind) -> Program:
    """A program whose matrices, but for the tables of letters and places, are large enough to
    matter.
    """
    program, dice = kind(V, seed=1).eval(), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for matrix in program.parameters():
            if matrix.dim() == 2 and len(matrix) not in (V, T):
                matrix.normal_(std=2.4 / matrix.shape[1] ** 0.5, generator=dice)
    return program


def demand(holds: bool | Tensor, otherwise: str) -> None:
    if not holds:
        raise CheckError(otherwise)


# ---------------------------------------------------------------- look at the data
@check("the target is the next letter")
def next_letter(kind: Kind) -> None:
    windows = random_letters(3, T + 1)
    inputs, targets = kind(V).pairs(windows)
    demand(
        inputs.shape[1] == targets.shape[1] and torch.equal(inputs, windows[:, : inputs.shape[1]]),
        "what is read isn't the beginning of the window",
    )
    demand(
        torch.equal(targets[:, :-1], inputs[:, 1:]),
        "a target isn't the letter that comes after the one that is read",
    )


@check("every step and every worker reads other pages")
def other_pages(kind: Kind) -> None:
    text = torch.arange(100_000)
    decks = [{w[0].item() for batch in kind(V).deck(text, 4, 0, worker) for w in batch} for worker in (0, 1)]
    demand(
        len(decks[0] & decks[1]) < 5,
        "two workers read the same windows: each has drawn them with the same dice",
    )
    demand(len(decks[0]) > 50, f"of 64 windows in four steps only {len(decks[0])} are different ones")


# ---------------------------------------------------------------- look at the first loss
@check("the first loss is ln V")
def first_loss(kind: Kind) -> None:
    program = kind(V).eval()
    tokens, targets = random_letters(16, T), random_letters(16, T, seed=1)
    with torch.no_grad():
        loss = program.loss(program(tokens), targets).item() / targets.numel()
    demand(
        abs(loss - math.log(V)) < 0.3,
        f"a fresh program's loss is {loss:.2f}, where a blind guess has {math.log(V):.2f}",
    )


@check("one batch is learned by heart")
def by_heart(kind: Kind) -> None:
    program = kind(V).train()
    windows = random_letters(4, 13)
    optimizer = torch.optim.AdamW(program.groups(), lr=5e-3)
    loss = math.inf
    for _ in range(120):
        loss = program.gradient([program.pairs(windows)])
        optimizer.step()
        if loss < 0.3:
            return
    raise CheckError(f"four short texts are still not known by heart after 120 updates: the loss is {loss:.2f}")


# ---------------------------------------------------------------- who sees whom
@check("no letter sees the future")
@torch.no_grad()
def no_future(kind: Kind) -> None:
    program = with_large_weights(kind)
    tokens, others = random_letters(2, T), random_letters(2, T, seed=3)
    before = program(tokens)
    for t in range(0, T - 1, 5):
        after = program(torch.cat([tokens[:, : t + 1], others[:, t + 1 :]], dim=1))
        demand(
            torch.equal(before[:, : t + 1], after[:, : t + 1]),
            f"the output at place {t} changes with what comes later",
        )


@check("no letter sees the future, however large the scores")
@torch.no_grad()
def no_future_loud(kind: Kind) -> None:
    program = with_large_weights(kind)
    for block in program.blocks:
        block.query.weight *= 1e5
    tokens, others = random_letters(2, T), random_letters(2, T, seed=3)
    before, after = program(tokens), program(torch.cat([tokens[:, :20], others[:, 20:]], dim=1))
    demand(
        torch.equal(before[:, :20], after[:, :20]),
        "where scores are very large, outputs change with what comes later",
    )


@check("a text means the same, however it goes on")
@torch.no_grad()
def same_beginning(kind: Kind) -> None:
    program = with_large_weights(kind)
    tokens = random_letters(1, T)
    whole = program(tokens)
    for t in (5, 8, 24, 47):
        off = (program(tokens[:, :t]) - whole[:, :t]).abs().max().item()
        demand(
            off < 1e-3,
            f"the first {t} letters alone give other outputs, by up to {off:.2f}, than at the start of a longer text",
        )


@check("a text alone is the same text padded in a batch")
@torch.no_grad()
def row_alone(kind: Kind) -> None:
    program = with_large_weights(kind)
    tokens, real = random_letters(2, 12), torch.ones(2, 12, dtype=torch.bool)
    real[1, :7] = False  # the second text is shorter, and padded on the left
    together = program(tokens, real)
    demand(torch.isfinite(together).all(), "a padded text makes outputs that are no numbers")
    for row, start in ((0, 0), (1, 7)):
        alone = program(tokens[row : row + 1, start:])
        off = (together[row, start:] - alone[0]).abs().max().item()
        demand(
            off < 1e-3,
            f"a text gives other outputs, by up to {off:.2f}, beside another one, or padded, than alone",
        )


@check("weights of a row add up to 1")
def rows_add_up(kind: Kind) -> None:
    program = kind(V)
    allowed = program.allowed(torch.ones(1, 9, dtype=torch.bool))
    scores = torch.randn(1, H, 9, 9, generator=torch.Generator().manual_seed(0))
    sums = program.weights(scores, allowed).sum(dim=-1)
    demand(
        ((sums - 1).abs() < 1e-4).all(),
        f"the weights of a row add up to {sums.min():.2f} to {sums.max():.2f}",
    )


@check("scores have size 1")
def size_of_scores(kind: Kind) -> None:
    query, key = torch.randn(2, 8, H, 40, 16, generator=torch.Generator().manual_seed(0))
    size = kind(V).scores(query, key).std().item()
    demand(
        0.8 < size < 1.25,
        f"for random queries and keys of size 1, scores have a size of {size:.2f}",
    )


@check("it runs in half precision")
@torch.no_grad()
def in_half(kind: Kind) -> None:
    program = kind(V)
    allowed = program.allowed(torch.ones(1, 5, dtype=torch.bool))
    try:
        weights = program.weights(torch.zeros(1, H, 5, 5, dtype=torch.float16), allowed)
    except RuntimeError as error:
        raise CheckError(f"in half precision it stops: {str(error).splitlines()[0]}") from error
    demand(torch.isfinite(weights).all(), "in half precision weights are no numbers")


# ---------------------------------------------------------------- gradients and updates
@check("gradients are numbers, also of padded and of empty texts")
def finite(kind: Kind) -> None:
    program = with_large_weights(kind).train()
    tokens = random_letters(2, 12)
    real = torch.ones(2, 12, dtype=torch.bool)
    real[1, :7] = False
    targets = random_letters(2, 12, seed=1).masked_fill(~real, IGNORED)
    program.zero_grad()
    program.loss(program(tokens, real), targets).backward()
    parts = [x.grad for x in program.parameters() if x.grad is not None]
    demand(
        all(torch.isfinite(g).all() for g in parts),
        "a padded text makes gradients that are no numbers",
    )
    loss = program.gradient([(tokens, torch.full_like(targets, IGNORED))])
    demand(math.isfinite(loss), "a batch in which nothing is asked for has a loss that is no number")


@check("every parameter moves, and only matrices decay")
def all_move(kind: Kind) -> None:
    program = kind(V).train()
    groups = program.groups()
    ids = {id(x) for group in groups for x in group["params"]}
    demand(
        ids == {id(x) for x in program.parameters()},
        "a parameter is in no group of the optimizer",
    )
    names = {id(x): name for name, x in program.named_parameters()}
    for group in groups:
        decay = group["weight_decay"]
        for x in group["params"]:
            demand((x.dim() > 1) == (decay > 0), f"{names[id(x)]}: its weight decay is {decay:g}")
    before = {name: x.detach().clone() for name, x in program.named_parameters()}
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0)
    program.gradient([program.pairs(random_letters(4, T + 1))])
    optimizer.step()
    for name, x in program.named_parameters():
        demand(not torch.equal(x, before[name]), f"{name} doesn't move in an update")


@check("a new update forgets the last one's gradients")
def cleared(kind: Kind) -> None:
    program = kind(V).train()
    batch = [program.pairs(random_letters(4, T + 1))]
    program.gradient(batch)
    first = program.token.weight.grad.clone()
    program.gradient(batch)
    demand(
        torch.allclose(program.token.weight.grad, first),
        "the gradient of a batch is larger the second time",
    )


@check("a batch in pieces is the batch")
def pieces(kind: Kind) -> None:
    tokens, targets = random_letters(8, T), random_letters(8, T, seed=1)
    targets[:6, 5:] = IGNORED  # most texts are short
    whole, parts = kind(V).train(), kind(V).train()
    whole.gradient([(tokens, targets)])
    parts.gradient([(tokens[i : i + 2], targets[i : i + 2]) for i in range(0, 8, 2)])
    gradient, expected = (torch.cat([x.grad.flatten() for x in program.parameters()]) for program in (parts, whole))
    off = ((gradient - expected).norm() / expected.norm()).item()
    demand(
        off < 1e-3,
        f"the gradient of a batch in pieces differs from that of the batch ({off:.0%} of its length)",
    )


@check("no two parameters start alike")
def no_twins(kind: Kind) -> None:
    matrices = [(name, x) for name, x in kind(V).named_parameters() if x.dim() > 1]
    for i, (name, x) in enumerate(matrices):
        for twin, y in matrices[:i]:
            demand(not torch.equal(x, y), f"{name} starts with the same numbers as {twin}")


# ---------------------------------------------------------------- exams
@check("two exams give one mark, and training goes on as before")
def exams_agree(kind: Kind) -> None:
    program = kind(V, dropout=0.3).train()
    texts = [random_letters(20, seed=i) for i in range(4)]
    marks = [program.evaluate(texts) for _ in range(2)]
    demand(marks[0] == marks[1], f"two exams on the same texts give {marks[0]:.4f} and {marks[1]:.4f}")
    demand(program.training, "after an exam the program is no longer in training")
    tokens = random_letters(1, 20)
    with torch.no_grad():
        demand(
            not torch.equal(program(tokens), program(tokens)),
            "after an exam, dropout is no longer at work",
        )


@check("the mark doesn't depend on the size of a batch")
def batch_size(kind: Kind) -> None:
    program = with_large_weights(kind)
    texts = [random_letters(length, seed=length) for length in (3, 40, 5, 6, 44, 9)]
    marks = [program.evaluate(texts, batch) for batch in (1, 2, 6)]
    demand(
        max(marks) - min(marks) < 1e-4,
        "the same texts get " + ", ".join(f"{mark:.3f}" for mark in marks),
    )


# ---------------------------------------------------------------- writing
@check("what is cut off never comes")
def cut_off(kind: Kind) -> None:
    logits = torch.tensor([-3.0, -2.0, -5.0, -9.0, -11.0])
    odds = F.softmax(kind(V).kept(logits, 2), dim=-1)
    demand(
        odds[2:].sum() < 1e-6,
        f"of five letters two are kept, and the three others come with {odds[2:].sum():.0%}",
    )


@check("one text knows nothing of the last one")
def alone(kind: Kind) -> None:
    program = with_large_weights(kind)
    first, second = random_letters(5), random_letters(5, seed=1)
    fresh = with_large_weights(kind).write(second, 8)
    program.write(first, 8)
    demand(
        torch.equal(program.write(second, 8), fresh),
        "a text is written differently when another one was written before",
    )


@functools.cache
def said_of(kind: Kind, name: str) -> str:
    """What a check says of a program: "" where its property holds, or its sentence."""
    try:
        CHECKS[name](kind)
    except CheckError as error:
        return str(error)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return ""


def table(kinds: Iterable[Kind], names: Iterable[str] = CHECKS) -> dict[str, dict[str, str]]:
    """For each program by its name, what each check says of it."""
    return {kind.__name__: {name: said_of(kind, name) for name in names} for kind in kinds}
