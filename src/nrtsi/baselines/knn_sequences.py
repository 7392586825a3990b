"""`KNNSequences`: k nearest neighbours among whole training series."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.baselines.base import Imputer
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet

__all__ = ["KNNSequences"]

MIN_DISTANCE = 1e-6  # standard deviations below which two series are equal
StepTimes: TypeAlias = Float[np.ndarray, " step"]
SeriesArray: TypeAlias = Float[np.ndarray, "series step dim"]
Observed: TypeAlias = Bool[np.ndarray, "series step dim"]


class KNNSequences(Imputer):
    """Imputes the weighted mean of the five nearest training series.

    Good for many short series of the same kind. The distance is the root mean squared difference
    of scaled values over the cells that both series observe; weights are inverse distances. Times
    are not shifted between series. A training series is interpolated linearly between two rows
    that observe the channel. Cells that no neighbour covers get the mean of the channel.
    """

    neighbours: ClassVar[int] = 5  # number of training series that are averaged
    max_cells: ClassVar[int] = 2_000_000  # size of the largest temporary array; bounds the memory

    def fit_series(self, series: SeriesSet) -> None:
        """Stores the scaled series."""
        self.scaler_ = Scaler.fit(series)
        self.library_ = _Library.of(self.scaler_.scale(series))

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The mean of the neighbours at each cell; observed cells keep their value."""
        scaled = self.scaler_.scale(series)
        result = np.zeros_like(series.value)
        for members in _with_equal_times(series):
            cells = self.neighbours * int(series.length[members[0]]) * series.dims
            size = max(1, self.max_cells // max(cells, self.library_.series.series))
            for begin in range(0, members.size, size):
                picked = members[begin : begin + size]
                rows = series.start[picked, None] + np.arange(series.length[picked[0]])
                result[rows] = self._predict(
                    series.time[rows[0]], scaled.value[rows], scaled.observed[rows]
                )
        return np.where(series.observed, series.value, self.scaler_.unscale(result))

    def _predict(self, time: StepTimes, value: SeriesArray, observed: Observed) -> SeriesArray:
        """The mean of the neighbours of series with equal times; 0 where none is observed."""
        seen = observed.any(axis=(0, 2))
        distance = self._distances(time[seen], value[:, seen], observed[:, seen])
        count = min(self.neighbours, distance.shape[1])
        nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
        weight = 1 / np.maximum(np.take_along_axis(distance, nearest, axis=1), MIN_DISTANCE)
        which, index = np.unique(nearest, return_inverse=True)
        other, known = self.library_.interpolate(which, time)
        total, weights = np.zeros_like(value), np.zeros_like(value)
        for rank, source in enumerate(index.reshape(nearest.shape).T):
            part = weight[:, rank, None, None] * known[source]
            total += part * other[source]
            weights += part
        return np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)

    def _distances(
        self, time: StepTimes, value: SeriesArray, observed: Observed
    ) -> Float[np.ndarray, "series training"]:
        """Distances to all training series; infinite without common cells."""
        here = value.reshape(value.shape[0], -1)
        mine = observed.reshape(here.shape).astype(np.float64)
        distance = np.empty((here.shape[0], self.library_.series.series))
        size = max(1, self.max_cells // max(1, here.shape[1]))
        for begin in range(0, distance.shape[1], size):
            some = np.arange(begin, min(begin + size, distance.shape[1]))
            other, known = self.library_.interpolate(some, time)
            there = other.reshape(some.size, -1)
            theirs = known.reshape(there.shape).astype(np.float64)
            # (a − b)² as three matrix products, without an array over all pairs of cells.
            # Missing values are 0.
            square = here**2 @ theirs.T - 2 * (here @ there.T) + mine @ (there**2).T
            shared = mine @ theirs.T
            mean = np.maximum(square, 0.0) / np.maximum(shared, 1.0)
            distance[:, some] = np.where(shared > 0, np.sqrt(mean), np.inf)
        return distance


def _with_equal_times(series: SeriesSet) -> Iterator[Int[np.ndarray, " member"]]:
    """Indices of the series, grouped by equal times."""
    groups: dict[bytes, list[int]] = {}
    for index, (begin, end) in enumerate(zip(series.start[:-1], series.start[1:], strict=True)):
        if end > begin:
            groups.setdefault(series.time[begin:end].tobytes(), []).append(index)
    return (np.array(members) for members in groups.values())


@dataclass(frozen=True)
class _Library:
    """Training series that can be interpolated at any time."""

    series: SeriesSet
    shifted: Float[np.ndarray, " row"]  # times, shifted so that one search covers all
    first: float  # first time of all series
    last: float  # last time of all series

    @classmethod
    def of(cls, series: SeriesSet) -> "_Library":
        first, last = float(series.time.min()), float(series.time.max())
        shifted = series.time - first + series.owner * (last - first + 2)
        return cls(series, shifted, first, last)

    def interpolate(
        self, which: Int[np.ndarray, " picked"], time: StepTimes
    ) -> tuple[Float[np.ndarray, "picked step dim"], Bool[np.ndarray, "picked step dim"]]:
        """Values of these series at `time`, 0 where unknown, and where they are known."""
        left, right = self._rows_around(which, time)
        low, high = (np.take(self.series.value, rows, axis=0) for rows in (left, right))
        known = np.take(self.series.observed, left, axis=0)
        known &= np.take(self.series.observed, right, axis=0)
        known &= (left >= 0)[:, None]
        begin = self.series.time[left]
        span = self.series.time[right] - begin
        fraction = (np.tile(time, which.size) - begin) / np.where(span > 0, span, np.inf)
        line = np.where(known, low + fraction[:, None] * (high - low), 0.0)
        shape = (which.size, time.size, self.series.dims)
        return line.reshape(shape), known.reshape(shape)

    def _rows_around(
        self, which: Int[np.ndarray, " picked"], time: StepTimes
    ) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
        """Rows at or before, and at or after, each time in each series; -1 beyond its ends."""
        # Clipping keeps a time beyond all series from matching the next series.
        near = np.clip(time, self.first - 0.5, self.last + 0.5) - self.first
        target = near + which[:, None] * (self.last - self.first + 2)
        left = np.searchsorted(self.shifted, target.ravel(), side="right") - 1
        exact = self.series.time[left] == np.tile(time, which.size)
        right = np.where(exact, left, left + 1)
        begin = np.repeat(self.series.start[which], time.size)
        end = np.repeat(self.series.start[which + 1], time.size)
        inside = (left >= begin) & (right < end)
        return np.where(inside, left, -1), np.where(inside, right, -1)
