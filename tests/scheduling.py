"""A plugin of pytest: which worker runs which test, and when; and which tests belong to one notebook.

What takes longest starts first, so that all workers end together. A notebook's cells stay on one worker, and so do
tests that share a set-up of seconds.
"""

import contextlib
import gc
import os
import re
import sys
import warnings
from pathlib import Path

# A second of every process that imports nbformat, to check addresses that we lack: before any plugin imports it.
sys.modules["rfc3987_syntax"] = None  # ty: ignore[invalid-assignment]

import pytest  # noqa: E402
import warm  # noqa: E402
from xdist.scheduler import LoadFileScheduling  # noqa: E402

IN_TURN = ("08_nanogpt_shakespeare.ipynb", "09_sampling.ipynb")  # 09 takes the run that 08 leaves in $NANOGPT_RUNS
LONG = (*IN_TURN, "07_transformer_block.ipynb", "00_why_attention.ipynb")
WHOLE = ("test_stored.py", "test_torture.py", "test_gpt2_folder.py", "test_site.py")  # they share a set-up of seconds
ALONE = ("test_notebook_run.py", "test_curves.py")  # each test takes seconds, and they share nothing
OF_NOTEBOOKS = ("tests/lessons", "tests/grading/test_exercises.py", "tests/tooling/test_publish.py")


NOTEBOOK = pytest.StashKey[str]()


# ---------------------------------------------------------------- who runs it
def unit_of(nodeid: str) -> str:
    """What one worker runs in one go: a notebook (08 and then 09), all tests about one notebook's exercises, or a test
    with all its parameters."""
    path, _, test = nodeid.partition("::")
    name = Path(path).name
    if name in IN_TURN:
        return "in turn"
    if name in WHOLE or path.endswith(".ipynb"):
        return path
    if name in ALONE:
        return nodeid
    exercise = re.match(r".*\[(\d+)[a-z]", test) if name == "test_exercises.py" else None
    return f"{path}::{exercise[1]}" if exercise else f"{path}::{test.split('[')[0]}"


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


# ---------------------------------------------------------------- when
def place_of(item: pytest.Item) -> int:
    """What is long comes first, in LONG's order; then notebooks and slow tests; what is quick fills the gaps."""
    if item.path.name in LONG:
        return LONG.index(item.path.name)
    is_slow = item.get_closest_marker("slow") or item.path.suffix == ".ipynb"
    return len(LONG) if is_slow else len(LONG) + 1


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """With cores to spare, 08 and 09 take longer than all else side by side: they get a second thread, and the other
    workers give way. On two cores a second thread would only take the other worker's core."""
    is_worker = hasattr(item.config, "workerinput")
    if not is_worker or (os.cpu_count() or 1) < 4 or item.session.items[0].path.name not in IN_TURN:
        return
    if item.path.name in IN_TURN:
        os.environ["OMP_NUM_THREADS"] = str(max(2, int(os.environ.get("OMP_NUM_THREADS", 1))))
    elif os.nice(0) < 5:
        os.nice(5)


# ---------------------------------------------------------------- what belongs to one notebook
def one_notebook() -> str:
    """The name of the notebook that NB asks for, without its ending; empty when it asks for none."""
    asked = os.environ.get("NB", "")
    if not asked:
        return ""
    import notebooks  # slow, and needed here alone
    from helpers.errors import ConfigError

    try:
        (path,) = notebooks.find_notebooks(asked)
    except ConfigError as problem:
        raise pytest.UsageError(str(problem)) from None
    return path.stem


def belongs(nodeid: str, notebook: str) -> bool:
    """Is it in this notebook or its solutions, or a test that names it, its number or one of its exercises?"""
    number = notebook[:2]
    return bool(re.search(rf"(?<!\d){number}_|solutions_{number}|\[{int(number)}[a-z]\b", nodeid))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOTEBOOK] = one_notebook()
    if "nbval.kernel" in sys.modules:
        start_kernels_again()
        warm.start()  # in the first process: the workers find it in their environment
        warm.use()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What can't belong to the notebook isn't even imported."""
    notebook = config.stash[NOTEBOOK]
    place = collection_path.relative_to(config.rootpath).as_posix()
    if notebook and collection_path.suffix == ".ipynb":
        return None if belongs(place, notebook) else True
    if notebook and collection_path.suffix == ".py":
        return None if place.startswith(OF_NOTEBOOKS) else True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    if notebook := config.stash[NOTEBOOK]:
        others = [item for item in items if not belongs(item.nodeid, notebook)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    items.sort(key=place_of)  # what is equally long keeps its order


# ---------------------------------------------------------------- kernels
def start_kernels_again() -> None:
    """nbval starts a kernel again that did not start: of several begun at once, two may pick the same free port."""
    kernel = sys.modules["nbval.kernel"]
    start = kernel.start_new_kernel

    def start_or_again(*args, **options):
        with contextlib.suppress(RuntimeError):
            return start(*args, **options)
        with warnings.catch_warnings(action="ignore"):  # or what it has left open would fail whichever test is next
            gc.collect()
        return start(*args, **options)

    kernel.start_new_kernel = start_or_again
