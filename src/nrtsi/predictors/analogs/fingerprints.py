"""What tells that a series is one of those that are remembered."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.fingerprint import GOLDEN, mix
from nrtsi.core.series import SeriesSet

__all__ = ["SeriesFingerprints"]

# Cells of a series by which it is recognised, and how many of them have to be there.
CELLS, ENOUGH = 8, 2


@dataclass(frozen=True)
class SeriesFingerprints:
    """A few observed cells of each remembered series: time, channel and value in one number."""

    hash: Int[np.ndarray, "series mark"]

    @classmethod
    def of(cls, series: SeriesSet) -> "SeriesFingerprints":
        """Takes cells from all over each series; every series has some."""
        row, channel = np.nonzero(series.observed)
        begin = np.searchsorted(row, series.start)
        count = np.diff(begin)
        place = begin[:-1, None] + np.arange(CELLS) * count[:, None] // CELLS
        return cls(_hash(series.time[row], channel, series.value[row, channel])[place])

    def find(self, series: SeriesSet) -> Int[np.ndarray, " series"]:
        """The number of the remembered series that each of `series` is; -1 where it is none."""
        if not self.hash.size:
            return np.full(series.series, -1)
        row, channel = np.nonzero(series.observed)
        seen = _hash(series.time[row], channel, series.value[row, channel])
        order, sorted_marks = self._sorted
        place = np.searchsorted(sorted_marks, seen).clip(max=sorted_marks.size - 1)
        hit = np.flatnonzero(sorted_marks[place] == seen)
        pair = series.owner[row[hit]] * len(self.hash) + order[place[hit]] // CELLS
        pairs, times = np.unique(pair, return_counts=True)
        found = np.full(series.series, -1)
        often = np.argsort(times, kind="stable")  # the last to be written is the most frequent
        often = often[times[often] >= ENOUGH]
        found[pairs[often] // len(self.hash)] = pairs[often] % len(self.hash)
        return found

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        flat = self.hash.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return order, flat[order]


def _hash(
    time: Float[np.ndarray, " cell"],
    channel: Int[np.ndarray, " cell"],
    value: Float[np.ndarray, " cell"],
) -> Int[np.ndarray, " cell"]:
    """One number for the three; others have others, as good as always."""
    mixed = np.zeros(time.size, dtype=np.uint64)
    for part in (time.view(np.uint64), channel.astype(np.uint64), value.view(np.uint64)):
        mixed = mix((mixed ^ part) + GOLDEN)
    return mixed.view(np.int64)
