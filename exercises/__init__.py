"""The exercises of the notebooks: `check("3a", my_attention)` says whether an answer is right."""

from typing import Any

from exercises.judge import RIGHT, said
from exercises.yours import keep, pay_out


def check(label: str, answer: Any) -> None:
    """Print one line: right, still to do (a `...`, or what does nothing), or not yet, and why.

    The answer gets copies of its inputs, and five seconds. What is a step of the reader's own GPT
    is kept when it is right, and the line says so. ConfigError for a label that no exercise has.
    """
    verdict = said(label, answer)
    note = keep(label, answer) if verdict == RIGHT else ""
    print(f"{label}: {verdict}{'; ' if note else ''}{note}")
    if note.startswith("kept"):
        pay_out(label)
