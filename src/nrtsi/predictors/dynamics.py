"""Dynamics model: learns the transition from a row to the next and rolls it out into gaps."""

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nrtsi.config import INPUT_CLIP, TrainConfig, TransitionConfig
from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import GRID_TOLERANCE, SeriesSet
from nrtsi.network.layers import Perceptron, seeded
from nrtsi.network.optimiser import Optimiser, decay_of
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import FitContext, ModulePredictor, Numbers, Sample

__all__ = ["Runs", "Transition", "TransitionModel", "TransitionTrainer", "has_next"]

log = logging.getLogger(__name__)

Indices = Int[np.ndarray, " _"]
RowArray = Float[np.ndarray, "_ dim"]
Trajectories = Float[Tensor, "start row dim"]
"""Rows from which rollouts start, each with the rows that follow it."""

# Standard deviation below which a channel counts as constant, and the smallest step size.
CONSTANT, MIN_STEP = 1e-6, 1e-9
# Squared error, of scaled series, below which differences do not matter.
SMALL = 1e-6
# Pairs of rows from which scales are estimated, at most, about.
SCALE_PAIRS = 2**18
# Rollouts per step, at least.
MIN_ROLLOUTS = 64
# Rollouts that are computed together; bounds the memory.
BATCH = 2**14


class Transition(nn.Module):
    """One network that predicts the change to the next row, and one to the previous row.

    `config` is a `TransitionConfig` or its fields.
    """

    mean: Tensor  # mean of each channel
    std: Tensor  # standard deviation of each channel; 1 if it is constant
    step_size: Tensor  # root mean square change of each channel in a step
    low: Tensor  # smallest value of each channel in a rollout
    high: Tensor  # largest value of each channel in a rollout
    error: Tensor
    """Mean squared error by direction, number of steps and channel; infinite if unknown."""

    def __init__(self, dims: int, config: Any = None) -> None:
        super().__init__()
        self.dims, self.config = dims, TransitionConfig.model_validate(config or {})
        width, blocks = self.config.width, self.config.blocks
        self.networks = nn.ModuleList(Perceptron(dims, width, blocks, dims) for _ in range(2))
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("std", torch.ones(dims))
        self.register_buffer("step_size", torch.ones(dims))
        self.register_buffer("low", torch.full((dims,), -torch.inf))
        self.register_buffer("high", torch.full((dims,), torch.inf))
        self.register_buffer("error", torch.full((2, self.config.max_steps, dims), torch.inf))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"dims": self.dims, "config": self.config.model_dump(mode="json")}

    def standardise(self, row: Float[Tensor, "row dim"], change: Float[Tensor, "row dim"]) -> None:
        """Sets scales and limits from some rows and their changes in a step."""
        low, high = row.amin(dim=0), row.amax(dim=0)
        margin = self.config.margin * (high - low)
        self.low.copy_(low - margin)
        self.high.copy_(high + margin)
        self.mean.copy_(row.mean(dim=0))
        std = row.std(dim=0)
        self.std.copy_(torch.where(std > CONSTANT, std, 1.0))
        self.step_size.copy_(change.square().mean(dim=0).sqrt().clamp(min=MIN_STEP))

    def forward(self, row: Float[Tensor, "batch dim"], back: bool) -> Float[Tensor, "batch dim"]:
        """The next row, or the previous one if `back`."""
        inputs = ((row - self.mean) / self.std).clamp(-INPUT_CLIP, INPUT_CLIP)
        return row + self.step_size * self.networks[int(back)](inputs)

    def clip(self, row: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """The row with every value inside the limits of its channel."""
        return row.clamp(self.low, self.high)

    def in_range(self, series: SeriesSet) -> Bool[np.ndarray, " row"]:
        """True for complete rows with every value inside the limits of its channel."""
        low, high = (each.double().cpu().numpy() for each in (self.low, self.high))
        inside = (series.value >= low) & (series.value <= high) & series.observed
        return np.logical_and.reduce(inside, axis=1)


def complete_rows(series: SeriesSet) -> Bool[np.ndarray, " row"]:
    """True for rows in which every channel is observed."""
    return np.logical_and.reduce(series.observed, axis=1)


def has_next(series: SeriesSet) -> Bool[np.ndarray, " row"]:
    """True for complete rows with a complete row of the same series one unit later."""
    complete = complete_rows(series)
    found = np.zeros(series.rows, dtype=bool)
    row = np.flatnonzero(complete[:-1] & complete[1:])
    one_unit = np.abs(series.time[row + 1] - series.time[row] - 1) < GRID_TOLERANCE
    found[row] = one_unit & (series.owner[row] == series.owner[row + 1])
    return found


@dataclass(frozen=True)
class Runs:
    """Rows, and the number of successive complete rows after and before each."""

    row: Float[Tensor, "row dim"]
    after: Int[np.ndarray, " row"]
    before: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, sample: Sample, row: Float[Tensor, "row dim"] | None = None) -> "Runs":
        """The runs inside the segments; `row`: the rows of the series, if already a tensor."""
        series, segments = sample.series, sample.segments
        inside = np.zeros(series.rows + 1, dtype=np.int64)
        np.add.at(inside, segments.begin, 1)
        np.add.at(inside, segments.end - 1, -1)  # the last row of a segment has no next one
        follows = has_next(series) & (np.cumsum(inside[:-1]) > 0)
        place = np.arange(series.rows)
        end = np.minimum.accumulate(np.where(follows, series.rows, place)[::-1])[::-1]
        preceded = np.concatenate([[False], follows[:-1]])
        begin = np.maximum.accumulate(np.where(preceded, 0, place))
        if row is None:
            row = torch.from_numpy(series.value.astype(np.float32))
        return cls(row, end - place, place - begin)

    def length(self, back: bool) -> Indices:
        """Steps that are possible from each row."""
        return self.before if back else self.after

    def starts(self, steps: int, back: bool = False) -> Indices:
        """Rows from which this many steps are possible."""
        return np.flatnonzero(self.length(back) >= steps)

    def rows_from(self, start: Indices, steps: int, back: bool = False) -> Trajectories:
        """Each start row and the rows that follow it, or precede it."""
        offset = np.arange(steps + 1) * (-1 if back else 1)
        return self.row[torch.from_numpy((start[:, None] + offset).clip(0, len(self.row) - 1))]


