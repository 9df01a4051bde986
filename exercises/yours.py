"""The reader's own GPT: one file that grows with every step that is solved, and runs without this project.

A step is the cell in which it was solved. The file holds these cells in the order of the steps, one below the other,
each under a heading. It is written only if it runs, and if all steps in it are right afterwards.
"""

import ast
import linecache
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import exercises
from exercises.judge import RIGHT, TooLongError, at_most, raised, said


class Step(NamedTuple):
    label: str  # of the exercise
    names: tuple[str, ...]  # what it asks for
    title: str
    instead: str = ""  # the step whose place it takes


STEPS = (
    Step("1a", ("my_scores",), "scores: every query meets every key"),
    Step("2a", ("my_softmax",), "softmax: scores become weights"),
    Step("2b", ("my_contexts",), "contexts: weights mix the values"),
    Step("3a", ("my_attention",), "attention: scores over the root of D"),
    Step("3g", ("MySelfAttention",), "a layer: queries, keys and values are learned"),
    Step("4a", ("my_attention",), "attention with a mask", "3a"),
    Step("4g", ("MyCausalAttention",), "a causal layer: nobody sees the future"),
    Step("5f", ("MyDropout",), "dropout: in training only"),
    Step("6g", ("MyHeads",), "heads: several questions at once"),
    Step("7a", ("my_layer_norm",), "norm: every vector comes back to one size"),
    Step("7b", ("MyBlock",), "a block: tokens talk, then each thinks"),
    Step("7f", ("MyGPT",), "a GPT: tokens in, a score for each next one out"),
    Step("8b", ("my_batch",), "batches: windows of a text, and what comes next"),
    Step("8g", ("my_train",), "training: guess, measure, nudge"),
    Step("9b", ("my_nucleus",), "the nucleus: the smallest set that reaches p"),
    Step("9h", ("my_write",), "writing: draw a letter, append it, go on"),
    Step("9i", ("MyGPT", "my_fast_write"), "a cache: nothing is computed twice", "7f"),
)
BY_LABEL = {step.label: step for step in STEPS}
PLACE = Path("build/my_gpt.py")
HEAD = '''
"""My GPT, which I built step by step."""

import math

import torch
import torch.nn.functional as F
from torch import nn
'''.strip()
HEADING = "# ================ {} · {}"
SECONDS = 60.0  # for a piece of work with the reader's steps
_right: set[tuple[str, str]] = (
    set()
)  # the file's text and a label: each state of the file is judged once


class NotKeptError(Exception):
    """Its message is the end of a sentence."""


# ---------------------------------------------------------------- the file
def place() -> Path | None:
    """The reader's file, or None where nobody reads, as in tests: a person can be asked for input."""
    if named := os.environ.get("MY_GPT"):
        return Path(named)
    return PLACE if getattr(getattr(_shell(), "kernel", None), "_allow_stdin", False) else None


def _shell() -> Any:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def read(path: Path) -> dict[str, str]:
    """The steps in the file: the label of each, and what stands under its heading."""
    if not path.exists():
        return {}
    pieces = re.split(r"^# =+ (\w+) · .*\n", path.read_text(encoding="utf-8-sig"), flags=re.M)
    found = zip(pieces[1::2], pieces[2::2], strict=True)
    return {label: text.strip() for label, text in found if label in BY_LABEL}


def written(steps: dict[str, str]) -> str:
    """The whole file, its steps in order."""
    blocks = [HEAD]
    for step in STEPS:
        if step.label in steps:
            blocks.append(f"{HEADING.format(step.label, step.title)}\n{steps[step.label]}")
    return "\n\n\n".join(blocks) + "\n"


def loaded(text: str, path: Path) -> types.ModuleType:
    """The file as a module."""
    module = types.ModuleType("my_gpt")
    module.__file__ = str(path)
    try:
        with at_most(SECONDS):
            exec(compile(text, str(path), "exec"), vars(module))  # it is the reader's own
    except SyntaxError as error:
        raise NotKeptError(f"line {error.lineno} of {path} is no Python: {error.msg}") from None
    except TooLongError:
        raise NotKeptError(f"{path} doesn't come to its end") from None
    except (Exception, SystemExit) as error:
        raise NotKeptError(f"{path} doesn't run alone: {raised(error)}") from None
    return module


def judged(step: Step, module: types.ModuleType, text: str) -> str:
    """What is wrong with a step that is read from the file, or an empty text."""
    if (text, step.label) in _right:
        return ""
    missing = [name for name in step.names if not hasattr(module, name)]
    if missing:
        return f"`{missing[0]}` is missing"
    answer = [getattr(module, name) for name in step.names]
    exercises.load(step.label)
    verdict = said(step.label, answer[0] if len(answer) == 1 else tuple(answer))
    if verdict != RIGHT:
        return str(verdict)
    _right.add((text, step.label))
    return ""


