"""`read` turns a table into a `Panel`: its `SeriesSet`, time queries, and writing the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.series import SeriesSet, Values
from nrtsi.errors import InputError
from nrtsi.tables.clock import Clock, Times
from nrtsi.tables.detection import BY_ROW_NUMBER, Columns
from nrtsi.tables.queries import MergedTimes, TimeQuery
from nrtsi.tables.reading import read_rows
from nrtsi.tables.writer import Writer

__all__ = ["Panel", "read"]

_DETECT_ALL = Columns()


@dataclass(frozen=True)
class Panel:
    """A user's table as a `SeriesSet`, with all that is needed to write the result."""

    series: SeriesSet  # the rows, sorted by series and time; time in units of the clock
    clock: Clock  # converts times to units
    columns: Columns  # column roles; time is None for the index or row numbers
    notes: tuple[str, ...]  # sentences that report which columns were detected
    ids: tuple[Any, ...]  # the user's id of each series; (0,) for a single series without an id
    times: Times  # the exact times of the rows of `series`
    original_rows: Int[np.ndarray, " original"]  # rows of `series` that are in the data
    query_rows: Int[np.ndarray, " line"]  # row of `series` of each written line
    writer: Writer  # writes values into the user's kind of table

    @property
    def empty(self) -> tuple[Any, ...]:
        """Ids of the series without any observed cell."""
        owner = self.series.owner[self.series.in_empty_series]
        return tuple(self.ids[i] for i in np.unique(owner))

    @property
    def by_row_number(self) -> bool:
        """Whether no time column was found in a frame, so that rows are counted."""
        return any(note.startswith(BY_ROW_NUMBER) for note in self.notes)

    def write(
        self,
        values: Values,
        extra: Mapping[str, np.ndarray] | None = None,
    ) -> Any:
        """The user's table with its missing cells replaced by `values`.

        Observed cells, row and column order, index, types and other columns do not change.
        Integers are rounded and clipped to their type. A cell whose value is NaN stays missing.

        Args:
            values: Values of all rows of `series`.
            extra: Columns to append, each with one entry per row of `series`.

        Raises:
            InputError: The table has a column of the same name as one of `extra`, or is an array.
        """
        columns = {name: each[self.query_rows] for name, each in (extra or {}).items()}
        return self.writer.write(self._to_lines(values), columns)

    def stack(self, values: Sequence[Values], name: str, labels: Sequence[float]) -> Any:
        """The imputed table once per label, concatenated, with a first column `name` of labels.

        Value columns are floats, so that draws of integers are not rounded. Arrays get a new
        first axis instead of a column.
        """
        return self.writer.stack((self._to_lines(each) for each in values), name, labels)

    def _to_lines(self, values: Values) -> Float[np.ndarray, "line dim"]:
        if values.shape != self.series.value.shape:
            raise InputError(
                f"values must have the shape of panel.series.value, {self.series.value.shape}, "
                f"got {values.shape}; pass one row per row of panel.series"
            )
        return values[self.query_rows]

    def query(self, at: Any = None, every: str | float | None = None) -> "Panel":
        """A panel whose `write` returns the values at the queried times only, in their order.

        Its `series` has the rows of this one and, in addition, the queried times. Without `at` and
        `every`, returns this panel.

        Args:
            at: Times of the kind of the data, for every series; or a frame with the time column
                (and the id column). Datetimes without a zone are in the zone of the data.
            every: For each series, the times from its first to its last row in such steps.

        Raises:
            InputError: Both are given, the times do not fit the data, or a series is unknown.
        """
        if at is None and every is None:
            return self
        if at is not None and every is not None:
            raise InputError("at and every must not be given together; choose one")
        lines = np.bincount(self.query_rows, minlength=self.series.rows)
        if (lines != 1).any() or self.original_rows.size != self.series.rows:
            raise InputError(
                "a panel can be queried once, got the result of another query; "
                "query all times at once"
            )
        if every is not None:
            query = TimeQuery.grid(self.times, self.series.start, every)
        else:
            query = TimeQuery.read(at, self.ids, self.columns)
        times, query_times = self.times.align(query.times)
        query = replace(query, times=query_times)
        merged = MergedTimes.merge(times, self.series.owner, query)
        series = self._extend(merged)
        return replace(
            self,
            series=series,
            times=merged.times,
            original_rows=merged.original_rows,
            query_rows=merged.query_rows,
            writer=self._query_writer(merged, query, series),
        )

    def _extend(self, merged: MergedTimes) -> SeriesSet:
        """The series with the queried times as missing rows."""
        before, rows = self.series, merged.original_rows
        value = np.zeros((merged.owner.size, before.dims))
        observed = np.zeros(value.shape, bool)
        value[rows], observed[rows] = before.value, before.observed
        time = self.clock.to_units(merged.times)
        # Finer ticks may round differently; the times of the data must not change.
        time[rows] = before.time
        _check_increasing(time, merged.times, merged.owner, self.clock, self.ids)
        start = np.searchsorted(merged.owner, np.arange(before.series + 1))
        return SeriesSet(time, value, observed, start, before.keys)

    def _query_writer(self, merged: MergedTimes, query: TimeQuery, series: SeriesSet) -> Writer:
        """A writer for the queried rows alone."""
        source = np.full(series.rows, -1)
        source[merged.original_rows] = np.arange(self.series.rows)
        source = source[merged.query_rows]  # the row of this panel, -1 for a new time
        first = self.series.start[query.owner]
        lines = np.argsort(self.query_rows)[np.where(source >= 0, source, first)]
        known = series.observed[merged.query_rows]
        return self.writer.select(lines, known, source < 0, query.times, query.owner)


