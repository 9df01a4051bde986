"""What may follow P= in `make run`: values for a notebook's settings, each checked by its setting's type.

`-p NAME VALUE` reads VALUE by the type of the default in the notebook's cell of parameters, or by its annotation where
there is one (`max_steps: int | None = None`). `-r NAME VALUE` gives VALUE to a setting that takes text, as it stands:
the word None, for example.
"""

import ast
import math
import re
import reprlib
import shlex
import warnings
from contextlib import suppress

from nbformat import NotebookNode

from helpers.errors import ConfigError

USAGE = (
    "P takes -p NAME VALUE and -r NAME VALUE, as often as needed, for example P=\"-p preset smoke -p out_dir 'my run'\""
)
IN_WORDS = {"bool": "True or False", "int": "a whole number", "float": "a number", "str": "text"}
BOOLEANS = {"True": True, "true": True, "False": False, "false": False}


def read(text: str, notebook: NotebookNode, name: str) -> dict[str, object]:
    """The values that `text` has for settings of the notebook called `name`; the last one counts.

    ConfigError, in one sentence with what is allowed, for anything but -p and -r, for a setting that the notebook lacks
    and for a value of another type.
    """
    try:
        kinds, values = settings(notebook), {}
    except SyntaxError as error:
        raise ConfigError(f"the parameters of {name} can't be read: {error}") from None
    for flag, setting, value in triples(text):
        if setting not in kinds:
            raise ConfigError(f"{name} has no parameter {clip(setting)}: it has {', '.join(kinds) or 'none'}")
        allowed = kinds[setting]
        if flag == "-r" and "str" not in allowed:
            raise ConfigError(f"{setting} takes {in_words(allowed)}, and -r gives text: use -p {setting}")
        values[setting] = value if flag == "-r" else converted(setting, value, allowed)
    return values


def triples(text: str) -> list[tuple[str, str, str]]:
    """Flag, name and value of each parameter in `text`, which is split as a shell would, and never seen by one."""
    try:
        text.encode()  # a byte that is no UTF-8 arrives as half a character
        words = shlex.split(text)
    except ValueError as error:
        what = "has a character that is no UTF-8" if isinstance(error, UnicodeError) else f"ends too early ({error})"
        raise ConfigError(f"P {what}: {USAGE}") from None
    found = []
    while words:
        flag, *rest = words
        if flag not in ("-p", "-r"):
            raise ConfigError(f"P has {clip(flag)} where -p or -r must stand: {USAGE}")
        if len(rest) < 2:
            raise ConfigError(
                f"P ends after {clip(' '.join(words))}, where a {'value' if rest else 'name'} must follow: {USAGE}"
            )
        found.append((flag, rest[0], rest[1]))
        words = rest[2:]
    return found


def settings(notebook: NotebookNode) -> dict[str, list[str]]:
    """The types that each name in the cell tagged "parameters" takes: ["bool"], ["None", "int"], ["list[int]"]."""
    cells = [cell.source for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    found = {}
    for node in ast.parse("\n".join(cells)).body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                found[name] = sorted(ast.unparse(annotation).split(" | "))  # "None" comes before "str"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                with suppress(ValueError):  # computed, so there is no type to go by
                    found[name] = [type_of(ast.literal_eval(value))]
    return found


def type_of(default: object) -> str:
    if isinstance(default, list) and default:
        return f"list[{type(default[0]).__name__}]"
    return "None" if default is None else type(default).__name__


def converted(setting: str, text: str, allowed: list[str]) -> object:
    for kind in allowed:
        try:
            return convert(text, kind)
        except (ValueError, SyntaxError, MemoryError, RecursionError):  # all of them from a hostile list
            continue
    raise ConfigError(f"{setting} takes {in_words(allowed)}, not {clip(text)}")


def convert(text: str, kind: str) -> object:
    """`text` as a value of type `kind`; ValueError or SyntaxError when it is none."""
    if kind == "str":
        return text
    if kind == "None" and text == "None":
        return None
    if kind == "bool" and text in BOOLEANS:
        return BOOLEANS[text]
    if kind == "int" and re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    if kind == "float" and math.isfinite(float(text)):
        return float(text)
    if kind.startswith("list["):
        with warnings.catch_warnings(action="ignore"):  # of odd escapes within
            items = ast.literal_eval(text)
        if isinstance(items, list) and all(f"list[{type(item).__name__}]" == kind for item in items):
            return items
    raise ValueError(text)


def in_words(allowed: list[str]) -> str:
    words = [IN_WORDS.get(kind, kind) for kind in sorted(allowed, key="None".__eq__)]
    return " or ".join(word.replace("list[int]", "a list of whole numbers such as [1, 2]") for word in words)


def clip(text: str) -> str:
    return reprlib.repr(text)
