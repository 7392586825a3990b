"""Fingerprints of data, which show whether a model has seen some rows or series."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, UInt64

from nrtsi.core.series import SeriesSet
from nrtsi.core.state import digest

__all__ = ["SeriesFingerprints", "fingerprint", "overlap", "series_digest"]

KEPT = 8192  # hashes of a fingerprint, at most

SERIES_CELLS, MIN_FOUND = 8, 2  # cells stored of a series; how many must match

# Added before bits are mixed, because the mix of zero is zero.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(series: SeriesSet) -> Int[np.ndarray, " kept"]:
    """The smallest hashes of the rows with data, ascending: a random sample of fixed size."""
    return np.sort(np.unique(_hash(series))[:KEPT].view(np.int64))


def series_digest(series: SeriesSet) -> str:
    """A digest of the times, values, observed cells and bounds of series."""
    arrays = (series.time, series.value + 0.0, series.observed, series.start)
    return digest(*(array.tobytes() for array in arrays))


def overlap(kept: Int[np.ndarray, " kept"], series: SeriesSet) -> float:
    """Share of the rows of `series` that the fingerprinted data contain, from 0 to 1.

    It is estimated from the rows whose hashes are in the range of the fingerprint.
    """
    hashes, known = _hash(series), kept.view(np.uint64)
    if kept.size == KEPT:
        hashes = hashes[hashes <= known.max()]
    return float(np.isin(hashes, known).mean()) if hashes.size else 0.0


@dataclass(frozen=True)
class SeriesFingerprints:
    """Hashes of a few observed cells of each series, which recognise a series with fewer cells."""

    hash: Int[np.ndarray, "series cell"]

    @classmethod
    def of(cls, series: SeriesSet) -> "SeriesFingerprints":
        """Takes evenly spaced observed cells; every series must have one."""
        row, channel = np.nonzero(series.observed)
        begin = np.searchsorted(row, series.start)
        count = np.diff(begin)
        place = begin[:-1, None] + np.arange(SERIES_CELLS) * count[:, None] // SERIES_CELLS
        return cls(_hash_cells(series.time[row], channel, series.value[row, channel])[place])

    def find(self, series: SeriesSet) -> Int[np.ndarray, " series"]:
        """The index of the fingerprint of each of `series`; -1 if it has none."""
        found = np.full(series.series, -1)
        if not self.hash.size:
            return found
        row, channel = np.nonzero(series.observed)
        cells = _hash_cells(series.time[row], channel, series.value[row, channel])
        order, ascending = self._sorted
        place = np.searchsorted(ascending, cells).clip(max=ascending.size - 1)
        hit = np.flatnonzero(ascending[place] == cells)
        pair = series.owner[row[hit]] * len(self.hash) + order[place[hit]] // SERIES_CELLS
        pairs, count = np.unique(pair, return_counts=True)
        often = np.argsort(count, kind="stable")  # the most frequent is written last
        often = often[count[often] >= MIN_FOUND]
        found[pairs[often] // len(self.hash)] = pairs[often] % len(self.hash)
        return found

    @cached_property
    def _sorted(self) -> tuple[Int[np.ndarray, " cell"], Int[np.ndarray, " cell"]]:
        flat = self.hash.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return order, flat[order]


def _hash_cells(
    time: Float[np.ndarray, " cell"],
    channel: Int[np.ndarray, " cell"],
    value: Float[np.ndarray, " cell"],
) -> Int[np.ndarray, " cell"]:
    """A hash of the time, the channel and the value of each cell."""
    mixed = np.zeros(time.size, dtype=np.uint64)
    for part in (time.view(np.uint64), channel.astype(np.uint64), value.view(np.uint64)):
        mixed = _mix((mixed ^ part) + GOLDEN)
    return mixed.view(np.int64)


def _hash(series: SeriesSet) -> UInt64[np.ndarray, " row"]:
    """A hash of the times, values and observed cells of each row with data and the row before.

    Single rows are not unique if a channel has few distinct values.
    """
    rows = series.has_data
    # + 0.0 turns -0.0 into 0.0, which is equal but has other bits.
    columns = np.column_stack([series.time[rows], series.value[rows] + 0.0]).view(np.uint64)
    seen = series.observed[rows].astype(np.uint64)
    result = np.zeros(columns.shape[0], dtype=np.uint64)
    for column in (*columns.T, *seen.T):
        result = _mix(result ^ _mix(column + GOLDEN))
    return result if result.size < 2 else _mix(result[1:] ^ _mix(result[:-1] + np.uint64(1)))


def _mix(bits: UInt64[np.ndarray, " row"]) -> UInt64[np.ndarray, " row"]:
    """The finaliser of splitmix64: every bit of the result depends on every input bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
