"""`MethodSelection`: the method that imputes each channel and gap length."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nrtsi.config import EvaluationConfig
from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.evaluation.holdout import CellIndex, CellMask

__all__ = ["MethodSelection"]

DEFAULT = EvaluationConfig()


@dataclass(frozen=True)
class MethodSelection:
    """The method that imputes each channel and gap bin."""

    methods: tuple[str, ...]
    table: Int[np.ndarray, "dim gap_bin"]  # index into `methods`

    @classmethod
    def always(cls, method: str, dims: int) -> "MethodSelection":
        """One method for all cells."""
        return cls((method,), np.zeros((dims, GAP_BINS), dtype=np.int64))

    @property
    def used(self) -> tuple[str, ...]:
        """The methods that are selected at least once."""
        return tuple(self.methods[index] for index in np.unique(self.table))

    def index(self, gaps: Gaps) -> Int[np.ndarray, "row dim"]:
        """The index in `methods` of each missing cell; -1 where it is observed."""
        channel = np.arange(self.table.shape[0])
        return np.where(gaps.gap_bin >= 0, self.table[channel, gaps.gap_bin], -1)

    @classmethod
    def fit(
        cls,
        methods: tuple[str, ...],
        squared: Float[np.ndarray, "method cell"],
        channel: CellIndex,
        gap_bin: CellIndex,
        gap: CellIndex,
        dims: int,
        config: EvaluationConfig = DEFAULT,
    ) -> "MethodSelection":
        """Selects by squared error at held-out cells.

        The best method overall is replaced in a channel, and that of the channel in a gap bin,
        only by a significantly better one, to avoid selecting noise. The total squared error is
        never above that of the best single method.
        """
        overall = int(squared.sum(axis=1).argmin())
        table = np.full((dims, GAP_BINS), overall)

        def better(cells: CellMask, default: int) -> int:
            """The method with the lowest error, or `default` if the gain is not significant."""
            best = int(squared[:, cells].sum(axis=1).argmin())
            # Errors within a gap are correlated, so gaps are the independent units.
            index = np.unique(gap[cells], return_inverse=True)[1]
            gain = np.bincount(index, weights=(squared[default] - squared[best])[cells])
            significant = gain.sum() > config.selection_errors * np.sqrt((gain**2).sum())
            return best if significant else default

        for dim in np.unique(channel):
            own = channel == dim
            table[dim] = better(own, overall)
            for each in np.unique(gap_bin[own]):
                table[dim, each] = better(own & (gap_bin == each), int(table[dim, each]))
        return cls(methods, table)
