"""Positions of cells on the common time grid of the stored series."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

__all__ = ["GridCells", "GridTimes"]


@dataclass(frozen=True)
class GridCells:
    """Cells of a series: each has a channel, and a time between two points of the grid."""

    channel: Int[np.ndarray, " cell"]

    left: Int[np.ndarray, " cell"]
    """The point at or before the cell; never the last one."""

    fraction: Float[np.ndarray, " cell"]
    """Distance from the left point, as a share of the step to the next."""

    def pick(self, chosen: Bool[np.ndarray, " cell"]) -> "GridCells":
        """Some of the cells."""
        return GridCells(self.channel[chosen], self.left[chosen], self.fraction[chosen])

    def sample(
        self, curves: Shaped[np.ndarray, "channel point *more"]
    ) -> Shaped[np.ndarray, " cell *more"]:
        """Interpolates the curve of each cell's channel at the time of the cell."""
        flat = curves.reshape(-1, *curves.shape[2:])
        return _interpolate(flat, self.channel * curves.shape[1] + self.left, self.fraction)

    def sample_one(
        self, curve: Shaped[np.ndarray, " point *more"]
    ) -> Shaped[np.ndarray, " cell *more"]:
        """Interpolates one curve at the times of the cells, whatever their channel."""
        return _interpolate(curve, self.left, self.fraction)


@dataclass(frozen=True)
class GridTimes:
    """Positions of times on a grid."""

    left: Int[np.ndarray, " row"]
    fraction: Float[np.ndarray, " row"]

    inside: Bool[np.ndarray, " row"]
    """False for times before the first point or after the last."""

    @classmethod
    def of(
        cls, point: Float[np.ndarray, " point"], time: Float[np.ndarray, " row"]
    ) -> "GridTimes":
        """Locates `time` on the grid `point`, which has at least two points.

        >>> times = GridTimes.of(np.array([0.0, 2.0, 3.0]), np.array([0.5, 3.0, 4.0]))
        >>> times.left, times.inside
        (array([0, 1, 1]), array([ True,  True, False]))
        """
        left = (np.searchsorted(point, time, side="right") - 1).clip(0, point.size - 2)
        fraction = (time - point[left]) / (point[left + 1] - point[left])
        inside = (fraction > -1e-6) & (fraction < 1 + 1e-6)
        return cls(left, fraction.clip(0.0, 1.0), inside)

    def cells(
        self, rows: Int[np.ndarray, " cell"], channel: Int[np.ndarray, " cell"]
    ) -> GridCells:
        """The cells in these rows and channels."""
        return GridCells(channel, self.left[rows], self.fraction[rows])


def _interpolate(curve: np.ndarray, left: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    on_point = fraction == np.rint(fraction)
    if on_point.all():
        return curve[left + fraction.astype(np.int64)]
    low = curve[left]
    share = fraction.astype(curve.dtype).reshape(-1, *(1,) * (low.ndim - 1))
    return low + share * (curve[left + 1] - low)
