"""Filling by a Kalman smoother, channel by channel."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.baselines.levels import levels
from nrtsi.baselines.neighbour import Linear
from nrtsi.baselines.structural import Structure, likeliest, statsmodels
from nrtsi.core.scaling import ROUNDING, Scaler
from nrtsi.core.series import SeriesSet

__all__ = ["Kalman"]

LEARNT = 2_000
"""Slots the variances of a channel are learnt from."""

FEWEST = 10
"""Known cells to learn them from; with less, lines are drawn."""

PIECE = 20_000
"""Slots smoothed at a time, so that memory does not grow with the data."""

CONTEXT = 2_000
"""Slots that a piece sees on either side of itself."""

LONGEST = 1_000
"""Slots of the longest gap that is smoothed; both its ends are in sight of any piece of it."""

SPARSEST = 4
"""Slots for each row of a grid, at most."""

OFF_GRID = 0.05
"""Distance from the grid, in units, that is taken for none."""


class Kalman(Linear):
    """Fills from a structural model of each channel: statsmodels' Kalman smoother.

    The model is a level that wanders, noise, and two waves a day that may change from day to day
    (a week where rows are days, a year where they are weeks). Variances are found by maximum
    likelihood, once for each channel, on the 2,000 slots that know most of it; the season is
    left out where it is less likely, where 2,000 slots or the longest series are less than two
    periods, and where times are plain numbers. Then each series is smoothed by itself.

    Rows of a series are put on a grid of one unit of time, with absent rows empty. Where they do
    not fit on it, or it would have more than four slots for a row, they are taken in order as if
    evenly apart, and without a season. A channel that does not vary, or of which fewer than ten
    cells are known, and gaps of more than 1,000 slots get the straight line; a series that knows
    nothing of a channel gets the channel's mean.

    Needs statsmodels: `pip install 'nrtsi[kalman]'`.
    """

    def fit_series(self, series: SeriesSet) -> None:
        """Learns the variances of each channel.

        Raises:
            InputError: statsmodels is not installed.
            ArithmeticError: A channel has no finite likelihood.
        """
        statsmodels()  # absent, it should be missed before anything is done
        super().fit_series(series)
        centred = _centred(series, self.mean_)
        self.scaler_ = replace(Scaler.fit(centred), offset=np.zeros(series.dims))
        size = np.abs(series.value).max(axis=0, initial=0.0)
        varies = np.abs(centred.value).max(axis=0, initial=0.0) > 10 * ROUNDING * size
        even = _evenly(series)
        grid = bool(even[series.owner].mean() >= 0.5)
        scaled = self.scaler_.scale(centred).select(np.flatnonzero(even == grid))
        axis = _Axis.of(scaled, grid=grid)
        period = self._period(axis) if grid else None
        self.structures_ = [
            _learn(axis.lay(scaled, channel), axis.last, period) if varies[channel] else None
            for channel in range(series.dims)
        ]

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The smoothed value of each cell; observed cells keep theirs.

        Raises:
            ArithmeticError: The smoother gave values that are not finite.
        """
        level = levels(series, self.mean_)[series.owner]
        scaled = self.scaler_.scale(_centred(series, self.mean_))
        line = super().impute_series(series)
        smooth = np.full_like(line, np.nan)
        even = _evenly(series)
        for grid in (True, False):
            rows = even[series.owner] == grid
            if rows.any():
                some = scaled.select(np.flatnonzero(even == grid))
                smooth[rows] = self._smoothed(some, grid=grid)
        values = np.where(np.isnan(smooth), line, self.scaler_.unscale(smooth) + level)
        return np.where(series.observed, series.value, values)

    def _smoothed(self, series: SeriesSet, *, grid: bool) -> Float[np.ndarray, "row dim"]:
        """Smoothed values of scaled series; NaN where a line is to be drawn."""
        axis = _Axis.of(series, grid=grid)
        smooth = np.full_like(series.value, np.nan)
        for channel, structure in enumerate(self.structures_):
            if structure is not None:
                usable = structure if grid else replace(structure, period=None)
                laid = axis.lay(series, channel)
                smooth[:, channel] = _in_pieces(usable, laid, axis.last)[axis.slot]
        return smooth

    def _period(self, axis: "_Axis") -> float | None:
        """The shortest period of the calendar that has four slots, if two of it can be seen."""
        clock = getattr(self, "clock_", None)
        longest = int(np.diff(np.flatnonzero(axis.last), prepend=-1).max())
        periods = () if clock is None else clock.periods()
        shortest = next((period for period in periods if period >= 4), np.inf)
        return shortest if 2 * shortest <= min(longest, LEARNT) else None


