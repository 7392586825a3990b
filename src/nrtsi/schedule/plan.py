"""The plan: the paper's Algorithm 1, which imputes from coarse to fine, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.schedule.distances import TIME_TOLERANCE, Frontier, distances, level_of
from nrtsi.schedule.policies import Groups, take

__all__ = ["Step", "plan"]

RowMask: TypeAlias = Bool[np.ndarray, " row"]
Counts: TypeAlias = Int[np.ndarray, " row"]
Entries: TypeAlias = Int[np.ndarray, " entry"]


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
        level = np.zeros(rows.size, dtype=np.int64)
        yield Step(rows, np.zeros(rows.size), level, missing < series.dims)


def _coarse_to_fine(
    series: SeriesSet, rows: Entries, missing: Counts, config: ScheduleConfig
) -> Iterator[Step]:
    """Yields the steps of rows that miss every channel, and sets their `missing` to 0.

    Rows near enough to be imputed with the partially observed ones are left out.
    """
    sources = missing < series.dims
    frontier = Frontier.of(series, rows, sources)
    near = -np.inf if config.together is None else config.together + TIME_TOLERANCE
    frontier.drop(frontier.distance <= near)
    while frontier.row.size:
        row, distance = frontier.row, frontier.distance
        groups = Groups.at(row, series.start)
        rank = np.zeros_like(row)
        if config.order == "local":
            rank = _known_before(row, groups, sources, series)
        taken = take(distance, row, rank, groups, config)
        level = level_of(distance[taken] - TIME_TOLERANCE, max_level=config.max_level)
        yield Step(row[taken], distance[taken], level, sources.copy())
        sources[row[taken]] = True
        missing[row[taken]] = 0
        frontier.fill(taken)
        frontier.drop(frontier.distance <= near)


def _known_before(row: Entries, groups: Groups, sources: RowMask, series: SeriesSet) -> Entries:
    """Returns the number of known rows of its series before each row."""
    before = np.cumsum(sources)
    first = series.start[np.searchsorted(series.start, row[groups.begin], side="right") - 1]
    return before[row] - groups.repeat(before[first] - sources[first])


def _most_missing_first(
    series: SeriesSet, targets: RowMask, missing: Counts, config: ScheduleConfig
) -> Iterator[Step]:
    """Yields the steps of partially observed rows: the most missing channels of a series first."""
    while (remaining := np.flatnonzero(targets)).size:
        rows = remaining
        if config.order != "all":
            count = missing[remaining]
            groups = Groups.at(remaining, series.start)
            rows = remaining[count == groups.repeat(groups.max(count))]
        known = missing < series.dims
        sources = known.copy()
        sources[rows] = False
        distance = distances(series.time, sources, series.start, rows)
        level = level_of(distance - TIME_TOLERANCE, max_level=config.max_level)
        missing[rows] = 0
        targets[rows] = False
        yield Step(rows, distance, level, known)
