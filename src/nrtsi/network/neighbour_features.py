"""Token features from the nearest known values: differences, distances and slopes.

Attention could derive them, but a small network learns sooner with them, above all with quotients
such as slopes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.interpolation import Known
from nrtsi.core.series import SeriesSet

__all__ = ["NeighbourFeatures"]


@dataclass(frozen=True)
class _Points:
    """A time and a value for each token and channel, if available."""

    time: Float[np.ndarray, " token #dim"]
    value: Float[np.ndarray, "token dim"]
    available: Bool[np.ndarray, " token #dim"]

    @classmethod
    def of(cls, series: SeriesSet, rows: Int[np.ndarray, " token #dim"]) -> "_Points":
        by_channel = np.broadcast_to(rows, (rows.shape[0], series.dims))
        value = series.value[by_channel, np.arange(series.dims)]
        return cls(series.time[rows], value, rows >= 0)

    def slope(self, later: "_Points") -> Float[np.ndarray, "token dim"]:
        """Returns the slope to a later point; 0 if one of the two is not available."""
        span = later.time - self.time
        both = self.available & later.available & (span > 0)
        return np.where(both, (later.value - self.value) / np.where(both, span, 1.0), 0.0)


@dataclass(frozen=True)
class NeighbourFeatures:
    """Features of tokens, which are the rows of windows, one window after the other.

    If rows are complete or missing, all channels share the neighbours of the first.
    """

    series: SeriesSet
    known: Known
    rows: Int[np.ndarray, " token"]

    value: Float[np.ndarray, "token dim"]
    """The known values of the tokens; the interpolation where a cell is missing."""

    unit: Float[np.ndarray, "token 1"]
    """The unit of time."""

    nearest: tuple[Int[np.ndarray, " token #dim"], Int[np.ndarray, " token #dim"]]
    """Rows of the nearest known values before and after each token; negative if there is none."""

    def distances(
        self,
    ) -> tuple[Float[np.ndarray, " token #dim"], Float[np.ndarray, " token #dim"]]:
        """Returns the times to the nearest known values before and after; ∞ if there is none."""
        before, after = self._nearest
        own = self.series.time[self.rows, None]
        return (
            np.where(before.available, own - before.time, np.inf),
            np.where(after.available, after.time - own, np.inf),
        )

    def differences(self, max_distance: float) -> Float[np.ndarray, "token feature"]:
        """Returns the differences to the nearest known values, and the log distances to them.

        Distances are clipped at `max_distance` units, which also stands for no neighbour.
        """
        before, after = self._nearest
        log_distances = (
            np.log2((distance / self.unit).clip(1 / max_distance, max_distance)) / 2
            for distance in self.distances()
        )
        return np.concatenate(
            [
                np.where(before.available, before.value - self.value, 0.0),
                np.where(after.available, after.value - self.value, 0.0),
                *log_distances,
            ],
            axis=-1,
        )

    def slopes(self) -> Float[np.ndarray, "token feature"]:
        """Returns the slopes to and from the token, and those beyond its two neighbours.

        They are per unit of time and compressed by arcsinh, so that the steepest pairs, often two
        close points in noise, do not dominate.
        """
        before, after = self._nearest
        second_before, second_after = (
            _Points.of(self.series, rows) for rows in self.known.around(self.rows, 2)
        )
        slopes = [
            before.slope(self._own),
            self._own.slope(after),
            second_before.slope(before),
            after.slope(second_after),
        ]
        return np.arcsinh(np.concatenate(slopes, axis=-1) * self.unit)

    def max_slope(self, valid: Bool[np.ndarray, "window set"]) -> Float[np.ndarray, "token dim"]:
        """Returns the steepest slope in the window of each token, compressed by arcsinh."""
        _, after = self._nearest
        slope = np.abs(self._own.slope(after) * self.unit).reshape(*valid.shape, -1)
        steepest = np.where(valid[..., None], slope, 0.0).max(axis=1, initial=0.0)
        return np.arcsinh(np.repeat(steepest, valid.shape[1], axis=0))

    @cached_property
    def _nearest(self) -> tuple[_Points, _Points]:
        before, after = self.nearest
        return _Points.of(self.series, before), _Points.of(self.series, after)

    @property
    def _own(self) -> _Points:
        available = np.ones((self.rows.size, 1), dtype=bool)
        return _Points(self.series.time[self.rows, None], self.value, available)
