"""Linear interpolation on sets: the baseline, and what networks usually correct."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet

__all__ = ["Known", "between", "interpolate", "neighbours"]


@dataclass(frozen=True)
class Known:
    """Where each channel is known: found once, and then asked about row after row."""

    observed: Bool[np.ndarray, "row dim"]
    start: Int[np.ndarray, " bound"]

    cells: tuple[Int[np.ndarray, " _"], ...]
    """Rows in which each channel is known, between a -1 and the number of rows."""

    @classmethod
    def of(
        cls, observed: Bool[np.ndarray, "row dim"], start: Int[np.ndarray, " bound"]
    ) -> "Known":
        """Looks through all rows of all channels."""
        ends = [-1], [observed.shape[0]]
        cells = (np.flatnonzero(channel) for channel in observed.T)
        return cls(observed, start, tuple(np.concatenate([ends[0], c, ends[1]]) for c in cells))

    def around(
        self, rows: Int[np.ndarray, " asked"], nth: int = 1
    ) -> tuple[Int[np.ndarray, "asked dim"], Int[np.ndarray, "asked dim"]]:
        """Rows of the `nth` nearest known cell strictly before and strictly after each asked row.

        Every channel has neighbours of its own, always of the same series; -1 where there is none.
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
    """Rows of the nearest observed cell at or before, and at or after, each cell; -1 where none.

    >>> import numpy as np
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
    time: Float[np.ndarray, " asked"],
    left: Int[np.ndarray, "asked dim"],
    right: Int[np.ndarray, "asked dim"],
) -> Float[np.ndarray, "asked dim"]:
    """The straight line from the left to the right neighbour, at `time`.

    Beyond the ends the nearest value is held; 0 where a series knows nothing of a channel.
    """
    channel = np.arange(left.shape[1])
    low, high = series.value[left, channel], series.value[right, channel]
    span = series.time[right] - series.time[left]
    both = (left >= 0) & (right >= 0) & (span > 0)
    share = np.where(both, (time[:, None] - series.time[left]) / np.where(both, span, 1.0), 0.0)
    line = low + share * (high - low)
    return np.where(both, line, np.where(left >= 0, low, np.where(right >= 0, high, 0.0)))


def interpolate(series: SeriesSet) -> Float[np.ndarray, "row dim"]:
    """Linear interpolation of every cell; observed cells keep their value.

    >>> import numpy as np
    >>> interpolate(SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0], [np.nan]]]))).ravel()
    array([1., 2., 3., 3.])
    """
    left, right = neighbours(series)
    return np.where(series.observed, series.value, between(series, series.time, left, right))
