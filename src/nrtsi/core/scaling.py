"""`Scaler`: standardises the channels."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from nrtsi.core.series import SeriesSet

__all__ = ["Scaler"]

ROUNDING = 8 * np.finfo(np.float64).eps  # relative spread of a constant channel, at most


@dataclass(frozen=True)
class Scaler:
    """An offset and a spread for each channel; a scaled value is `(value - offset) / spread`."""

    offset: Float[np.ndarray, " dim"]  # mean of the observed cells; 0 without observed cells
    spread: Float[np.ndarray, " dim"]  # standard deviation; 1 for a constant channel

    @classmethod
    def fit(cls, series: SeriesSet) -> "Scaler":
        """Computes mean and standard deviation of the observed cells.

        >>> Scaler.fit(SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0]]])))
        Scaler(offset=array([2.]), spread=array([1.]))
        """
        offset = _mean(series)
        difference = np.where(series.observed, series.value - offset, 0.0)
        widest = np.abs(difference).max(axis=0, initial=0.0)
        varies = widest > ROUNDING * np.abs(offset)
        # Normalised first, because squares of 1e200 overflow.
        unit = np.where(varies, widest, 1.0)
        count = np.maximum(series.observed.sum(axis=0), 1)
        deviation = unit * np.sqrt(np.sum((difference / unit) ** 2, axis=0) / count)
        return cls(offset=offset, spread=np.where(varies, deviation, 1.0))

    def scale(self, series: SeriesSet) -> SeriesSet:
        """The series in scaled units; 0 in missing cells."""
        scaled = (series.value - self.offset) / self.spread
        return replace(series, value=np.where(series.observed, scaled, 0.0))

    def unscale(self, values: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
        """Scaled values in the units of the data."""
        return values * self.spread + self.offset

    def shared(self) -> "Scaler":
        """A scaler with a common spread, which keeps the relative sizes of the channels.

        >>> Scaler(np.zeros(2), np.array([3.0, 4.0])).shared().spread.round(3)
        array([3.536, 3.536])
        """
        widest = self.spread.max(initial=0.0)
        common = widest * np.sqrt(np.mean((self.spread / widest) ** 2)) if widest else 1.0
        return replace(self, spread=np.full_like(self.spread, common))


def _mean(series: SeriesSet) -> Float[np.ndarray, " dim"]:
    """Mean of the observed cells of each channel.

    A second pass adds the mean of the residuals, because the first loses digits if the values are
    large and close together, such as times in nanoseconds.
    """
    count = np.maximum(series.observed.sum(axis=0), 1)
    first = np.sum(np.where(series.observed, series.value / count, 0.0), axis=0)
    residual = np.where(series.observed, series.value - first, 0.0)
    return first + np.sum(residual / count, axis=0)
