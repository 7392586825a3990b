"""The rows that are still missing and their distances, updated incrementally after each step."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.ragged import concat_ranges
from nrtsi.core.series import SeriesSet

__all__ = ["Frontier"]


@dataclass
class Frontier:
    """Missing rows with their distances to the nearest known rows.

    A step changes only the distances of rows between the same known rows as an imputed one, so an
    update costs little more than a pass over the remaining rows.
    """

    series: SeriesSet

    owner: Int[np.ndarray, " row"]
    """The series of each row."""

    row: Int[np.ndarray, " entry"]
    """The missing rows, ascending."""

    distance: Float[np.ndarray, " entry"]
    """Distance of each to the nearest known row of its series; ∞ if there is none."""

    left: Int[np.ndarray, " row"]
    """The nearest known row before; the row before the series if there is none."""

    right: Int[np.ndarray, " row"]
    """The nearest known row after; the row after the series if there is none."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        rows: Int[np.ndarray, " entry"],
        known: Bool[np.ndarray, " row"],
    ) -> "Frontier":
        """Computes the distances of missing `rows` to the `known` ones."""
        owner, index = series.owner, np.arange(series.rows)
        left = np.maximum.accumulate(np.where(known, index, -1))
        left = np.maximum(left, series.start[owner] - 1)
        right = np.minimum.accumulate(np.where(known, index, series.rows)[::-1])[::-1]
        right = np.minimum(right, series.start[owner + 1])
        frontier = cls(series, owner, rows, np.zeros(rows.size), left, right)
        frontier.distance = frontier._distances(rows)
        return frontier

    def fill(self, taken: Bool[np.ndarray, " entry"]) -> None:
        """Marks the taken rows as known."""
        filled, self.row = self.row[taken], self.row[~taken]
        self.distance = self.distance[~taken]
        near = self._beside(filled)
        rows = self.row[near]
        position = np.searchsorted(filled, rows)
        bounds = np.concatenate([[-1], filled, [self.series.rows]])
        self.left[rows] = np.maximum(self.left[rows], bounds[position])
        self.right[rows] = np.minimum(self.right[rows], bounds[position + 1])
        self.distance[near] = self._distances(rows)

    def drop(self, dropped: Bool[np.ndarray, " entry"]) -> None:
        """Removes rows that another step imputes; they stay unknown."""
        if dropped.any():
            self.row, self.distance = self.row[~dropped], self.distance[~dropped]

    def _beside(self, filled: Int[np.ndarray, " filled"]) -> Int[np.ndarray, " near"]:
        """Returns the entries that lie between the same known rows as a filled one."""
        left = self.left[filled]
        new = np.concatenate([[True], np.diff(left) > 0])  # not in the gap of the one before
        begin = np.searchsorted(self.row, left[new], side="right")
        size = np.searchsorted(self.row, self.right[filled[new]]) - begin
        return concat_ranges(begin, begin + size)

    def _distances(self, rows: Int[np.ndarray, " chosen"]) -> Float[np.ndarray, " chosen"]:
        time, start = self.series.time, self.series.start
        left, right, owner = self.left[rows], self.right[rows], self.owner[rows]
        last = self.series.rows - 1
        behind = np.where(left >= start[owner], time[rows] - time[left], np.inf)
        ahead = np.where(
            right < start[owner + 1], time[np.minimum(right, last)] - time[rows], np.inf
        )
        return np.minimum(behind, ahead)
