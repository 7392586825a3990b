"""`Kalman`: a Kalman smoother for each channel."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.baselines.local_level import (
    LocalLevelModel,
    SlotFlags,
    Slots,
    fit_local_level,
    require_statsmodels,
)
from nrtsi.baselines.simple import Linear, series_means
from nrtsi.core.ragged import concat_ranges, place_in_group
from nrtsi.core.scaling import ROUNDING, Scaler
from nrtsi.core.series import SeriesSet, Values

__all__ = ["Kalman", "best_observed_slots"]

MAX_OFF_GRID = 0.05  # distance from the grid, in units, that is ignored


class Kalman(Linear):
    """Smooths each channel by a structural time series model: statsmodels' Kalman smoother.

    Good for noisy signals with a slowly changing level and season. The model has a local level,
    noise, and two waves a day (a week if rows are days, a year if they are weeks). Its variances
    are fitted by maximum likelihood, once for each channel, on the 2,000 slots with most
    observations. The season is omitted if it is less likely, if fewer than two periods are seen,
    or if times are plain numbers. Each series is smoothed separately.

    Rows are placed on a grid of one unit of time. If they do not fit on it, or it would have more
    than four slots for each row, they are taken as evenly spaced, without a season. Linear
    interpolation replaces the model for constant channels, channels with fewer than ten
    observations, and gaps of more than 1,000 slots.

    Needs statsmodels: `pip install 'nrtsi[kalman]'`.
    """

    fit_slots: ClassVar[int] = 2_000  # slots that the variances of a channel are fitted on
    min_cells: ClassVar[int] = 10  # observed cells that are needed to fit them
    chunk: ClassVar[int] = 20_000  # slots that are smoothed at a time; bounds the memory
    context: ClassVar[int] = 2_000  # slots that a chunk reads on each side
    max_gap: ClassVar[int] = 1_000  # slots of the longest smoothed gap; below the context
    slots_per_row: ClassVar[int] = 4  # slots of the grid for each row, at most

    def fit_series(self, series: SeriesSet) -> None:
        """Fits the variances of each channel."""
        require_statsmodels()
        super().fit_series(series)
        centred = _centred(series, self.mean_)
        self.scaler_ = replace(Scaler.fit(centred), offset=np.zeros(series.dims))
        size = np.abs(series.value).max(axis=0, initial=0.0)
        varies = np.abs(centred.value).max(axis=0, initial=0.0) > 10 * ROUNDING * size
        regular = self._regular(series)
        grid = bool(regular[series.owner].mean() >= 0.5)
        scaled = self.scaler_.scale(centred).select(np.flatnonzero(regular == grid))
        axis = _Axis.of(scaled, grid=grid)
        period = self._period(axis) if grid else None
        self.models_ = [
            self._fit_channel(axis.values(scaled, channel), axis.last, period)
            if varies[channel]
            else None
            for channel in range(series.dims)
        ]

    def _fit_channel(
        self, value: Slots, last: SlotFlags, period: float | None
    ) -> LocalLevelModel | None:
        """The model of the slots with most observations; None if they are too few."""
        slots = best_observed_slots(~np.isnan(value), last, self.fit_slots)
        picked, ends = value[slots], last[slots] | (np.diff(slots, append=-1) != 1)
        if np.count_nonzero(~np.isnan(picked)) < self.min_cells:
            return None
        return fit_local_level(picked, ends, period)

    def impute_series(self, series: SeriesSet) -> Values:
        """The smoothed value of each cell; observed cells keep their value."""
        means = series_means(series, self.mean_)[series.owner]
        scaled = self.scaler_.scale(_centred(series, self.mean_))
        line = super().impute_series(series)
        smooth = np.full_like(line, np.nan)
        regular = self._regular(series)
        for grid in (True, False):
            rows = regular[series.owner] == grid
            if rows.any():
                some = scaled.select(np.flatnonzero(regular == grid))
                smooth[rows] = self._smoothed(some, grid=grid)
        values = np.where(np.isnan(smooth), line, self.scaler_.unscale(smooth) + means)
        return np.where(series.observed, series.value, values)

    def _smoothed(self, series: SeriesSet, *, grid: bool) -> Values:
        """Smoothed values of scaled series; NaN where linear interpolation is used."""
        axis = _Axis.of(series, grid=grid)
        smooth = np.full_like(series.value, np.nan)
        for channel, model in enumerate(self.models_):
            if model is not None:
                usable = model if grid else replace(model, period=None)
                value = axis.values(series, channel)
                smooth[:, channel] = self._in_chunks(usable, value, axis.last)[axis.slot]
        return smooth

    def _in_chunks(self, model: LocalLevelModel, value: Slots, last: SlotFlags) -> Slots:
        """Smoothed values; NaN in long gaps and in chunks without missing values."""
        smooth = np.full_like(value, np.nan)
        for begin in range(0, value.size, self.chunk):
            end = begin + self.chunk
            if np.isnan(value[begin:end]).any():
                seen = slice(max(0, begin - self.context), end + self.context)
                values = model.smooth(value[seen], last[seen])
                smooth[begin:end] = values[begin - seen.start :][: self.chunk]
        starts = np.concatenate([[True], last[:-1]]) | ~np.isnan(value)
        run = np.cumsum(starts) - 1
        return np.where(np.bincount(run)[run] > self.max_gap + 1, np.nan, smooth)

    def _period(self, axis: "_Axis") -> float | None:
        """The shortest calendar period of at least four slots, if two periods are seen."""
        clock = getattr(self, "clock_", None)
        longest = int(np.diff(np.flatnonzero(axis.last), prepend=-1).max())
        periods = () if clock is None else clock.periods()
        shortest = next((period for period in periods if period >= 4), np.inf)
        return shortest if 2 * shortest <= min(longest, self.fit_slots) else None

    def _regular(self, series: SeriesSet) -> Bool[np.ndarray, " series"]:
        """True for each series that fits on a grid of one unit without too many slots."""
        owner = series.owner
        since = series.time - series.time[series.start[owner]]
        step = np.diff(np.rint(since), prepend=-1.0)
        first = np.isin(np.arange(series.rows), series.start)
        off_grid = np.abs(since - np.rint(since)) > MAX_OFF_GRID
        bad = off_grid | ((step < 1) & ~first)
        slots = np.zeros(series.series)
        np.maximum.at(slots, owner, since + 1)
        bad_rows = np.bincount(owner, weights=bad, minlength=series.series)
        return np.asarray((bad_rows == 0) & (slots <= self.slots_per_row * series.length))


@dataclass(frozen=True)
class _Axis:
    """Concatenated series on evenly spaced slots."""

    slot: Int[np.ndarray, " row"]  # the slot of each row
    last: SlotFlags  # True in the last slot of each series

    @classmethod
    def of(cls, series: SeriesSet, *, grid: bool) -> "_Axis":
        """One slot for each unit of time, or for each row."""
        owner, begin = series.owner, series.start[:-1]
        since = series.time - series.time[begin[owner]]
        step = np.rint(since).astype(np.int64) if grid else place_in_group(series.length)
        length = np.zeros(series.series, dtype=np.int64)
        np.maximum.at(length, owner, step + 1)
        end = np.cumsum(length)
        last = np.zeros(end[-1], dtype=bool)
        last[end - 1] = True
        return cls((end - length)[owner] + step, last)

    def values(self, series: SeriesSet, channel: int) -> Slots:
        """The observed cells of a channel in their slots; NaN elsewhere."""
        value = np.full(self.last.size, np.nan)
        observed = series.observed[:, channel]
        value[self.slot[observed]] = series.value[observed, channel]
        return value


def _centred(series: SeriesSet, mean: Float[np.ndarray, " dim"]) -> SeriesSet:
    """Each series minus its mean, because the levels of the series differ."""
    difference = series.value - series_means(series, mean)[series.owner]
    return replace(series, value=np.where(series.observed, difference, 0.0))


def best_observed_slots(
    observed: SlotFlags, last: SlotFlags, count: int
) -> Int[np.ndarray, " picked"]:
    """At most `count` slots, in order, from the segments of series with most observations."""
    begin = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    length = np.diff(begin, append=last.size)
    pieces = -(-length // count)
    begin = np.repeat(begin, pieces) + count * place_in_group(pieces)
    length = np.diff(begin, append=last.size)
    order = np.argsort(-np.add.reduceat(observed.astype(np.int64), begin), kind="stable")
    picked = np.sort(order[np.cumsum(length[order]) <= count])
    return concat_ranges(begin[picked], (begin + length)[picked])
