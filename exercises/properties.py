"""Properties, each one line in an exercise. One that doesn't hold raises WrongError with what a learner should read."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises import compare
from exercises.judge import Asked, WrongError, raised

Run = Callable[[Tensor], Tensor]
LONG = 300  # words, more than a mask of the usual 64, 128 or 256


# ---------------------------------------------------------------- of functions
def rows_add_up(answer: Asked, part: int | None = None) -> None:
    for _, value in answer.results(part):
        sums = compare.numbers(value).sum(-1)
        wrong = sums.isnan() | ((sums - 1).abs() > 1e-4)
        if wrong.any():
            raise WrongError(f"a row of weights adds up to {sums[wrong][0]:.4g}, and should to 1")


def survives_large_scores(answer: Asked, part: int | None = None, size: float = 1e4) -> None:
    for case, _ in answer.results():
        large = [size * x if isinstance(x, Tensor) else x for x in case.inputs]
        value = answer(*large)
        if not compare.numbers(value if part is None else value[part]).isfinite().all():
            raise WrongError(
                "large scores give NaN: take the largest of each row away before exp, or use softmax"
            )


def hides_the_future(answer: Asked, inputs: int = 1) -> None:
    """The last word of the first so many inputs (B, T, C) changes nothing before it."""
    for case, before in answer.results():
        changed = list(case.copies())
        for place in range(inputs):
            changed[place][:, -1] += 1
        before, after = compare.numbers(before), compare.numbers(answer(*changed))
        if after.dim() > 1 and not torch.equal(after[:, :-1], before[:, :-1]):
            raise WrongError(
                "change the last word, and an earlier row changes: nobody may look into the future"
            )


# ---------------------------------------------------------------- modules, and what they give
def words(*shape: int, seed: int = 0) -> Tensor:
    """Random vectors, always the same."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def made(answer: Callable[..., Any], sizes: dict[str, Any]) -> nn.Module:
    """A module of these sizes, which the answer gets in their order."""
    listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
    try:
        module = answer(*sizes.values())
    except (Exception, SystemExit) as error:
        raise WrongError(f"for {listed} {raised(error)}", "raises") from error
    if not isinstance(module, nn.Module):
        kind = compare.kind(module)
        raise WrongError(f"for {listed} it makes {kind}: a class of nn.Module is asked for")
    return module.eval()


def given(module: nn.Module, x: Tensor, width: int) -> Tensor:
    """What it gives for x (B, T, ...): so many numbers for each word."""
    copy = x.clone()
    shape, wanted = tuple(x.shape), (*x.shape[:2], width)
    try:
        output = module(copy)
    except (Exception, SystemExit) as error:
        raise WrongError(f"for x of shape {shape} {raised(error)}", "raises") from error
    if output is None:
        raise WrongError("it returns nothing: is a `return` missing?", "nothing")
    if not isinstance(output, Tensor):
        raise WrongError(f"it returns {compare.kind(output)}: a tensor alone is asked for", "shape")
    if output.shape != wanted:
        ours = tuple(output.shape)
        raise WrongError(f"for x of shape {shape} it has the shape {ours}, not {wanted}", "shape")
    if not torch.equal(copy, x):
        raise WrongError("it changes its input: work on a copy", "changed")
    if not output.isfinite().all():
        raise WrongError(
            "it gives NaN or infinity: does a row of the mask allow nothing, or is a score too large?"
        )
    return output


def reading(module: nn.Module, width: int) -> Run:
    return torch.no_grad()(lambda x: given(module, x, width))


@torch.no_grad()
def stir(module: nn.Module) -> nn.Module:
    """Other parameters: zeros and equal numbers at the start hide nothing then."""
    dice = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=dice)
        if parameter.dim() > 1:
            parameter.copy_(noise / max(parameter.shape) ** 0.5)
        else:
            parameter.add_(0.1 * noise)
    return module


