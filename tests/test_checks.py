"""Every check is itself checked: right answers pass, wrong ones are refused, known mistakes by their name."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import checks
from helpers.attention import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, attention, causal_mask
from helpers.errors import CheckError

SOLUTIONS = Path(__file__).parents[1] / "notebooks" / "solutions"


def solutions(number: str):
    spec = importlib.util.spec_from_file_location(f"solutions_{number}", SOLUTIONS / f"solutions_{number}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- properties
def test_equal():
    checks.equal(torch.ones(2), torch.ones(2) + 1e-7)
    with pytest.raises(CheckError, match=r"1 of 2 entries differ, the first at \(1,\): 1 and 2"):
        checks.equal(torch.ones(2), torch.tensor([1.0, 2.0]))
    with pytest.raises(CheckError, match="the shapes differ"):
        checks.equal(torch.ones(2), torch.ones(2, 1))
    with pytest.raises(CheckError):
        checks.equal(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    checks.equal(torch.tensor([-torch.inf, 1.0]), torch.tensor([-torch.inf, 1.0]))


def test_causality_is_tried_on_batches_of_different_tokens():
    for x in (torch.randn(6, 3), torch.randn(2, 1, 3), torch.ones(2, 6, 3), torch.zeros(2, 6, dtype=torch.long)):
        with pytest.raises(CheckError, match="causality is tried on"):
            checks.causal(lambda x: x, x)
    with pytest.raises(CheckError, match="not one row for each of 6 tokens"):
        checks.causal(lambda x: x[:, :-1], torch.randn(2, 6, 3))


def test_rows_sum_to_one():
    scores = torch.randn(2, 4, 4)
    checks.rows_sum_to_one(scores.softmax(-1))
    with pytest.raises(CheckError, match="the columns do: is the softmax taken over the queries"):
        checks.rows_sum_to_one(scores.softmax(-2))
    with pytest.raises(CheckError, match="do not sum to 1"):
        checks.rows_sum_to_one(scores.softmax(-1) * 0.9)
    with pytest.raises(CheckError, match="negative"):
        checks.rows_sum_to_one(torch.tensor([[2.0, -1.0]]))


def test_causal():
    torch.manual_seed(0)
    heads, x = MultiHeadAttention(4, 4, 6, 0.0, 2), torch.randn(2, 6, 4)
    checks.causal(heads, x)
    checks.causal(lambda ids: ids.cumsum(1), torch.randint(9, (2, 6)))
    leaks = {
        "no mask": lambda x: attention(x, x, x)[0],
        "inverted": lambda x: attention(x, x, x, ~causal_mask(6) | torch.eye(6, dtype=torch.bool))[0],
        "one ahead": lambda x: attention(x, x, x, torch.ones(6, 6, dtype=torch.bool).tril(1))[0],
        "softmax over queries": lambda x: (x @ x.mT).masked_fill(~causal_mask(6), -torch.inf).softmax(-2) @ x,
        "an earlier output only": lambda x: torch.cat([x[:, :1] + x[:, 2:3], x[:, 1:]], dim=1),
        "sees the length only": lambda x: x + x[:, -1:],
    }
    for leak in leaks.values():
        with pytest.raises(CheckError, match="not causal"):
            checks.causal(leak, x)
    with pytest.raises(CheckError, match="not causal"):
        checks.causal(lambda ids: ids.flip(1).cumsum(1).flip(1), torch.randint(9, (2, 6)))


# ---------------------------------------------------------------- mistakes by name
def test_the_formula_passes():
    checks.attention_formula(attention)
    checks.attention_formula(lambda q, k, v, mask: attention(q, k, v, mask))


def plain(query, key, value, mask=None, divide=lambda s, d: s / d**0.5, hide=None, dim=-1):
    """The formula by einsum, independent of checks.py, with places for faults."""
    scores = divide(torch.einsum("...td,...sd->...ts", query, key), query.shape[-1])
    if mask is not None:
        scores = (hide or (lambda s, m: torch.where(m, s, torch.tensor(-torch.inf, dtype=s.dtype))))(scores, mask)
    weights = scores.softmax(dim)
    return weights @ value, weights


def pytorchs(query, key, value, mask=None):
    weights = F.scaled_dot_product_attention(query, key, torch.eye(key.shape[-2], dtype=key.dtype), mask)
    return F.scaled_dot_product_attention(query, key, value, mask), weights


def in_place(query, key, value, mask=None):
    query /= query.shape[-1] ** 0.5
    scores = query @ key.mT
    if mask is not None:
        scores.masked_fill_(mask.logical_not_(), -torch.inf)
    return scores.softmax(-1) @ value, scores.softmax(-1)


def hidden_by(value):
    return lambda s, m: s.masked_fill(~m, value)


ROOT, WIDTH, DIM, INVERTED, FORGOTTEN, ZERO, FINITE = checks.MISTAKES
FORMULA_FAULTS = {
    "no root": (ROOT, {"divide": lambda s, d: s}),
    "d": (WIDTH, {"divide": lambda s, d: s / d}),
    "dim=-2": (DIM, {"dim": -2}),
    "dim=1": (DIM, {"dim": 1}),
    "inverted": (INVERTED, {"hide": lambda s, m: s.masked_fill(m, -torch.inf)}),
    "inverted, finite": (INVERTED, {"hide": lambda s, m: s.masked_fill(m, -1e9)}),
    "inverted but for itself": (
        INVERTED,
        {"hide": lambda s, m: s.masked_fill(m & ~torch.eye(*m.shape).bool(), -torch.inf)},
    ),
    "no mask": (FORGOTTEN, {"hide": lambda s, m: s}),
    "zeros": (ZERO, {"hide": hidden_by(0.0)}),
    "times the mask": (ZERO, {"hide": lambda s, m: s * m}),
    "added": (FINITE, {"hide": lambda s, m: s + ~m * -1e9}),
    "added, smallest": (FINITE, {"hide": lambda s, m: s + ~m * torch.finfo(torch.float32).min}),
}
FINITE_VALUES = (-1.0, -10.0, -100.0, -1e4, -1e5, -1e6, -65504.0, -1e9, -1e10, -1e12, -1e20)
for number in (*FINITE_VALUES, torch.finfo(torch.float32).min, torch.finfo(torch.float64).min):
    FORMULA_FAULTS[f"filled with {number:g}"] = (FINITE, {"hide": hidden_by(number)})


def test_right_spellings_pass():
    for right in (plain, pytorchs, in_place, lambda *case: plain(*case, hide=lambda s, m: s + torch.zeros(m.shape)
                  .masked_fill(~m, -torch.inf))):  # fmt: skip
        checks.attention_formula(right)


@pytest.mark.parametrize("fault", FORMULA_FAULTS)
def test_each_mistake_is_called_by_its_name(fault):
    name, options = FORMULA_FAULTS[fault]
    with pytest.raises(CheckError) as error:
        checks.attention_formula(lambda *case: plain(*case, **options))
    assert str(error.value) == f"not attention: {name}"


def naive(query, key, value, mask=None):
    scores = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    weights = scores if mask is None else scores * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


def test_a_softmax_that_overflows_is_not_taken_for_a_finite_mask():
    with pytest.raises(CheckError) as error:
        checks.attention_formula(naive)
    assert str(error.value) == f"not attention: {checks.OVERFLOW}"
    with pytest.raises(CheckError) as error:
        checks.multi_head(heads(formula=naive))
    assert str(error.value) == f"not multi-head attention: {checks.OVERFLOW}"


def test_a_finite_mask_that_spares_empty_rows_is_found_on_low_scores():
    def spares(query, key, value, mask=None):
        _, weights = plain(query, key, value, mask, hide=hidden_by(-1e12))
        weights = weights if mask is None else weights * mask.any(-1, keepdim=True)
        return weights @ value, weights

    with pytest.raises(CheckError) as error:
        checks.attention_formula(spares)
    assert str(error.value) == f"not attention: {FINITE}"


def test_what_is_no_attention_at_all_gets_one_sentence():
    with pytest.raises(CheckError, match="it raises ZeroDivisionError: division by zero"):
        checks.attention_formula(lambda *case: 1 / 0)
    with pytest.raises(CheckError, match="must return two tensors"):
        checks.attention_formula(lambda *case: (plain(*case)[0], None))
    with pytest.raises(CheckError, match="it raises TypeError"):
        checks.attention_formula(lambda query: None)


def test_a_fault_without_a_name_is_refused_too():
    with pytest.raises(CheckError, match="differs from the formula by"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, 1.01 * v, mask))
    with pytest.raises(CheckError, match=r"differs from the formula by 0\.0"):
        checks.attention_formula(
            lambda q, k, v, mask: (attention(q, k, v, mask)[0], attention(q, k, v, mask)[1] * 0.99)
        )
    with pytest.raises(CheckError, match=r"the context should have the shape \(2, 5, 3\), not \(2, 5, 2\)"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, v[..., :2], mask))
    with pytest.raises(CheckError, match="must return two tensors"):
        checks.attention_formula(lambda q, k, v, mask: attention(q, k, v, mask)[0])


def always_causal(query, key, value, mask):
    mask = None if mask is None else torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    return attention(query, key, value, mask)


def only_three_dimensions(query, key, value, mask):
    context, weights = attention(*(x.reshape(-1, *x.shape[-2:]) for x in (query, key, value)), mask)
    return context, weights


def test_masks_and_shapes_of_every_kind_are_tried():
    for wrong in (always_causal, only_three_dimensions):
        with pytest.raises(CheckError, match="not attention"):
            checks.attention_formula(wrong)


# ---------------------------------------------------------------- classes
class Heads(nn.Module):
    """Multi-head attention, head by head, independent of checks.py, with places for faults."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, formula=plain, arrange=None, bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.num_heads = [num_heads]  # whatever a class calls it, the check must not touch it
        self.frozen = nn.Parameter(torch.ones(context_length, context_length).tril(), requires_grad=False)
        self.dropout, self.formula, self.arrange = nn.Dropout(dropout), formula, arrange or (lambda c: torch.cat(c, -1))

    def forward(self, x):
        mask = self.frozen[: x.shape[1], : x.shape[1]] == 1
        contexts = []
        for W in zip(
            *(W(x).chunk(self.num_heads[0], -1) for W in (self.W_query, self.W_key, self.W_value)), strict=True
        ):
            contexts.append(self.dropout(self.formula(*W, mask)[1]) @ W[2])
        return self.out_proj(self.arrange(contexts))


