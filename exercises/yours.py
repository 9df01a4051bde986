"""The reader's own GPT: one file that grows with every step that is solved, and runs by itself.

A step is the cell in which it was solved. The file holds these cells in the order of the steps,
each under a heading. It is written only if it runs, and if all steps in it are right afterwards.
Later lessons run on it. Where nobody reads (papermill, nbval, CI) there is no file, and all this
does nothing.
"""

import ast
import inspect
import linecache
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from exercises.judge import RIGHT, raised, said
from exercises.limits import TooLongError, at_most
from helpers import ROOT, files
from helpers.course import here, shipped
from helpers.errors import RunError
from pictures.way import draw_way


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
PLACE = ROOT / "mine" / "my_gpt.py"
HEAD = '''
"""My GPT. I built it step by step with the notebooks of From dot products to nanoGPT."""

import math

import torch
import torch.nn.functional as F
from torch import nn
'''.strip()
MAIN = 'if __name__ == "__main__":'
PROGRAM = f"""
{MAIN}
    import sys

    if len(sys.argv) != 2:
        raise SystemExit("name a text file to learn from: python my_gpt.py corpus.txt")
    try:
        with open(sys.argv[1], encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        raise SystemExit(f"can't read {{sys.argv[1]}}: {{error}}")
    if len(text) < 1000:
        raise SystemExit(f"{{sys.argv[1]}} is too short to learn from: it takes 1,000 letters")
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])

    def report(step, loss):
        if step % 100 == 0:
            print(f"step {{step:5,}}  loss {{loss:.3f}}", flush=True)

    torch.manual_seed(1)
    gpt = MyGPT(len(letters), context_length=64, n_layer=4, n_head=4, n_embd=128)
    my_train(gpt, tokens, 2000, 12, report)
    write = globals().get("my_fast_write", my_write)
    print("".join(letters[i] for i in write(gpt, tokens[:1], 500, 0.8, 0.95)))
""".strip()
SECONDS = 60.0  # for a piece of work with the reader's steps
_right: set[tuple[str, str]] = set()  # a file's text, and a label: each is judged once


class NotKeptError(Exception):
    """Its message is the end of a sentence."""


# ---------------------------------------------------------------- the file
def own_file() -> Path | None:
    """The reader's file; None where nobody reads. The variable MY_GPT names another one."""
    if file := os.environ.get("MY_GPT"):
        return Path(file)
    # A front end with a person before it can be asked for input, others can't.
    reads = getattr(getattr(_shell(), "kernel", None), "_allow_stdin", False)
    return PLACE if reads else None


def _shell() -> Any:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def called(path: Path) -> str:
    """The file as a message names it."""
    return "mine/my_gpt.py" if path == PLACE else str(path)


