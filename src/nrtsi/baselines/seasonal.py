"""`Seasonal`: the mean by time of day and weekday."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from nrtsi.baselines.simple import Mean, series_means
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = ["Seasonal"]

MAX_SLOTS = 96  # slots in a day, at most: quarters of an hour
ITERATIONS = 10  # alternating updates of series means and profile; more change nothing visible
KnownValues: TypeAlias = Float[np.ndarray, " known"]
Groups: TypeAlias = Int[np.ndarray, " known"]


class Seasonal(Mean):
    """Imputes the seasonal profile of the channel plus the mean of the series.

    Good for data that follow the day or the week, such as traffic and demand. The profile is the
    mean deviation from the series mean over all series, by time of day; or by time of day and
    weekday, if the data span two weeks and the leave-one-out error is lower. A day has one slot
    for each unit of time, at most 96. Slots without observations have a deviation of 0.

    Days are UTC days, so daylight saving time blurs the profile by an hour. Times must be
    datetimes, and the unit of time at most a day.
    """

    def fit_series(self, series: SeriesSet) -> None:
        """Estimates the profile of each channel."""
        self.day_ = self._day()
        self.slots_ = min(MAX_SLOTS, max(1, round(self.day_)))
        self.profile_ = np.zeros((7 * self.slots_, series.dims))
        centred = series.value - Scaler.fit(series).offset  # avoids cancellation in sums
        slot, owner = self._slot(series.time), series.owner
        for channel, known in enumerate(series.observed.T):
            if known.any():
                weekly = bool(np.ptp(series.time[known]) >= 14 * self.day_ - 1)
                self.profile_[:, channel] = _profile(
                    centred[known, channel], owner[known], slot[known], self.slots_, weekly=weekly
                )
        super().fit_series(self._deseasonalised(series))

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The profile at each cell plus the mean of its series."""
        means = series_means(self._deseasonalised(series), self.mean_)
        return self.profile_[self._slot(series.time)] + means[series.owner]

    def _deseasonalised(self, series: SeriesSet) -> SeriesSet:
        """The series without the profile."""
        residual = series.value - self.profile_[self._slot(series.time)]
        return replace(series, value=np.where(series.observed, residual, 0.0))

    def _slot(self, time: Float[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
        """The slot of the week, counted from the origin of the clock, nearest to each time."""
        return np.rint(time * (self.slots_ / self.day_)).astype(np.int64) % (7 * self.slots_)

    def _day(self) -> float:
        """Length of a day in units of time."""
        clock = getattr(self, "clock_", None)
        if clock is None or clock.kind != "datetime":
            raise InputError(
                "seasonal needs times that are datetimes, got plain numbers; "
                "name a column of datetimes with time=, or use another method"
            )
        day = clock.parse_length("1d", "a day")
        if day < 1 - 1e-9:
            raise InputError(
                f"seasonal needs a unit of time of a day or less, got {1 / day:g} days; "
                f"set unit='1d' if rows are days, or use another method"
            )
        return day


def _profile(
    value: KnownValues, owner: Groups, slot: Groups, slots: int, *, weekly: bool
) -> Float[np.ndarray, " slot"]:
    """The profile of one channel over a week; without `weekly`, seven equal days."""
    daily = np.tile(_alternate(value, owner, slot % slots, slots), 7)
    if not weekly:
        return daily
    week = _alternate(value, owner, slot, 7 * slots)
    # A slot with a single observation would only repeat it.
    week = np.where(np.bincount(slot, minlength=7 * slots) > 1, week, daily)
    by_day = _leave_one_out(value, owner, slot % slots, daily[slot])
    by_week = _leave_one_out(value, owner, slot, week[slot])
    both = ~(np.isnan(by_day) | np.isnan(by_week))
    return week if np.sum(by_week[both] ** 2) < np.sum(by_day[both] ** 2) else daily


def _alternate(
    value: KnownValues, owner: Groups, slot: Groups, slots: int
) -> Float[np.ndarray, " slot"]:
    """Mean by slot of the deviations from the series means, which are updated in turn."""
    profile = np.zeros(slots)
    for _ in range(ITERATIONS):
        level = _group_means(owner, value - profile[slot], int(owner.max()) + 1)
        profile = _group_means(slot, value - level[owner], slots)
    return profile


def _group_means(group: Groups, value: KnownValues, groups: int) -> Float[np.ndarray, " group"]:
    """Mean of the values of each group; 0 for an empty group."""
    count = np.bincount(group, minlength=groups)
    return np.bincount(group, weights=value, minlength=groups) / np.maximum(count, 1)


def _leave_one_out(
    value: KnownValues, owner: Groups, group: Groups, profile: KnownValues
) -> KnownValues:
    """Error of each value against the mean of the rest of its group; NaN for a single value."""
    residual = value - profile
    level = _group_means(owner, residual, int(owner.max()) + 1)
    count = np.bincount(group)[group]
    factor = np.where(count > 1, count / np.maximum(count - 1, 1), np.nan)
    return (residual - level[owner]) * factor