def scrambled(split=True, join=True):
    class Scrambled(MultiHeadAttention):
        def split_heads(self, x):
            return x.reshape(x.shape[0], 3, x.shape[1], 4) if split else super().split_heads(x)

        def join_heads(self, x):
            return x.reshape(x.shape[0], x.shape[2], 12) if join else super().join_heads(x)

    return Scrambled


class Unprojected(Heads):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.project, self.arrange = self.arrange, lambda c: torch.cat(c, -1)

    def forward(self, x):
        out_proj, self._modules["out_proj"] = self.out_proj, nn.Identity()
        result = super().forward(x)
        self._modules["out_proj"] = out_proj
        return result


class InTurn(MultiHeadAttention):
    def split_heads(self, x):
        return x.view(*x.shape[:2], 4, 3).permute(0, 3, 1, 2)


class OneHead(Heads):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__(d_in, d_out, context_length, dropout, 1)


class AlwaysDropping(MultiHeadAttention):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5)


def heads(**options):
    return lambda *sizes: Heads(*sizes, **options)


SPLIT, JOINED, BOTH, TURN, ORDER, PROJECTION = list(checks.MULTI_HEAD_MISTAKES)[len(checks.MISTAKES) :]
MULTI_HEAD_FAULTS = {
    "split by view": (SPLIT, scrambled(join=False)),
    "joined by view": (JOINED, scrambled(split=False)),
    "both by view": (BOTH, scrambled()),
    "in turn": (TURN, InTurn),
    "reversed": (ORDER, heads(arrange=lambda c: torch.cat(c[::-1], -1))),
    "rolled": (ORDER, heads(arrange=lambda c: torch.cat([c[1], c[2], c[0]], -1))),
    "two exchanged": (ORDER, heads(arrange=lambda c: torch.cat([c[0], c[2], c[1]], -1))),
    "number by number": (ORDER, heads(arrange=lambda c: torch.stack(c, -1).flatten(2))),
    "projection unused": (PROJECTION, Unprojected),
    "projection missing": (PROJECTION, lambda i, o, *rest: CausalAttention(i, o, *rest[:2])),
    "dropout left on": ("dropout is left on in evaluation", AlwaysDropping),
} | {
    fault: (name, heads(formula=lambda *case, options=options: plain(*case, **options)))
    for fault, (name, options) in FORMULA_FAULTS.items()
    if fault not in ("filled with -1.79769e+308", "dim=1")  # no input shows the first; the second has no batch here
}


