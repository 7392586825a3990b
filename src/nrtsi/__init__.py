"""Non-recurrent time series imputation.

Only the names listed in `__all__` are public. They load on first use, so that
`import nrtsi` and `nrtsi --help` do not wait for PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nrtsi.errors import (
        CheckpointError,
        InputError,
        NotFittedError,
        NrtsiError,
        TrainingError,
    )
    from nrtsi.evaluation.pooling import Pooled, pool
    from nrtsi.imputer.functions import impute, load
    from nrtsi.imputer.nrtsi import NRTSI

__version__ = "0.1.0"

_HOME = {
    "NRTSI": "imputer.nrtsi",
    "impute": "imputer.functions",
    "load": "imputer.functions",
    "pool": "evaluation.pooling",
    "Pooled": "evaluation.pooling",
    "CheckpointError": "errors",
    "InputError": "errors",
    "NotFittedError": "errors",
    "NrtsiError": "errors",
    "TrainingError": "errors",
}

__all__ = [
    "NRTSI",
    "impute",
    "load",
    "pool",
    "Pooled",
    "CheckpointError",
    "InputError",
    "NotFittedError",
    "NrtsiError",
    "TrainingError",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'nrtsi' has no attribute {name!r}")
    return getattr(import_module(f"nrtsi.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
