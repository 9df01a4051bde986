"""The museum's exercises: the whole program, with one line of it replaced by a wrong one."""

import functools
import inspect
import linecache
from typing import Any

from helpers.rooms import museum_program as program

# By exercise: a line of museum_program.py, and what stands in its place.
LINES = {
    "11a": ("(16, 1), generator=dice)", "(16, 1), generator=dice.manual_seed(seed))"),
    "11b": ("block.mlp(self.normed(block.norm2, x))", "block.mlp(self.normed(block.norm1, x))"),
    "11c": ("(real.cumsum(dim=1) - 1)", "(real.flip(1).cumsum(dim=1).flip(1) - 1)"),
}


def source(label: str) -> str:
    """The program of an exercise, as text."""
    healthy, wrong = LINES[label]
    text = inspect.getsource(program)
    if text.count(healthy) != 1:
        raise ValueError(f"{healthy!r} should stand once in the healthy program")
    return text.replace(healthy, wrong)


def listing(label: str) -> None:
    """Print the section of the program that has the exercise's wrong line, with line numbers."""
    lines = source(label).splitlines()
    wrong = next(k for k, line in enumerate(lines) if LINES[label][1] in line)
    heads = [k for k, line in enumerate(lines) if line.strip().startswith("# -----")]
    first = max(k for k in heads if k < wrong)
    last = min((k for k in heads if k > wrong), default=len(lines))
    for number in range(first, last):
        print(f"{number + 1:3}  {lines[number]}".rstrip())


@functools.cache
def planted(label: str) -> type:
    """The program of an exercise, to be trained, checked, and repaired by a class that replaces the
    wrong part.
    """
    file, text = f"<planted {label}>", source(label)
    # Tracebacks and inspect show it.
    linecache.cache[file] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        file,
    )
    names: dict[str, Any] = {"__name__": f"planted_{label}"}
    exec(compile(text, file, "exec"), names)
    kind = names["Program"]
    kind.__name__ = kind.__qualname__ = f"Planted{label[-1].upper()}"
    return kind
