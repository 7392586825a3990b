"""What a token carries of the known values around it: how far they are, how fast they change.

A network could work all of this out by attention. Handed to it, a small one learns it sooner:
above all a quotient, such as a slope, is hard for layers of sums.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.interpolation import Known
from nrtsi.core.series import SeriesSet

__all__ = ["NeighbourFeatures"]

# A neighbour farther than this many distances, or none at all, is simply "far".
FAR = 64.0


@dataclass(frozen=True)
class _Points:
    """A value for each token and channel, at a time; or none."""

    time: Float[np.ndarray, " token #dim"]
    value: Float[np.ndarray, "token dim"]
    there: Bool[np.ndarray, " token #dim"]

    @classmethod
    def of(cls, series: SeriesSet, rows: Int[np.ndarray, " token #dim"]) -> "_Points":
        wide = np.broadcast_to(rows, (rows.shape[0], series.dims))
        return cls(series.time[rows], series.value[wide, np.arange(series.dims)], rows >= 0)

    def slope(self, later: "_Points") -> Float[np.ndarray, "token dim"]:
        """Change over time up to a later point; 0 where one of the two is none."""
        span = later.time - self.time
        both = self.there & later.there & (span > 0)
        return np.where(both, (later.value - self.value) / np.where(both, span, 1.0), 0.0)


@dataclass(frozen=True)
class NeighbourFeatures:
    """The known values around the tokens of windows, one window after the other.

    Where rows are all or nothing one channel's neighbours are everybody's.
    """

    series: SeriesSet
    known: Known
    rows: Int[np.ndarray, " token"]

    value: Float[np.ndarray, "token dim"]
    """What is known of the tokens, or the interpolation of it."""

    distance: Float[np.ndarray, "token 1"]
    """What time is measured in."""

    nearest: tuple[Int[np.ndarray, " token #dim"], Int[np.ndarray, " token #dim"]]
    """The rows of the nearest known values before and after each token."""

    def distances(
        self,
    ) -> tuple[Float[np.ndarray, " token #dim"], Float[np.ndarray, " token #dim"]]:
        """Times to the nearest known values before and after; infinite where there is none."""
        before, after = self._nearest
        own = self.series.time[self.rows, None]
        return (
            np.where(before.there, own - before.time, np.inf),
            np.where(after.there, after.time - own, np.inf),
        )

    def steps(self) -> Float[np.ndarray, "token feature"]:
        """Differences to the nearest known values before and after, and the times to them."""
        before, after = self._nearest
        return np.concatenate(
            [
                np.where(before.there, before.value - self.value, 0.0),
                np.where(after.there, after.value - self.value, 0.0),
                *(_far(distance / self.distance) for distance in self.distances()),
            ],
            axis=-1,
        )

    def slopes(self) -> Float[np.ndarray, "token feature"]:
        """How fast the value changes to and from the token, and a known value farther away.

        In steps of a distance, on a compressed scale: the steepest pairs, often two points close
        together in noise, do not dominate.
        """
        before, after = self._nearest
        farther_before, farther_after = (
            _Points.of(self.series, rows) for rows in self.known.around(self.rows, 2)
        )
        slopes = [
            before.slope(self._own),
            self._own.slope(after),
            farther_before.slope(before),
            after.slope(farther_after),
        ]
        return np.arcsinh(np.concatenate(slopes, axis=-1) * self.distance)

    def steepest(self, valid: Bool[np.ndarray, "window set"]) -> Float[np.ndarray, "token dim"]:
        """The steepest slope in the window of each token, which tells how fast things move there.

        Seen from far apart a path looks slower than it is, since it turns in between.
        """
        _, after = self._nearest
        slope = np.abs(self._own.slope(after) * self.distance).reshape(*valid.shape, -1)
        top = np.where(valid[..., None], slope, 0.0).max(axis=1, initial=0.0)
        return np.arcsinh(np.repeat(top, valid.shape[1], axis=0))

    @cached_property
    def _nearest(self) -> tuple[_Points, _Points]:
        before, after = self.nearest
        return _Points.of(self.series, before), _Points.of(self.series, after)

    @property
    def _own(self) -> _Points:
        there = np.ones((self.rows.size, 1), dtype=bool)
        return _Points(self.series.time[self.rows, None], self.value, there)


def _far(distances: Float[np.ndarray, "token mark"]) -> Float[np.ndarray, "token mark"]:
    """A distance in distances, on a scale on which near and far are both told apart."""
    return np.log2(distances.clip(1 / FAR, FAR)) / 2
