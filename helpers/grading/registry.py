"""The registry: here the graders write themselves down, each under its label."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Answer = Callable[..., Any]
Pairs = Iterator[tuple[Any, ...]]
Grader = Callable[[Answer], Pairs]


@dataclass(frozen=True)
class Exercise:
    """A grader, and what learners get wrong: a sentence, and the wrong answer that it describes (or a list of such).

    The grader calls the answer with inputs of its choice and yields pairs (given, right), or (given, right, tolerance).
    Where the answer is a value, the grader yields the answer itself.
    """

    grader: Grader
    mistakes: dict[str, Any]
    broken: tuple[str, Answer] | None = None  # for a repair: the symptom, and the function that the notebook shows

    def wrong_answers(self) -> Iterator[tuple[str, Any]]:
        """Each wrong answer with its sentence. In one that is a value, ... stands for anything."""
        for sentence, wrong in self.mistakes.items():
            for answer in wrong if isinstance(wrong, list) else [wrong]:
                yield sentence, answer


EXERCISES: dict[str, Exercise] = {}


def exercise(
    label: str, mistakes: dict[str, Any], broken: tuple[str, Answer] | None = None
) -> Callable[[Grader], Grader]:
    """Register a grader under its label."""

    def register(grader: Grader) -> Grader:
        EXERCISES[label] = Exercise(grader, mistakes, broken)
        return grader

    return register
