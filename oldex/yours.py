"""What notebooks do with the reader's own steps: `run` lets them work, with ours where they are missing.

Nothing here does anything where nobody reads: papermill, nbval and CI always see ours.
"""

import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exercises import growing, judge
from exercises.growing import Grown, called
from exercises.limit import TooLongError, at_most
from exercises.questions import said
from exercises.steps import NAMES, STEPS
from helpers.errors import ConfigError
from pictures.progress import here
from pictures.way import draw_way

SECONDS = 60.0  # for a piece of work with the reader's steps
_judged: dict[tuple[str, str], judge.Verdict] = {}  # by the file and a label: each state of the file is judged once


def run(work: Callable[..., Any], *, seconds: float = SECONDS, **ours: Any) -> tuple[Any, str]:
    """What `work(*parts)` gives, and whose parts those were: "your" or "our".

    The parts are named: `run(work, my_scores=scores)` takes your `my_scores` if it is in your file, else `scores`. If
    yours is no longer right, raises, or takes longer than `seconds`, one sentence says so, and ours does the work.
    """
    try:
        yours = _yours(list(ours))
        if yours:
            with at_most(seconds):
                return work(*yours), "your"
    except TooLongError:
        print(f"{_listed(ours)} in your file took longer than {seconds:g} seconds, so here is what ours does:")
    except _NotRightError as error:
        print(f"{error}, so here is what ours does:")
    except Exception as error:  # a reader's code may raise anything, and a lesson goes on
        print(f"{_listed(ours)} in your file: {judge.raised(error)}, so here is what ours does:")
    return work(*ours.values()), "our"


class Part:
    """A function of yours with ours behind it: whoever calls it gets yours, as long as that goes well.

    `whose` says "your" or "our". When yours raises, or has taken more than `seconds` in all, one sentence says so, and
    from then on ours is called.
    """

    def __init__(self, name: str, ours: Callable[..., Any], seconds: float = SECONDS):
        self.name = name
        self.ours = ours
        self.left = seconds
        self.yours: Callable[..., Any] | None = None
        try:
            found = _yours([name])
            self.yours = found[0] if found else None
        except _NotRightError as error:
            print(f"{error}, so ours does the work here")

    @property
    def whose(self) -> str:
        return "our" if self.yours is None else "your"

    def __call__(self, *inputs: Any) -> Any:
        if self.yours is None:
            return self.ours(*inputs)
        start = time.monotonic()
        try:
            with at_most(max(self.left, 1e-3)):
                given = self.yours(*inputs)
            self.left -= time.monotonic() - start
            return given
        except TooLongError:
            why = "has taken too long"
        except Exception as error:  # a reader's code may raise anything, and a lesson goes on
            why = judge.raised(error).removeprefix("it ")
        print(f"`{self.name}` in your file {why}, so ours does the work from here on")
        self.yours = None
        return self.ours(*inputs)


def parts(quiet: bool = False) -> dict[str, Any]:
    """What your file has for its steps, by its names."""
    try:
        found = _file()
    except _NotRightError as error:
        print(f"{error}: until then, nothing of it is used")
        return {}
    if found is None or not found[0].parts:
        return {}
    grown, module = found
    names = [name for name in grown.parts if name in NAMES]
    if names and not quiet:
        print(f"from your file: {', '.join(names)}")
    return {name: getattr(module, name) for name in names}


def bring() -> None:
    """Put what your file has into this notebook, under its names, to build on."""
    shell = growing.shell()
    if shell is not None and growing.place():
        shell.user_ns.update(parts())


def show(name: str) -> None:
    """Print what you wrote under this name, to look at it or to let it grow."""
    try:
        found = _file()
    except _NotRightError as error:
        print(error)
        return
    print(found[0].parts.get(name, _nothing(name)) if found else _nothing(name))


def path() -> None:
    """Draw the way through the steps: which are solved, and where the next one waits."""
    solved, about = progress()
    draw_way({step.label: step.title.partition(":")[0] for step in STEPS}, solved, about)


def next_step(folder: str | Path | None = None) -> str:
    """Where the next step waits, as a line of Markdown; the notebooks are in `folder`."""
    solved, _ = progress()
    for step in STEPS:
        if step.label not in solved:
            notebook = next(Path(folder or here()).glob(f"{step.label[:-1]:0>2}_*.ipynb"), None)
            where = f"[{step.label}]({notebook.name})" if notebook else step.label
            return f"**Next:** {where}, {step.title}."
    return "**All steps are solved.** Your GPT trains at the end of [the blank page](beyond/blank_page.ipynb)."


def progress() -> tuple[list[str], str]:
    """The labels that are solved, and in a few words how far the file is; an empty list where nobody reads."""
    path = growing.place()
    if path is None:
        return [], ""
    try:
        grown = growing.read(path)
    except ConfigError as error:
        return [], str(error)
    return grown.solved, f"{called(path)}: {grown.progress}" if grown.solved else ""


# ---------------------------------------------------------------- from the file
class _NotRightError(Exception):
    """What is wrong with the file, as a sentence without its stop."""


def _nothing(name: str) -> str:
    return f"`{name}` isn't in your file yet"


def _listed(names: Any) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _file() -> tuple[Grown, types.ModuleType] | None:
    """The file, if somebody has one."""
    path = growing.place()
    if path is None or not path.exists():
        return None
    try:
        grown = growing.read(path)
        return grown, growing.loaded(_text(path), path)
    except ConfigError as error:
        raise _NotRightError(error) from None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


def _yours(names: list[str]) -> list[Any]:
    """The reader's parts of these names, or nothing if one of them is missing."""
    found = _file()
    if found is None or not all(name in found[0].parts for name in names):
        return []
    grown, module = found
    for name in names:
        steps = [step for step in STEPS if name in step.answer and grown.has(step)]
        for step in steps[-1:]:
            key = str(grown), step.label
            if key not in _judged:
                _judged[key] = said(step.label, grown.answer(step, module), growing.SECONDS)
            if _judged[key] != judge.RIGHT:
                raise _NotRightError(f"`{name}` in your file is {_judged[key]}")
    return [getattr(module, name) for name in names]
