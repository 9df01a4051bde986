"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right."""

from typing import Any

from exercises.judge import said


def check(label: str, answer: Any) -> None:
    """Print one line: right, still to do (a `...`, or what does nothing), or not yet, and why."""
    print(f"{label}: {said(label, answer)}")
