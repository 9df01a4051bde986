"""Properties, each one line in an exercise. One that doesn't hold raises WrongError with what a learner should read."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from exercises import compare
from exercises.attending import loose_attention
from exercises.judge import Asked, WrongError, raised

TensorFunction = Callable[[Tensor], Tensor]
LONG = 1100  # words, more than a mask of the usual 64, 256 or 1024


# ---------------------------------------------------------------- of functions
def rows_add_up(answer: Asked) -> None:
    for _, value in answer.results():
        sums = compare.numbers(value).sum(-1)
        wrong = sums.isnan() | ((sums - 1).abs() > 1e-4)
        if wrong.any():
            raise WrongError(f"a row of weights adds up to {sums[wrong][0]:.6g}: it should be 1")


# ---------------------------------------------------------------- modules, and what they give
def words(*shape: int, seed: int = 0) -> Tensor:
    """Random vectors, always the same."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def made(answer: Callable[..., Any], sizes: dict[str, Any]) -> nn.Module:
    """A module of these sizes, which the answer gets in their order."""
    arguments = ", ".join(f"{name}={size}" for name, size in sizes.items())
    try:
        module = answer(*sizes.values())
    except (Exception, SystemExit) as error:
        raise WrongError(f"for {arguments} {raised(error)}") from error
    if not isinstance(module, nn.Module):
        kind = compare.kind(module)
        raise WrongError(f"for {arguments} it makes {kind}: a class of nn.Module is asked for")
    return module.eval()


def given(module: nn.Module, x: Tensor, width: int) -> Tensor:
    """What it gives for x (B, T, ...): this many numbers for each word."""
    copy = x.clone()
    shape, expected = tuple(x.shape), (*x.shape[:2], width)
    try:
        output = module(copy)
    except (Exception, SystemExit) as error:
        raise WrongError(f"for x of shape {shape} {raised(error)}") from error
    if output is None:
        raise WrongError("it returns nothing: is a `return` missing?")
    if not isinstance(output, Tensor):
        raise WrongError(f"it returns {compare.kind(output)}: a tensor alone is asked for")
    if output.shape != expected:
        actual = tuple(output.shape)
        raise WrongError(f"for x of shape {shape} it has the shape {actual}, not {expected}")
    if not torch.equal(copy, x):
        raise WrongError("it changes its input: work on a copy")
    if not output.isfinite().all():
        raise WrongError("it gives NaN or infinity: does a row of the mask allow nothing, or is a score too large?")
    return output


def reading(module: nn.Module, width: int) -> TensorFunction:
    return torch.no_grad()(lambda x: given(module, x, width))


