"""The level of each series: what tells the sensors of a panel apart."""

import numpy as np
from jaxtyping import Float

from nrtsi.core.series import SeriesSet

__all__ = ["levels"]


def levels(
    series: SeriesSet, otherwise: Float[np.ndarray, " dim"]
) -> Float[np.ndarray, "series dim"]:
    """Mean of the observed cells of each series and channel; `otherwise` where there is none.

    >>> import numpy as np
    >>> panel = np.array([[[1.0], [np.nan], [3.0]], [[np.nan], [np.nan], [np.nan]]])
    >>> levels(SeriesSet.stack(panel), np.array([7.0]))
    array([[2.],
           [7.]])
    """
    owner = series.owner
    level = np.empty((series.series, series.dims))
    for channel, seen in enumerate(series.observed.T):
        count = np.bincount(owner[seen], minlength=series.series)
        share = series.value[seen, channel] / count[owner[seen]]
        total = np.bincount(owner[seen], weights=share, minlength=series.series)
        level[:, channel] = np.where(count > 0, total, otherwise[channel])
    return level
