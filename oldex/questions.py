"""Which exercises there are. Their graders are in graders/, one file for each notebook."""

import importlib
import warnings
from typing import Any

import torch

from exercises import judge
from exercises.judge import EXERCISES, Built, Question, Verdict
from exercises.limit import TooLongError, at_most
from helpers.errors import ConfigError

GRADERS = {
    "00": "exercises.graders.n00",
    "01": "exercises.graders.n01",
    "02": "exercises.graders.n02",
    "03": "exercises.graders.n03",
    "04": "exercises.graders.n04",
    "05": "exercises.graders.n05",
    "06": "exercises.graders.n06",
    "07": "exercises.graders.n07",
    "08": "exercises.graders.n08",
    "09": "exercises.graders.n09",
    "10": "exercises.graders.n10",
    "11": "exercises.graders.n11",
    "12": "exercises.graders.n12",
    "13": "exercises.graders.n13",
    "14": "exercises.graders.n14",
}


def exercises() -> dict[str, Question | Built]:
    """Every exercise by its label, in the order of the notebooks."""
    for notebook in GRADERS:
        _load_graders(notebook)
    return {label: EXERCISES[label] for label in sorted(EXERCISES, key=lambda label: (int(label[:-1]), label))}


def said(label: str, answer: Any, seconds: float) -> Verdict:
    """The verdict on an answer, which gets so many seconds for all cases together.

    The global random generator stays as it was. ConfigError for a label that no exercise has.
    """
    question = _asked(label)
    if isinstance(question, Built):  # a process's first optimizer takes seconds, which are not the answer's
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("default")  # an answer's warnings are shown, and are no errors
        try:
            with at_most(seconds):
                return judge.judged(question, answer)
        except TooLongError:
            why = f"it is still at work after {seconds:g} seconds: is there a loop without an end?"
            return Verdict("not yet", why)


def _asked(label: str) -> Question | Built:
    """The exercise with this label. A lesson loads the graders of its own notebook alone."""
    notebook = str(label)[:-1].zfill(2)
    if notebook in GRADERS:
        _load_graders(notebook)
    if label not in EXERCISES:
        raise ConfigError(f"there is no exercise {label!r}: choose one of {', '.join(exercises())}")
    return EXERCISES[label]


def _load_graders(notebook: str) -> None:
    importlib.import_module(GRADERS[notebook])
