"""What a statistic returns, as an array of numbers and back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from nrtsi.errors import InputError
from nrtsi.tables import quote

__all__ = ["DrawTable", "read"]


@dataclass(frozen=True)
class DrawTable:
    """Numbers that a statistic returned, and what held them."""

    kind: str
    """What held them, in a word."""

    values: np.ndarray
    """The numbers, float64."""

    like: Callable[[np.ndarray], Any]
    """Makes of other numbers what held these."""

    labels: Any = None
    """Keys of a mapping, or the index of a Series; None where there are none."""

    def fits(self, other: "DrawTable") -> bool:
        """Whether both hold numbers for the same things in the same order."""
        if (self.kind, self.values.shape) != (other.kind, other.values.shape):
            return False
        if hasattr(self.labels, "equals"):
            return bool(self.labels.equals(other.labels))
        return bool(self.labels == other.labels)

    def names(self, most: int) -> list[str]:
        """What to call the first `most` of the numbers."""
        if self.labels is not None:
            return [str(label) for label in islice(self.labels, most)]
        return [str(list(place)) for place in islice(np.ndindex(self.values.shape), most)]

    def __str__(self) -> str:
        if self.kind == "number":
            return "a number"
        what = "an array" if self.kind == "array" else f"a {self.kind}"
        if self.labels is not None:
            return f"{what} of {quote(self.labels)}"
        return f"{what} of shape {self.values.shape}"


def read(result: Any, after: DrawTable | None = None) -> DrawTable:
    """The numbers in what a statistic returned; a mapping's in the order of those `after`.

    Raises:
        InputError: It returned something else.
    """
    if isinstance(result, Real | np.ndarray):  # before narwhals, which takes long to say no
        return _plain(result)
    if isinstance(result, Mapping):
        return _mapping(result, after)
    held = nw.from_native(result, pass_through=True, allow_series=True)
    if isinstance(held, nw.Series):
        return _series(held)
    if isinstance(held, nw.DataFrame | nw.LazyFrame) or isinstance(result, tuple):
        raise _refusal(f"a {type(result).__name__}")
    return _plain(result)


def _plain(result: Any) -> DrawTable:
    values = _floats(result)
    if values.ndim:
        return DrawTable("array", values, np.asarray)
    return DrawTable("number", values, float)


def _mapping(result: Mapping[Any, Any], after: DrawTable | None) -> DrawTable:
    keys = tuple(result)
    if after is not None and after.kind == "mapping" and set(keys) == set(after.labels):
        keys = after.labels
    numbers = [read(result[key]) for key in keys]
    if any(each.kind != "number" for each in numbers):
        raise _refusal("a mapping to something else")
    values = np.array([each.values for each in numbers], dtype=np.float64)
    return DrawTable(
        "mapping", values, lambda new: dict(zip(keys, new.tolist(), strict=True)), keys
    )


def _series(series: nw.Series[Any]) -> DrawTable:
    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise _refusal(f"a Series of {series.dtype}")
    values = _floats(series.cast(nw.Float64()).to_numpy())
    library = series.implementation.to_native_namespace()
    index = nw.maybe_get_index(series)

    def like(new: np.ndarray) -> Any:
        if index is not None:
            return library.Series(new, index=index, name=series.name)
        return nw.new_series(series.name, new, nw.Float64(), backend=library).to_native()

    return DrawTable("Series", values, like, index)


def _floats(result: Any) -> np.ndarray:
    try:
        array = np.asarray(result)
        # An object array holds decimals, or None where a number is unknown; None by itself is
        # a function that forgot to return something.
        if array.dtype.kind in "biufO" and result is not None:
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise _refusal(f"the {type(result).__name__} {result!r:.60}")


def _refusal(found: str) -> InputError:
    return InputError(
        f"statistic must return a number, an array, a Series or a mapping of numbers, or a pair "
        f"(estimate, variance) of these, got {found}; return an array or a dict of numbers"
    )
