"""Attention, heads and blocks that readers build, tried by what they do."""

import torch
from torch import Tensor, nn

from helpers.grading.graders.building import (
    Run,
    asking,
    begins_alike,
    near,
    no_future,
    reading,
    sees_the_past,
    stir,
    touched,
    words,
)
from helpers.support.errors import CheckError

LONG = 300  # words, more than a mask of the usual 64, 128 or 256


# ---------------------------------------------------------------- attention
def weighs(run: Run, C: int) -> None:
    """The weights of every place add up to 1: where all words are equal, attention gives what it gives for one."""
    for T in (2, 5, 9):
        word = words(1, 1, C, seed=T)
        if not near(run(word.expand(1, T, C)), run(word).expand(1, T, -1)):
            raise CheckError(
                f"{T} equal words give something else than the word alone: do the weights of every row add up to 1?"
            )


def forgets_order(run: Run, x: Tensor, causal: bool) -> None:
    """Attention knows no places: in another order, words get the same outputs; the last word, the same output."""
    T = x.shape[1]
    order = [*reversed(range(T - 1)), T - 1]
    before, after = run(x)[:, order], run(x[:, order])
    if not near(after[:, -1:] if causal else after, before[:, -1:] if causal else before):
        which = "the last output changes with the order of the words before" if causal else "an output changes"
        raise CheckError(f"in another order, {which}: attention alone knows no places")


def any_length(run: Run, C: int, causal: bool) -> None:
    """A long text is as good as a short one."""
    x = words(1, LONG, C)
    with asking("Is the mask as long as each text?" if causal else "Any number of words may come"):
        before = run(x)
        if causal and not torch.equal(before[:, :-1], run(torch.cat([x[:, :-1], -x[:, -1:]], 1))[:, :-1]):
            raise CheckError(f"in a text of {LONG} words an output changes with the last word, which comes later")


def causal_attention(module: nn.Module, C: int, D: int) -> None:
    """What causal attention (B, T, C) -> (B, T, D) does, however many heads it has."""
    run = reading(module, D)
    sees_the_past(run, 0.3 * words(7, C), 0.3 * words(7, C, seed=1))
    hides_large_ones(run, C)
    begins_alike(run, words(2, 6, C))
    forgets_order(run, words(2, 7, C), causal=True)
    weighs(run, C)
    any_length(run, C, causal=True)


def hides_large_ones(run: Run, C: int) -> None:
    """Vectors so large that a forbidden score of -10,000 isn't far below the others."""
    for seed in range(6):
        x, others = (3000 * words(7, C, seed=number) for number in (seed, seed + 100))
        no_future(touched(run, x, others), ", where numbers are in the thousands: are its scores -inf?")


def three_matrices(module: nn.Module, C: int, D: int) -> None:
    """One head of attention, masked or not: an output is a mean of values, and the key has a matrix of its own.

    In a text of two words b and a the output of a, which comes last, is V(a) + w (V(b) - V(a)), where V is the output
    for a word alone. So w tells how much larger the score of a with b is than that of a with itself. Were query and key
    one matrix, a and b together could never prefer each other to themselves.
    """
    run = reading(module, D)
    a, b = words(2, 60, C)
    asks, other = torch.cat([a, b]), torch.cat([b, a])
    share, off = _on_the_way(run, asks, other)
    if (off > 1e-3).any() or (share < -1e-3).any() or (share > 1 + 1e-3).any():
        if C == D and (_on_the_way(lambda x: run(x) - x, asks, other)[1] < 1e-3).all():
            raise CheckError("x itself is added to what attention gives: here, the contexts alone are asked for")
        raise CheckError(
            "of two words, an output doesn't lie between the values of both: are the weights of each query, in one "
            "head, positive and 1 together (softmax with dim=-1)?"
        )
    if (share > 1 - 1e-3).all():
        raise CheckError("of two words, each looks at the other alone: a word should see itself, too")
    if not (torch.logit(share.clamp(1e-3, 1 - 1e-3)).view(2, 60).sum(0) > 0.02).any():
        raise CheckError("two words never look more at each other than at themselves: do query and key share a matrix?")
    if D < C:
        _key_is_not_the_value(run, asks, other)


