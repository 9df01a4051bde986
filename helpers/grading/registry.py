"""The registry: here the graders write themselves down, each under its label."""

from collections.abc import Callable
from typing import Any

from helpers.grading.judge import Answer, Grader, Question
from helpers.grading.judge import Pairs as Pairs

EXERCISES: dict[str, Question] = {}


def exercise(
    label: str, mistakes: dict[str, Any], broken: tuple[str, Answer] | None = None
) -> Callable[[Grader], Grader]:
    """Register a grader under its label."""

    def register(grader: Grader) -> Grader:
        EXERCISES[label] = Question(grader, mistakes, broken)
        return grader

    return register
