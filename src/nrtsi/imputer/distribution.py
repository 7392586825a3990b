"""`PredictiveDistribution`: values, quantiles, intervals and draws of every cell."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.bounds import Bounds
from nrtsi.core.gaps import Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.evaluation.conformal import Calibration
from nrtsi.inference import noise

__all__ = ["PredictiveDistribution"]

CELLS_AT_ONCE = 2**22
"""Cells of the draws that are made together; bounds their memory."""


@dataclass(frozen=True)
class PredictiveDistribution:
    """A prediction with calibrated errors, within the bounds of each channel."""

    series: SeriesSet
    prediction: Prediction
    """Before bounds are applied."""

    calibration: Calibration
    bounds: Bounds | None
    gaps: Gaps
    """Gaps of `series`."""

    @property
    def value(self) -> Float[np.ndarray, "row dim"]:
        """The best prediction of every missing cell; observed cells keep their value."""
        return self._bounded(self.prediction.mean)

    def quantile(self, level: float) -> Float[np.ndarray, "row dim"]:
        """The value that a missing cell stays below with probability `level`."""
        return self._at(np.full(self.series.value.shape, NormalDist().inv_cdf(level)))

    def interval(
        self, level: float
    ) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]:
        """The ends that hold a missing cell with probability `level`; the value lies between."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        ends = self.calibration.interval(level, channel, self.gaps.gap_bin[row, channel])
        value, (lower, upper) = self.value, (self._shifted(row, channel, end) for end in ends)
        return np.minimum(lower, value), np.maximum(upper, value)

    def draws(self, count: int, seed: int) -> Iterator[Float[np.ndarray, "row dim"]]:
        """Coherent paths: errors are correlated over time and between channels."""
        size = int(np.clip(CELLS_AT_ONCE // max(self.series.value.size, 1), 1, count))
        for first in range(0, count, size):
            some = range(first, min(first + size, count))
            independent = np.stack(
                [[noise(self.series, seed, 2 * draw + each) for each in (0, 1)] for draw in some]
            )
            correlated = self.calibration.error_correlation.correlate(
                self.series, self.gaps, independent
            )
            yield from (self._at(normal) for normal in correlated)

    def _at(self, normal: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        """Values whose errors correspond to these standard normal numbers."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        gap_bin = self.gaps.gap_bin[row, channel]
        score = self.calibration.from_normal(normal[row, channel], channel, gap_bin)
        return self._shifted(row, channel, score)

    def _shifted(
        self,
        row: Int[np.ndarray, " cell"],
        channel: Int[np.ndarray, " cell"],
        score: Float[np.ndarray, " cell"],
    ) -> Float[np.ndarray, "row dim"]:
        """Values with errors of `score` standard deviations at these cells."""
        value = self.prediction.mean.copy()
        value[row, channel] += self.prediction.std[row, channel] * score
        return self._bounded(value)

    def _bounded(self, value: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        """Values within the bounds; observed cells keep theirs, within bounds or not."""
        inside = value if self.bounds is None else self.bounds.clip(value)
        return np.where(self.series.observed, self.series.value, inside)
