"""Which worker runs a test, and which tests belong to one notebook."""

import sys
import types
import weakref

import scheduling


def test_a_notebook_stays_on_one_worker_and_09_goes_with_08():
    """nbval needs a kernel's cells in their order, and 09 the run that 08 leaves."""
    cells = [f"notebooks/{name}.ipynb::Cell {i}" for i in (0, 1) for name in ("07_x", "08_nanogpt_shakespeare")]
    units = [scheduling.unit_of(cell) for cell in [*cells, "notebooks/09_sampling.ipynb::Cell 3"]]
    assert units[0] == units[2] != units[1] == units[3] == units[4]


def test_one_notebook_comes_with_its_solutions_its_exercises_and_its_checks():
    """`make test NB=03` would otherwise prove less than it seems to."""
    mine = (
        "notebooks/03_query_key_value.ipynb::Cell 7",
        "notebooks/solutions/solutions_03.ipynb::Cell 0",
        "tests/grading/test_exercises.py::test_a_right_answer_is_accepted[3a-2]",
        "tests/lessons/test_notebooks.py::test_links_lead_somewhere[03_query_key_value]",
        "tests/lessons/test_03_chain.py::test_eight_ways",
        "tests/lessons/test_notebook_run.py::test_the_rows_of_03_notice_another_ledger",
    )
    others = (
        "notebooks/04_causal_mask.ipynb::Cell 3",
        "notebooks/solutions/solutions_13.ipynb::Cell 3",
        "tests/grading/test_exercises.py::test_a_right_answer_is_accepted[13a-3]",
        "tests/grading/test_exercises.py::test_a_right_answer_is_accepted[1c-3]",
    )
    assert all(scheduling.belongs(nodeid, "03_query_key_value") for nodeid in mine)
    assert not any(scheduling.belongs(nodeid, "03_query_key_value") for nodeid in others)


def test_a_kernel_that_did_not_start_is_started_again_and_leaves_nothing_open(monkeypatch):
    left_open = []

    class Channel:
        def __init__(self):
            self.kernel = self  # a circle, which only the collector finds
            left_open.append(weakref.ref(self))

    def start(*places):
        if not left_open:
            Channel()
            raise RuntimeError("Kernel died before replying to kernel_info")
        return "started", *places

    kernel = types.SimpleNamespace(start_new_kernel=start)
    monkeypatch.setitem(sys.modules, "nbval.kernel", kernel)
    scheduling.start_kernels_again()
    assert kernel.start_new_kernel("here") == ("started", "here")
    assert [channel() for channel in left_open] == [None]
