"""The question "values at these times only": what was asked, and the table that answers it."""

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from nrtsi.errors import InputError
from nrtsi.tables.cells import as_kind, scatter_arrow
from nrtsi.tables.clock import datetime_step, number_step
from nrtsi.tables.columns import Columns, Owners, owners_of
from nrtsi.tables.frames import arrow_list, arrow_of, frame_of, listed, time_index
from nrtsi.tables.times import Times, read_times

__all__ = ["TimeQuery", "query_of", "blank_array", "blank_frame", "grid_of"]

_MOST = 100_000_000  # rows of a grid; more is a slip of the unit, not a wish


@dataclass(frozen=True)
class TimeQuery:
    """Times asked of series."""

    times: Times
    owner: Int[np.ndarray, " asked"]
    """Index of the series each time is asked of."""


def grid_of(times: Times, start: Int[np.ndarray, " bound"], every: str | float) -> TimeQuery:
    """For each series the times from its first to its last, `every` apart.

    Raises:
        InputError: `every` is no length of the times' kind, or the grid would be huge.
    """
    if times.kind == "number":
        return _number_grid(times, start, number_step(every, "every"))
    step = round(datetime_step(every, "every") * 1e9)
    tick = next(size for size in (times.tick, 1_000_000, 1_000, 1) if step % size == 0)
    times = times.finer(tick)
    return _regular(times, start, step // times.tick)


def _number_grid(times: Times, start: np.ndarray, every: float) -> TimeQuery:
    if times.ticks.dtype == np.int64 and every.is_integer():
        return _regular(times, start, int(every))
    return _regular(replace(times, ticks=times.ticks.astype(np.float64)), start, every)


def _regular(times: Times, start: np.ndarray, step: float) -> TimeQuery:
    first, last = times.ticks[start[:-1]], times.ticks[start[1:] - 1]
    if times.ticks.dtype == np.int64:
        step = min(int(step), 2**62)  # longer than any series; larger ones are no 64-bit integers
        # As unsigned integers, differences of up to 2**64 are right.
        count = (last.view(np.uint64) - first.view(np.uint64)) // np.uint64(step) + np.uint64(1)
    else:
        with np.errstate(over="ignore"):
            # A last row that a rounding error puts before the grid's end still belongs to it.
            count = np.floor((last - first) / step + 1e-9) + 1
    if count.sum(dtype=np.float64) > _MOST:
        raise InputError(
            f"every must leave at most {_MOST:,} rows, got {count.sum(dtype=np.float64):,.0f}; "
            f"take a longer step"
        )
    count = count.astype(np.int64)
    owner = np.repeat(np.arange(count.size), count)
    place = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    return TimeQuery(replace(times, ticks=first[owner] + place * step), owner)


def query_of(times: Any, ids: Any, known: tuple[Any, ...], columns: Columns) -> TimeQuery:
    """What the caller asks for; without ids, every time of every series.

    Raises:
        InputError: No time, another number of ids than of times, or an unknown series.
    """
    if isinstance(times, TimeQuery):
        return times
    moments, owners = _frame_asked(times, columns) if _is_frame(times) else (None, None)
    if moments is None:
        moments = read_times(_arrow(times, "at"), "at")
    if ids is not None:
        owners = owners_of(nw.from_native(pa.table({"ids": _arrow(ids, "ids")})), "ids")
    if owners is None:
        count = moments.ticks.size
        everywhere = replace(moments, ticks=np.tile(moments.ticks, len(known)))
        return TimeQuery(everywhere, np.repeat(np.arange(len(known)), count))
    if owners.code.size != moments.ticks.size:
        raise InputError(
            f"ids must be as many as the times asked for, {moments.ticks.size}, "
            f"got {owners.code.size}; give one id a time, or none"
        )
    return TimeQuery(moments, _known(owners, known))


def _known(owners: Owners, known: tuple[Any, ...]) -> Int[np.ndarray, " asked"]:
    place = {each: i for i, each in enumerate(known)}
    strange = [each for each in owners.ids if each not in place]
    if strange:
        raise InputError(
            f"series asked for must be in the data, got {listed(strange)}; there are "
            f"{listed(known)}"
        )
    return np.array([place[each] for each in owners.ids])[owners.code]


def _is_frame(times: Any) -> bool:
    return isinstance(nw.from_native(times, pass_through=True), nw.DataFrame | nw.LazyFrame)


def _frame_asked(times: Any, columns: Columns) -> tuple[Times, Owners | None]:
    frame = frame_of(times)
    index = time_index(frame)
    if columns.time in frame.columns:
        column = frame.get_column(columns.time)
    elif index is not None:
        column = index
    elif columns.time is None and len(frame.columns) == 1:
        column = frame.get_column(frame.columns[0])
    else:
        raise InputError(
            f"the table of times asked for must have the time column {columns.time!r}, "
            f"got {listed(frame.columns)}; rename the column"
        )
    owners = owners_of(frame, columns.id) if columns.id in frame.columns else None
    return read_times(arrow_of(column, "at"), "at"), owners


def _arrow(items: Any, what: str) -> Any:
    column = nw.from_native(items, pass_through=True, allow_series=True)
    if isinstance(column, nw.Series):
        array = arrow_of(column, what)
    elif isinstance(items, str) or not hasattr(items, "__len__"):
        array = arrow_list([items], what)
    else:
        if isinstance(items, np.ndarray) and items.ndim != 1:
            items = items.reshape(-1) if items.ndim == 0 else _refuse_shape(items, what)
        array = arrow_list(items, what)
    if len(array) == 0:
        raise InputError(
            f"{what} must hold at least one entry, got none; leave it out, or fill it"
        )
    return array


def _refuse_shape(items: np.ndarray, what: str) -> Any:
    raise InputError(f"{what} must be one list, got an array of shape {items.shape}; flatten it")


def blank_array(
    array: np.ndarray, source: Int[np.ndarray, " asked"], lines: np.ndarray, asked: TimeQuery
) -> np.ndarray:
    """An array of the asked rows, what stands in the data copied, the rest to be filled.

    Raises:
        InputError: Series are asked for different numbers of times.
    """
    flat = array.reshape(-1, array.shape[-1])
    series = array.shape[0] if array.ndim == 3 else 1
    count = np.bincount(asked.owner, minlength=series)
    if (count != count[0]).any() or (np.diff(asked.owner) < 0).any():
        raise InputError(
            f"every series of an array must be asked for equally many times, series by series, "
            f"got {count.min()} to {count.max()}; ask for the same, or give a long frame"
        )
    blank = flat[lines[source]]
    if array.dtype.kind == "f":
        blank[source < 0] = np.nan
    shape = (series, int(count[0])) if array.ndim == 3 else (int(count[0]),)
    return blank.reshape(*shape, array.shape[-1])


def blank_frame(
    frame: nw.DataFrame[Any],
    columns: Columns,
    times: Times,
    line: Int[np.ndarray, " asked"],
    added: Bool[np.ndarray, " asked"],
) -> nw.DataFrame[Any]:
    """A frame of the asked rows: time, id and value columns of lines of the data.

    Rows that were added have the right time and id and, as placeholders, the values of `line`.
    """
    wanted = {columns.time, columns.id, *(columns.values or ())}
    names = [name for name in frame.columns if name in wanted]
    index = time_index(frame) if columns.time is None else None
    rows = nw.maybe_reset_index(frame.select(names)[line, :])
    rows = rows.with_columns(*(_blanked(rows.get_column(n), added) for n in columns.values or ()))
    if columns.time is not None:
        column = frame.get_column(columns.time)
        return rows.with_columns(_timed(column[line], times, added))
    if index is not None and times.kind == "datetime":
        return nw.maybe_set_index(rows, index=_timed(index[line], times, added))
    return rows


def _blanked(column: nw.Series[Any], added: Bool[np.ndarray, " asked"]) -> nw.Series[Any]:
    """The column with unknown cells in the added rows, where its type has such a thing."""
    lines = np.flatnonzero(added)
    if not lines.size:
        return column
    if not column.implementation.is_pandas_like():
        kind = column.head(1).to_arrow().type
        return column.scatter(lines, as_kind(pa.nulls(lines.size, kind), column))
    if isinstance(column.to_native().dtype, np.dtype):
        unknown = np.full(lines.size, np.nan)
        return column.scatter(lines, unknown) if column.dtype.is_float() else column
    return column.scatter(lines, [None] * lines.size)


def _timed(
    column: nw.Series[Any], times: Times, added: Bool[np.ndarray, " asked"]
) -> nw.Series[Any]:
    if not added.any():
        return column
    written = times.to_arrow()
    if written.type == times.type or times.style is not None:
        lines = np.flatnonzero(added)
        return scatter_arrow(column, lines, written.take(pa.array(lines)))
    return as_kind(written, column)
