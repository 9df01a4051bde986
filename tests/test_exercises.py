"""Every solution is right, every stub is still to do, and what learners get wrong is refused."""

import importlib.util
import math
import re
from functools import partial
from pathlib import Path

import nbformat
import pytest
import torch

from helpers import exercises
from helpers.attention import attention, causal_mask
from helpers.errors import ConfigError

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
ASKED = {  # label: the notebook's number and the name of the answer, as the notebooks ask for it
    label: (path.name[:2], name)
    for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    for cell in nbformat.read(path, as_version=4).cells
    if cell.cell_type == "code"
    for label, name in re.findall(r'^exercises\.check\("(\w+)", (\w+)\)$', cell.source, re.M)
}


def solution(label: str):
    number, name = ASKED[label]
    path = NOTEBOOKS / "solutions" / f"solutions_{number}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.fixture
def verdict(capsys):
    """What `check` prints, after the label."""

    def checked(label, answer) -> str:
        assert exercises.check(label, answer) is None
        line = capsys.readouterr().out
        assert line.startswith(f"{label}: ") and line.count("\n") == 1
        return line.removeprefix(f"{label}: ").rstrip()

    return checked


def test_the_notebooks_ask_every_exercise_once_and_under_its_number():
    assert list(ASKED) == list(exercises.GRADERS) and len(ASKED) == 33
    assert all(int(label[:-1]) == int(number) for label, (number, _) in ASKED.items())


@pytest.mark.parametrize("label", exercises.GRADERS)
def test_solutions_are_right_and_stubs_still_to_do(label, verdict):
    assert verdict(label, solution(label)) == "right"
    assert verdict(label, lambda *_: ...) == verdict(label, lambda *_: None) == "still to do"  # no hint before a try
    assert verdict(label, lambda *_: 1 / 0).startswith("not yet, it raises ZeroDivisionError: division by zero. Hint: ")
    assert re.match("not yet, it .+ Hint: .+", verdict(label, lambda *_: "text"))


def test_an_unknown_label_gets_the_labels_there_are():
    with pytest.raises(ConfigError, match=r"there is no exercise '3z': choose one of 0a, 0b, .*, 10c$"):
        exercises.check("3z", lambda: None)


def test_an_answer_that_spoils_its_input_is_not_compared_with_the_spoilt_one(verdict):
    assert "where" in verdict("4a", lambda x: x.zero_())
    assert "where" in verdict("2a", lambda scores: scores.fill_(1 / scores.shape[-1]))
    spoilt = []

    def spoils_what_it_was_lent(words, dictionary):
        spoilt.append(dictionary.popitem())
        return solution("0a")(words, dictionary | dict(spoilt[-1:])), words.clear()

    assert verdict("0a", lambda *inputs: spoils_what_it_was_lent(*inputs)[0]) == "right"


def test_no_answer_can_touch_the_global_generator(verdict):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    for answer in (solution("8c"), lambda *_: torch.manual_seed(1), lambda *_: 1 / 0, lambda *_: ...):
        verdict("8c", answer)
        assert torch.equal(torch.get_rng_state(), state)


def test_the_inputs_are_the_same_ones_every_time():
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        exercises.check("2b", lambda *inputs: seen.append(torch.cat([x.flatten() for x in inputs])))
    assert torch.equal(*seen)


def test_shapes_are_compared_and_not_counts(verdict):
    assert verdict("1a", lambda q, k: (q @ k.T).flatten()).startswith(
        "not yet, the shape is (8,) and should be (2, 4)."
    )
    assert verdict("1a", lambda q, k: k @ q.T).startswith("not yet, the shape is (4, 2) and should be (2, 4).")


def test_two_things_asked_for_are_two_things(verdict):
    both = solution("3a")
    assert verdict("3a", lambda *x: list(both(*x))) == "right"
    for answer in (lambda *x: both(*x)[0], lambda *x: (*both(*x), 1), lambda *x: both(*x)[:1]):
        assert verdict("3a", answer).startswith("not yet, it should return 2 things in a tuple. Hint: ")
    assert "it gives 'du' where 'you' is right" in verdict("0a", lambda words, _: ["can", *words[1:]])