@torch.no_grad()
def plain(module: nn.Module, silent: bool = False) -> nn.Module:
    """Of a fresh module: random matrices (or zeros, if silent), gains of 1, and nothing added."""
    dice = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            noise = torch.randn(parameter.shape, generator=dice)
            parameter.copy_(noise / max(parameter.shape) ** 0.5 * (not silent))
        else:  # a gain begins as one number, a bias as 0 or at random; a single number is a factor
            is_gain = parameter.unique().numel() == 1 and bool(parameter.any())
            parameter.fill_(is_gain or parameter.numel() == 1)
    return module


def near(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 1e-4 * b.abs().max())


# ---------------------------------------------------------------- of every module
def sound(
    answer: Callable[..., Any], sizes: dict[str, Any], width: int, x: Tensor | None = None
) -> Run:
    """A stirred module that reads words (B, T, C), or what x is, after what must hold for all."""
    x = words(3, 5, sizes["C"]) if x is None else x
    module = made(answer, sizes)
    run = reading(module, width)
    before = run(x)
    run(x[:, :1])  # a single word of each text
    if not torch.equal(run(x), before):
        raise WrongError(
            "two calls with the same input give two results: is something drawn anew at each?"
        )
    module.train()
    if not near(run(x), before):
        raise WrongError("it gives something else in training, although no dropout is asked for")
    module.eval()
    is_registered(module)
    stir(module)
    is_its_parameters(run, reading(twin(answer, sizes, module), width), x)
    mixes_no_texts(run, x)
    learns(module, x, width)
    return run


def is_registered(module: nn.Module) -> None:
    known = {id(part) for part in (*module.modules(), *module.parameters())}
    for part in module.modules():
        for name, value in vars(part).items():
            if not name.startswith("_"):  # which nn.Module keeps for itself
                _is_learned(name, value, known)
    if not list(module.parameters()):
        raise WrongError(
            "it has no parameters: make them in __init__, by nn.Linear or nn.Parameter"
        )


def _is_learned(name: str, value: Any, known: set[int]) -> None:
    """What stands in this attribute is known as a part of the module, if it can be learned."""
    if isinstance(value, Tensor) and (value.requires_grad or _is_a_gain(value)):
        raise WrongError(
            f"self.{name} will not be learned: nn.Parameter(...) makes a parameter of it"
        )
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, (list, tuple)):
        return
    own = [each for each in items if isinstance(each, (nn.Module, nn.Parameter))]
    if own and not any(id(each) in known for each in own):
        kind = "ModuleList" if isinstance(own[0], nn.Module) else "ParameterList"
        raise WrongError(
            f"what stands in self.{name} will not be learned: put it into an nn.{kind}"
        )


def _is_a_gain(value: Tensor) -> bool:
    """Is it a row of equal numbers, as the gain or the shift of a norm begins?"""
    return value.is_floating_point() and value.dim() == 1 < len(value) and len(value.unique()) == 1


def twin(answer: Callable[..., Any], sizes: dict[str, Any], module: nn.Module) -> nn.Module:
    """Another module, with the same parameters."""
    other = made(answer, sizes)
    try:
        other.load_state_dict(module.state_dict())
    except RuntimeError as error:
        raise WrongError(f"with the parameters of another one {raised(error)}", "raises") from error
    return other


def is_its_parameters(run: Run, other: Run, x: Tensor) -> None:
    if not near(other(x), run(x)):
        raise WrongError(
            "two with the same parameters give two results: what is drawn at random must be a parameter, made in "
            "__init__ by nn.Parameter, nn.Linear or nn.Embedding"
        )


def mixes_no_texts(run: Run, x: Tensor) -> None:
    together = run(x)
    if not all(near(together[b : b + 1], run(x[b : b + 1])) for b in range(len(x))):
        raise WrongError(
            "a text gives something else when other texts stand in its batch: they must not mix"
        )


def learns(module: nn.Module, x: Tensor, width: int) -> None:
    """A gradient reaches every parameter."""
    output = given(module, x, width)
    if not output.requires_grad:
        raise WrongError(
            "no gradient reaches its parameters: is it computed under no_grad, or from detach()?"
        )
    (output * words(*output.shape, seed=2)).sum().backward()
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:  # a table that stays as it is
            continue
        if parameter.grad is None or (parameter.dim() > 1 and not parameter.grad.any()):
            raise WrongError(f"{name} gets no gradient: is it used, and without detach()?")
    module.zero_grad()


