"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right, and if not, why."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn, randn

from helpers.attention import MultiHeadAttention, attention, causal_mask
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import generate

Answer = Callable[..., Any]
Pairs = Iterator[tuple[Any, Any]]  # what the answer gives, and what is right: a tensor, a number, or a list of such
Grader = Callable[[Answer], Pairs]
GRADERS: dict[str, tuple[str, Grader]] = {}  # each label's hint and grader


def exercise(label: str, hint: str) -> Callable[[Grader], Grader]:
    """Register a grader, which calls the answer with inputs of its choice and yields pairs (given, right)."""

    def register(grader: Grader) -> Grader:
        GRADERS[label] = hint, grader
        return grader

    return register


def check(label: str, answer: Answer) -> None:
    """Print one line: still to do (the answer returns None or ...), not yet, with a hint, or right.

    The answer gets copies of its inputs, the global random generator stays as it was. ConfigError for another label.
    """
    if label not in GRADERS:
        raise ConfigError(f"there is no exercise {label!r}: choose one of {', '.join(GRADERS)}")
    hint, grader = GRADERS[label]

    def on_copies(*inputs: Any) -> Any:
        given = answer(*copy.deepcopy(inputs))
        if given is None or given is ...:
            raise _StillToDo
        return given

    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            fault = next(filter(None, itertools.starmap(_fault, grader(on_copies))), "")
    except _StillToDo:
        return print(f"{label}: still to do")
    except Exception as error:  # a learner's code may raise anything, and "run all" must go on
        fault = f"it raises {type(error).__name__}: {error}"
    print(f"{label}: not yet, {fault}. Hint: {hint}" if fault else f"{label}: right")


class _StillToDo(Exception): ...


