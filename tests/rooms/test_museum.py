"""The museum's program is healthy, and the check that it names sees each fault."""

import pytest

from helpers.rooms import museum_checks as checks
from helpers.rooms import museum_faults as faults
from helpers.rooms.museum_program import Program

pytestmark = pytest.mark.slow  # every check of every fault: seconds


@pytest.fixture(scope="module")
def said():
    return checks.table([Program, *faults.FAULTS])


def test_the_healthy_program_passes_every_check(said):
    assert not any(said["Program"].values())


def test_a_fault_is_seen_by_the_check_that_is_named(said):
    for kind in faults.FAULTS:
        sentence = said[kind.__name__][kind.seen_by]
        assert sentence and not sentence.startswith("raises"), kind


def test_every_check_sees_a_fault_and_none_sees_all(said):
    rows = [row for name, row in said.items() if name != "Program"]
    seen = {name: sum(bool(row[name]) for row in rows) for name in checks.CHECKS}
    assert min(seen.values()) >= 1 and max(seen.values()) < len(rows) / 2
    assert {kind.seen_by for kind in faults.FAULTS} <= set(checks.CHECKS)