@torch.no_grad()
def stir(module: nn.Module) -> nn.Module:
    """Other parameters: zeros and equal numbers at the start hide nothing then."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            parameter.copy_(noise / max(parameter.shape) ** 0.5)
        else:
            parameter.add_(0.1 * noise)
    return module


@torch.no_grad()
def plain(module: nn.Module, silent: bool = False) -> nn.Module:
    """Of a fresh module: random matrices (or zeros, if silent), gains of 1, and nothing added."""
    generator = torch.Generator().manual_seed(1)
    widest = max(max(parameter.shape, default=1) for parameter in module.parameters())
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise / max(parameter.shape) ** 0.5 * (not silent))
        else:  # a gain begins as one number, a bias as 0 or at random; a single number is a factor
            is_gain = parameter.unique().numel() == 1 and bool(parameter.any())
            # Some draw a gain, too. It may be a bias without a name, so a silent branch has none;
            # and that of a hidden layer is longer.
            is_random = bool(parameter.any()) and "bias" not in name and not silent
            may_be_gain = is_random and len(parameter.flatten()) < widest
            parameter.fill_(is_gain or may_be_gain or parameter.numel() == 1)
    return module


def near(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 1e-4 * b.abs().max())


# ---------------------------------------------------------------- of every module
def sound(answer: Callable[..., Any], sizes: dict[str, Any], width: int, x: Tensor | None = None) -> TensorFunction:
    """A stirred module that reads words (B, T, C), or what x is, after what must hold for all."""
    x = words(3, 5, sizes["C"]) if x is None else x
    module = made(answer, sizes)
    run = reading(module, width)
    before = run(x)
    run(x[:, :1])  # a single word of each text
    if not torch.equal(run(x), before):
        raise WrongError("two calls with the same input give two results: is something drawn anew at each?")
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
    ids = {id(part) for part in (*module.modules(), *module.parameters())}
    for part in module.modules():
        for name, value in vars(part).items():
            if not name.startswith("_"):  # which nn.Module keeps for itself
                _is_learned(name, value, ids)
    if not list(module.parameters()):
        raise WrongError("it has no parameters: make them in __init__, by nn.Linear or nn.Parameter")


def _is_learned(name: str, value: Any, ids: set[int]) -> None:
    """What stands in this attribute is known as a part of the module, if it can be learned."""
    if isinstance(value, Tensor) and (value.requires_grad or _is_a_gain(value)):
        raise WrongError(f"self.{name} will not be learned: nn.Parameter(...) makes a parameter of it")
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, (list, tuple)):
        return
    own = [item for item in items if isinstance(item, (nn.Module, nn.Parameter))]
    if own and not any(id(item) in ids for item in own):
        kind = "ModuleList" if isinstance(own[0], nn.Module) else "ParameterList"
        raise WrongError(f"what stands in self.{name} will not be learned: put it into an nn.{kind}")


def _is_a_gain(value: Tensor) -> bool:
    """Is it a row of equal numbers, as the gain or the shift of a norm begins?"""
    row = value.is_floating_point() and value.dim() == 1 < len(value)
    return row and len(value.unique()) == 1 and value[0] in (0, 1)


def twin(answer: Callable[..., Any], sizes: dict[str, Any], module: nn.Module) -> nn.Module:
    """Another module, with the same parameters."""
    clone = made(answer, sizes)
    try:
        clone.load_state_dict(module.state_dict())
    except RuntimeError as error:
        raise WrongError(f"with the parameters of another one {raised(error)}") from error
    return clone


def is_its_parameters(run: TensorFunction, twin_run: TensorFunction, x: Tensor) -> None:
    if not near(twin_run(x), run(x)):
        raise WrongError(
            "two with the same parameters give two results: what is drawn at random must be a parameter, made in "
            "__init__ by nn.Parameter, nn.Linear or nn.Embedding"
        )


def mixes_no_texts(run: TensorFunction, x: Tensor) -> None:
    together = run(x)
    if not all(near(together[b : b + 1], run(x[b : b + 1])) for b in range(len(x))):
        raise WrongError("a text gives something else when other texts stand in its batch: they must not mix")


def learns(module: nn.Module, x: Tensor, width: int) -> None:
    """A gradient reaches every parameter."""
    output = given(module, x, width)
    if not output.requires_grad:
        raise WrongError("no gradient reaches its parameters: is it computed under no_grad, or from detach()?")
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


def has_numbers(module: nn.Module, least: int, matrices: str) -> None:
    count = numbers_in(module)
    if count < least:
        raise WrongError(f"its matrices have {count} numbers, and {least} are needed: {matrices}")


def uses_heads(make: Callable[[int], nn.Module], x: Tensor, width: int) -> None:
    """With 4 heads it gives something else than with 1, also where both have the same parameters."""
    one, four = plain(make(1)), plain(make(4))
    if near(reading(four, width)(x), reading(one, width)(x)):
        raise WrongError("with 4 heads it gives what it gives with 1: is their number used?")


# ---------------------------------------------------------------- of attention
def touched(run: TensorFunction, x: Tensor, others: Tensor) -> Tensor:
    """(T, T): does output t (column) change when input s (row) of one text x (T, ...) is replaced?"""
    T = len(x)
    same = x.repeat(T, *[1] * x.dim())
    changed = same.clone()
    changed[range(T), range(T)] = others
    return (run(same) != run(changed)).any(-1)


def sees(run: TensorFunction, C: int, future: bool) -> None:
    """Every output changes with every input, or with those up to its own place alone."""
    influence = touched(run, 0.3 * words(6, C), 0.3 * words(6, C, seed=1))
    if future:
        _sees_all(influence)
        return
    sees_the_past(influence)
    for seed in range(6):
        x, others = 3000 * words(6, C, seed=seed), 3000 * words(6, C, seed=seed + 100)
        _hides(touched(run, x, others), " for large numbers")


def sees_the_past(influence: Tensor) -> None:
    _hides(influence)
    _sees_all(influence | torch.ones_like(influence).tril(-1))


def _hides(influence: Tensor, when: str = "") -> None:
    if influence.tril(-1).any():
        s, t = influence.tril(-1).nonzero()[0].tolist()
        raise WrongError(f"output {t} changes with input {s}{when}: it looks into the future")


def _sees_all(influence: Tensor) -> None:
    if not influence.all():
        s, t = (~influence).nonzero()[0].tolist()
        raise WrongError(f"output {t} doesn't change with input {s}: it should see that word, too")


def begins_alike(run: TensorFunction, x: Tensor) -> None:
    """The beginning of a text alone gives what it gives when more follows."""
    whole = run(x)
    for t in range(1, x.shape[1]):
        if not near(run(x[:, :t]), whole[:, :t]):
            raise WrongError(
                f"the first {t} inputs alone give something else than at the beginning of {x.shape[1]}: does a place "
                "depend on how long the text is?"
            )


def forgets_order(run: TensorFunction, C: int, causal: bool) -> None:
    x = words(2, 6, C)
    order = [4, 3, 2, 1, 0, 5]
    before, after = run(x)[:, order], run(x[:, order])
    if causal:  # the last word alone sees all others
        before, after = before[:, -1:], after[:, -1:]
    if not near(after, before):
        raise WrongError("in another order, the words before the last give something else: attention knows no places")


def averages(run: TensorFunction, C: int) -> None:
    """Where all words are equal, attention gives what it gives for one."""
    for T in (2, 5):
        word = words(1, 1, C, seed=T)
        if not near(run(word.expand(1, T, C)), run(word).expand(1, T, -1)):
            raise WrongError(f"{T} equal words give something else than the word alone: do the weights add up to 1?")


def takes_any_length(run: TensorFunction, C: int, causal: bool) -> None:
    x = words(1, LONG, C)
    other_end = torch.cat([x[:, :-1], -x[:, -1:]], 1)
    before = run(x)
    if causal and not torch.equal(before[:, :-1], run(other_end)[:, :-1]):
        raise WrongError(f"in a text of {LONG} words an output changes with the last word: is the mask long enough?")


# ---------------------------------------------------------------- the same as ours
@torch.no_grad()
def like_ours(
    module: nn.Module,
    C: int,
    width: int,
    roles: int,
    reference: Callable[..., Tensor],
    slips: dict[str, Any],
    allowed: tuple[dict[str, Any], ...] = (),
) -> bool:
    """Where all matrices hold one number, attention gives what ours gives, however they are kept.

    WrongError for a slip. A module with more than these matrices is never refused: properties decide.
    """
    plain(module, silent=True)
    if any(p.any() for p in module.parameters()) or numbers_in(module) != roles * C * width:
        return True
    for parameter in module.parameters():
        parameter.fill_(0.1 * (parameter.dim() > 1))
    texts = [words(2, 4, C), 3000 * words(2, 4, C, seed=5)]
    outputs = [module(x) for x in texts]

    def fits(options: dict[str, Any]) -> bool:
        for x, right in zip(texts, outputs, strict=True):
            row = 0.1 * x.sum(-1, keepdim=True).expand(*x.shape[:-1], width)
            try:
                context = reference(row, row, row, **options)
            except (RuntimeError, IndexError):
                return False
            if roles == 4:
                context = 0.1 * context.sum(-1, keepdim=True).expand(*x.shape[:-1], width)
            if not compare.same(context, right):
                return False
        return True

    if any(map(fits, ({}, *allowed))):
        return True
    for sentence, options in slips.items():
        if fits(options):
            raise WrongError(sentence)
    return False


OTHER = "attention with the same matrices gives other numbers: follow a text of two words by hand"


def one_head(
    answer: Callable[..., Any],
    slips: dict[str, Any],
    causal: bool,
    *alternatives: dict[str, Any],
) -> None:
    """A layer answer(C, D) of one head, x (B, T, C) -> contexts (B, T, D), with all that holds for it."""
    masking = {"mask_of": torch.tril} if causal else {}

    def ours(*projected: Tensor, **options: Any) -> Tensor:
        return loose_attention(*projected, **masking | options)[0]

    for sizes in ({"C": 3, "D": 7}, {"C": 5, "D": 5}, {"C": 6, "D": 3}):
        run = sound(answer, sizes, width=sizes["D"])
    alike = like_ours(made(answer, sizes), 6, 3, 3, ours, slips, alternatives)
    sees(run, C=6, future=not causal)
    forgets_order(run, C=6, causal=causal)
    averages(run, C=6)
    takes_any_length(run, C=6, causal=causal)
    has_numbers(made(answer, sizes), 3 * 6 * 3, "three matrices, for query, key and value")
    if not alike:
        raise WrongError(OTHER)


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
    draws = torch.stack([given(module, x, 200) == 0 for _ in range(4)])
    dropped = draws[0]
    share = dropped.double().mean().item()
    if share in (0, 1):
        raise WrongError(f"in training, with p={p:g}, {'all' if share else 'no'} numbers become 0")
    if torch.equal(*draws[:2]):
        raise WrongError("two calls drop the same numbers: draw anew at each call")
    for dim, group in enumerate(("texts of a batch", "words of a text", "numbers of a word")):
        if (dropped == dropped.narrow(dim, 0, 1)).all():
            raise WrongError(f"all {group} are dropped together: each number has its own draw")
        if torch.equal(*dropped.unflatten(dim, (-1, 2)).unbind(dim + 1)):
            raise WrongError(f"{group} are dropped two by two: each number has its own draw")
    for dim, group in ((3, "word"), (2, "text"), (1, "call")):
        counts = draws.flatten(dim).sum(-1)
        if (counts == counts.flatten()[0]).all():
            raise WrongError(
                f"of every {group} the same count is dropped: each number has its own draw, whatever becomes of others"
            )
    by_luck = 5 * (p * (1 - p) / x.numel()) ** 0.5  # further off once in a million times
    if abs(share - p) > by_luck:
        why = ": that is what should be kept" if abs(share - 1 + p) < 0.02 else ""
        raise WrongError(f"with p={p:g} a share of {share:.3f} is dropped{why}")


def scales_what_it_keeps(module: nn.Module, p: float) -> None:
    """In training a number is 0, or divided by 1 - p, and so is its gradient; x may have any shape."""
    x = words(2, 30, 20).requires_grad_()
    y = given(module, x, 20)
    keep = y != 0
    factors = (y / x)[keep]
    if factors.max() - factors.min() > 1e-4:
        raise WrongError("a number is 0, or divided by 1 - p: there is nothing in between")
    if abs(factors[0] - 1 / (1 - p)) > 1e-4:
        raise WrongError(f"with p={p:g} what is kept is multiplied by {factors[0]:.3g}: divide it by 1 - p")
    if p == 0 and not torch.equal(x, y):
        raise WrongError("with p=0 nothing is dropped, and x should come back as it is")
    if not y.requires_grad:
        raise WrongError("no gradient comes back: is it computed under no_grad, or from detach()?")
    y.sum().backward()
    if not near(x.grad, keep / (1 - p)):
        raise WrongError("the gradient should pass as x does: 1 / (1 - p) where x is kept, and 0")
    for shape in ((5,), (2, 3), (2, 3, 2, 2)):
        try:
            output = module(words(*shape))
        except (Exception, SystemExit) as error:
            raise WrongError(f"for x of shape {shape} {raised(error)}") from error
        if output.shape != shape:
            raise WrongError(
                f"for x of shape {shape} it has the shape {tuple(output.shape)}: x may have any",
            )
