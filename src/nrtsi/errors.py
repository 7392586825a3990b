"""Errors the library raises on purpose; anything else that escapes is a bug."""

__all__ = ["CheckpointError", "InputError", "NotFittedError", "NrtsiError", "TrainingError"]


class NrtsiError(Exception):
    """Base of every error raised on purpose."""


class InputError(NrtsiError, ValueError):
    """The caller's data or setting cannot be used; the message says what to change."""


class NotFittedError(NrtsiError, ValueError, AttributeError):
    """`impute` or `sample` was called before `fit` or `load` (bases as in scikit-learn)."""


class CheckpointError(NrtsiError):
    """A saved model or checkpoint is damaged, foreign, or of a format not read here."""


class TrainingError(NrtsiError):
    """Training cannot go on; the message says why and what was kept."""
