"""The caller's frame behind narwhals: opening it, and columns as Arrow data."""

import datetime
from collections.abc import Iterable
from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.exceptions import DuplicateError

from nrtsi.errors import InputError

__all__ = ["arrow_list", "arrow_of", "frame_of", "listed", "time_index"]

_SHOWN = 12  # names listed in a message before the rest is counted


def frame_of(data: Any) -> nw.DataFrame[Any]:
    """The caller's frame behind narwhals.

    Raises:
        InputError: The data is no frame, or lazy, or names two columns alike.
    """
    try:
        frame = nw.from_native(data, pass_through=True, allow_series=True)
        if isinstance(frame, nw.DataFrame):
            names = frame.columns
    except DuplicateError:
        raise InputError(
            "column names must be unique, got the same name more than once; rename the columns"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise InputError(
            f"data must be in memory, got the lazy {_type(data)}; collect it first (.collect())"
        )
    if isinstance(frame, nw.Series):
        raise InputError(
            f"data must be a frame, got the single column {_type(data)}; make it one (.to_frame())"
        )
    if not isinstance(frame, nw.DataFrame):
        raise InputError(
            f"data must be a pandas, polars or pyarrow table or a numpy array of shape "
            f"(step, dim) or (series, step, dim), got {_type(data)}; convert it"
        )
    if any(isinstance(name, tuple) for name in names):
        raise InputError(
            f"column names must be plain, got the nested {names[0]!r}; flatten the columns"
        )
    if len(frame) == 0:
        raise InputError("data must have at least one row, got an empty table; give it rows")
    return frame


def _type(data: Any) -> str:
    return f"{type(data).__module__.split('.')[0]}.{type(data).__qualname__}"


def time_index(frame: nw.DataFrame[Any]) -> nw.Series[Any] | None:
    """The datetime index of a pandas frame as a column; None for other frames."""
    index = nw.maybe_get_index(frame)
    if index is None or index.nlevels > 1:
        return None
    moments = nw.from_native(index.to_series(index=range(len(index))), series_only=True)
    return moments if isinstance(moments.dtype, nw.Datetime) else None


def listed(names: Iterable[Any]) -> str:
    """Names quoted and joined, the tail of a long list counted.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def arrow_of(column: nw.Series[Any], what: str) -> Any:
    """A column as Arrow data; `what` names it in messages.

    Raises:
        InputError: The column mixes types.
    """
    if isinstance(column.dtype, nw.Object):
        return arrow_list(column.to_list(), what)
    return column.to_arrow()


def arrow_list(items: Any, what: str) -> Any:
    """Python values or a numpy array as Arrow data.

    Raises:
        InputError: The values are of several kinds.
    """
    if isinstance(items, pa.Array | pa.ChunkedArray):
        return items
    dtype = getattr(items, "dtype", None)
    if dtype is None or dtype.kind == "O":
        items = list(items)
        kinds = {_kind(item) for item in items} - {""}
        if len(kinds) > 1:
            raise _mixed(what, " and ".join(sorted(kinds)))
    try:
        return pa.array(items, _nanoseconds(items), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed(what, str(error).splitlines()[0]) from None


def _nanoseconds(items: Any) -> pa.DataType | None:
    """The type for moments finer than Python's own, whose last digits Arrow would drop."""
    if not isinstance(items, list):
        return None
    fine = next((item for item in items if getattr(item, "nanosecond", 0)), None)
    return None if fine is None else pa.timestamp("ns", pa.array([fine]).type.tz)


def _mixed(what: str, found: str) -> InputError:
    return InputError(f"{what} must hold values of one type, got {found}; convert it to one")


def _kind(item: Any) -> str:
    """What Arrow would silently unify and lose: the hour of a datetime among dates, a zone."""
    if isinstance(item, datetime.datetime):
        if str(item) == "NaT":  # a missing moment (pandas)
            return ""
        return "naive datetimes" if item.tzinfo is None else "datetimes with a zone"
    return "dates" if isinstance(item, datetime.date) else ""
