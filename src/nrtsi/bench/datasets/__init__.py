"""Data sets: simulators and readers of original files; `make` makes any of them by name."""

from nrtsi.bench.datasets.registry import DATASETS, make

__all__ = ["DATASETS", "make"]
