"""`TrainingRun`: the state of a training, which can stop anywhere and resume."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nrtsi.core.budget_clock import now
from nrtsi.core.events import Listener, TrainStep
from nrtsi.core.segments import Segments, split
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.network.optimiser import Fraction
from nrtsi.network.registry import Network
from nrtsi.predictors.base import FitContext, HeldOutGate, Sample
from nrtsi.predictors.registry import BasePredictors
from nrtsi.training import checkpoint
from nrtsi.training.distributed import ProcessGroup
from nrtsi.training.sampler import WindowSampler
from nrtsi.training.settings import Record, TrainingPlan, TrainingSettings
from nrtsi.training.trainer import Trainer

__all__ = ["Saved", "TrainingRun"]

Saved = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and plain values of a checkpoint."""


@dataclass
class TrainingRun:
    """The data, the budget and what has been trained so far."""

    settings: TrainingSettings
    source: SeriesSet  # the training series, scaled, with all their rows
    validation: SeriesSet | None  # None: a part of the training series is held out
    path: Path | None  # of the checkpoint
    identity: str  # digest of data and settings; a checkpoint resumes only the same run
    listener: Listener | None
    processes: ProcessGroup
    plan: TrainingPlan = field(init=False)
    predictors: BasePredictors = field(default_factory=BasePredictors)
    base_share: float = 0.0  # fraction of the budget that the base predictors used
    networks: list[Network] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    steps_before: int = 0
    seconds_before: float = 0.0

    def __post_init__(self) -> None:
        self.began = now()
        self.series = _observed_rows(self.source)
        if self.validation is not None:
            self.validation = _observed_rows(self.validation)
        self.plan = self.settings.plan()

    # Budget -------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Training time so far, over all resumed runs."""
        return self.seconds_before + now() - self.began

    def used(self, steps: int) -> float:
        """The fraction of the budget that is used after `steps`, the same for all processes."""
        return self.settings.budget.fraction(steps, self.processes.clock(self.seconds))

    def base_budget(self, share: float) -> Fraction:
        """A share of the budget, from now on, for a base predictor.

        If the budget is a number of steps, a base predictor may make as many as the network.
        """
        if self.settings.budget.steps is not None:
            return self.used
        began = self.used(0)
        return lambda steps: (self.used(0) - began) / share

    def stage_budget(self, stage: int, stages: int) -> Fraction:
        """The part of the budget that a stage of the networks has."""
        left = 1 - self.base_share
        begins, ends = (self.base_share + left * n / stages for n in (stage, stage + 1))

        def fraction(steps: int) -> float:
            used = self.used(self.steps_before + steps)
            # Rounding must not add a step.
            return 1.0 if used >= ends else max(0.0, used - begins) / (ends - begins)

        return fraction

    def has_budget(self, seconds: float) -> bool:
        """True if there is time to train a base predictor and a network that corrects it."""
        budget = self.settings.budget
        steps = self.plan.train.min_base_steps
        enough = (budget.seconds or 0) >= seconds or (budget.steps or 0) >= steps
        return enough and self.plan.model.residual

    def report(self, event: TrainStep) -> None:
        """Calls the listener of the first process."""
        if self.listener is None or not self.processes.is_first:
            return
        try:
            self.listener(event)
        except KeyboardInterrupt:
            self.processes.interrupt()

    # Data ---------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Windows per step over all processes."""
        return self.processes.size * self.plan.train.batch

    def sample(self, *, validation: bool) -> Sample:
        """The validation part or the training part."""
        if self.validation is not None:
            series = self.validation if validation else self.series
            return Sample(series, Segments.whole(series), separate=validation)
        rng = np.random.default_rng([self.settings.seed, 1])
        share, rows = self.plan.train.validation, self.settings.segment_rows
        training, held_out = split(self.series, share, rng, rows)
        return Sample(self.series, held_out if validation else training)

    def gate(self) -> HeldOutGate:
        """The held-out gate before any base predictor is kept."""
        held_out, settings = self.sample(validation=True), self.settings
        return HeldOutGate.of(held_out, settings.masking, settings.seed, self.plan.train.gate)

    def context(self, gate: HeldOutGate) -> FitContext:
        """What base predictors are fitted on."""

        def report(loss: float) -> None:
            counted = self.settings.budget.steps is not None
            fraction = 0.0 if counted else min(1.0, self.used(0))
            self.report(TrainStep(None, 0, loss, None, fraction))

        return FitContext(
            source=self.source,
            training=self.sample(validation=False),
            validation=self.sample(validation=True),
            masking=self.settings.masking,
            periods=self.settings.periods,
            seed=self.settings.seed,
            config=self.plan.train,
            gate=gate,
            budget=self.base_budget,
            has_budget=self.has_budget,
            report=report,
            agree=self.processes.decide,
        )

    def sampler(self, *, validation: bool) -> WindowSampler:
        """Windows of the validation part or the training part."""
        sample, settings = self.sample(validation=validation), self.settings
        seed, rows = (settings.seed, 2 if validation else 3), settings.segment_rows
        return WindowSampler(sample, settings.masking, self.plan, seed, rows, self.predictors)

    # Checkpoint ---------------------------------------------------------------------------------

    def save(self, trainer: Trainer, stage: int) -> None:
        """Writes a checkpoint, `stage` stages being finished."""
        if self.path is None or not self.processes.is_first:
            return
        tensors, state = trainer.state()
        own, record = self.predictors.from_gradients.state()
        tensors |= {f"predictors.{name}": tensor for name, tensor in own.items()}
        for number, network in enumerate(self.networks):
            tensors |= {f"done.{number}.{name}": t for name, t in network.state_dict().items()}
        settings = {
            "identity": self.identity,
            "batch": self.batch,
            "stage": stage,
            "steps_before": self.steps_before,
            "seconds": self.seconds,
            "base_share": self.base_share,
            "kept": list(self.predictors),
            "predictors": record,
            "history": self.history,
            "trainer": state,
        }
        checkpoint.save(self.path, "training", tensors, settings)

    def load(self) -> Saved | None:
        """Reads the checkpoint if there is one; an `InputError` if it belongs to another run."""
        found = None
        if self.path is not None and self.path.exists():
            found = checkpoint.load(self.path, "training")
            if found[1]["identity"] != self.identity:
                raise InputError(
                    f"{self.path} belongs to a run with other data or settings, or another "
                    f"nrtsi; use the same ones to resume, or remove it to start over"
                )
        self.processes.check_equal("checkpoint", json.dumps(found and found[1]))
        return found


def _observed_rows(series: SeriesSet) -> SeriesSet:
    """Only the rows with observations, so that a segment of sparse data says as much as others."""
    return series.keep(series.has_data)
