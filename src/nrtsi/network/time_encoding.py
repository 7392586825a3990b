"""Time encoding φ(t) of the paper (eq. 1), and its analogue for calendar periods."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["calendar_encoding", "time_encoding"]


def time_encoding(
    time: Float[np.ndarray, "*shape"], channels: int, scale: float
) -> Float[np.ndarray, "*shape channels"]:
    """φ(t): sin and cos of `t / scale**(k / (channels/2 - 1))`, k = 0 … channels/2 - 1.

    Computed in float64, because float32 cannot represent the times of a long series.

    >>> import numpy as np
    >>> time_encoding(np.array([100.0]), 8, 100.0)[0, -2:].tolist() == [
    ...     np.float32(np.sin(1.0)), np.float32(np.cos(1.0))
    ... ]
    True
    """
    pairs = channels // 2
    period = scale ** (np.arange(pairs) / (pairs - 1))
    return _sin_cos(time[..., None] / period)


def calendar_encoding(
    time: Float[np.ndarray, "*shape"], periods: Sequence[float]
) -> Float[np.ndarray, "*shape channels"]:
    """Returns sin and cos of the phase of each time in the given periods (a day, a week)."""
    return _sin_cos(time[..., None] * (2 * np.pi / np.asarray(periods, dtype=np.float64)))


def _sin_cos(angle: Float[np.ndarray, "*shape pair"]) -> Float[np.ndarray, "*shape channels"]:
    pairs = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return pairs.reshape(*angle.shape[:-1], -1).astype(np.float32)
