"""`Spline`: monotone cubic interpolation."""

import numpy as np
from jaxtyping import Float

from nrtsi.baselines.simple import Linear
from nrtsi.core.series import SeriesSet

__all__ = ["Spline"]


class Spline(Linear):
    """Interpolates the observed cells of a channel by monotone cubic pieces (PCHIP).

    Good for smooth signals that are sampled more often than they oscillate. Between two observed
    cells the curve stays between their values, unlike ordinary cubic splines, which overshoot in
    long gaps. Beyond the first and last observed cell it repeats their value. A channel without
    observations in a series gets the channel's mean.
    """

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The curve at each cell."""
        from scipy.interpolate import pchip_interpolate

        result = super().impute_series(series)
        for begin, end in zip(series.start[:-1], series.start[1:], strict=True):
            for channel, observed in enumerate(series.observed[begin:end].T):
                rows = begin + np.flatnonzero(observed)
                if rows.size > 1 and rows[-1] - rows[0] >= rows.size:  # a gap is inside
                    inside = slice(rows[0], rows[-1] + 1)
                    known = series.time[rows], series.value[rows, channel]
                    result[inside, channel] = pchip_interpolate(*known, series.time[inside])
        return result