def _fault(given: Any, right: Any) -> str:
    """What is wrong with the answer given, or nothing."""
    if isinstance(right, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(right):
            return f"it should return {len(right)} things in a {type(right).__name__}"
        return next(filter(None, map(_fault, given, right)), "")
    if isinstance(right, str):
        return "" if given == right else f"it gives {given!r} where {right!r} is right"
    try:
        given, right = (torch.as_tensor(x, dtype=torch.float64) for x in (given, right))
    except (TypeError, ValueError, RuntimeError):
        return f"it returns a {type(given).__name__}, which is no number and no tensor"
    if given.shape != right.shape:
        return f"the shape is {tuple(given.shape)} and should be {tuple(right.shape)}"
    if not torch.allclose(given, right, atol=1e-5):
        place = (given - right).abs().nan_to_num(nan=float("inf")).argmax()
        return f"it gives {given.flatten()[place]:.4f} where {right.flatten()[place]:.4f} is right"
    return ""


# ---------------------------------------------------------------- the graders, in the order of the notebooks
@exercise("0a", "one dictionary look-up for each word; dict.get takes a second argument")
def word_for_word(answer: Answer) -> Pairs:
    """answer(words, dictionary) -> the words looked up one by one, a word that is not there left as it is."""
    yield answer(["kannst", "du", "mir"], {"kannst": "can", "du": "you", "mir": "me"}), ["can", "you", "me"]
    yield answer(["du", "und", "du"], {"du": "you"}), ["you", "und", "you"]


@exercise("0b", "tanh of the sum of both projections, then its product with v")
def additive_scores(answer: Answer) -> Pairs:
    """answer(query (D,), keys (S, D), W_query (D, D), W_key (D, D), v (D,)) -> additive scores (S,)."""
    query, keys, W_query, W_key, v = randn(3), randn(5, 3), randn(3, 3), randn(3, 3), randn(3)
    yield answer(query, keys, W_query, W_key, v), torch.tanh(query @ W_query + keys @ W_key) @ v


@exercise("0c", "argmax; along which dimension?")
def alignment(answer: Answer) -> Pairs:
    """answer(weights (T, S)) -> for each written word t the place of the word read that it looked at most (T,)."""
    for weights in (randn(5, 5).softmax(-1), randn(3, 6).softmax(-1)):
        yield answer(weights), weights.argmax(-1)


@exercise("1a", "scores[t, s] is the sum of queries[t, i] * keys[s, i] over i")
def scores(answer: Answer) -> Pairs:
    """answer(queries (T, D), keys (S, D)) -> scores (T, S), with loops."""
    for queries, keys in ((randn(2, 3), randn(4, 3)), (randn(1, 1), randn(1, 1))):
        yield answer(queries, keys), queries @ keys.T


@exercise("1b", "a dot product is length times length times the cosine; how long is a, if a @ a is the square?")
def cosine(answer: Answer) -> Pairs:
    """answer(a (D,), b (D,)) -> the cosine of the angle between them."""
    a, b = randn(2, 3)
    for other in (b, 5 * a, -0.1 * a):
        yield answer(a, other), torch.cosine_similarity(a, other, dim=0)


@exercise("1c", "a word may not choose itself: set its own score to -inf first")
def nearest(answer: Answer) -> Pairs:
    """answer(i, vectors (T, D)) -> index of the OTHER vector that scores highest with vector i."""
    for vectors in randn(4, 6, 3):
        for i, best in enumerate((vectors @ vectors.T).fill_diagonal_(float("-inf")).argmax(dim=-1)):
            yield answer(i, vectors), best


@exercise("2a", "take the largest score of each row away first; keepdim=True keeps the shape")
def softmax(answer: Answer) -> Pairs:
    """answer(scores (..., T)) -> weights of the same shape, also for scores of a thousand."""
    for scores in (randn(6), randn(2, 3, 4), 1000 * randn(5, 3), torch.tensor([-1000.0, -1001.0])):
        yield answer(scores), scores.softmax(dim=-1)


@exercise("2b", "scores, softmax along each row, weights @ values")
def contexts(answer: Answer) -> Pairs:
    """answer(queries (T, D), keys (S, D), values (S, E)) -> contexts (T, E), unscaled."""
    queries, keys, values = randn(2, 3), randn(4, 3), randn(4, 5)
    yield answer(queries, keys, values), (queries @ keys.T).softmax(dim=-1) @ values


@exercise("2c", "the hotter, the smaller the largest weight: start with a low and a high one, and halve the interval")
def temperature_for_a_share(answer: Answer) -> Pairs:
    """answer(scores (T,), share) -> the temperature at which the largest weight is `share`."""
    for share, scores in zip((0.2, 0.5, 0.9, 0.999), randn(4, 6), strict=True):
        temperature = torch.as_tensor(answer(scores, share)).squeeze()[..., None]  # several give several weights
        # The weight of the largest score, which a temperature below 0 makes the smallest weight.
        yield (scores / temperature).softmax(dim=-1)[..., scores.argmax()], share


@exercise("3a", "divide by key.shape[-1] ** 0.5, swap the LAST two dimensions of key, softmax over keys")
def scaled_attention(answer: Answer) -> Pairs:
    """answer(query, key, value), any leading dimensions -> context, weights."""
    for inputs in ((randn(2, 4), randn(3, 4), randn(3, 5)), randn(3, 2, 1, 6, 9)):
        yield answer(*inputs), attention(*inputs)


@exercise("3b", "only the queries come from x")
def cross_attention(answer: Answer) -> Pairs:
    """answer(x (T, C), memory (S, C), W_query, W_key, W_value (C, D)) -> contexts (T, D)."""
    x, memory, (W_query, W_key, W_value) = randn(3, 4), randn(5, 4), randn(3, 4, 2)
    yield answer(x, memory, W_query, W_key, W_value), attention(x @ W_query, memory @ W_key, memory @ W_value)[0]


@exercise("3c", "what raises one weight lowers the others: take the weighted mean of d_weights away, row by row")
def softmax_gradient(answer: Answer) -> Pairs:
    """answer(weights (T, S), d_weights (T, S)) -> the derivative of the loss by the scores (T, S)."""
    scores, d_weights = randn(4, 6).requires_grad_(), randn(4, 6)
    weights = scores.softmax(dim=-1)
    yield answer(weights.detach(), d_weights), torch.autograd.grad(weights, scores, d_weights)[0]


@exercise("4a", "row t of the matrix is 1/(t+1), t+1 times, then zeros; tril makes the triangle")
def past_average(answer: Answer) -> Pairs:
    """answer(x (T, C)) -> (T, C): row t is the average of rows 0 to t."""
    for x in (randn(6, 3), randn(1, 2), randn(9, 1)):
        yield answer(x), torch.stack([x[: t + 1].mean(dim=0) for t in range(len(x))])


@exercise("4b", "a triangle without another triangle: tril takes a diagonal=")
def window_mask(answer: Answer) -> Pairs:
    """answer(T, window) -> Bool (T, T): True where query t may see key s, that is t - window < s <= t."""
    for T, window in ((5, 2), (6, 3), (4, 1), (3, 9)):
        t, s = torch.arange(T)[:, None], torch.arange(T)
        yield answer(T, window), (s <= t) & (s > t - window)


@exercise("4c", "for every t, change everything after it; compare outputs 0 to t, with t itself; keep the length")
def is_causal(answer: Answer) -> Pairs:
    """answer(function (T, C) -> (T, D), x (T, C)) -> is the function causal?"""
    x, mask = randn(6, 3), causal_mask(6)
    causal = [lambda x: x.cumsum(0), lambda x: attention(x, x, x, mask[: len(x), : len(x)])[0], lambda x: x * 2]
    leaking = [
        lambda x: attention(x, x, x)[0],
        lambda x: torch.cat([x[1:], x[-1:]]),
        lambda x: torch.cat([x[:-2], x[-2:].flip(0)]),  # only the last but one looks ahead
        lambda x: x + 1e-3 * x[-1:] ** 2,
        lambda x: torch.cat([x[:1] + x[2:3], x[1:]]),  # the first looks ahead, but not to the end
    ]
    for function in causal + leaking:
        yield answer(function, x), function in causal


@exercise("5a", "what is kept stands for what is lost: divide by the share that is kept")
def dropout(answer: Answer) -> Pairs:
    """answer(x, keep, p) -> x where keep is True, scaled, and 0 elsewhere."""
    for p in (0.5, 0.1, 0.9):
        x, keep = randn(4, 5), randn(4, 5) > 0
        yield answer(x, keep, p), torch.where(keep, x / (1 - p), 0.0)


@exercise("5b", "t weights are all lost with probability p to the t; add up over the words")
def lost_words(answer: Answer) -> Pairs:
    """answer(T, p) -> the expected number of words, of T, whose weights are all dropped."""
    for T, p in ((6, 0.5), (1, 0.2), (64, 0.1)):
        yield answer(T, p), sum(p**t for t in range(1, T + 1))


@exercise("5c", "in this order: scores over the root of D, mask with -inf, softmax over dim=-1, keep / (1 - p), values")
def causal_attention(answer: Answer) -> Pairs:
    """answer(query, key, value (B, T, D), keep (B, T, T), p) -> context (B, T, D)."""
    for T, D, p, size in ((5, 4, 0.5, 1), (3, 9, 0.25, 1), (4, 4, 0.5, 1e6)):
        (query, key, value), keep = randn(3, 2, T, D), randn(2, T, T) > 0
        if size > 1:  # scores far below 0, where a mask that is a number shows
            query, key = -size * query.abs(), size * key.abs()
        _, weights = attention(query, key, value, causal_mask(T))
        yield answer(query, key, value, keep, p), torch.where(keep, weights / (1 - p), 0.0) @ value


@exercise("6a", "view to (B, T, H, D) first, then exchange T and H")
def split_heads(answer: Answer) -> Pairs:
    """answer(x (B, T, H * D), num_heads) -> (B, H, T, D)."""
    for B, T, H, D in ((2, 5, 3, 4), (1, 4, 4, 1), (3, 2, 1, 6)):
        x = randn(B, T, H * D)
        yield answer(x, H), torch.stack([x[:, :, h * D : (h + 1) * D] for h in range(H)], dim=1)


@exercise("6b", "exchange H and T back, then flatten the last two (view alone will refuse or scramble)")
def join_heads(answer: Answer) -> Pairs:
    """answer(x (B, H, T, D)) -> (B, T, H * D), head 1 first."""
    for x in (randn(2, 3, 5, 4), randn(1, 4, 2, 1), randn(2, 2, 2, 2)):
        yield answer(x), torch.cat(list(x.unbind(dim=1)), dim=-1)


@exercise("6c", "project, split, scores over the root of the HEAD width, mask, softmax, values, join, W_out")
def multi_head(answer: Answer) -> Pairs:
    """answer(x (B, T, C), W_query, W_key, W_value, W_out (C, C), num_heads) -> (B, T, C)."""
    for T, num_heads, size in ((5, 3, 1), (4, 2, 1), (6, 1, 1), (5, 3, 1e5)):
        x, matrices = randn(2, T, 12), list(randn(4, 12, 12))
        if size > 1:  # each word's score with itself is far below 0, where a mask that is a number shows
            matrices[:2] = size * matrices[0], -size * matrices[0]
        module = MultiHeadAttention(12, 12, T, 0.0, num_heads, out_bias=False)
        names = ("W_query", "W_key", "W_value", "out_proj")
        module.load_state_dict({f"{name}.weight": W.T for name, W in zip(names, matrices, strict=True)})
        yield answer(x, *matrices, num_heads), module(x)


@exercise("7a", "mean and variance (divided by C, not C - 1) over the last dimension; 1e-5 inside the root")
def layer_norm(answer: Answer) -> Pairs:
    """answer(x (T, C), gain (C,), shift (C,)) -> each row to mean 0 and variance 1, times gain, plus shift (T, C)."""
    x, gain, shift = 0.05 * randn(5, 8) + 1, randn(8), randn(8)
    for table in (x, 0.01 * x):
        yield answer(table, gain, shift), torch.layer_norm(table, (8,), gain, shift)


@exercise("7b", "two lines, each of the form x = x + ...")
def block(answer: Answer) -> Pairs:
    """answer(x, norm1, attention, norm2, mlp) -> the pre-norm block's output."""
    x, (W, U) = randn(3, 4), 0.5 * randn(2, 4, 4)
    norm1, norm2 = lambda x: x / x.norm(), lambda x: x - x.mean()
    attend, mlp = lambda x: (x @ W).sin(), lambda x: (x @ U).tanh()
    after = x + attend(norm1(x))
    yield answer(x, norm1, attend, norm2, mlp), after + mlp(norm2(after))


@exercise("7c", "count both tables, 4 C^2 + 8 C^2 + two gains of C in each block, and one last gain")
def mlp_share(answer: Answer) -> Pairs:
    """answer(V, T, L, C) -> share of a GPT's parameters in its MLPs, without biases, the head sharing its table."""
    for V, T, L, C in ((65, 64, 4, 128), (50257, 1024, 12, 768), (50257, 1024, 48, 1600)):
        yield answer(V, T, L, C), 8 * C * C * L / (V * C + T * C + L * (12 * C * C + 2 * C) + C)


@exercise("8a", "a model that hesitates between n equally likely characters has the loss ln n")
def perplexity(answer: Answer) -> Pairs:
    """answer(loss in nats) -> between how many equally likely characters the model hesitates."""
    for loss in (0.0, 1.9, math.log(65)):
        yield answer(loss), math.exp(loss)


@exercise("8b", "y is the same window, one token later")
def batch(answer: Answer) -> Pairs:
    """answer(tokens (N,), starts (B,), T) -> x stacked on y: (2, B, T)."""
    tokens, starts = torch.arange(100).flip(0) % 7, torch.tensor([3, 50, 0])
    x, y = (torch.stack([tokens[s + later : s + later + 6] for s in starts]) for later in (0, 1))
    yield answer(tokens, starts, 6), torch.stack([x, y])


@exercise("8c", "the last row of logits says what comes next; feed the model.config.context_length last tokens")
def greedy(answer: Answer) -> Pairs:
    """answer(model, prompt (T,), n) -> prompt and the n likeliest next tokens, one after the other."""
    model = GPT(GPTConfig(vocab_size=11, context_length=8, n_layer=1, n_head=1, n_embd=16)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # far from uniform: every token of the context matters
    prompt = torch.tensor([1, 2, 3])
    for n in (1, 12):
        yield answer(model, prompt, n), generate(model, prompt, n, top_k=1)


@exercise("9a", "temperature divides logits, and these are probabilities: what undoes a softmax?")
def temperature(answer: Answer) -> Pairs:
    """answer(probabilities (V,), temperature) -> the probabilities at that temperature (V,)."""
    probabilities = randn(6).softmax(0)
    for t in (0.5, 2.0):
        yield answer(probabilities, t), (probabilities.log() / t).softmax(0)


@exercise("9b", "sort; keep a token while those before it add up to less than p; back to the order of the vocabulary")
def nucleus(answer: Answer) -> Pairs:
    """answer(probabilities (V,), p) -> 1 for each token of the nucleus, 0 for all others (V,)."""
    probabilities = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])
    for p, kept in {0.3: [0, 1, 0, 0, 0], 0.6: [0, 1, 0, 1, 0], 0.8: [0, 1, 0, 1, 1], 1.0: [1, 1, 1, 1, 1]}.items():
        yield answer(probabilities, p), torch.tensor(kept)


