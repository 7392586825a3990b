"""What to remember of the series at hand, and in which way: as it turns out to help."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.interpolate import make_interp_spline

from nrtsi.interpolation import interpolate
from nrtsi.memory.analogs import SYMMETRIES, Analogs
from nrtsi.memory.memory import Memory, Way
from nrtsi.memory.normal import Normal
from nrtsi.missing import Hiding
from nrtsi.series import SeriesSet

__all__ = ["Kept", "remember"]

log = logging.getLogger(__name__)

# Fewer series are too few to find one's like among; more would take long to look through.
FEWEST, MOST = 64, 2**13

# What a series may lack of the time that most have, at each end; and how much of it is observed.
LACKS, OBSERVED = 0.05, 0.5

# Points in time, at most.
POINTS = 1024

# Cells of a series that a covariance is made of, at most.
CELLS = 2048

# Series that ways of remembering are tried on, and those that tell which curves suit.
TRIED = 32

# What a way has to be better by than a simpler one.
WORTH = 0.9

# An error so many times another that nothing will make up for it.
FAR = 2.0

# Series that are put together, and how closely they follow what is known: what is tried.
NEAR, RIDGES = (8, 32), (1e-1, 1e-2, 1e-3)

# The same where all series are one distribution, of which more is known.
FINER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

WayT = TypeVar("WayT", bound=Way)


@dataclass(frozen=True)
class Kept:
    """A memory, and where the series that were learnt from are in it."""

    memory: Memory

    own: Int[np.ndarray, " series"]
    """The number of each series among the remembered ones; -1 where it is none of them."""


def remember(
    series: SeriesSet, hiding: Hiding, seed: int, seconds: float | None = None
) -> Kept | None:
    """Remembers `series`, which are scaled; None where they have no time in common, or no likes.

    The ways to do so are tried on some of them with cells hidden, for about so many `seconds`; the
    best is used, if it is better than interpolation.
    """
    until = np.inf if seconds is None else monotonic() + seconds
    rng = np.random.default_rng([seed, 5])
    kept = _kept(series, rng)
    point = None if kept is None else _points(series.select(kept))
    if kept is None or point is None:
        return None
    own = np.full(series.series, -1)
    own[kept] = np.arange(kept.size)
    tried = rng.permutation(kept)[:TRIED]
    truth = series.select(tried)
    hidden = hiding.draw(truth, rng)
    all_kept = series.select(kept)
    value = _at_points(all_kept, point)
    trial = _Trial(point, value, _ends(all_kept), truth, hidden, own[tried], until)
    way, error = trial.best()
    line = trial.error(interpolate(truth.hide(hidden)))
    log.info("memory: error %.3g, interpolation's %.3g", error, line)
    return Kept(Memory(point, way), own) if error < WORTH * line else None


def _kept(series: SeriesSet, rng: np.random.Generator) -> Int[np.ndarray, " kept"] | None:
    """The series that have most of the time in common, and enough observed of it."""
    full = np.flatnonzero(series.length > 2)
    if full.size < FEWEST:
        return None
    begin, end = series.time[series.start[full]], series.time[series.start[full + 1] - 1]
    low, high = np.median(begin), np.median(end)
    lacks = LACKS * (high - low)
    seen = np.add.reduceat(series.observed, series.start[full], axis=0)
    enough = (seen >= OBSERVED * series.length[full, None]).all(axis=1)
    kept = full[(begin <= low + lacks) & (end >= high - lacks) & enough]
    if kept.size < max(FEWEST, full.size // 2):
        return None
    return np.sort(rng.permutation(kept)[:MOST])


def _ends(series: SeriesSet) -> tuple[np.ndarray, np.ndarray]:
    seen = series.observed
    return (
        np.where(seen, series.value, np.inf).min(axis=0),
        np.where(seen, series.value, -np.inf).max(axis=0),
    )


def _points(series: SeriesSet) -> Float[np.ndarray, " point"] | None:
    """Common points in time: whole units where all times are, else two for every row."""
    first, last = series.time.min(), series.time.max()
    step = 1.0
    if not np.array_equal(series.time, np.rint(series.time)):
        step = (last - first) / (2 * np.median(series.length))
    count = int(np.ceil((last - first) / step - 1e-9)) + 1
    return first + step * np.arange(count) if 2 <= count <= POINTS else None


def _at_points(
    series: SeriesSet, point: Float[np.ndarray, " point"]
) -> Float[np.ndarray, "channel point series"]:
    """Values at the points: the observed ones, and curves between and beyond them."""
    if np.array_equal(series.time, np.tile(point, series.series)):
        value = interpolate(series).reshape(series.series, point.size, series.dims)
        return np.ascontiguousarray(value.transpose(2, 1, 0), dtype=np.float32)
    value = np.empty((series.dims, point.size, series.series), dtype=np.float32)
    degree = _degree(series)
    for index in range(series.series):
        for dim in range(series.dims):
            time, known = _channel(series, index, dim)
            value[dim, :, index] = _curve(time, known, point, degree)
    return value


def _channel(series: SeriesSet, index: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rows = slice(series.start[index], series.start[index + 1])
    seen = series.observed[rows, dim]
    return series.time[rows][seen], series.value[rows, dim][seen]


def _degree(series: SeriesSet) -> int:
    """Lines or cubic splines: what tells points that were left out with the lesser error."""
    errors = {1: 0.0, 3: 0.0}
    for index in range(0, series.series, max(1, series.series // TRIED)):
        for dim in range(series.dims):
            time, known = _channel(series, index, dim)
            left = np.zeros(time.size, dtype=bool)
            left[2:-2:3] = True
            for degree in errors:
                told = _curve(time[~left], known[~left], time[left], degree)
                errors[degree] += float(np.square(told - known[left]).sum())
    return min(errors, key=lambda degree: errors[degree])


def _curve(
    time: Float[np.ndarray, " known"],
    known: Float[np.ndarray, " known"],
    point: Float[np.ndarray, " point"],
    degree: int,
) -> Float[np.ndarray, " point"]:
    """Through what is known; a step or two beyond its ends, and from there on level."""
    if time.size <= degree:
        return np.interp(point, time, known)
    step = 2 * float(np.median(np.diff(time)))
    inside = point.clip(time[0] - step, time[-1] + step)
    return np.asarray(make_interp_spline(time, known, k=degree)(inside))


@dataclass(frozen=True)
class _Trial:
    """Ways of remembering, tried on series of which cells are hidden."""

    point: Float[np.ndarray, " point"]
    value: Float[np.ndarray, "channel point series"]

    ends: tuple[Float[np.ndarray, " channel"], Float[np.ndarray, " channel"]]
    """The least and the greatest that each channel has had."""

    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    own: Int[np.ndarray, " tried"]

    until: float
    """When to stop trying."""

    def best(self) -> tuple[Way, float]:
        """The way with the least error; one distribution, unless analogs are clearly better."""
        if self.value[..., 0].size > CELLS:
            return self._analogs(np.inf)
        normal = Normal.of(self.value, FINER[0])
        all_at_once = self._better([replace(normal, ridge=ridge) for ridge in FINER])
        few = self._analogs(all_at_once[1])
        return few if few[1] < WORTH * all_at_once[1] else all_at_once

    def error(self, filled: Float[np.ndarray, "row dim"]) -> float:
        """Mean squared error of the hidden cells."""
        return float(np.square(filled - self.truth.value)[self.hidden].mean())

    def _analogs(self, other: float) -> tuple[Analogs, float]:
        """How many, how closely, and whether series that have never been are like them, too.

        Not to the end, where they are far from the error of the `other` way.
        """
        plain = Analogs.of(self.value, self.ends, near=NEAR[0], ridge=RIDGES[1])
        best, error = self._better([replace(plain, near=near) for near in NEAR])
        if error > FAR * other:
            return best, error
        for symmetry in SYMMETRIES:
            more = replace(best, symmetries=(*best.symmetries, symmetry))
            if symmetry != "alike" or self.truth.dims > 1:
                best, error = self._better([more], best, WORTH * error)
        half = replace(best, near=best.near // 2)
        closely = [replace(each, ridge=ridge) for each in (best, half) for ridge in RIDGES]
        return self._better(closely)

    def _better(
        self, ways: Sequence[WayT], otherwise: WayT | None = None, error: float = np.inf
    ) -> tuple[WayT, float]:
        """The way with the least error, if that is below `error`."""
        errors = [self._error(ways[0])]
        errors += [self._error(way) for way in ways[1:] if monotonic() < self.until]
        least = int(np.argmin(errors))
        if otherwise is not None and errors[least] >= error:
            return otherwise, error
        return ways[least], errors[least]

    def _error(self, way: Way) -> float:
        recalled = Memory(self.point, way).recall(self.truth.hide(self.hidden), self.own)
        return self.error(recalled.value)
