"""Attention, heads and blocks that readers build, tried by what they do."""

import torch
from torch import Tensor, nn

from exercises.graders.building import (
    Run,
    asking,
    begins_alike,
    near,
    no_future,
    plain,
    reading,
    sees_the_past,
    stir,
    touched,
    words,
)
from helpers.errors import CheckError

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


def _taken(module: nn.Module, u: Tensor, seed: int = 0) -> Tensor:
    """What the second of two words b + u and b takes from the first, for one u (C,) and many b: (60, C).

    Its output is V(b), what it gives alone, plus the sum over the heads of w_h(b) V_h(u).
    """
    run = reading(module, len(u))
    b = 2 * words(60, len(u), seed=seed + 100)
    return (run(torch.stack([b + u, b], 1))[:, 1] - run(b[:, None])[:, 0]).double()


def _ways(taken: Tensor) -> int:
    """In how many ways something is taken: the dimensions of what is taken are those of the V_h(u)."""
    size = torch.linalg.svdvals(taken)
    return int((size > 1e-3 * size[0]).sum())


def number_of_heads(module: nn.Module, C: int) -> int:
    """In how many ways it looks at the same words."""
    return max(_ways(_taken(module, 2 * words(C, seed=seed), seed)) for seed in range(5))


def heads_are_mixed(module: nn.Module, C: int) -> None:
    """Without a last matrix an output belongs to one head: then it goes up and down with the others of that head."""
    taken = torch.nn.functional.normalize(_taken(module, 2 * words(C)), dim=0)
    alike = (taken.T @ taken).abs().fill_diagonal_(0)
    if (alike.amax(0) > 1 - 1e-6).all():
        raise CheckError("each output listens to one head alone: is the last matrix missing, which mixes all heads?")


def values_are_learned(module: nn.Module, C: int) -> None:
    """Where the values are the words themselves, cut into heads, a single number of a word reaches a single head."""
    if all(_ways(_taken(module, u)) == 1 for u in 2 * torch.eye(C)[:3]):
        raise CheckError(
            "a number of a word reaches one head alone: do the values have a matrix of their own, so that each head's "
            "is made of the whole word?"
        )


def _asked(module: nn.Module, C: int, seed: int) -> Tensor:
    """What each number of the last of nine words, which is 0, does to its output through its query alone: (C, C).

    The module is plain, so that the 0 looks at all words alike; what its own value adds is taken away.
    """
    run = reading(module, C)
    last = 0.1 * torch.cat([torch.eye(C), -torch.eye(C)])[:, None]
    texts = torch.cat([words(8, C, seed=seed).expand(2 * C, 8, C), last], 1)
    moved = run(texts)[:, -1] - run(last)[:, 0] / 9
    return 5 * (moved[:C] - moved[C:])


def queries_are_own(module: nn.Module, C: int, H: int) -> None:
    """One query for all heads has C / H numbers: what a word asks has no more dimensions then. Of a fresh module."""
    plain(module, C)
    size = torch.linalg.svdvals(torch.cat([_asked(module, C, seed) for seed in range(3)], 1).double())
    if size[C // H] < 1e-2 * size[0]:
        raise CheckError(f"all {H} heads ask with the same query: each should have a query of its own")


def width_makes_no_difference(narrow: nn.Module, wide: nn.Module, C: int) -> None:
    """Many narrow heads write as much as a wide one, and tell words apart as well as it does. Of fresh modules."""
    for module in (narrow, wide):
        plain(module, C)
    written = [reading(module, C)(torch.eye(C)[:, None]).norm() for module in (narrow, wide)]
    if written[0] > 2 * written[1]:
        raise CheckError(
            "the more heads, the more they write: a head's values are D = C / num_heads numbers, made by a matrix of "
            "their own"
        )
    sizes = [sum(_asked(module, C, seed).norm() for seed in range(3)) for module in (narrow, wide)]
    if not 0.5 < sizes[1] / sizes[0] < 2:
        how = "larger" if sizes[1] > sizes[0] else "smaller"
        raise CheckError(
            f"the wider a head, the {how} its scores: divide them by the root of D = C / num_heads, which is the width "
            "of ONE head"
        )


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


@torch.no_grad()
def one_after_the_other(module: nn.Module, C: int) -> None:
    """The MLP reads what attention, of one head here, has written. Of a fresh module.

    The more often a word stands before another, the further the other's context moves towards the first one's value, on
    a line. Where the MLP doesn't read it, nothing bends this line, and a norm turns it within a plane.
    """
    plain(module, C)
    for vector in (parameter for parameter in module.parameters() if parameter.dim() < 2):
        vector.fill_(1)  # what scales a branch may begin with next to nothing
    run = reading(module, C)
    for seed in range(6):
        word, last = 0.3 * words(2, C, seed=seed)
        moved = [run(torch.stack([*[word] * often, last])[None])[0, -1] for often in (0, 1, 2, 4, 8, 16, 32)]
        size = torch.linalg.svdvals((torch.stack(moved[1:]) - moved[0]).double())
        if size[2] > 1e-4 * size[0]:
            return
    raise CheckError(
        "the MLP doesn't read what attention has found: attention is added to x first, and the MLP then reads a norm "
        "of that sum"
    )


@torch.no_grad()
def comes_back(module: nn.Module, C: int) -> None:
    """The MLP ends with a matrix: moved along a line, it moves the output on a line, which norms turn in a plane.

    (Of words that stand alone: then other weights change nothing, since each sees itself alone.)
    """
    stir(module, 2.0)
    run, x = reading(module, C), words(4, 1, C)
    before = run(x)[:, 0]
    for number, matrix in enumerate(module.parameters()):
        if matrix.dim() < 2:
            continue
        old, way = matrix.clone(), words(*matrix.shape, seed=number) / max(matrix.shape) ** 0.5
        moved = []
        for far in (-8, -4, -2, -1, 1, 2, 4, 8):
            matrix.copy_(old + far * way)
            moved.append(run(x)[:, 0] - before)
        matrix.copy_(old)
        size = torch.linalg.svdvals(torch.stack(moved, 1).double())  # of each word
        if (size[:, 0] > 0).all() and (size[:, 3] < 1e-4 * size[:, 0]).all():
            return
    raise CheckError(
        "something bends what the last matrix of the MLP gives: a GELU or ReLU stands between its two matrices, and "
        "none behind them"
    )


@torch.no_grad()
def drops_both(module: nn.Module, C: int) -> None:
    """With a matrix of zeros one branch is silent, and the other one must still be dropped. Of a fresh module."""
    plain(module, C)
    run, x = reading(module.train(), C), words(2, 5, C)
    if torch.equal(run(x), run(x)):  # both are silent as they begin
        return
    for matrix in module.parameters():
        if matrix.dim() < 2:
            continue
        old = matrix.clone()
        matrix.zero_()
        if torch.equal(run(x), run(x)):
            alone = near(run(x)[:, -1:], run(x[:, -1:]))
            dropped, other = ("attention", "the MLP") if alone else ("the MLP", "attention")
            raise CheckError(f"what {dropped} makes is dropped, and what {other} makes is not: both should be")
        matrix.copy_(old)
