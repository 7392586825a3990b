"""Imputes Parquet files of any size in shards, and resumes interrupted runs.

The names load on first use: a look at a file's size must not wait for PyTorch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nrtsi.scale.run import Summary, impute_files

__all__ = ["Summary", "impute_files"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'nrtsi.scale' has no attribute {name!r}")
    from nrtsi.scale import run

    return getattr(run, name)