def uses_every_row(answer: Callable[..., Any], sizes: dict[str, Any], width: int) -> None:
    """A gradient reaches every row of every matrix: no part of a query is forgotten."""
    module = stir(made(answer, sizes))
    given(module, words(3, 5, sizes["C"]), width).pow(2).sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            continue
        used = parameter.grad.flatten(1).any(1)
        if not used.all():
            raise WrongError(
                f"only {int(used.sum())} of the {len(used)} rows of {name} make a difference: do all heads look at "
                "the same places?"
            )


def numbers_in(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.dim() > 1)


def has_numbers(module: nn.Module, least: int, what: str) -> None:
    count = numbers_in(module)
    if count < least:
        raise WrongError(f"its matrices have {count} numbers, and {least} are needed: {what}")


def uses_heads(make: Callable[[int], nn.Module], x: Tensor, width: int) -> None:
    """With 4 heads it gives something else than with 1, also where both have the same parameters."""
    one, four = plain(make(1)), plain(make(4))
    if near(reading(four, width)(x), reading(one, width)(x)):
        raise WrongError("with 4 heads it gives what it gives with 1: is their number used?")


def drops(make: Callable[[float], nn.Module], x: Tensor, width: int) -> None:
    """Dropout changes what a module gives, and that in training alone."""
    module = stir(make(0.5))
    run = reading(module, width)
    if not torch.equal(run(x), run(x)):
        raise WrongError(
            "with dropout=0.5, two calls in evaluation differ: does dropout ask self.training?"
        )
    module.train()
    if torch.equal(run(x), run(x)):
        raise WrongError(
            "with dropout=0.5, two calls in training give the same: is dropout used, with the p that is given?"
        )
    run = reading(stir(make(0.0)).train(), width)
    if not torch.equal(run(x), run(x)):
        raise WrongError(
            "with dropout=0, two calls in training differ: is another p used than the one that is given?"
        )


# ---------------------------------------------------------------- of attention
def touched(run: Run, x: Tensor, others: Tensor) -> Tensor:
    """(T, T): does output t (column) change when input s (row) of one text x (T, ...) is replaced?"""
    T = len(x)
    same = x.repeat(T, *[1] * x.dim())
    changed = same.clone()
    changed[range(T), range(T)] = others
    return (run(same) != run(changed)).any(-1)


def sees(run: Run, C: int, future: bool) -> None:
    """Every output changes with every input, or with those up to its own place alone."""
    seen = touched(run, 0.3 * words(6, C), 0.3 * words(6, C, seed=1))
    if future:
        _sees_all(seen)
        return
    _sees_the_past(seen)
    for seed in range(6):
        x, others = 3000 * words(6, C, seed=seed), 3000 * words(6, C, seed=seed + 100)
        _hides(touched(run, x, others), " for large numbers")


def _sees_the_past(seen: Tensor) -> None:
    _hides(seen)
    _sees_all(seen | torch.ones_like(seen).tril(-1))


def _hides(seen: Tensor, when: str = "") -> None:
    if seen.tril(-1).any():
        s, t = seen.tril(-1).nonzero()[0].tolist()
        raise WrongError(f"output {t} changes with input {s}{when}: it looks into the future")


def _sees_all(seen: Tensor) -> None:
    if not seen.all():
        s, t = (~seen).nonzero()[0].tolist()
        raise WrongError(f"output {t} doesn't change with input {s}: it should see that word, too")


def begins_alike(run: Run, x: Tensor) -> None:
    """The beginning of a text alone gives what it gives when more follows."""
    whole = run(x)
    for t in range(1, x.shape[1]):
        if not near(run(x[:, :t]), whole[:, :t]):
            raise WrongError(
                f"the first {t} inputs alone give something else than at the beginning of {x.shape[1]}: does a place "
                "depend on how long the text is?"
            )


def forgets_order(run: Run, C: int, causal: bool) -> None:
    x = words(2, 6, C)
    order = [4, 3, 2, 1, 0, 5]
    before, after = run(x)[:, order], run(x[:, order])
    if causal:  # the last word alone sees all others
        before, after = before[:, -1:], after[:, -1:]
    if not near(after, before):
        raise WrongError(
            "in another order, the words before the last give something else: attention knows no places"
        )


