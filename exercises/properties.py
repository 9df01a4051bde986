"""Properties, each one line in an exercise. One that doesn't hold raises WrongError with what a learner should read."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from exercises import compare
from exercises.judge import Asked, WrongError, raised

Run = Callable[[Tensor], Tensor]
LONG = 300  # words, more than a mask of the usual 64, 128 or 256


# ---------------------------------------------------------------- of functions
def rows_add_up(answer: Asked, part: int | None = None) -> None:
    for _, value in answer.results(part):
        sums = compare.numbers(value).sum(-1)
        wrong = (sums - 1).abs() > 1e-4
        if wrong.any() or sums.isnan().any():
            raise WrongError(
                f"a row of weights adds up to {sums[wrong | sums.isnan()][0]:.4g}, and should to 1"
            )


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
        after = compare.numbers(answer(*changed))
        if after.dim() > 1 and not torch.equal(after[:, :-1], compare.numbers(before)[:, :-1]):
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
        raise WrongError(
            f"for {listed} it makes {compare.kind(module)}: a class of nn.Module is asked for"
        )
    return module.eval()


def given(module: nn.Module, x: Tensor, width: int) -> Tensor:
    """What it gives for x (B, T, ...): so many numbers for each word."""
    copy = x.clone()
    try:
        output = module(copy)
    except (Exception, SystemExit) as error:
        raise WrongError(f"for x of shape {tuple(x.shape)} {raised(error)}", "raises") from error
    if output is None:
        raise WrongError("it returns nothing: is a `return` missing?", "nothing")
    if not isinstance(output, Tensor):
        raise WrongError(f"it returns {compare.kind(output)}: a tensor alone is asked for", "shape")
    if output.shape != (*x.shape[:2], width):
        wanted = (*x.shape[:2], width)
        raise WrongError(
            f"for x of shape {tuple(x.shape)} it has the shape {tuple(output.shape)}, not {wanted}",
            "shape",
        )
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


def near(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 1e-4 * b.abs().max())


# ---------------------------------------------------------------- of every module
def sound(answer: Callable[..., Any], sizes: dict[str, Any], width: int) -> Run:
    """A stirred module that reads words (B, T, C), after what must hold for every kind."""
    module = made(answer, sizes)
    run, x = reading(module, width), words(3, 5, sizes["C"])
    if not torch.equal(run(x), run(x)):
        raise WrongError(
            "two calls with the same input give two results: is something drawn anew at each?"
        )
    is_registered(module)
    stir(module)
    mixes_no_texts(run, x)
    learns(module, x, width)
    return run


def is_registered(module: nn.Module) -> None:
    known = {id(parameter) for parameter in module.parameters()}
    for part in module.modules():
        for name, value in vars(part).items():
            if name.startswith("_"):
                continue
            if isinstance(value, Tensor) and value.requires_grad and id(value) not in known:
                raise WrongError(
                    f"self.{name} will not be learned: nn.Parameter(...) makes a parameter of it"
                )
            items = (
                value
                if isinstance(value, (list, tuple))
                else [*value.values()]
                if isinstance(value, dict)
                else []
            )
            own = [each for each in items if isinstance(each, (nn.Module, nn.Parameter))]
            if own and not any(
                each is other for each in own for other in (*module.modules(), *module.parameters())
            ):
                kind = "ModuleList" if isinstance(own[0], nn.Module) else "ParameterList"
                raise WrongError(
                    f"what stands in self.{name} will not be learned: put it into an nn.{kind}"
                )
    if not known:
        raise WrongError(
            "it has no parameters: make them in __init__, by nn.Linear or nn.Parameter"
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


def has_numbers(module: nn.Module, least: int, what: str) -> None:
    count = sum(parameter.numel() for parameter in module.parameters() if parameter.dim() > 1)
    if count < least:
        raise WrongError(f"its matrices have {count} numbers, and {least} are needed: {what}")


# ---------------------------------------------------------------- of attention
def touched(run: Run, x: Tensor, others: Tensor) -> Tensor:
    """(T, T): does output t (column) change when input s (row) of a text (T, C) is replaced?"""
    T = len(x)
    same = x.repeat(T, 1, 1)
    changed = same.clone()
    changed[range(T), range(T)] = others
    return (run(same) != run(changed)).any(-1)


def sees(run: Run, C: int, future: bool) -> None:
    """Every output changes with every input, or with those up to its own place alone."""
    seen = touched(run, 0.3 * words(6, C), 0.3 * words(6, C, seed=1))
    if not future:
        _hides(seen)
        for seed in range(6):
            _hides(
                touched(run, 3000 * words(6, C, seed=seed), 3000 * words(6, C, seed=seed + 100)),
                " for large numbers",
            )
        seen = seen | torch.ones_like(seen).tril(-1)
    if not seen.all():
        s, t = (~seen).nonzero()[0].tolist()
        raise WrongError(f"output {t} doesn't change with input {s}: it should see that word, too")


def _hides(seen: Tensor, when: str = "") -> None:
    if seen.tril(-1).any():
        s, t = seen.tril(-1).nonzero()[0].tolist()
        raise WrongError(f"output {t} changes with input {s}{when}: it looks into the future")


def forgets_order(run: Run, C: int, causal: bool) -> None:
    x = words(2, 6, C)
    order = [4, 3, 2, 1, 0, 5]
    before, after = run(x)[:, order], run(x[:, order])
    if not near(after[:, -1:] if causal else after, before[:, -1:] if causal else before):
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
    before = run(x)
    if causal and not torch.equal(
        before[:, :-1], run(torch.cat([x[:, :-1], -x[:, -1:]], 1))[:, :-1]
    ):
        raise WrongError(
            f"in a text of {LONG} words an output changes with the last word: is the mask long enough?"
        )


# ---------------------------------------------------------------- the same as ours, with its own matrices
def arrangements(module: nn.Module, roles: int, D: int) -> Iterator[list[Run]]:
    """The module's linear layers as query, key, value (and output), in every order; none where there are others."""
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    others = sum(p.numel() for p in module.parameters()) - sum(
        p.numel() for layer in linear for p in layer.parameters()
    )
    fused = [layer for layer in linear if layer.out_features == 3 * D]
    last = [layer for layer in linear if layer not in fused]
    if others or any(layer.out_features not in (D, 3 * D) for layer in linear):
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
    if (
        abs(share - p) > 5 * (p * (1 - p) / x.numel()) ** 0.5
    ):  # luck does that once in a million times
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
