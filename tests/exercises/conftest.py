"""What all tests of the judges have in common."""

import pytest

import exercises


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch):
    """A busy machine is no fault of an answer: only what is tested for its time has little of it."""
    monkeypatch.setattr(exercises, "SECONDS", 60.0)
