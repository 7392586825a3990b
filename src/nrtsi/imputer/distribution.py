"""`PredictiveDistribution`: what is said of every cell, as a value, an interval, or a draw."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from nrtsi.baselines import BASELINES
from nrtsi.core.bounds import Bounds
from nrtsi.core.events import Listener
from nrtsi.core.gaps import Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import BASELINE_FAILURES
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.fitted import FittedModel
from nrtsi.inference import noise
from nrtsi.tables import Panel

__all__ = ["PredictiveDistribution", "believed"]

# Numbers of draws that are made together; what bounds their memory.
TOGETHER = 2**22


def believed(
    fitted: FittedModel,
    panel: Panel,
    asked: Panel,
    choice: MethodSelection,
    listener: Listener | None = None,
) -> Prediction:
    """What the chosen methods make of every cell of `asked`.

    How far off they are is what the networks say: a scale need only tell hard cells from easy
    ones, and calibration does the rest. Nothing is believed of a series in which nothing is known.
    """
    belief = _networks(fitted, panel, asked, listener)
    gap_bin = Gaps.of(asked.series).gap_bin
    index = choice.table[np.arange(asked.series.dims), gap_bin]
    value = np.where(asked.nothing_known, np.nan, belief.mean)
    for name in choice.used:
        if name != "nrtsi":
            own = (gap_bin >= 0) & (index == choice.methods.index(name))
            value = np.where(own, _simple(name, panel, asked), value)
    return Prediction(value, belief.std)


def _networks(
    fitted: FittedModel, panel: Panel, asked: Panel, listener: Listener | None
) -> Prediction:
    """What is in the data is filled first; the rest then follows from it, as unsure as it is."""
    belief = fitted.predict(panel.series, listener=listener)
    if asked is panel:
        return belief
    added, rows = asked.series, asked.original_rows
    value, scale = np.zeros_like(added.value), np.zeros_like(added.value)
    observed = np.zeros_like(added.observed)
    value[rows], scale[rows], observed[rows] = belief.mean, belief.std, True
    return fitted.predict(replace(added, value=value, observed=observed), scale, listener)


def _simple(name: str, panel: Panel, asked: Panel) -> Float[np.ndarray, "row dim"]:
    """What a baseline, fitted on the data at hand, makes of them."""
    baseline = BASELINES[name](on_empty="skip")
    baseline.clock_ = panel.clock
    try:
        baseline.fit_series(panel.series)
        return baseline.values(panel, asked, baseline.impute_series)
    except BASELINE_FAILURES as error:
        raise InputError(f"{name} cannot fill these data: {error}; use another method") from error


@dataclass(frozen=True)
class PredictiveDistribution:
    """What is believed of the cells of some series, and how sure that is."""

    series: SeriesSet
    belief: Prediction
    """Not yet kept inside the bounds."""

    gaps: Gaps
    calibration: Calibration
    bounds: Bounds | None

    @property
    def value(self) -> Float[np.ndarray, "row dim"]:
        """The best guess of every cell; known ones keep their value."""
        return self._settled(self.belief.mean)

    def quantile(self, level: float) -> Float[np.ndarray, "row dim"]:
        """What missing cells stay below with probability `level`."""
        normal = np.full(self.series.value.shape, NormalDist().inv_cdf(level))
        return self._at(normal)

    def interval(
        self, level: float
    ) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]:
        """The ends between which missing cells lie with probability `level`; around the value."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        ends = self.calibration.interval(level, channel, self.gaps.gap_bin[row, channel])
        value, (lower, upper) = self.value, (self._moved(row, channel, end) for end in ends)
        return np.minimum(lower, value), np.maximum(upper, value)

    def draws(self, count: int, seed: int) -> Iterator[Float[np.ndarray, "row dim"]]:
        """Whole paths: missing cells as far from the best guess as they may be, together."""
        correlation = self.calibration.error_correlation
        for some in _groups(count, self.series.value.size):
            independent = np.stack(
                [[noise(self.series, seed, 2 * draw + each) for each in (0, 1)] for draw in some]
            )
            for normal in correlation.correlate(self.series, self.gaps, independent):
                yield self._at(normal)

    def _at(self, normal: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        """Values whose errors stand for these standard normal numbers."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        gap_bin = self.gaps.gap_bin[row, channel]
        score = self.calibration.from_normal(normal[row, channel], channel, gap_bin)
        return self._moved(row, channel, score)

    def _moved(
        self,
        row: Int[np.ndarray, " cell"],
        channel: Int[np.ndarray, " cell"],
        score: Float[np.ndarray, " cell"],
    ) -> Float[np.ndarray, "row dim"]:
        """Values with these errors, in scales, at these cells."""
        value = self.belief.mean.copy()
        value[row, channel] += self.belief.std[row, channel] * score
        return self._settled(value)

    def _settled(self, value: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        """Inside the bounds; what is known stays what it is, in bounds or not."""
        inside = value if self.bounds is None else self.bounds.kept(value)
        return np.where(self.series.observed, self.series.value, inside)


def _groups(count: int, cells: int) -> Iterator[range]:
    """Draws that are made together: many of little data, one by one of much."""
    size = int(np.clip(TOGETHER // max(cells, 1), 1, count))
    for first in range(0, count, size):
        yield range(first, min(first + size, count))
