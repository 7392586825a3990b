"""`CalibrationScores`: what was said of cells whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.gaps import Gaps
from nrtsi.core.series import SeriesSet

__all__ = ["CalibrationScores"]


@dataclass(frozen=True)
class CalibrationScores:
    """Cells that were set aside, where they lie, and how far off a method was, in its scale."""

    channel: Int[np.ndarray, " cell"]
    bucket: Int[np.ndarray, " cell"]
    """Of the length of the gap that the cell lies in."""

    gap: Int[np.ndarray, " cell"]
    """Which gap that is."""

    row: Int[np.ndarray, " cell"]
    place: Float[np.ndarray, " cell"]
    """Time in units of the gap's length."""

    score: Float[np.ndarray, " cell"]
    """Truth less guess, in scales of the guess."""

    @classmethod
    def of(
        cls,
        known: SeriesSet,
        hidden: Bool[np.ndarray, "row dim"],
        score: Float[np.ndarray, " cell"],
    ) -> "CalibrationScores":
        """The hidden cells, row by row, of series of which only `known` was known."""
        gaps = Gaps.of(known)
        row, channel = np.nonzero(hidden)
        length = gaps.length[row, channel]
        time = known.time[row] - known.time[known.start[known.owner[row]]]
        return cls(
            channel=channel,
            bucket=gaps.bucket[row, channel],
            gap=gaps.number[row, channel],
            row=row,
            place=time / np.where(np.isfinite(length) & (length > 0), length, 1.0),
            score=score,
        )

    def pick(self, cells: Bool[np.ndarray, " cell"]) -> "CalibrationScores":
        """Some of the cells."""
        names = ("channel", "bucket", "gap", "row", "place", "score")
        return replace(self, **{name: getattr(self, name)[cells] for name in names})
