"""The steps of the reader's own GPT: the build exercises whose answers grow into one file."""

from typing import NamedTuple


class Step(NamedTuple):
    label: str  # of the exercise
    answer: tuple[str, ...]  # the names that it asks for
    title: str
    grew: tuple[str, ...] = ()  # out of these steps: whoever has solved it has solved them


STEPS = (
    Step("1a", ("my_scores",), "scores: every query meets every key"),
    Step("2a", ("my_softmax",), "softmax: scores become weights"),
    Step("2b", ("my_contexts",), "contexts: weights mix the values"),
    Step("3a", ("my_attention",), "attention: scores over the root of D", ("2b",)),
    Step("3g", ("MySelfAttention",), "a layer: queries, keys and values are learned"),
    Step("4a", ("my_attention",), "attention with a mask", ("3a",)),
    Step("4g", ("MyCausalAttention",), "a causal layer: nobody sees the future", ("3g",)),
    Step("5f", ("MyDropout",), "dropout: in training only"),
    Step("6g", ("MyHeads",), "heads: several questions at once", ("4g",)),
    Step("7a", ("my_layer_norm",), "norm: every vector comes back to one size"),
    Step("7b", ("MyBlock",), "a block: tokens talk, then each thinks"),
    Step("7f", ("MyGPT",), "a GPT: tokens in, a score for each next one out"),
    Step("8b", ("my_batch",), "batches: windows of a text, and what comes next"),
    Step("8g", ("my_train",), "training: guess, measure, nudge"),
    Step("9b", ("my_nucleus",), "the nucleus: the smallest set that reaches p"),
    Step("9h", ("my_write",), "writing: draw a letter, append it, go on"),
    Step("9i", ("MyGPT", "my_fast_write"), "a cache: nothing is computed twice", ("7f",)),
)
LABELS = tuple(step.label for step in STEPS)
NAMES = {name for step in STEPS for name in step.answer}


def step_of(label: str) -> Step | None:
    """The step that this exercise is, if it is one."""
    return STEPS[LABELS.index(label)] if label in LABELS else None


def grown_into(label: str) -> set[str]:
    """The step, and all that it grew out of."""
    return {label}.union(*(grown_into(earlier) for earlier in STEPS[LABELS.index(label)].grew))
