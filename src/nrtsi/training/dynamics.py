"""Learns how rows go on, where whole rows follow each other."""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nrtsi.config import TrainConfig
from nrtsi.core.series import SeriesSet
from nrtsi.network.seeding import seeded
from nrtsi.predictors.dynamics import REACH, TransitionModel, next_rows
from nrtsi.training.sampler import Segments
from nrtsi.training.trainer import optimizers_of

__all__ = ["TransitionTrainer"]

# Pairs of rows that follow each other, at least, and channels, at most, to learn from.
FEWEST, CHANNELS = 2048, 64

# Steps in a row that are learnt at last, at most; the starts there must be for so many.
LONGEST, STARTS = 16, 256

# Parts of the time: before it more than one step is learnt, and before it is as many as ever.
ALONE, ALL = 0.3, 0.6

# Rows that are carried in a step of training, where each is carried far.
ROWS = 3072

# Below this, in standard deviations, one error is as good as another.
SMALL = 1e-6

# Journeys on which errors are measured; and those there must be for a number of steps.
JOURNEYS, FEW = 1024, 32

# Steps after which it must be so much nearer the truth than what stays as it is.
AWAY, LEADS = 8, 0.9

# Pairs of rows that units are taken from, about, at most.
SAMPLE = 2**18


@dataclass(frozen=True)
class _Runs:
    """Rows, and how far one can go on from each, and back."""

    row: Float[Tensor, "row dim"]
    ahead: Int[np.ndarray, " row"]
    behind: Int[np.ndarray, " row"]

    @classmethod
    def of(
        cls, series: SeriesSet, spans: Segments, row: Float[Tensor, "row dim"] | None = None
    ) -> "_Runs":
        """Those of some spans; `row` are the rows as a tensor, where they are one already."""
        follows = next_rows(series)
        inside = np.zeros(series.rows + 1, dtype=np.int64)
        np.add.at(inside, spans.begin, 1)
        np.add.at(inside, spans.end - 1, -1)  # from the last row of a span nothing goes on
        follows &= np.cumsum(inside[:-1]) > 0
        places = np.arange(series.rows)
        ends = np.minimum.accumulate(np.where(follows, series.rows, places)[::-1])[::-1]
        came = np.concatenate([[False], follows[:-1]])
        begins = np.maximum.accumulate(np.where(came, 0, places))
        row = torch.from_numpy(series.value.astype(np.float32)) if row is None else row
        return cls(row, ends - places, places - begins)

    @property
    def pairs(self) -> int:
        return int((self.ahead > 0).sum())

    def starts(self, steps: int, back: bool = False) -> Int[np.ndarray, " start"]:
        """Rows from which one can go so many steps."""
        return np.flatnonzero((self.behind if back else self.ahead) >= steps)

    def stretches(
        self, start: Int[np.ndarray, " start"], steps: int, back: bool = False
    ) -> Float[Tensor, "start row dim"]:
        """The rows from each start on, or back."""
        along = np.arange(steps + 1) * (-1 if back else 1)
        return self.row[torch.from_numpy((start[:, None] + along).clip(0, len(self.row) - 1))]


