"""A training run under way: its data, its clock, what has been learnt so far."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from nrtsi.core.budget_clock import now
from nrtsi.core.events import Listener, TrainStep
from nrtsi.core.series import SeriesSet
from nrtsi.network.registry import Network
from nrtsi.predictors.analogs import AnalogFit, AnalogModel
from nrtsi.predictors.base import BasePredictors
from nrtsi.training.distributed import ProcessGroup
from nrtsi.training.plan import Record, TrainingPlan
from nrtsi.training.sampler import Segments, WindowSampler, split
from nrtsi.training.trainer import Trainer

__all__ = ["TrainingRun"]


@dataclass
class TrainingRun:
    """A training run that can be stopped anywhere and gone on with."""

    plan: TrainingPlan
    series: SeriesSet
    validation: SeriesSet | None
    kept: AnalogFit | None
    path: Path | None
    identity: str
    listener: Listener | None
    ranks: ProcessGroup
    predictors: BasePredictors = field(default_factory=BasePredictors)
    opened: float = 0.0
    """Share of the budget that was used up before the networks' turn came."""

    networks: list[Network] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    steps_before: int = 0
    seconds_before: float = 0.0

    def __post_init__(self) -> None:
        self.begun = now()

    @property
    def seconds(self) -> float:
        """Time of training so far, of all sittings together."""
        return self.seconds_before + now() - self.begun

    @property
    def windows(self) -> int:
        """Windows in a step, of all processes together."""
        return self.ranks.size * self.plan.train.batch

    def used(self, trainer: Trainer) -> float:
        """Share of the budget used up, the same for all processes."""
        return self.share(self.steps_before + trainer.step)

    def share(self, steps: int) -> float:
        """The same after so many steps.

        Raises:
            KeyboardInterrupt: One of several processes was interrupted.
        """
        return self.plan.budget.fraction(steps, self.ranks.clock(self.seconds))

    def agree(self, said: bool) -> bool:
        """What the first of the processes says."""
        return bool(self.ranks.all(float(said))[0, 0])

    def tell(self, event: TrainStep) -> None:
        """Tells the listener of the process that leads."""
        if self.listener is None or not self.ranks.leads:
            return
        try:
            self.listener(event)
        except KeyboardInterrupt:
            self.ranks.interrupt()

    @property
    def memory(self) -> AnalogModel | None:
        """What is remembered of the series to learn from, where anything is."""
        return None if self.kept is None else self.kept.memory

    def own(self, series: SeriesSet) -> Int[np.ndarray, " series"] | None:
        """The number of each of the series among those remembered, where there are some."""
        if self.kept is None:
            return None
        return self.kept.own if series is self.series else np.full(series.series, -1)

    def material(self, *, validation: bool) -> tuple[SeriesSet, Segments]:
        """The data to validate on, or those to learn from, and the stretches of them to use."""
        if self.validation is not None:
            series = self.validation if validation else self.series
            return series, Segments.whole(series)
        rng = np.random.default_rng([self.plan.seed, 1])
        learn, hold = split(self.series, self.plan.train.validation, rng, self.plan.stretch)
        return self.series, hold if validation else learn

    def questions(self, *, validation: bool) -> WindowSampler:
        """What is asked while learning, or to see how well that went."""
        plan = self.plan
        series, spans = self.material(validation=validation)
        return WindowSampler(
            series,
            spans,
            plan.hiding,
            plan.schedule,
            plan.model,
            plan.layout,
            (plan.seed, 2 if validation else 3),
            plan.stretch,
            predictors=self.predictors,
            own=self.own(series),
        )
