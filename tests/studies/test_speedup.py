"""How much faster several are: what is measured, on a model of nothing."""

import sys
from pathlib import Path

import pytest

from helpers.core.gpt import GPTConfig
from helpers.studies.speedup import V, measured

sys.path.append(str(Path(__file__).parents[1] / "scaling"))
from members import together


@pytest.mark.slow
def test_all_measure_together_and_every_part_takes_time():
    found = together(2, lambda team: measured(team, GPTConfig(V, 64, n_layer=1, n_head=1, n_embd=4), rounds=1))
    for seconds in found:
        assert seconds["parameters"] == 65 * 4 + 64 * 4 + 12 * 4 * 4 + 3 * 4
        assert {"alone", "shared", "half", "both", "update", "send"} < seconds.keys()
        assert all(value > 0 for value in seconds.values())
