"""The mean of each channel: a baseline, and where the others turn when they know nothing."""

import numpy as np
from jaxtyping import Float

from nrtsi.baselines.base import Imputer
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet

__all__ = ["Mean"]


class Mean(Imputer):
    """Fills every cell with the mean of its channel in the data it was fitted on."""

    def fit_series(self, series: SeriesSet) -> None:
        """Learns the mean of the observed cells of each channel."""
        self.mean_ = Scaler.fit(series).offset

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """The mean of each channel, in every row."""
        return np.broadcast_to(self.mean_, series.value.shape).copy()
