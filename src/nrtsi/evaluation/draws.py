"""Iterates over draws, and converts the values of a statistic to arrays and back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from nrtsi.errors import InputError
from nrtsi.tables import open_frame, quote

__all__ = ["StatisticValues", "each_draw"]

LABEL = "draw"  # the column of `sample` that numbers the draws


def each_draw(draws: Any) -> Iterator[Any]:
    """Yields one draw after the other; a table is split lazily."""
    table = nw.from_native(draws, pass_through=True)
    if isinstance(table, nw.DataFrame | nw.LazyFrame):
        return _split(open_frame(draws))
    if isinstance(draws, np.ndarray) and draws.ndim:
        return (one.copy() for one in draws)  # the statistic may change its argument
    if isinstance(draws, np.ndarray | Mapping | str) or not isinstance(draws, Iterable):
        raise InputError(
            f"draws must be the result of sample, or a list of tables or arrays, one for each "
            f"draw, got {type(draws).__name__}; convert it"
        )
    return iter(draws)


def _split(frame: nw.DataFrame[Any]) -> Iterator[Any]:
    """The rows of each label, in the order of the labels, without the column of labels."""
    labels = _labels(frame)
    # `sample` returns the rows of a draw together, so that each draw is a slice without a copy.
    start = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    stop = np.append(start[1:], labels.size)
    try:
        code = np.unique(labels[start], return_inverse=True)[1]
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise InputError(
            f"column {LABEL!r} must contain labels of one type, got {' and '.join(kinds)}; "
            f"convert it to one"
        ) from None
    order = np.argsort(code, kind="stable")
    for runs in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        rows: Any = slice(int(start[runs[0]]), int(stop[runs[0]]))
        if runs.size > 1:
            rows = np.concatenate([np.arange(start[run], stop[run]) for run in runs])
        yield frame[rows, :].drop(LABEL).to_native()


def _labels(frame: nw.DataFrame[Any]) -> np.ndarray:
    if LABEL not in frame.columns:
        raise InputError(
            f"a table of draws must have a column {LABEL!r}, got {quote(frame.columns)}; "
            f"pass the result of sample, or a list of tables, one for each draw"
        )
    labels = frame.get_column(LABEL)
    if labels.is_null().any():
        raise InputError(
            f"column {LABEL!r} must have a label in every row, got a missing label; "
            f"drop the row or add a label"
        )
    return labels.to_numpy()


@dataclass(frozen=True)
class StatisticValues:
    """The values that a statistic returned, and their container."""

    kind: str  # "number", "array", "Series" or "mapping"
    values: np.ndarray  # the numbers, float64
    like: Callable[[np.ndarray], Any]  # puts other numbers into a container of the same kind
    labels: Any = None  # keys of a mapping, or the index of a Series

    @classmethod
    def of(cls, result: Any, first: "StatisticValues | None" = None) -> "StatisticValues":
        """Reads the result of a statistic; a mapping in the order of keys of `first`."""
        if isinstance(result, Mapping):
            return _mapping(result, first)
        if not isinstance(result, Real | np.ndarray):  # narwhals is slow to reject these
            wrapped = nw.from_native(result, pass_through=True, allow_series=True)
            if isinstance(wrapped, nw.Series):
                return _series(wrapped)
            if isinstance(wrapped, nw.DataFrame | nw.LazyFrame) or isinstance(result, tuple):
                raise _invalid(f"a {type(result).__name__}")
        values = _floats(result)
        if values.ndim:
            return cls("array", values, np.asarray)
        return cls("number", values, float)

    def matches(self, other: "StatisticValues") -> bool:
        """True if both have the same container, shape and labels."""
        if (self.kind, self.values.shape) != (other.kind, other.values.shape):
            return False
        if hasattr(self.labels, "equals"):
            return bool(self.labels.equals(other.labels))
        return bool(self.labels == other.labels)

    def names(self, count: int) -> list[str]:
        """Labels or indices of the first `count` values."""
        if self.labels is not None:
            return [str(label) for label in islice(self.labels, count)]
        return [str(list(index)) for index in islice(np.ndindex(self.values.shape), count)]

    def __str__(self) -> str:
        if self.kind == "number":
            return "a number"
        container = "an array" if self.kind == "array" else f"a {self.kind}"
        if self.labels is not None:
            return f"{container} of {quote(self.labels)}"
        return f"{container} of shape {self.values.shape}"


def _mapping(result: Mapping[Any, Any], first: StatisticValues | None) -> StatisticValues:
    keys = tuple(result)
    if first is not None and first.kind == "mapping" and set(keys) == set(first.labels):
        keys = first.labels
    numbers = [StatisticValues.of(result[key]) for key in keys]
    if any(each.kind != "number" for each in numbers):
        raise _invalid("a mapping to something else")
    values = np.array([each.values for each in numbers], dtype=np.float64)
    return StatisticValues(
        "mapping", values, lambda new: dict(zip(keys, new.tolist(), strict=True)), keys
    )


def _series(series: nw.Series[Any]) -> StatisticValues:
    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise _invalid(f"a Series of {series.dtype}")
    values = _floats(series.cast(nw.Float64()).to_numpy())
    library = series.implementation.to_native_namespace()
    index = nw.maybe_get_index(series)

    def like(new: np.ndarray) -> Any:
        if index is not None:
            return library.Series(new, index=index, name=series.name)
        return nw.new_series(series.name, new, nw.Float64(), backend=library).to_native()

    return StatisticValues("Series", values, like, index)


def _floats(result: Any) -> np.ndarray:
    try:
        array = np.asarray(result)
        # An object array may contain decimals or None; None alone is a missing return statement.
        if array.dtype.kind in "biufO" and result is not None:
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise _invalid(f"the {type(result).__name__} {result!r:.60}")


def _invalid(found: str) -> InputError:
    return InputError(
        f"statistic must return a number, an array, a Series or a mapping of numbers, or a pair "
        f"(estimate, variance) of these, got {found}; return an array or a dict of numbers"
    )