# ---------------------------------------------------------------- a step is kept
def keep(label: str, answer: Any) -> str:
    """Put the cell of a right answer into the file. What happened, in one sentence; "" where nobody reads."""
    path = place()
    if path is None or label not in BY_LABEL:
        return ""
    try:
        steps = read(path)
        if any(step.instead == label and step.label in steps for step in STEPS):
            return "not kept: in your file stands what it grew into, which can do more"
        steps[label] = cell_of(answer)
        steps.pop(BY_LABEL[label].instead, None)
        text = written(steps)
        module = loaded(text, path)
        for each in steps:
            if why := judged(BY_LABEL[each], module, text):
                raise NotKeptError(f"read back from the file, {each} is {why}")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)  # whole or not at all
    except NotKeptError as error:
        hint = (
            ". What it needs must stand in its own cell, or in an earlier step"
            if "NameError" in str(error)
            else ""
        )
        return f"not kept: {error}{hint}"
    except OSError as error:
        return f"not kept: can't write {path}: {error.strerror or error}"
    return f"kept in {path}: {progress(steps)}"


def cell_of(answer: Any) -> str:
    """What the reader defined in the cell of an answer, as it was written."""
    answers = answer if isinstance(answer, tuple) else (answer,)
    cells = []
    for each in answers:
        inside = [*vars(each).values()] if isinstance(each, type) else [each]
        codes = [part.__code__ for part in inside if isinstance(part, types.FunctionType)]
        text = "".join(linecache.getlines(codes[0].co_filename)) if codes else ""
        if not text:
            raise NotKeptError("its source can't be found: write it in a cell, with def or class")
        cells.append(definitions(text))
    return "\n\n\n".join(dict.fromkeys(cells))


def definitions(cell: str) -> str:
    """The functions, classes, values and imports of a cell, with the comments above them; no calls, none of ours."""
    lines = cell.splitlines()
    kept = []
    for node in ast.parse(cell).body:
        if not isinstance(
            node, (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Import, ast.ImportFrom)
        ):
            continue
        source = ast.unparse(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and re.search(
            r"\b(exercises|helpers)\b", source
        ):
            continue
        first = (
            min(
                [
                    node.lineno,
                    *(decorator.lineno for decorator in getattr(node, "decorator_list", [])),
                ]
            )
            - 1
        )
        while first and lines[first - 1].startswith("#"):
            first -= 1
        kept.append("\n".join(lines[first : node.end_lineno]))
    return "\n\n\n".join(kept)


def progress(steps: dict[str, str]) -> str:
    solved = set(steps) | {BY_LABEL[label].instead for label in steps} - {""}
    return f"{len(solved)} of {len(STEPS)} steps, {written(steps).count(chr(10))} lines"


# ---------------------------------------------------------------- later notebooks use it
def parts() -> dict[str, Any]:
    """All that is right in the file, by its names. One sentence says what is not."""
    path = place()
    if path is None or not path.exists():
        return {}
    text = path.read_text(encoding="utf-8-sig")
    try:
        module = loaded(text, path)
    except NotKeptError as error:
        print(f"{error}. Until that is mended, ours does the work.")
        return {}
    found = {}
    for label in read(path):
        step = BY_LABEL[label]
        if why := judged(step, module, text):
            print(
                f"`{step.names[0]}` in your file: {why}. Until that is mended, ours does the work."
            )
            continue
        found |= {name: getattr(module, name) for name in step.names}
    return found


def bring() -> None:
    """Put what is in the file into this notebook, to build on."""
    if (shell := _shell()) and place():
        shell.user_ns.update(parts())


def run(work: Callable[..., Any], *, seconds: float = SECONDS, **ours: Any) -> tuple[Any, str]:
    """What `work(*parts)` gives, and whose parts did it: run(draw, my_softmax=softmax) takes yours where it is there.

    Where yours raises or takes too long, one sentence says so, and ours does the work.
    """
    found = parts()
    if all(name in found for name in ours):
        names = " and ".join(f"`{name}`" for name in ours)
        try:
            with at_most(seconds):
                return work(*(found[name] for name in ours)), "your"
        except TooLongError:
            print(
                f"{names} in your file took longer than {seconds:g} seconds, so here is what ours does:"
            )
        except Exception as error:
            print(f"{names} in your file: {raised(error)}, so here is what ours does:")
    return work(*ours.values()), "our"


def show(name: str) -> None:
    """Print what you wrote under this name."""
    path = place()
    for label, text in (read(path) if path else {}).items():
        if name in BY_LABEL[label].names:
            print(text)