@pytest.mark.parametrize("fault", MULTI_HEAD_FAULTS)
def test_each_mistake_of_several_heads_is_called_by_its_name(fault):
    name, build = MULTI_HEAD_FAULTS[fault]
    torch.manual_seed(0)
    with pytest.raises(CheckError) as error:
        checks.multi_head(build)
    assert str(error.value) == f"not multi-head attention: {name}"


def test_multi_head_accepts_what_is_right_and_changes_nothing_else():
    checks.multi_head(MultiHeadAttention)
    checks.multi_head(lambda *sizes: MultiHeadAttention(*sizes, qkv_bias=True, out_bias=False))
    checks.multi_head(Heads)
    checks.multi_head(heads(bias=True, formula=pytorchs))


def test_what_is_no_multi_head_attention_gets_one_sentence():
    faults = {
        "it has no linear layer W_query": lambda *sizes: nn.Identity(),
        "differs from the formula by": OneHead,
        "it raises TypeError": lambda: None,
        "it raises RuntimeError": type(  # a mask that is not cut to a shorter text
            "M",
            (MultiHeadAttention,),
            {
                "forward": lambda self, x: (
                    super(type(self), self).forward(x)
                    + 0 * self.mask[0, 0] * (self.mask.float() @ torch.ones(5, 12)).double()
                )
            },
        ),
        "it returns a tuple": type("T", (MultiHeadAttention,), {"forward": lambda self, x: (x, x)}),
        r"the output has the shape \(2, 5, 6\)": type("S", (MultiHeadAttention,), {"forward": lambda self, x: x}),
        "it has no linear layer out_proj": type(
            "Q", (MultiHeadAttention,), {"out_proj": property(lambda self: nn.Sequential(nn.Linear(12, 12)))}
        ),
    }
    for words, build in faults.items():
        with pytest.raises(CheckError, match=f"not multi-head attention: .*{words}"):
            checks.multi_head(build)


