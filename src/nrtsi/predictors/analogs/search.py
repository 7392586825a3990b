"""`MethodSearch`: selects an analog method and its hyper-parameters on hidden cells."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import AnalogConfig
from nrtsi.core.fingerprint import SeriesFingerprints
from nrtsi.core.interpolation import interpolate
from nrtsi.core.masking import Masking
from nrtsi.core.series import SeriesSet
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.methods import (
    AnalogBlend,
    AnalogMethod,
    ConditionalGaussian,
    KNNAnalogs,
    LocalLinearAnalogs,
)

__all__ = ["MethodSearch"]

MethodT = TypeVar("MethodT", bound=AnalogMethod)


@dataclass(frozen=True)
class MethodSearch:
    """A library, and series with hidden cells on which methods are compared."""

    library: SeriesLibrary
    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]

    exclude: Int[np.ndarray, " series"]
    """The number of each of these series in the library, or -1."""

    config: AnalogConfig

    @classmethod
    def of(
        cls,
        library: SeriesLibrary,
        validation: SeriesSet | None,
        masking: Masking,
        rng: np.random.Generator,
        config: AnalogConfig,
    ) -> "MethodSearch | None":
        """Hides cells in validation series, or in stored ones if there are too few of these."""
        least, most = config.trial_series
        count = int(np.clip(most * config.trial_cells // library.value.size, least, most))
        if validation is not None:
            validation = validation.select(np.flatnonzero(validation.length))
        if validation is not None and validation.series >= least:
            truth = validation.select(rng.permutation(validation.series)[:count])
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
        plain = ConditionalGaussian.of(self.library, self.config.gaussian_ridges[0])
        ridges = self.config.gaussian_ridges
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
