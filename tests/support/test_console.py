"""What a command says, and how it ends: in one sentence, with the right status."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import errors, tables
from helpers.errors import ConfigError, CorpusError

ROOT = Path(__file__).parents[2]


def test_table():
    text = tables.table(["part", "parameters"], [("head", 8320), ("all", 804096)])
    assert text.splitlines() == ["part  parameters", "head       8,320", "all      804,096"]


def test_a_column_is_a_column_whatever_stands_in_it():
    text = tables.table(["", "loss", "x"], [("a", 1.25, ""), ("longer", 10, "yes")])
    assert text.splitlines() == ["        loss  x", "a       1.25", "longer    10  yes"]
    assert tables.table(["name", "value"], []) == "name  value"


def test_a_row_has_one_form():
    assert tables.row([0.5, 1]) == "0.50 1.00" and tables.row(["a", "bc"], ">3") == "  a  bc"


def end(action):
    """The exit status of a command that does `action`, whatever its arguments."""
    return errors.command(lambda arguments: action(), [])


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (ConfigError("seed must be a number"), 2, "error: seed must be a number\n"),
        (CorpusError("two\nlines"), 2, "error: two lines\n"),
        (ConfigError("\x1b[2Jred \u202egnp.txt"), 2, "error: \\x1b[2Jred \\u202egnp.txt\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (MemoryError(), 2, "error: out of memory: choose a smaller model, batch or text\n"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C\n"),
        (errors.Stopped(signal.SIGTERM, "after 3 steps"), 143, "stopped by SIGTERM: after 3 steps\n"),
    ],
)
def test_a_command_ends_with_one_sentence(capsys, error, status, sentence):
    assert end(lambda: fail(error)) == status
    assert capsys.readouterr().err == sentence


def test_a_fault_of_ours_is_no_sentence():
    """What nobody foresaw must be seen whole, to be mended."""
    with pytest.raises(ZeroDivisionError):
        end(lambda: 1 / 0)


@pytest.mark.parametrize("name", errors.STOPPED_BY)
def test_signals_end_a_command_and_leave_their_handlers(name, capsys):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    assert end(lambda: signal.raise_signal(number)) == 128 + number
    assert capsys.readouterr().err == f"stopped by {errors.STOPPED_BY[name]}\n"
    assert signal.getsignal(number) == before


def test_a_stop_waits_for_the_end_of_a_step_and_the_second_one_does_not():
    done = []
    with pytest.raises(errors.Stopped), errors.stop_requests() as stop:
        signal.raise_signal(signal.SIGINT)
        done.append(stop.number)
        signal.raise_signal(signal.SIGINT)
        done.append("never")
    assert done == [signal.SIGINT]


def test_a_second_signal_while_the_sentence_is_said_changes_nothing():
    code = """
import signal
from helpers import errors, tables
errors.printable = lambda text: (signal.raise_signal(signal.SIGTERM), text)[1]
errors.leave(lambda: errors.command(lambda _: signal.raise_signal(signal.SIGTERM), []))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "stopped by SIGTERM\n")


def test_a_signal_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with errors.stop_requests() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_a_terminal_would_obey_is_escaped(capsys, monkeypatch):
    text = "tab\tand\nline, caf\u00e9 \u4e2d; \x1b[31m \x07 \x9b \u200f \u2066 \u200b"
    shown = "tab\tand\nline, caf\u00e9 \u4e2d; \\x1b[31m \\x07 \\x9b \\u200f \\u2066 \\u200b"
    assert errors.printable(text) == shown
    errors.say(text)
    assert capsys.readouterr().out == text + "\n"  # a pipe gets the text
    monkeypatch.setattr(errors.sys.stdout, "isatty", lambda: True)
    errors.say(text)
    assert capsys.readouterr().out == shown + "\n"


@pytest.mark.torture  # whether Python itself has begun by then depends on the machine
@pytest.mark.parametrize("wait", [0.4, 0.8, 1.4])
def test_who_stops_a_command_before_it_has_begun_reads_a_sentence(tmp_path, wait):
    command = [sys.executable, "-m", "helpers.training", "--preset", "smoke", "--max-steps", "1000000"]
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([*command, "--out", tmp_path / str(number)], cwd=ROOT, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        time.sleep(wait)  # while PyTorch arrives, or soon after: in each case one line and the right status
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 128 + number and len(said.splitlines()) == 1 and said.startswith("stopped by")


@pytest.mark.torture
def test_a_closed_stdout_is_no_reason_to_fail(tmp_path):
    options = f"--preset smoke --max-steps 1 --sample-length 5 --out {tmp_path / 'run'}"
    done = subprocess.run(
        f"{sys.executable} -m helpers.training {options} >&-", shell=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == "" and (tmp_path / "run" / "sample.txt").exists()
