"""What every command needs: options, one sentence on an error, a way to stop, words for the terminal."""

import argparse
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from helpers.errors import ConfigError, HelpersError, Stopped

SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # Windows has none
    SIGNALS.append(signal.SIGHUP)


# What PyTorch says where memory is short, on CUDA and on a CPU.
OUT_OF_MEMORY = "out of memory", "can't allocate memory", "not enough memory"


class Options(argparse.ArgumentParser):
    """The options of a command. A mistake in them is a ConfigError: one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; --help lists the options")


def command(main: Callable[[list[str]], None], arguments: list[str] | None = None) -> int:
    """Run `main(arguments)` and return the exit status.

    That is 0, or 2 after an error, or 128 + n after signal n; then the user reads one sentence on
    stderr. Of the processes that torchrun has started, one speaks.
    """
    try:
        with stop_requests(patience=1):
            main(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
        return 0
    except HelpersError as error:
        sentence, status = f"error: {error}", 2
    except KeyboardInterrupt as stop:
        stopped = stop if isinstance(stop, Stopped) else Stopped(signal.SIGINT)
        sentence, status = str(stopped), 128 + stopped.signal_number
    except BrokenPipeError:  # whoever read our output has read enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except OSError as error:  # a full disk behind stdout, for example
        sentence, status = f"error: {reason(error)}", 2
    except (MemoryError, RuntimeError) as error:
        is_out_of_memory = isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
        if not is_out_of_memory:
            raise
        sentence, status = "error: out of memory: choose a smaller model, batch or text", 2
    if os.environ.get("RANK", "0") == "0":
        print(printable(sentence.replace("\n", " ")), file=sys.stderr)
    return status


def reason(error: OSError) -> str:
    """What the system says, and of which file."""
    suffix = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{suffix}"


@contextmanager
def stop_requests(patience: int = 3) -> Iterator[list[int]]:
    """The signals that have come; a loop that looks there can finish its step, and save.

    From the third on (`patience`) each raises Stopped at once. (Two may be one: torchrun passes on
    what the terminal has sent already.) What the caller ignores (nohup does that to SIGHUP) stays
    ignored, and outside the main thread Python allows no handlers.
    """
    received: list[int] = []

    def note(signal_number: int, frame: object) -> None:
        received.append(signal_number)
        if len(received) >= patience:
            raise Stopped(signal_number)

    earlier = {}
    if threading.current_thread() is threading.main_thread():
        earlier = {number: signal.getsignal(number) for number in SIGNALS}
    replaced = {n: old for n, old in earlier.items() if old not in (None, signal.SIG_IGN)}
    try:
        for number in replaced:
            signal.signal(number, note)
        yield received
    finally:
        for number, old in replaced.items():
            signal.signal(number, old)


def say(text: object = "", end: str = "\n", to: Any = None) -> None:
    """Print at once. A terminal must not obey a corpus: it gets control characters escaped."""
    to = to or sys.stdout
    print(printable(str(text)) if to.isatty() else text, end=end, file=to, flush=True)


def printable(text: str) -> str:
    """`text` with control, bidi and other invisible characters escaped."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text)
