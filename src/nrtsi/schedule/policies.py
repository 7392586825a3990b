"""Which of the wholly missing rows a step takes, for many series at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.schedule.gaps import level_of

__all__ = ["Groups", "take"]

# Known rows of a neighbourhood: as many as a target reads.
NEAR = 16

# Gaps are differences of float times: equal gaps of a regular grid differ in their last bits.
SAME = 1e-6


@dataclass(frozen=True)
class Groups:
    """Entries of several series laid end to end, and reductions inside each series."""

    begin: Int[np.ndarray, " group"]
    """Where each series' entries begin."""

    of: Int[np.ndarray, " entry"]
    """Which group each entry belongs to."""

    @classmethod
    def by(cls, owner: Int[np.ndarray, " entry"]) -> "Groups":
        """Groups equal neighbours of a sorted array."""
        first = np.concatenate([[True], np.diff(owner) > 0])
        return cls(np.flatnonzero(first), np.cumsum(first) - 1)

    def cut(self, here: Bool[np.ndarray, " inner"]) -> "Groups":
        """Groups that also end where `here` says, between one entry and the next."""
        first = np.concatenate([[True], here])
        first[self.begin] = True
        return Groups(np.flatnonzero(first), np.cumsum(first) - 1)

    def most(self, value: np.ndarray) -> np.ndarray:
        """The largest of each entry's group, repeated for its entries."""
        return np.maximum.reduceat(value, self.begin)[self.of]

    def least(self, value: np.ndarray) -> np.ndarray:
        """The smallest of each entry's group, repeated for its entries."""
        return np.minimum.reduceat(value, self.begin)[self.of]


def take(
    gap: Float[np.ndarray, " entry"],
    row: Int[np.ndarray, " entry"],
    place: Int[np.ndarray, " entry"],
    groups: Groups,
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    """True for the entries that the next step imputes, at least one of every group.

    Entries are the wholly missing rows; `row` is where they stand, and `place` how many known rows
    come before them.
    """
    holes = groups.cut(np.diff(row) > 1)
    if config.order == "smallest":
        nearest = groups.least(gap)
        return _same_level(gap, nearest, config) & (gap <= nearest + config.band + SAME)
    widest = _widest(gap, place, groups, holes, config)
    if config.one_by_one_above is None:
        return _band(gap, widest, config)
    apart = groups if config.one_by_one_in == "series" else holes
    wide = widest > config.one_by_one_above
    alone = _first(wide & (gap >= widest - SAME) & (gap <= widest + SAME), apart)
    return np.where(wide, alone, _band(gap, widest, config))


def _widest(
    gap: Float[np.ndarray, " entry"],
    place: Int[np.ndarray, " entry"],
    groups: Groups,
    holes: Groups,
    config: ScheduleConfig,
) -> Float[np.ndarray, " entry"]:
    """For each entry, the gap that goes next where it is: the widest within reach.

    Where the coarsest level reaches no gap of a series, the narrowest there is.
    """
    within = np.where(gap <= config.reach + SAME, gap, -np.inf)
    if config.order == "midpoints":
        widest = holes.most(within)
    elif config.order == "local":
        widest = _widest_nearby(within, place // NEAR, groups)
    else:
        widest = groups.most(within)
    out_of_reach = np.isneginf(groups.most(within))
    return np.where(out_of_reach, groups.least(gap), widest)


def _widest_nearby(
    gap: Float[np.ndarray, " entry"], part: Int[np.ndarray, " entry"], groups: Groups
) -> Float[np.ndarray, " entry"]:
    """The widest gap of each entry's part of its series and of the parts beside it."""
    parts = groups.cut(np.diff(part) > 0)
    most = np.maximum.reduceat(gap, parts.begin)
    beside = (np.diff(part[parts.begin]) == 1) & (np.diff(groups.of[parts.begin]) == 0)
    widest = most.copy()
    widest[1:] = np.where(beside, np.maximum(widest[1:], most[:-1]), widest[1:])
    widest[:-1] = np.where(beside, np.maximum(widest[:-1], most[1:]), widest[:-1])
    return widest[parts.of]


def _band(
    gap: Float[np.ndarray, " entry"],
    widest: Float[np.ndarray, " entry"],
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    within = (gap <= widest + SAME) & ((gap > widest - config.band) | (gap >= widest - SAME))
    return within & _same_level(gap, widest, config)


def _same_level(
    gap: Float[np.ndarray, " entry"],
    chosen: Float[np.ndarray, " entry"],
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    level = level_of(gap - SAME, max_level=config.max_level)
    return level == level_of(chosen - SAME, max_level=config.max_level)


def _first(wanted: Bool[np.ndarray, " entry"], groups: Groups) -> Bool[np.ndarray, " entry"]:
    """Only the first wanted entry of each group."""
    index = np.arange(wanted.size)
    return wanted & (index == groups.least(np.where(wanted, index, wanted.size)))
