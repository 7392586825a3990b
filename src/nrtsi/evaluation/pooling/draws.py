"""Draws one after the other, out of what holds them all."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from nrtsi.errors import InputError
from nrtsi.tables import open_frame, quote

__all__ = ["each_draw"]

_LABEL = "draw"  # the column in which `sample` tells its draws apart


def each_draw(draws: Any) -> Iterator[Any]:
    """One draw after the other, none of them made before it is asked for.

    Raises:
        InputError: These are no draws.
    """
    table = nw.from_native(draws, pass_through=True)
    if isinstance(table, nw.DataFrame | nw.LazyFrame):
        return _split(open_frame(draws))
    if isinstance(draws, np.ndarray) and draws.ndim:
        return (one.copy() for one in draws)  # a statistic may change what it is given
    if isinstance(draws, np.ndarray | Mapping | str) or not isinstance(draws, Iterable):
        raise InputError(
            f"draws must be what sample returns, or a list of tables or arrays, one a draw, "
            f"got {type(draws).__name__}; make it one"
        )
    return iter(draws)


def _split(frame: nw.DataFrame[Any]) -> Iterator[Any]:
    """The rows of each label, in the order of the labels, without the column of labels."""
    labels = _labels(frame)
    # Runs of one label, not rows, are sorted: a draw is a single run in what `sample` returns, and
    # a slice of the table need not be copied.
    start = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    stop = np.append(start[1:], labels.size)
    code = _codes(labels[start])
    order = np.argsort(code, kind="stable")
    for runs in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        yield _rows(frame, start[runs], stop[runs]).drop(_LABEL).to_native()


def _labels(frame: nw.DataFrame[Any]) -> np.ndarray:
    if _LABEL not in frame.columns:
        raise InputError(
            f"a table of draws must have a column {_LABEL!r}, got {quote(frame.columns)}; "
            f"give what sample returns, or a list of tables, one a draw"
        )
    labels = frame.get_column(_LABEL)
    if labels.is_null().any():
        raise InputError(
            f"column {_LABEL!r} must be known in every row, got a missing label; "
            f"drop the row or give it a label"
        )
    return labels.to_numpy()


def _codes(labels: np.ndarray) -> np.ndarray:
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise InputError(
            f"column {_LABEL!r} must hold labels of one type, got {' and '.join(kinds)}; "
            f"convert it to one"
        ) from None


def _rows(frame: nw.DataFrame[Any], start: np.ndarray, stop: np.ndarray) -> nw.DataFrame[Any]:
    """The rows of all these runs, in the order of the table."""
    if start.size == 1:
        return frame[int(start[0]) : int(stop[0])]
    length = stop - start
    first = np.repeat(start - (np.cumsum(length) - length), length)
    return frame[first + np.arange(first.size), :]
