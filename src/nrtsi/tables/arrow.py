"""Keeps pyarrow from importing pandas where no table of pandas can occur."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pyarrow as pa

__all__ = ["do_without_pandas"]


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Refuses pandas, and leaves everything else to the finders that follow."""
        if name == "pandas":
            raise ImportError("pyarrow shall do without")
        return None


def do_without_pandas() -> None:
    """Has pyarrow find, once and early, that there is no pandas.

    pyarrow imports pandas with the first scalar it makes, to know a pandas object if it meets one,
    and that takes a sixth of the time that filling a small file takes. It asks but once. Where it
    cannot do without, as in `to_pandas`, it imports pandas after all; and where pandas is imported
    already, nothing changes. For a process that is all our own, such as a command.
    """
    refusal = _NoPandas()
    sys.meta_path.insert(0, refusal)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(refusal)
