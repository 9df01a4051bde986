"""An answer without an end is stopped."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TooLongError(BaseException):
    """No Exception: an answer's `except Exception` must not swallow it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLongError in a block that takes longer, before its next line of Python.

    By a signal in the main thread of a system that has SIGALRM; elsewhere by a trace, which makes Python slower.
    """

    def stop(*_: Any) -> None:
        raise TooLongError

    def trace(*_: Any) -> Any:
        return trace if time.monotonic() < end else stop()

    end = time.monotonic() + seconds
    if hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread():
        handler = signal.signal(signal.SIGALRM, stop)
        left = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again and again: a bare `except:` swallows it
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *left)  # one that ran before goes on, a little later
            signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
    else:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
