"""Filling from whole series: the training series most like the one that has the gaps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.baselines.base import Imputer
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet

__all__ = ["KNNSequences"]

CELLS = 2_000_000
"""Numbers in the largest array made at a time, so that memory does not grow with the data."""

SAME = 1e-6
"""Distance, in spreads of a channel, below which two series are the same; rounding is less."""


class KNNSequences(Imputer):
    """The mean of the five training series most like the series at its observed cells.

    Distance is the root of the mean squared difference, in spreads of each channel, over the
    cells both know; nearer neighbours weigh more, by its inverse. Time counts from the same zero
    in all series: a training series is read at the times of the gappy one, on its rows or on the
    straight line between two that know the channel, and knows nothing beyond its ends. A cell of
    which no neighbour knows gets the channel's mean.
    """

    neighbours: ClassVar[int] = 5
    """Training series to take the mean of."""

    def fit_series(self, series: SeriesSet) -> None:
        """Keeps the series."""
        self.scaler_ = Scaler.fit(series)
        self.library_ = _Library.of(self.scaler_.scale(series))

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """What the neighbours say of every cell; observed cells keep their value."""
        scaled = self.scaler_.scale(series)
        filled = np.zeros_like(series.value)
        for members in _alike(series):
            # Bounded by what is said of the neighbours, and by the distances to all.
            most = self.neighbours * int(series.length[members[0]]) * series.dims
            size = max(1, CELLS // max(most, self.library_.series.series))
            for begin in range(0, members.size, size):
                picked = members[begin : begin + size]
                rows = series.start[picked, None] + np.arange(series.length[picked[0]])
                filled[rows] = self._said(
                    series.time[rows[0]], scaled.value[rows], scaled.observed[rows]
                )
        return np.where(series.observed, series.value, self.scaler_.unscale(filled))

    def _said(
        self,
        time: Float[np.ndarray, " step"],
        value: Float[np.ndarray, "series step dim"],
        observed: Bool[np.ndarray, "series step dim"],
    ) -> Float[np.ndarray, "series step dim"]:
        """The neighbours' mean at each cell of series of the same times; 0 where none knows."""
        seen = observed.any(axis=(0, 2))
        distance = self._distances(time[seen], value[:, seen], observed[:, seen])
        count = min(self.neighbours, distance.shape[1])
        near = np.argpartition(distance, count - 1, axis=1)[:, :count]
        weight = 1 / np.maximum(np.take_along_axis(distance, near, axis=1), SAME)
        asked, which = np.unique(near, return_inverse=True)
        told, known = self.library_.read(asked, time)
        total = np.zeros_like(value)
        share = np.zeros_like(value)
        for rank, source in enumerate(which.reshape(near.shape).T):
            part = weight[:, rank, None, None] * known[source]
            total += part * told[source]
            share += part
        return np.divide(total, share, out=np.zeros_like(total), where=share > 0)

    def _distances(
        self,
        time: Float[np.ndarray, " step"],
        value: Float[np.ndarray, "series step dim"],
        observed: Bool[np.ndarray, "series step dim"],
    ) -> Float[np.ndarray, "series training"]:
        """Distance of each series from each training series; infinite where they share no cell."""
        here = value.reshape(value.shape[0], -1)
        mine = observed.reshape(here.shape).astype(np.float64)
        distance = np.empty((here.shape[0], self.library_.series.series))
        size = max(1, CELLS // max(1, here.shape[1]))
        for begin in range(0, distance.shape[1], size):
            some = np.arange(begin, min(begin + size, distance.shape[1]))
            told, known = self.library_.read(some, time)
            there = told.reshape(some.size, -1)
            theirs = known.reshape(there.shape).astype(np.float64)
            # The square multiplied out: three products of matrices, and no array over all pairs
            # of series and all their cells. What is not known is 0 and drops out.
            square = here**2 @ theirs.T - 2 * (here @ there.T) + mine @ (there**2).T
            shared = mine @ theirs.T
            mean = np.maximum(square, 0.0) / np.maximum(shared, 1.0)
            distance[:, some] = np.where(shared > 0, np.sqrt(mean), np.inf)
        return distance


def _alike(series: SeriesSet) -> Iterator[Int[np.ndarray, " member"]]:
    """Indices of the series that have the same times, group by group."""
    groups: dict[bytes, list[int]] = {}
    for index, (begin, end) in enumerate(zip(series.start[:-1], series.start[1:], strict=True)):
        if end > begin:
            groups.setdefault(series.time[begin:end].tobytes(), []).append(index)
    return (np.array(members) for members in groups.values())


@dataclass(frozen=True)
class _Library:
    """Training series that can be read at any time."""

    series: SeriesSet
    moved: Float[np.ndarray, " row"]
    """Times, each series moved behind the one before it, so that one search serves all."""

    first: float
    last: float
    """The first and the last time of all series."""

    @classmethod
    def of(cls, series: SeriesSet) -> "_Library":
        first, last = float(series.time.min()), float(series.time.max())
        moved = series.time - first + series.owner * (last - first + 2)
        return cls(series, moved, first, last)

    def read(
        self, which: Int[np.ndarray, " picked"], time: Float[np.ndarray, " asked"]
    ) -> tuple[Float[np.ndarray, "picked asked dim"], Bool[np.ndarray, "picked asked dim"]]:
        """Values of these series at `time`, 0 where not known, and where they are known."""
        left, right = self._rows_around(which, time)
        low, high = (np.take(self.series.value, rows, axis=0) for rows in (left, right))
        known = np.take(self.series.observed, left, axis=0)
        known &= np.take(self.series.observed, right, axis=0)
        known &= (left >= 0)[:, None]
        begin = self.series.time[left]
        span = self.series.time[right] - begin
        # Both neighbours are the same rows in all channels, so that one share serves them all.
        share = (np.tile(time, which.size) - begin) / np.where(span > 0, span, np.inf)
        line = np.where(known, low + share[:, None] * (high - low), 0.0)
        shape = (which.size, time.size, self.series.dims)
        return line.reshape(shape), known.reshape(shape)

    def _rows_around(
        self, which: Int[np.ndarray, " picked"], time: Float[np.ndarray, " asked"]
    ) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
        """Rows at or before, and at or after, each time in each series; -1 beyond its ends."""
        # Times beyond all series go just beyond, or they would be found in the next one.
        near = np.clip(time, self.first - 0.5, self.last + 0.5) - self.first
        sought = near + which[:, None] * (self.last - self.first + 2)
        left = np.searchsorted(self.moved, sought.ravel(), side="right") - 1
        exact = self.series.time[left] == np.tile(time, which.size)
        right = np.where(exact, left, left + 1)
        begin = np.repeat(self.series.start[which], time.size)
        end = np.repeat(self.series.start[which + 1], time.size)
        inside = (left >= begin) & (right < end)
        return np.where(inside, left, -1), np.where(inside, right, -1)