class Dropped(CausalAttention):
    """Causal attention with a dropout of one's own choice."""

    def __init__(self, on_scores=lambda x, _: x, on_weights=lambda x, _: x, after_mask=False):
        super().__init__(3, 4, 6, 0.5)
        self.on_scores, self.on_weights, self.after_mask = on_scores, on_weights, after_mask

    def forward(self, x):
        scores = self.W_query(x) @ self.W_key(x).mT / 2
        if not self.after_mask:
            scores = self.on_scores(scores, self.training)
        scores = scores.masked_fill(~self.mask, -torch.inf)
        if self.after_mask:
            scores = self.on_scores(scores, self.training)
        return self.on_weights(scores.softmax(-1), self.training) @ self.W_value(x)


def drop(x, training):
    return F.dropout(x, 0.5, training)


DROPOUT_FAULTS = {
    "left on in evaluation": lambda: Dropped(on_weights=lambda w, _: F.dropout(w, 0.5)),
    "never applied": lambda: Dropped(),
    "before the softmax": lambda: Dropped(on_scores=drop),
    "before the softmax: it": lambda: Dropped(on_scores=drop, after_mask=True),
    "must be divided by 1 - p": lambda: Dropped(on_weights=lambda w, on: w * (torch.rand_like(w) < 0.5) if on else w),
    "must be divided by": lambda: Dropped(on_weights=lambda w, on: w * (torch.rand_like(w) > 0.02) if on else w),
    "comes before the softmax: it must": lambda: Dropped(on_scores=drop, on_weights=drop),
}


@pytest.mark.parametrize("name", DROPOUT_FAULTS)
def test_dropout_in_the_wrong_place_is_named(name):
    torch.manual_seed(1)
    with pytest.raises(CheckError, match=name):
        checks.dropout(DROPOUT_FAULTS[name](), torch.randn(6, 3))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_on_the_weights_passes_and_leaves_everything_as_it_was(p):
    torch.manual_seed(1)
    x, state = torch.randn(6, 3), torch.get_rng_state()
    for module in (
        CausalAttention(3, 4, 6, p),
        MultiHeadAttention(3, 4, 6, p, 2),
        MultiHeadAttentionWrapper(3, 4, 6, p, 2),
    ):
        module.eval()
        state = torch.get_rng_state()
        checks.dropout(module, x)
        assert not module.training and torch.equal(state, torch.get_rng_state())
    checks.dropout(Dropped(on_weights=drop), x)


