"""Series that can be remembered: those with a time in common, at points that all of them have."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet

__all__ = ["SeriesLibrary"]

# Fewer series are too few to find one's like among; more would take long to look through.
FEWEST, MOST = 64, 2**13

# What a series may lack of the time that most have, at each end; and how much of it is observed.
LACKS, OBSERVED = 0.05, 0.5

# Points in time, at most, and cells of all series.
POINTS, CELLS = 1024, 2**24

# What lies farther from the middle half of a channel, in times its width, is an outlier.
FAR = 10.0

# Share of missing cells that straight lines may not stand in for.
BRIDGED = 0.05

# Series that tell which curves suit.
TRIED = 32


@dataclass(frozen=True)
class SeriesLibrary:
    """Series at common points in time."""

    kept: Int[np.ndarray, " series"]
    """Which of the series that there are."""

    series: SeriesSet
    """They themselves."""

    point: Float[np.ndarray, " point"]

    value: Float[np.ndarray, "channel point series"]
    """Observed values, and curves between and beyond them."""

    low: Float[np.ndarray, " channel"]
    high: Float[np.ndarray, " channel"]
    """The least and the greatest that each channel has had, but for outliers."""

    @classmethod
    def of(cls, series: SeriesSet, rng: np.random.Generator) -> "SeriesLibrary | None":
        """The series that have most of the time in common; None where these are few."""
        kept = _kept(series)
        if kept.size < FEWEST:
            return None
        kept = np.sort(rng.permutation(kept)[:MOST])
        chosen = series.select(kept)
        point = _points(chosen)
        if not 2 <= point.size <= POINTS:
            return None
        most = CELLS // (point.size * series.dims)
        if most < kept.size:
            kept = kept[np.sort(rng.permutation(kept.size)[:most])]
            chosen = series.select(kept)
        if kept.size < FEWEST:
            return None
        low, high = _ends(chosen)
        value = _at_points(chosen, point)
        # A curve through two points close together may shoot up to anywhere.
        np.clip(value, *(end[:, None, None] for end in (low, high)), out=value)
        return cls(kept, chosen, point, value, low, high)

    @property
    def bridged(self) -> bool:
        """True where many cells are missing in rows at the very points, so that lines stand in."""
        missing = 1 - self.series.observed.mean()
        return bool(missing >= BRIDGED) and _at_the_points(self.series, self.point)

    def filled(self, told: Float[np.ndarray, "row dim"]) -> "SeriesLibrary":
        """The same with other values in their place."""
        value = np.where(self.series.observed, self.series.value, told)
        return replace(self, value=_laid_out(value, self.point.size))


def _kept(series: SeriesSet) -> Int[np.ndarray, " kept"]:
    """The series that have most of the time in common, and enough observed of it; or none."""
    full = np.flatnonzero(series.length > 2)
    nobody = np.zeros(0, dtype=np.int64)
    if not full.size:
        return nobody
    begin, end = _span(series, full)
    low, high = np.median(begin), np.median(end)
    lacks = LACKS * (high - low)
    before = np.concatenate([np.zeros((1, series.dims)), np.cumsum(series.observed, axis=0)])
    seen = before[series.start[full + 1]] - before[series.start[full]]
    enough = (seen >= OBSERVED * series.length[full, None]).all(axis=1)
    kept = full[(begin <= low + lacks) & (end >= high - lacks) & enough]
    return kept if kept.size >= full.size / 2 else nobody


def _span(
    series: SeriesSet, chosen: Int[np.ndarray, " chosen"]
) -> tuple[Float[np.ndarray, " chosen"], Float[np.ndarray, " chosen"]]:
    """When the series begin and end."""
    return series.time[series.start[chosen]], series.time[series.start[chosen + 1] - 1]


def _points(series: SeriesSet) -> Float[np.ndarray, " point"]:
    """Common points in time: whole units where all times are, else two for every row."""
    begin, end = _span(series, np.arange(series.series))
    low, high = np.median(begin), np.median(end)
    lacks = LACKS * (high - low)
    first, last = max(begin.min(), low - lacks), min(end.max(), high + lacks)
    step = 1.0
    if np.array_equal(series.time, np.rint(series.time)):
        first, last = np.ceil(first), np.floor(last)
    else:
        step = (last - first) / (2 * np.median(series.length))
    return first + step * np.arange(int(np.ceil((last - first) / step - 1e-9)) + 1)


def _ends(
    series: SeriesSet,
) -> tuple[Float[np.ndarray, " channel"], Float[np.ndarray, " channel"]]:
    """The least and the greatest of each channel, but for outliers."""
    ends = []
    for value, seen in zip(series.value.T, series.observed.T, strict=True):
        quarter, half, more = np.quantile(value[seen], (0.25, 0.5, 0.75))
        far = FAR * (more - quarter) if more > quarter else np.inf
        ends.append((max(value[seen].min(), half - far), min(value[seen].max(), half + far)))
    low, high = np.array(ends).T
    return low, high


def _at_points(
    series: SeriesSet, point: Float[np.ndarray, " point"]
) -> Float[np.ndarray, "channel point series"]:
    if _at_the_points(series, point):
        return _laid_out(interpolate(series), point.size)
    value = np.empty((series.dims, point.size, series.series), dtype=np.float32)
    degree = _degree(series)
    for index in range(series.series):
        for dim in range(series.dims):
            time, known = _channel(series, index, dim)
            value[dim, :, index] = _curve(time, known, point, degree)
    return value


def _at_the_points(series: SeriesSet, point: Float[np.ndarray, " point"]) -> bool:
    """True where every series has a row at every point and no other."""
    return np.array_equal(series.time, np.tile(point, series.series))


def _laid_out(
    value: Float[np.ndarray, "row dim"], points: int
) -> Float[np.ndarray, "channel point series"]:
    """Rows of series that have one at every point."""
    return np.ascontiguousarray(
        value.reshape(-1, points, value.shape[1]).transpose(2, 1, 0), dtype=np.float32
    )


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
    from scipy.interpolate import make_interp_spline  # takes a second to import

    step = 2 * float(np.median(np.diff(time)))
    inside = point.clip(time[0] - step, time[-1] + step)
    return np.asarray(make_interp_spline(time, known, k=degree)(inside))