def averages(run: Run, C: int) -> None:
    """Where all words are equal, attention gives what it gives for one."""
    for T in (2, 5):
        word = words(1, 1, C, seed=T)
        if not near(run(word.expand(1, T, C)), run(word).expand(1, T, -1)):
            raise WrongError(
                f"{T} equal words give something else than the word alone: do the weights add up to 1?"
            )


def takes_any_length(run: Run, C: int, causal: bool) -> None:
    x = words(1, LONG, C)
    other_end = torch.cat([x[:, :-1], -x[:, -1:]], 1)
    before = run(x)
    if causal and not torch.equal(before[:, :-1], run(other_end)[:, :-1]):
        raise WrongError(
            f"in a text of {LONG} words an output changes with the last word: is the mask long enough?"
        )


# ---------------------------------------------------------------- the same as ours, with its own matrices
def arrangements(module: nn.Module, roles: int, D: int) -> Iterator[list[Run]]:
    """The module's linear layers as query, key, value (and output), in every order; none where there are others."""
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    theirs = {id(parameter) for layer in linear for parameter in layer.parameters()}
    fused = [layer for layer in linear if layer.out_features == 3 * D]
    last = [layer for layer in linear if layer not in fused]
    if any(id(parameter) not in theirs for parameter in module.parameters()):
        return
    if any(layer.out_features != D for layer in last):
        return
    if len(linear) == roles and not fused:
        yield from map(list, itertools.permutations(linear))
    elif len(fused) == 1 and len(last) == roles - 3:
        for order in itertools.permutations(range(3)):
            yield [*(lambda x, i=i: fused[0](x).chunk(3, -1)[i] for i in order), *last]


class LikeOurs:
    """The module beside our formula, which gets its own query, key and value.

    Nobody is refused whose layers can't be read so; then properties alone decide.
    """

    def __init__(
        self,
        answer: Callable[..., Any],
        sizes: dict[str, Any],
        width: int,
        roles: int,
        ours: Callable,
    ):
        self.module = stir(made(answer, sizes))
        self.texts = [words(2, 4, sizes["C"]), 3000 * words(2, 4, sizes["C"], seed=5)]
        with torch.no_grad():
            self.gives = [self.module(x) for x in self.texts]
        self.ours = ours
        self.roles = roles
        self.ways = list(arrangements(self.module, roles, width))

    @torch.no_grad()
    def is_ours(self, more: bool = False, **options: Any) -> bool:
        """Does it give what ours gives with these options (and x, if `more`)?"""
        return any(self._fits(way, options, more) for way in self.ways)

    def _fits(self, way: list[Run], options: dict[str, Any], more: bool) -> bool:
        for x, right in zip(self.texts, self.gives, strict=True):
            try:
                context = self.ours(*(layer(x) for layer in way[:3]), **options)
            except (RuntimeError, IndexError):
                return False
            output = way[3](context) if self.roles == 4 else context
            if not compare.same(output + x if more else output, right):
                return False
        return True

    def has_no_slip(self, slips: dict[str, Any]) -> None:
        if self.is_ours():
            return
        if self.gives[0].shape == self.texts[0].shape and self.is_ours(more=True):
            raise WrongError(
                "x itself is added to what attention gives: here, the contexts alone are asked for"
            )
        for sentence, options in slips.items():
            for each in options if isinstance(options, list) else [options]:
                if self.is_ours(**each):
                    raise WrongError(sentence, "shared")

    def is_equal(self, *alternatives: dict[str, Any]) -> None:
        if self.ways and not any(self.is_ours(**options) for options in ({}, *alternatives)):
            raise WrongError(
                "attention with the same matrices gives other numbers: follow a text of two words by hand",
                "no name",
            )