# ---------------------------------------------------------------- exercises
RIGHT = [
    (checks.exercise_00_word_for_word, "00", "my_word_for_word"),
    (checks.exercise_00_additive, "00", "my_additive_scores"),
    (checks.exercise_00_alignment, "00", "my_alignment"),
    (checks.exercise_07_layer_norm, "07", "my_layer_norm"),
    (checks.exercise_07_block, "07", "my_block"),
    (checks.exercise_07_mlp_share, "07", "my_mlp_share"),
    (checks.exercise_09_temperature, "09", "my_temperature"),
    (checks.exercise_09_nucleus, "09", "my_nucleus"),
    (checks.exercise_09_repetition, "09", "my_repetition"),
    (checks.exercise_10_damage, "10", "my_damage"),
    (checks.exercise_10_honest_loss, "10", "my_honest_loss"),
    (checks.exercise_10_leaks, "10", "my_leaks"),
    (checks.exercise_01_scores, "01", "my_scores"),
    (checks.exercise_01_cosine, "01", "my_cosine"),
    (checks.exercise_01_nearest, "01", "my_nearest"),
    (checks.exercise_02_softmax, "02", "my_softmax"),
    (checks.exercise_02_contexts, "02", "my_contexts"),
    (checks.exercise_02_temperature, "02", "my_temperature"),
    (checks.exercise_03_attention, "03", "my_scaled_attention"),
    (checks.exercise_03_cross, "03", "my_cross_attention"),
    (checks.exercise_03_gradient, "03", "my_softmax_gradient"),
    (checks.exercise_04_average, "04", "my_past_average"),
    (checks.exercise_04_window, "04", "my_window_mask"),
    (checks.exercise_04_causal, "04", "my_is_causal"),
    (checks.exercise_05_dropout, "05", "my_dropout"),
    (checks.exercise_05_lost, "05", "my_lost_words"),
    (checks.exercise_05_causal, "05", "my_causal_attention"),
    (checks.exercise_06_split, "06", "my_split"),
    (checks.exercise_06_join, "06", "my_join"),
    (checks.exercise_06_multi_head, "06", "my_multi_head"),
    (checks.exercise_08_perplexity, "08", "my_perplexity"),
    (checks.exercise_08_batch, "08", "my_batch"),
    (checks.exercise_08_greedy, "08", "my_greedy"),
]


@pytest.mark.parametrize(("check", "number", "name"), RIGHT)
def test_solutions_are_right_and_stubs_still_to_do(check, number, name, capsys):
    assert check(getattr(solutions(number), name)) is True
    assert capsys.readouterr().out.endswith(": right\n")
    assert check(lambda *_: ...) is False and check(lambda *_: None) is False
    assert capsys.readouterr().out.count("still to do\n") == 2  # the hint waits for a first try
    assert check(lambda *_: 1 / 0) is False
    assert "not yet, it raises ZeroDivisionError" in capsys.readouterr().out
    assert check(lambda *_: "text") is False
    assert "Hint: " in capsys.readouterr().out


def greedy(model, prompt, n, last):
    for _ in range(n):
        prompt = torch.cat([prompt, model(prompt[None, -last:])[0, -1].argmax()[None]])
    return prompt


def multi_head(x, W_query, W_key, W_value, W_out, num_heads, scale=None, mask=True, formula=attention):
    query, key, value = (solutions("06").my_split(x @ W, num_heads) for W in (W_query, W_key, W_value))
    query = query * ((query.shape[-1] / scale) ** 0.5 if scale else 1)
    context, _ = formula(query, key, value, causal_mask(x.shape[1]) if mask else None)
    return context.transpose(1, 2).flatten(2) @ W_out


def normed(x, gain, shift, **options):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, **options)
    return (x - mean) / (variance + 1e-5).sqrt() * gain + shift


def post_norm(x, norm1, attention, norm2, mlp):
    x = norm1(x + attention(x))
    return norm2(x + mlp(x))


