"""`TransitionModel`: predicts missing rows by rollouts from the complete rows on both sides."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import TransitionConfig
from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import GRID_TOLERANCE, SeriesSet
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import FitContext, State
from nrtsi.predictors.dynamics.trainer import TransitionTrainer
from nrtsi.predictors.dynamics.transition import Transition, complete_rows

__all__ = ["TransitionModel"]

log = logging.getLogger(__name__)

# Rollouts that are computed together; bounds the memory.
BATCH = 2**14


@dataclass(frozen=True)
class Rollouts:
    """Rows to predict, each by a number of steps from a complete row."""

    target: Int[np.ndarray, " target"]
    source: Int[np.ndarray, " target"]
    steps: Int[np.ndarray, " target"]

    @classmethod
    def of(cls, series: SeriesSet, transition: Transition, back: bool) -> "Rollouts":
        """The rollouts from one side to every incomplete row that one reaches."""
        target = np.flatnonzero(~complete_rows(series))
        sources = Known.of(transition.in_range(series)[:, None], series.start)
        source = sources.around(target)[int(back)][:, 0]
        target, source = target[source >= 0], source[source >= 0]
        distance = np.abs(series.time[target] - series.time[source])
        steps = np.rint(distance).astype(np.int64)
        max_steps = int(transition.error[int(back), :, 0].isfinite().sum())
        on_grid = np.abs(distance - steps) < GRID_TOLERANCE
        reached = on_grid & (steps >= 1) & (steps <= max_steps)
        return cls(target[reached], source[reached], steps[reached])


@dataclass(frozen=True, eq=False)
class TransitionModel:
    """Rolls a learnt transition forward and backward and weights both by inverse squared error."""

    title: ClassVar[str] = "dynamics model"
    from_gradients: ClassVar[bool] = True
    slow: ClassVar[bool] = False
    network: ClassVar[str | None] = "pointwise"
    gate_power: ClassVar[int] = 2

    transition: Transition

    @classmethod
    def fit(cls, context: FitContext) -> "TransitionModel | None":
        """Trains on successive rows; None if that does not beat persistence early on."""
        config = context.config.dynamics
        if not context.has_budget(config.min_seconds):
            return None
        trainer = TransitionTrainer.of(
            context.training, context.validation, context.config, context.seed
        )
        if trainer is None or not context.agree(context.gate.is_open):
            return None
        budget = context.budget(config.share)
        context.train(trainer, budget, until=config.early_share)
        if not context.agree(trainer.beats_persistence()):
            log.info("%s: does not beat persistence after %d steps", cls.title, trainer.step)
            return None
        context.train(trainer, budget)
        trainer.measure_errors()
        log.info("%s: trained for %d steps", cls.title, trainer.step)
        return cls(trainer.transition.eval())

    def predict(
        self,
        series: SeriesSet,
        exclude: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> BasePrediction:
        """Predicts incomplete rows on a grid of one unit; interpolates those out of reach."""
        forward, forward_error = self._rollout(series, back=False)
        backward, backward_error = self._rollout(series, back=True)
        # A side that does not reach a row has an infinite error there, and no weight.
        forward_weight, backward_weight = 1 / forward_error, 1 / backward_error
        weight = forward_weight + backward_weight
        reached = np.logical_and.reduce(weight > 0, axis=1)
        twice = np.logical_and.reduce((forward_weight > 0) & (backward_weight > 0), axis=1)
        total = np.where(weight > 0, weight, 1.0)
        blend = (forward_weight * forward + backward_weight * backward) / total
        complete = complete_rows(series)
        predicted = (reached & ~complete)[:, None]
        return BasePrediction(
            mean=np.where(predicted, blend, interpolate(series)),
            std=np.where(predicted & ~series.observed, np.sqrt(1 / total), 0.0),
            available=(reached | complete)[:, None],
            disagreement=np.where(twice[:, None], forward - backward, 0.0),
        )

    def _rollout(
        self, series: SeriesSet, back: bool
    ) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]:
        """Predictions of the incomplete rows from one side, and their expected squared errors."""
        value, error = np.zeros(series.value.shape), np.full(series.value.shape, np.inf)
        error_by_step = self.transition.error[int(back)].double().cpu().numpy()
        rollouts = Rollouts.of(series, self.transition, back)
        target, steps = rollouts.target, rollouts.steps
        # One rollout predicts all rows that have the same source.
        starts, rollout = np.unique(rollouts.source, return_inverse=True)
        for first in range(0, starts.size, BATCH):
            own = slice(*np.searchsorted(rollout, [first, first + BATCH]))
            rows = series.value[starts[first : first + BATCH]]
            value[target[own]] = self._rows_after(rows, rollout[own] - first, steps[own], back)
            error[target[own]] = error_by_step[steps[own] - 1]
        return value, error

    @torch.inference_mode()
    def _rows_after(
        self,
        start: Float[np.ndarray, "rollout dim"],
        rollout: Int[np.ndarray, " target"],
        steps: Int[np.ndarray, " target"],
        back: bool,
    ) -> Float[np.ndarray, "target dim"]:
        """The row of each `rollout` after some steps."""
        result = np.zeros((rollout.size, start.shape[1]))
        length = np.zeros(start.shape[0], dtype=np.int64)
        np.maximum.at(length, rollout, steps)
        # The longest rollouts come first, so that finished ones are cut off at the end.
        order = np.argsort(-length, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        by_step = np.argsort(steps, kind="stable")
        longest = int(length.max(initial=0))
        bounds = np.searchsorted(steps[by_step], np.arange(1, longest + 2))
        device = self.transition.step_size.device
        row = torch.from_numpy(start[order].astype(np.float32)).to(device)
        for step in range(1, longest + 1):
            row = row[: int((length >= step).sum())]
            row = self.transition.clip(self.transition(row, back))
            finished = by_step[bounds[step - 1] : bounds[step]]
            result[finished] = row.cpu().numpy()[place[rollout[finished]]]
        return result

    def locate(self, source: SeriesSet) -> None:
        """None: no series is stored."""
        return

    def __str__(self) -> str:
        """The longest rollout."""
        steps = int(self.transition.error.isfinite().any(dim=(0, 2)).sum())
        return f"rollouts of up to {steps} steps"

    def state(self) -> State:
        """Weights, scales and errors, and what defines their shapes and use."""
        transition = self.transition
        record = {"dims": transition.dims, "config": transition.config.model_dump(mode="json")}
        return dict(transition.state_dict()), record

    @classmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "TransitionModel":
        """Builds the model that `state` describes."""
        config = TransitionConfig.model_validate(record["config"])
        transition = Transition(record["dims"], config)
        transition.load_state_dict(dict(tensors))
        return cls(transition.eval())
