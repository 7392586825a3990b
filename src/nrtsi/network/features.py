"""Features of tokens: the paper's time encoding, calendar phases, and the nearest known values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.interpolation import Known
from nrtsi.core.series import SeriesSet

__all__ = ["NeighbourFeatures", "calendar_encoding", "time_encoding"]

TimeArray: TypeAlias = Float[np.ndarray, "*shape"]
Encoding: TypeAlias = Float[np.ndarray, "*shape channels"]
ByToken: TypeAlias = Float[np.ndarray, "token dim"]
PerToken: TypeAlias = Float[np.ndarray, " token #dim"]
RowsByToken: TypeAlias = Int[np.ndarray, " token #dim"]
Features: TypeAlias = Float[np.ndarray, "token feature"]


def time_encoding(time: TimeArray, channels: int, scale: float) -> Encoding:
    """φ(t), eq. 1: sin and cos of `t / scale**(k / (channels/2 - 1))`, k = 0 … channels/2 - 1.

    Computed in float64, because float32 cannot represent the times of a long series.

    >>> time_encoding(np.array([100.0]), 8, 100.0)[0, -2:] == np.float32([np.sin(1), np.cos(1)])
    array([ True,  True])
    """
    pairs = channels // 2
    return _sin_cos(time[..., None] / scale ** (np.arange(pairs) / (pairs - 1)))


def calendar_encoding(time: TimeArray, periods: Sequence[float]) -> Encoding:
    """Returns sin and cos of the phase of each time in the given periods (a day, a week)."""
    return _sin_cos(time[..., None] * (2 * np.pi / np.asarray(periods, dtype=np.float64)))


def _sin_cos(angle: Float[np.ndarray, "*shape pair"]) -> Encoding:
    pairs = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return pairs.reshape(*angle.shape[:-1], -1).astype(np.float32)


@dataclass(frozen=True)
class _Points:
    """A time and a value for each token and channel, if available."""

    time: PerToken
    value: ByToken
    available: Bool[np.ndarray, " token #dim"]

    @classmethod
    def of(cls, series: SeriesSet, rows: RowsByToken) -> "_Points":
        by_channel = np.broadcast_to(rows, (rows.shape[0], series.dims))
        value = series.value[by_channel, np.arange(series.dims)]
        return cls(series.time[rows], value, rows >= 0)

    def slope(self, later: "_Points") -> ByToken:
        """Returns the slope to a later point; 0 if one of the two is not available."""
        span = later.time - self.time
        both = self.available & later.available & (span > 0)
        return np.where(both, (later.value - self.value) / np.where(both, span, 1.0), 0.0)


@dataclass(frozen=True)
class NeighbourFeatures:
    """Features of the rows of windows; a small network learns sooner with them.

    If rows are complete or missing, all channels share the neighbours of the first.
    """

    series: SeriesSet
    known: Known
    rows: Int[np.ndarray, " token"]
    value: ByToken
    """The known values of the tokens; the interpolation of missing cells."""
    unit: Float[np.ndarray, "token 1"]
    """The unit of time."""
    nearest: tuple[RowsByToken, RowsByToken]
    """Rows of the nearest known values before and after each token; negative if there is none."""

    def distances(self) -> tuple[PerToken, PerToken]:
        """Returns the times to the nearest known values before and after; ∞ if there is none."""
        before, after = self._nearest
        own = self._own.time
        return (
            np.where(before.available, own - before.time, np.inf),
            np.where(after.available, after.time - own, np.inf),
        )

    def differences(self, max_distance: float) -> Features:
        """Returns the differences to the nearest known values, and the log distances to them.

        Distances are clipped at `max_distance` units, which also stands for no neighbour.
        """
        differences = [
            np.where(point.available, point.value - self.value, 0.0) for point in self._nearest
        ]
        log_distances = [
            np.log2((distance / self.unit).clip(1 / max_distance, max_distance)) / 2
            for distance in self.distances()
        ]
        return np.concatenate(differences + log_distances, axis=-1)

    def slopes(self) -> Features:
        """Returns the slopes to and from the token, and those beyond its two neighbours.

        They are compressed by arcsinh, so that pairs of close points in noise do not dominate.
        """
        before, after = self._nearest
        beyond = [_Points.of(self.series, rows) for rows in self.known.around(self.rows, 2)]
        pairs = (before, self._own), (self._own, after), (beyond[0], before), (after, beyond[1])
        slopes = [earlier.slope(later) for earlier, later in pairs]
        return np.arcsinh(np.concatenate(slopes, axis=-1) * self.unit)

    def max_slope(self, valid: Bool[np.ndarray, "window set"]) -> ByToken:
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