def nucleus(p, threshold, keep):
    descending, order = p.sort(descending=True)
    return torch.zeros(len(p)).scatter(0, order, keep(descending, threshold).float())


WRONG = {
    "word for word, unknown words lost": (
        checks.exercise_00_word_for_word,
        lambda words, dictionary: [dictionary[word] for word in words if word in dictionary],
    ),
    "word for word, backwards": (
        checks.exercise_00_word_for_word,
        lambda words, dictionary: [dictionary.get(word, word) for word in words[::-1]],
    ),
    "additive without tanh": (checks.exercise_00_additive, lambda q, k, W, U, v: (q @ W + k @ U) @ v),
    "additive, tanh of each": (
        checks.exercise_00_additive,
        lambda q, k, W, U, v: ((q @ W).tanh() + (k @ U).tanh()) @ v,
    ),
    "additive, matrices exchanged": (checks.exercise_00_additive, lambda q, k, W, U, v: (q @ U + k @ W).tanh() @ v),
    "alignment of the words read": (checks.exercise_00_alignment, lambda w: w.argmax(0)),
    "alignment to the least": (checks.exercise_00_alignment, lambda w: w.argmin(-1)),
    "layer norm by columns": (
        checks.exercise_07_layer_norm,
        lambda x, g, b: normed(x.T, 1, 0, unbiased=False).T * g + b,
    ),
    "layer norm, unbiased": (checks.exercise_07_layer_norm, lambda x, g, b: normed(x, g, b, unbiased=True)),
    "layer norm without eps": (
        checks.exercise_07_layer_norm,
        lambda x, g, b: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, unbiased=False) * g + b,
    ),
    "layer norm without the shift": (checks.exercise_07_layer_norm, lambda x, g, b: normed(x, g, 0, unbiased=False)),
    "post-norm": (checks.exercise_07_block, post_norm),
    "no residual": (checks.exercise_07_block, lambda x, n1, a, n2, m: m(n2(a(n1(x))))),
    "attention and MLP side by side": (checks.exercise_07_block, lambda x, n1, a, n2, m: x + a(n1(x)) + m(n2(x))),
    "MLP before attention": (checks.exercise_07_block, lambda x, n1, a, n2, m: post_norm(x, n1, m, n2, a)),
    "share of one MLP": (
        checks.exercise_07_mlp_share,
        lambda V, T, L, C: 8 * C * C / (V * C + T * C + L * (12 * C * C + 2 * C) + C),
    ),
    "share with an untied head": (
        checks.exercise_07_mlp_share,
        lambda V, T, L, C: 8 * C * C * L / (2 * V * C + T * C + L * (12 * C * C + 2 * C) + C),
    ),
    "share of the blocks alone": (checks.exercise_07_mlp_share, lambda V, T, L, C: 8 / 12),
    "temperature on probabilities": (checks.exercise_09_temperature, lambda p, t: (p / t).softmax(-1)),
    "temperature times": (checks.exercise_09_temperature, lambda p, t: (p.log() * t).softmax(-1)),
    "temperature, not normalised": (checks.exercise_09_temperature, lambda p, t: p ** (1 / t)),
    "threshold for nucleus": (checks.exercise_09_nucleus, lambda p, t: (p >= t).long()),
    "nucleus that stays below p": (
        checks.exercise_09_nucleus,
        lambda p, t: nucleus(p, t, lambda descending, t: descending.cumsum(0) <= t),
    ),
    "nucleus in sorted order": (
        checks.exercise_09_nucleus,
        lambda p, t: (p.sort(descending=True)[0].cumsum(0) - p.sort(descending=True)[0] < t).long(),
    ),
    "repetition of neighbours only": (
        checks.exercise_09_repetition,
        lambda x, n: (x[1:] == x[:-1]).float().mean(),
    ),
    "repetition of single tokens": (
        checks.exercise_09_repetition,
        lambda x, n: 1 - len(set(x.tolist())) / len(x),
    ),
    "repetition, side-by-side windows": (
        checks.exercise_09_repetition,
        lambda x, n: 1 - len({tuple(w) for w in x.unfold(0, n, n).tolist()}) / len(x.unfold(0, n, n)),
    ),
    "damage against the mean": (
        checks.exercise_10_damage,
        lambda losses, whole: torch.stack([(losses - whole.mean()).mean(1), (losses - whole.mean()).std(1)], 1),
    ),
    "damage with the wrong sign": (
        checks.exercise_10_damage,
        lambda losses, whole: torch.stack([(whole - losses).mean(1), (whole - losses).std(1)], 1),
    ),
    "loss at all positions": (
        checks.exercise_10_honest_loss,
        lambda logits, y: torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()),
    ),
    "loss at the first position": (
        checks.exercise_10_honest_loss,
        lambda logits, y: torch.nn.functional.cross_entropy(logits[:, 0], y[:, 0]),
    ),
    "the present counts as future": (checks.exercise_10_leaks, lambda w: w.triu(0).sum(-1)),
    "the past instead of the future": (checks.exercise_10_leaks, lambda w: w.tril(-1).sum(-1)),
    "summed over the queries": (checks.exercise_10_leaks, lambda w: w.triu(1).sum(0)),
    "queries and keys exchanged": (checks.exercise_01_scores, lambda q, k: k @ q.T),
    "cosine without lengths": (checks.exercise_01_cosine, lambda a, b: a @ b),
    "cosine with one length": (checks.exercise_01_cosine, lambda a, b: a @ b / (a @ a)),
    "nearest is itself": (checks.exercise_01_nearest, lambda i, v: i),
    "nearest by cosine": (
        checks.exercise_01_nearest,
        lambda i, v: torch.cosine_similarity(v[i][None], v).index_fill(0, torch.tensor(i), -2).argmax(),
    ),
    "softmax that overflows": (checks.exercise_02_softmax, lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
    "softmax over the first dimension": (checks.exercise_02_softmax, lambda s: s.softmax(0)),
    "softmax of the whole tensor": (checks.exercise_02_softmax, lambda s: s.flatten().softmax(0).view(s.shape)),
    "contexts over the queries": (checks.exercise_02_contexts, lambda q, k, v: (q @ k.T).softmax(0) @ v),
    "contexts with scaling": (checks.exercise_02_contexts, lambda q, k, v: (q @ k.T / 3**0.5).softmax(-1) @ v),
    "the temperature upside down": (
        checks.exercise_02_temperature,
        lambda scores, share: 1 / solutions("02").my_temperature(scores, share),
    ),
    "no root": (checks.exercise_03_attention, lambda q, k, v: ((q @ k.mT).softmax(-1) @ v, (q @ k.mT).softmax(-1))),
    "the context alone": (checks.exercise_03_attention, lambda q, k, v: attention(q, k, v)[0]),
    "weights and context exchanged": (checks.exercise_03_attention, lambda q, k, v: attention(q, k, v)[::-1]),
    "self-attention for cross": (checks.exercise_03_cross, lambda x, m, *W: attention(*(x @ w for w in W))[0]),
    "values from the asker": (checks.exercise_03_cross, lambda x, m, q, k, v: attention(x @ q, m @ k, (m + 1) @ v)[0]),
    "a negative temperature": (checks.exercise_02_temperature, lambda scores, share: -1.0),
    "a fake temperature": (checks.exercise_02_temperature, lambda scores, share: scores / share),
    "the diagonal of the Jacobian only": (checks.exercise_03_gradient, lambda w, d: w * (1 - w) * d),
    "the mean without weights": (checks.exercise_03_gradient, lambda w, d: w * (d - d.mean(-1, keepdim=True))),
    "the average without itself": (
        checks.exercise_04_average,
        lambda x: torch.ones(len(x), len(x)).tril(-1) @ x / torch.arange(len(x)).clamp(min=1)[:, None],
    ),
    "sums for averages": (checks.exercise_04_average, lambda x: x.cumsum(0)),
    "the whole past": (checks.exercise_04_window, lambda T, window: causal_mask(T)),
    "a window of one too many": (
        checks.exercise_04_window,
        lambda T, window: causal_mask(T) & ~torch.ones(T, T).tril(-window - 1).bool(),
    ),
    "True where forbidden": (
        checks.exercise_04_window,
        lambda T, window: ~(causal_mask(T) & ~torch.ones(T, T).tril(-window).bool()),
    ),
    "everything is causal": (checks.exercise_04_causal, lambda f, x: True),
    "nothing is causal": (checks.exercise_04_causal, lambda f, x: False),
    "changes the last token only": (
        checks.exercise_04_causal,
        lambda f, x: torch.equal(f(torch.cat([x[:-1], x[-1:] + 1]))[:-1], f(x)[:-1]),
    ),
    "looks at the first output only": (
        checks.exercise_04_causal,
        lambda f, x: torch.equal(f(x)[0], f(torch.cat([x[:1], -x[1:]]))[0]),
    ),
    "not scaled": (checks.exercise_05_dropout, lambda x, keep, p: x * keep),
    "scaled by p": (checks.exercise_05_dropout, lambda x, keep, p: x * keep / p),
    "drops what is kept": (checks.exercise_05_dropout, lambda x, keep, p: x * ~keep / (1 - p)),
    "one word only": (checks.exercise_05_lost, lambda T, p: p**T),
    "every row is full": (checks.exercise_05_lost, lambda T, p: T * p**T),
    "dropout before softmax": (
        checks.exercise_05_causal,
        lambda q, k, v, keep, p: (
            (q @ k.mT / 2 * keep / (1 - p)).masked_fill(~causal_mask(q.shape[1]), -torch.inf).softmax(-1) @ v
        ),
    ),
    "softmax over dim=1": (
        checks.exercise_05_causal,
        lambda q, k, v, keep, p: (
            (q @ k.mT / 2).masked_fill(~causal_mask(q.shape[1]), -torch.inf).softmax(1) * keep / (1 - p) @ v
        ),
    ),
    "a finite mask": (
        checks.exercise_05_causal,
        lambda q, k, v, keep, p: plain(q, k, v, causal_mask(q.shape[1]), hide=hidden_by(-1e9))[1] * keep / (1 - p) @ v,
    ),
    "half for the root": (
        checks.exercise_05_causal,
        lambda q, k, v, keep, p: (
            plain(q, k, v, causal_mask(q.shape[1]), divide=lambda s, d: s / 2)[1] * keep / (1 - p) @ v
        ),
    ),
    "no mask": (
        checks.exercise_05_causal,
        lambda q, k, v, keep, p: attention(q, k, v)[1] * keep / (1 - p) @ v,
    ),
    "split by view alone": (
        checks.exercise_06_split,
        lambda x, H: x.view(x.shape[0], H, x.shape[1], -1),
    ),
    "split into head widths": (
        checks.exercise_06_split,
        lambda x, H: x.view(*x.shape[:2], -1, H).permute(0, 3, 1, 2),
    ),
    "joined by view alone": (checks.exercise_06_join, lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
    "joined number by number": (checks.exercise_06_join, lambda x: x.permute(0, 2, 3, 1).flatten(2)),
    "divided by the whole width": (checks.exercise_06_multi_head, lambda x, *rest: multi_head(x, *rest, scale=12)),
    "without a mask": (checks.exercise_06_multi_head, lambda x, *rest: multi_head(x, *rest, mask=False)),
    "with a finite mask": (
        checks.exercise_06_multi_head,
        lambda x, *rest: multi_head(x, *rest, formula=lambda *case: plain(*case, hide=hidden_by(-1e9))),
    ),
    "without the projection": (
        checks.exercise_06_multi_head,
        lambda x, q, k, v, o, H: multi_head(x, q, k, v, torch.eye(12), H),
    ),
    "one head for all": (checks.exercise_06_multi_head, lambda x, q, k, v, o, H: multi_head(x, q, k, v, o, 1)),
    "perplexity in bits": (checks.exercise_08_perplexity, lambda loss: 2**loss),
    "the same window twice": (
        checks.exercise_08_batch,
        lambda t, s, n: torch.stack([t[s[:, None] + torch.arange(n)]] * 2),
    ),
    "the prompt alone": (checks.exercise_08_greedy, lambda model, prompt, n: prompt),
    "the last token alone": (checks.exercise_08_greedy, lambda model, prompt, n: greedy(model, prompt, n, 1)),
    "too short a past": (checks.exercise_08_greedy, lambda model, prompt, n: greedy(model, prompt, n, 7)),
    "the least likely token": (
        checks.exercise_08_greedy,
        lambda model, prompt, n: torch.cat([prompt, model(prompt[None])[0, -1].argmin()[None].repeat(n)]),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_refused(name, capsys):
    check, answer = WRONG[name]
    assert check(answer) is False
    out = capsys.readouterr().out
    assert "not yet, " in out and "it raises" not in out
