"""Which of the wholly missing rows a step takes, for many series at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.schedule.distances import level_of

__all__ = ["Groups", "take"]

# Known rows of a neighbourhood: as many as a target reads.
NEAR = 16

# Distances are differences of float times: on a regular grid they differ in their last bits.
SAME = 1e-6


@dataclass(frozen=True)
class Groups:
    """Entries of several series laid end to end, and reductions inside each series."""

    begin: Int[np.ndarray, " group"]
    """Where each series' entries begin; every series here has some."""

    entries: int
    """How many there are."""

    @classmethod
    def at(cls, row: Int[np.ndarray, " entry"], start: Int[np.ndarray, " bound"]) -> "Groups":
        """Groups ascending rows by the series they lie in."""
        begin = np.searchsorted(row, start)
        return cls(begin[:-1][np.diff(begin) > 0], row.size)

    def cut(self, here: Bool[np.ndarray, " inner"]) -> "Groups":
        """Groups that also end where `here` says, between one entry and the next."""
        first = np.concatenate([[True], here])
        first[self.begin] = True
        return Groups(np.flatnonzero(first), self.entries)

    def spread(self, value: np.ndarray) -> np.ndarray:
        """A value of each group, repeated for its entries."""
        return np.repeat(value, np.diff(self.begin, append=self.entries))

    def most(self, value: np.ndarray) -> np.ndarray:
        """The largest of each entry's group, repeated for its entries."""
        return self.spread(np.maximum.reduceat(value, self.begin))

    def least(self, value: np.ndarray) -> np.ndarray:
        """The smallest of each entry's group, repeated for its entries."""
        return self.spread(np.minimum.reduceat(value, self.begin))


def take(
    distance: Float[np.ndarray, " entry"],
    row: Int[np.ndarray, " entry"],
    place: Int[np.ndarray, " entry"],
    groups: Groups,
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    """True for the entries that the next step imputes, at least one of every group.

    Entries are the wholly missing rows; `row` is where they stand, and `place` how many known rows
    come before them.
    """
    if config.order == "smallest":
        nearest = np.minimum.reduceat(distance, groups.begin)
        level = level_of(nearest - SAME, max_level=config.max_level)
        top = np.where(level < config.max_level, 2.0**level, np.inf)
        return distance <= groups.spread(np.minimum(nearest + config.band, top) + SAME)
    widest, parts = _widest(distance, row, place, groups, config)
    band = _band(distance, widest, parts, config)
    if config.one_by_one_above is None:
        return band
    apart = groups if config.one_by_one_in == "series" else _gaps(row, groups)
    each = parts.spread(widest)
    wide = each > config.one_by_one_above
    alone = _first(wide & (distance >= each - SAME) & (distance <= each + SAME), apart)
    return np.where(wide, alone, band)


def _gaps(row: Int[np.ndarray, " entry"], groups: Groups) -> Groups:
    """Rows that follow each other without a known one between them."""
    return groups.cut(np.diff(row) > 1)


def _widest(
    distance: Float[np.ndarray, " entry"],
    row: Int[np.ndarray, " entry"],
    place: Int[np.ndarray, " entry"],
    groups: Groups,
    config: ScheduleConfig,
) -> tuple[Float[np.ndarray, " part"], Groups]:
    """The distance imputed next in each part of the series: the widest within reach.

    Where the coarsest level reaches no distance of a series, the narrowest there is.
    """
    within = np.where(distance <= config.reach + SAME, distance, -np.inf)
    of_series = np.maximum.reduceat(within, groups.begin)
    if config.order == "widest":
        parts, widest = groups, of_series
    elif config.order == "midpoints":
        parts = _gaps(row, groups)
        widest = np.maximum.reduceat(within, parts.begin)
    else:
        parts = groups.cut(np.diff(place // NEAR) > 0)
        widest = _widest_nearby(within, (place // NEAR)[parts.begin], parts, groups)
    if not np.isneginf(of_series).any():
        return widest, parts
    series = np.searchsorted(groups.begin, parts.begin, side="right") - 1
    nearest = np.minimum.reduceat(distance, groups.begin)
    return np.where(np.isneginf(of_series)[series], nearest[series], widest), parts


def _widest_nearby(
    distance: Float[np.ndarray, " entry"],
    number: Int[np.ndarray, " part"],
    parts: Groups,
    groups: Groups,
) -> Float[np.ndarray, " part"]:
    """The widest distance of each part and its neighbours; `number` counts parts in a series."""
    most = np.maximum.reduceat(distance, parts.begin)
    beside = np.diff(number) == 1
    beside[np.searchsorted(parts.begin, groups.begin[1:]) - 1] = False
    widest = most.copy()
    widest[1:] = np.where(beside, np.maximum(widest[1:], most[:-1]), widest[1:])
    widest[:-1] = np.where(beside, np.maximum(widest[:-1], most[1:]), widest[:-1])
    return widest


def _band(
    distance: Float[np.ndarray, " entry"],
    widest: Float[np.ndarray, " part"],
    parts: Groups,
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    """Gaps of the level of the widest that are hardly narrower, or by less than the band."""
    # Just below what equals the widest but for its last bits, be it infinite.
    hardly = np.nextafter(widest - SAME, -np.inf)
    least = np.minimum(widest - config.band, hardly)
    level = level_of(widest - SAME, max_level=config.max_level)
    least = np.maximum(least, np.where(level > 0, 2.0 ** (level - 1) + SAME, -np.inf))
    return (distance > parts.spread(least)) & (distance <= parts.spread(widest + SAME))


def _first(wanted: Bool[np.ndarray, " entry"], groups: Groups) -> Bool[np.ndarray, " entry"]:
    """Only the first wanted entry of each group."""
    index = np.arange(wanted.size)
    return wanted & (index == groups.least(np.where(wanted, index, wanted.size)))
