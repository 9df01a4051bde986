"""The exercises of notebook 00: why attention."""

from collections.abc import Iterator

from exercises import compare
from exercises.judge import Asked, WrongError, exercise, prediction
from exercises.properties import words

prediction(
    "0b",  # What goes through one vector
    right=(128, 40 * 40),
    tolerance=1e-9,  # numbers are counted
    hints=(
        "128 numbers for each letter are what the reader computes: only its last state is handed over",
        "a score is ONE number for each pair of letters, one written and one read: EACH of the 40 looks at all 40",
    ),
)


def lengths_of_a_text() -> Iterator[tuple[float, int]]:
    yield from ((0.5, 1), (2.0, 3), (0.5, 4), (-0.9, 6), (-1.5, 3), (0.01, 2), (-1.0, 8), (1.1, 64))


exercise(
    "0c",  # How a first letter fades
    lambda a, T: a ** (T - 1),
    lengths_of_a_text,
    mistakes={
        "between h_1 and h_T lie T - 1 steps, and each of them uses a once: count them": (lambda a, T: a**T),
        "that is the effect of all inputs together: only x_1 is asked for": (
            lambda a, T: sum(a**step for step in range(T))
        ),
    },
)


@exercise(
    "0d",  # Where did it look?
    lambda weights: weights.argmax(-1),
    "scores: T S",
    prepare=lambda scores: {"weights": (scores / 4).softmax(-1)},
    broken=(
        "for 3 words written and 6 read it should give 3 places. Count them",
        lambda weights: weights.argmax(dim=0),
    ),
)
def _(answer: Asked) -> None:
    weights = words(3, 6).softmax(-1)
    if not compare.same(answer(weights), weights.argmax(-1)):
        raise WrongError("for 3 words written and 6 read it misses a place with the largest weight")
