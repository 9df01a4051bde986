"""The packages: every version is pinned, and every file that pip takes is the one that we saw."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable

import pytest
from packaging.requirements import Requirement

from helpers import ROOT

# Each list, its part of pyproject.toml, and its lock.
LISTS = {"requirements": "reading", "requirements-dev": "dev"}


def lines_of(name: str) -> list[str]:
    return [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def pinned(name: str) -> dict[str, Requirement]:
    """What a list asks for, but for what it takes from another."""
    requirements = [Requirement(line) for line in lines_of(f"{name}.txt") if "==" in line]
    return {requirement.name: requirement for requirement in requirements}


def locked(name: str) -> dict[str, set[str]]:
    """Name of a package -> its versions in the lock, one for each kind of machine. Each has a hash."""
    versions: dict[str, set[str]] = {}
    text = (ROOT / "tools" / f"{name}.lock").read_text(encoding="utf-8")
    for package, version, rest in re.findall(r"^([a-z0-9-]+)==([^ ]+)(.*(?:\n    .*)*)", text, re.M):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest), package
        versions.setdefault(package, set()).add(version)
    return versions


def ranges(name: str) -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = project["dependencies"] if name == "requirements" else project["optional-dependencies"]["dev"]
    return {requirement.name: requirement for requirement in map(Requirement, texts)}


@pytest.mark.parametrize("name", LISTS)
def test_pins_lie_in_the_ranges_and_stand_in_the_lock(name):
    pins, allowed, lock = pinned(name), ranges(name), locked(name)
    assert set(pins) - {"setuptools"} == set(allowed)
    for package, requirement in pins.items():
        version = str(requirement.specifier).removeprefix("==")
        assert package == "setuptools" or version in allowed[package].specifier, package
        assert lock.get(package) == (None if package == "torch" else {version}), package


def test_the_list_for_reading_is_short_and_the_other_one_adds_to_it():
    assert "-r requirements.txt" in lines_of("requirements-dev.txt")
    assert "-e ." in lines_of("requirements.txt")
    reading, developing = locked("requirements"), locked("requirements-dev")
    assert all(developing.get(package) == versions for package, versions in reading.items())
    assert not {"sphinx", "playwright", "ruff", "hypothesis"} & set(reading)


def test_the_package_builds_with_the_setuptools_that_is_locked():
    (build,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert build == f"setuptools{pinned('requirements')['setuptools'].specifier}"


@pytest.mark.parametrize("name", LISTS)
def test_a_lock_names_no_index_and_no_folder(name):
    text = (ROOT / "tools" / f"{name}.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|index|file:|find-links|^-e|(?<!sha)/", text.split("\n", 2)[2], re.M)


def imported(folders: Iterable[str]) -> dict[str, str]:
    """The packages that Python files in these folders import, each with a file that does."""
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    ours |= {path.stem for path in (ROOT / "tests").rglob("*.py")}
    packages = {}
    for path in [path for folder in folders for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            tops = {name.partition(".")[0] for name in names}
            packages |= {top: path.name for top in tops - set(sys.stdlib_module_names) - ours}
    return packages


SITE = (
    "docutils",
    "latex2mathml",
    "sphinx",
)  # which only the site imports: whoever reads has neither
WEEKLY = ("transformers",)  # which the weekly workflow installs by itself


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folders", "lists", "apart"),
    [
        (("helpers", "exercises", "pictures", "tools"), ["requirements"], SITE),
        (("tests",), ["requirements", "requirements-dev"], WEEKLY),
    ],
)
def test_what_is_imported_is_declared(folders, lists, apart):
    """By pyproject.toml itself: that another package happens to bring it is luck."""
    declared = {re.sub(r"[-_.]+", "-", name).lower() for each in lists for name in ranges(each)}
    owners = importlib.metadata.packages_distributions()
    undeclared = {
        f"{file} imports {top}"
        for top, file in imported(folders).items()
        if top not in apart and not {re.sub(r"[-_.]+", "-", name).lower() for name in owners.get(top, ())} & declared
    }
    assert not undeclared


def test_conda_defers_to_the_one_list():
    assert "- -r requirements.txt" in lines_of("environment.yml") and "==" not in "".join(lines_of("environment.yml"))
