"""What all tests of the exercises have in common."""

import pytest

from exercises import judge


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch):
    """A busy machine is no fault of an answer."""
    monkeypatch.setattr(judge, "SECONDS", 60.0)