@dataclass(frozen=True)
class _Axis:
    """Series laid end to end on slots that are evenly apart."""

    slot: Int[np.ndarray, " row"]
    """The slot of each row."""

    last: Bool[np.ndarray, " slot"]
    """True in the last slot of each series."""

    @classmethod
    def of(cls, series: SeriesSet, *, grid: bool) -> "_Axis":
        """One slot for each unit of time, or for each row."""
        owner, begin = series.owner, series.start[:-1]
        step = _step(series) if grid else np.arange(series.rows) - begin[owner]
        length = np.zeros(series.series, dtype=np.int64)
        np.maximum.at(length, owner, step + 1)
        end = np.cumsum(length)
        last = np.zeros(end[-1], dtype=bool)
        last[end - 1] = True
        return cls((end - length)[owner] + step, last)

    def lay(self, series: SeriesSet, channel: int) -> Float[np.ndarray, " slot"]:
        """The known cells of a channel in their slots; NaN in the others."""
        laid = np.full(self.last.size, np.nan)
        seen = series.observed[:, channel]
        laid[self.slot[seen]] = series.value[seen, channel]
        return laid


def _step(series: SeriesSet) -> Int[np.ndarray, " row"]:
    """Whole units since the first row of the same series."""
    since = series.time - series.time[series.start[series.owner]]
    return np.rint(since).astype(np.int64)


def _evenly(series: SeriesSet) -> Bool[np.ndarray, " series"]:
    """Which series fit on a grid of one unit that has not too many slots."""
    owner = series.owner
    since = series.time - series.time[series.start[owner]]
    apart = np.diff(np.rint(since), prepend=-1.0)
    first = np.isin(np.arange(series.rows), series.start)
    bad = (np.abs(since - np.rint(since)) > OFF_GRID) | ((apart < 1) & ~first)
    slots = np.zeros(series.series)
    np.maximum.at(slots, owner, since + 1)
    stray = np.bincount(owner, weights=bad, minlength=series.series)
    even: np.ndarray = (stray == 0) & (slots <= SPARSEST * series.length)
    return even


def _centred(series: SeriesSet, mean: Float[np.ndarray, " dim"]) -> SeriesSet:
    """Each series without its own level, so that sensors of a panel need not be alike."""
    apart = series.value - levels(series, mean)[series.owner]
    return replace(series, value=np.where(series.observed, apart, 0.0))


def _learn(
    laid: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"], period: float | None
) -> Structure | None:
    """The likeliest structure of the stretches that know most; None where they know too little."""
    part = _best_known(~np.isnan(laid), last)
    value, ends = laid[part], last[part] | (np.diff(part, append=-1) != 1)
    if np.count_nonzero(~np.isnan(value)) < FEWEST:
        return None
    return likeliest(value, ends, period)


def _best_known(
    known: Bool[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"]
) -> Int[np.ndarray, " picked"]:
    """Slots of the stretches with most known cells, in order, `LEARNT` at most in all."""
    begin = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    length = np.diff(begin, append=last.size)
    inside = np.concatenate([np.arange(0, size, LEARNT) for size in length])
    begin = np.repeat(begin, -(-length // LEARNT)) + inside
    length = np.diff(begin, append=last.size)
    order = np.argsort(-np.add.reduceat(known.astype(np.int64), begin), kind="stable")
    picked = order[np.cumsum(length[order]) <= LEARNT]
    return np.concatenate([np.arange(begin[i], begin[i] + length[i]) for i in np.sort(picked)])


def _in_pieces(
    structure: Structure, laid: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"]
) -> Float[np.ndarray, " slot"]:
    """Smoothed values of all slots; NaN in gaps that are too long and where none is needed."""
    smooth = np.full_like(laid, np.nan)
    for begin in range(0, laid.size, PIECE):
        end = begin + PIECE
        if np.isnan(laid[begin:end]).any():
            seen = slice(max(0, begin - CONTEXT), end + CONTEXT)
            values = structure.smooth(laid[seen], last[seen])
            smooth[begin:end] = values[begin - seen.start :][:PIECE]
    return np.where(_in_long_gap(laid, last), np.nan, smooth)


def _in_long_gap(
    laid: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"]
) -> Bool[np.ndarray, " slot"]:
    """True where more than `LONGEST` unknown slots follow each other in the same series."""
    begins = np.concatenate([[True], last[:-1]]) | ~np.isnan(laid)
    run = np.cumsum(begins) - 1
    return np.bincount(run)[run] > LONGEST + 1
