"""Every check is itself checked: right answers pass, wrong ones are refused, known mistakes by their name."""

import importlib.util
from pathlib import Path

import pytest
import torch

from helpers import checks
from helpers.attention import MultiHeadAttention, attention, causal_mask
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


@pytest.mark.parametrize("name", checks.MISTAKES)
def test_each_mistake_is_called_by_its_name(name):
    with pytest.raises(CheckError) as error:
        checks.attention_formula(checks.MISTAKES[name])
    assert str(error.value) == f"not attention: {name}"


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


# ---------------------------------------------------------------- exercises
RIGHT = [
    (checks.exercise_01_scores, "01", "my_scores"),
    (checks.exercise_01_cosine, "01", "my_cosine"),
    (checks.exercise_01_nearest, "01", "my_nearest"),
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


WRONG = {
    "queries and keys exchanged": (checks.exercise_01_scores, lambda q, k: k @ q.T),
    "cosine without lengths": (checks.exercise_01_cosine, lambda a, b: a @ b),
    "cosine with one length": (checks.exercise_01_cosine, lambda a, b: a @ b / (a @ a)),
    "nearest is itself": (checks.exercise_01_nearest, lambda i, v: i),
    "nearest by cosine": (
        checks.exercise_01_nearest,
        lambda i, v: torch.cosine_similarity(v[i][None], v).index_fill(0, torch.tensor(i), -2).argmax(),
    ),
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
    assert "not yet, " in capsys.readouterr().out