def read(
    data: Any,
    columns: Columns = _DETECT_ALL,
    *,
    clock: Clock | None = None,
    unit: float | str | None = None,
    times: np.ndarray | None = None,
) -> Panel:
    """Reads and checks a user's data.

    Args:
        data: A pandas, polars or pyarrow table, wide or long, or an array (step, dim) or
            (series, step, dim). Null and NaN are missing.
        columns: The columns that the user named, or with `clock` those of a fitted model; others
            are detected.
        clock: The clock of a fitted model. Without it, a clock is fitted to the data, and every
            value column must have an observed cell.
        unit: The unit of time: a duration (datetimes) or a number (numbers); by default the
            median spacing.
        times: Times of an array's steps, (step,) or (series, step).

    Raises:
        InputError: The data cannot be used, or lacks columns of the fitted model.
    """
    if clock is not None and unit is not None:
        raise InputError(
            f"unit must be given when fitting, not with a fitted clock, got {unit!r}; leave it out"
        )
    rows = read_rows(data, columns, times, fitted=clock is not None)
    found, order = rows.found, rows.found.sort()
    owner, sorted_times = found.owners.code[order], found.times.take(order)
    if clock is None:
        rows.check_observed()
        clock = Clock.fit(sorted_times, owner, unit)
    ids = found.owners.ids
    time = clock.to_units(sorted_times)
    _check_increasing(time, sorted_times, owner, clock, ids)
    series = SeriesSet(
        time=time,
        value=rows.value[order],
        observed=rows.observed[order],
        start=np.searchsorted(owner, np.arange(len(ids) + 1)),
        keys=[str(each) for each in ids],
    )
    return Panel(
        series=series,
        clock=clock,
        columns=found.columns,
        notes=found.notes,
        ids=ids,
        times=sorted_times,
        original_rows=np.arange(series.rows),
        query_rows=np.argsort(order),
        writer=rows.writer,
    )


def _check_increasing(
    time: Float[np.ndarray, " row"],
    times: Times,
    owner: Int[np.ndarray, " row"],
    clock: Clock,
    ids: tuple[Any, ...],
) -> None:
    """Raises InputError if different times are equal as floats, or a time overflows."""
    finite = np.isfinite(time)
    bad = ~(time[1:] > time[:-1]) & (owner[1:] == owner[:-1])
    if bad.any() or not finite.all():
        row = int(bad.argmax()) if bad.any() else int(finite.argmin())
        raise InputError(
            f"times must be distinct as 64-bit floats in units of {clock.unit:g}, got "
            f"{times.show(row)!r} and its neighbour in series {ids[owner[row]]!r}; "
            f"subtract an offset, or give another unit="
        )
