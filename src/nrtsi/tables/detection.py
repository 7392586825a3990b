"""Column roles: which column is the time, the id and the values; detected unless named."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Int

from nrtsi.errors import InputError
from nrtsi.tables.clock import Times
from nrtsi.tables.timestamps import to_arrow

__all__ = ["BY_ROW_NUMBER", "Columns", "Detection", "Owners", "detect", "quote", "time_index"]

BY_ROW_NUMBER = "time: the row number"  # begins the note that no time column was found
_TIME_NAMES = (
    "timestamp", "datetime", "date_time", "time", "date", "ds", "utc", "time_utc", "ts",
    "measured_at", "observed_at", "recorded_at", "valid_time", "t",
)  # fmt: skip
_ID_NAMES = (
    "unique_id", "series_id", "series", "item_id", "id", "uid", "station_id", "station",
    "sensor_id", "sensor", "device_id", "device", "site_id", "site", "location_id", "location",
    "patient_id", "patient", "subject", "entity", "group", "key", "name", "item", "symbol",
    "ticker", "store",
)  # fmt: skip
_DATE_PARTS = (
    "year", "quarter", "month", "week", "day", "weekday", "dayofweek", "dayofyear", "hour",
    "minute", "second",
)  # fmt: skip
_DATETIME = (nw.Datetime, nw.Date)
_TEXT = (nw.String, nw.Object)
_LABEL = (nw.String, nw.Categorical, nw.Enum)
_SHOWN = 12  # names in a message before the rest is counted


def quote(names: Iterable[Any]) -> str:
    """Names quoted and joined; a long list is cut.

    >>> quote(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


@dataclass(frozen=True)
class Columns:
    """Names of the time, id and value columns; None is detected."""

    time: str | None = None
    id: str | None = None
    values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            raise InputError(
                f"columns must be a list of names, got the text {self.values!r}; "
                f"write [{self.values!r}]"
            )
        if self.values is not None:
            object.__setattr__(self, "values", tuple(self.values))
        named = self.named
        repeated = [name for i, name in enumerate(named) if name in named[:i]]
        if repeated:
            raise InputError(
                f"time, id and columns must name different columns, got {quote(repeated)} twice; "
                f"name each column once"
            )

    @property
    def named(self) -> list[str]:
        """All names that are given."""
        names = (self.time, self.id, *(self.values or ()))
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Owners:
    """The series of each row."""

    code: Int[np.ndarray, " row"]  # index of the series of each row, by appearance
    ids: tuple[Any, ...] = (0,)  # the id of each series

    @classmethod
    def read(cls, column: nw.Series[Any]) -> "Owners":
        """The series of each row from the id column."""
        name = f"id column {column.name!r}"
        array = to_arrow(column, name)
        absent = np.asarray(array.is_null(nan_is_null=True))
        if absent.any():
            raise InputError(
                f"{name} must be known in every row, got a missing id at row "
                f"{int(absent.argmax())} (the first is row 0); drop the row or give it an id"
            )
        coded = array.dictionary_encode()
        return cls(np.asarray(coded.indices).astype(np.int64), tuple(coded.dictionary.to_pylist()))

    def sort(self, times: Times) -> tuple[Int[np.ndarray, " row"], Bool[np.ndarray, " pair"]]:
        """The order by series and time; True for successive rows with the same series and time."""
        # Compared, not subtracted: differences of 64-bit integers wrap around.
        code, ticks = self.code, times.ticks
        later = (code[1:] == code[:-1]) & (ticks[1:] > ticks[:-1])
        if (later | (code[1:] > code[:-1])).all():
            return np.arange(code.size), np.zeros_like(later)
        order = np.lexsort((ticks, code))
        code, ticks = code[order], ticks[order]
        return order, (code[1:] == code[:-1]) & (ticks[1:] == ticks[:-1])


@dataclass(frozen=True)
class Detection:
    """Column roles, the times and series of the rows, and notes on what was detected."""

    columns: Columns
    times: Times
    owners: Owners
    notes: tuple[str, ...] = ()

    def sort(self) -> Int[np.ndarray, " row"]:
        """The order by series and time; raises InputError if a series has a time twice."""
        order, repeated = self.owners.sort(self.times)
        if repeated.any():
            self._raise_repeated(int(order[repeated.argmax()]), int(repeated.sum()))
        return order

    def _raise_repeated(self, line: int, count: int) -> None:
        code, ticks = self.owners.code, self.times.ticks
        equal = int(((code == code[line]) & (ticks == ticks[line])).sum())
        series = f" in series {self.owners.ids[code[line]]!r}" if len(self.owners.ids) > 1 else ""
        remedy = "" if self.columns.id is not None else ", or name the id column with id="
        if equal == 2 and self.times.is_local:
            remedy += " (if an hour repeats at the end of summer time, give times with a zone)"
        raise InputError(
            f"times must be unique inside a series, got {equal} rows at {self.times.show(line)!r}"
            f"{series} (repeated rows in total: {count}); remove or average them{remedy}"
        )


def detect(frame: nw.DataFrame[Any], columns: Columns, *, fitted: bool) -> Detection:
    """Finds the time, id and value columns that the user did not name, in this order.

    If `fitted`, `columns` are those of a fitted model; an absent one is reported as such.
    """
    index = time_index(frame)
    indexed = index is not None and columns.time in (None, index.name)
    _check_present(frame, columns, index.name if index is not None and indexed else None, fitted)
    times: Times | None
    if index is not None and indexed and columns.time not in frame.columns:
        notes = ["time: the index (detected)"] if columns.time is None else []
        columns, times = replace(columns, time=None), Times.read(index, "the index")
    elif columns.time is not None:
        notes, times = [], _read_times(frame, columns.time)
    else:
        name, times, note = _detect_time(frame, columns)
        notes, columns = [note], replace(columns, time=name)
    columns, owners = _detect_id(frame, columns, times, notes)
    if columns.values is None:
        dated = times is not None and times.kind == "datetime"
        columns = replace(columns, values=_detect_values(frame, columns, notes, dated=dated))
    _check_values(frame, columns.values or ())
    times = Times.row_numbers(owners.code) if times is None else times
    return Detection(columns, times, owners, tuple(notes))


def time_index(frame: nw.DataFrame[Any]) -> nw.Series[Any] | None:
    """The datetime index of a pandas frame as a column; None for other frames."""
    index = nw.maybe_get_index(frame)
    if index is None or index.nlevels > 1:
        return None
    column = nw.from_native(index.to_series(index=range(len(index))), series_only=True)
    return column if isinstance(column.dtype, nw.Datetime) else None


def _check_present(frame: nw.DataFrame[Any], columns: Columns, index: Any, fitted: bool) -> None:
    present = [*frame.columns, *([index] if index is not None else [])]
    absent = [name for name in columns.named if name not in present]
    if not absent:
        return
    if fitted:
        raise missing_fitted(columns, absent, present)
    close = get_close_matches(str(absent[0]), [str(name) for name in present], n=1)
    similar = f"; did you mean {close[0]!r}?" if close else ""
    hint = "" if nw.maybe_get_index(frame) is None else " (reset_index makes an index a column)"
    raise InputError(
        f"the data must have every named column, got no {quote(absent)}; its columns are "
        f"{quote(frame.columns)}{similar}{hint}"
    )


def missing_fitted(columns: Columns, absent: Sequence[Any], present: Sequence[Any]) -> InputError:
    """The error for data that lack columns of a fitted model."""
    return InputError(
        f"the data must have the columns the model was fitted on, {quote(columns.named)}; "
        f"it lacks {quote(absent)} and has {quote(present)}; rename its columns, or fit again"
    )


def _check_values(frame: nw.DataFrame[Any], names: Sequence[str]) -> None:
    if not names:
        raise InputError(
            f"the data must have at least one numeric column to impute, got "
            f"{quote(frame.columns)}; name numeric columns with columns="
        )
    for name in names:
        dtype = frame.get_column(name).dtype
        if not dtype.is_numeric():
            raise InputError(
                f"column {name!r} must be numeric, got {dtype}; convert it to numbers, "
                f"or leave it out of columns="
            )


def _read_times(frame: nw.DataFrame[Any], name: str) -> Times:
    return Times.read(frame.get_column(name), f"time column {name!r}")


def _read_times_or_none(frame: nw.DataFrame[Any], name: str) -> Times | None:
    with suppress(InputError):
        return _read_times(frame, name)
    return None


def _with_usual_name(columns: list[str], usual: Sequence[str]) -> list[str]:
    """The columns that have one of the usual names, in any case, in the order of these."""
    found = {str(name).casefold(): name for name in reversed(columns)}
    return [found[name] for name in usual if name in found]


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_integer() or dtype.is_float())


