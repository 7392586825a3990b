"""Filling from the nearest known cells of the same channel: straight lines, or a value held."""

import numpy as np
from jaxtyping import Float, Int

from nrtsi.baselines.mean import Mean
from nrtsi.core.interpolation import between, neighbours
from nrtsi.core.series import SeriesSet

__all__ = ["Backward", "Forward", "Linear"]


class Linear(Mean):
    """Joins the known cells of a channel by straight lines.

    Beyond the first and the last the nearest value is held; a series that knows nothing of a
    channel gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The straight line through each cell."""
        left, right = neighbours(series)
        line = between(series, series.time, left, right)
        return np.where((left < 0) & (right < 0), self.mean_, line)


class Forward(Mean):
    """Holds the last known value of a channel.

    Before the first there is none, and the first is taken; a series that knows nothing of a
    channel gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The value held at each cell."""
        left, right = neighbours(series)
        return self._held(series, np.where(left >= 0, left, right))

    def _held(
        self, series: SeriesSet, source: Int[np.ndarray, "row dim"]
    ) -> Float[np.ndarray, "row dim"]:
        """The values at the rows `source`; the mean where that is -1."""
        held = np.take_along_axis(series.value, np.maximum(source, 0), axis=0)
        return np.where(source >= 0, held, self.mean_)


class Backward(Forward):
    """Takes the next known value of a channel.

    After the last there is none, and the last is held; a series that knows nothing of a channel
    gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The value taken at each cell."""
        left, right = neighbours(series)
        return self._held(series, np.where(right >= 0, right, left))
