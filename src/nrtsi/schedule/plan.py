"""The plan: steps from coarse to fine until nothing is missing."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.schedule.distances import distances, level_of
from nrtsi.schedule.frontier import Frontier
from nrtsi.schedule.policies import SAME, Groups, take

__all__ = ["Step", "plan"]


@dataclass(frozen=True)
class Step:
    """What one pass imputes, in all series at once."""

    rows: Int[np.ndarray, " target"]
    """The target rows (G), ascending; every missing cell of them is imputed."""

    distance: Float[np.ndarray, " target"]
    """Distance to the nearest row that is known before the step; infinite where none is, and 0 in
    a step that takes all that is near together."""

    level: Int[np.ndarray, " target"]
    """Level of the distance: which network is asked."""

    known: Bool[np.ndarray, " row"]
    """True for the rows of which something is known before the step; targets may be among them."""

    @property
    def sources(self) -> Bool[np.ndarray, " row"]:
        """True for the rows that a set of whole rows may read (S): known ones, but no targets."""
        sources = self.known.copy()
        sources[self.rows] = False
        return sources


def plan(
    series: SeriesSet, config: ScheduleConfig, wanted: Bool[np.ndarray, " row"] | None = None
) -> Iterator[Step]:
    """Yields steps until every missing cell has been a target exactly once.

    Rows that miss the most channels come first. Among rows that miss every channel the distance
    decides, as `config` says; rows that miss some go together. Or, where `config.together` says
    so, all rows that are near something known go together in the end. A row out of reach
    waits until imputed ones come near; where none is within reach, the nearest go first.
    With `wanted`, other rows are never targets: what they miss stays missing.

    >>> import numpy as np
    >>> gappy = SeriesSet.stack(np.array([[[0.0], [np.nan], [np.nan], [np.nan], [4.0]]]))
    >>> [(s.level.tolist(), s.rows.tolist()) for s in plan(gappy, ScheduleConfig())]
    [([1], [2]), ([0, 0], [1, 3])]
    """
    missing = (~series.observed).sum(axis=1)
    asked = missing > 0 if wanted is None else (missing > 0) & wanted
    whole = asked & (missing == series.dims)
    if config.order != "all" and whole.any():
        yield from _coarse_to_fine(series, np.flatnonzero(whole), missing, config)
        asked &= missing > 0
    if config.together is None:
        yield from _most_first(series, asked, missing, config)
    elif asked.any():
        rows = np.flatnonzero(asked)
        level = np.zeros(rows.size, dtype=np.int64)
        yield Step(rows, np.zeros(rows.size), level, missing < series.dims)


def _coarse_to_fine(
    series: SeriesSet,
    rows: Int[np.ndarray, " entry"],
    missing: Int[np.ndarray, " row"],
    config: ScheduleConfig,
) -> Iterator[Step]:
    """Steps of rows that miss every channel, which `missing` then no longer counts.

    Rows that are near enough to be filled together with partly observed ones are left.
    """
    sources = missing < series.dims
    frontier = Frontier.of(series, rows, sources)
    near = -np.inf if config.together is None else config.together + SAME
    frontier.leave(frontier.distance <= near)
    while frontier.row.size:
        row, distance = frontier.row, frontier.distance
        groups = Groups.at(row, series.start)
        taken = take(distance, row, _place(row, groups, sources, series, config), groups, config)
        level = level_of(distance[taken] - SAME, max_level=config.max_level)
        yield Step(row[taken], distance[taken], level, sources.copy())
        sources[row[taken]] = True
        missing[row[taken]] = 0
        frontier.fill(taken)
        frontier.leave(frontier.distance <= near)


def _place(
    row: Int[np.ndarray, " entry"],
    groups: Groups,
    sources: Bool[np.ndarray, " row"],
    series: SeriesSet,
    config: ScheduleConfig,
) -> Int[np.ndarray, " entry"]:
    """How many known rows of its series come before each row, where the order asks for it."""
    if config.order != "local":
        return np.zeros(row.size, dtype=np.int64)
    before = np.cumsum(sources)
    first = series.start[np.searchsorted(series.start, row[groups.begin], side="right") - 1]
    return before[row] - groups.spread(before[first] - sources[first])


def _most_first(
    series: SeriesSet,
    asked: Bool[np.ndarray, " row"],
    missing: Int[np.ndarray, " row"],
    config: ScheduleConfig,
) -> Iterator[Step]:
    """Steps of rows that miss some channels: those of a series that miss the most go together."""
    while (left := np.flatnonzero(asked)).size:
        chosen = np.ones(left.size, dtype=bool)
        if config.order != "all":
            chosen = missing[left] == Groups.at(left, series.start).most(missing[left])
        rows = left[chosen]
        known = missing < series.dims
        sources = known.copy()
        sources[rows] = False
        distance = distances(series.time, sources, series.start, rows)
        missing[rows] = 0
        asked[rows] = False
        yield Step(rows, distance, level_of(distance - SAME, max_level=config.max_level), known)
