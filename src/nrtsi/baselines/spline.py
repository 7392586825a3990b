"""A smooth curve through the known cells that never overshoots them."""

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.baselines.neighbour import Linear
from nrtsi.core.interpolation import neighbours
from nrtsi.core.series import SeriesSet

__all__ = ["Spline"]


class Spline(Linear):
    """Joins the known cells of a channel by a smooth curve: monotone cubic pieces (PCHIP).

    Between two known cells the curve stays between their values. An ordinary cubic spline, and
    less so Akima's, swings far out over long gaps and over noise, where it is worse than straight
    lines. Beyond the first and the last known cell the nearest value is held; two known cells are
    joined by a straight line; a series that knows nothing of a channel gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The curve at each cell."""
        left, right = neighbours(series)
        channel = np.arange(series.dims)
        slope = _slopes(series)
        span = series.time[right] - series.time[left]
        inside = (left >= 0) & (right >= 0) & (span > 0)
        span = np.where(inside, span, 1.0)
        share = np.where(inside, (series.time[:, None] - series.time[left]) / span, 0.0)
        # The line, bent by how far the slope at either end is from the line's.
        rise = series.value[right, channel] - series.value[left, channel]
        early = span * slope[left, channel] - rise
        late = rise - span * slope[right, channel]
        bend = share * (1 - share) * ((1 - share) * early + share * late)
        return super().impute_series(series) + np.where(inside, bend, 0.0)


def _slopes(series: SeriesSet) -> Float[np.ndarray, "row dim"]:
    """Slope of the curve at each known cell; 0 at the others."""
    slope = np.zeros_like(series.value)
    owner = series.owner
    for channel, seen in enumerate(series.observed.T):
        joined = np.diff(owner[seen]) == 0
        slope[seen, channel] = _monotone(series.time[seen], series.value[seen, channel], joined)
    return slope


def _monotone(
    time: Float[np.ndarray, " known"],
    value: Float[np.ndarray, " known"],
    joined: Bool[np.ndarray, " step"],
) -> Float[np.ndarray, " known"]:
    """Slopes by Fritsch and Butland's rule; `joined` where a cell and the next share a series."""
    # A missing step is as long as can be and flat, so that its neighbours need no special case.
    width = np.pad(np.where(joined, np.diff(time), np.inf), 2, constant_values=np.inf)
    line = np.pad(np.where(joined, np.diff(value) / np.where(joined, np.diff(time), 1.0), 0.0), 2)
    before, after = slice(1, -2), slice(2, -1)
    inner = _between(width[before], line[before], width[after], line[after])
    first = _at_end(width[after], line[after], width[3:], line[3:])
    last = _at_end(width[before], line[before], width[:-3], line[:-3])
    begins, ends = np.isinf(width[before]), np.isinf(width[after])
    return np.where(begins, first, np.where(ends, last, inner))


def _between(
    width: Float[np.ndarray, " known"],
    line: Float[np.ndarray, " known"],
    next_width: Float[np.ndarray, " known"],
    next_line: Float[np.ndarray, " known"],
) -> Float[np.ndarray, " known"]:
    """Weighted harmonic mean of the slopes on both sides; 0 at a peak or a trough."""
    same = (np.sign(line) == np.sign(next_line)) & (line != 0) & np.isfinite(width + next_width)
    width, next_width = np.where(same, width, 1.0), np.where(same, next_width, 1.0)
    line, next_line = np.where(same, line, 1.0), np.where(same, next_line, 1.0)
    near, far = width + 2 * next_width, 2 * width + next_width
    mean = (near + far) / (near / line + far / next_line)
    return np.where(same, mean, 0.0)


def _at_end(
    width: Float[np.ndarray, " known"],
    line: Float[np.ndarray, " known"],
    next_width: Float[np.ndarray, " known"],
    next_line: Float[np.ndarray, " known"],
) -> Float[np.ndarray, " known"]:
    """Slope of the parabola through the three cells at an end, held back from overshooting."""
    two = np.isfinite(width) & np.isinf(next_width)
    three = np.isfinite(width + next_width)
    width, next_width = np.where(three, width, 1.0), np.where(three, next_width, 1.0)
    parabola = line + width * (line - next_line) / (width + next_width)
    parabola = np.where(np.sign(parabola) == np.sign(line), parabola, 0.0)
    turns = np.sign(line) != np.sign(next_line)
    steep = turns & (np.abs(parabola) > 3 * np.abs(line))
    bounded = np.where(steep, 3 * line, parabola)
    return np.where(three, bounded, np.where(two, line, 0.0))