def _on_the_way(run: Run, asks: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """How far each output is on its way to the other word's value, and how far it is off that way."""
    alone, others = (run(word[:, None])[:, 0] for word in (asks, other))
    way, moved = others - alone, run(torch.stack([other, asks], 1))[:, 1] - alone
    share = (moved * way).sum(-1) / (way * way).sum(-1)
    return share, (moved - share[:, None] * way).norm(dim=-1) / way.norm(dim=-1)


def _key_is_not_the_value(run: Run, asks: Tensor, other: Tensor) -> None:
    """Moving the other word where its value sees nothing must be seen by its key."""
    C = asks.shape[1]
    origin = run(torch.zeros(1, 1, C))
    value = run(torch.eye(C)[:, None]).squeeze(1) - origin[0]  # (C, D)
    hidden = 2 * torch.linalg.svd(value).U[:, -1]  # orthogonal to all that the value sees
    before, after = (run(torch.stack([word, asks], 1))[:, 1] for word in (other, other + hidden))
    if near(after, before):
        raise CheckError("what the value of a word doesn't see, its key doesn't either: do they share a matrix?")


def _taken(module: nn.Module, C: int, seed: int) -> Tensor:
    """What the second of two words b + u and b takes from the first, for one u and many b: (60, C).

    Its output is V(b), what it gives alone, plus the sum over the heads of w_h(b) V_h(u).
    """
    run = reading(module, C)
    u, b = 2 * words(C, seed=seed), 2 * words(60, C, seed=seed + 100)
    return (run(torch.stack([b + u, b], 1))[:, 1] - run(b[:, None])[:, 0]).double()


def number_of_heads(module: nn.Module, C: int) -> int:
    """In how many ways it looks at the same words: the dimensions of what is taken are those of the V_h(u)."""
    sizes = [torch.linalg.svdvals(_taken(module, C, seed)) for seed in range(5)]
    return max(int((size > 1e-3 * size[0]).sum()) for size in sizes)


def heads_are_mixed(module: nn.Module, C: int) -> None:
    """Without a last matrix an output belongs to one head: then it goes up and down with the others of that head."""
    taken = torch.nn.functional.normalize(_taken(module, C, 0), dim=0)
    alike = (taken.T @ taken).abs().fill_diagonal_(0)
    if (alike.amax(0) > 1 - 1e-6).all():
        raise CheckError("each output listens to one head alone: is the last matrix missing, which mixes all heads?")


# ---------------------------------------------------------------- blocks
def has_a_path(module: nn.Module, C: int) -> None:
    """What comes out of a fresh block is, for the most part, still what went in."""
    x = words(16, 6, C)
    a, b = x, reading(module, C)(x)
    a, b = (y - y.mean(-1, keepdim=True) for y in (a, b))
    alike = torch.cosine_similarity(a, b, dim=-1).mean().item()
    if alike < 0.3:
        raise CheckError(
            f"a fresh block leaves little of its input (a correlation of {alike:.2f}): is x added, both to what "
            "attention gives and to what the MLP gives?"
        )


def bends(module: nn.Module, C: int) -> None:
    """There is more in it than matrices and norms.

    Large vectors x of one length and of five dimensions, each a text of one word: a block without an MLP, however its
    norms are placed, gives a multiple of x and at most 13 dimensions more, with the rest vanishing as x grows.
    """
    stir(module, 2.0)  # where a sigmoid bends, too
    basis = words(C, 5)
    x = words(120, 5, seed=1) @ torch.linalg.qr(basis - basis.mean(0)).Q.T
    x = (300 * C**0.5 * torch.nn.functional.normalize(x)).double()
    given = reading(module, C)(x[:, None].float())[:, 0].double()
    added = min(given.norm(), (given - x).norm())
    beyond = torch.linalg.svdvals(given - x @ torch.linalg.lstsq(x, given).solution)
    if beyond[13] < 1e-4 * added:
        raise CheckError("but for its attention it is linear: is there an MLP, with a GELU or ReLU inside?")


def leaves_the_stream(module: nn.Module, C: int) -> None:
    """Of a fresh block: large inputs come out nearly as they were (pre-norm), or all rows at one size (post-norm)."""
    x = 1e3 * words(2, 5, C)
    output = reading(module, C)(x)
    kept = (output - x).norm() < 0.1 * x.norm()
    centred = output - output.mean(-1, keepdim=True)  # LayerNorm leaves these at one size, RMSNorm the others
    normed = any(bool(rows.std() < 5e-3 * rows.mean()) for rows in (centred.norm(dim=-1), output.norm(dim=-1)))
    if not kept and not normed:
        raise CheckError(
            "the stream itself is normalised, and then added to: a branch reads a normed copy of x, and what it "
            "makes of it is added to x as it was"
        )


def keeps_the_stream(module: nn.Module, C: int) -> None:
    """In training dropout silences what branches add, and never the stream, whose numbers would become zeros."""
    output = reading(module.train(), C)(words(4, 6, C))
    if (output == 0).float().mean() > 0.1:
        raise CheckError(
            "dropout takes parts of the stream itself away: it belongs to what each branch makes, x + drop(...)"
        )


def is_normed(module: nn.Module, C: int) -> None:
    """Inputs a thousand times as large are not changed a thousand times as much."""
    run = reading(module, C)
    x = words(2, 5, C)
    usual, large = run(x), run(1e3 * x)
    grown = (large - 1e3 * x).norm() / (usual - x).norm()
    if large.norm() > 30 * usual.norm() and grown > 30:
        raise CheckError(
            f"inputs 1,000 times as large are changed {grown:,.0f} times as much: do attention and MLP read norms of x?"
        )
