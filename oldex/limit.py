"""An answer without an end is stopped."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn


class TooLongError(BaseException):
    """No Exception: an answer's `except Exception` must not swallow it."""


def at_most(seconds: float) -> AbstractContextManager[None]:
    """Raise TooLongError in a block that takes longer, before its next line of Python.

    By a signal in the main thread of a system that has SIGALRM; elsewhere by a trace, which makes Python slower.
    """
    has_signal = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    return _by_signal(seconds) if has_signal else _by_trace(seconds)


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    handler = signal.signal(signal.SIGALRM, _stop)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again and again: a bare `except:` swallows it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)  # one that ran before goes on, a little later
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)


@contextmanager
def _by_trace(seconds: float) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(_Trace(seconds))
    try:
        yield
    finally:
        sys.settrace(before)


def _stop(*_: Any) -> NoReturn:
    raise TooLongError


class _Trace:
    """A trace, which Python calls before every line. It stops the first line that comes too late."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def __call__(self, *_: Any) -> "_Trace":
        if time.monotonic() >= self.end:
            _stop()
        return self
