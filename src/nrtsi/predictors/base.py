"""The protocol of base predictors, what they are fitted on, and those that a model has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Int
from torch import Tensor

from nrtsi.config import TrainConfig
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import Segments
from nrtsi.core.series import SeriesSet
from nrtsi.network.optimiser import Fraction, Learner, optimise
from nrtsi.network.threads import Threads
from nrtsi.predictors.gate import HeldOutGate

__all__ = ["BasePredictor", "FitContext", "Sample", "State"]

State: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors by name and a record that JSON can hold."""


@dataclass(frozen=True)
class Sample:
    """Segments of some series."""

    series: SeriesSet
    segments: Segments


@dataclass(frozen=True)
class FitContext:
    """Everything a base predictor may use to fit itself."""

    source: SeriesSet
    """The training series, scaled, with all their rows."""

    training: Sample
    """The training part, without the rows in which nothing is observed."""

    validation: Sample
    """The validation part, which no predictor is fitted on."""

    separate: bool
    """True if the validation series are not among the training series."""

    masking: Masking
    """How cells are hidden."""

    periods: tuple[float, ...]
    """Cycles of the calendar, in units of time."""

    seed: int
    config: TrainConfig

    gate: HeldOutGate
    """Measures whether a prediction lowers the held-out error of the blend."""

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
        optimise(
            learner,
            budget,
            lambda loss, _: self.report(loss),
            until=until,
            min_steps=self.config.min_base_steps,
        )


@runtime_checkable
class BasePredictor(Protocol):
    """Proposes a mean and an uncertainty for every cell before the network is applied."""

    title: ClassVar[str]
    """What messages call it."""

    from_gradients: ClassVar[bool]
    """True if it is trained by gradient descent on the training part: its state is kept in
    checkpoints, and the blend is fitted on the validation part. Otherwise a resumed training fits
    it again."""

    slow: ClassVar[bool]
    """True if predicting takes longer than sampling windows, so that samples are used again."""

    gate_power: ClassVar[int]
    """The held-out test compares means of errors to this power."""

    network: ClassVar[str | None]
    """The network that suits data this predictor applies to; None: no preference."""

    @classmethod
    def fit(cls, context: FitContext) -> "BasePredictor | None":
        """Fits a predictor; None if it does not apply to the data or does not help early on."""
        ...

    def predict(
        self,
        series: SeriesSet,
        exclude: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> BasePrediction:
        """Predicts every cell of `series` from its observed cells.

        Args:
            series: Scaled series.
            exclude: The number of each series among the training series, or -1; a predictor that
                stores series leaves this one out. Default: series are recognised.
            threads: Threads that share the work.
        """
        ...

    def locate(self, source: SeriesSet) -> Int[np.ndarray, " series"] | None:
        """The number of each training series among the stored ones; None if none is stored."""
        ...

    def state(self) -> State:
        """The state from which `from_state` builds an equal predictor."""
        ...

    @classmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "BasePredictor":
        """Builds the predictor that `state` describes."""
        ...

    def __str__(self) -> str:
        """A few words for `info`."""
        ...
