"""Properties of a block and of a GPT, each one line in an exercise."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.judge import WrongError
from exercises.properties import (
    TensorFunction,
    begins_alike,
    given,
    made,
    near,
    numbers_in,
    plain,
    reading,
    sees_the_past,
    stir,
    touched,
    uses_heads,
    words,
)


# ---------------------------------------------------------------- of a block
def leaves_the_stream(block: nn.Module, C: int) -> None:
    """Large inputs come out nearly as they were (pre-norm), or all rows at one size (post-norm)."""
    x = 1e3 * words(2, 5, C)
    output = reading(plain(block), C)(x)
    unchanged = (output - x).norm() < 0.1 * x.norm()
    # LayerNorm brings the centred rows to one size, RMSNorm the rows themselves.
    sizes = [(output - mean).norm(dim=-1) for mean in (output.mean(-1, keepdim=True), 0)]
    if not unchanged and not any(size.std() < 5e-3 * size.mean() for size in sizes):
        raise WrongError(
            "large inputs don't come out nearly as they were: a branch reads a normed copy of x, and what it makes "
            "of it is added to x as it was, once"
        )


@torch.no_grad()
def mlp_reads_attention(make: Callable[[], nn.Module], C: int) -> None:
    """The MLP reads what attention, of one head here, has written.

    The more often a word stands before another, the further the context of the last moves, on a line. Where the MLP
    doesn't read it, nothing bends this line, and a norm behind it turns it within a plane.
    """
    block = plain(make())
    run = reading(block, C)
    word, last = 0.3 * words(2, C)
    texts = [torch.stack([*[word] * often, last])[None] for often in (0, 1, 2, 4, 8, 16, 32)]
    if _directions([run(text)[0, -1] for text in texts]) < 3:
        raise WrongError(
            "the MLP doesn't read what attention has found: attention is added to x first, and the MLP then reads a "
            "norm of that sum"
        )


def _directions(points: list[Tensor]) -> int:
    """How many dimensions the points lie in, seen from the first."""
    size = torch.linalg.svdvals((torch.stack(points[1:]) - points[0]).double())
    return int((size > 1e-4 * size[0]).sum())


def mlp_matrices(block: nn.Module, C: int) -> list[nn.Parameter]:
    """Those that widen, and those that come back from there."""
    shapes = {p: p.squeeze().shape for p in block.parameters()}  # those of a convolution have more
    wide = {p: s for p, s in shapes.items() if len(s) == 2 and min(s) == C < max(s)}
    return [p for p, shape in wide.items() if shape[::-1] in wide.values()]


@torch.no_grad()
def mlp_bends(block: nn.Module, C: int) -> None:
    """Where nothing bends between its two matrices, one may be larger and the other one smaller."""
    x = words(4, 1, C)  # single words, which have no attention to pay
    run, matrices = reading(plain(block), C), mlp_matrices(block, C)
    before = run(x)
    if not matrices:
        raise WrongError(
            "no matrix widens and no other comes back: is there an MLP, from C to 4C numbers and back to C?"
        )
    for factor in (3, -1):  # ReLU doesn't mind the first, and tanh not the second
        factors = [factor if matrix.shape[0] > C else 1 / factor for matrix in matrices]
        for matrix, scale in zip(matrices, factors, strict=True):
            matrix.mul_(scale)
        if not near(run(x), before):
            return
        for matrix, scale in zip(matrices, factors, strict=True):
            matrix.div_(scale)
    raise WrongError("its MLP is linear: is there a GELU or ReLU between the two matrices?")


@torch.no_grad()
def mlp_comes_back(block: nn.Module, C: int) -> None:
    """Nothing bends behind its last matrix: moved on a line, that moves an output on a line, or in a plane (a norm)."""
    run, x = reading(plain(block), C), words(4, 1, C)
    for matrix in mlp_matrices(block, C):
        old, way = matrix.clone(), words(*matrix.shape) / max(matrix.shape) ** 0.5
        outputs = []
        for far in (0, -8, -4, -2, -1, 1, 2, 4, 8):
            matrix.copy_(old + far * way)
            outputs.append(run(x)[:, 0])
        matrix.copy_(old)
        if all(_directions(list(of_a_word)) < 3 for of_a_word in zip(*outputs, strict=True)):
            return
    raise WrongError(
        "something bends what the last matrix of the MLP gives: a GELU or ReLU stands between its two matrices, and "
        "none behind them"
    )


@torch.no_grad()
def norms_come_first(block: nn.Module, C: int) -> None:
    """What a branch writes grows with its matrices. (Single words, so that no query or key matters.)"""
    run, x, mlp = reading(plain(block), C), words(4, 1, C), mlp_matrices(block, C)
    before = run(x)
    for matrices in (attention_matrices(block, C), *([matrix] for matrix in mlp)):
        for matrix in matrices:
            matrix.mul_(3)
        if near(run(x), before):
            branch = "the MLP" if any(matrices[0] is matrix for matrix in mlp) else "attention"
            raise WrongError(
                f"three times as large, the matrices of {branch} add no more: a norm stands at the entrance of a "
                "branch, and none behind it"
            )
        for matrix in matrices:
            matrix.div_(3)


def attention_matrices(block: nn.Module, C: int) -> list[nn.Parameter]:
    mlp = {id(matrix) for matrix in mlp_matrices(block, C)}
    return [p for p in block.parameters() if p.dim() > 1 and id(p) not in mlp]


@torch.no_grad()
def drops_both_branches(make: Callable[[float], nn.Module], C: int) -> None:
    """With the other branch silent, what one adds to single words is dropped at p. Post-norm: it is dropped at all.

    One head, and an MLP of one hidden number, so that dropout inside it drops a word as a whole.
    """
    p, x = 0.3, words(2000, 1, C)
    block = plain(make(p))
    for parameter in block.parameters():
        parameter.mul_(parameter.dim() < 2)
    silent = given(block, x, C)
    if not near(given(block.train(), x, C), silent):
        raise WrongError("where both branches write zeros, dropout still changes x: it belongs to what a branch makes")
    is_added = near(silent, x)
    for branch in ("attention", "the MLP"):
        block = plain(make(p))
        mlp = mlp_matrices(block, C)
        for matrix in mlp if branch == "attention" else attention_matrices(block, C):
            matrix.zero_()
        for matrix in mlp:
            matrix.transpose(0, matrix.shape.index(max(matrix.shape)))[1:] = 0
        run = reading(block, C)
        whole, again = run(x) - x, run(x) - x
        if not near(again, whole):
            raise WrongError(f"with dropout={p:g}, two calls in evaluation differ: does dropout ask self.training?")
        dropped = reading(block.train(), C)(x) - x
        if near(dropped, whole):
            raise WrongError(
                f"what {branch} makes is not dropped, or is lost where the other branch writes zeros: what each makes "
                "should be dropped in training, and added to x"
            )
        if is_added:
            large = whole.abs() > 2e-3  # smaller ones suffer from rounding
            is_dropped_at(p, (dropped / whole)[large], f"with dropout={p:g}, what {branch} makes")


def is_dropped_at(p: float, factors: Tensor, subject: str) -> None:
    """Each number is 0 or divided by 1 - p; or by its square, where it is dropped inside, too."""
    nonzero = factors[factors.abs() > 0.01]
    if nonzero.max() - nonzero.min() > 0.02:
        raise WrongError(f"{subject} is neither 0 nor divided by {1 - p:g}: drop it at the branch's end")
    times, share = nonzero.mean().item(), len(nonzero) / len(factors)
    if abs(times * share - 1) > 0.1:
        raise WrongError(
            f"{subject} is kept at a share of {share:.2f}, and multiplied by {times:.2f}: divide it by what is kept"
        )
    if all(abs(times * (1 - p) ** often - 1) > 0.02 for often in (1, 2)):
        raise WrongError(f"{subject} is dropped at another rate: a share of {share:.2f} is kept")


# ---------------------------------------------------------------- of a GPT
SIZES = {"vocab_size": 11, "context_length": 8, "n_layer": 2, "n_head": 2, "n_embd": 32}
V, T = SIZES["vocab_size"], SIZES["context_length"]


def ids(vocab_size: int, *shape: int) -> Tensor:
    """Random tokens, always the same."""
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(0))


def gives_logits(answer: Callable[..., Any]) -> None:
    """For every place of texts as long as the context and shorter, of every size."""
    for sizes in ((11, 8, 2, 2, 32), (65, 5, 1, 4, 32), (7, 12, 3, 1, 16)):
        model, (vocab_size, context) = made(answer, dict(zip(SIZES, sizes, strict=True))), sizes[:2]
        length = getattr(model, "context_length", "missing")
        if length != context:
            raise WrongError(
                f"its attribute context_length should be {context}, and is {length}: training and writing ask for it"
            )
        for shape in ((3, context), (1, context - 3), (2, 1)):
            logits = reading(model, vocab_size)(ids(vocab_size, *shape))
            if near(logits.exp().sum(-1), torch.ones(shape)):
                raise WrongError("it gives log-probabilities: logits are asked for, and cross_entropy does the rest")
            if (logits >= 0).all() and near(logits.sum(-1), torch.ones(shape)):
                raise WrongError("it gives probabilities: logits are asked for, before any softmax")


def reads_its_past(run: TensorFunction) -> None:
    """Each place sees its own token and all before it, and none after it."""
    tokens = ids(V, T)
    for step in (1, 5):
        sees_the_past(touched(run, tokens, (tokens + step) % V))
    begins_alike(run, tokens[None])


def knows_the_order(answer: Callable[..., Any]) -> None:
    """With one layer already. (With a mask, several layers tell the first place from the others even without.)"""
    run = reading(stir(made(answer, SIZES | {"n_layer": 1})), V)
    tokens = ids(V, 8, T)
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], 1)
    if near(run(turned)[:, -1], run(tokens)[:, -1]):
        raise WrongError("the tokens before in another order give the same: does it know places (positions)?")


def uses_its_sizes(answer: Callable[..., Any]) -> None:
    """n_layer and n_head make a difference, and a layer is as large as a block."""
    one, three = (numbers_in(made(answer, SIZES | {"n_layer": n_layer})) for n_layer in (1, 3))
    if one >= three:
        raise WrongError("with 3 layers it has no more parameters than with 1: is n_layer used?")
    more, least = (three - one) // 2, 8 * SIZES["n_embd"] ** 2
    if more < least:
        raise WrongError(
            f"the matrices of one more layer have {more} numbers, and {least} are needed: is there attention, and an "
            "MLP that widens?"
        )
    uses_heads(lambda n_head: made(answer, SIZES | {"n_head": n_head}), ids(V, 2, T), V)


def loss_of(model: nn.Module, tokens: Tensor, vocab_size: int) -> Tensor:
    logits = given(model, tokens[:, :-1], vocab_size)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def begins_unsure(answer: Callable[..., Any]) -> None:
    """The loss of a fresh GPT is that of a guess."""
    model = made(answer, dict(zip(SIZES, (65, 32, 2, 4, 64), strict=True)))
    loss = loss_of(model, ids(65, 64, 33), 65).item()
    if abs(loss - math.log(65)) > 0.3:
        raise WrongError(
            f"the first loss is {loss:.2f} where ln 65 = {math.log(65):.2f} is right: it starts out sure of itself. "
            "Draw the matrices, those of nn.Embedding too, with a standard deviation of 0.02"
        )


def has_a_path(answer: Callable[..., Any]) -> None:
    """Through many layers, a place still depends on its own token. Attention alone takes means of means of all."""
    run = reading(made(answer, SIZES | {"context_length": 16, "n_layer": 8}), V)
    tokens = ids(V, 24, 16)
    changed = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % V], 1)
    before, after = run(tokens)[:, -1], run(changed)[:, -1]
    if (after - before).norm() < 1e-3 * before.norm():
        raise WrongError(
            "in a fresh one of 8 layers, the logits at a place hardly change with its own token: is x added to what "
            "attention gives?"
        )


@torch.no_grad()
def goes_through_blocks_in_turn(answer: Callable[..., Any]) -> None:
    """Where a list has two blocks, exchanging their numbers changes the logits."""
    model = stir(made(answer, SIZES | {"n_layer": 2}))
    run, tokens = reading(model, V), ids(V, 2, T)
    before, exchanged = run(tokens), False
    for pair in model.modules():
        if isinstance(pair, (nn.ModuleList, nn.Sequential)) and len(pair) == 2:
            first, second = (dict(block.named_parameters()) for block in pair)
            shapes = [{name: p.shape for name, p in block.items()} for block in (first, second)]
            if first and shapes[0] == shapes[1]:
                exchanged = True
                for name, parameter in first.items():
                    backup = parameter.clone()
                    parameter.copy_(second[name])
                    second[name].copy_(backup)
    if exchanged and near(run(tokens), before):
        raise WrongError(
            "with the numbers of its two blocks exchanged it gives the same: does the second read the first?"
        )


def drops_in_blocks(answer: Callable[..., Any]) -> None:
    """In training, more layers draw more random numbers; in evaluation none are drawn."""
    start = torch.get_rng_state()
    states = []
    for n_layer, training in ((3, False), (1, True), (3, True)):
        model = made(answer, SIZES | {"n_layer": n_layer, "dropout": 0.5}).train(training)
        torch.set_rng_state(start)
        reading(model, V)(ids(V, 2, T))
        states.append(torch.get_rng_state())
    if not torch.equal(states[0], start):
        raise WrongError("with dropout=0.5, it draws in evaluation, too: does dropout ask self.training?")
    if torch.equal(*states[1:]):
        raise WrongError("3 layers draw no more random numbers in training than 1: do the blocks get the dropout, too?")


def learns_by_heart(answer: Callable[..., Any]) -> None:
    """Four short texts are soon known. Each update is a small step against the gradient's signs."""
    model = made(answer, SIZES).train()
    texts = ids(V, 4, T + 1)
    texts[:, 0] = torch.arange(4)
    for _ in range(100):
        loss = loss_of(model, texts, V)
        if loss < 1:
            return
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.005 * parameter.grad.sign()
    raise WrongError(
        f"four short texts, 100 updates, and the loss is still {loss:.2f}: that should be learned by heart. "
        "Does all that it knows reach the logits?"
    )
