"""`ErrorCorrelation`: correlation of errors over time within a gap, and between channels."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import CalibrationConfig
from nrtsi.core.gaps import Gaps
from nrtsi.core.series import SeriesSet
from nrtsi.evaluation.holdout import CalibrationScores, CellIndex, CellValues

__all__ = ["ErrorCorrelation"]

LENGTH_SCALES = np.geomspace(0.01, 30.0, 33)  # candidate length scales, in gap lengths
DEFAULT = CalibrationConfig()


@dataclass(frozen=True)
class ErrorCorrelation:
    """A Markov process over time within a gap, mixed across channels."""

    length_scale: Float[np.ndarray, " dim"]  # of the correlation over time, in gap lengths
    smooth: Bool[np.ndarray, " dim"]  # Matérn 3/2 instead of exponential
    channels: Float[np.ndarray, "dim other"]  # correlation of the channels in a row

    @classmethod
    def default(cls, dims: int) -> "ErrorCorrelation":
        """Exponential correlation over the length of the gap, and independent channels."""
        return cls(np.ones(dims), np.zeros(dims, dtype=bool), np.eye(dims))

    @classmethod
    def fit(
        cls,
        scores: CalibrationScores,
        normal: CellValues,
        dims: int,
        config: CalibrationConfig = DEFAULT,
    ) -> "ErrorCorrelation":
        """Fits both correlations to held-out errors, given as standard normal values."""
        pairs = _Pairs.of(scores, normal, config.pairs)
        overall = pairs.fit(np.ones(pairs.channel.size, dtype=bool))
        length_scale, smooth = np.empty(dims), np.empty(dims, dtype=bool)
        for dim in range(dims):
            own = pairs.channel == dim
            enough = np.unique(pairs.gap[own]).size >= config.correlation_prior
            length_scale[dim], smooth[dim] = pairs.fit(own) if enough else overall
        channels = _channel_correlation(scores, normal, dims, config.correlation_prior)
        return cls(length_scale, smooth, np.round(channels, 6))

    def correlate(
        self, series: SeriesSet, gaps: Gaps, noise: Float[np.ndarray, "*draw two row dim"]
    ) -> Float[np.ndarray, "*draw row dim"]:
        """Turns independent standard normal values into correlated ones at the missing cells."""
        mixed = noise @ np.linalg.cholesky(self.channels).T
        result = np.zeros(noise.shape[:-3] + series.value.shape)
        for dim in range(series.dims):
            rows = np.flatnonzero(gaps.number[:, dim] >= 0)
            if rows.size:
                process = _MarkovProcess.of(series.time[rows], gaps, rows, dim)
                length_scale, smooth = float(self.length_scale[dim]), bool(self.smooth[dim])
                result[..., rows, dim] = process.run(
                    mixed[..., rows, dim], length_scale, smooth=smooth
                )
        return result


@dataclass(frozen=True)
class _MarkovProcess:
    """The missing cells of one channel, in the order of gap and time."""

    step: CellValues  # time since the previous cell, in gap lengths; infinite for the first
    nth: CellIndex  # position of the cell in its gap

    @classmethod
    def of(cls, time: CellValues, gaps: Gaps, rows: CellIndex, channel: int) -> "_MarkovProcess":
        number, length = gaps.number[rows, channel], gaps.length[rows, channel]
        first = np.concatenate([[True], np.diff(number) != 0])
        start = np.maximum.accumulate(np.where(first, np.arange(rows.size), 0))
        finite = np.where(np.isfinite(length) & (length > 0), length, 1.0)
        step = np.where(first, np.inf, np.diff(time, prepend=time[:1]) / finite)
        return cls(step, np.arange(rows.size) - start)

    def run(
        self, noise: Float[np.ndarray, "*draw two cell"], length_scale: float, *, smooth: bool
    ) -> Float[np.ndarray, "*draw cell"]:
        """Simulates the process over time, for all gaps and draws at once."""
        first, second = noise[..., 0, :], noise[..., 1, :]
        value, slope = np.zeros(first.shape), np.zeros(first.shape)
        order = np.argsort(self.nth, kind="stable")
        ends = np.searchsorted(self.nth[order], np.arange(self.nth.max() + 2))
        transition = _matern_step if smooth else _exponential_step
        for begin, end in pairwise(ends):
            at = order[begin:end]
            before = np.maximum(at - 1, 0)
            innovation = first[..., at], second[..., at]
            value[..., at], slope[..., at] = transition(
                value[..., before], slope[..., before], self.step[at] / length_scale, innovation
            )
        return value


def _exponential_step(
    value: np.ndarray, slope: np.ndarray, step: np.ndarray, noise: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """A step of the Ornstein-Uhlenbeck process, with correlation `exp(-step)`."""
    decay = np.exp(-step)
    return decay * value + np.sqrt(1 - decay**2) * noise[0], slope


def _matern_step(
    value: np.ndarray, slope: np.ndarray, step: np.ndarray, noise: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """A step of the Matérn 3/2 process, with correlation `(1 + s) exp(-s)`, `s = √3 step`.

    The slope is in units of its standard deviation.
    """
    far = ~np.isfinite(step)
    s = np.sqrt(3.0) * np.where(far, 0.0, step)
    decay = np.where(far, 0.0, np.exp(-s))
    to_value = (decay * (1 + s), decay * s)
    to_slope = (-decay * s, decay * (1 - s))
    # The Cholesky factor of the innovation covariance; the stationary variances are 1.
    value_variance = np.maximum(1 - to_value[0] ** 2 - to_value[1] ** 2, 0.0)
    covariance = -(to_value[0] * to_slope[0] + to_value[1] * to_slope[1])
    slope_variance = np.maximum(1 - to_slope[0] ** 2 - to_slope[1] ** 2, 0.0)
    std = np.sqrt(value_variance)
    shared = np.where(std > 1e-9, covariance / np.maximum(std, 1e-9), 0.0)
    own = np.sqrt(np.maximum(slope_variance - shared**2, 0.0))
    return (
        to_value[0] * value + to_value[1] * slope + std * noise[0],
        to_slope[0] * value + to_slope[1] * slope + shared * noise[0] + own * noise[1],
    )


@dataclass(frozen=True)
class _Pairs:
    """Pairs of cells of one gap, from which the correlation over time is estimated."""

    channel: Int[np.ndarray, " pair"]
    gap: Int[np.ndarray, " pair"]
    difference: Float[np.ndarray, " pair"]  # difference in time, in gap lengths
    product: Float[np.ndarray, " pair"]  # product of the two errors

    @classmethod
    def of(cls, scores: CalibrationScores, normal: CellValues, max_pairs: int) -> "_Pairs":
        """Draws pairs at random; each pair of cells of a gap is equally likely."""
        order = np.argsort(scores.gap, kind="stable")
        first = np.searchsorted(scores.gap[order], scores.gap[order])
        size = np.searchsorted(scores.gap[order], scores.gap[order], side="right") - first
        weight = (size - 1).astype(np.float64)  # a cell of a gap of n cells is in n - 1 pairs
        if not weight.any():
            empty = np.zeros(0, dtype=np.int64)
            return cls(empty, empty, np.zeros(0), np.zeros(0))
        rng = np.random.default_rng(0)
        count = int(min(max_pairs, weight.sum()))
        one = rng.choice(order.size, size=count, p=weight / weight.sum())
        step = 1 + np.floor(rng.random(count) * (size[one] - 1)).astype(np.int64)
        other = first[one] + (one - first[one] + step) % size[one]
        a, b = order[one], order[other]
        difference = np.abs(scores.position[a] - scores.position[b])
        return cls(scores.channel[a], scores.gap[a], difference, normal[a] * normal[b])

    def fit(self, pairs: Bool[np.ndarray, " pair"]) -> tuple[float, bool]:
        """The length scale, and whether the correlation is smooth, by least squares."""
        if not pairs.any():
            return 1.0, False
        difference, product = self.difference[pairs], np.clip(self.product[pairs], -9.0, 9.0)
        candidates = []
        for length_scale in LENGTH_SCALES:
            s = difference / length_scale
            r = np.sqrt(3.0) * s
            for smooth, model in ((False, np.exp(-s)), (True, (1 + r) * np.exp(-r))):
                error = float(np.mean((product - model) ** 2))
                candidates.append((error, float(length_scale), smooth))
        return min(candidates)[1:]


def _channel_correlation(
    scores: CalibrationScores, normal: CellValues, dims: int, prior: float
) -> Float[np.ndarray, "dim other"]:
    """Correlation of channels over common rows, shrunk towards 0 by `prior` rows."""
    rows, row = np.unique(scores.row, return_inverse=True)
    value, present = np.zeros((rows.size, dims)), np.zeros((rows.size, dims))
    value[row, scores.channel], present[row, scores.channel] = normal, 1.0
    count = present.T @ present
    size = np.sqrt((value**2).T @ present)
    correlation = value.T @ value / np.maximum(size * size.T, 1e-12) * count / (count + prior)
    np.fill_diagonal(correlation, 1.0)
    # Estimated entry by entry, it may not be positive definite.
    eigenvalue, vector = np.linalg.eigh((correlation + correlation.T) / 2)
    fixed = (vector * np.maximum(eigenvalue, 1e-3)) @ vector.T
    std = np.sqrt(np.diag(fixed))
    return fixed / np.outer(std, std)
