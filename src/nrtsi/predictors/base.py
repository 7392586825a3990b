"""`BasePredictor`, what it is fitted on, and the held-out gate that decides whether it is kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Int
from torch import Tensor, nn

from nrtsi.config import GateConfig, TrainConfig
from nrtsi.core.interpolation import interpolate, neighbours
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import SEGMENT_ROWS, Segments
from nrtsi.core.series import SeriesSet, Values
from nrtsi.network.optimiser import Fraction, Learner, optimise
from nrtsi.network.threads import Threads

__all__ = ["BasePredictor", "FitContext", "HeldOutGate", "ModulePredictor", "Sample", "State"]

State: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors by name and a record that JSON can hold."""

Numbers: TypeAlias = Int[np.ndarray, " series"]
"""The number of each series among the training series, or -1."""


PredictorT = TypeVar("PredictorT", bound="ModulePredictor")


class BasePredictor(ABC):
    """Proposes a mean and an uncertainty for every cell before the network is applied."""

    from_gradients: ClassVar[bool] = False
    """True if it is trained by gradient descent on the training part: its state is kept in
    checkpoints, and the blend is fitted on the validation part. Otherwise a resumed training fits
    it again."""

    slow: ClassVar[bool] = False
    """True if predicting takes longer than sampling windows, so that samples are used again."""

    gate_power: ClassVar[int] = 2
    """The held-out gate compares means of errors to this power."""

    network: ClassVar[str | None] = None
    """The network that suits data this predictor applies to; None: no preference."""

    @classmethod
    @abstractmethod
    def fit(cls, context: "FitContext") -> "BasePredictor | None":
        """Fits a predictor; None if it does not apply to the data or does not help early on."""

    @abstractmethod
    def predict(
        self, series: SeriesSet, exclude: Numbers | None = None, threads: Threads | None = None
    ) -> BasePrediction:
        """Predicts every cell of `series` from its observed cells.

        Args:
            series: Scaled series.
            exclude: The number of each series among the training series, or -1; a predictor that
                stores series leaves this one out. Default: series are recognised.
            threads: Threads that share the work.
        """

    @abstractmethod
    def state(self) -> State:
        """The state from which `from_state` builds an equal predictor."""

    @classmethod
    @abstractmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "BasePredictor":
        """Builds the predictor that `state` describes."""

    @abstractmethod
    def __str__(self) -> str:
        """A few words for `info`."""


@dataclass(frozen=True, eq=False)
class ModulePredictor(BasePredictor):
    """A base predictor around a module that is trained by gradient descent.

    A subclass narrows the type of `module`. The module has a property `arguments`: those of its
    constructor, as JSON can hold them.
    """

    from_gradients = True
    module_type: ClassVar[Callable[..., nn.Module]]

    module: Any

    def state(self) -> State:
        """Parameters and buffers of the module, and the arguments that define their shapes."""
        return dict(self.module.state_dict()), self.module.arguments

    @classmethod
    def from_state(
        cls: type[PredictorT], tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> PredictorT:
        """Builds the predictor that `state` describes."""
        module = cls.module_type(**record)
        module.load_state_dict(dict(tensors))
        return cls(module.eval())


@dataclass(frozen=True)
class Sample:
    """Segments of some series."""

    series: SeriesSet
    segments: Segments
    separate: bool = False
    """True if the series are not among the training series."""

    def numbers(self, segments: Segments) -> Int[np.ndarray, " segment"]:
        """The number of each segment's series among the training series, or -1."""
        owner = segments.owner(self.series)
        return np.full_like(owner, -1) if self.separate else owner


@dataclass(frozen=True)
class HeldOutGate:
    """Segments with hidden cells, and what the predictors kept so far predict for them."""

    truth: SeriesSet
    masked: SeriesSet
    exclude: Numbers
    config: GateConfig
    means: tuple[Values, ...] = ()
    """Predictions of the predictors kept so far."""

    @classmethod
    def of(cls, sample: Sample, masking: Masking, seed: int, config: GateConfig) -> "HeldOutGate":
        """Hides cells in some segments of the sample."""
        rng = np.random.default_rng([seed, 8])
        series, segments = sample.series, sample.segments
        rows = np.minimum(segments.end - segments.begin, SEGMENT_ROWS).mean()
        count = min(config.rows, config.cells / series.dims) / rows
        chosen = segments.sample(int(np.clip(count, *config.segments)), rng)
        truth = series.slices(chosen.begin, chosen.end)
        masked = truth.hide(masking.draw(truth, rng))
        return cls(truth, masked, sample.numbers(chosen), config)

    def add(self, predictor: BasePredictor) -> "HeldOutGate":
        """The same gate after `predictor` was kept."""
        return replace(self, means=(*self.means, self._mean(predictor)))

    @property
    def is_open(self) -> bool:
        """True if the predictors kept so far leave an error that another could lower."""
        return self._error(*self.means) > self.config.solved * self._error()

    def improves(self, predictor: BasePredictor, max_ratio: float) -> bool:
        """True if the best blend with `predictor` has less than `max_ratio` of the error without.

        The error is a mean of squares, or of another power: a few unpredictable cells can
        dominate the squares.
        """
        mean, power = self._mean(predictor), predictor.gate_power
        if not np.isfinite(mean).all():
            return False
        error = self._error(*self.means, mean, power=power)
        return error < max_ratio * self._error(*self.means, power=power)

    def _mean(self, predictor: BasePredictor) -> Values:
        return predictor.predict(self.masked, self.exclude).mean

    def _error(self, *means: Values, power: int = 2) -> float:
        """Error of the least-squares blend of these means and interpolation in the hidden cells.

        Cells between observations and cells beyond the first or last have separate weights.
        """
        hidden = self.truth.observed & ~self.masked.observed
        line = interpolate(self.masked)
        left, right = neighbours(self.masked)
        outside = (left < 0) | (right < 0)
        total = 0.0
        for cells in (hidden & outside, hidden & ~outside):
            target = (self.truth.value - line)[cells]
            inputs = np.stack([np.zeros_like(target), *((each - line)[cells] for each in means)])
            weight = np.linalg.lstsq(inputs.T, target, rcond=None)[0]
            total += float((np.abs(target - weight @ inputs) ** power).sum())
        return total


@dataclass(frozen=True)
class FitContext:
    """Everything a base predictor may use to fit itself."""

    source: SeriesSet
    """The training series, scaled, with all their rows."""
    training: Sample
    """The training part, without the rows in which nothing is observed."""
    validation: Sample
    """The validation part, which no predictor is fitted on."""
    masking: Masking
    periods: tuple[float, ...]
    """Cycles of the calendar, in units of time."""
    seed: int
    config: TrainConfig
    gate: HeldOutGate
    budget: Callable[[float], Fraction]
    """Takes a share of the training budget; returns the fraction used after a number of steps."""
    has_budget: Callable[[float], bool]
    """True if the training budget is at least this many seconds, or counted in enough steps."""
    report: Callable[[float], None]
    """Receives the loss of every step."""
    agree: Callable[[bool], bool]
    """The decision of the first process, where several train together."""

    def train(self, learner: Learner, budget: Fraction, *, until: float = 1.0) -> None:
        """Trains a predictor until a fraction of its budget, and for `min_base_steps` at least."""
        least = self.config.min_base_steps
        optimise(learner, budget, lambda loss, _: self.report(loss), until=until, min_steps=least)
