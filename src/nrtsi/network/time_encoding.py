"""Sines and cosines of time."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["calendar_encoding", "time_encoding"]


def time_encoding(
    time: Float[np.ndarray, "*shape"], channels: int, scale: float
) -> Float[np.ndarray, "*shape channels"]:
    """φ(t): sin and cos of `t / scale**(k / (channels/2 - 1))`, k = 0 … channels/2 - 1.

    Computed in float64, because the time of a long series does not fit float32.

    >>> import numpy as np
    >>> time_encoding(np.array([100.0]), 8, 100.0)[0, -2:].tolist() == [
    ...     np.float32(np.sin(1.0)), np.float32(np.cos(1.0))
    ... ]
    True
    """
    pairs = channels // 2
    period = scale ** (np.arange(pairs) / (pairs - 1))
    return _circle(time[..., None] / period)


def calendar_encoding(
    time: Float[np.ndarray, "*shape"], periods: Sequence[float]
) -> Float[np.ndarray, "*shape channels"]:
    """Where each time stands in cycles of the given periods (a day, a week), as sin and cos."""
    return _circle(time[..., None] * (2 * np.pi / np.asarray(periods, dtype=np.float64)))


def _circle(angle: Float[np.ndarray, "*shape pair"]) -> Float[np.ndarray, "*shape channels"]:
    both = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return both.reshape(*angle.shape[:-1], -1).astype(np.float32)
