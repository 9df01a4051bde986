"""What a command says to a person, and the one way in which it ends."""

import argparse
import io
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from helpers.support.errors import ConfigError, HelpersError

STOPPED_BY = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM"}
if os.name == "posix":  # Windows has none
    STOPPED_BY["SIGHUP"] = "SIGHUP"


class Stopped(KeyboardInterrupt):
    """Somebody asked the program to stop, by Ctrl-C or a signal; the message says what is kept and how to go on."""

    def __init__(self, number: int, told: str = ""):
        self.number, self.told = number, told
        super().__init__(f"stopped by {STOPPED_BY[signal.Signals(number).name]}" + (f": {told}" if told else ""))


# How a connection to other processes broke. While these are kept, nothing of it is cleared away, which could wait for a
# process that is gone; and `leave` does not clear away either.
unfinished: list[BaseException] = []


class Silent(Exception):
    """The end of a process whose reason another one has said already."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(status)


class Request:
    """Whether a stop was asked for, and by which signal."""

    number: int | None = None


@contextmanager
def stop_requests() -> Iterator[Request]:
    """Let a loop finish its step: inside, a first signal is only noted, for the loop to see; a second stops at once.

    Outside the main thread, where Python allows no handlers, signals do what they always did.
    """
    request = Request()

    def note(number: int, frame: object) -> None:
        if request.number is not None:
            raise Stopped(number)
        request.number = number

    with _handling(note):
        yield request


@contextmanager
def _handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    numbers = [signal.Signals[name] for name in STOPPED_BY]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.getsignal(number) for number in numbers}
    # A signal that the caller's environment ignores (nohup does that to SIGHUP) stays ignored.
    before = {number: old for number, old in before.items() if old not in (None, signal.SIG_IGN)}
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def command(main: Callable[[list[str]], None], arguments: list[str] | None = None) -> int:
    """Run `main(arguments)` and return the exit status: 0; 2 after one of our errors; 128 + n after signal n.

    Whatever goes wrong, the user reads one sentence on stderr. Another program that stops reading our output (as in
    `| head`) ends it in silence.
    """

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it, as by `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (it stays open)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack characters of the corpus
    try:
        with _handling(stop):
            main(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
        return 0
    except Silent as end:
        return end.status
    except HelpersError as error:
        return _end(f"error: {error}", status_of(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it closes stdout
        return 128 + 13
    except KeyboardInterrupt as stopped:
        stopped = stopped if isinstance(stopped, Stopped) else Stopped(signal.SIGINT)
        return _end(str(stopped), status_of(stopped))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # as PyTorch says it, on every device
            raise
        return _end("error: out of memory: choose a smaller model, batch or text", 2)
    except OSError as error:  # a full disk behind stdout, for example
        return _end(f"error: {error.strerror or error}", 2)


def status_of(end: HelpersError | KeyboardInterrupt) -> int:
    """The exit status of a command that ends so: 2 after one of our errors, 128 + n after signal n."""
    if isinstance(end, HelpersError):
        return 2
    return 128 + (end.number if isinstance(end, Stopped) else signal.SIGINT)


class Options(argparse.ArgumentParser):
    """The options of a command. A mistake in them is one sentence, as every other mistake."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{shown(message)}; --help lists the options")


def ignore_stops() -> None:
    """Signals that ask to stop change nothing any more, and interrupt nothing: a connection may break by that."""
    for name in STOPPED_BY:
        signal.signal(signal.Signals[name], signal.SIG_IGN)


def leave(main: Callable[[], int]) -> None:
    """Run `main` and end the process with its status. When all is done or said, a signal that comes changes nothing."""
    for name in STOPPED_BY:
        number = signal.Signals[name]
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # what `command` puts back when it is done
    status = main()
    ignore_stops()  # while Python closes
    if unfinished:
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _end(sentence: str, status: int) -> int:
    print(printable(sentence.replace("\n", " ")), file=sys.stderr)
    return status


def say(text: object = "", end: str = "\n") -> None:
    """Print; a terminal gets control characters escaped, a file or pipe gets the text as it is."""
    print(printable(str(text)) if sys.stdout.isatty() else text, end=end, flush=True)


def note(text: str) -> None:
    """A line about what is going on, on stderr: stdout is for what was asked for."""
    print(printable(text), file=sys.stderr, flush=True)


def shown(path: object) -> str:
    """A path as a message may show it: nothing invisible in it, and the middle left out where it is very long."""
    text = printable(str(path)).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= 200 else f"{text[:120]}...{text[-60:]}"


def printable(text: str) -> str:
    """`text` with control, bidi and other invisible characters escaped: a terminal must not obey a corpus."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text)


def row(things: Iterable[object], form: str = ".2f") -> str:
    """Numbers or words side by side, each in the same form: row([0.5, 1]) is "0.50 1.00"."""
    return " ".join(format(thing, form) for thing in things)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Text columns under a header, words to the left, numbers to the right."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    right = [bool(rows) and isinstance(rows[0][i], (int, float)) for i in range(len(header))]
    for line in cells:
        line[:] = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in cells)
