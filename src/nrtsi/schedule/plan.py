"""The plan: the paper's Algorithm 1, which imputes from coarse to fine, and its orders."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.schedule.distances import (
    TIME_TOLERANCE,
    Distances,
    Entries,
    Frontier,
    RowMask,
    distances,
    level_of,
)

__all__ = ["Step", "plan"]

Counts: TypeAlias = Int[np.ndarray, " row"]
Chosen: TypeAlias = Bool[np.ndarray, " entry"]
OfParts: TypeAlias = Float[np.ndarray, " part"]


@dataclass(frozen=True)
class Step:
    """The targets of one step, in all series at once."""

    rows: Int[np.ndarray, " target"]
    """The target rows (G), ascending; the step imputes all their missing cells."""
    distance: Float[np.ndarray, " target"]
    """Distance to the nearest row known before the step, or ∞; 0 with `config.together`."""
    level: Int[np.ndarray, " target"]
    """Level of the distance, which selects the network."""
    known: RowMask
    """True for rows with known cells before the step; targets may be among them."""

    @property
    def sources(self) -> RowMask:
        """True for the known rows (S) that are no targets."""
        sources = self.known.copy()
        sources[self.rows] = False
        return sources


@dataclass(frozen=True)
class _Groups:
    """Consecutive entries divided into groups, such as series, with reductions by group."""

    begin: Int[np.ndarray, " group"]
    """The first entry of each group; no group is empty."""
    entries: int
    """Number of entries."""

    @classmethod
    def at(cls, row: Entries, start: Int[np.ndarray, " bound"]) -> "_Groups":
        """Groups ascending rows by series."""
        begin = np.searchsorted(row, start)
        return cls(begin[:-1][np.diff(begin) > 0], row.size)

    def split(self, here: Bool[np.ndarray, " inner"]) -> "_Groups":
        """Splits the groups between entries i and i + 1 if `here[i]`."""
        first = np.concatenate([[True], here])
        first[self.begin] = True
        return _Groups(np.flatnonzero(first), self.entries)

    def repeat(self, value: np.ndarray) -> np.ndarray:
        """Repeats the value of each group for its entries."""
        return np.repeat(value, np.diff(self.begin, append=self.entries))

    def max(self, value: np.ndarray) -> np.ndarray:
        """Returns the largest value of each group."""
        return np.maximum.reduceat(value, self.begin)

    def min(self, value: np.ndarray) -> np.ndarray:
        """Returns the smallest value of each group."""
        return np.minimum.reduceat(value, self.begin)


def plan(
    series: SeriesSet, config: ScheduleConfig, eligible: RowMask | None = None
) -> Iterator[Step]:
    """Yields steps until every missing cell has been a target exactly once.

    Rows with the most missing channels come first. Rows that miss every channel follow
    `config.order`; partially observed rows with equally many missing channels share a step. With
    `config.together` the last step takes all rows near known ones. Rows beyond `config.reach` wait
    until imputed rows come near; if no row is within reach, the nearest come first. Rows that are
    not `eligible` are never targets.

    >>> gappy = SeriesSet.stack(np.array([[[0.0], [np.nan], [np.nan], [np.nan], [4.0]]]))
    >>> [(s.level.tolist(), s.rows.tolist()) for s in plan(gappy, ScheduleConfig())]
    [([1], [2]), ([0, 0], [1, 3])]
    """
    missing = (~series.observed).sum(axis=1)
    targets = missing > 0 if eligible is None else (missing > 0) & eligible
    whole = targets & (missing == series.dims)
    if config.order != "all" and whole.any():
        yield from _coarse_to_fine(series, np.flatnonzero(whole), missing, config)
        targets &= missing > 0
    if config.together is None:
        yield from _most_missing_first(series, targets, missing, config)
    elif targets.any():
        rows = np.flatnonzero(targets)
        yield Step(rows, np.zeros(rows.size), np.zeros_like(rows), missing < series.dims)


def _coarse_to_fine(
    series: SeriesSet, rows: Entries, missing: Counts, config: ScheduleConfig
) -> Iterator[Step]:
    """Yields the steps of rows that miss every channel, without rows for the last step."""
    known = missing < series.dims
    frontier = Frontier.of(series, rows, known)
    near = -np.inf if config.together is None else config.together + TIME_TOLERANCE
    frontier.drop(frontier.distance <= near)
    while frontier.row.size:
        row, distance = frontier.row, frontier.distance
        groups = _Groups.at(row, series.start)
        rank = np.zeros_like(row)
        if config.order == "local":
            rank = _known_before(row, groups, known, series)
        taken = _take(distance, row, rank, groups, config)
        level = level_of(distance[taken] - TIME_TOLERANCE, max_level=config.max_level)
        yield Step(row[taken], distance[taken], level, known.copy())
        known[row[taken]] = True
        missing[row[taken]] = 0
        frontier.fill(taken)
        frontier.drop(frontier.distance <= near)


def _known_before(row: Entries, groups: _Groups, known: RowMask, series: SeriesSet) -> Entries:
    """Returns the number of known rows of its series before each row."""
    before = np.cumsum(known)
    first = series.start[np.searchsorted(series.start, row[groups.begin], side="right") - 1]
    return before[row] - groups.repeat(before[first] - known[first])


def _most_missing_first(
    series: SeriesSet, targets: RowMask, missing: Counts, config: ScheduleConfig
) -> Iterator[Step]:
    """Yields the steps of partially observed rows: the most missing channels of a series first."""
    while (remaining := np.flatnonzero(targets)).size:
        rows = remaining
        if config.order != "all":
            count = missing[remaining]
            groups = _Groups.at(remaining, series.start)
            rows = remaining[count == groups.repeat(groups.max(count))]
        known = missing < series.dims
        sources = known.copy()
        sources[rows] = False
        distance = distances(series.time, sources, series.start, rows)
        level = level_of(distance - TIME_TOLERANCE, max_level=config.max_level)
        missing[rows] = 0
        targets[rows] = False
        yield Step(rows, distance, level, known)


def _take(
    distance: Distances, row: Entries, rank: Entries, groups: _Groups, config: ScheduleConfig
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
    distance: Distances, gaps: _Groups, rank: Entries, groups: _Groups, config: ScheduleConfig
) -> tuple[OfParts, _Groups]:
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
    own: OfParts, number: Int[np.ndarray, " part"], parts: _Groups, groups: _Groups
) -> OfParts:
    """Returns the largest distance of each part and of the adjacent parts of its series."""
    adjacent = np.diff(number) == 1
    adjacent[np.searchsorted(parts.begin, groups.begin[1:]) - 1] = False
    largest = own.copy()
    largest[1:] = np.where(adjacent, np.maximum(largest[1:], own[:-1]), largest[1:])
    largest[:-1] = np.where(adjacent, np.maximum(largest[:-1], own[1:]), largest[:-1])
    return largest


def _band(distance: Distances, largest: OfParts, parts: _Groups, config: ScheduleConfig) -> Chosen:
    """Returns True for distances in (largest - Δ, largest] and of the same level."""
    # Just below what equals the largest but for its last bits, even if that is infinite.
    equal = np.nextafter(largest - TIME_TOLERANCE, -np.inf)
    least = np.minimum(largest - config.band, equal)
    level = level_of(largest - TIME_TOLERANCE, max_level=config.max_level)
    least = np.maximum(least, np.where(level > 0, 2.0 ** (level - 1) + TIME_TOLERANCE, -np.inf))
    return (distance > parts.repeat(least)) & (distance <= parts.repeat(largest + TIME_TOLERANCE))
