"""`Segments`: ranges of rows inside series, and the split into training and validation parts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from nrtsi.core.interpolation import Known
from nrtsi.core.ragged import place_in_group, split_equally
from nrtsi.core.series import SeriesSet

__all__ = ["SEGMENT_ROWS", "Segments", "longest_gap", "segment_length_for", "split"]

# Rows of a segment: several windows at every level. The limit holds for data with longer gaps.
SEGMENT_ROWS, MAX_SEGMENT_ROWS = 256, 2**14


@dataclass(frozen=True)
class Segments:
    """Ranges of rows, each inside one series."""

    begin: Int[np.ndarray, " segment"]
    end: Int[np.ndarray, " segment"]

    @classmethod
    def whole(cls, series: SeriesSet) -> "Segments":
        """One segment per series, from its first row to its last."""
        full = series.length > 0
        return cls(series.start[:-1][full], series.start[1:][full])

    def owner(self, series: SeriesSet) -> Int[np.ndarray, " segment"]:
        """The series that each segment belongs to."""
        return np.searchsorted(series.start, self.begin, side="right") - 1

    def sample(
        self, count: int, rng: np.random.Generator, max_rows: int = SEGMENT_ROWS
    ) -> "Segments":
        """Random parts of at most `max_rows` rows; every row is equally likely.

        Lengths above `SEGMENT_ROWS` are uniform on a logarithmic scale.
        """
        length = self.end - self.begin
        chosen = rng.choice(length.size, size=count, p=length / length.sum())
        size: float | np.ndarray = SEGMENT_ROWS
        if max_rows > SEGMENT_ROWS:
            size = SEGMENT_ROWS * (max_rows / SEGMENT_ROWS) ** rng.random(count)
        rows = np.minimum(length[chosen], size).astype(np.int64)
        offset = np.floor(rng.random(count) * (length[chosen] - rows + 1)).astype(np.int64)
        begin = self.begin[chosen] + offset
        return Segments(begin, begin + rows)


def longest_gap(series: SeriesSet) -> float:
    """The longest time between two successive observations of a channel."""
    longest = 0.0
    for cells in Known.of(series.observed, series.start).cells:
        rows = cells[1:-1]
        same_series = np.diff(series.owner[rows]) == 0
        longest = max(longest, float(np.diff(series.time[rows])[same_series].max(initial=0.0)))
    return longest


def segment_length_for(gap: float) -> int:
    """Rows of a segment in which a gap of this length can be hidden, at one row per unit.

    >>> segment_length_for(10.0), segment_length_for(1000.0), segment_length_for(1e9)
    (256, 4000, 16384)
    """
    return int(np.clip(4 * gap, SEGMENT_ROWS, MAX_SEGMENT_ROWS))


def split(
    series: SeriesSet, share: float, rng: np.random.Generator, max_rows: int = SEGMENT_ROWS
) -> tuple[Segments, Segments]:
    """Divides the rows into a training and a validation part.

    The validation part consists of whole pieces of at most `max_rows` rows. Data of fewer than
    twenty pieces are divided more finely. Data too small to divide are in both parts, and other
    cells are hidden in each.
    """
    size = int(np.clip(series.rows // 20, 24, max_rows))
    size = min(size, max(4, series.rows // 4))
    pieces = -(-series.length // size)
    piece = place_in_group(pieces)
    begin, end = split_equally(series.start, pieces)
    full = end > begin
    begin, end, piece = begin[full], end[full], piece[full]
    if begin.size < 4:
        return Segments(begin, end), Segments(begin, end)
    held_out = np.zeros(begin.size, dtype=bool)
    held_out[rng.permutation(begin.size)[: max(1, round(share * begin.size))]] = True
    # Adjacent pieces of the training part are joined.
    training = np.flatnonzero(~held_out)
    joined = (np.diff(training) == 1) & (piece[training[1:]] > 0)
    opens = np.concatenate([[True], ~joined])
    closes = np.concatenate([~joined, [True]])
    return (
        Segments(begin[training[opens]], end[training[closes]]),
        Segments(begin[held_out], end[held_out]),
    )
