"""`Calibration`: how errors are distributed, channel by channel and by the length of the gap."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.gaps import GAP_BINS
from nrtsi.evaluation.calibration.error_correlation import ErrorCorrelation
from nrtsi.evaluation.calibration.scores import CalibrationScores

__all__ = ["Calibration"]

# Standard normal numbers at which quantiles of the errors are kept.
GRID = np.linspace(-3.5, 3.5, 71)
NORMAL = NormalDist()
PROBABILITY = np.array([NORMAL.cdf(number) for number in GRID])

# A bucket takes the shape of its errors from its neighbours too until there are so many.
ENOUGH_CELLS, ENOUGH_GAPS = 100, 20

# How large errors are: gaps by which a channel is taken to be like all channels; and a length of
# gap like all of its channel, which differ less.
LIKE_ALL, LIKE_CHANNEL = 8.0, 60.0

# Correlation of two errors of one gap, roughly, in whether they are large.
ALIKE = 0.65

# An error of so many scales is as good as any larger one to say how large errors are.
OUTLIER = 20.0

# Errors larger than this many scales are all alike: beyond a bound they are infinite.
LARGEST = 1e6

# Decimals that are kept of an error, in a file and without one.
DIGITS = 5

# Parts into which gaps are dealt to see how many of each part the others' intervals cover.
FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """Quantiles of errors in units of their scale, by channel and bucket, and how they cohere."""

    table: Float[np.ndarray, "dim bucket grid"]
    """The error that belongs to each standard normal number of `GRID`; ascending."""

    cells: Int[np.ndarray, "dim bucket"]
    """Cells of the bucket that were set aside."""

    coherence: ErrorCorrelation

    @classmethod
    def none(cls, dims: int) -> "Calibration":
        """Errors as the scales say, normal: nothing was set aside."""
        table = np.broadcast_to(GRID, (dims, GAP_BINS, GRID.size)).copy()
        return cls(table, np.zeros((dims, GAP_BINS), dtype=np.int64), ErrorCorrelation.none(dims))

    @classmethod
    def fit(cls, errors: CalibrationScores, dims: int) -> "Calibration":
        """The distribution of these errors.

        An interval is that of split conformal prediction, with gaps for what is exchangeable: the
        cells of one gap are wrong together.
        """
        plain = cls.one_by_one(errors, dims)
        if plain.is_empty:
            return plain
        return replace(plain, coherence=ErrorCorrelation.fit(errors, plain.normal(errors), dims))

    @classmethod
    def one_by_one(cls, errors: CalibrationScores, dims: int) -> "Calibration":
        """The distribution of each of these errors by itself; how they cohere is not found."""
        if not errors.score.size:
            return cls.none(dims)
        pool = _Pool.of(errors, dims)
        table = np.stack([pool.quantiles(channel) for channel in range(dims)])
        cells = np.zeros((dims, GAP_BINS), dtype=np.int64)
        np.add.at(cells, (errors.channel, errors.bucket), 1)
        return cls(table, cells, ErrorCorrelation.none(dims))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was set aside."""
        return not self.cells.any()

    def score(
        self,
        normal: Float[np.ndarray, " cell"],
        channel: Int[np.ndarray, " cell"],
        bucket: Int[np.ndarray, " cell"],
    ) -> Float[np.ndarray, " cell"]:
        """The errors, in scales, that standard normal numbers stand for."""
        step = GRID[1] - GRID[0]
        place = np.clip((normal - GRID[0]) / step, 0, GRID.size - 1 - 1e-9)
        low = place.astype(np.int64)
        below, above = (self.table[channel, bucket, at] for at in (low, low + 1))
        inside = below + (place - low) * (above - below)
        # Beyond the grid the outermost error grows as a normal one would.
        beyond = np.maximum(np.abs(normal) / GRID[-1], 1.0)
        return inside * beyond

    def ends(
        self,
        level: float,
        channel: Int[np.ndarray, " cell"],
        bucket: Int[np.ndarray, " cell"],
    ) -> tuple[Float[np.ndarray, " cell"], Float[np.ndarray, " cell"]]:
        """The errors, in scales, between which they lie with probability `level`.

        As many are below as above. But where one end is at a bound, beyond which there is nothing,
        all that is outside is on the other side.
        """

        def at(probability: float) -> Float[np.ndarray, " cell"]:
            normal = np.full(channel.size, NORMAL.inv_cdf(probability))
            return self.score(normal, channel, bucket)

        low, high = at((1 - level) / 2), at((1 + level) / 2)
        least, most = low <= -LARGEST, high >= LARGEST
        high = np.where(least & ~most, at(level), high)
        return np.where(most & ~least, at(1 - level), low), high

    def normal(self, errors: CalibrationScores) -> Float[np.ndarray, " cell"]:
        """The standard normal numbers that stand for these errors."""
        result = np.empty(errors.score.size)
        index = errors.channel * GAP_BINS + errors.bucket
        for each in np.unique(index):
            own = index == each
            table = self.table[each // GAP_BINS, each % GAP_BINS]
            # Errors that are all alike would divide by nothing; those beyond a bound are many.
            rise = 1e-12 * np.arange(table.size) * max(1.0, np.abs(table).max())
            score = np.clip(errors.score[own], -LARGEST, LARGEST)
            first = np.interp(score, table + rise, GRID)
            result[own] = _middle(first, np.interp(score, table - rise[::-1], GRID))
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "table": self.table.tolist(),
            "cells": self.cells.tolist(),
            "coherence": self.coherence.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Calibration":
        """The calibration that `to_dict` described."""
        return cls(
            table=np.asarray(record["table"], dtype=np.float64),
            cells=np.asarray(record["cells"], dtype=np.int64),
            coherence=ErrorCorrelation.from_dict(record["coherence"]),
        )


def coverage(errors: CalibrationScores, dims: int, level: float) -> Bool[np.ndarray, " cell"]:
    """Whether each error lies inside the interval that the errors of other gaps give.

    Gaps are dealt into parts; the intervals of one part are found from all others.
    """
    gap = np.unique(errors.gap, return_inverse=True)[1]
    part = np.random.default_rng(0).permutation(gap.max(initial=-1) + 1)[gap] % FOLDS
    covered = np.zeros(errors.score.size, dtype=bool)
    for each in range(FOLDS):
        own = part == each
        found, asked = Calibration.one_by_one(errors.pick(~own), dims), errors.pick(own)
        ends = found.ends(level, asked.channel, asked.bucket)
        score = np.clip(asked.score, -LARGEST, LARGEST)
        covered[own] = (score >= ends[0]) & (score <= ends[1])
    return covered


@dataclass(frozen=True)
class _Pool:
    """Errors, to be asked for those of a bucket and of as many neighbours as it takes."""

    errors: CalibrationScores
    size: Float[np.ndarray, "dim bucket"]
    """How large errors are there: what those of neighbours are made comparable by."""

    @classmethod
    def of(cls, errors: CalibrationScores, dims: int) -> "_Pool":
        """Finds the sizes, with more regard to the channel, and to all, where gaps are few."""
        # Errors beyond a bound, which are infinite, say nothing of how large others are.
        finite = np.isfinite(errors.score)
        large = np.where(finite, np.minimum(np.abs(errors.score), OUTLIER), 0.0)
        index, shape = errors.channel * GAP_BINS + errors.bucket, (dims, GAP_BINS)
        first = np.unique(errors.gap, return_index=True)[1]
        cells, total, gaps = (
            np.bincount(at, weights=each, minlength=dims * GAP_BINS).reshape(shape)
            for at, each in ((index, finite), (index, large), (index[first], None))
        )
        size = np.full((1, 1), max(large[finite].mean(), 1e-9) if finite.any() else 1.0)
        for axes, few in ((1, LIKE_ALL), ((), LIKE_CHANNEL)):
            own, count, many = (x.sum(axis=axes, keepdims=True) for x in (total, cells, gaps))
            mean = np.where(count > 0, own / np.maximum(count, 1), size)
            # On a scale of ratios: small errors are as far from large ones as these from them.
            log = many * np.log(np.maximum(mean, 1e-9)) + few * np.log(size)
            size = np.exp(log / (many + few))
        return cls(errors, size)

    def quantiles(self, channel: int) -> Float[np.ndarray, "bucket grid"]:
        """The error that belongs to each number of `GRID`, in each bucket of a channel.

        It is found from errors in buckets near it, or of all channels where the channel has few.
        """
        own = self.errors.channel == channel
        mine = self.errors.pick(own)
        # Other channels may have bounds that this one has not, and infinite errors beyond them.
        common = self._shape(self.errors.pick(own | np.isfinite(self.errors.score)))
        rows = []
        for bucket, size in enumerate(self.size[channel]):
            near = _near(mine, bucket)
            grid = common if near is None else self._shape(near)
            sized = np.where(np.abs(grid) < LARGEST, size * grid, grid)
            rows.append(np.clip(sized, -LARGEST, LARGEST))
        return np.round(rows, DIGITS)

    def _shape(self, errors: CalibrationScores) -> Float[np.ndarray, " grid"]:
        """Quantiles of errors that are made comparable: each divided by the size of its kind."""
        if not errors.score.size:
            return GRID
        size = self.size[errors.channel, errors.bucket]
        return _on_grid(errors.score / size, _effective(errors))


def _near(errors: CalibrationScores, bucket: int) -> CalibrationScores | None:
    """Errors in the bucket and as many neighbours as it takes; None where all are too few."""
    if not _enough(errors):
        return None
    apart = np.abs(errors.bucket - bucket)
    nearer = (errors.pick(apart <= far) for far in range(GAP_BINS))
    return next(near for near in nearer if _enough(near))


def _enough(errors: CalibrationScores) -> bool:
    many = errors.score.size >= ENOUGH_CELLS
    return many and np.unique(errors.gap).size >= ENOUGH_GAPS


def _effective(errors: CalibrationScores) -> float:
    """How many independent errors these are worth: those of one gap are alike."""
    cells = np.unique(errors.gap, return_counts=True)[1]
    together = (cells**2).sum() / cells.sum()  # cells in the gap of a cell, on the average
    return float(cells.sum() / (1 + ALIKE * (together - 1)))


def _on_grid(score: Float[np.ndarray, " cell"], independent: float) -> Float[np.ndarray, " grid"]:
    """The error that belongs to each number of `GRID`; the errors are worth `independent` ones.

    The next of n independent errors is below the k-th smallest with probability k / (n + 1).
    """
    ordered = np.clip(np.sort(score), -LARGEST, LARGEST)
    share = (np.arange(ordered.size) + 0.5) / ordered.size
    probability = (share * independent + 0.5) / (independent + 1)
    inside = np.interp(PROBABILITY, probability, ordered)
    # Beyond the outermost error, errors grow as those of a normal distribution do.
    outermost = NORMAL.inv_cdf(probability[-1])
    beyond = np.abs(GRID) / max(outermost, 1e-3)
    low = np.minimum(ordered[0], min(ordered[0], 0.0) * beyond)
    high = np.maximum(ordered[-1], max(ordered[-1], 0.0) * beyond)
    return np.where(np.abs(GRID) > outermost, np.where(GRID < 0, low, high), inside)


def _middle(
    low: Float[np.ndarray, " cell"], high: Float[np.ndarray, " cell"]
) -> Float[np.ndarray, " cell"]:
    """The numbers whose probability is half-way between those of two."""
    below, above = (np.interp(each, GRID, PROBABILITY) for each in (low, high))
    return np.interp((below + above) / 2, PROBABILITY, GRID)
