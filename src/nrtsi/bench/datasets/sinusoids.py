"""Sinusoids at irregular times, as in the paper."""

import numpy as np
from jaxtyping import Float

__all__ = ["sinusoids"]

SECONDS = 5.0
"""Length of a series."""

PER_SECOND = 20.0
"""Units of time in a second, so that a hundred points in five seconds have a mean step of 1."""


def sinusoids(
    series: int, seed: int, *, steps: int = 100
) -> tuple[Float[np.ndarray, "series step"], Float[np.ndarray, "series step 1"]]:
    """Returns times in units, ascending, and values.

    Every series is a sine of amplitude 1 and phase 0 at time 0, with a frequency
    uniform in 0.5 to 1 Hz. Its times are uniform in five seconds.

    >>> time, value = sinusoids(3, seed=0)
    >>> time.shape, value.shape
    ((3, 100), (3, 100, 1))
    """
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.5, 1.0, size=(series, 1))
    second = np.sort(rng.uniform(0.0, SECONDS, size=(series, steps)), axis=1)
    value = np.sin(2 * np.pi * frequency * second)
    return PER_SECOND * second, value[:, :, None]
