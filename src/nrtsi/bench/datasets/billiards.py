"""A frictionless ball on a square table, as in the paper."""

import numpy as np
from jaxtyping import Float

__all__ = ["WALL", "billiards"]

WALL = 0.8828
"""The table extends from minus this to plus this, in both directions."""

SPEED = (0.0018, 0.1075)
"""Slowest and fastest ball, in table units a second."""

CHANNELS = ("x", "y")


def billiards(
    series: int, seed: int, *, steps: int = 200, irregular: bool = False
) -> tuple[Float[np.ndarray, "series step"], Float[np.ndarray, "series step 2"]]:
    """Returns times in seconds, ascending, and the positions of the ball.

    Every ball starts at time 0 at a random position, with random direction and speed, and is
    reflected without loss. It is observed at 0, 1, 2, … seconds or, if `irregular`, at times
    uniform in 0 to `steps` seconds.

    >>> time, place = billiards(3, seed=0)
    >>> time.shape, place.shape
    ((3, 200), (3, 200, 2))
    """
    rng = np.random.default_rng(seed)
    start = rng.uniform(-WALL, WALL, size=(series, 2))
    angle = rng.uniform(0.0, 2 * np.pi, size=series)
    speed = rng.uniform(*SPEED, size=series)
    velocity = speed[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    if irregular:
        time = np.sort(rng.uniform(0.0, float(steps), size=(series, steps)), axis=1)
    else:
        time = np.tile(np.arange(steps, dtype=np.float64), (series, 1))
    return time, reflected(start[:, None] + velocity[:, None] * time[:, :, None])


def reflected(place: Float[np.ndarray, "*any 2"]) -> Float[np.ndarray, "*any 2"]:
    """The position of a ball that would be at `place` without walls.

    A wall is a mirror: the straight path behind it is folded back.

    >>> reflected(np.array([WALL + 0.1, -3 * WALL - 0.1])).round(4)
    array([0.7828, 0.7828])
    """
    width = 2 * WALL
    return WALL - np.abs(np.mod(place + WALL, 2 * width) - width)
