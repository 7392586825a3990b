"""`ErrorCorrelation`: how the errors of one gap, and of channels at one time, go together."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.gaps import Gaps
from nrtsi.core.series import SeriesSet
from nrtsi.evaluation.calibration.scores import CalibrationScores

__all__ = ["ErrorCorrelation"]

# Reaches that are tried, in lengths of the gap; and pairs of cells by which they are judged.
REACHES = np.geomspace(0.01, 30.0, 33)
PAIRS = 200_000

# Gaps, and rows, from which a channel is believed as much as all channels together, or as chance.
FEW = 30.0


@dataclass(frozen=True)
class ErrorCorrelation:
    """A correlation over time inside a gap, and one between channels."""

    reach: Float[np.ndarray, " dim"]
    """Time over which errors forget each other, in lengths of the gap; positive."""

    smooth: Bool[np.ndarray, " dim"]
    """True where an error changes smoothly (Matérn, 3/2), False where it jumps (exponential)."""

    across: Float[np.ndarray, "dim other"]
    """Correlation of the errors of two channels in one row."""

    @classmethod
    def none(cls, dims: int) -> "ErrorCorrelation":
        """Errors of a gap that forget each other over its length; channels apart."""
        return cls(np.ones(dims), np.zeros(dims, dtype=bool), np.eye(dims))

    @classmethod
    def fit(
        cls, errors: CalibrationScores, normal: Float[np.ndarray, " cell"], dims: int
    ) -> "ErrorCorrelation":
        """Finds both from errors, told as standard normal numbers."""
        pairs = _Pairs.of(errors, normal)
        everywhere = pairs.best(np.ones(pairs.channel.size, dtype=bool))
        reach, smooth = np.empty(dims), np.empty(dims, dtype=bool)
        for channel in range(dims):
            own = pairs.channel == channel
            gaps = np.unique(pairs.gap[own]).size
            reach[channel], smooth[channel] = pairs.best(own) if gaps >= FEW else everywhere
        # Rounded here and not in a file, so that a model from a file draws the same.
        return cls(reach, smooth, np.round(_across(errors, normal, dims), 6))

    def normal(
        self, series: SeriesSet, gaps: Gaps, noise: Float[np.ndarray, "*draw two row dim"]
    ) -> Float[np.ndarray, "*draw row dim"]:
        """Standard normal numbers for the missing cells that cohere, made of independent ones."""
        mixed = noise @ np.linalg.cholesky(self.across).T
        result = np.zeros(noise.shape[:-3] + series.value.shape)
        for channel in range(series.dims):
            rows = np.flatnonzero(gaps.number[:, channel] >= 0)
            if rows.size:
                walk = _Walk.of(series.time[rows], gaps, rows, channel)
                reach, smooth = float(self.reach[channel]), bool(self.smooth[channel])
                own = mixed[..., rows, channel]
                result[..., rows, channel] = walk.run(own, reach, smooth=smooth)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "reach": self.reach.tolist(),
            "smooth": self.smooth.tolist(),
            "across": self.across.tolist(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "ErrorCorrelation":
        """The coherence that `to_dict` described."""
        return cls(
            reach=np.asarray(record["reach"], dtype=np.float64),
            smooth=np.asarray(record["smooth"], dtype=bool),
            across=np.asarray(record["across"], dtype=np.float64),
        )


@dataclass(frozen=True)
class _Walk:
    """The missing cells of one channel: gaps one after the other, each in the order of time."""

    step: Float[np.ndarray, " cell"]
    """Time since the cell before, in lengths of the gap; infinite for the first of a gap."""

    nth: Int[np.ndarray, " cell"]
    """Which cell of its gap it is."""

    @classmethod
    def of(
        cls,
        time: Float[np.ndarray, " cell"],
        gaps: Gaps,
        rows: Int[np.ndarray, " cell"],
        channel: int,
    ) -> "_Walk":
        number, length = gaps.number[rows, channel], gaps.length[rows, channel]
        fresh = np.concatenate([[True], np.diff(number) != 0])
        first = np.maximum.accumulate(np.where(fresh, np.arange(rows.size), 0))
        finite = np.where(np.isfinite(length) & (length > 0), length, 1.0)
        step = np.where(fresh, np.inf, np.diff(time, prepend=time[:1]) / finite)
        return cls(step, np.arange(rows.size) - first)

    def run(
        self, noise: Float[np.ndarray, "*draw two cell"], reach: float, *, smooth: bool
    ) -> Float[np.ndarray, "*draw cell"]:
        """One error after the other, all gaps and draws at once."""
        first, second = noise[..., 0, :], noise[..., 1, :]
        value, slope = np.zeros(first.shape), np.zeros(first.shape)
        order = np.argsort(self.nth, kind="stable")
        ends = np.searchsorted(self.nth[order], np.arange(self.nth.max() + 2))
        for begin, end in pairwise(ends):
            at = order[begin:end]
            before = np.maximum(at - 1, 0)
            move = _smooth_step if smooth else _rough_step
            stirred = first[..., at], second[..., at]
            value[..., at], slope[..., at] = move(
                value[..., before], slope[..., before], self.step[at] / reach, stirred
            )
        return value


def _rough_step(
    value: np.ndarray, slope: np.ndarray, step: np.ndarray, noise: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """An error that decays and is stirred anew: correlation `exp(-step)`."""
    kept = np.exp(-step)
    return kept * value + np.sqrt(1 - kept**2) * noise[0], slope


def _smooth_step(
    value: np.ndarray, slope: np.ndarray, step: np.ndarray, noise: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """An error with a slope that decays and is stirred: correlation `(1 + s) exp(-s)`.

    The slope is in units of its own standard deviation.
    """
    far = ~np.isfinite(step)
    s = np.sqrt(3.0) * np.where(far, 0.0, step)
    kept = np.where(far, 0.0, np.exp(-s))
    to_value = (kept * (1 + s), kept * s)
    to_slope = (-kept * s, kept * (1 - s))
    # What the transition leaves of the stationary variances, 1 and 1, is stirred anew.
    own = np.maximum(1 - to_value[0] ** 2 - to_value[1] ** 2, 0.0)
    both = -(to_value[0] * to_slope[0] + to_value[1] * to_slope[1])
    other = np.maximum(1 - to_slope[0] ** 2 - to_slope[1] ** 2, 0.0)
    deviation = np.sqrt(own)
    shared = np.where(deviation > 1e-9, both / np.maximum(deviation, 1e-9), 0.0)
    rest = np.sqrt(np.maximum(other - shared**2, 0.0))
    return (
        to_value[0] * value + to_value[1] * slope + deviation * noise[0],
        to_slope[0] * value + to_slope[1] * slope + shared * noise[0] + rest * noise[1],
    )


@dataclass(frozen=True)
class _Pairs:
    """Pairs of cells of one gap: how far apart they are, and the product of their errors."""

    channel: Int[np.ndarray, " pair"]
    gap: Int[np.ndarray, " pair"]
    apart: Float[np.ndarray, " pair"]
    """In lengths of the gap."""

    product: Float[np.ndarray, " pair"]

    @classmethod
    def of(cls, errors: CalibrationScores, normal: Float[np.ndarray, " cell"]) -> "_Pairs":
        """Pairs taken at random: of the cells of each gap, every two are as likely."""
        order = np.argsort(errors.gap, kind="stable")
        first = np.searchsorted(errors.gap[order], errors.gap[order])
        size = np.searchsorted(errors.gap[order], errors.gap[order], side="right") - first
        rng = np.random.default_rng(0)
        # A cell of a gap of n is in n - 1 pairs: long gaps have more of them, as sums do.
        many = size > 1
        weight = np.where(many, size - 1, 0).astype(np.float64)
        if not many.any():
            nothing = np.zeros(0, dtype=np.int64)
            return cls(nothing, nothing, np.zeros(0), np.zeros(0))
        count = int(min(PAIRS, weight.sum()))
        one = rng.choice(order.size, size=count, p=weight / weight.sum())
        step = 1 + np.floor(rng.random(count) * (size[one] - 1)).astype(np.int64)
        other = first[one] + (one - first[one] + step) % size[one]
        a, b = order[one], order[other]
        return cls(
            errors.channel[a],
            errors.gap[a],
            np.abs(errors.place[a] - errors.place[b]),
            normal[a] * normal[b],
        )

    def best(self, pairs: Bool[np.ndarray, " pair"]) -> tuple[float, bool]:
        """The reach, and the kind, that fit these pairs best."""
        if not pairs.any():
            return 1.0, False
        apart, product = self.apart[pairs], np.clip(self.product[pairs], -9.0, 9.0)
        tried = []
        for reach in REACHES:
            s = apart / reach
            smooth = np.sqrt(3.0) * s
            for kind, agree in ((False, np.exp(-s)), (True, (1 + smooth) * np.exp(-smooth))):
                tried.append((float(np.mean((product - agree) ** 2)), float(reach), kind))
        _, reach, kind = min(tried)
        return reach, kind


def _across(
    errors: CalibrationScores, normal: Float[np.ndarray, " cell"], dims: int
) -> Float[np.ndarray, "dim other"]:
    """Correlation of channels over the rows in which both were set aside, shrunk by how few."""
    rows, row = np.unique(errors.row, return_inverse=True)
    table = np.zeros((rows.size, dims))
    there = np.zeros((rows.size, dims))
    table[row, errors.channel], there[row, errors.channel] = normal, 1.0
    count = there.T @ there
    both = table.T @ table
    size = np.sqrt((table**2).T @ there)
    agree = both / np.maximum(size * size.T, 1e-12) * count / (count + FEW)
    np.fill_diagonal(agree, 1.0)
    return _nearest(agree)


def _nearest(agree: Float[np.ndarray, "dim other"]) -> Float[np.ndarray, "dim other"]:
    """A correlation matrix near to one that was put together entry by entry."""
    value, vector = np.linalg.eigh((agree + agree.T) / 2)
    fixed = (vector * np.maximum(value, 1e-3)) @ vector.T
    size = np.sqrt(np.diag(fixed))
    return fixed / np.outer(size, size)
