"""Which of the wholly missing rows a step takes, for many series at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.schedule.gaps import level_of

__all__ = ["Groups", "take"]

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
    groups: Groups,
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    """True for the entries that the next step imputes, at least one of every group.

    Entries are the wholly missing rows; `row` is where they stand.
    """
    holes = groups.cut(np.diff(row) > 1)
    if config.order == "midpoints":
        groups = holes
    if config.order == "smallest":
        nearest = groups.least(gap)
        return _same_level(gap, nearest, config) & (gap <= nearest + config.band + SAME)
    widest = _widest_within_reach(gap, groups, config.reach)
    if config.one_by_one_above is None:
        return _band(gap, widest, config)
    apart = groups if config.one_by_one_in == "series" else holes
    alone = _first((gap >= widest - SAME) & (gap <= widest + SAME), apart)
    return np.where(widest > config.one_by_one_above, alone, _band(gap, widest, config))


def _widest_within_reach(
    gap: Float[np.ndarray, " entry"], groups: Groups, reach: float
) -> Float[np.ndarray, " entry"]:
    """The widest gap the coarsest level reaches; where it reaches none, the narrowest there is."""
    widest = groups.most(np.where(gap <= reach + SAME, gap, -np.inf))
    return np.where(np.isneginf(widest), groups.least(gap), widest)


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
    level = level_of(gap - SAME, max_level=config.coarsest)
    return level == level_of(chosen - SAME, max_level=config.coarsest)


def _first(wanted: Bool[np.ndarray, " entry"], groups: Groups) -> Bool[np.ndarray, " entry"]:
    """Only the first wanted entry of each group."""
    index = np.arange(wanted.size)
    return wanted & (index == groups.least(np.where(wanted, index, wanted.size)))
