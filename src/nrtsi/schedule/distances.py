"""Distances from missing rows to known ones (the paper's missing gap), and their levels."""

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["TIME_TOLERANCE", "distances", "level_of"]

# Distances are differences of floats: on a regular grid equal ones differ in their last bits.
TIME_TOLERANCE = 1e-6


def distances(
    time: Float[np.ndarray, " row"],
    known: Bool[np.ndarray, " row"],
    start: Int[np.ndarray, " bound"],
    rows: Int[np.ndarray, " chosen"],
) -> Float[np.ndarray, " chosen"]:
    """Returns the distance in time from each chosen row to the nearest known row of its series.

    Known rows have distance 0; rows of a series without known rows have distance ∞.

    >>> import numpy as np
    >>> known = np.array([True, False, False, False, True])
    >>> distances(np.arange(5.0), known, np.array([0, 5]), np.arange(5))
    array([0., 1., 2., 1., 0.])
    """
    points = np.flatnonzero(known)
    if not points.size:
        return np.full(rows.shape, np.inf)
    series = np.searchsorted(start, rows, side="right")
    right = np.searchsorted(points, rows)
    after = points[right.clip(max=points.size - 1)]
    before = points[(right - 1).clip(min=0)]
    ahead = np.where((after >= rows) & (after < start[series]), time[after] - time[rows], np.inf)
    behind = np.where(
        (before <= rows) & (before >= start[series - 1]), time[rows] - time[before], np.inf
    )
    return np.minimum(ahead, behind)


def level_of(
    distance: Float[np.ndarray, "*shape"], *, max_level: int
) -> Int[np.ndarray, "*shape"]:
    """Returns the smallest level k with distance ≤ 2^k, and at most `max_level`.

    >>> import numpy as np
    >>> level_of(np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0]), max_level=2)
    array([0, 0, 1, 2, 2, 2])
    """
    return np.searchsorted(2.0 ** np.arange(max_level), distance, side="left")
