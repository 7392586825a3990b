"""Fingerprints of data: enough to tell whether a model has seen these rows."""

import hashlib

import numpy as np
from jaxtyping import Int, UInt64

from nrtsi.core.series import SeriesSet

__all__ = ["GOLDEN", "digest", "fingerprint", "mix", "overlap"]

KEPT = 8192

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""What is added before bits are mixed: zero alone would stay zero."""


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
        result = mix(result ^ mix(column + GOLDEN))
    return result if result.size < 2 else mix(result[1:] ^ mix(result[:-1] + np.uint64(1)))


def mix(bits: UInt64[np.ndarray, " row"]) -> UInt64[np.ndarray, " row"]:
    """The finaliser of splitmix64: every bit of the result depends on every bit given."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
