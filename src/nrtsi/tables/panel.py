"""`Panel`: the caller's data as a `SeriesSet`, and the way back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables.clock import Clock
from nrtsi.tables.columns import Columns
from nrtsi.tables.detection import BY_ROW_NUMBER
from nrtsi.tables.queries import TimeQuery, blank_array, blank_frame, grid_of, query_of
from nrtsi.tables.rows import Rows, array_rows, frame_rows, sort
from nrtsi.tables.times import Times, repeats, together
from nrtsi.tables.writer import ArrayWriter, FrameWriter, Writer

__all__ = ["Panel", "read"]

_GUESS = Columns()


@dataclass(frozen=True)
class Panel:
    """A caller's data as a `SeriesSet`, and the way back."""

    series: SeriesSet
    """The rows, sorted; time in units of the clock."""

    clock: Clock
    """What a unit of time is."""

    columns: Columns
    """Settled: None only where time is the index or the row number, or there is one series."""

    guesses: tuple[str, ...]
    """Sentences that say what was guessed."""

    ids: tuple[Any, ...]
    """The caller's id of each series; (0,) where there is one series without an id."""

    times: Times
    """The caller's own times of the rows of `series`."""

    original_rows: Int[np.ndarray, " original"]
    """The rows of `series` that stand in the caller's data."""

    asked_rows: Int[np.ndarray, " asked"]
    """The row of `series` of each line that `fill` returns."""

    back: Writer
    """The way back."""

    @property
    def empty(self) -> tuple[Any, ...]:
        """Ids of the series in which nothing is observed."""
        some = self.series.observed.any(axis=1)
        count = np.add.reduceat(some.astype(np.int64), self.series.start[:-1])
        return tuple(self.ids[i] for i in np.flatnonzero(count == 0))

    @property
    def nothing_known(self) -> Bool[np.ndarray, "row 1"]:
        """True for the rows of such series."""
        some = np.logical_or.reduceat(self.series.observed.any(axis=1), self.series.start[:-1])
        return ~some[self.series.owner][:, None]

    @property
    def backend(self) -> Any:
        """The library that the caller's tables are of, for narwhals; None for an array."""
        return self.back.frame.implementation if isinstance(self.back, FrameWriter) else None

    @property
    def by_row_number(self) -> bool:
        """Whether no column of times was found in a frame, so that its rows are counted."""
        return any(sentence.startswith(BY_ROW_NUMBER) for sentence in self.guesses)

    def fill(self, values: Float[np.ndarray, "row dim"]) -> Any:
        """The caller's data with its missing cells replaced by `values`.

        Observed cells, row and column order, index, types and other columns are the caller's.
        Integers are rounded and clipped to their type; where a value is NaN, the cell stays.
        """
        self._must_fit(values)
        return self.back.fill(values)

    def check_beside(self, names: Sequence[str]) -> None:
        """Refuses names of columns that `append_columns` could not add."""
        self.back.check_beside(names)

    def append_columns(self, filled: Any, columns: Mapping[str, np.ndarray]) -> Any:
        """What `fill` returned with more columns, each with an entry for every row of `series`.

        Raises:
            InputError: The data has a column of such a name, or is an array.
        """
        return self.back.append_columns(filled, columns)

    def stack(
        self,
        values: Sequence[Float[np.ndarray, "row dim"]],
        name: str,
        labels: Sequence[float],
    ) -> Any:
        """The filled data once per label, one below the other, with a first column of labels.

        Value columns are floats, since a draw of an integer is not rounded. Arrays get a new
        first axis instead.
        """
        for each in values:
            self._must_fit(each)
        return self.back.stack(values, name, labels)

    def _must_fit(self, values: np.ndarray) -> None:
        if values.shape != self.series.value.shape:
            raise InputError(
                f"values must have one row per row and one column per channel of the series, "
                f"{self.series.value.shape}, got {values.shape}; fill panel.series"
            )

    def grid(self, every: str | float) -> TimeQuery:
        """For each series the times from its first to its last row, `every` apart; for `at`.

        Raises:
            InputError: `every` is no duration (datetimes) or no number (numbers), or the grid
                would be huge.
        """
        return grid_of(self.times, self.series.start, every)

    def at(self, times: Any, ids: Any = None) -> "Panel":
        """A panel whose `fill` returns the values at `times` only, in this order.

        Args:
            times: Times of the caller's kind, for every series; or a frame with the time column
                (and the id column); or what `grid` returned. Datetimes without a zone are
                taken to be in the zone of the data.
            ids: The series of each of `times`; without it, all times are asked of all series.

        Raises:
            InputError: The times are of another kind than the data's, or a series is unknown.
        """
        self._must_be_as_read()
        asked = query_of(times, ids, self.ids, self.columns)
        have, want = together(self.times, asked.times)
        merged = _merge(have, self.series.owner, want, asked.owner)
        series = merged.series(self.series, self.clock, self.ids)
        panel = replace(
            self,
            series=series,
            times=merged.times,
            original_rows=merged.original,
            asked_rows=merged.asked,
        )
        return replace(panel, back=self._blank(panel, want, asked))

    def _must_be_as_read(self) -> None:
        answers = np.bincount(self.asked_rows, minlength=self.series.rows)
        if (answers != 1).any() or self.original_rows.size != self.series.rows:
            raise InputError(
                "at must be asked of data as it was read, got a panel that answers another at; "
                "ask for all times at once"
            )

    def asked(self, at: Any = None, every: str | float | None = None) -> "Panel":
        """This panel, or one of the times asked for: those of `at`, or a grid of `every`.

        Raises:
            InputError: Both are given, or as for `at` and `grid`.
        """
        if at is not None and every is not None:
            raise InputError("at and every must not be given together; choose one")
        if at is not None:
            return self.at(at)
        return self if every is None else self.at(self.grid(every))

    def _blank(self, panel: "Panel", times: Times, asked: TimeQuery) -> Writer:
        """The way back into a table of the asked rows alone."""
        source = np.full(panel.series.rows, -1)
        source[panel.original_rows] = np.arange(self.series.rows)
        source = source[panel.asked_rows]
        known = panel.series.observed[panel.asked_rows]
        lines = _inverse(self.asked_rows)
        if isinstance(self.back, ArrayWriter):
            array = blank_array(self.back.array, source, lines, asked)
            return ArrayWriter(array, panel.asked_rows, known, source < 0)
        assert isinstance(self.back, FrameWriter)
        first = lines[self.series.start[asked.owner]]
        line = np.where(source >= 0, lines[source], first)
        frame = blank_frame(self.back.frame, self.columns, times, line, source < 0)
        return FrameWriter(frame, self.back.names, panel.asked_rows, known, source < 0)


