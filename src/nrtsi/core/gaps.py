"""Gaps of each channel, measured from the observation before to the observation after."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.interpolation import neighbours
from nrtsi.core.series import Flags, SeriesSet, Values

__all__ = ["GAP_BINS", "Gaps", "gap_bin", "gap_bin_range"]

GAP_BINS = 24  # bins of gap lengths, by powers of two; the last has no upper limit


@dataclass(frozen=True)
class Gaps:
    """The gap that contains each missing cell; each channel has its own gaps."""

    length: Values
    """Time from the observation before to the one after; at an end of a series, from the
    observation to the end. Infinite without observations; 0 for an observed cell."""

    open: Flags  # True if the gap is at an end of its series
    number: Int[np.ndarray, "row dim"]  # number of the gap; -1 for an observed cell

    @classmethod
    def of(cls, series: SeriesSet) -> "Gaps":
        """Finds the gaps of every channel.

        >>> gaps = Gaps.of(SeriesSet.stack(np.array([[[0.0], [np.nan], [2.0], [np.nan]]])))
        >>> gaps.length.ravel(), gaps.open.ravel()
        (array([0., 2., 0., 1.]), array([False, False, False,  True]))
        """
        left, right = neighbours(series)
        first, last = series.start[:-1][series.owner], series.start[1:][series.owner] - 1
        begin = np.where(left >= 0, left, first[:, None])
        end = np.where(right >= 0, right, last[:, None])
        length = series.time[end] - series.time[begin]
        length = np.where((left < 0) & (right < 0), np.inf, length)
        missing = ~series.observed
        channel = np.arange(series.dims) * (series.rows + 1)
        # A gap at the start of a series has the number that follows the row before the series.
        number = channel + np.where(left >= 0, left + 1, first[:, None])
        return cls(
            length=np.where(missing, length, 0.0),
            open=missing & ((left < 0) | (right < 0)),
            number=np.where(missing, number, -1),
        )

    @property
    def gap_bin(self) -> Int[np.ndarray, "row dim"]:
        """The bin of the gap of each missing cell; -1 for an observed cell.

        A gap at an end counts twice: its last cell is as far from data as the middle of a gap of
        twice the length.
        """
        return np.where(self.number >= 0, gap_bin(self.length * (1 + self.open)), -1)


def gap_bin(length: Float[np.ndarray, "*any"]) -> Int[np.ndarray, "*any"]:
    """The bin of a length: bin 0 holds lengths up to 2 units, bin `k` those in `(2**k, 2**(k+1)]`.

    >>> gap_bin(np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.inf]))
    array([ 0,  0,  1,  1,  2, 23])
    """
    power = np.ceil(np.log2(np.maximum(length, 2.0)) - 1e-9) - 1
    return np.minimum(power, GAP_BINS - 1).astype(np.int64)


def gap_bin_range(index: int) -> tuple[float, float]:
    """The range of lengths of a bin in units, without its lower end.

    >>> gap_bin_range(0), gap_bin_range(2), gap_bin_range(GAP_BINS - 1)
    ((0.0, 2.0), (4.0, 8.0), (8388608.0, inf))
    """
    low = 0.0 if index == 0 else 2.0**index
    return low, np.inf if index == GAP_BINS - 1 else 2.0 ** (index + 1)
