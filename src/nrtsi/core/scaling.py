"""`Scaler`: brings every channel to mean 0 and standard deviation 1, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from nrtsi.core.series import SeriesSet

__all__ = ["Scaler"]

ROUNDING = 8 * np.finfo(np.float64).eps
"""Spread relative to the size of the values below which a channel counts as constant."""


@dataclass(frozen=True)
class Scaler:
    """One offset and one spread per channel; a scaled value is `(value - offset) / spread`."""

    offset: Float[np.ndarray, " dim"]
    """Mean of the observed cells; 0 for a channel with none."""

    spread: Float[np.ndarray, " dim"]
    """Standard deviation of the observed cells, or one for all; 1 where nothing varies."""

    @classmethod
    def fit(cls, series: SeriesSet) -> "Scaler":
        """The scaler of the observed cells; cells that are missing count for nothing.

        >>> import numpy as np
        >>> Scaler.fit(SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0]]])))
        Scaler(offset=array([2.]), spread=array([1.]))
        """
        offset = _mean(series)
        apart = np.where(series.observed, series.value - offset, 0.0)
        widest = np.abs(apart).max(axis=0, initial=0.0)
        varies = widest > ROUNDING * np.abs(offset)
        # Divided by the widest first, so that squares of 1e200 or 1e-200 stay in range.
        unit = np.where(varies, widest, 1.0)
        count = np.maximum(series.observed.sum(axis=0), 1)
        deviation = unit * np.sqrt(np.sum((apart / unit) ** 2, axis=0) / count)
        return cls(offset=offset, spread=np.where(varies, deviation, 1.0))

    def scale(self, series: SeriesSet) -> SeriesSet:
        """The same series in scaled units; 0 where not observed."""
        scaled = (series.value - self.offset) / self.spread
        return replace(series, value=np.where(series.observed, scaled, 0.0))

    def unscale(self, values: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
        """Scaled values in the units of the data again."""
        return values * self.spread + self.offset

    def shared(self) -> "Scaler":
        """The same with one spread for all channels, so that errors compare in the data's units.

        >>> Scaler(np.zeros(2), np.array([3.0, 4.0])).shared().spread.round(3)
        array([3.536, 3.536])
        """
        widest = self.spread.max(initial=0.0)
        common = widest * np.sqrt(np.mean((self.spread / widest) ** 2)) if widest else 1.0
        return replace(self, spread=np.full_like(self.spread, common))

    def to_dict(self) -> dict[str, list[float]]:
        """Plain lists, for JSON; `from_dict` gives back exactly this scaler."""
        return {"offset": self.offset.tolist(), "spread": self.spread.tolist()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Sequence[float]]) -> "Scaler":
        """The scaler that `to_dict` described."""
        return cls(
            offset=np.asarray(record["offset"], dtype=np.float64),
            spread=np.asarray(record["spread"], dtype=np.float64),
        )


def _mean(series: SeriesSet) -> Float[np.ndarray, " dim"]:
    """Mean of the observed cells of each channel, in two passes.

    The first pass loses digits where the values are large and close together (times in
    nanoseconds, pressures in pascals); the second adds the mean of what was left over.
    """
    count = np.maximum(series.observed.sum(axis=0), 1)
    first = np.sum(np.where(series.observed, series.value / count, 0.0), axis=0)
    left_over = np.where(series.observed, series.value - first, 0.0)
    return first + np.sum(left_over / count, axis=0)
