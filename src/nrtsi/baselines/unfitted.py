"""The error of a model that is not fitted; in a file of its own because of what it imports."""

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from nrtsi.errors import NotFittedError

__all__ = ["UnfittedError"]


class UnfittedError(NotFittedError, SklearnNotFittedError):
    """Ours and scikit-learn's at once, so that either can be caught."""
