"""`TimeQuery`: the times and series at which the user wants values, and merging them with rows."""

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Int

from nrtsi.core.ragged import place_in_group
from nrtsi.errors import InputError
from nrtsi.tables.clock import Times, parse_step
from nrtsi.tables.detection import Columns, Owners, quote, time_index
from nrtsi.tables.reading import open_frame
from nrtsi.tables.timestamps import to_arrow

__all__ = ["MergedTimes", "TimeQuery"]

_MAX_ROWS = 100_000_000  # of a grid; a longer one is a wrong unit


@dataclass(frozen=True)
class TimeQuery:
    """Times at which values are queried, each in one series."""

    times: Times
    owner: Int[np.ndarray, " query"]  # index of the series of each time

    @classmethod
    def read(cls, at: Any, ids: tuple[Any, ...], columns: Columns) -> "TimeQuery":
        """Reads `at`: times for all series `ids`, or a frame of times (and ids).

        Times are a column, list, array or single value; a frame has the time column of the data.
        """
        if isinstance(nw.from_native(at, pass_through=True), nw.DataFrame | nw.LazyFrame):
            frame = open_frame(at)
            times = Times.read(_time_column(frame, columns), "at")
            if columns.id in frame.columns:
                return cls(times, _series_index(Owners.read(frame.get_column(columns.id)), ids))
        else:
            times = Times.read(_times_array(at), "at")
        tiled = replace(times, ticks=np.tile(times.ticks, len(ids)))
        return cls(tiled, np.repeat(np.arange(len(ids)), times.ticks.size))

    @classmethod
    def grid(
        cls, times: Times, start: Int[np.ndarray, " bound"], every: str | float
    ) -> "TimeQuery":
        """For each series the times from its first to its last row in steps of `every`."""
        step = parse_step(every, times.kind, "every")
        if times.kind == "datetime":
            nanoseconds = round(step)
            tick = next(t for t in (times.tick, 1_000_000, 1_000, 1) if nanoseconds % t == 0)
            times = times.refine(tick)
            step = nanoseconds // times.tick
        elif times.ticks.dtype != np.int64 or not step.is_integer():
            times = replace(times, ticks=times.ticks.astype(np.float64))
        first, last = times.ticks[start[:-1]], times.ticks[start[1:] - 1]
        step, count = _steps_between(first, last, step)
        owner = np.repeat(np.arange(count.size), count)
        ticks = first[owner] + place_in_group(count) * step
        return cls(replace(times, ticks=ticks), owner)


def _steps_between(first: np.ndarray, last: np.ndarray, step: float) -> tuple[float, np.ndarray]:
    """The step in the type of the ticks, and how many times fit from first to last."""
    if first.dtype == np.int64:
        step = min(int(step), 2**62)  # longer than any series; longer steps exceed 64 bits
        # As unsigned integers, differences of up to 2**64 are exact.
        count = (last.view(np.uint64) - first.view(np.uint64)) // np.uint64(step) + np.uint64(1)
    else:
        with np.errstate(over="ignore"):
            # The tolerance keeps a last row that a rounding error puts before the grid's end.
            count = np.floor((last - first) / step + 1e-9) + 1
    total = count.sum(dtype=np.float64)
    if total > _MAX_ROWS:
        raise InputError(
            f"every must give at most {_MAX_ROWS:,} rows, got {total:,.0f}; use a longer step"
        )
    return step, count.astype(np.int64)


def _series_index(owners: Owners, ids: tuple[Any, ...]) -> Int[np.ndarray, " query"]:
    index = {each: i for i, each in enumerate(ids)}
    unknown = [each for each in owners.ids if each not in index]
    if unknown:
        raise InputError(
            f"queried series must be in the data, got {quote(unknown)}; the data have {quote(ids)}"
        )
    return np.array([index[each] for each in owners.ids])[owners.code]


def _time_column(frame: nw.DataFrame[Any], columns: Columns) -> nw.Series[Any]:
    index = time_index(frame)
    if columns.time in frame.columns:
        return frame.get_column(columns.time)
    if index is not None:
        return index
    if columns.time is None and len(frame.columns) == 1:
        return frame.get_column(frame.columns[0])
    raise InputError(
        f"the table of queried times must have the time column {columns.time!r}, "
        f"got {quote(frame.columns)}; rename the column"
    )


def _times_array(at: Any) -> Any:
    column = nw.from_native(at, pass_through=True, allow_series=True)
    if isinstance(at, np.ndarray) and at.ndim > 1:
        raise InputError(f"at must have one dimension, got the shape {at.shape}; flatten it")
    if isinstance(at, np.ndarray):
        column = at.reshape(-1)
    elif isinstance(at, str) or not hasattr(at, "__len__"):
        column = [at]
    array = to_arrow(column, "at")
    if len(array) == 0:
        raise InputError("at must hold at least one time, got none; add one, or leave at out")
    return array


@dataclass(frozen=True)
class MergedTimes:
    """The rows of a table and of a query, sorted together; equal times are one row."""

    times: Times
    owner: Int[np.ndarray, " row"]
    original_rows: Int[np.ndarray, " original"]  # the merged row of each row of the table
    query_rows: Int[np.ndarray, " query"]  # the merged row of each queried time

    @classmethod
    def merge(cls, times: Times, owner: np.ndarray, query: TimeQuery) -> "MergedTimes":
        """Merges; both must have the same ticks, as `Times.align` gives them."""
        ticks = np.concatenate([times.ticks, query.times.ticks])
        code = np.concatenate([owner, query.owner])
        order = np.lexsort((ticks, code))
        code, ticks = code[order], ticks[order]
        new = np.ones(order.size, bool)
        new[1:] = (code[1:] != code[:-1]) | (ticks[1:] != ticks[:-1])
        row = np.empty(order.size, np.int64)
        row[order] = np.cumsum(new) - 1
        original, queried = np.split(row, [times.ticks.size])
        return cls(replace(times, ticks=ticks[new]), code[new], original, queried)
