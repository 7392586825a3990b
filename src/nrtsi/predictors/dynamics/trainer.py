"""`TransitionTrainer`: trains the transition on rollouts along successive complete rows."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import TrainConfig
from nrtsi.network.layers import seeded
from nrtsi.network.optimiser import Optimiser, decay_of
from nrtsi.predictors.base import Sample
from nrtsi.predictors.dynamics.transition import Transition, has_next

__all__ = ["Runs", "TransitionTrainer"]

# Squared error, of scaled series, below which differences do not matter.
SMALL = 1e-6

# Pairs of rows from which scales are estimated, at most, about.
SCALE_PAIRS = 2**18

# Rollouts per step, at least.
MIN_ROLLOUTS = 64


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

    def length(self, back: bool) -> Int[np.ndarray, " row"]:
        """Steps that are possible from each row."""
        return self.before if back else self.after

    def starts(self, steps: int, back: bool = False) -> Int[np.ndarray, " start"]:
        """Rows from which this many steps are possible."""
        return np.flatnonzero(self.length(back) >= steps)

    def rows_from(
        self, start: Int[np.ndarray, " start"], steps: int, back: bool = False
    ) -> Float[Tensor, "start row dim"]:
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
    done: bool = field(default=False, init=False)
    """Never: more steps always help."""

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
        self._optimiser = Optimiser(
            self.transition,
            self.config.optimizer,
            self.config.learning_rate,
            warm_up=self.config.dynamics.warm_up,
        )
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

    def _error(self, rows: Float[Tensor, "start row dim"], back: bool) -> Float[Tensor, ""]:
        """Mean distance of rollouts from the true rows.

        It is not a mean of squares: a few jumps would outweigh all other steps.
        """
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

    def _validation_starts(
        self, rng: np.random.Generator, back: bool
    ) -> Int[np.ndarray, " start"]:
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