def test_what_is_no_number_is_said_to_be_none_and_nan_is_wrong(verdict):
    assert verdict("8a", lambda _: "text").startswith("not yet, it returns a str, which is no number and no tensor.")
    assert verdict("8a", lambda _: float("nan")).startswith("not yet, it gives nan where 1.0000 is right.")


def test_rounding_is_no_fault_and_more_is(verdict):
    assert verdict("8a", lambda loss: math.exp(loss) + 1.8e-5) == "right"
    assert "not yet" in verdict("8a", lambda loss: math.exp(loss) + 2.2e-5)


def greedy(model, prompt, n, last):
    for _ in range(n):
        prompt = torch.cat([prompt, model(prompt[None, -last:])[0, -1].argmax()[None]])
    return prompt


def causal_weights(query, key, divisor=None, fill=-torch.inf):
    scores = query @ key.mT / (divisor or query.shape[-1] ** 0.5)
    return scores.masked_fill(~causal_mask(query.shape[-2]), fill).softmax(-1)


def multi_head(x, W_query, W_key, W_value, W_out, num_heads, weights=causal_weights):
    query, key, value = (solution("6a")(x @ W, num_heads) for W in (W_query, W_key, W_value))
    return (weights(query, key) @ value).transpose(1, 2).flatten(2) @ W_out


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
        "0a",
        lambda words, dictionary: [dictionary[word] for word in words if word in dictionary],
    ),
    "word for word, backwards": (
        "0a",
        lambda words, dictionary: [dictionary.get(word, word) for word in words[::-1]],
    ),
    "additive without tanh": ("0b", lambda q, k, W, U, v: (q @ W + k @ U) @ v),
    "additive, tanh of each": (
        "0b",
        lambda q, k, W, U, v: ((q @ W).tanh() + (k @ U).tanh()) @ v,
    ),
    "additive, matrices exchanged": ("0b", lambda q, k, W, U, v: (q @ U + k @ W).tanh() @ v),
    "alignment of the words read": ("0c", lambda w: w.argmax(0)),
    "alignment to the least": ("0c", lambda w: w.argmin(-1)),
    "layer norm by columns": (
        "7a",
        lambda x, g, b: normed(x.T, 1, 0, unbiased=False).T * g + b,
    ),
    "layer norm, unbiased": ("7a", lambda x, g, b: normed(x, g, b, unbiased=True)),
    "layer norm without eps": (
        "7a",
        lambda x, g, b: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, unbiased=False) * g + b,
    ),
    "layer norm without the shift": ("7a", lambda x, g, b: normed(x, g, 0, unbiased=False)),
    "post-norm": ("7b", post_norm),
    "no residual": ("7b", lambda x, n1, a, n2, m: m(n2(a(n1(x))))),
    "attention and MLP side by side": ("7b", lambda x, n1, a, n2, m: x + a(n1(x)) + m(n2(x))),
    "MLP before attention": ("7b", lambda x, n1, a, n2, m: post_norm(x, n1, m, n2, a)),
    "share of one MLP": (
        "7c",
        lambda V, T, L, C: 8 * C * C / (V * C + T * C + L * (12 * C * C + 2 * C) + C),
    ),
    "share with an untied head": (
        "7c",
        lambda V, T, L, C: 8 * C * C * L / (2 * V * C + T * C + L * (12 * C * C + 2 * C) + C),
    ),
    "share of the blocks alone": ("7c", lambda V, T, L, C: 8 / 12),
    "temperature on probabilities": ("9a", lambda p, t: (p / t).softmax(-1)),
    "temperature times": ("9a", lambda p, t: (p.log() * t).softmax(-1)),
    "temperature, not normalised": ("9a", lambda p, t: p ** (1 / t)),
    "threshold for nucleus": ("9b", lambda p, t: (p >= t).long()),
    "nucleus that stays below p": (
        "9b",
        lambda p, t: nucleus(p, t, lambda descending, t: descending.cumsum(0) <= t),
    ),
    "nucleus in sorted order": (
        "9b",
        lambda p, t: (p.sort(descending=True)[0].cumsum(0) - p.sort(descending=True)[0] < t).long(),
    ),
    "repetition of neighbours only": (
        "9c",
        lambda x, n: (x[1:] == x[:-1]).float().mean(),
    ),
    "repetition of single tokens": (
        "9c",
        lambda x, n: 1 - len(set(x.tolist())) / len(x),
    ),
    "repetition, side-by-side windows": (
        "9c",
        lambda x, n: 1 - len({tuple(w) for w in x.unfold(0, n, n).tolist()}) / len(x.unfold(0, n, n)),
    ),
    "damage against the mean": (
        "10a",
        lambda losses, whole: torch.stack([(losses - whole.mean()).mean(1), (losses - whole.mean()).std(1)], 1),
    ),
    "damage with the wrong sign": (
        "10a",
        lambda losses, whole: torch.stack([(whole - losses).mean(1), (whole - losses).std(1)], 1),
    ),
    "loss at all positions": (
        "10b",
        lambda logits, y: torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()),
    ),
    "loss at the first position": (
        "10b",
        lambda logits, y: torch.nn.functional.cross_entropy(logits[:, 0], y[:, 0]),
    ),
    "the present counts as future": ("10c", lambda w: w.triu(0).sum(-1)),
    "the past instead of the future": ("10c", lambda w: w.tril(-1).sum(-1)),
    "summed over the queries": ("10c", lambda w: w.triu(1).sum(0)),
    "queries and keys exchanged": ("1a", lambda q, k: k @ q.T),
    "cosine without lengths": ("1b", lambda a, b: a @ b),
    "cosine with one length": ("1b", lambda a, b: a @ b / (a @ a)),
    "nearest is itself": ("1c", lambda i, v: i),
    "nearest by cosine": (
        "1c",
        lambda i, v: torch.cosine_similarity(v[i][None], v).index_fill(0, torch.tensor(i), -2).argmax(),
    ),
    "softmax that overflows": ("2a", lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
    "softmax over the first dimension": ("2a", lambda s: s.softmax(0)),
    "softmax of the whole tensor": ("2a", lambda s: s.flatten().softmax(0).view(s.shape)),
    "contexts over the queries": ("2b", lambda q, k, v: (q @ k.T).softmax(0) @ v),
    "contexts with scaling": ("2b", lambda q, k, v: (q @ k.T / 3**0.5).softmax(-1) @ v),
    "the temperature upside down": (
        "2c",
        lambda scores, share: 1 / solution("2c")(scores, share),
    ),
    "no root": ("3a", lambda q, k, v: ((q @ k.mT).softmax(-1) @ v, (q @ k.mT).softmax(-1))),
    "the context alone": ("3a", lambda q, k, v: attention(q, k, v)[0]),
    "weights and context exchanged": ("3a", lambda q, k, v: attention(q, k, v)[::-1]),
    "self-attention for cross": ("3b", lambda x, m, *W: attention(*(x @ w for w in W))[0]),
    "values from the asker": ("3b", lambda x, m, q, k, v: attention(x @ q, m @ k, (m + 1) @ v)[0]),
    "the temperature of the opposite scores": ("2c", lambda scores, share: -solution("2c")(-scores, share)),
    "one temperature for each score": (
        "2c",
        lambda scores, share: torch.full((6,), float(solution("2c")(scores, share))),
    ),
    "a negative temperature": ("2c", lambda scores, share: -1.0),
    "a fake temperature": ("2c", lambda scores, share: scores / share),
    "the diagonal of the Jacobian only": ("3c", lambda w, d: w * (1 - w) * d),
    "the mean without weights": ("3c", lambda w, d: w * (d - d.mean(-1, keepdim=True))),
    "the average without itself": (
        "4a",
        lambda x: torch.ones(len(x), len(x)).tril(-1) @ x / torch.arange(len(x)).clamp(min=1)[:, None],
    ),
    "sums for averages": ("4a", lambda x: x.cumsum(0)),
    "the whole past": ("4b", lambda T, window: causal_mask(T)),
    "a window of one too many": (
        "4b",
        lambda T, window: causal_mask(T) & ~torch.ones(T, T).tril(-window - 1).bool(),
    ),
    "True where forbidden": (
        "4b",
        lambda T, window: ~(causal_mask(T) & ~torch.ones(T, T).tril(-window).bool()),
    ),
    "everything is causal": ("4c", lambda f, x: True),
    "nothing is causal": ("4c", lambda f, x: False),
    "changes the last token only": (
        "4c",
        lambda f, x: torch.equal(f(torch.cat([x[:-1], x[-1:] + 1]))[:-1], f(x)[:-1]),
    ),
    "looks at the first output only": (
        "4c",
        lambda f, x: torch.equal(f(x)[0], f(torch.cat([x[:1], -x[1:]]))[0]),
    ),
    "not scaled": ("5a", lambda x, keep, p: x * keep),
    "scaled by p": ("5a", lambda x, keep, p: x * keep / p),
    "drops what is kept": ("5a", lambda x, keep, p: x * ~keep / (1 - p)),
    "one word only": ("5b", lambda T, p: p**T),
    "every row is full": ("5b", lambda T, p: T * p**T),
    "dropout before softmax": (
        "5c",
        lambda q, k, v, keep, p: (
            (q @ k.mT / 2 * keep / (1 - p)).masked_fill(~causal_mask(q.shape[1]), -torch.inf).softmax(-1) @ v
        ),
    ),
    "softmax over dim=1": (
        "5c",
        lambda q, k, v, keep, p: (
            (q @ k.mT / 2).masked_fill(~causal_mask(q.shape[1]), -torch.inf).softmax(1) * keep / (1 - p) @ v
        ),
    ),
    "a finite mask": (
        "5c",
        lambda q, k, v, keep, p: causal_weights(q, k, fill=-1e9) * keep / (1 - p) @ v,
    ),
    "half for the root": (
        "5c",
        lambda q, k, v, keep, p: causal_weights(q, k, divisor=2) * keep / (1 - p) @ v,
    ),
    "no mask": (
        "5c",
        lambda q, k, v, keep, p: attention(q, k, v)[1] * keep / (1 - p) @ v,
    ),
    "split by view alone": (
        "6a",
        lambda x, H: x.view(x.shape[0], H, x.shape[1], -1),
    ),
    "split into head widths": (
        "6a",
        lambda x, H: x.view(*x.shape[:2], -1, H).permute(0, 3, 1, 2),
    ),
    "joined by view alone": ("6b", lambda x: x.reshape(x.shape[0], x.shape[2], -1)),
    "joined number by number": ("6b", lambda x: x.permute(0, 2, 3, 1).flatten(2)),
    "divided by the whole width": (
        "6c",
        lambda x, *rest: multi_head(x, *rest, weights=partial(causal_weights, divisor=12**0.5)),
    ),
    "without a mask": ("6c", lambda x, *rest: multi_head(x, *rest, weights=lambda q, k: attention(q, k, k)[1])),
    "with a finite mask": (
        "6c",
        lambda x, *rest: multi_head(x, *rest, weights=partial(causal_weights, fill=-1e9)),
    ),
    "without the projection": (
        "6c",
        lambda x, q, k, v, o, H: multi_head(x, q, k, v, torch.eye(12), H),
    ),
    "one head for all": ("6c", lambda x, q, k, v, o, H: multi_head(x, q, k, v, o, 1)),
    "perplexity in bits": ("8a", lambda loss: 2**loss),
    "the same window twice": (
        "8b",
        lambda t, s, n: torch.stack([t[s[:, None] + torch.arange(n)]] * 2),
    ),
    "the prompt alone": ("8c", lambda model, prompt, n: prompt),
    "the last token alone": ("8c", lambda model, prompt, n: greedy(model, prompt, n, 1)),
    "too short a past": ("8c", lambda model, prompt, n: greedy(model, prompt, n, 7)),
    "the least likely token": (
        "8c",
        lambda model, prompt, n: torch.cat([prompt, model(prompt[None])[0, -1].argmin()[None].repeat(n)]),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_refused(name, verdict):
    line = verdict(*WRONG[name])
    assert line.startswith("not yet, ") and "it raises" not in line
