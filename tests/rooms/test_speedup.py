"""How much faster several are: each measurement times the work that it says."""

import pytest
from members import together

from helpers.gpt import GPT, GPTConfig
from helpers.rooms import speedup

SMALL = GPTConfig(speedup.V, speedup.T, n_layer=1, n_head=1, n_embd=4)


def work_of():
    """What `measured` would time: a process's texts in each work, and whether all work at once.

    The function that takes the time does the work once, and notes that instead.
    """
    texts = []
    forward = GPT.forward
    GPT.forward = lambda model, tokens, **given: (
        texts.append(len(tokens)) or forward(model, tokens, **given)
    )

    def noted(work, rounds, together=True):
        texts.clear()
        work()
        return sum(texts), together

    speedup._seconds = noted  # in this process, which is a fork
    return speedup.measured(SMALL, rounds=1)


@pytest.mark.slow
def test_one_reads_the_whole_batch_and_each_of_two_reads_half():
    for found in together(2, work_of):
        assert found == {
            "parameters": 65 * 4 + 64 * 4 + 12 * 4 * 4 + 3 * 4,
            "alone": (12, False),
            "shared": (6, True),
            "half": (6, False),
            "both": (6, True),
            "update": (0, True),
            "send": (0, True),
        }
