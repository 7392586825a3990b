"""`SeriesLibrary`: training series that share a time span, on a common time grid."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from nrtsi.config import AnalogConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.ragged import cumulative
from nrtsi.core.series import SeriesSet

__all__ = ["GridCells", "SeriesLibrary", "locate"]

Grid = Float[np.ndarray, " point"]
Curves = Float[np.ndarray, "channel point series"]

# Series on which lines and cubic splines are compared; a few show which are closer.
DEGREE_SERIES = 32


@dataclass(frozen=True)
class GridCells:
    """Cells of a series: each has a channel, and a time between two points of the grid."""

    channel: Int[np.ndarray, " cell"]
    left: Int[np.ndarray, " cell"]  # the point at or before the cell; never the last one
    fraction: Float[np.ndarray, " cell"]  # distance from the left point, as a share of the step

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


def locate(
    point: Grid, time: Float[np.ndarray, " row"]
) -> tuple[Int[np.ndarray, " row"], Float[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """The left point and the fraction of each time on a grid, and whether it is inside.

    >>> left, fraction, inside = locate(np.array([0.0, 2.0, 3.0]), np.array([0.5, 3.0, 4.0]))
    >>> left, inside
    (array([0, 1, 1]), array([ True,  True, False]))
    """
    left = (np.searchsorted(point, time, side="right") - 1).clip(0, point.size - 2)
    fraction = (time - point[left]) / (point[left + 1] - point[left])
    inside = (fraction > -1e-6) & (fraction < 1 + 1e-6)
    return left, fraction.clip(0.0, 1.0), inside


def _interpolate(curve: np.ndarray, left: np.ndarray, fraction: np.ndarray) -> np.ndarray:
    if (fraction == np.rint(fraction)).all():  # every cell is on a point
        return curve[left + fraction.astype(np.int64)]
    low = curve[left]
    share = fraction.astype(curve.dtype).reshape(-1, *(1,) * (low.ndim - 1))
    return low + share * (curve[left + 1] - low)


@dataclass(frozen=True)
class SeriesLibrary:
    """Series on a common time grid."""

    kept: Int[np.ndarray, " series"]  # number of each stored series among the training series
    series: SeriesSet
    point: Grid  # the times of the grid
    value: Curves  # observed values on the grid, and lines or splines between and beyond them
    low: Float[np.ndarray, " channel"]  # least value without outliers
    high: Float[np.ndarray, " channel"]  # greatest value without outliers

    @classmethod
    def of(
        cls, series: SeriesSet, rng: np.random.Generator, config: AnalogConfig
    ) -> "SeriesLibrary | None":
        """Stores the series that share a time span; None if these are too few or too long."""
        kept = _sharing_span(series, config)
        if kept.size < config.min_series:
            return None
        kept = np.sort(rng.permutation(kept)[: config.max_series])
        chosen = series.select(kept)
        point = _grid(chosen, config)
        if not 2 <= point.size <= config.max_points:
            return None
        most = config.max_cells // (point.size * series.dims)
        if most < kept.size:
            kept = kept[np.sort(rng.permutation(kept.size)[:most])]
            chosen = series.select(kept)
        if kept.size < config.min_series:
            return None
        low, high = _range(chosen, config)
        value = _on_grid(chosen, point)
        # A spline through two points close together can overshoot by any amount.
        np.clip(value, *(end[:, None, None] for end in (low, high)), out=value)
        return cls(kept, chosen, point, value, low, high)

    def needs_completion(self, config: AnalogConfig) -> bool:
        """True if rows are exactly on the grid and many of their cells are interpolated."""
        missing = 1 - self.series.observed.mean()
        return bool(missing >= config.completion_missing) and _is_grid(self.series, self.point)

    def complete(self, mean: Float[np.ndarray, "row dim"]) -> "SeriesLibrary":
        """The same library with `mean` in the missing cells."""
        value = np.where(self.series.observed, self.series.value, mean)
        return replace(self, value=_reshape(value, self.point.size))


def _sharing_span(series: SeriesSet, config: AnalogConfig) -> Int[np.ndarray, " kept"]:
    """The series that cover the usual time span and are observed enough; none if in a minority."""
    candidates = np.flatnonzero(series.length > 2)
    if not candidates.size:
        return candidates
    begin, end, first, last, tolerance = _spans(series, candidates, config)
    before = cumulative(series.observed)
    observed = before[series.start[candidates + 1]] - before[series.start[candidates]]
    enough = (observed >= config.min_observed * series.length[candidates, None]).all(axis=1)
    covers = (begin <= first + tolerance) & (end >= last - tolerance)
    kept = candidates[covers & enough]
    return kept if kept.size >= candidates.size / 2 else kept[:0]


def _spans(
    series: SeriesSet, chosen: Int[np.ndarray, " chosen"], config: AnalogConfig
) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    """First and last times of the series, the usual first and last time, and a tolerance."""
    begin, end = series.time[series.start[chosen]], series.time[series.start[chosen + 1] - 1]
    first, last = float(np.median(begin)), float(np.median(end))
    return begin, end, first, last, config.span_tolerance * (last - first)


def _grid(series: SeriesSet, config: AnalogConfig) -> Grid:
    """The time grid: whole units if all times are whole, else two points for every row."""
    begin, end, low, high, tolerance = _spans(series, np.arange(series.series), config)
    first, last = max(begin.min(), low - tolerance), min(end.max(), high + tolerance)
    step = 1.0
    if np.array_equal(series.time, np.rint(series.time)):
        first, last = np.ceil(first), np.floor(last)
    else:
        step = (last - first) / (2 * np.median(series.length))
    return first + step * np.arange(int(np.ceil((last - first) / step - 1e-9)) + 1)


def _range(series: SeriesSet, config: AnalogConfig) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each channel, without outliers."""
    ends = []
    for value, observed in zip(series.value.T, series.observed.T, strict=True):
        known = value[observed]
        lower, median, upper = np.quantile(known, (0.25, 0.5, 0.75))
        margin = config.outlier_ranges * (upper - lower) if upper > lower else np.inf
        ends.append((max(known.min(), median - margin), min(known.max(), median + margin)))
    low, high = np.array(ends).T
    return low, high


