"""What keeps an answer from doing harm: an end to endless loops, to floods of print, to changed settings."""

import io
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np
import torch

from helpers.gpt import one_thread

MOST_PRINTED = 2000  # characters


class TooLongError(BaseException):
    """No Exception: an answer's `except Exception` must not swallow it."""


@contextmanager
def harmless(seconds: float) -> Iterator[None]:
    """Around all that an answer does: afterwards, PyTorch's settings and random numbers are as before.

    TooLongError where it takes longer than `seconds`. What it prints is cut.
    """
    with_gradients, kind = torch.is_grad_enabled(), torch.get_default_dtype()
    state, numpys_state = random.getstate(), np.random.get_state()  # noqa: NPY002  the old one is global
    printed = _Printed(sys.stdout)
    try:
        with (
            torch.random.fork_rng(devices=[]),
            warnings.catch_warnings(),
            redirect_stdout(printed),
            one_thread(),  # tables are small, and on a busy machine threads wait for each other
            at_most(seconds),
        ):
            warnings.simplefilter("ignore")  # tables of one number make some that readers never see
            torch.manual_seed(0)
            yield
    finally:
        torch.set_grad_enabled(with_gradients)
        torch.set_default_dtype(kind)
        random.setstate(state)
        np.random.set_state(numpys_state)  # noqa: NPY002
        if printed.left < 0:
            print(f"\n[... and {-printed.left:,} characters more that it prints]")


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLongError in a block that computes, or waits, for longer.

    On a busy machine it may take six times as long. Without signals, the reader interrupts it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "SIGALRM"):  # Windows has none
        yield
        return
    start, start_of_work = time.monotonic(), time.process_time()

    def stop(*_: Any) -> None:
        worked, waited = time.process_time() - start_of_work, time.monotonic() - start
        if worked >= 0.9 * seconds or waited >= 6 * seconds:
            raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    # Again and again: a bare `except:` swallows it.
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


class _Printed(io.TextIOBase):
    """Passes on what is printed, up to MOST_PRINTED characters."""

    def __init__(self, to: Any):
        self.to = to
        self.left = MOST_PRINTED

    def write(self, text: str) -> int:
        if self.left > 0:
            self.to.write(text[: self.left])
        self.left -= len(text)
        return len(text)
