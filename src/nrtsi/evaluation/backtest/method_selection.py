"""`MethodSelection`: which method fills which cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.gaps import GAP_BINS, Gaps

__all__ = ["MethodSelection"]

SURE = 1.5
"""Standard errors by which a method must be better somewhere to be preferred there."""


@dataclass(frozen=True)
class MethodSelection:
    """Which method fills which cells."""

    methods: tuple[str, ...]
    table: Int[np.ndarray, "dim bucket"]
    """Index of the method by channel and length of the gap."""

    @classmethod
    def always(cls, method: str, dims: int) -> "MethodSelection":
        """The same everywhere."""
        return cls((method,), np.zeros((dims, GAP_BINS), dtype=np.int64))

    @property
    def used(self) -> tuple[str, ...]:
        """The methods that are used somewhere."""
        return tuple(self.methods[index] for index in np.unique(self.table))

    def index(self, gaps: Gaps) -> Int[np.ndarray, "row dim"]:
        """The index in `methods` of each missing cell; -1 where it is observed."""
        channel = np.arange(self.table.shape[0])
        return np.where(gaps.bucket >= 0, self.table[channel, gaps.bucket], -1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"methods": list(self.methods), "table": self.table.tolist()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "MethodSelection":
        """The choice that `to_dict` described."""
        table = np.asarray(record["table"], dtype=np.int64)
        return cls(tuple(record["methods"]), table)

    @classmethod
    def of(
        cls,
        methods: tuple[str, ...],
        squared: Float[np.ndarray, "method cell"],
        channel: Int[np.ndarray, " cell"],
        bucket: Int[np.ndarray, " cell"],
        gap: Int[np.ndarray, " cell"],
        dims: int,
    ) -> "MethodSelection":
        """The method with the lowest squared error for each channel and length of gap.

        The best overall is used where another is not clearly better in a channel, and that of the
        channel where another is not clearly better for gaps of a length: what is best by chance
        here would not be best elsewhere. The error over all cells is that of the best single
        method, or lower.
        """
        judge = _Judge(squared, gap)
        everywhere = int(squared.sum(axis=1).argmin())
        table = np.full((dims, GAP_BINS), everywhere)
        for each in np.unique(channel):
            own = channel == each
            table[each] = judge.preferred(own, everywhere)
            for length in np.unique(bucket[own]):
                cells = own & (bucket == length)
                table[each, length] = judge.preferred(cells, int(table[each, length]))
        return cls(methods, table)


@dataclass(frozen=True)
class _Judge:
    """Compares methods by their squared errors, gap by gap."""

    squared: Float[np.ndarray, "method cell"]
    gap: Int[np.ndarray, " cell"]

    def preferred(self, cells: Bool[np.ndarray, " cell"], usual: int) -> int:
        """The method with the lowest error on these cells, or `usual` where it is not clear."""
        squared = self.squared[:, cells]
        best = int(squared.sum(axis=1).argmin())
        # The cells of one gap are wrong together: gaps are what there are so many of.
        gap = np.unique(self.gap[cells], return_inverse=True)[1]
        gain = np.bincount(gap, weights=squared[usual] - squared[best])
        return best if gain.sum() > SURE * np.sqrt((gain**2).sum()) else usual
