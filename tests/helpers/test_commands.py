"""How a command ends, in one sentence; how a loop is stopped; what a terminal is shown."""

import signal

import pytest

from helpers import ROOT, commands
from helpers.commands import SIGNALS, command, stop_requests
from helpers.errors import ConfigError, CorpusError, Stopped


def end(action):
    """The exit status of a command that does `action`, whatever its arguments."""
    return command(lambda arguments: action(), [])


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (ConfigError("seed must be a number"), 2, "error: seed must be a number\n"),
        (CorpusError("two\nlines"), 2, "error: two lines\n"),
        (ConfigError("\x1b[2Jred \u202egnp.txt"), 2, "error: \\x1b[2Jred \\u202egnp.txt\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (FileNotFoundError(2, "No such file", "a/b"), 2, "error: No such file: a/b\n"),
        (MemoryError(), 2, "error: out of memory: choose a smaller model, batch or text\n"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            2,
            "error: out of memory: choose a smaller model, batch or text\n",
        ),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C\n"),
        (Stopped(signal.SIGTERM, "after 3 steps"), 143, "stopped by SIGTERM: after 3 steps\n"),
    ],
)
def test_a_command_ends_with_one_sentence(capsys, error, status, sentence):
    assert end(lambda: fail(error)) == status
    assert capsys.readouterr().err == sentence


def test_a_fault_of_ours_is_no_sentence():
    """What nobody foresaw must be seen whole, to be mended."""
    for error in (ZeroDivisionError(), RuntimeError("CUDA error: an illegal memory access")):
        with pytest.raises(type(error)):
            end(lambda error=error: fail(error))


def test_every_program_ends_with_the_status_of_its_command():
    for path in [*ROOT.glob("helpers/**/*.py"), *ROOT.glob("tools/**/*.py")]:
        source = path.read_text(encoding="utf-8")
        _, program, last = source.partition('\nif __name__ == "__main__":\n')
        ends = "sys.exit(" in last or "parser.exit(" in source
        assert not program or ends or path.name == "setup.py", path


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_end_a_command_and_leave_their_handlers(number, capsys):
    before = signal.getsignal(number)
    assert end(lambda: signal.raise_signal(number)) == 128 + number
    assert capsys.readouterr().err.startswith("stopped by ") and signal.getsignal(number) == before


def test_a_stop_waits_for_the_end_of_a_step_and_the_third_one_does_not():
    done = []
    with pytest.raises(Stopped), stop_requests() as noted:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
            done.append([*noted])
    assert done == [[signal.SIGINT], 2 * [signal.SIGINT]]


def test_a_signal_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests() as noted:
            signal.raise_signal(signal.SIGHUP)
            assert not noted
    finally:
        signal.signal(signal.SIGHUP, before)


def test_who_imports_helpers_keeps_his_handlers():
    before = [signal.getsignal(number) for number in SIGNALS]
    import helpers.training  # noqa: F401

    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_what_a_terminal_would_obey_is_escaped(capsys, monkeypatch):
    text = "tab\tand\nline, caf\u00e9 \u4e2d; \x1b[31m \x07 \x9b \u200f \u2066 \u200b"
    shown = "tab\tand\nline, caf\u00e9 \u4e2d; \\x1b[31m \\x07 \\x9b \\u200f \\u2066 \\u200b"
    commands.say(text)
    assert capsys.readouterr().out == text + "\n"  # a pipe gets the text
    monkeypatch.setattr(commands.sys.stdout, "isatty", lambda: True)
    commands.say(text)
    assert capsys.readouterr().out == shown + "\n"
