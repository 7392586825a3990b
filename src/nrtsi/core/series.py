"""`SeriesSet`: series of any lengths, concatenated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.ragged import concat_ranges, cumulative
from nrtsi.errors import InputError

__all__ = ["GRID_TOLERANCE", "Flags", "SeriesSet", "Values"]

Values: TypeAlias = Float[np.ndarray, "row dim"]  # a number for each cell of some series
Flags: TypeAlias = Bool[np.ndarray, "row dim"]  # True or False for each cell of some series
GRID_TOLERANCE = 1e-3  # distance from a grid of one unit that is ignored: times may be rounded


@dataclass(frozen=True)
class SeriesSet:
    """Rows of (time, values), sorted by series and, inside a series, by time.

    Series are concatenated without padding, so that array operations need no loop over series.
    """

    time: Float[np.ndarray, " row"]  # in units; strictly ascending inside a series
    value: Values  # 0 in missing cells, so that no NaN enters the arithmetic
    observed: Flags  # True in cells whose value is known: data, or imputed earlier
    start: Int[np.ndarray, " bound"]  # first row of each series, followed by the number of rows
    keys: Sequence[str] = field(default=())  # names, on which the draws depend

    def __post_init__(self) -> None:
        if self.start.size == 0 or self.start[0] != 0 or self.start[-1] != self.time.size:
            raise InputError("SeriesSet.start must run from 0 to the number of rows")
        if not self.keys:
            object.__setattr__(self, "keys", [str(i) for i in range(self.series)])

    @property
    def series(self) -> int:
        """Number of series."""
        return self.start.size - 1

    @property
    def rows(self) -> int:
        """Number of rows of all series."""
        return self.time.size

    @property
    def dims(self) -> int:
        """Number of channels."""
        return self.value.shape[1]

    @property
    def length(self) -> Int[np.ndarray, " series"]:
        """Number of rows of each series."""
        return np.diff(self.start)

    @property
    def owner(self) -> Int[np.ndarray, " row"]:
        """Index of the series of each row."""
        return np.repeat(np.arange(self.series), self.length)

    @property
    def has_data(self) -> Bool[np.ndarray, " row"]:
        """True for rows with at least one observed cell."""
        return np.logical_or.reduce(self.observed, axis=1)

    @property
    def partly(self) -> Bool[np.ndarray, " row"]:
        """True for rows with both observed and missing cells."""
        seen = self.observed.sum(axis=1)
        return (seen > 0) & (seen < self.dims)

    @classmethod
    def stack(
        cls,
        value: Float[np.ndarray, "series step dim"],
        time: Float[np.ndarray, "series step"] | None = None,
    ) -> "SeriesSet":
        """Series of equal length from arrays, in which NaN is missing; times default to 0, 1, ….

        >>> SeriesSet.stack(np.zeros((2, 3, 1))).start
        array([0, 3, 6])
        """
        series, step, dim = value.shape
        if time is None:
            time = np.tile(np.arange(step, dtype=np.float64), (series, 1))
        observed = ~np.isnan(value)
        return cls(
            time=time.reshape(-1).astype(np.float64),
            value=np.where(observed, value, 0.0).reshape(-1, dim).astype(np.float64),
            observed=observed.reshape(-1, dim),
            start=np.arange(series + 1) * step,
        )

    def select(self, series: Int[np.ndarray, " picked"]) -> "SeriesSet":
        """The series at these indices, in this order."""
        keys = [self.keys[i] for i in series]
        return self.slices(self.start[series], self.start[series + 1], keys)

    def slices(
        self,
        begin: Int[np.ndarray, " piece"],
        end: Int[np.ndarray, " piece"],
        keys: Sequence[str] = (),
    ) -> "SeriesSet":
        """The rows from `begin` to `end`; each piece becomes a series."""
        rows, start = concat_ranges(begin, end), cumulative(end - begin)
        return SeriesSet(self.time[rows], self.value[rows], self.observed[rows], start, keys)

    def keep(self, rows: Bool[np.ndarray, " row"]) -> "SeriesSet":
        """Only these rows; series may become empty."""
        start = cumulative(rows)[self.start]
        return SeriesSet(self.time[rows], self.value[rows], self.observed[rows], start, self.keys)

    @property
    def in_empty_series(self) -> Bool[np.ndarray, " row"]:
        """True for the rows of series without observed cells."""
        some = np.zeros(self.series, dtype=bool)
        some[self.owner[self.has_data]] = True
        return ~some[self.owner]

    def hide(self, cells: Flags) -> "SeriesSet":
        """A copy in which `cells` are missing."""
        return replace(
            self, value=np.where(cells, 0.0, self.value), observed=self.observed & ~cells
        )

    def batches(self, rows: int) -> Iterator["SeriesSet"]:
        """Groups of consecutive series of at most `rows` rows, or of a single longer series."""
        if 0 < self.rows <= rows:
            yield self
            return
        first = 0
        while first < self.series:
            fits = int(np.searchsorted(self.start, self.start[first] + rows, side="right")) - 1
            last = max(first + 1, fits)
            yield self.select(np.arange(first, last))
            first = last
