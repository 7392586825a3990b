"""`Errors`: what was said of cells whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.holes import Holes
from nrtsi.series import SeriesSet

__all__ = ["Errors"]


@dataclass(frozen=True)
class Errors:
    """Cells that were set aside, where they lie, and how far off a method was, in its scale."""

    channel: Int[np.ndarray, " cell"]
    bucket: Int[np.ndarray, " cell"]
    """Of the length of the hole that the cell lies in."""

    hole: Int[np.ndarray, " cell"]
    """Which hole that is."""

    row: Int[np.ndarray, " cell"]
    place: Float[np.ndarray, " cell"]
    """Time in units of the hole's length."""

    score: Float[np.ndarray, " cell"]
    """Truth less guess, in scales of the guess."""

    @classmethod
    def of(
        cls,
        known: SeriesSet,
        hidden: Bool[np.ndarray, "row dim"],
        score: Float[np.ndarray, " cell"],
    ) -> "Errors":
        """The hidden cells, row by row, of series of which only `known` was known."""
        holes = Holes.of(known)
        row, channel = np.nonzero(hidden)
        length = holes.length[row, channel]
        time = known.time[row] - known.time[known.start[known.owner[row]]]
        return cls(
            channel=channel,
            bucket=holes.bucket[row, channel],
            hole=holes.number[row, channel],
            row=row,
            place=time / np.where(np.isfinite(length) & (length > 0), length, 1.0),
            score=score,
        )

    def pick(self, cells: Bool[np.ndarray, " cell"]) -> "Errors":
        """Some of the cells."""
        names = ("channel", "bucket", "hole", "row", "place", "score")
        return replace(self, **{name: getattr(self, name)[cells] for name in names})
