"""Errors, likelihood and calibration over the cells that count."""

import math

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError

__all__ = ["coverage", "crps", "l2", "mae", "mse", "must_score", "nll"]


def mse(
    truth: Float[np.ndarray, "*cell"],
    filled: Float[np.ndarray, "*cell"],
    where: Bool[np.ndarray, "*cell"],
) -> float:
    """Squared error, averaged over the cells that count.

    >>> import numpy as np
    >>> mse(np.array([1.0, 2.0]), np.array([1.0, 5.0]), where=np.array([False, True]))
    9.0
    """
    must_score(where)
    return float(np.mean((filled[where] - truth[where]) ** 2))


def mae(
    truth: Float[np.ndarray, "*cell"],
    filled: Float[np.ndarray, "*cell"],
    where: Bool[np.ndarray, "*cell"],
) -> float:
    """Absolute error, averaged over the cells that count.

    >>> import numpy as np
    >>> mae(np.array([1.0, 2.0]), np.array([1.0, 5.0]), where=np.array([False, True]))
    3.0
    """
    must_score(where)
    return float(np.mean(np.abs(filled[where] - truth[where])))


def l2(
    truth: Float[np.ndarray, "*row dim"],
    filled: Float[np.ndarray, "*row dim"],
    where: Bool[np.ndarray, "*row dim"],
) -> float:
    """Squared error summed over the channels, averaged over the rows with a cell that counts.

    It is the measure of the paper's tables of whole missing rows; there it is `dim` times `mse`.
    """
    must_score(where)
    square = np.where(where, filled - truth, 0.0) ** 2
    return float(square.sum() / where.any(axis=-1).sum())


def nll(
    truth: Float[np.ndarray, "*cell"],
    mean: Float[np.ndarray, "*cell"],
    deviation: Float[np.ndarray, "*cell"],
    where: Bool[np.ndarray, "*cell"],
) -> float:
    """Negative log-likelihood of the truth under independent Gaussians, per cell that counts."""
    must_score(where)
    spread = deviation[where]
    if not (spread > 0).all():
        raise InputError(f"deviation must be positive, got {spread.min()} in a cell that counts")
    apart = (truth[where] - mean[where]) / spread
    return float(np.mean(0.5 * apart**2 + np.log(spread)) + 0.5 * math.log(2 * math.pi))


def crps(
    truth: Float[np.ndarray, "*cell"],
    draws: Float[np.ndarray, " draw *cell"],
    where: Bool[np.ndarray, "*cell"],
) -> float:
    """Continuous ranked probability score of the draws, averaged over the cells that count.

    The distance of the draws from the truth, less half their distance from each other. That of a
    draw from itself is left out, so that the number of draws does not change what is expected.
    One draw has no other: its score is the absolute error.
    """
    must_score(where)
    count = draws.shape[0]
    picked = np.sort(draws[:, where], axis=0)
    off = np.mean(np.abs(picked - truth[where]), axis=0)
    if count == 1:
        return float(np.mean(off))
    # Sum over all pairs from the sorted draws: the i-th lies above i others and below the rest.
    weight = 2 * np.arange(count) - (count - 1)
    apart = weight @ picked / (count * (count - 1))
    return float(np.mean(off - apart))


def coverage(
    truth: Float[np.ndarray, "*cell"],
    low: Float[np.ndarray, "*cell"],
    high: Float[np.ndarray, "*cell"],
    where: Bool[np.ndarray, "*cell"],
) -> float:
    """Share of the cells that count whose truth lies from `low` to `high`, ends included."""
    must_score(where)
    inside = (low <= truth) & (truth <= high)
    return float(np.mean(inside[where]))


def must_score(where: Bool[np.ndarray, "..."]) -> None:
    """Refuses to score nothing: the average would be NaN, found too late in a table."""
    if not where.any():
        raise InputError("where must be True in at least one cell, got none; nothing to score")
