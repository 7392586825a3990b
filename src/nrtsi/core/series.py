"""`SeriesSet`: series of any lengths, laid end to end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError

__all__ = ["GRID_TOLERANCE", "SeriesSet"]

# Times on a grid of one unit may be this far off, since they may have been rounded.
GRID_TOLERANCE = 1e-3


@dataclass(frozen=True)
class SeriesSet:
    """Rows of (time, values), sorted by series and, inside a series, by time.

    Series are laid end to end and not padded: a million short series and one of a million rows
    cost the same, and whole-set array operations need no loop over series.
    """

    time: Float[np.ndarray, " row"]
    """Time of each row, in units; strictly ascending inside a series."""

    value: Float[np.ndarray, "row dim"]
    """Values; 0 where not observed, so that NaN never enters the arithmetic."""

    observed: Bool[np.ndarray, "row dim"]
    """True where `value` is known: data, or imputed already."""

    start: Int[np.ndarray, " bound"]
    """Row at which each series begins, and last the number of rows: one entry more than series."""

    keys: Sequence[str] = field(default=())
    """A stable name of each series; its random draws depend on it and not on its neighbours."""

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
        """Number of rows of all series together."""
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
        """Index of the series each row belongs to."""
        return np.repeat(np.arange(self.series), self.length)

    @property
    def partly(self) -> Bool[np.ndarray, " row"]:
        """True for rows of which some channels are observed and some are not."""
        seen = self.observed.sum(axis=1)
        return (seen > 0) & (seen < self.dims)

    @classmethod
    def stack(
        cls,
        value: Float[np.ndarray, "series step dim"],
        time: Float[np.ndarray, "series step"] | None = None,
    ) -> "SeriesSet":
        """Series of one length, from arrays in which NaN is missing; times default to 0, 1, 2, ….

        >>> import numpy as np
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
        """The rows from `begin` to `end`, each piece a series of its own."""
        length = end - begin
        start = np.concatenate([[0], np.cumsum(length)])
        rows = np.arange(start[-1]) + np.repeat(begin - start[:-1], length)
        return SeriesSet(
            self.time[rows], self.value[rows], self.observed[rows], start.astype(np.int64), keys
        )

    def keep(self, rows: Bool[np.ndarray, " row"]) -> "SeriesSet":
        """Only these rows; series may become empty."""
        before = np.concatenate([[0], np.cumsum(rows)])
        return SeriesSet(
            self.time[rows],
            self.value[rows],
            self.observed[rows],
            before[self.start],
            self.keys,
        )

    @property
    def in_empty_series(self) -> Bool[np.ndarray, " row"]:
        """True for the rows of series without any observation."""
        some = np.zeros(self.series, dtype=bool)
        some[self.owner[self.observed.any(axis=1)]] = True
        return ~some[self.owner]

    def hide(self, cells: Bool[np.ndarray, "row dim"]) -> "SeriesSet":
        """A copy in which `cells` are missing."""
        return replace(
            self, value=np.where(cells, 0.0, self.value), observed=self.observed & ~cells
        )

    def batches(self, rows: int) -> Iterator["SeriesSet"]:
        """Groups of consecutive series, each of at most `rows` rows where its series allow it."""
        if 0 < self.rows <= rows:
            yield self
            return
        first = 0
        while first < self.series:
            fits = int(np.searchsorted(self.start, self.start[first] + rows, side="right")) - 1
            last = max(first + 1, fits)
            yield self.select(np.arange(first, last))
            first = last
