"""`AnalogModel`: the base predictor that uses similar training series."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.core.fingerprint import SeriesFingerprints
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import from_state, to_state
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.methods import AnalogMethod
from nrtsi.predictors.analogs.search import MethodSearch
from nrtsi.predictors.base import FitContext, State

__all__ = ["AnalogModel"]

log = logging.getLogger(__name__)

# Cells of the library up to which a saved conditional Gaussian can leave out a series; among more
# cells one series makes no difference.
MAX_CENTRED = 2**21


@dataclass(frozen=True)
class AnalogModel:
    """A method with its library of series on a common time grid."""

    title: ClassVar[str] = "analogs"
    from_gradients: ClassVar[bool] = False
    slow: ClassVar[bool] = True
    network: ClassVar[str | None] = None
    gate_power: ClassVar[int] = 2

    point: Float[np.ndarray, " point"]
    """The times of the grid."""

    method: AnalogMethod

    fingerprints: SeriesFingerprints
    """Recognise the stored series."""

    positions: Int[np.ndarray, " stored"] | None = None
    """The number of each stored series among the training series; only known during training."""

    @classmethod
    def fit(cls, context: FitContext) -> "AnalogModel | None":
        """Selects the method with the least error on hidden cells.

        The methods are compared on validation series if these are separate: a training series may
        have near copies in the library, such as the same day at another station, which a new
        series has not.

        Returns:
            The model; None if the series do not share a time span, if there are too few of them,
            or if interpolation is about as good.
        """
        config = context.config.analogs
        rng = np.random.default_rng([context.seed, 5])
        library = SeriesLibrary.of(context.source, rng, config)
        if library is None or context.source.dims > config.max_channels:
            return None
        validation = context.validation.series if context.separate else None
        search = MethodSearch.of(library, validation, context.masking, rng, config)
        if search is None:
            return None
        method, error = search.select()
        log.info("analogs: error %.3g, interpolation's %.3g", error, search.line_error)
        if error >= config.max_ratio * search.line_error:
            return None
        fingerprints = SeriesFingerprints.of(library.series)
        return cls(library.point, method, fingerprints, library.kept)

    def predict(
        self,
        series: SeriesSet,
        exclude: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> BasePrediction:
        """Predicts every cell of `series` from its observed cells.

        A stored series is left out when its own cells are predicted, since its gaps are filled in
        the library. Cells at times outside the grid are interpolated and not available.

        Args:
            series: Scaled series.
            exclude: The number of each series among the stored ones, or -1. Default: stored series
                are recognised.
            threads: Threads that share the work.
        """
        exclude = self.fingerprints.find(series) if exclude is None else exclude
        mean, std = self.method.predict_series(self.point, series, exclude, threads)
        return BasePrediction(mean, std, std > 0)

    def locate(self, source: SeriesSet) -> Int[np.ndarray, " series"]:
        """The number of each training series among the stored ones, or -1."""
        if self.positions is None:
            return self.fingerprints.find(source)
        number = np.full(source.series, -1)
        number[self.positions] = np.arange(self.positions.size)
        return number

    def state(self) -> State:
        """The state from which `from_state` builds the model, without what only training needs."""
        arrays, record = to_state(replace(self, positions=None))
        tensors = {
            name: torch.from_numpy(array)
            for name, array in arrays.items()
            if not name.endswith("centred") or array.size <= MAX_CENTRED
        }
        return tensors, record

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> "AnalogModel":
        """Builds the model that `state` describes."""
        return from_state(cls, tensors, record)

    def __str__(self) -> str:
        """A few words for `info`."""
        return f"{self.method}, at {self.point.size} points in time"
