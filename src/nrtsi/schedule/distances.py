"""Distances from missing rows to known ones (the paper's missing gap), and their levels."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.interpolation import Known
from nrtsi.core.ragged import concat_ranges
from nrtsi.core.series import SeriesSet

__all__ = ["TIME_TOLERANCE", "Frontier", "distances", "level_of"]

RowMask: TypeAlias = Bool[np.ndarray, " row"]
RowIndex: TypeAlias = Int[np.ndarray, " row"]
Entries: TypeAlias = Int[np.ndarray, " entry"]
EntryMask: TypeAlias = Bool[np.ndarray, " entry"]
Distances: TypeAlias = Float[np.ndarray, " entry"]

# Distances are differences of floats: on a regular grid equal ones differ in their last bits.
TIME_TOLERANCE = 1e-6


def distances(
    time: Float[np.ndarray, " row"],
    known: RowMask,
    start: Int[np.ndarray, " bound"],
    rows: Entries,
) -> Distances:
    """Returns the distance in time from each chosen row to the nearest known row of its series.

    Known rows have distance 0; rows of a series without known rows have distance ∞.

    >>> known = np.array([True, False, False, False, True])
    >>> distances(np.arange(5.0), known, np.array([0, 5]), np.arange(5))
    array([0., 1., 2., 1., 0.])
    """
    left, right = (each[:, 0] for each in Known.of(known[:, None], start).around(rows))
    behind = np.where(left >= 0, time[rows] - time[left], np.inf)
    ahead = np.where(right >= 0, time[right] - time[rows], np.inf)
    return np.where(known[rows], 0.0, np.minimum(behind, ahead))


def level_of(
    distance: Float[np.ndarray, "*shape"], *, max_level: int
) -> Int[np.ndarray, "*shape"]:
    """Returns the smallest level k with distance ≤ 2^k, and at most `max_level`.

    >>> level_of(np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0]), max_level=2)
    array([0, 0, 1, 2, 2, 2])
    """
    return np.searchsorted(2.0 ** np.arange(max_level), distance, side="left")


@dataclass
class Frontier:
    """Missing rows with their distances to the nearest known rows.

    An update computes only the distances of rows between the same known rows as an imputed one.
    """

    series: SeriesSet
    owner: RowIndex
    """The series of each row."""
    row: Entries
    """The missing rows, ascending."""
    distance: Distances
    """Distance of each to the nearest known row of its series; ∞ if there is none."""
    left: RowIndex
    """The nearest known row before; the row before the series if there is none."""
    right: RowIndex
    """The nearest known row after; the row after the series if there is none."""

    @classmethod
    def of(cls, series: SeriesSet, rows: Entries, known: RowMask) -> "Frontier":
        """Computes the distances of missing `rows` to the `known` ones."""
        owner, index = series.owner, np.arange(series.rows)
        left = np.maximum.accumulate(np.where(known, index, -1))
        left = np.maximum(left, series.start[owner] - 1)
        right = np.minimum.accumulate(np.where(known, index, series.rows)[::-1])[::-1]
        right = np.minimum(right, series.start[owner + 1])
        frontier = cls(series, owner, rows, np.zeros(rows.size), left, right)
        frontier.distance = frontier._distances(rows)
        return frontier

    def fill(self, taken: EntryMask) -> None:
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

    def drop(self, dropped: EntryMask) -> None:
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

    def _distances(self, rows: Entries) -> Distances:
        time, start = self.series.time, self.series.start
        left, right, owner = self.left[rows], self.right[rows], self.owner[rows]
        after = time[np.minimum(right, self.series.rows - 1)]
        behind = np.where(left >= start[owner], time[rows] - time[left], np.inf)
        ahead = np.where(right < start[owner + 1], after - time[rows], np.inf)
        return np.minimum(behind, ahead)