# ---------------------------------------------------------------- of dropout layers
def drops_nothing_in_evaluation(module: nn.Module, x: Tensor) -> None:
    """A dropout layer gives x (B, T, C) as it is, and draws nothing, when its model is evaluated."""
    module.eval()
    before = torch.get_rng_state()
    if not torch.equal(given(module, x, x.shape[-1]), x):
        raise WrongError("in evaluation x should come back as it is: self.training tells")
    if not torch.equal(before, torch.get_rng_state()):
        raise WrongError("in evaluation it draws random numbers, too: there is no need")


def drops_each_number(module: nn.Module, p: float) -> None:
    """In training the share p of all numbers is 0, each by a draw of its own, at every call."""
    x = words(20, 16, 200)
    dropped = given(module, x, 200) == 0
    share = dropped.double().mean().item()
    if share in (0, 1):
        raise WrongError(f"in training, with p={p:g}, {'all' if share else 'no'} numbers become 0")
    if torch.equal(dropped, given(module, x, 200) == 0):
        raise WrongError("two calls drop the same numbers: draw anew at each call")
    for dim, what in enumerate(("texts of a batch", "words of a text", "numbers of a word")):
        if (dropped == dropped.narrow(dim, 0, 1)).all():
            raise WrongError(f"all {what} are dropped together: each number has its own draw")
        if torch.equal(*dropped.unflatten(dim, (-1, 2)).unbind(dim + 1)):
            raise WrongError(f"{what} are dropped two by two: each number has its own draw")
    by_luck = 5 * (p * (1 - p) / x.numel()) ** 0.5  # further off once in a million times
    if abs(share - p) > by_luck:
        why = ": that is what should be kept" if abs(share - 1 + p) < 0.02 else ""
        raise WrongError(f"with p={p:g} a share of {share:.3f} is dropped{why}")


def scales_what_it_keeps(module: nn.Module, p: float) -> None:
    """In training a number is 0, or divided by 1 - p, and so is its gradient; x may have any shape."""
    x = words(2, 30, 20).requires_grad_()
    y = given(module, x, 20)
    kept = y != 0
    factors = (y / x)[kept]
    if factors.max() - factors.min() > 1e-4:
        raise WrongError("a number is 0, or divided by 1 - p: there is nothing in between")
    if abs(factors[0] - 1 / (1 - p)) > 1e-4:
        raise WrongError(
            f"with p={p:g} what is kept is multiplied by {factors[0]:.3g}: divide it by 1 - p"
        )
    if p == 0 and not torch.equal(x, y):
        raise WrongError("with p=0 nothing is dropped, and x should come back as it is")
    if not y.requires_grad:
        raise WrongError("no gradient comes back: is it computed under no_grad, or from detach()?")
    y.sum().backward()
    if not near(x.grad, kept / (1 - p)):
        raise WrongError("the gradient should pass as x does: 1 / (1 - p) where x is kept, and 0")
    for shape in ((5,), (2, 3), (2, 3, 2, 2)):
        try:
            output = module(words(*shape))
        except (Exception, SystemExit) as error:
            raise WrongError(f"for x of shape {shape} {raised(error)}", "raises") from error
        if output.shape != shape:
            raise WrongError(
                f"for x of shape {shape} it has the shape {tuple(output.shape)}: x may have any",
                "shape",
            )


# ---------------------------------------------------------------- of a block
def has_a_stream(make: Callable[[float], nn.Module], C: int) -> None:
    """Where both branches are silent, x comes out as it went in, also in training; or it is normed (post-norm)."""
    x = words(2, 5, C)
    output = given(plain(make(0.0), silent=True), x, C)
    if not _has_the_rows_of(output, x):
        raise WrongError(
            "where both branches write zeros, x doesn't come out as it went in: is x added, both to what attention "
            "gives and to what the MLP gives?"
        )
    times = (output * x).sum() / (x * x).sum()
    if near(output, times * x) and not near(output, x):
        raise WrongError(
            f"where both branches write zeros, x comes out {times:.3g} times as large: each branch is added to x once"
        )
    if not _has_the_rows_of(given(plain(make(0.5), silent=True).train(), x, C), x):
        raise WrongError(
            "where both branches write zeros, dropout still changes x: it belongs to what a branch makes, x + drop(...)"
        )


