"""Who imports whom, read from the syntax trees: one way, and never in a circle.

A newcomer who reads helpers/ need not know the rooms, and who reads those need not know the
pictures.
"""

import ast
from functools import cache
from graphlib import TopologicalSorter

from helpers import ROOT

# Each may import those before it.
HOUSES = (
    "helpers",
    "helpers.rooms",
    "pictures",
    "exercises",
    "tools",
)


def files() -> dict[str, ast.Module]:
    """Every module of the project by its dotted name."""
    paths = [path for house in ("helpers", "pictures", "exercises", "tools") for path in (ROOT / house).rglob("*.py")]
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths}
    return {name: ast.parse(path.read_text("utf-8")) for path, name in names.items()}


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules that a file imports, at its top or inside a function."""
    imports = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"relative import in line {node.lineno}: write the whole name"
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            imports |= (parts & modules) or {node.module}
    return imports & modules


def house_of(name: str) -> int:
    """The place in HOUSES; the longest name that fits counts."""
    return max(i for i, house in enumerate(HOUSES) if name == house or name.startswith(house + "."))


@cache
def arrows() -> dict[str, set[str]]:
    trees = files()
    return {name: imported(tree, set(trees)) - {name} for name, tree in trees.items()}


def test_there_is_no_circle():
    list(TopologicalSorter(arrows()).static_order())  # raises CycleError, which names the circle


def test_arrows_point_one_way():
    against = [f"{a} imports {b}" for a, others in arrows().items() for b in others if house_of(b) > house_of(a)]
    assert not against


def test_no_two_files_of_the_package_share_a_name():
    names = [path.stem for path in (ROOT / "helpers").rglob("*.py") if path.stem != "__init__"]
    assert sorted(set(names)) == sorted(names)
