"""Nearest observed cells and linear interpolation."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.series import Flags, SeriesSet, Values

__all__ = ["Known", "between", "interpolate", "neighbours"]


@dataclass(frozen=True)
class Known:
    """An index of the known cells of each channel, to search for the nearest of any row."""

    observed: Flags
    start: Int[np.ndarray, " bound"]

    cells: tuple[Int[np.ndarray, " _"], ...]  # known rows of each channel, with sentinels

    @classmethod
    def of(cls, observed: Flags, start: Int[np.ndarray, " bound"]) -> "Known":
        """Finds the known cells."""
        first, last = [-1], [observed.shape[0]]
        cells = (np.concatenate([first, np.flatnonzero(one), last]) for one in observed.T)
        return cls(observed, start, tuple(cells))

    def around(
        self, rows: Int[np.ndarray, " target"], nth: int = 1
    ) -> tuple[Int[np.ndarray, "target dim"], Int[np.ndarray, "target dim"]]:
        """Rows of the `nth` nearest known cell strictly before and strictly after each row.

        Neighbours are of the same channel and series; -1 without a neighbour.
        """
        series = np.searchsorted(self.start, rows, side="right")
        begin, end = self.start[series - 1], self.start[series]
        left = np.empty((rows.size, len(self.cells)), dtype=np.int64)
        right = np.empty_like(left)
        for channel, cells in enumerate(self.cells):
            place = np.searchsorted(cells, rows)
            before = cells[np.maximum(place - nth, 0)]
            beyond = place + self.observed[rows, channel] + (nth - 1)
            after = cells[np.minimum(beyond, cells.size - 1)]
            left[:, channel] = np.where(before >= begin, before, -1)
            right[:, channel] = np.where(after < end, after, -1)
        return left, right


def neighbours(
    series: SeriesSet,
) -> tuple[Int[np.ndarray, "row dim"], Int[np.ndarray, "row dim"]]:
    """Rows of the nearest observed cell at or before, and at or after, each cell; -1 without one.

    >>> left, right = neighbours(SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0]]])))
    >>> left.ravel(), right.ravel()
    (array([0, 0, 2]), array([0, 2, 2]))
    """
    rows = np.arange(series.rows)
    left, right = Known.of(series.observed, series.start).around(rows)
    own = np.broadcast_to(rows[:, None], left.shape)
    return np.where(series.observed, own, left), np.where(series.observed, own, right)


def between(
    series: SeriesSet,
    time: Float[np.ndarray, " target"],
    left: Int[np.ndarray, "target dim"],
    right: Int[np.ndarray, "target dim"],
) -> Float[np.ndarray, "target dim"]:
    """Linear interpolation between the left and the right neighbour, at `time`.

    Beyond the ends it repeats the nearest value; without any neighbour it is 0.
    """
    channel = np.arange(left.shape[1])
    low, high = series.value[left, channel], series.value[right, channel]
    span = series.time[right] - series.time[left]
    both = (left >= 0) & (right >= 0) & (span > 0)
    share = np.where(both, (time[:, None] - series.time[left]) / np.where(both, span, 1.0), 0.0)
    line = low + share * (high - low)
    return np.where(both, line, np.where(left >= 0, low, np.where(right >= 0, high, 0.0)))


def interpolate(series: SeriesSet) -> Values:
    """Linear interpolation of every cell; observed cells keep their value.

    >>> interpolate(SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0], [np.nan]]]))).ravel()
    array([1., 2., 3., 3.])
    """
    left, right = neighbours(series)
    return np.where(series.observed, series.value, between(series, series.time, left, right))