def _on_grid(series: SeriesSet, point: Grid) -> Curves:
    if _is_grid(series, point):
        return _reshape(interpolate(series), point.size)
    value = np.empty((series.dims, point.size, series.series), dtype=np.float32)
    degree = _best_degree(series)
    for index in range(series.series):
        for dim in range(series.dims):
            time, known = _observations(series, index, dim)
            value[dim, :, index] = _curve(time, known, point, degree)
    return value


def _is_grid(series: SeriesSet, point: Grid) -> bool:
    """True if every series has exactly one row at every point and no other rows."""
    return np.array_equal(series.time, np.tile(point, series.series))


def _reshape(value: Float[np.ndarray, "row dim"], points: int) -> Curves:
    """The layout of the library, from rows of series that have one at every point."""
    layout = value.reshape(-1, points, value.shape[1]).transpose(2, 1, 0)
    return np.ascontiguousarray(layout, dtype=np.float32)


def _observations(series: SeriesSet, index: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of the observed cells of one channel of one series."""
    rows = slice(series.start[index], series.start[index + 1])
    observed = series.observed[rows, dim]
    return series.time[rows][observed], series.value[rows, dim][observed]


def _best_degree(series: SeriesSet) -> int:
    """1 for lines or 3 for cubic splines, whichever predicts left-out points better."""
    errors = {1: 0.0, 3: 0.0}
    for index in range(0, series.series, max(1, series.series // DEGREE_SERIES)):
        for dim in range(series.dims):
            time, known = _observations(series, index, dim)
            left_out = np.zeros(time.size, dtype=bool)
            left_out[2:-2:3] = True
            for degree in errors:
                curve = _curve(time[~left_out], known[~left_out], time[left_out], degree)
                errors[degree] += float(np.square(curve - known[left_out]).sum())
    return min(errors, key=lambda degree: errors[degree])


def _curve(time: np.ndarray, known: np.ndarray, point: np.ndarray, degree: int) -> np.ndarray:
    """A spline through the observations, extrapolated by two steps and constant from there."""
    if time.size <= degree:
        return np.interp(point, time, known)
    from scipy.interpolate import make_interp_spline  # takes a second to import

    margin = 2 * float(np.median(np.diff(time)))
    inside = point.clip(time[0] - margin, time[-1] + margin)
    return np.asarray(make_interp_spline(time, known, k=degree)(inside))