@exercise("9c", "collect the windows in a set; those that do not enlarge it are repetitions")
def repetition(answer: Answer) -> Pairs:
    """answer(tokens (T,), n) -> the share of the windows of n tokens that have occurred before."""
    for text, n in itertools.product(([1, 2, 1, 2, 1, 2], [1, 2, 3, 4, 5, 6], [3, 3, 3, 3, 5, 3, 3]), (1, 2, 3)):
        windows = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        yield answer(torch.tensor(text), n), 1 - len(set(windows)) / len(windows)


@exercise("10a", "compare with the whole model of the SAME seed; then mean and std (over seeds - 1) along the seeds")
def damage(answer: Answer) -> Pairs:
    """answer(losses (variants, seeds), whole (seeds,)) -> mean and standard deviation of the damage (variants, 2)."""
    losses, whole = 2 + 0.1 * randn(3, 4), 2 + 0.1 * randn(4)
    yield answer(losses, whole), torch.stack([(losses - whole).mean(1), (losses - whole).std(1)], dim=1)


@exercise("10b", "F.cross_entropy of the last logits and last targets")
def honest_loss(answer: Answer) -> Pairs:
    """answer(logits (B, T, V), targets (B, T)) -> mean loss at the last position, where nothing can leak."""
    logits, targets = randn(6, 5, 7), torch.arange(30).view(6, 5) % 7
    yield answer(logits, targets), nn.functional.cross_entropy(logits[:, -1], targets[:, -1])


@exercise("10c", "triu(1) keeps what is above the diagonal")
def leaks(answer: Answer) -> Pairs:
    """answer(weights (T, T)) -> how much weight each query puts on its own future, summed (T,)."""
    for weights in (randn(4, 4).softmax(-1), randn(6, 6).softmax(-1)):
        yield answer(weights), weights.triu(1).sum(-1)