def _has_the_rows_of(output: Tensor, x: Tensor) -> bool:
    """Are its rows those of x, but for their means and sizes, which a norm changes?"""
    centred = [table - table.mean(-1, keepdim=True) for table in (output, x)]
    return bool(F.cosine_similarity(*centred, dim=-1).min() > 0.999)


def leaves_the_stream(block: nn.Module, C: int) -> None:
    """Large inputs come out nearly as they were (pre-norm), or all rows at one size (post-norm)."""
    x = 1e3 * words(2, 5, C)
    output = reading(plain(block), C)(x)
    kept = (output - x).norm() < 0.1 * x.norm()
    # LayerNorm brings the centred rows to one size, RMSNorm the rows themselves.
    sizes = [(output - mean).norm(dim=-1) for mean in (output.mean(-1, keepdim=True), 0)]
    if not kept and not any(size.std() < 5e-3 * size.mean() for size in sizes):
        raise WrongError(
            "the stream itself is normalised, and then added to: a branch reads a normed copy of x, and what it makes "
            "of it is added to x as it was"
        )


def is_normed(run: Run, C: int) -> None:
    """Inputs a thousand times as large are not changed a thousand times as much."""
    x = words(2, 5, C)
    usual, large = run(x), run(1e3 * x)
    grown = (large - 1e3 * x).norm() / (usual - x).norm()
    if large.norm() > 30 * usual.norm() and grown > 30:
        raise WrongError(
            f"inputs 1,000 times as large are changed {grown:,.0f} times as much: do attention and MLP read norms of x?"
        )


