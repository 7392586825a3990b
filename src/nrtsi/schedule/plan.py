"""The plan: steps from coarse to fine until nothing is missing."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import ScheduleConfig
from nrtsi.schedule.gaps import gaps, level_of
from nrtsi.schedule.policies import SAME, Groups, take
from nrtsi.series import SeriesSet

__all__ = ["Step", "plan"]


@dataclass(frozen=True)
class Step:
    """What one pass imputes, in all series at once."""

    rows: Int[np.ndarray, " target"]
    """The target rows (G), ascending; every missing cell of them is imputed."""

    gap: Float[np.ndarray, " target"]
    """Distance to the nearest row that is known before the step; infinite where none is."""

    level: Int[np.ndarray, " target"]
    """Level of the gap: which network is asked."""

    sources: Bool[np.ndarray, " row"]
    """True for the rows that may be read (S): no targets, and something is known of them."""


def plan(
    series: SeriesSet, config: ScheduleConfig, wanted: Bool[np.ndarray, " row"] | None = None
) -> Iterator[Step]:
    """Yields steps until every missing cell has been a target exactly once.

    Rows that miss the most channels come first. Among rows that miss every channel the gap
    decides, as `config` says; rows that miss some go together. A row whose gap is out of reach
    waits until imputed ones come near; where none is within reach, the nearest go first. With
    `wanted`, other rows are never targets: what they miss stays missing.

    >>> import numpy as np
    >>> gappy = SeriesSet.stack(np.array([[[0.0], [np.nan], [np.nan], [np.nan], [4.0]]]))
    >>> [(s.level.tolist(), s.rows.tolist()) for s in plan(gappy, ScheduleConfig())]
    [([1], [2]), ([0, 0], [1, 3])]
    """
    missing = (~series.observed).sum(axis=1)
    owner = series.owner
    asked = missing > 0 if wanted is None else (missing > 0) & wanted
    while (left := np.flatnonzero(asked)).size:
        groups = Groups.by(owner[left])
        if config.order == "all":
            chosen = np.ones(left.size, dtype=bool)
        else:
            chosen = missing[left] == groups.most(missing[left])
        whole = chosen & (missing[left] == series.dims)
        sources = missing < series.dims
        sources[left[chosen]] = False
        rows = left[chosen]
        gap = gaps(series.time, sources, series.start, rows)
        if config.order != "all" and whole.any():
            before = np.concatenate([[0], np.cumsum(sources)])
            place = before[rows] - before[series.start[owner[rows]]]
            kept = _keep(gap, rows, place, owner[rows], whole[chosen], config)
            rows, gap = rows[kept], gap[kept]
        missing[rows] = 0
        asked[rows] = False
        yield Step(rows, gap, level_of(gap - SAME, max_level=config.max_level), sources)


def _keep(
    gap: Float[np.ndarray, " entry"],
    row: Int[np.ndarray, " entry"],
    place: Int[np.ndarray, " entry"],
    owner: Int[np.ndarray, " entry"],
    whole: Bool[np.ndarray, " entry"],
    config: ScheduleConfig,
) -> Bool[np.ndarray, " entry"]:
    """All partly observed rows, and of the wholly missing ones those that `config` takes."""
    kept = ~whole
    groups = Groups.by(owner[whole])
    kept[whole] = take(gap[whole], row[whole], place[whole], groups, config)
    return kept
