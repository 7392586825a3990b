"""Linear interpolation on sets: the baseline, and what networks predict the residual to."""

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.series import SeriesSet

__all__ = ["around", "between", "interpolate", "neighbours"]


def around(
    known: Bool[np.ndarray, "row dim"],
    start: Int[np.ndarray, " bound"],
    rows: Int[np.ndarray, " asked"],
) -> tuple[Int[np.ndarray, "asked dim"], Int[np.ndarray, "asked dim"]]:
    """Rows of the nearest known cell strictly before and strictly after each asked row.

    Every channel has neighbours of its own, always of the same series; -1 where there is none.
    """
    begin = start[np.searchsorted(start, rows, side="right") - 1]
    end = start[np.searchsorted(start, rows, side="right")]
    left = np.full((rows.size, known.shape[1]), -1)
    right = left.copy()
    for channel in range(known.shape[1]):
        cells = np.flatnonzero(known[:, channel])
        padded = np.concatenate([[-1], cells, [known.shape[0]]])
        before = padded[np.searchsorted(cells, rows, side="left")]
        after = padded[np.searchsorted(cells, rows, side="right") + 1]
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
    left, right = around(series.observed, series.start, rows)
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
