"""Baselines of single channels: the mean, interpolation, and the last or next observed value."""

import numpy as np
from jaxtyping import Float, Int

from nrtsi.baselines.base import Imputer
from nrtsi.core.interpolation import between, neighbours
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet, Values

__all__ = ["Backward", "Forward", "Linear", "Mean", "Spline", "series_means"]


class Mean(Imputer):
    """Imputes the mean of the channel in the fitted data.

    The reference that every other method should beat; good for noise without structure.
    """

    def fit_series(self, series: SeriesSet) -> None:
        """Computes the mean of the observed cells of each channel."""
        self.mean_ = Scaler.fit(series).offset

    def impute_series(self, series: SeriesSet) -> Values:
        """The mean of each channel, in every row."""
        return np.broadcast_to(self.mean_, series.value.shape).copy()


class Linear(Mean):
    """Interpolates linearly between the observed cells of a channel.

    Good for short gaps in smooth signals. Beyond the first and last observed cell it repeats
    their value. A channel without observations in a series gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Values:
        """The linear interpolation at each cell."""
        left, right = neighbours(series)
        line = between(series, series.time, left, right)
        return np.where((left < 0) & (right < 0), self.mean_, line)


class Spline(Linear):
    """Interpolates the observed cells of a channel by monotone cubic pieces (PCHIP).

    Good for smooth signals that are sampled more often than they oscillate. Between two observed
    cells the curve stays between their values, unlike ordinary cubic splines, which overshoot in
    long gaps. Beyond the first and last observed cell it repeats their value. A channel without
    observations in a series gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Values:
        """The curve at each cell."""
        from scipy.interpolate import pchip_interpolate

        result = super().impute_series(series)
        for begin, end in zip(series.start[:-1], series.start[1:], strict=True):
            for channel, observed in enumerate(series.observed[begin:end].T):
                rows = begin + np.flatnonzero(observed)
                if rows.size > 1 and rows[-1] - rows[0] >= rows.size:  # a gap is inside
                    inside = slice(rows[0], rows[-1] + 1)
                    known = series.time[rows], series.value[rows, channel]
                    result[inside, channel] = pchip_interpolate(*known, series.time[inside])
        return result


class Forward(Mean):
    """Repeats the last observed value of a channel; before the first, the first.

    Good for states that change in steps, such as switches and prices. A channel without
    observations in a series gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Values:
        """The last observed value at each cell."""
        left, right = neighbours(series)
        return self._values_at(series, np.where(left >= 0, left, right))

    def _values_at(self, series: SeriesSet, source: Int[np.ndarray, "row dim"]) -> Values:
        """The values in the rows `source`; the mean where that is -1."""
        value = np.take_along_axis(series.value, np.maximum(source, 0), axis=0)
        return np.where(source >= 0, value, self.mean_)


class Backward(Forward):
    """Repeats the next observed value of a channel; after the last, the last.

    Good for values that are reported at the end of a period. A channel without observations in a
    series gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Values:
        """The next observed value at each cell."""
        left, right = neighbours(series)
        return self._values_at(series, np.where(right >= 0, right, left))


def series_means(
    series: SeriesSet, default: Float[np.ndarray, " dim"]
) -> Float[np.ndarray, "series dim"]:
    """Mean of the observed cells of each series and channel; `default` without observations.

    >>> panel = np.array([[[1.0], [np.nan], [3.0]], [[np.nan], [np.nan], [np.nan]]])
    >>> series_means(SeriesSet.stack(panel), np.array([7.0]))
    array([[2.],
           [7.]])
    """
    owner = series.owner
    means = np.empty((series.series, series.dims))
    for channel, observed in enumerate(series.observed.T):
        count = np.bincount(owner[observed], minlength=series.series)
        share = series.value[observed, channel] / count[owner[observed]]
        total = np.bincount(owner[observed], weights=share, minlength=series.series)
        means[:, channel] = np.where(count > 0, total, default[channel])
    return means
