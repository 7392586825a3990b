"""What columns are guessed to be, where the caller named none: the time and the values."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from nrtsi.errors import InputError
from nrtsi.tables.cells import floats
from nrtsi.tables.frames import arrow_of, listed
from nrtsi.tables.times import Times, read_times
from nrtsi.tables.timestamps import readable

__all__ = ["BY_ROW_NUMBER", "guess_time", "guess_values", "times_of"]

BY_ROW_NUMBER = "time: the row number"
"""How the sentence begins that says that no time was found."""

_TIME_NAMES = (
    "timestamp", "datetime", "date_time", "time", "date", "ds", "utc", "time_utc", "ts",
    "measured_at", "observed_at", "recorded_at", "valid_time", "t",
)  # fmt: skip
_DATE_PARTS = (
    "year", "quarter", "month", "week", "day", "weekday", "dayofweek", "dayofyear", "hour",
    "minute", "second",
)  # fmt: skip
_TRIED = 20  # rows of a text column that are read before the whole of it is


def times_of(frame: nw.DataFrame[Any], name: str) -> Times:
    """The times in the column of this name.

    Raises:
        InputError: They cannot be used.
    """
    what = f"time column {name!r}"
    return read_times(arrow_of(frame.get_column(name), what), what)


def guess_time(
    frame: nw.DataFrame[Any], taken: Collection[str | None]
) -> tuple[str | None, Times | None, str]:
    """The time among the columns that are not taken, its times, and a sentence that says so.

    Raises:
        InputError: A column is named like a time, but its times cannot be used.
    """
    free = {name: dtype for name, dtype in frame.schema.items() if name not in taken}
    by_name = _first_named(free, _TIME_NAMES, _may_be_time)
    if by_name is not None:
        return by_name, times_of(frame, by_name), f"time: column {by_name!r} (guessed)"
    moments = [name for name, dtype in free.items() if _is_moment(dtype)]
    moments = [name for name in moments if not frame.get_column(name).is_null().any()]
    if len(moments) == 1:
        why = "guessed, the only one with datetimes"
        return moments[0], times_of(frame, moments[0]), f"time: column {moments[0]!r} ({why})"
    if moments:
        why = f"columns {listed(moments)} all hold datetimes; name one with time="
        return None, None, f"{BY_ROW_NUMBER} ({why})"
    return _time_by_content(frame, free)


def _time_by_content(
    frame: nw.DataFrame[Any], free: dict[str, Any]
) -> tuple[str | None, Times | None, str]:
    texts = (name for name, dtype in free.items() if isinstance(dtype, nw.String | nw.Object))
    for name in texts:
        times = _written_times(frame, name)
        if times is not None:
            return name, times, f"time: column {name!r} (guessed: it holds dates)"
    first = frame.columns[0]
    times = _increasing_times(frame, first) if first in free else None
    if times is not None:
        return first, times, f"time: column {first!r} (guessed: it always increases)"
    why = "no column of times was found; name one with time="
    return None, None, f"{BY_ROW_NUMBER} ({why})"


def _written_times(frame: nw.DataFrame[Any], name: str) -> Times | None:
    """The datetimes of a text column; None where a row of it holds anything else."""
    try:
        head = pa.array(arrow_of(frame.get_column(name).head(_TRIED), name).to_pylist())
        if pa.types.is_string(head.type) and not readable(head):
            return None
        times = times_of(frame, name)
    except InputError:
        return None
    return times if times.kind == "datetime" else None


def _increasing_times(frame: nw.DataFrame[Any], name: str) -> Times | None:
    """The numbers of a column that increase from row to row; None where they do not."""
    others = any(dtype.is_numeric() for each, dtype in frame.schema.items() if each != name)
    dtype = frame.schema[name]
    wide = dtype in (nw.Int128, nw.UInt128)  # unknown to Arrow
    # The only column of numbers is what the caller wants filled, whatever its values.
    if len(frame) < 2 or not others or wide or not (dtype.is_integer() or dtype.is_float()):
        return None
    try:
        times = times_of(frame, name)
    except InputError:
        return None
    # As floats, since that is what times become: large numbers may not be told apart then.
    ticks = times.ticks.astype(np.float64)
    return times if (ticks[1:] > ticks[:-1]).all() else None


def _first_named(
    schema: dict[str, Any], names: Sequence[str], suits: Callable[[Any], bool]
) -> str | None:
    """The column with the earliest of these names, in any case, whose type suits."""
    there = {str(name).casefold(): name for name in reversed(schema) if suits(schema[name])}
    return next((there[name] for name in names if name in there), None)


def _is_moment(dtype: Any) -> bool:
    return isinstance(dtype, nw.Datetime | nw.Date)


def _may_be_time(dtype: Any) -> bool:
    numeric = dtype.is_integer() or dtype.is_float()
    return _is_moment(dtype) or numeric or isinstance(dtype, nw.String | nw.Object)


def guess_values(
    frame: nw.DataFrame[Any], taken: Collection[str | None], *, dated: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The columns to fill among those that are not taken, and sentences that say so.

    Args:
        frame: The caller's frame.
        taken: The columns of time and id.
        dated: Whether the times are datetimes, so that parts of a date add nothing.
    """
    free = {name: frame.get_column(name) for name in frame.columns if name not in taken}
    numeric = [name for name, column in free.items() if column.dtype.is_numeric()]
    nothing = [name for name, column in free.items() if _holds_nothing(column)]
    parts = [name for name in numeric if _is_date_part(free[name])]
    counters = [name for name in numeric if name not in parts and _counts(free[name])]
    usable = [name for name in numeric if name not in (*parts, *counters)]
    # Where nothing at all was observed, that is what the caller must hear.
    values = [name for name in usable if name not in nothing] or usable
    nothing = [name for name in nothing if name not in values]
    others = [name for name in free if name not in (*numeric, *nothing)]
    gappy = [name for name in others if free[name].is_null().any()]
    join = "" if dated else "; join them into one time column to use the real times"
    sentences = [
        *_sentence("values", values, "guessed", "guessed"),
        *_sentence("left out", parts, "a part of the date", f"parts of the date{join}"),
        *_sentence("left out", counters, "it counts the rows", "they count the rows"),
        *_sentence("left out", nothing, "nothing observed", "nothing observed"),
        *_sentence("not filled", gappy, "not numbers", "not numbers"),
    ]
    return tuple(values), sentences


def _sentence(what: str, names: Sequence[str], why_one: str, why_many: str) -> list[str]:
    """What became of these columns and why, in one sentence; none where there are no columns."""
    if not names:
        return []
    noun, why = ("column", why_one) if len(names) == 1 else ("columns", why_many)
    return [f"{what}: {noun} {listed(names)} ({why})"]


def _is_date_part(column: nw.Series[Any]) -> bool:
    named = str(column.name).casefold() in _DATE_PARTS
    return named and column.dtype.is_integer() and not column.is_null().any()


def _counts(column: nw.Series[Any]) -> bool:
    """Whether the numbers go up by one from row to row."""
    if not column.dtype.is_integer() or len(column) < 2 or column.is_null().any():
        return False
    numbers = column.to_numpy()
    # Compared first, since differences of 64-bit integers wrap around.
    later = numbers[1:] > numbers[:-1]
    return bool(later.all() and (np.diff(numbers) == 1).all())


def _holds_nothing(column: nw.Series[Any]) -> bool:
    if column.dtype.is_float():
        return bool(np.isnan(floats(column)).all())
    return bool(column.is_null().all())
