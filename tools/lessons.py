"""Where the notebooks lie that notebooks/course.toml lists.

A lesson is known by its name, the file's without the ending. Nothing else in tools/ knows where one
lies.
"""

import re
import sys
from pathlib import Path

import nbformat

from helpers.commands import say
from helpers.course import NOTEBOOKS, course, head_of, shipped
from helpers.errors import ConfigError


def lessons(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks to read, the path first."""
    return shipped(notebooks)


def sources(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks that go through a source in its own order."""
    paths = [notebooks / "sources" / f"{name}.ipynb" for name in course(notebooks)["sources"]]
    return [path for path in paths if path.exists()]


def everyone(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The start page, the lessons, and the sources."""
    return [*notebooks.glob("index.ipynb"), *lessons(notebooks), *sources(notebooks)]


def name_others(notebooks: Path = NOTEBOOKS) -> None:
    """Say which notebooks beside the lessons are none of them, such as a reader's copies."""
    for path in sorted([*notebooks.glob("*.ipynb"), *notebooks.glob("beyond/*.ipynb")]):
        if path not in everyone(notebooks):
            name = path.relative_to(notebooks.parent)
            say(f"{name} is none of the lessons: left out", to=sys.stderr)


def readme_path(notebooks: Path = NOTEBOOKS) -> dict[str, str]:
    """The README's lines of lessons and of rooms, by the name of the mark above them: names, order
    and reading times as the notebooks have them.
    """
    links: dict[str, list[str]] = {"path": [], "rooms": []}
    for path in lessons(notebooks):
        head = head_of(nbformat.read(path, as_version=4).cells[0].source)
        assert head, f"{path} has no title"
        time = f" ({head.time.lower().replace('minutes', 'min')})" if head.time else ""
        title = f"{head.number} {head.title}".strip()
        link = f"[{title}]({path.relative_to(notebooks.parent)}){time}"
        links["path" if path.parent == notebooks else "rooms"].append(link)
    return {
        "path": "\n".join(f"- {link}" for link in links["path"]),
        "rooms": " · ".join(links["rooms"]),
    }


def readme(text: str, notebooks: Path = NOTEBOOKS) -> str:
    """The README with the lines of lessons and rooms, and the count of cells, as they are now."""
    for name, line in readme_path(notebooks).items():
        mark = f"<!-- {name}, written by tools.notebooks store -->"
        text = re.sub(rf"({re.escape(mark)}\n)((?:- )?\[.*\n)*", rf"\g<1>{line}\n", text)
    cells = [
        cell
        for path in everyone(notebooks)
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]
    ignored = sum("nbval-ignore-output" in cell.metadata.get("tags", []) for cell in cells)
    return re.sub(r"except for \d+ of \d+ whose", f"except for {ignored} of {len(cells)} whose", text)


def named(name: str, notebooks: Path = NOTEBOOKS) -> Path:
    """The lesson meant by 8, 08, 08_nanogpt_shakespeare, beyond/what_matters, or a path.

    The number may be left out. ConfigError, with all names, when there is none.
    """
    words = Path(name.removesuffix(".ipynb")).parts
    for path in everyone(notebooks):
        own = path.relative_to(notebooks.parent).with_suffix("").parts
        number, _, rest = path.stem.partition("_")
        parts = (number, number.lstrip("0") or "0", rest) if number[0].isdecimal() else ()
        if name in parts or own[-len(words) :] == words or Path(name).resolve() == path:
            return path
    names = ", ".join(path.stem for path in everyone(notebooks))
    raise ConfigError(f"no notebook {name!r}: choose one of {names}")


def short(name: str) -> str:
    """What a link calls a lesson: "03" for 03_query_key_value, "blank page" for blank_page."""
    return name.partition("_")[0] if name[0].isdigit() else name.replace("_", " ")


def solutions(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The scripts that answer the exercises, in the order of the lessons; they begin with a cell."""
    rooms = [room["name"] for room in course(notebooks)["rooms"]]

    def place(path: Path) -> tuple[int, str]:
        return (rooms.index(path.stem) if path.stem in rooms else -1, path.stem)

    scripts = (notebooks / "solutions").glob("*.py")
    return sorted((p for p in scripts if p.read_text("utf-8").startswith("# %%")), key=place)


def solution_of(label: str) -> Path:
    """The script that answers an exercise: solutions_03.py has 3a, and what_matters.py has 10a."""
    number = int(label[:-1])
    rooms = {room.get("number"): room["name"] for room in course(NOTEBOOKS)["rooms"]}
    name = rooms.get(number, f"solutions_{number:02}")
    return NOTEBOOKS / "solutions" / f"{name}.py"