def _inverse(order: Int[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size)
    return inverse


@dataclass(frozen=True)
class _Merged:
    """Original and asked rows sorted together, equal times being one row."""

    times: Times
    owner: Int[np.ndarray, " row"]
    original: Int[np.ndarray, " original"]
    asked: Int[np.ndarray, " asked"]

    def series(self, before: SeriesSet, clock: Clock, ids: tuple[Any, ...]) -> SeriesSet:
        shape = (self.owner.size, before.dims)
        value, observed = np.zeros(shape), np.zeros(shape, bool)
        value[self.original] = before.value
        observed[self.original] = before.observed
        time = clock.units(self.times)
        # Finer ticks may round differently; what was in the data must stay what it was.
        time[self.original] = before.time
        _must_ascend(time, self.times, self.owner, clock, ids)
        start = np.searchsorted(self.owner, np.arange(before.series + 1))
        return SeriesSet(time, value, observed, start, before.keys)


def _merge(have: Times, owner: np.ndarray, want: Times, asked_owner: np.ndarray) -> _Merged:
    ticks = np.concatenate([have.ticks, want.ticks])
    code = np.concatenate([owner, asked_owner])
    order = np.lexsort((ticks, code))
    fresh = np.ones(order.size, bool)
    fresh[1:] = ~repeats(code[order], ticks[order])
    row = np.empty(order.size, np.int64)
    row[order] = np.cumsum(fresh) - 1
    kept = order[fresh]
    split = have.ticks.size
    return _Merged(replace(have, ticks=ticks[kept]), code[kept], row[:split], row[split:])


def _must_ascend(
    time: Float[np.ndarray, " row"],
    times: Times,
    owner: Int[np.ndarray, " row"],
    clock: Clock,
    ids: tuple[Any, ...],
) -> None:
    """Refuses times that are distinct but become one as floats, or overflow."""
    finite = np.isfinite(time)
    bad = ~(time[1:] > time[:-1]) & (owner[1:] == owner[:-1])
    if bad.any() or not finite.all():
        row = int(bad.argmax()) if bad.any() else int(finite.argmin())
        raise InputError(
            f"times must differ by enough to be told apart as 64-bit floats in units of "
            f"{clock.unit:g}, got {times.show(row)!r} and its neighbour in series "
            f"{ids[owner[row]]!r}; count from a nearer zero, or give another unit="
        )


def read(
    data: Any,
    columns: Columns = _GUESS,
    *,
    clock: Clock | None = None,
    unit: float | str | None = None,
    times: np.ndarray | None = None,
) -> Panel:
    """Checks the caller's data and turns it into a `Panel`.

    Args:
        data: A pandas, polars or pyarrow table, wide or long, or an array (step, dim) or
            (series, step, dim). Null and NaN are missing.
        columns: What the caller named.
        clock: The clock of a fitted model; without it, one is fitted to the data, and every value
            column must have something observed.
        unit: The unit of time: a duration (datetimes) or a number (numbers); the median spacing
            without it.
        times: Times of an array's steps, (step,) or (series, step).

    Raises:
        InputError: The data cannot be used; the message says what to change.
    """
    if clock is not None and unit is not None:
        raise InputError(
            f"unit must be given when fitting, not with a fitted clock, got {unit!r}; leave it out"
        )
    rows = _rows(data, columns, times)
    order = sort(rows)
    owner, sorted_times = rows.owners.code[order], rows.times.take(order)
    if clock is None:
        rows.must_have_something_in_every_column()
        clock = Clock.fit(sorted_times, owner, unit)
    ids = rows.owners.ids
    time = clock.units(sorted_times)
    _must_ascend(time, sorted_times, owner, clock, ids)
    series = SeriesSet(
        time=time,
        value=rows.value[order],
        observed=rows.observed[order],
        start=np.searchsorted(owner, np.arange(len(ids) + 1)),
        keys=[str(each) for each in ids],
    )
    back_rows = _inverse(order)
    added = np.zeros(series.rows, bool)
    back: Writer
    if rows.frame is None:
        back = ArrayWriter(data, back_rows, rows.observed, added)
    else:
        assert rows.columns.values is not None
        back = FrameWriter(rows.frame, rows.columns.values, back_rows, rows.observed, added)
    return Panel(
        series,
        clock,
        rows.columns,
        rows.guesses,
        ids,
        sorted_times,
        original_rows=np.arange(series.rows),
        asked_rows=back_rows,
        back=back,
    )


def _rows(data: Any, columns: Columns, times: np.ndarray | None) -> Rows:
    if isinstance(data, np.ndarray):
        return array_rows(data, columns, times)
    if times is not None:
        raise InputError(
            "times must be given with an array only, got a table; name its time column with time="
        )
    return frame_rows(data, columns)
