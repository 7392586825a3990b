"""`AnalogModel`: predicts a series from similar training series; selects the method for it."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.config import AnalogConfig
from nrtsi.core.fingerprint import SeriesFingerprints
from nrtsi.core.interpolation import interpolate
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import from_state, to_state
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.methods import (
    AnalogBlend,
    AnalogMethod,
    ConditionalGaussian,
    KNNAnalogs,
    LocalLinearAnalogs,
)
from nrtsi.predictors.base import BasePredictor, FitContext, Numbers, Sample, State

__all__ = ["AnalogModel"]

log = logging.getLogger(__name__)

MethodT = TypeVar("MethodT", bound=AnalogMethod)

# Cells of the library up to which a saved conditional Gaussian can leave out a series; among more
# cells one series makes no difference.
MAX_CENTRED = 2**21


@dataclass(frozen=True)
class AnalogModel(BasePredictor):
    """A method with its library of series on a common time grid."""

    slow = True

    point: Float[np.ndarray, " point"]  # the times of the grid
    method: AnalogMethod
    fingerprints: SeriesFingerprints  # recognise the stored series
    positions: Int[np.ndarray, " stored"] | None = None
    """The number of each stored series among the training series; only known during training."""

    @classmethod
    def fit(cls, context: FitContext) -> "AnalogModel | None":
        """Selects the method with the least error on hidden cells.

        The methods are compared on validation series if these are separate: a training series may
        have near copies in the library, such as the same day at another station.

        None if few series share a time span, or if interpolation is about as good.
        """
        config = context.config.analogs
        rng = np.random.default_rng([context.seed, 5])
        library = SeriesLibrary.of(context.source, rng, config)
        if library is None or context.source.dims > config.max_channels:
            return None
        search = MethodSearch.of(library, context.validation, context.masking, rng, config)
        if search is None:
            return None
        method, error = search.select()
        log.info("analogs: error %.3g, interpolation's %.3g", error, search.line_error)
        if error >= config.max_ratio * search.line_error:
            return None
        fingerprints = SeriesFingerprints.of(library.series)
        return cls(library.point, method, fingerprints, library.kept)

    def predict(
        self, series: SeriesSet, exclude: Numbers | None = None, threads: Threads | None = None
    ) -> BasePrediction:
        """Predicts every cell of `series` from its observed cells.

        A stored series is left out when its own cells are predicted, since its gaps are filled in
        the library. Cells at times outside the grid are interpolated and not available.
        """
        stored = self.fingerprints.find(series) if exclude is None else self._stored(exclude)
        mean, std = self.method.predict_series(self.point, series, stored, threads)
        return BasePrediction(mean, std, std > 0)

    def _stored(self, number: Numbers) -> Int[np.ndarray, " series"]:
        """The number among the stored series, from that among the training series; or -1."""
        if self.positions is None:
            return number
        place = np.searchsorted(self.positions, number).clip(max=self.positions.size - 1)
        return np.where(self.positions[place] == number, place, -1)

    def state(self) -> State:
        """The state of the model, without what only training needs."""
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
        return f"{self.method}, at {self.point.size} points in time"


@dataclass(frozen=True)
class MethodSearch:
    """A library, and series with hidden cells on which methods are compared."""

    library: SeriesLibrary
    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    exclude: Int[np.ndarray, " series"]  # number of each of these series in the library, or -1
    config: AnalogConfig

    @classmethod
    def of(
        cls,
        library: SeriesLibrary,
        validation: Sample,
        masking: Masking,
        rng: np.random.Generator,
        config: AnalogConfig,
    ) -> "MethodSearch | None":
        """Hides cells in separate validation series, or in stored ones if these are too few."""
        least, most = config.trial_series
        count = int(np.clip(most * config.trial_cells // library.value.size, least, most))
        full = np.flatnonzero(validation.series.length)
        if validation.separate and full.size >= least:
            truth = validation.series.select(full[rng.permutation(full.size)[:count]])
            exclude = SeriesFingerprints.of(library.series).find(truth)
        else:
            exclude = rng.permutation(library.series.series)[:count]
            truth = library.series.select(exclude)
        hidden = masking.draw(truth, rng)
        return cls(library, truth, hidden, exclude, config) if hidden.any() else None

    @property
    def line_error(self) -> float:
        """Mean squared error of linear interpolation."""
        return self._error(interpolate(self.truth.hide(self.hidden)))

    def select(self) -> tuple[AnalogMethod, float]:
        """The best method and its error, with the gaps of the library completed if this helps."""
        method, error = self._best()
        if not self.library.needs_completion(self.config):
            return method, error
        other, changed = replace(self, library=self._completed(method))._best()
        return (other, changed) if changed < error else (method, error)

    def _completed(self, method: AnalogMethod) -> SeriesLibrary:
        """Predicts the gaps of the stored series from each other, in several rounds."""
        library = self.library
        every = np.arange(library.kept.size)
        for _ in range(self.config.completion_rounds):
            mean, _ = method.predict_series(library.point, library.series, every)
            library = library.complete(mean)
            method = method.refit(library)
        return library

    def _best(self) -> tuple[AnalogMethod, float]:
        """The best single method, or its blend with nearest neighbours if clearly better."""
        first, error = self._best_single()
        plain = KNNAnalogs.of(self.library, self.config.knn_k[0])
        second, other = self._least(replace(plain, k=k) for k in self.config.knn_k)
        if other > self.config.give_up_ratio * error:
            return first, error
        prediction, alternative = (self._predict(each)[self.hidden] for each in (first, second))
        target = self.truth.value[self.hidden] - prediction
        change = alternative - prediction
        weight = float(np.clip(change @ target / max(float(change @ change), 1e-30), 0.0, 1.0))
        blended = float(np.square(target - weight * change).mean())
        if blended < self.config.max_blend_ratio * error:
            return AnalogBlend(first, second, weight), blended
        return first, error

    def _best_single(self) -> tuple[LocalLinearAnalogs | ConditionalGaussian, float]:
        """A conditional Gaussian, unless local linear analogs are clearly better."""
        if self.library.value[..., 0].size > self.config.max_covariance_cells:
            return self._best_local(np.inf)
        ridges = self.config.gaussian_ridges
        plain = ConditionalGaussian.of(self.library, ridges[0])
        gaussian = self._least(replace(plain, ridge=ridge) for ridge in ridges)
        local = self._best_local(gaussian[1])
        return local if local[1] < self.config.max_ratio * gaussian[1] else gaussian

    def _best_local(self, other: float) -> tuple[LocalLinearAnalogs, float]:
        """Local linear analogs; stops early if far from the error of the `other` method."""
        config = self.config
        ridge = config.local_ridges[len(config.local_ridges) // 2]
        plain = LocalLinearAnalogs.of(self.library, config.local_k[0], ridge)
        best, error = self._least(replace(plain, k=k) for k in config.local_k)
        if error > config.give_up_ratio * other:
            return best, error
        for symmetry in config.symmetries:
            if symmetry == "pooled" and self.truth.dims == 1:
                continue
            more = best.with_symmetries((*best.stored.symmetries, symmetry))
            if more.stored.work > config.max_image_cells:
                continue
            changed = self._error(self._predict(more))
            if changed < config.max_ratio * error:
                best, error = more, changed
        half = replace(best, k=best.k // 2)
        return self._least(
            replace(each, ridge=ridge) for each in (best, half) for ridge in config.local_ridges
        )

    def _least(self, methods: Iterable[MethodT]) -> tuple[MethodT, float]:
        """The method with the least error, and this error."""
        scored = ((method, self._error(self._predict(method))) for method in methods)
        return min(scored, key=lambda pair: pair[1])

    def _predict(self, method: AnalogMethod) -> Float[np.ndarray, "row dim"]:
        masked = self.truth.hide(self.hidden)
        return method.predict_series(self.library.point, masked, self.exclude)[0]

    def _error(self, mean: Float[np.ndarray, "row dim"]) -> float:
        """Mean squared error of the hidden cells."""
        return float(np.square(mean - self.truth.value)[self.hidden].mean())