def read(path: Path) -> dict[str, str]:
    """What stands in the file: before the first heading (as ""), below that of each step, and of the reader's own."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {"": HEAD}
    except (OSError, ValueError) as error:
        raise NotKeptError(f"{called(path)} can't be read: {error}") from None
    text = text.partition(f"\n{MAIN}")[0]
    head, *pieces = re.split(r"^# (\w+ · .*)\n", text, flags=re.M)
    steps = {"": head.strip() or HEAD}  # an empty file begins as a new one
    for heading, piece in zip(pieces[::2], pieces[1::2], strict=True):
        label = heading.partition(" · ")[0]
        name = label if label in BY_LABEL else heading
        steps[name] = f"{steps.get(name, '')}\n\n\n{piece.strip()}".strip()
    return steps


def written(steps: dict[str, str]) -> str:
    """The whole file, its steps in order, and the program as soon as it has all that it needs.

    Sections of the reader's own stay behind the step that they stand behind.
    """
    own: dict[str, list[str]] = {}
    last = ""
    for name, piece in steps.items():
        if name in BY_LABEL or not name:
            last = name
        else:
            own.setdefault(last, []).append(f"# {name}\n{piece}")
    blocks = [steps[""], *own.get("", [])]
    for step in STEPS:
        if step.label in steps:
            blocks += [f"# {step.label} · {step.title}\n{steps[step.label]}", *own.get(step.label, [])]
    if (steps.keys() & {"7f", "9i"}) and {"8b", "8g", "9h"} <= steps.keys():
        blocks.append(PROGRAM)
    return "\n\n\n".join(blocks) + "\n"


def loaded(text: str, path: Path) -> types.ModuleType:
    """The file as a module."""
    module = types.ModuleType("my_gpt")
    module.__file__ = str(path)
    try:
        with at_most(SECONDS):
            exec(compile(text, str(path), "exec"), vars(module))  # it is the reader's own
    except SyntaxError as error:
        raise NotKeptError(f"line {error.lineno} of {called(path)} is no Python: {error.msg}") from None
    except TooLongError:
        raise NotKeptError(f"{called(path)} doesn't come to its end") from None
    except (Exception, SystemExit) as error:
        raise NotKeptError(f"{called(path)} doesn't run alone: {raised(error)}") from None
    return module


def complaint(step: Step, module: types.ModuleType, text: str) -> str:
    """What is wrong with a step that is read from the file, or an empty text."""
    if (text, step.label) in _right:
        return ""
    missing = [name for name in step.names if not hasattr(module, name)]
    if missing:
        return f"not there: `{missing[0]}` is missing"
    answer = tuple(getattr(module, name) for name in step.names)
    verdict = said(step.label, answer if len(answer) > 1 else answer[0])
    if verdict != RIGHT:
        return str(verdict)
    _right.add((text, step.label))
    return ""


# ---------------------------------------------------------------- a step is kept
def keep(label: str, answer: Any) -> str:
    """Put the cell of a right answer into the file: what happened, or "" where there is nothing to keep."""
    path = own_file()
    if path is None or label not in BY_LABEL:
        return ""
    try:
        steps = read(path)
        if any(step.instead == label and step.label in steps for step in STEPS):
            return "not kept: in your file stands what it grew into, which can do more"
        before, steps[label] = steps.get(label), source_of(answer)
        if BY_LABEL[label].instead:
            steps.pop(BY_LABEL[label].instead, None)
        text = written(steps)
        module = loaded(text, path)
        for step in STEPS:
            if step.label in steps and (why := complaint(step, module, text)):
                raise NotKeptError(f"read back from the file, {step.label} is {why}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if before is not None and before.strip() != steps[label].strip():  # it may have been mended by hand
            files.write(path.with_name(f"{path.name}.before"), path.read_text(encoding="utf-8"))
        files.write(path, text)
    except NotKeptError as error:
        alone = ". What it uses must stand in its own cell, or in an earlier step"
        return f"not kept: {error}{alone if 'NameError' in str(error) else ''}"
    except (OSError, RunError) as error:
        return f"not kept: {error}"
    return f"kept in {called(path)}: {progress(steps)}"


def source_of(answer: Any) -> str:
    """What the reader defined in the cell of an answer, as it was written."""
    cells = []
    for item in answer if isinstance(answer, tuple) else (answer,):
        inside = [*vars(item).values()] if isinstance(item, type) else [item]
        # Behind @torch.no_grad() the reader's function is wrapped in one of PyTorch's
        functions = [inspect.unwrap(x) for x in inside if isinstance(x, types.FunctionType)]
        sources = [function.__code__.co_filename for function in functions]
        text = "".join(linecache.getlines(sources[0])) if sources else ""
        if not text or Path(sources[0]).exists():  # a cell is no file
            raise NotKeptError("it is from elsewhere: write it in a cell, with def or class")
        cells.append(text)
    return "\n\n\n".join(definitions(text) for text in dict.fromkeys(cells))


KEPT = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def definitions(cell: str) -> str:
    """The functions, classes and values of a cell, with the comments above them.

    Calls are left out, and so are imports that the file has already, or that are ours.
    """
    lines = cell.splitlines()
    pieces = []
    for node in ast.parse(cell).body:
        if not isinstance(node, KEPT):
            continue
        source = ast.unparse(node)
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        if is_import and (source in HEAD or re.search(r"\b(exercises|helpers|pictures)\b", source)):
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        pieces.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(pieces)


def pay_out(label: str) -> None:
    """Show what the reader's GPT can do now, with a link to the file, and what comes next."""
    if _shell() is None:
        return
    from IPython.display import Markdown, display  # slow to import where there is no notebook

    path = own_file() or PLACE
    address = Path(os.path.relpath(path)).as_posix()
    name, _, does = BY_LABEL[label].title.partition(": ")
    can = f"**{name}**: {does}" if does else f"**{name}**"
    steps = f"step {len(solved(_steps()))} of {len(STEPS)}"
    display(Markdown(f"✅ Your GPT has {can}. It is {steps} in [{path.name}]({address}). {next_step(page=Path.cwd())}"))