@dataclass
class TransitionTrainer:
    """A transition in training; its steps depend only on the seed and their number."""

    transition: Transition
    training: Runs
    validation: Runs
    config: TrainConfig
    seed: int
    step: int = 0
    done: bool = field(default=False, init=False)  # never: more steps always help

    @classmethod
    def of(
        cls, training: Sample, validation: Sample, config: TrainConfig, seed: int
    ) -> "TransitionTrainer | None":
        """Starts training; None if there are too few successive rows or too many channels."""
        own, dims = config.dynamics, training.series.dims
        if dims > own.max_channels:
            return None
        runs = Runs.of(training)
        held_out = Runs.of(validation, runs.row if validation.series is training.series else None)
        starts = runs.starts(1)
        fewest = min(held_out.starts(1, back).size for back in (False, True))
        if starts.size < own.min_pairs or fewest < own.min_rollouts:
            return None
        with seeded(seed):
            transition = Transition(dims, own.transition)
        pair = runs.rows_from(starts[:: -(-starts.size // SCALE_PAIRS)], 1)
        transition.standardise(pair[:, 0], pair[:, 1] - pair[:, 0])
        return cls(transition, runs, held_out, config, seed)

    def __post_init__(self) -> None:
        kind, rate = self.config.optimizer, self.config.learning_rate
        warm_up = self.config.dynamics.warm_up
        self._optimiser = Optimiser(self.transition, kind, rate, warm_up=warm_up)
        self._steps, self._starts = 1, self.training.starts(1)

    def advance(self, fraction: float) -> float:
        """Makes one step on rollouts in both directions; returns the mean error of a row."""
        rng = np.random.default_rng([self.seed, 6, self.step])
        self._lengthen(fraction)
        count = max(MIN_ROLLOUTS, self.config.dynamics.rows // (self._steps + 3))
        rows = self.training.rows_from(rng.choice(self._starts, count), self._steps)
        loss = self._error(rows, back=False) + self._error(rows.flip(1), back=True)
        self._optimiser.minimise(loss, self.step, decay_of(fraction))
        self.step += 1
        return float(loss.detach()) / 2

    def _lengthen(self, fraction: float) -> None:
        """Raises the length of training rollouts, if enough rows have one of that length."""
        config = self.config.dynamics
        begin, end = config.growth
        share = (fraction - begin) / (end - begin)
        steps = int(np.clip(round(share * config.rollout), 1, config.rollout))
        if steps > self._steps:
            starts = self.training.starts(steps)
            if starts.size >= config.min_starts:
                self._steps, self._starts = steps, starts

    def _error(self, rows: Trajectories, back: bool) -> Float[Tensor, ""]:
        """Mean distance of rollouts from the true rows; a few jumps would dominate squares."""
        first, *truth = rows.unbind(dim=1)
        predicted = [first]
        for _ in truth:
            predicted.append(self.transition(predicted[-1], back))
        return _distance(torch.stack(predicted[1:]), torch.stack(truth))

    def beats_persistence(self) -> bool:
        """True if validation rollouts are clearly nearer the truth than their first row is."""
        config = self.config.dynamics
        start = self._validation_starts(np.random.default_rng([self.seed, 9]), back=False)
        length = self.validation.after[start]
        steps = int(np.minimum(length.max(), config.persistence_steps))
        rows = self.validation.rows_from(start[length >= steps], steps)
        with torch.inference_mode():
            error = float(self._error(rows, back=False))
        persistence = float(_distance(rows[:, :1], rows[:, 1:]))
        return error < config.persistence_ratio * persistence

    def _validation_starts(self, rng: np.random.Generator, back: bool) -> Indices:
        """Rows to start validation rollouts from: half at random, half with the longest runs."""
        half = self.config.dynamics.validation_rollouts // 2
        starts = rng.permutation(self.validation.starts(1, back))
        longest = np.argsort(-self.validation.length(back)[starts], kind="stable")[:half]
        return np.union1d(starts[:half], starts[longest])

    @torch.inference_mode()
    def measure_errors(self) -> None:
        """Sets the errors of the transition by number of steps, from validation rollouts."""
        rng = np.random.default_rng([self.seed, 7])
        transition, config = self.transition, self.config.dynamics
        max_steps = transition.config.max_steps
        for back in (False, True):
            start = self._validation_starts(rng, back)
            length = self.validation.length(back)[start]
            truth = self.validation.rows_from(start, max_steps, back)
            errors = torch.full((max_steps, transition.dims), torch.inf)
            row = truth[:, 0]
            for step in range(1, max_steps + 1):
                reached = torch.from_numpy(length >= step)
                if reached.sum() < config.min_rollouts:
                    break
                row = transition.clip(transition(row, back))
                errors[step - 1] = (row - truth[:, step])[reached].square().mean(dim=0)
            transition.error[int(back)] = _extrapolated(errors.clamp(min=SMALL))


def _distance(rows: Float[Tensor, "... dim"], others: Float[Tensor, "... dim"]) -> Tensor:
    """Mean Euclidean distance of rows."""
    return ((rows - others).square().sum(dim=-1) + SMALL).sqrt().mean()


def _extrapolated(errors: Float[Tensor, "step dim"]) -> Float[Tensor, "step dim"]:
    """Errors up to twice the measured number of steps, in proportion to the steps."""
    errors = errors.clone()
    measured = int(errors[:, 0].isfinite().sum())
    if measured:
        more = torch.arange(measured + 1, min(2 * measured, len(errors)) + 1)
        errors[measured : measured + len(more)] = errors[measured - 1] * more[:, None] / measured
    return errors


@dataclass(frozen=True, eq=False)
class TransitionModel(ModulePredictor):
    """Rolls a learnt transition forward and backward and weights both by inverse squared error."""

    module_type = Transition
    network = "pointwise"

    module: Transition

    @classmethod
    def fit(cls, context: FitContext) -> "TransitionModel | None":
        """Trains on successive rows; None if that does not beat persistence early on."""
        config = context.config.dynamics
        if not context.has_budget(config.min_seconds):
            return None
        training, validation = context.training, context.validation
        trainer = TransitionTrainer.of(training, validation, context.config, context.seed)
        if trainer is None or not context.agree(context.gate.is_open):
            return None
        budget = context.budget(config.share)
        context.train(trainer, budget, until=config.early_share)
        if not context.agree(trainer.beats_persistence()):
            log.info("dynamics: does not beat persistence after %d steps", trainer.step)
            return None
        context.train(trainer, budget)
        trainer.measure_errors()
        log.info("dynamics: trained for %d steps", trainer.step)
        return cls(trainer.transition.eval())

    def predict(
        self, series: SeriesSet, exclude: Numbers | None = None, threads: Threads | None = None
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

    def _rollout(self, series: SeriesSet, back: bool) -> tuple[RowArray, RowArray]:
        """Predictions of the incomplete rows from one side, and their expected squared errors."""
        value, error = np.zeros(series.value.shape), np.full(series.value.shape, np.inf)
        error_by_step = self.module.error[int(back)].double().cpu().numpy()
        target, source, steps = self._reached(series, back)
        # One rollout predicts all rows that have the same source.
        starts, rollout = np.unique(source, return_inverse=True)
        for first in range(0, starts.size, BATCH):
            own = slice(*np.searchsorted(rollout, [first, first + BATCH]))
            rows = series.value[starts[first : first + BATCH]]
            value[target[own]] = self._rows_after(rows, rollout[own] - first, steps[own], back)
            error[target[own]] = error_by_step[steps[own] - 1]
        return value, error

    def _reached(self, series: SeriesSet, back: bool) -> tuple[Indices, Indices, Indices]:
        """Incomplete rows, the complete row that each is predicted from, and the steps between."""
        target = np.flatnonzero(~complete_rows(series))
        sources = Known.of(self.module.in_range(series)[:, None], series.start)
        source = sources.around(target)[int(back)][:, 0]
        target, source = target[source >= 0], source[source >= 0]
        distance = np.abs(series.time[target] - series.time[source])
        steps = np.rint(distance).astype(np.int64)
        max_steps = int(self.module.error[int(back), :, 0].isfinite().sum())
        on_grid = np.abs(distance - steps) < GRID_TOLERANCE
        reached = on_grid & (steps >= 1) & (steps <= max_steps)
        return target[reached], source[reached], steps[reached]

    @torch.inference_mode()
    def _rows_after(
        self, start: RowArray, rollout: Indices, steps: Indices, back: bool
    ) -> RowArray:
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
        device = self.module.step_size.device
        row = torch.from_numpy(start[order].astype(np.float32)).to(device)
        for step in range(1, longest + 1):
            row = row[: int((length >= step).sum())]
            row = self.module.clip(self.module(row, back))
            finished = by_step[bounds[step - 1] : bounds[step]]
            result[finished] = row.cpu().numpy()[place[rollout[finished]]]
        return result

    def __str__(self) -> str:
        steps = int(self.module.error.isfinite().any(dim=(0, 2)).sum())
        return f"rollouts of up to {steps} steps"
