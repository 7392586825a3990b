"""Learns how cells go with each other: the field under which what is known is the likeliest."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from nrtsi.core.series import SeriesSet
from nrtsi.network.seeding import seeded
from nrtsi.predictors.gaussian_process import (
    FAR,
    FARTHEST,
    CellIndex,
    CovarianceTable,
    MultiOutputGP,
    jittered_cholesky,
    on_grid,
)
from nrtsi.training.sampler import Segments

__all__ = ["GPTrainer"]

# Channels, at most, and known cells, at least, to learn from.
CHANNELS, FEWEST = 16, 256

# CellIndex of one step, at most; and channels of every other one, so that they span more time.
CELLS, FEW = 320, 3

# Rows between those that are looked at: far ones tell of slow change.
STRIDES = (1, 1, 2, 4, 8)

# Size of a step of learning, and steps after which more do not help.
RATE, STEPS = 0.05, 1000


@dataclass
class GPTrainer:
    """A field being learnt; what it looks at is a function of the seed and of its steps."""

    field: MultiOutputGP
    series: SeriesSet
    spans: Segments
    seed: int
    step: int = 0

    @classmethod
    def of(
        cls, series: SeriesSet, spans: Segments, periods: tuple[float, ...], seed: int
    ) -> "GPTrainer | None":
        """One for the cells of some spans; None where they are too few, or the channels many."""
        before = np.concatenate([[0], np.cumsum(series.observed.sum(axis=1))])
        known = int((before[spans.end] - before[spans.begin]).sum())
        if series.dims > CHANNELS or known < FEWEST:
            return None
        with seeded(seed):
            field = MultiOutputGP(series.dims, periods)
        return cls(field, series, spans, seed)

    def __post_init__(self) -> None:
        self._on_grid = on_grid(self.series)
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=RATE)

    @property
    def done(self) -> bool:
        """Whether more steps would not help."""
        return self.step >= STEPS

    def advance(self, fraction: float) -> float:
        """Makes one step, `fraction` of the time being used up; returns how unlikely a cell is."""
        rng = np.random.default_rng([self.seed, 10, self.step])
        cells, value = self._look(rng)
        if not value.size:
            self.step += 1
            return 0.0
        by_lag = CovarianceTable(self.field, np.ptp(cells.time)) if self._on_grid else None
        seen = self.field.between(cells, cells, by_lag) + self.field.noise_of(cells)
        lower = jittered_cholesky(seen)
        told = torch.from_numpy(value)[:, None]
        unlikely = torch.linalg.solve_triangular(lower, told, upper=False).square().sum() / 2
        loss = (unlikely + lower.diagonal().log().sum()) / value.size
        used = max(fraction, self.step / STEPS)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * max(0.01, 1.0 - used)
        self.step += 1
        if not loss.isfinite():
            return float(loss.detach())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.field.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def _look(self, rng: np.random.Generator) -> tuple[CellIndex, np.ndarray]:
        """Known cells of a stretch, in order of time."""
        dims = self.series.dims
        channels = np.arange(dims)
        if self.step % 2:
            channels = np.sort(rng.permutation(dims)[:FEW])
        stride = int(rng.choice(STRIDES))
        span = self.spans.draw(1, rng, stride * (2 * CELLS // channels.size))
        rows = np.arange(span.begin[0], span.end[0], stride)
        row, channel = np.nonzero(self.series.observed[np.ix_(rows, channels)])
        # Anywhere in the stretch: the first cells of stretches are not all there is.
        first = int(rng.integers(max(1, row.size - CELLS + 1)))
        some = slice(first, first + CELLS)
        rows, channel = rows[row[some]], channels[channel[some]]
        near = self.series.time[rows] <= self.series.time[rows[:1]] + 2 * FAR
        rows, channel = rows[near], channel[near]
        value = self.series.value[rows, channel].clip(-FARTHEST, FARTHEST)
        return CellIndex.of(self.series, rows, channel), value
