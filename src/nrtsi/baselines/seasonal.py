"""What to expect at this time of the day and of the week."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from nrtsi.baselines.levels import levels
from nrtsi.baselines.mean import Mean
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = ["Seasonal"]

DAY = 86_400e9
"""Nanoseconds."""

MOST_SLOTS = 96
"""Slots of a day: quarters of an hour, or what the data's unit allows."""

ROUNDS = 10
"""Times that levels and profile are settled in turn; more change nothing that could be seen."""


class Seasonal(Mean):
    """Fills a cell with what is usual at its time, at the level of its series.

    What is usual is a mean over all series, of what they differ from their own levels: at the
    same time of day, or at the same time of day and weekday where the data span two weeks and
    leaving out one cell at a time says that this is closer. A day has as many slots as units of
    time, 96 at most; one in which nothing was observed has the mean of the series. A series that
    knows nothing of a channel has the level of all of them together.

    Days are those of UTC: where clocks change in summer, what follows the clock is smeared over
    an hour. Times must be datetimes, and a unit no longer than a day.
    """

    def fit_series(self, series: SeriesSet) -> None:
        """Learns the profile of each channel.

        Raises:
            InputError: Times are plain numbers, or a unit is longer than a day.
        """
        self.day_ = self._day()
        self.slots_ = min(MOST_SLOTS, max(1, round(self.day_)))
        self.profile_ = np.zeros((7 * self.slots_, series.dims))
        # Around 0, or sums of large values would lose the digits that differ.
        centred = series.value - Scaler.fit(series).offset
        slot, owner = self._slot(series.time), series.owner
        for channel, seen in enumerate(series.observed.T):
            if seen.any():
                weekly = bool(np.ptp(series.time[seen]) >= 14 * self.day_ - 1)
                self.profile_[:, channel] = _profile(
                    centred[seen, channel], owner[seen], slot[seen], self.slots_, weekly=weekly
                )
        super().fit_series(self._without_profile(series))

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The profile at each cell, at the level of its series."""
        level = levels(self._without_profile(series), self.mean_)
        return self.profile_[self._slot(series.time)] + level[series.owner]

    def _without_profile(self, series: SeriesSet) -> SeriesSet:
        """What is left of the observed cells: the levels of the series, and what is unusual."""
        left = series.value - self.profile_[self._slot(series.time)]
        return replace(series, value=np.where(series.observed, left, 0.0))

    def _slot(self, time: Float[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
        """The slot of the week, counted from the clock's origin, that each time is nearest to."""
        # Rows stand in the middle of their slots, so that a second more or less is no matter.
        return np.rint(time * (self.slots_ / self.day_)).astype(np.int64) % (7 * self.slots_)

    def _day(self) -> float:
        """Length of a day in units of time."""
        clock = getattr(self, "clock_", None)
        if clock is None or clock.kind != "datetime":
            raise InputError(
                "seasonal needs times that are datetimes, got plain numbers; "
                "name a column of datetimes with time=, or use another method"
            )
        if clock.unit > DAY * (1 + 1e-9):
            raise InputError(
                f"seasonal needs a unit of time of a day or less, got {clock.unit / DAY:g} days; "
                f"set unit='1d' if rows are days, or use another method"
            )
        return DAY / float(clock.unit)


def _profile(
    value: Float[np.ndarray, " known"],
    owner: Int[np.ndarray, " known"],
    slot: Int[np.ndarray, " known"],
    slots: int,
    *,
    weekly: bool,
) -> Float[np.ndarray, " slot"]:
    """The profile of one channel over a week, which may be seven times the same day."""
    daily = np.tile(_settled(value, owner, slot % slots, slots), 7)
    if not weekly:
        return daily
    week = _settled(value, owner, slot, 7 * slots)
    # Of a single cell nobody knows whether it is usual.
    week = np.where(np.bincount(slot, minlength=7 * slots) > 1, week, daily)
    by_day = _left_out(value, owner, slot % slots, daily[slot])
    by_week = _left_out(value, owner, slot, week[slot])
    both = ~(np.isnan(by_day) | np.isnan(by_week))
    return week if np.sum(by_week[both] ** 2) < np.sum(by_day[both] ** 2) else daily


def _settled(
    value: Float[np.ndarray, " known"],
    owner: Int[np.ndarray, " known"],
    slot: Int[np.ndarray, " known"],
    slots: int,
) -> Float[np.ndarray, " slot"]:
    """Mean by slot of what is left of the values without the level of their series."""
    # In turn, since a series that is only seen at noon must not pass for a high one.
    profile = np.zeros(slots)
    for _ in range(ROUNDS):
        level = _mean_by(owner, value - profile[slot], int(owner.max()) + 1)
        profile = _mean_by(slot, value - level[owner], slots)
    return profile


def _mean_by(
    group: Int[np.ndarray, " known"], value: Float[np.ndarray, " known"], groups: int
) -> Float[np.ndarray, " group"]:
    """Mean of the values of each group; 0 for a group without any."""
    count = np.bincount(group, minlength=groups)
    return np.bincount(group, weights=value, minlength=groups) / np.maximum(count, 1)


def _left_out(
    value: Float[np.ndarray, " known"],
    owner: Int[np.ndarray, " known"],
    group: Int[np.ndarray, " known"],
    usual: Float[np.ndarray, " known"],
) -> Float[np.ndarray, " known"]:
    """Error of each value against the mean of its group without it; NaN where it is alone."""
    apart = value - usual
    level = _mean_by(owner, apart, int(owner.max()) + 1)
    count = np.bincount(group)[group]
    grown = np.where(count > 1, count / np.maximum(count - 1, 1), np.nan)
    return (apart - level[owner]) * grown
