"""One family of errors: each message says in a sentence what was wrong and what is allowed."""


class HelpersError(ValueError):
    """Parent of every error that this package raises on purpose."""


class ConfigError(HelpersError):
    """A setting is of the wrong type or outside its allowed range."""


class CorpusError(HelpersError):
    """A text can't be loaded, or is too short or too uniform to train on."""


class VocabularyError(HelpersError):
    """A character or token id is not in the vocabulary."""


class CheckpointError(HelpersError):
    """A checkpoint is missing, damaged, foreign, or of another run."""


class RunError(HelpersError):
    """A run folder can't be used: another training holds it, or what lies there must not be replaced."""


class StorageError(HelpersError):
    """A file can't be written: the disk is full, or the place is not ours to write to."""


class TrainingError(HelpersError):
    """Training can't go on, for example because the loss is no longer a number."""


class TeamError(TrainingError):
    """The processes that train together have lost one of them."""


class LedgerError(HelpersError, AssertionError):
    """A tensor does not reproduce the number that a source prints."""


class CheckError(HelpersError, AssertionError):
    """A property that must hold does not."""
