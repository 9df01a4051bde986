"""What every command needs: errors of one sentence, a way to stop, whole files."""

import argparse
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn


# ---------------------------------------------------------------- the family
class HelpersError(ValueError):
    """Parent of all errors that this package raises on purpose: one sentence each."""


class ConfigError(HelpersError):
    """A setting is of the wrong type or outside its range."""


class CorpusError(HelpersError):
    """A text can't be read, is too short, or has something that isn't in the vocabulary."""


class RunError(HelpersError):
    """A run can't begin, go on, be saved or be read."""


class CheckError(HelpersError, AssertionError):
    """A property that must hold does not."""


class Stopped(KeyboardInterrupt):
    """Somebody asked the program to stop, by Ctrl-C or a signal; `result` says what is saved."""

    def __init__(self, signal_number: int, result: str = ""):
        name = "Ctrl-C" if signal_number == signal.SIGINT else signal.Signals(signal_number).name
        super().__init__(f"stopped by {name}" + (f": {result}" if result else ""))
        self.signal_number = signal_number


# ---------------------------------------------------------------- commands
SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # Windows has none
    SIGNALS.append(signal.SIGHUP)


# What PyTorch says where memory is short, on CUDA and on a CPU.
TOO_MUCH = "out of memory", "can't allocate memory", "not enough memory"


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
        is_out_of_memory = isinstance(error, MemoryError) or any(words in str(error) for words in TOO_MUCH)
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


# ---------------------------------------------------------------- files and terminals
def write(path: str | Path, content: str | bytes) -> None:
    """Replace the file at `path` by `content` (text as UTF-8): whole, or not at all.

    Missing folders are made. The bytes reach the disk under another name first, so that after a
    crash, a kill or a full disk the old file is still there. RunError when it can't be written.
    """
    path, data = Path(path), content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:  # Ctrl-C too
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        why = error.strerror or error
        raise RunError(f"can't write {path}: {why}; what was there before is kept") from None


def say(text: object = "", end: str = "\n", to: Any = None) -> None:
    """Print at once. A terminal must not obey a corpus: it gets control characters escaped."""
    to = to or sys.stdout
    print(printable(str(text)) if to.isatty() else text, end=end, file=to, flush=True)


def printable(text: str) -> str:
    """`text` with control, bidi and other invisible characters escaped."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text)
