"""`GPTrainer`: maximises the marginal likelihood of the Gaussian process on random segments."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from nrtsi.config import GPConfig
from nrtsi.network.layers import seeded
from nrtsi.network.optimiser import Optimiser, decay_of
from nrtsi.predictors.base import Sample
from nrtsi.predictors.gaussian_process.covariance import (
    CellIndex,
    Covariance,
    CovarianceTable,
    is_on_grid,
)

__all__ = ["GPTrainer"]


@dataclass
class GPTrainer:
    """A covariance function in training; its steps depend only on the seed and their number."""

    covariance: Covariance
    sample: Sample
    config: GPConfig
    seed: int
    step: int = 0

    @classmethod
    def of(
        cls, sample: Sample, periods: tuple[float, ...], config: GPConfig, seed: int
    ) -> "GPTrainer | None":
        """Starts training on `sample`; None if it has too few cells or too many channels."""
        series, segments = sample.series, sample.segments
        before = np.concatenate([[0], np.cumsum(series.observed.sum(axis=1))])
        cells = int((before[segments.end] - before[segments.begin]).sum())
        if series.dims > config.max_channels or cells < config.min_cells:
            return None
        with seeded(seed):
            covariance = Covariance(series.dims, periods, config.covariance)
        return cls(covariance, sample, config, seed)

    def __post_init__(self) -> None:
        self._on_grid = is_on_grid(self.sample.series)
        self._optimiser = Optimiser(
            self.covariance, "adam", self.config.learning_rate, betas=(0.9, 0.999)
        )

    @property
    def done(self) -> bool:
        """True after the largest number of steps."""
        return self.step >= self.config.max_steps

    def advance(self, fraction: float) -> float:
        """Makes one step; returns the negative log-likelihood per cell, up to a constant.

        A loss that is not finite changes nothing.
        """
        cells, value = self.draw(np.random.default_rng([self.seed, 10, self.step]))
        decay = decay_of(max(fraction, self.step / self.config.max_steps))
        self.step += 1
        if not value.size:
            return 0.0
        table = CovarianceTable(self.covariance, np.ptp(cells.time)) if self._on_grid else None
        lower = self.covariance.cholesky(self.covariance.between(cells, cells, table), cells)
        target = torch.from_numpy(value)[:, None]
        square = torch.linalg.solve_triangular(lower, target, upper=False).square().sum()
        loss = (square / 2 + lower.diagonal().log().sum()) / value.size
        if loss.isfinite():
            self._optimiser.minimise(loss, self.step - 1, decay)
        return float(loss.detach())

    def draw(self, rng: np.random.Generator) -> tuple[CellIndex, Float[np.ndarray, " cell"]]:
        """Draws observed cells of a segment, in order of time, and their clipped values."""
        series, config = self.sample.series, self.config
        channels = np.arange(series.dims)
        if self.step % 2:
            channels = np.sort(rng.permutation(series.dims)[: config.channels])
        stride = int(rng.choice(config.strides))
        max_rows = stride * (2 * config.cells // channels.size)
        segment = self.sample.segments.sample(1, rng, max_rows)
        rows = np.arange(segment.begin[0], segment.end[0], stride)
        row, channel = np.nonzero(series.observed[np.ix_(rows, channels)])
        # Any part of the segment, not always its first cells.
        first = int(rng.integers(max(1, row.size - config.cells + 1)))
        chosen = slice(first, first + config.cells)
        rows, channel = rows[row[chosen]], channels[channel[chosen]]
        limit = 2 * config.covariance.max_distance
        near = series.time[rows] <= series.time[rows[:1]] + limit
        rows, channel = rows[near], channel[near]
        clip = config.covariance.max_deviation
        return CellIndex(series.time[rows], channel), series.value[rows, channel].clip(-clip, clip)
