"""`Calibration`: the distribution of errors by channel and gap length, and conformal intervals."""

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from nrtsi.config import CalibrationConfig
from nrtsi.core.gaps import GAP_BINS
from nrtsi.evaluation.error_correlation import ErrorCorrelation
from nrtsi.evaluation.holdout import CalibrationScores, CellIndex, CellMask, CellValues

__all__ = ["GRID", "MAX_SCORE", "Calibration", "coverage"]

NORMAL = NormalDist()

GRID = np.linspace(-3.5, 3.5, 71)  # standard normal values of the stored quantiles
PROBABILITY = np.array([NORMAL.cdf(value) for value in GRID])

MAX_SCORE = 1e6  # score that stands for an infinite error: the truth lies on a bound
DIGITS = 5  # decimals of a stored quantile
DEFAULT = CalibrationConfig()


@dataclass(frozen=True)
class Calibration:
    """Quantiles of the scores by channel and gap bin, and the correlation of errors.

    A score is an error divided by its predicted standard deviation.
    """

    table: Float[np.ndarray, "dim gap_bin grid"]  # score at each value of `GRID`; ascending
    cells: Int[np.ndarray, "dim gap_bin"]  # number of held-out cells
    error_correlation: ErrorCorrelation

    @classmethod
    def none(cls, dims: int) -> "Calibration":
        """Standard normal scores, for a model without held-out cells."""
        table = np.broadcast_to(GRID, (dims, GAP_BINS, GRID.size)).copy()
        cells = np.zeros((dims, GAP_BINS), dtype=np.int64)
        return cls(table, cells, ErrorCorrelation.default(dims))

    @classmethod
    def fit(
        cls, scores: CalibrationScores, dims: int, config: CalibrationConfig = DEFAULT
    ) -> "Calibration":
        """Fits the distribution of the scores and their correlation.

        Intervals are those of split conformal prediction. Gaps, not cells, are the exchangeable
        units, because errors within a gap are correlated.
        """
        marginal = cls.fit_marginal(scores, dims, config)
        if marginal.is_empty:
            return marginal
        correlation = ErrorCorrelation.fit(scores, marginal.to_normal(scores), dims, config)
        return replace(marginal, error_correlation=correlation)

    @classmethod
    def fit_marginal(
        cls, scores: CalibrationScores, dims: int, config: CalibrationConfig = DEFAULT
    ) -> "Calibration":
        """Fits the distribution of the scores without their correlation."""
        if not scores.score.size:
            return cls.none(dims)
        pool = _ScorePool(scores, _mean_sizes(scores, dims, config), config)
        table = np.stack([pool.quantiles(channel) for channel in range(dims)])
        cells = np.zeros((dims, GAP_BINS), dtype=np.int64)
        np.add.at(cells, (scores.channel, scores.gap_bin), 1)
        return cls(table, cells, ErrorCorrelation.default(dims))

    @property
    def is_empty(self) -> bool:
        """True if no cell was held out."""
        return not self.cells.any()

    def from_normal(
        self, normal: CellValues, channel: CellIndex, gap_bin: CellIndex
    ) -> CellValues:
        """Maps standard normal values to scores of the same probability."""
        step = GRID[1] - GRID[0]
        place = np.clip((normal - GRID[0]) / step, 0, GRID.size - 1 - 1e-9)
        low = place.astype(np.int64)
        below, above = (self.table[channel, gap_bin, at] for at in (low, low + 1))
        inside = below + (place - low) * (above - below)
        # Beyond the grid, scores grow in proportion to the normal value.
        return inside * np.maximum(np.abs(normal) / GRID[-1], 1.0)

    def to_normal(self, scores: CalibrationScores) -> CellValues:
        """Maps scores to standard normal values of the same probability."""
        result = np.empty(scores.score.size)
        index = scores.channel * GAP_BINS + scores.gap_bin
        for each in np.unique(index):
            own = index == each
            table = self.table[each // GAP_BINS, each % GAP_BINS]
            # Interpolation needs ascending scores; equal ones, as on a bound, get the middle.
            rise = 1e-12 * np.arange(table.size) * max(1.0, np.abs(table).max())
            score = np.clip(scores.score[own], -MAX_SCORE, MAX_SCORE)
            first = np.interp(score, table + rise, GRID)
            result[own] = _middle(first, np.interp(score, table - rise[::-1], GRID))
        return result

    def interval(
        self, level: float, channel: CellIndex, gap_bin: CellIndex
    ) -> tuple[CellValues, CellValues]:
        """Lower and upper scores that contain the truth with probability `level`.

        The interval is equal-tailed. If one end lies on a bound, the whole remaining probability
        is in the other tail.
        """

        def at(probability: float) -> CellValues:
            normal = np.full(channel.size, NORMAL.inv_cdf(probability))
            return self.from_normal(normal, channel, gap_bin)

        low, high = at((1 - level) / 2), at((1 + level) / 2)
        at_lower, at_upper = low <= -MAX_SCORE, high >= MAX_SCORE
        high = np.where(at_lower & ~at_upper, at(level), high)
        return np.where(at_upper & ~at_lower, at(1 - level), low), high


def coverage(
    scores: CalibrationScores, dims: int, level: float, config: CalibrationConfig = DEFAULT
) -> CellMask:
    """True for each score inside its interval, cross-validated over folds of gaps."""
    gap = np.unique(scores.gap, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(gap.max(initial=-1) + 1)[gap] % config.folds
    covered = np.zeros(scores.score.size, dtype=bool)
    for each in range(config.folds):
        test = scores.select(fold == each)
        fitted = Calibration.fit_marginal(scores.select(fold != each), dims, config)
        low, high = fitted.interval(level, test.channel, test.gap_bin)
        score = np.clip(test.score, -MAX_SCORE, MAX_SCORE)
        covered[fold == each] = (score >= low) & (score <= high)
    return covered


def _mean_sizes(
    scores: CalibrationScores, dims: int, config: CalibrationConfig
) -> Float[np.ndarray, "dim gap_bin"]:
    """Mean absolute score, shrunk from gap bins to channels and from channels to all scores."""
    finite = np.isfinite(scores.score)  # infinite scores lie on a bound and have no size
    size = np.where(finite, np.minimum(np.abs(scores.score), config.max_score), 0.0)
    index, shape = scores.channel * GAP_BINS + scores.gap_bin, (dims, GAP_BINS)
    first = np.unique(scores.gap, return_index=True)[1]
    cells, total, gaps = (
        np.bincount(at, weights=weight, minlength=dims * GAP_BINS).reshape(shape)
        for at, weight in ((index, finite), (index, size), (index[first], None))
    )
    result = np.full((1, 1), max(size[finite].mean(), 1e-9) if finite.any() else 1.0)
    for axes, prior in ((1, config.channel_prior_gaps), ((), config.bin_prior_gaps)):
        sums, count, units = (x.sum(axis=axes, keepdims=True) for x in (total, cells, gaps))
        mean = np.where(count > 0, sums / np.maximum(count, 1), result)
        log = units * np.log(np.maximum(mean, 1e-9)) + prior * np.log(result)
        result = np.exp(log / (units + prior))
    return result


@dataclass(frozen=True)
class _ScorePool:
    """Estimates quantiles of a gap bin from the scores of as many adjacent bins as needed."""

    scores: CalibrationScores
    size: Float[np.ndarray, "dim gap_bin"]  # mean absolute score, the unit of comparison
    config: CalibrationConfig

    def quantiles(self, channel: int) -> Float[np.ndarray, "gap_bin grid"]:
        """The score at each value of `GRID` in each gap bin of a channel."""
        own = self.scores.channel == channel
        mine = self.scores.select(own)
        # Infinite scores of other channels come from bounds that this channel may not have.
        common = self._standardised(self.scores.select(own | np.isfinite(self.scores.score)))
        rows = []
        for gap_bin, size in enumerate(self.size[channel]):
            near = self._nearest(mine, gap_bin)
            grid = common if near is None else self._standardised(near)
            scaled = np.where(np.abs(grid) < MAX_SCORE, size * grid, grid)
            rows.append(np.clip(scaled, -MAX_SCORE, MAX_SCORE))
        return np.round(rows, DIGITS)

    def _standardised(self, scores: CalibrationScores) -> Float[np.ndarray, " grid"]:
        """Quantiles of scores in units of the mean size of their gap bin."""
        if not scores.score.size:
            return GRID
        # The design effect: errors of one gap are correlated and count as fewer.
        cells = np.unique(scores.gap, return_counts=True)[1]
        mean_cluster = (cells**2).sum() / cells.sum()
        effective = cells.sum() / (1 + self.config.gap_correlation * (mean_cluster - 1))
        size = self.size[scores.channel, scores.gap_bin]
        return _on_grid(scores.score / size, float(effective))

    def _nearest(self, scores: CalibrationScores, gap_bin: int) -> CalibrationScores | None:
        """Scores of the bin and its nearest neighbours; None if all scores are too few."""
        if not self._enough(scores):
            return None
        difference = np.abs(scores.gap_bin - gap_bin)
        wider = (scores.select(difference <= bins) for bins in range(GAP_BINS))
        return next(near for near in wider if self._enough(near))

    def _enough(self, scores: CalibrationScores) -> bool:
        enough_cells = scores.score.size >= self.config.min_cells
        return enough_cells and np.unique(scores.gap).size >= self.config.min_gaps


def _on_grid(score: CellValues, effective: float) -> Float[np.ndarray, " grid"]:
    """The score at each value of `GRID`, given the effective number of independent scores.

    The next of n exchangeable scores is below the k-th smallest with probability k / (n + 1).
    """
    ordered = np.clip(np.sort(score), -MAX_SCORE, MAX_SCORE)
    share = (np.arange(ordered.size) + 0.5) / ordered.size
    probability = (share * effective + 0.5) / (effective + 1)
    inside = np.interp(PROBABILITY, probability, ordered)
    # Beyond the outermost score, scores grow like those of a normal distribution.
    outermost = NORMAL.inv_cdf(probability[-1])
    beyond = np.abs(GRID) / max(outermost, 1e-3)
    low = np.minimum(ordered[0], min(ordered[0], 0.0) * beyond)
    high = np.maximum(ordered[-1], max(ordered[-1], 0.0) * beyond)
    return np.where(np.abs(GRID) > outermost, np.where(GRID < 0, low, high), inside)


def _middle(low: CellValues, high: CellValues) -> CellValues:
    """The normal value whose probability is half-way between those of `low` and `high`."""
    below, above = (np.interp(each, GRID, PROBABILITY) for each in (low, high))
    return np.interp((below + above) / 2, PROBABILITY, GRID)