# ---------------------------------------------------------------- how far it is
def solved(steps: dict[str, str]) -> list[str]:
    """The labels of the steps that are in the file, or have grown into one that is."""
    labels = set(steps) | {BY_LABEL[label].instead for label in steps if label in BY_LABEL}
    return [step.label for step in STEPS if step.label in labels]


def progress(steps: dict[str, str]) -> str:
    lines = written(steps).count("\n")
    return f"{len(solved(steps))} of {len(STEPS)} steps, {lines} lines"


def _steps() -> dict[str, str]:
    """What the reader's file holds: nothing where there is none, or where it can't be read."""
    path = own_file()
    try:
        return read(path) if path and path.exists() else {}
    except NotKeptError as error:
        print(error)
        return {}


def path(*, finished: bool = False) -> None:
    """Draw the way through the steps: which are solved, and where the next one waits.

    `finished` draws the way as it will be once all are.
    """
    steps = _steps()
    labels = [step.label for step in STEPS] if finished else solved(steps)
    about = f"{called(own_file() or PLACE)}: {progress(steps)}" if labels and not finished else ""
    draw_way({step.label: step.title.partition(":")[0] for step in STEPS}, labels, about)


def next_step(folder: str | Path | None = None, page: Path | None = None) -> str:
    """Where the next step waits, as a line of Markdown; the notebooks are in `folder`, the line in a page of `page`."""
    labels, notebooks = solved(_steps()), Path(folder or here())
    lessons = [Path(os.path.relpath(path, page or notebooks)).as_posix() for path in shipped(notebooks)]
    if not labels and lessons:
        return f"**Start with [lesson 00]({lessons[0]}).** The first step of your own GPT waits in the one after it."
    for step in STEPS:
        if step.label not in labels:
            matches = [name for name in lessons if Path(name).name.startswith(f"{step.label[:-1]:0>2}_")]
            link = f"[{step.label}]({matches[0]})" if matches else step.label
            return f"**Next:** {link}, {step.title}."
    return "**All steps are solved.** Your GPT trains at the end of [the blank page](beyond/blank_page.ipynb)."


# ---------------------------------------------------------------- later lessons use it
def parts(*names: str) -> dict[str, Any]:
    """What is right in the file, by its names; of these names, if there are any.

    One sentence says what is not right: until it is mended, ours does the work.
    """
    steps, path, by_name = _steps(), own_file(), {}
    if not steps or path is None:
        return {}
    text = path.read_text(encoding="utf-8-sig")
    try:
        module = loaded(text, path)
    except NotKeptError as error:
        print(f"{error}. Until that is mended, ours does the work.")
        return {}
    for step in STEPS:
        if step.label not in steps or (names and not set(names) & set(step.names)):
            continue
        if why := complaint(step, module, text):
            print(f"`{step.names[0]}` in your file is {why}. Until it is mended, ours works here.")
            continue
        by_name |= {name: getattr(module, name) for name in step.names}
    return {name: by_name[name] for name in names if name in by_name} if names else by_name


def part(name: str, ours: Any) -> tuple[Any, str]:
    """What is called so in your file, or ours, and whose it is: "your" or "our"."""
    own = parts(name)
    return (own[name], "your") if own else (ours, "our")


def run(work: Callable[..., Any], *, seconds: float = SECONDS, **ours: Any) -> tuple[Any, str]:
    """What `work(*parts)` gives, and whose parts those were: "your" or "our".

    The parts are named: `run(work, my_softmax=softmax)` takes yours if it is in your file. Where
    yours raises or takes too long, one sentence says so, and ours does the work.
    """
    own = parts(*ours)
    if own.keys() == ours.keys():
        names = " and ".join(f"`{name}`" for name in ours)
        try:
            with at_most(seconds):
                return work(*(own[name] for name in ours)), "your"
        except TooLongError:
            print(f"{names} in your file took longer than {seconds:g} seconds: here is ours")
        except Exception as error:  # a reader's code may raise anything, and a lesson goes on
            print(f"{names} in your file: {raised(error)}: here is ours")
    return work(*ours.values()), "our"


def bring() -> None:
    """Put what your file has into this notebook, under its names, to build on."""
    shell, own = _shell(), parts()
    if shell is not None and own:
        shell.user_ns.update(own)
        print(f"from your file: {', '.join(own)}")


def show(name: str) -> None:
    """Print what you wrote under this name, to look at it or to let it grow."""
    sources = [text for label, text in _steps().items() if label in BY_LABEL and name in BY_LABEL[label].names]
    print("\n".join(sources) or f"`{name}` isn't in your file yet")
