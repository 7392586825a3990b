"""What is still missing, and how far it is from what is known: kept up to date, not found anew."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet

__all__ = ["Frontier"]


@dataclass
class Frontier:
    """Rows yet to be filled; filling some of them brings what is known nearer to their neighbours.

    A step changes only the distances of rows between the same known rows as an imputed one.
    So it costs little more than a pass over the remaining rows.
    """

    series: SeriesSet

    owner: Int[np.ndarray, " row"]
    """The series that each row belongs to."""

    row: Int[np.ndarray, " entry"]
    """The rows, ascending."""

    distance: Float[np.ndarray, " entry"]
    """Distance of each to the nearest known row of its series; infinite where there is none."""

    left: Int[np.ndarray, " row"]
    """The nearest known row before; where there is none, the row before the series."""

    right: Int[np.ndarray, " row"]
    """The nearest known row after; where there is none, the row after the series."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        rows: Int[np.ndarray, " entry"],
        known: Bool[np.ndarray, " row"],
    ) -> "Frontier":
        """The rows, none of them known, beside the `known` ones of their series."""
        owner, index = series.owner, np.arange(series.rows)
        left = np.maximum.accumulate(np.where(known, index, -1))
        left = np.maximum(left, series.start[owner] - 1)
        right = np.minimum.accumulate(np.where(known, index, series.rows)[::-1])[::-1]
        right = np.minimum(right, series.start[owner + 1])
        frontier = cls(series, owner, rows, np.zeros(rows.size), left, right)
        frontier.distance = frontier._distances(rows)
        return frontier

    def fill(self, taken: Bool[np.ndarray, " entry"]) -> None:
        """The taken rows are known from now on."""
        filled, self.row = self.row[taken], self.row[~taken]
        self.distance = self.distance[~taken]
        near = self._beside(filled)
        rows = self.row[near]
        place = np.searchsorted(filled, rows)
        fence = np.concatenate([[-1], filled, [self.series.rows]])
        self.left[rows] = np.maximum(self.left[rows], fence[place])
        self.right[rows] = np.minimum(self.right[rows], fence[place + 1])
        self.distance[near] = self._distances(rows)

    def leave(self, left: Bool[np.ndarray, " entry"]) -> None:
        """The rows are filled by somebody else, later: they are no longer here, nor known."""
        if left.any():
            self.row, self.distance = self.row[~left], self.distance[~left]

    def _beside(self, filled: Int[np.ndarray, " filled"]) -> Int[np.ndarray, " near"]:
        """Places of the entries that lie between the same known rows as a filled one."""
        left = self.left[filled]
        other = np.concatenate([[True], np.diff(left) > 0])  # not between those of the one before
        begin = np.searchsorted(self.row, left[other], side="right")
        size = np.searchsorted(self.row, self.right[filled[other]]) - begin
        return np.arange(size.sum()) + np.repeat(begin - (np.cumsum(size) - size), size)

    def _distances(self, rows: Int[np.ndarray, " asked"]) -> Float[np.ndarray, " asked"]:
        time, start = self.series.time, self.series.start
        left, right, owner = self.left[rows], self.right[rows], self.owner[rows]
        last = self.series.rows - 1
        behind = np.where(left >= start[owner], time[rows] - time[left], np.inf)
        ahead = np.where(
            right < start[owner + 1], time[np.minimum(right, last)] - time[rows], np.inf
        )
        return np.minimum(behind, ahead)
