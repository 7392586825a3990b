"""Fingerprints of data: enough to tell whether a model has seen these rows or series."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, UInt64

from nrtsi.core.series import SeriesSet

__all__ = ["SeriesFingerprints", "digest", "fingerprint", "overlap"]

KEPT = 8192

# Cells of a series by which it is recognised, and how many of them must be found.
SERIES_CELLS, MIN_FOUND = 8, 2

# Is added before bits are mixed: zero alone would stay zero.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(series: SeriesSet) -> Int[np.ndarray, " kept"]:
    """The smallest hashes of the rows that have data, ascending: an even sample of any size."""
    return np.sort(np.unique(_hash(series))[:KEPT].view(np.int64))


def digest(series: SeriesSet) -> str:
    """What tells these very data from all others: times, what is known, and where series end."""
    found = hashlib.sha256()
    for array in (series.time, series.value + 0.0, series.observed, series.start):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def overlap(kept: Int[np.ndarray, " kept"], series: SeriesSet) -> float:
    """Share of the rows of `series` that a fingerprint's data has too, from 0 to 1.

    Estimated from the rows whose hashes are as small as those kept: all of them where the
    fingerprint is complete.
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
        """Takes cells from all over each series; every series must have some."""
        row, channel = np.nonzero(series.observed)
        begin = np.searchsorted(row, series.start)
        count = np.diff(begin)
        place = begin[:-1, None] + np.arange(SERIES_CELLS) * count[:, None] // SERIES_CELLS
        return cls(_hash_cells(series.time[row], channel, series.value[row, channel])[place])

    def find(self, series: SeriesSet) -> Int[np.ndarray, " series"]:
        """The number of each of `series` among the fingerprints; -1 if it is none of them."""
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
        often = np.argsort(count, kind="stable")  # the last to be written is the most frequent
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
    """A hash of each row that has data: times, values and which are there, with the row before.

    Rows alone of few distinct values would be found anywhere.
    """
    rows = series.observed.any(axis=1)
    # + 0.0 turns -0.0 into 0.0, which is the same value with other bits.
    columns = np.column_stack([series.time[rows], series.value[rows] + 0.0]).view(np.uint64)
    seen = series.observed[rows].astype(np.uint64)
    result = np.zeros(columns.shape[0], dtype=np.uint64)
    for column in (*columns.T, *seen.T):
        result = _mix(result ^ _mix(column + GOLDEN))
    return result if result.size < 2 else _mix(result[1:] ^ _mix(result[:-1] + np.uint64(1)))


def _mix(bits: UInt64[np.ndarray, " row"]) -> UInt64[np.ndarray, " row"]:
    """The finaliser of splitmix64: every bit of the result depends on every bit given."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
