"""A pytest plugin: two workers share long tests and notebooks; what belongs to a notebook."""

import contextlib
import gc
import re
import tomllib
import warnings
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

# Not by helpers.ROOT: jaxtyping hooks into helpers before anybody imports it.
COURSE = tomllib.loads(Path(__file__).parents[2].joinpath("notebooks", "course.toml").read_text(encoding="utf-8"))
SHARED = ("test_site.py", "test_museum.py")  # their tests share a set-up of seconds
ALONE = ("test_curves.py",)  # each test takes seconds, and they share nothing
OF_NOTEBOOKS = ("tests/lessons", "tests/exercises/test_exercises.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--notebook", action="append", default=[], help="only tests that belong to this notebook")


class Scheduling(LoadFileScheduling):
    """One worker runs all cells of a notebook, all tests about its exercises, or with one set-up;
    a test with all its parameters.

    (xdist's own groups do nothing with pytest 9.2, which knows no `_nodeid` any more.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        name = Path(path).name
        if name.endswith(".ipynb") or name in SHARED:
            return path
        if name in ALONE:
            return nodeid
        exercise = re.match(r".*\[(\d+)[a-z]", test) if name == "test_exercises.py" else None
        return f"{path}::{exercise[1] if exercise else test.partition('[')[0]}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def place_of(item: pytest.Item) -> int:
    """The long notebooks come first, in their order; then all others and slow tests; then the quick."""
    long, is_notebook = COURSE["long"], item.path.suffix == ".ipynb"
    if is_notebook and item.path.stem in long:
        return long.index(item.path.stem)
    return len(long) if is_notebook or item.get_closest_marker("slow") else len(long) + 1


def belongs(nodeid: str, notebook: str) -> bool:
    """Is it in this notebook or its solutions, or a test naming it, its number or an exercise?"""
    numbers = {room["name"]: room.get("number") for room in COURSE["rooms"]}
    number = int(notebook[:2]) if notebook[:2].isdecimal() else numbers.get(notebook)
    prefix = notebook.partition("_")[0]  # 02, or 02b, whose exercises are numbered as 02's
    names = rf"(?<!\d){prefix}_|solutions_{number:02}" if notebook in COURSE["path"] else notebook
    return bool(re.search(rf"{names}|\[{number}[a-z]\b", nodeid))


def shortened(source: str, notebook: str) -> str:
    """A cell's source with the trainings as short as course.toml has them for tests."""
    for setting, shorter in COURSE["shortened"].get(notebook, {}).items():
        source = re.sub(rf"\b{re.escape(setting)}\b", shorter, source)
    return source


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What can't belong to the notebook isn't even imported."""
    if not config.getoption("--notebook") or collection_path.suffix != ".py":
        return None
    return None if collection_path.relative_to(config.rootpath).as_posix().startswith(OF_NOTEBOOKS) else True


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    if notebooks := config.getoption("--notebook"):
        others = [item for item in items if not any(belongs(item.nodeid, notebook) for notebook in notebooks)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    for item in items:
        if item.path.stem in COURSE["shortened"]:
            item.cell.source = shortened(item.cell.source, item.path.stem)
    items.sort(key=place_of)  # what is equally long keeps its order


def pytest_configure(config: pytest.Config) -> None:
    """nbval restarts a kernel that failed to start: several at once may pick the same port."""
    from nbval import kernel

    start = kernel.start_new_kernel

    def start_or_again(*args, **options):
        with contextlib.suppress(RuntimeError):
            return start(*args, **options)
        # Or what it has left open would fail whichever test is next.
        with warnings.catch_warnings(action="ignore"):
            gc.collect()
        return start(*args, **options)

    kernel.start_new_kernel = start_or_again
