"""Who imports whom in helpers/, read from syntax trees. A newcomer who reads a room need not know those above it."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOORS = "doors"


class House:
    """The files of a package and their arrows: for each file, by its dotted name, the files that it imports."""

    def __init__(self, package: Path):
        paths = sorted(package.rglob("*.py"))
        self.trees = {self.name_of(path, package): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
        self.package = package.name
        self.inits = {self.name_of(path, package) for path in paths if path.name == "__init__.py"}
        self.arrows = {name: self.imported_by(name) for name in self.trees}

    @staticmethod
    def name_of(path: Path, package: Path) -> str:
        parts = path.relative_to(package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def imported_by(self, name: str) -> set[str]:
        """Wherever it stands: at the top, in a function, or as the text that importlib or runpy is given."""
        found = set()
        for node in ast.walk(self.trees[name]):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name for alias in names}
                case ast.ImportFrom():
                    base = self.base_of(node, name)
                    found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
                case ast.Constant(value=str(text)) if re.fullmatch(rf"{self.package}(\.\w+)+", text):
                    found.add(text)
        return {other for other in found & self.trees.keys() if other not in (name, self.package)}

    def base_of(self, node: ast.ImportFrom, name: str) -> str:
        """The module that `from ... import` names; with dots in front of it, counted from `name`."""
        if not node.level:
            return node.module or ""
        room = name.split(".") if name in self.inits else name.split(".")[:-1]
        above = room[: len(room) - node.level + 1]
        return ".".join([*above, node.module] if node.module else above)

    def room_of(self, name: str) -> str:
        parts = name.split(".")
        is_room = len(parts) > 2 or f"{parts[0]}.{parts[-1]}" in self.inits
        return parts[1] if is_room else DOORS

    # ------------------------------------------------------------ what is wrong, in sentences
    def circles(self) -> list[str]:
        """A circle of files, if there is one."""
        try:
            TopologicalSorter(self.arrows).prepare()
        except CycleError as error:
            return [" imports ".join(reversed(error.args[1]))]
        return []

    def against(self, order: list[str]) -> list[str]:
        """Arrows to a room that stands later in the order, and arrows to a door: nobody inside imports one."""
        found = []
        for name, others in self.arrows.items():
            below = order[: order.index(self.room_of(name)) + 1]
            may_import = set(below) - {DOORS}
            found += [f"{name} imports {other}" for other in sorted(others) if self.room_of(other) not in may_import]
        return found

    def hidden(self) -> list[str]:
        """Imports that don't say what they import: by a star, or by a name that is put together."""
        nodes = [(name, node) for name, tree in self.trees.items() for node in ast.walk(tree)]
        return [f"{name}: {ast.unparse(node)}" for name, node in nodes if hides_something(node)]

    def busy_inits(self) -> list[str]:
        """An `__init__` that does something, so that importing one file of a room imports others."""
        rooms = self.inits - {self.package}  # the package's own answers a stop that comes early
        bodies = {name: self.trees[name] for name in sorted(rooms)}
        return [name for name, tree in bodies.items() if len(tree.body) != 1 or not ast.get_docstring(tree)]


def hides_something(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[ast.expr() as first, *_]):
            by_name = name in ("import_module", "__import__", "run_module", "run_path")
            stands_there = isinstance(first, ast.Constant | ast.Subscript)  # itself, or in a table of names
            return by_name and not stands_there
    return False


def stated_order() -> list[str]:
    """The rooms as CONTRIBUTING lines them up: each may import those to its left."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\w+(?: <- \w+)+$", text, re.M)
    return line.split(" <- ")


HOUSE = House(ROOT / "helpers")


def test_contributing_lines_up_all_rooms():
    assert sorted(stated_order()) == sorted({HOUSE.room_of(name) for name in HOUSE.trees})
    assert stated_order()[-1] == DOORS


def test_no_files_import_each_other_in_a_circle():
    assert HOUSE.circles() == []


def test_rooms_import_each_other_in_the_stated_order_and_no_room_imports_a_door():
    assert HOUSE.against(stated_order()) == []


def test_every_import_says_what_it_imports():
    assert HOUSE.hidden() == []


def test_an_init_is_a_docstring():
    assert HOUSE.busy_inits() == []


# ---------------------------------------------------------------- the test itself
SOUND = {
    "__init__.py": "import os",
    "core/__init__.py": '"""Core."""',
    "core/gpt.py": "from helpers.support import errors",
    "support/__init__.py": '"""Support."""',
    "support/errors.py": "import math",
    "gpt.py": "from helpers.core.gpt import GPT",
}
ORDER = ["support", "core", DOORS]


@pytest.fixture
def built(tmp_path):
    """A house of files that are sound, but for the changed ones."""

    def build(changed: dict[str, str]) -> House:
        for name, text in (SOUND | changed).items():
            path = tmp_path / "helpers" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return House(tmp_path / "helpers")

    return build


def objections(house: House) -> list[str]:
    return [*house.circles(), *house.against(ORDER), *house.hidden(), *house.busy_inits()]


def test_a_sound_house_passes(built):
    house = built({})
    assert objections(house) == [] and house.arrows["helpers.core.gpt"] >= {"helpers.support.errors"}


@pytest.mark.parametrize(
    "text",
    [
        "from helpers.core import gpt",
        "from helpers.core.gpt import GPT",
        "import helpers.core.gpt as g",
        "def late():\n    from helpers.core import gpt",
        "from ..core import gpt",
        "import importlib\nimportlib.import_module('helpers.core.gpt')",
        "import runpy\nrunpy.run_module('helpers.core.gpt', run_name='__main__')",
        "if TYPE_CHECKING:\n    from helpers.core.gpt import GPT",
    ],
)
def test_an_arrow_upwards_and_its_circle_are_seen_wherever_they_stand(built, text):
    house = built({"support/errors.py": text})
    assert "helpers.support.errors imports helpers.core.gpt" in house.against(ORDER)
    assert len(house.circles()) == 1


def test_a_circle_within_a_room_is_seen(built):
    house = built(
        {"core/gpt.py": "from helpers.core import data", "core/data.py": "def f():\n    from helpers.core import gpt"}
    )
    (circle,) = house.circles()
    assert {"helpers.core.gpt", "helpers.core.data"} <= set(circle.split(" imports ")) and not house.against(ORDER)


@pytest.mark.parametrize("text", ["from helpers.gpt import GPT", "from helpers import gpt", "import helpers.gpt"])
def test_a_door_that_is_imported_inside_is_seen(built, text):
    assert built({"core/data.py": text}).against(ORDER) == ["helpers.core.data imports helpers.gpt"]


def test_a_door_that_another_door_imports_is_seen(built):
    assert built({"attention.py": "from helpers.gpt import GPT"}).against(ORDER) == [
        "helpers.attention imports helpers.gpt"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "from helpers.support.errors import *",
        "importlib.import_module(f'helpers.{name}')",
        "import_module('.'.join(names))",
        "__import__(name)",
        "runpy.run_module(name, run_name='__main__')",
    ],
)
def test_an_import_that_does_not_say_what_it_imports_is_seen(built, line):
    assert objections(built({"core/gpt.py": f"def f(name):\n    {line}"})) == [
        f"helpers.core.gpt: {ast.unparse(ast.parse(line))}"
    ]


@pytest.mark.parametrize("text", ['"""Core."""\nfrom helpers.core.gpt import GPT', "", "x = 1"])
def test_an_init_that_does_something_is_seen(built, text):
    assert objections(built({"core/__init__.py": text})) == ["helpers.core"]