@torch.no_grad()
def mlp_reads_attention(make: Callable[[], nn.Module], C: int) -> None:
    """The MLP reads what attention, of one head here, has written, and hands it on.

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
    for matrix in mlp_matrices(block, C):
        old = matrix.clone()
        matrix.zero_()  # the MLP is silent then
        if not near(run(texts[-1])[0, -1], run(texts[0])[0, -1]):
            return
        matrix.copy_(old)
    raise WrongError(
        "where the MLP writes zeros, what attention has found is lost: the MLP's result is added to the stream as "
        "attention has left it"
    )


def _directions(points: list[Tensor]) -> int:
    """How many dimensions the points lie in, seen from the first."""
    size = torch.linalg.svdvals((torch.stack(points[1:]) - points[0]).double())
    return int((size > 1e-4 * size[0]).sum())


def mlp_matrices(block: nn.Module, C: int) -> list[nn.Parameter]:
    """Those that widen, and those that come back from there."""
    wide = [p for p in block.parameters() if p.dim() == 2 and min(p.shape) == C < max(p.shape)]
    return [p for p in wide if any(p.shape == other.mT.shape for other in wide)]


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
        for matrix, each in zip(matrices, factors, strict=True):
            matrix.mul_(each)
        if not near(run(x), before):
            return
        for matrix, each in zip(matrices, factors, strict=True):
            matrix.div_(each)
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
def drops_both_branches(make: Callable[[float], nn.Module], C: int) -> None:
    """Whichever branch is silent, with a matrix of zeros, the other one is still dropped."""
    block = plain(make(0.5)).train()
    run, x = reading(block, C), words(2, 5, C)
    for matrix in block.parameters():
        if matrix.dim() < 2:
            continue
        old = matrix.clone()
        matrix.zero_()
        if torch.equal(run(x), run(x)):
            alone = near(run(x)[:, -1:], run(x[:, -1:]))
            dropped, other = ("attention", "the MLP") if alone else ("the MLP", "attention")
            raise WrongError(
                f"what {dropped} makes is dropped, and what {other} makes is not: both should be"
            )
        matrix.copy_(old)


# ---------------------------------------------------------------- of a GPT
GPT = {"vocab_size": 11, "context_length": 8, "n_layer": 2, "n_head": 2, "n_embd": 32}
V, T = GPT["vocab_size"], GPT["context_length"]


def ids(vocab_size: int, *shape: int, seed: int = 0) -> Tensor:
    """Random tokens, always the same."""
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def gives_logits(answer: Callable[..., Any]) -> None:
    """For every place of texts as long as the context and shorter, of every size."""
    for sizes in ((11, 8, 2, 2, 32), (65, 5, 1, 4, 32), (7, 12, 3, 1, 16)):
        model, (vocab_size, context) = made(answer, dict(zip(GPT, sizes, strict=True))), sizes[:2]
        kept = getattr(model, "context_length", "missing")
        if kept != context:
            raise WrongError(
                f"its attribute context_length should be {context}, and is {kept}: training and writing ask for it"
            )
        for shape in ((3, context), (1, context - 3), (2, 1)):
            logits = reading(model, vocab_size)(ids(vocab_size, *shape))
            if near(logits.exp().sum(-1), torch.ones(shape)):
                raise WrongError(
                    "it gives log-probabilities: logits are asked for, and cross_entropy does the rest"
                )
            if (logits >= 0).all() and near(logits.sum(-1), torch.ones(shape)):
                raise WrongError("it gives probabilities: logits are asked for, before any softmax")


def reads_its_past(run: Run) -> None:
    """Each place sees its own token and all before it, and none after it."""
    tokens = ids(V, T)
    for step in (1, 5):
        _sees_the_past(touched(run, tokens, (tokens + step) % V))
    begins_alike(run, tokens[None])


def knows_the_order(answer: Callable[..., Any]) -> None:
    """With one layer already. (With a mask, several layers tell the first place from the others even without.)"""
    run = reading(stir(made(answer, GPT | {"n_layer": 1})), V)
    tokens = ids(V, 8, T)
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], 1)
    if near(run(turned)[:, -1], run(tokens)[:, -1]):
        raise WrongError(
            "the tokens before in another order give the same: does it know places (positions)?"
        )


def uses_its_sizes(answer: Callable[..., Any]) -> None:
    """n_layer and n_head make a difference, and a layer is as large as a block."""
    one, three = (numbers_in(made(answer, GPT | {"n_layer": n_layer})) for n_layer in (1, 3))
    if one >= three:
        raise WrongError("with 3 layers it has no more parameters than with 1: is n_layer used?")
    more, least = (three - one) // 2, 8 * GPT["n_embd"] ** 2
    if more < least:
        raise WrongError(
            f"the matrices of one more layer have {more} numbers, and {least} are needed: is there attention, and an "
            "MLP that widens?"
        )
    uses_heads(lambda n_head: made(answer, GPT | {"n_head": n_head}), ids(V, 2, T), V)


def loss_of(model: nn.Module, tokens: Tensor, vocab_size: int) -> Tensor:
    logits = given(model, tokens[:, :-1], vocab_size)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def begins_unsure(answer: Callable[..., Any]) -> None:
    """The loss of a fresh GPT is that of a guess."""
    model = made(answer, dict(zip(GPT, (65, 32, 2, 4, 64), strict=True)))
    loss = loss_of(model, ids(65, 64, 33), 65).item()
    if abs(loss - math.log(65)) > 0.3:
        raise WrongError(
            f"the first loss is {loss:.2f} where ln 65 = {math.log(65):.2f} is right: it starts out sure of itself. "
            "Draw the matrices, those of nn.Embedding too, with a standard deviation of 0.02"
        )


def has_a_path(answer: Callable[..., Any]) -> None:
    """Through many layers, a place still depends on its own token. Attention alone takes means of means of all."""
    run = reading(made(answer, GPT | {"context_length": 16, "n_layer": 8}), V)
    tokens = ids(V, 24, 16)
    changed = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % V], 1)
    before, after = run(tokens)[:, -1], run(changed)[:, -1]
    if (after - before).norm() < 1e-3 * before.norm():
        raise WrongError(
            "in a fresh one of 8 layers, the logits at a place hardly change with its own token: is x added to what "
            "attention gives?"
        )


def learns_by_heart(answer: Callable[..., Any], updates: int = 100) -> None:
    """Four short texts are soon known. Each update is a small step against the gradient's signs."""
    model = made(answer, GPT).train()
    texts = ids(V, 4, T + 1)
    texts[:, 0] = torch.arange(4)
    for _ in range(updates):
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
        f"four short texts, {updates} updates, and the loss is still {loss:.2f}: that should be learned by heart. "
        "Does all that it knows reach the logits?"
    )