def _detect_time(
    frame: nw.DataFrame[Any], columns: Columns
) -> tuple[str | None, Times | None, str]:
    """The time column, its times, and a note: by name, by type, then by content."""
    free = {name: kind for name, kind in frame.schema.items() if name not in columns.named}
    possible = [n for n, d in free.items() if isinstance(d, _DATETIME + _TEXT) or _is_number(d)]
    for name in _with_usual_name(possible, _TIME_NAMES)[:1]:
        return name, _read_times(frame, name), f"time: column {name!r} (detected)"
    dated = [name for name, dtype in free.items() if isinstance(dtype, _DATETIME)]
    dated = [name for name in dated if not frame.get_column(name).is_null().any()]
    if len(dated) == 1:
        note = f"time: column {dated[0]!r} (detected, the only one with datetimes)"
        return dated[0], _read_times(frame, dated[0]), note
    if dated:
        reason = f"columns {quote(dated)} all hold datetimes"
        return None, None, f"{BY_ROW_NUMBER} ({reason}; name one with time=)"
    for name in (name for name, dtype in free.items() if isinstance(dtype, _TEXT)):
        times = _read_times_or_none(frame, name)
        if times is not None and times.kind == "datetime":
            return name, times, f"time: column {name!r} (detected: it holds dates)"
    first = frame.columns[0]
    times = _increasing_times(frame, first) if first in free else None
    if times is not None:
        return first, times, f"time: column {first!r} (detected: it always increases)"
    return None, None, f"{BY_ROW_NUMBER} (no time column was found; name one with time=)"


