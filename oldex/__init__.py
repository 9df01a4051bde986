"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right, and if not, why."""

from typing import Any

from exercises import growing, judge
from exercises.questions import exercises, said
from exercises.steps import step_of

__all__ = ["check", "exercises"]
SECONDS = 5.0  # for all cases of one answer together


def check(label: str, answer: Any) -> None:
    """Print one line: still to do (the answer is `...` or does nothing), not yet, and why, or right.

    The answer gets copies of its inputs, and five seconds for all cases together; the global random generator stays as
    it was. A known mistake is called by its name. What is a step of the reader's own GPT is kept when it is right, and
    the line says so. ConfigError for a label that no exercise has.
    """
    verdict = said(label, answer, SECONDS)
    step = step_of(label)
    kept = growing.keep(step, answer) if step and verdict == judge.RIGHT else ""
    print(f"{label}: {verdict}{'; ' if kept else ''}{kept}")
