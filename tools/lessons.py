"""Where the lessons lie, in order: notebooks/NN_*.ipynb, then notebooks/beyond/*.ipynb.

A lesson is known by its name, the file's without the ending. Nothing else in tools/ knows where one
lies.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
# In this order, and with the exercises 10a, 11a, ...
ROOMS = (
    "what_matters",
    "museum_of_bugs",
    "todays_models",
    "speedrun",
    "scaling_out",
    "blank_page",
)
FIRST_ROOM = 10


def lessons(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks to read, the path first; a room that ROOMS doesn't name comes last."""

    def place(path: Path) -> tuple[int, str]:
        return (ROOMS.index(path.stem) if path.stem in ROOMS else len(ROOMS), path.stem)

    rooms = (notebooks / "beyond").glob("*.ipynb")
    return sorted(notebooks.glob("[0-9]*.ipynb")) + sorted(rooms, key=place)


def named(name: str, notebooks: Path = NOTEBOOKS) -> Path:
    """The lesson called `name`, or its number, or its name without the number; KeyError if none is."""
    for path in lessons(notebooks):
        if name in (path.stem, path.stem[:2], path.stem.partition("_")[2]):
            return path
    raise KeyError(name)


def short(name: str) -> str:
    """What a link calls a lesson: "03" for 03_query_key_value, "blank page" for blank_page."""
    return name[:2] if name[:2].isdigit() else name.replace("_", " ")


def solutions(notebooks: Path = NOTEBOOKS) -> list[Path]:
    """The scripts that answer the exercises, in the order of the lessons; they begin with a cell."""

    def place(path: Path) -> tuple[int, str]:
        return (ROOMS.index(path.stem) if path.stem in ROOMS else -1, path.stem)

    scripts = (notebooks / "solutions").glob("*.py")
    return sorted((p for p in scripts if p.read_text("utf-8").startswith("# %%")), key=place)


def solution_of(label: str) -> Path:
    """The script that answers an exercise: solutions_03.py has 3a, and what_matters.py has 10a."""
    number = int(label[:-1])
    room = number >= FIRST_ROOM
    name = ROOMS[number - FIRST_ROOM] if room else f"solutions_{number:02}"
    return NOTEBOOKS / "solutions" / f"{name}.py"
