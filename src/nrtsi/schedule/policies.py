"""Policies: which of the wholly missing rows a step takes, for all series at once."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.schedule.distances import TIME_TOLERANCE, level_of

__all__ = ["Groups", "take"]

Entries: TypeAlias = Int[np.ndarray, " entry"]
Distances: TypeAlias = Float[np.ndarray, " entry"]
Chosen: TypeAlias = Bool[np.ndarray, " entry"]
OfParts: TypeAlias = Float[np.ndarray, " part"]


@dataclass(frozen=True)
class Groups:
    """Consecutive entries divided into groups, such as series, with reductions by group."""

    begin: Int[np.ndarray, " group"]
    """The first entry of each group; no group is empty."""
    entries: int
    """Number of entries."""

    @classmethod
    def at(cls, row: Entries, start: Int[np.ndarray, " bound"]) -> "Groups":
        """Groups ascending rows by series."""
        begin = np.searchsorted(row, start)
        return cls(begin[:-1][np.diff(begin) > 0], row.size)

    def split(self, here: Bool[np.ndarray, " inner"]) -> "Groups":
        """Splits the groups between entries i and i + 1 if `here[i]`."""
        first = np.concatenate([[True], here])
        first[self.begin] = True
        return Groups(np.flatnonzero(first), self.entries)

    def repeat(self, value: np.ndarray) -> np.ndarray:
        """Repeats the value of each group for its entries."""
        return np.repeat(value, np.diff(self.begin, append=self.entries))

    def max(self, value: np.ndarray) -> np.ndarray:
        """Returns the largest value of each group."""
        return np.maximum.reduceat(value, self.begin)

    def min(self, value: np.ndarray) -> np.ndarray:
        """Returns the smallest value of each group."""
        return np.minimum.reduceat(value, self.begin)


def take(
    distance: Distances, row: Entries, rank: Entries, groups: Groups, config: ScheduleConfig
) -> Chosen:
    """Returns True for the entries that the next step imputes, at least one of every group.

    Entries are wholly missing rows, ascending, in groups by series. `rank` is the number of known
    rows of the series before each, for the order "local".
    """
    if config.order == "smallest":
        nearest = groups.min(distance)
        level = level_of(nearest - TIME_TOLERANCE, max_level=config.max_level)
        top = np.where(level < config.max_level, 2.0**level, np.inf)
        most = np.minimum(nearest + config.band, top) + TIME_TOLERANCE
        return distance <= groups.repeat(most)
    gaps = groups.split(np.diff(row) > 1)  # rows without a known one between them
    largest, parts = _largest(distance, gaps, rank, groups, config)
    band = _band(distance, largest, parts, config)
    if config.one_by_one_above is None:
        return band
    each = parts.repeat(largest)
    far = each > config.one_by_one_above
    equal = (distance >= each - TIME_TOLERANCE) & (distance <= each + TIME_TOLERANCE)
    units = groups if config.one_by_one_in == "series" else gaps
    index = np.arange(distance.size)
    first = units.repeat(units.min(np.where(far & equal, index, index.size)))
    return np.where(far, index == first, band)


def _largest(
    distance: Distances, gaps: Groups, rank: Entries, groups: Groups, config: ScheduleConfig
) -> tuple[OfParts, Groups]:
    """Returns the distance that is imputed next in each part of the series, and the parts.

    It is the largest within reach; if no distance of a series is within reach, its smallest.
    """
    within = np.where(distance <= config.reach + TIME_TOLERANCE, distance, -np.inf)
    of_series = groups.max(within)
    if config.order == "widest":
        parts, largest = groups, of_series
    elif config.order == "midpoints":
        parts, largest = gaps, gaps.max(within)
    else:
        number = rank // config.neighbourhood
        parts = groups.split(np.diff(number) > 0)
        largest = _largest_nearby(parts.max(within), number[parts.begin], parts, groups)
    if not np.isneginf(of_series).any():
        return largest, parts
    series = np.searchsorted(groups.begin, parts.begin, side="right") - 1
    nearest = groups.min(distance)
    return np.where(np.isneginf(of_series)[series], nearest[series], largest), parts


def _largest_nearby(
    own: OfParts, number: Int[np.ndarray, " part"], parts: Groups, groups: Groups
) -> OfParts:
    """Returns the largest distance of each part and of the adjacent parts of its series."""
    adjacent = np.diff(number) == 1
    adjacent[np.searchsorted(parts.begin, groups.begin[1:]) - 1] = False
    largest = own.copy()
    largest[1:] = np.where(adjacent, np.maximum(largest[1:], own[:-1]), largest[1:])
    largest[:-1] = np.where(adjacent, np.maximum(largest[:-1], own[1:]), largest[:-1])
    return largest


def _band(distance: Distances, largest: OfParts, parts: Groups, config: ScheduleConfig) -> Chosen:
    """Returns True for distances in (largest - Δ, largest] and of the same level."""
    # Just below what equals the largest but for its last bits, even if that is infinite.
    equal = np.nextafter(largest - TIME_TOLERANCE, -np.inf)
    least = np.minimum(largest - config.band, equal)
    level = level_of(largest - TIME_TOLERANCE, max_level=config.max_level)
    least = np.maximum(least, np.where(level > 0, 2.0 ** (level - 1) + TIME_TOLERANCE, -np.inf))
    return (distance > parts.repeat(least)) & (distance <= parts.repeat(largest + TIME_TOLERANCE))
