"""Points in time at which series are remembered, and what lies between them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

__all__ = ["PointIndex", "PointLookup"]


@dataclass(frozen=True)
class PointIndex:
    """Some cells of a series: each a channel, at a time between two points."""

    channel: Int[np.ndarray, " cell"]
    left: Int[np.ndarray, " cell"]
    """The point before it, of which there is always one after."""

    share: Float[np.ndarray, " cell"]
    """How far on the way from the one to the other."""

    def pick(self, chosen: Bool[np.ndarray, " cell"]) -> "PointIndex":
        """Some of them."""
        return PointIndex(self.channel[chosen], self.left[chosen], self.share[chosen])

    def of(
        self, curves: Shaped[np.ndarray, "channel point *more"]
    ) -> Shaped[np.ndarray, " cell *more"]:
        """What curves of every channel are at the cells, by straight lines from point to point."""
        points = curves.shape[1]
        flat = curves.reshape(-1, *curves.shape[2:])
        return _between(flat, self.channel * points + self.left, self.share)

    def across(
        self, curves: Shaped[np.ndarray, " row channel point"]
    ) -> Shaped[np.ndarray, " row cell"]:
        """The same for several curves of every channel."""
        flat = curves.reshape(curves.shape[0], -1)
        return _between(flat.T, self.channel * curves.shape[2] + self.left, self.share).T

    def along(
        self, curve: Shaped[np.ndarray, " point *more"]
    ) -> Shaped[np.ndarray, " cell *more"]:
        """What a curve that all channels have is there."""
        return _between(curve, self.left, self.share)


def _between(curve: np.ndarray, left: np.ndarray, share: np.ndarray) -> np.ndarray:
    on_point = share == np.rint(share)
    if on_point.all():
        return curve[left + share.astype(np.int64)]
    low = curve[left]
    wide = share.astype(curve.dtype).reshape(-1, *(1,) * (low.ndim - 1))
    return low + wide * (curve[left + 1] - low)


@dataclass(frozen=True)
class PointLookup:
    """Where times are among the points."""

    left: Int[np.ndarray, " row"]
    share: Float[np.ndarray, " row"]

    there: Bool[np.ndarray, " row"]
    """False for times before the first point or after the last."""

    @classmethod
    def of(
        cls, point: Float[np.ndarray, " point"], time: Float[np.ndarray, " row"]
    ) -> "PointLookup":
        """Looks for the times; there are two points at least.

        >>> place = PointLookup.of(np.array([0.0, 2.0, 3.0]), np.array([0.5, 3.0, 4.0]))
        >>> place.left, place.there
        (array([0, 1, 1]), array([ True,  True, False]))
        """
        left = (np.searchsorted(point, time, side="right") - 1).clip(0, point.size - 2)
        share = (time - point[left]) / (point[left + 1] - point[left])
        return cls(left, share.clip(0.0, 1.0), (share > -1e-6) & (share < 1 + 1e-6))

    def at(self, rows: Int[np.ndarray, " cell"], channel: Int[np.ndarray, " cell"]) -> PointIndex:
        """PointIndex of these rows and channels."""
        return PointIndex(channel, self.left[rows], self.share[rows])