def _increasing_times(frame: nw.DataFrame[Any], name: str) -> Times | None:
    """The numbers of a column that increase from row to row; None if they do not."""
    others = any(dtype.is_numeric() for each, dtype in frame.schema.items() if each != name)
    dtype = frame.schema[name]
    wide = dtype in (nw.Int128, nw.UInt128)  # not supported by Arrow
    # The only numeric column is the one to impute, whatever its values.
    if len(frame) < 2 or not others or wide or not _is_number(dtype):
        return None
    times = _read_times_or_none(frame, name)
    # Compared as floats, which times become: distinct large integers may be equal as floats.
    return times if times is not None and _increase(times.ticks.astype(np.float64)) else None


def _increase(numbers: np.ndarray) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _detect_id(
    frame: nw.DataFrame[Any], columns: Columns, times: Times | None, notes: list[str]
) -> tuple[Columns, Owners]:
    """The id column, if any: a usual name, or the only text column if times repeat."""
    if columns.id is not None:
        return columns, Owners.read(frame.get_column(columns.id))
    single = Owners(np.zeros(len(frame), np.int64))
    repeated = times is not None and bool(single.sort(times)[1].any())
    for name in _id_candidates(frame, columns, by_type=repeated):
        if frame.get_column(name).is_null().any():
            continue
        owners = Owners.read(frame.get_column(name))
        if repeated and times is not None:
            suitable = not owners.sort(times)[1].any()
        else:
            # A column that differs in every row counts the rows; it does not group them.
            suitable = 1 < len(owners.ids) < len(frame)
        if suitable:
            notes.append(f"id: column {name!r} (detected, {len(owners.ids)} series)")
            return replace(columns, id=name), owners
    return columns, single


def _id_candidates(frame: nw.DataFrame[Any], columns: Columns, *, by_type: bool) -> list[str]:
    free = {name: kind for name, kind in frame.schema.items() if name not in columns.named}
    labels = [name for name, dtype in free.items() if isinstance(dtype, _LABEL)]
    integers = [name for name, dtype in free.items() if dtype.is_integer()]
    found = _with_usual_name([name for name in free if name in labels + integers], _ID_NAMES)
    if by_type and len(labels) == 1 and labels[0] not in found:
        found.append(labels[0])
    return found


def _detect_values(
    frame: nw.DataFrame[Any], columns: Columns, notes: list[str], *, dated: bool
) -> tuple[str, ...]:
    """The numeric columns except parts of dates, row counters and empty columns."""
    free = {name: frame.get_column(name) for name in frame.columns if name not in columns.named}
    numeric = [name for name, column in free.items() if column.dtype.is_numeric()]
    empty = [name for name, column in free.items() if _is_empty(column)]
    parts = [name for name in numeric if _is_date_part(free[name])]
    counters = [name for name in numeric if name not in parts and _is_counter(free[name])]
    usable = [name for name in numeric if name not in (*parts, *counters)]
    # If all are empty they are kept, so that reading reports that nothing was observed.
    values = [name for name in usable if name not in empty] or usable
    empty = [name for name in empty if name not in values]
    others = [name for name in free if name not in (*numeric, *empty)]
    gappy = [name for name in others if free[name].is_null().any()]
    join = "" if dated else "; join them into one time column to use the real times"
    for role, names, one, many in (
        ("values", values, "detected", "detected"),
        ("left out", parts, "a part of the date", f"parts of the date{join}"),
        ("left out", counters, "it counts the rows", "they count the rows"),
        ("left out", empty, "nothing observed", "nothing observed"),
        ("not imputed", gappy, "not numeric", "not numeric"),
    ):
        if len(names) == 1:
            notes.append(f"{role}: column {quote(names)} ({one})")
        elif names:
            notes.append(f"{role}: columns {quote(names)} ({many})")
    return tuple(values)


def _is_date_part(column: nw.Series[Any]) -> bool:
    named = str(column.name).casefold() in _DATE_PARTS
    return named and column.dtype.is_integer() and not column.is_null().any()


def _is_counter(column: nw.Series[Any]) -> bool:
    """Whether the numbers increase by one from row to row."""
    if not column.dtype.is_integer() or len(column) < 2 or column.is_null().any():
        return False
    numbers = column.to_numpy()
    # Compared first, because differences of 64-bit integers wrap around.
    return _increase(numbers) and bool((np.diff(numbers) == 1).all())


def _is_empty(column: nw.Series[Any]) -> bool:
    known = column.drop_nulls()
    return bool(known.is_nan().all()) if column.dtype.is_float() else len(known) == 0
