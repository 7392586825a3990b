"""Tells whether a hint helps: whether less is left over with it than with what there is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.interpolation import interpolate, neighbours
from nrtsi.core.masking import Masking
from nrtsi.core.series import SeriesSet
from nrtsi.predictors.base import BasePredictors
from nrtsi.training.sampler import SEGMENT, Segments

__all__ = ["HeldOutTest"]

# What is left over in parts of interpolation's error, where there is anything to be gained.
KNOWN = 0.01

# Stretches on which the use is tried, at least and at most; and the rows and cells of them, about.
TRIED, ROWS, CELLS = (2, 64), 2**12, 2**16

NOTHING = BasePredictors()


@dataclass(frozen=True)
class HeldOutTest:
    """Series of which cells are hidden, and what can be said of these without the hint."""

    truth: SeriesSet
    gappy: SeriesSet

    others: tuple[Float[np.ndarray, "row dim"], ...]
    """What other hints say of them."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        spans: Segments,
        hiding: Masking,
        seed: int,
        hints: BasePredictors = NOTHING,
        own: Int[np.ndarray, " series"] | None = None,
    ) -> "HeldOutTest":
        """Hides cells of some stretches; `own` says which series are themselves remembered."""
        rng = np.random.default_rng([seed, 8])
        rows = np.minimum(spans.end - spans.begin, SEGMENT).mean()
        most = min(ROWS, CELLS / series.dims)
        chosen = spans.draw(int(np.clip(most / rows, *TRIED)), rng)
        truth = series.slices(chosen.begin, chosen.end)
        gappy = truth.hide(hiding.draw(truth, rng))
        series_of = np.searchsorted(series.start, chosen.begin, side="right") - 1
        given = hints.predict(gappy, None if own is None else own[series_of])
        return cls(truth, gappy, tuple(hint.mean for hint in given))

    @property
    def open(self) -> bool:
        """Whether there is anything left to say beside what others do."""
        return self._left(*self.others) > KNOWN * self._left()

    def helps(self, hints: BasePredictors, worth: float, power: int = 2) -> bool:
        """Whether less than so much is left over with what they say, in parts of what is without.

        By the mean of the squares, or of another power: of squares a few cells that nobody could
        know may decide.
        """
        more = [hint.mean for hint in hints.predict(self.gappy)]
        if not all(np.isfinite(each).all() for each in more):
            return False
        left = self._left(*self.others, *more, power=power)
        return left < worth * self._left(*self.others, power=power)

    def _left(self, *said: Float[np.ndarray, "row dim"], power: int = 2) -> float:
        """Error of the best blend of these and of interpolation, in the hidden cells.

        One blend between known values, and one beyond the first and the last.
        """
        hidden = self.truth.observed & ~self.gappy.observed
        line = interpolate(self.gappy)
        left, right = neighbours(self.gappy)
        beyond = (left < 0) | (right < 0)
        total = 0.0
        for cells in (hidden & beyond, hidden & ~beyond):
            wanted = (self.truth.value - line)[cells]
            offered = np.stack([np.zeros_like(wanted), *((each - line)[cells] for each in said)])
            share = np.linalg.lstsq(offered.T, wanted, rcond=None)[0]
            total += float((np.abs(wanted - share @ offered) ** power).sum())
        return total
