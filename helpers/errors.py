"""The errors that this project raises on purpose: one sentence each."""

import signal


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
