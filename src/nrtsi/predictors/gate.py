"""`HeldOutGate`: decides whether a base predictor lowers the held-out error of the blend."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from nrtsi.config import GateConfig
from nrtsi.core.interpolation import interpolate, neighbours
from nrtsi.core.masking import Masking
from nrtsi.core.segments import SEGMENT_ROWS, Segments
from nrtsi.core.series import SeriesSet

if TYPE_CHECKING:
    from nrtsi.predictors.base import BasePredictor

__all__ = ["HeldOutGate"]


@dataclass(frozen=True)
class HeldOutGate:
    """Segments with hidden cells, and what the predictors kept so far predict for them."""

    truth: SeriesSet
    masked: SeriesSet
    """`truth` with some cells hidden."""

    owner: Int[np.ndarray, " segment"]
    """The series that each segment is part of."""

    config: GateConfig
    means: tuple[Float[np.ndarray, "row dim"], ...] = ()
    """Predictions of the predictors kept so far."""

    @classmethod
    def of(
        cls, series: SeriesSet, segments: Segments, masking: Masking, seed: int, config: GateConfig
    ) -> "HeldOutGate":
        """Hides cells in a sample of the segments."""
        rng = np.random.default_rng([seed, 8])
        rows = np.minimum(segments.end - segments.begin, SEGMENT_ROWS).mean()
        count = min(config.rows, config.cells / series.dims) / rows
        chosen = segments.sample(int(np.clip(count, *config.segments)), rng)
        truth = series.slices(chosen.begin, chosen.end)
        masked = truth.hide(masking.draw(truth, rng))
        return cls(truth, masked, chosen.owner(series), config)

    def add(self, predictor: "BasePredictor", exclude: np.ndarray | None) -> "HeldOutGate":
        """The same gate after `predictor` was kept; `exclude` is by series."""
        return replace(self, means=(*self.means, self._mean(predictor, exclude)))

    @property
    def is_open(self) -> bool:
        """True if the predictors kept so far leave an error that another could lower."""
        return self._error(*self.means) > self.config.solved * self._error()

    def improves(
        self,
        predictor: "BasePredictor",
        max_ratio: float,
        *,
        power: int = 2,
        exclude: np.ndarray | None = None,
    ) -> bool:
        """True if the best blend with `predictor` has less than `max_ratio` of the error without.

        The error is a mean of squares, or of another power: a few unpredictable cells can
        dominate the squares.
        """
        mean = self._mean(predictor, exclude)
        if not np.isfinite(mean).all():
            return False
        error = self._error(*self.means, mean, power=power)
        return error < max_ratio * self._error(*self.means, power=power)

    def _mean(
        self, predictor: "BasePredictor", exclude: np.ndarray | None
    ) -> Float[np.ndarray, "row dim"]:
        own = None if exclude is None else exclude[self.owner]
        return predictor.predict(self.masked, own).mean

    def _error(self, *means: Float[np.ndarray, "row dim"], power: int = 2) -> float:
        """Error of the least-squares blend of these means and interpolation in the hidden cells.

        Cells between observations and cells beyond the first or last have separate weights.
        """
        hidden = self.truth.observed & ~self.masked.observed
        line = interpolate(self.masked)
        left, right = neighbours(self.masked)
        outside = (left < 0) | (right < 0)
        total = 0.0
        for cells in (hidden & outside, hidden & ~outside):
            target = (self.truth.value - line)[cells]
            inputs = np.stack([np.zeros_like(target), *((each - line)[cells] for each in means)])
            weight = np.linalg.lstsq(inputs.T, target, rcond=None)[0]
            total += float((np.abs(target - weight @ inputs) ** power).sum())
        return total