@dataclass
class TransitionTrainer:
    """A flow being learnt; what it draws is a function of the seed and the number of its steps."""

    flow: TransitionModel
    runs: _Runs
    held: _Runs
    config: TrainConfig
    seed: int
    step: int = 0
    _starts: tuple[int, Int[np.ndarray, " start"]] = field(init=False)

    @classmethod
    def of(
        cls,
        learn: tuple[SeriesSet, Segments],
        hold: tuple[SeriesSet, Segments],
        config: TrainConfig,
        seed: int,
    ) -> "TransitionTrainer | None":
        """One for the rows of some spans; None where too few of them follow each other."""
        if learn[0].dims > CHANNELS:
            return None
        runs = _Runs.of(*learn)
        held = _Runs.of(*hold, runs.row if hold[0] is learn[0] else None)
        if runs.pairs < FEWEST or min(held.starts(1).size, held.starts(1, back=True).size) < FEW:
            return None
        with seeded(seed):
            flow = TransitionModel(learn[0].dims)
        starts = runs.starts(1)
        both = runs.stretches(starts[:: -(-starts.size // SAMPLE)], 1)
        flow.settle(both[:, 0], both[:, 1] - both[:, 0])
        return cls(flow, runs, held, config, seed)

    def __post_init__(self) -> None:
        self.optimizers = optimizers_of(self.flow, self.config)
        self._starts = 1, self.runs.starts(1)

    def advance(self, fraction: float) -> float:
        """Makes one step of training, `fraction` of its time being used up; returns the loss."""
        rng = np.random.default_rng([self.seed, 6, self.step])
        steps = self._farther(fraction)
        start = rng.choice(self._starts[1], max(64, ROWS // (steps + 3)))
        stretch = self.runs.stretches(start, steps)
        loss = self._lost(stretch, back=False) + self._lost(stretch.flip(1), back=True)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                warm = min(1.0, (self.step + 1) / 50)
                group["lr"] = self.config.learning_rate * warm * max(0.01, 1.0 - fraction)
            optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.flow.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        return float(loss.detach()) / 2

    @property
    def done(self) -> bool:
        """Never: there is always more to learn of how rows go on."""
        return False

    def _farther(self, fraction: float) -> int:
        """How many steps in a row are learnt by now, as far as there are so many."""
        share = (fraction - ALONE) / (ALL - ALONE)
        steps = int(np.clip(round(share * LONGEST), 1, LONGEST))
        if steps > self._starts[0]:
            starts = self.runs.starts(steps)
            if starts.size >= STARTS:
                self._starts = steps, starts
        return self._starts[0]

    def _lost(self, stretch: Float[Tensor, "start row dim"], back: bool) -> Tensor:
        """How far what is carried is from where it should be, step by step, on the average."""
        first, *others = stretch.unbind(dim=1)
        carried = [first]
        for _ in others:
            carried.append(self.flow.step(carried[-1], back))
        square = (torch.stack(carried[1:]) - torch.stack(others)).square().sum(dim=-1)
        # The root, for one contact that is missed would drown a hundred steps that are right.
        return (square + SMALL).sqrt().mean()

    def leads(self) -> bool:
        """Whether it goes on more truly than a row that stays as it is, on rows it does not know.

        By the mean of the errors, not of their squares: a few jumps would decide.
        """
        rng = np.random.default_rng([self.seed, 9])
        start = self._journeys(rng, back=False)
        steps = int(np.minimum(self.held.ahead[start].max(), AWAY))
        truth = self.held.stretches(start[self.held.ahead[start] >= steps], steps)
        with torch.inference_mode():
            carried = float(self._lost(truth, back=False))
        stays = (truth[:, :1] - truth[:, 1:]).square().sum(dim=-1).add(SMALL).sqrt().mean()
        return carried < LEADS * float(stays)

    def _journeys(self, rng: np.random.Generator, back: bool) -> Int[np.ndarray, " start"]:
        """Where to start from: anywhere, and half of the times where one can go the farthest."""
        starts = rng.permutation(self.held.starts(1, back))
        far = (self.held.behind if back else self.held.ahead)[starts]
        farthest = starts[np.argsort(-far, kind="stable")[: JOURNEYS // 2]]
        return np.union1d(starts[: JOURNEYS // 2], farthest)

    def measured(self) -> TransitionModel:
        """The flow with the errors that it has, on rows it has not learnt from."""
        rng = np.random.default_rng([self.seed, 7])
        for back in (False, True):
            start = self._journeys(rng, back)
            far = (self.held.behind if back else self.held.ahead)[start]
            truth = self.held.stretches(start, REACH, back)
            errors = torch.full((REACH, self.flow.unit.numel()), torch.inf)
            with torch.inference_mode():
                row = truth[:, 0]
                for step in range(1, REACH + 1):
                    there = torch.from_numpy(far >= step)
                    if there.sum() < FEW:
                        break
                    row = self.flow.inside(self.flow.step(row, back))
                    errors[step - 1] = (row - truth[:, step])[there].square().mean(dim=0)
            self.flow.error[int(back)] = _farther_on(errors.clamp(min=SMALL))
        return self.flow.eval()


def _farther_on(errors: Float[Tensor, "step dim"]) -> Float[Tensor, "step dim"]:
    """Errors up to twice the steps that were measured, taken to grow as the steps do."""
    errors = errors.clone()
    measured = int(errors[:, 0].isfinite().sum())
    if measured:
        more = torch.arange(measured + 1, min(2 * measured, len(errors)) + 1)
        errors[measured : measured + len(more)] = errors[measured - 1] * more[:, None] / measured
    return errors
