"""Gaussian process: predicts cells from observed cells of all channels nearby."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nrtsi.config import CovarianceConfig, GPConfig
from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.ragged import cumulative
from nrtsi.core.series import GRID_TOLERANCE, SeriesSet
from nrtsi.network.layers import seeded
from nrtsi.network.optimiser import Optimiser, decay_of
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import FitContext, ModulePredictor, Numbers, Sample

__all__ = ["CellLocations", "Covariance", "CovarianceTable", "GPTrainer", "MultiOutputGP"]

log = logging.getLogger(__name__)

Square = Float[Tensor, "cell cell"]

# Initial standard deviations: of the loadings, and as logarithms of the channel-specific parts and
# of the noise.
INITIAL_LOADING, INITIAL_LOG_SPECIFIC, INITIAL_LOG_NOISE = 0.1, -2.0, -3.0


@dataclass(frozen=True)
class CellLocations:
    """Time and channel of some cells of one series."""

    time: Float[np.ndarray, " cell"]
    channel: Int[np.ndarray, " cell"]


class Covariance(nn.Module):
    """Linear model of coregionalisation with quasi-periodic terms.

    The covariance of channel i at time t + τ and channel j at time t is, without noise,

        Σₖ κₖ(|τ|) [Aₖ Aₖᵀ + diag(aₖ²)]ᵢⱼ
        + Σₕ exp(-|τ| / dₕ) { cos(ωₕ τ) [Bₕ Bₕᵀ + Cₕ Cₕᵀ + diag(bₕ²)]ᵢⱼ
                            + sin(ωₕ τ) [Bₕ Cₕᵀ - Cₕ Bₕᵀ]ᵢⱼ }

    with exponential kernels κₖ(r) = exp(-r / ℓₖ) and Matérn-5/2 kernels
    κₖ(r) = (1 + s + s² / 3) exp(-s), s = √5 r / ℓₖ. Observations have independent noise of
    variance σᵢ². The kernels of k are of latent sources that the channels share, with loadings Aₖ,
    and of one source per channel, with standard deviations aₖ. Those of h are harmonics of the
    calendar's cycles, `periods`; Bₕ and Cₕ are the in-phase and the quadrature loadings, so that a
    cycle may peak later in one channel than in another. `config` is a `CovarianceConfig` or its
    fields.
    """

    angular_frequency: Tensor  # ωₕ

    def __init__(self, dims: int, periods: Sequence[float] = (), config: Any = None) -> None:
        super().__init__()
        self.dims, self.periods = dims, tuple(periods)
        self.config = config = CovarianceConfig.model_validate(config or {})
        frequency = [2 * np.pi * n / period for period in periods for n in config.harmonics]
        self.register_buffer("angular_frequency", torch.tensor(frequency).double())
        lengthscales = torch.tensor([config.lengthscales] * 2)
        kernels, harmonics = lengthscales.numel(), len(frequency)
        sources = min(config.sources, dims)

        def parameter(start: Tensor) -> nn.Parameter:
            return nn.Parameter(start.double())

        def loadings(terms: int) -> nn.Parameter:
            return parameter(INITIAL_LOADING * torch.randn(terms, dims, sources))

        def specific(terms: int) -> nn.Parameter:
            return parameter(torch.full((terms, dims), INITIAL_LOG_SPECIFIC))

        # log ℓₖ: of the exponential kernels, then of the Matérn kernels.
        self.log_lengthscales = parameter(lengthscales.log())
        self.loadings = loadings(kernels)  # Aₖ
        self.log_specific_std = specific(kernels)  # log aₖ
        decay_times = torch.full((harmonics,), config.decay_time)
        self.log_decay_times = parameter(decay_times.log())  # log dₕ
        self.harmonic_loadings = loadings(harmonics)  # Bₕ
        self.phase_loadings = loadings(harmonics)  # Cₕ
        self.log_harmonic_std = specific(harmonics)  # log bₕ
        self.log_noise_std = parameter(torch.full((dims,), INITIAL_LOG_NOISE))  # log σ

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        config = self.config.model_dump(mode="json")
        return {"dims": self.dims, "periods": list(self.periods), "config": config}

    def forward(self, lag: Float[Tensor, " lag"]) -> Float[Tensor, "lag dim dim"]:
        """Covariance of all channels with all channels `lag` earlier, without noise."""
        kernel, coregionalisation = self._terms(lag)
        return torch.einsum("kl,kij->lij", kernel, coregionalisation)

    def _terms(
        self, lag: Float[Tensor, " lag"]
    ) -> tuple[Float[Tensor, "term lag"], Float[Tensor, "term dim dim"]]:
        """The kernel and the coregionalisation matrix of each term of the sum."""
        distance = lag.abs()
        rough, smooth = (distance / log.exp()[:, None] for log in self.log_lengthscales)
        smooth = 5**0.5 * smooth
        decay = (-distance / self.log_decay_times.exp()[:, None]).exp()
        angle = lag * self.angular_frequency[:, None]
        kernels = (
            (-rough).exp(),
            (1 + smooth + smooth.square() / 3) * (-smooth).exp(),
            decay * angle.cos(),
            decay * angle.sin(),
        )
        in_phase, quadrature = self.harmonic_loadings, self.phase_loadings
        logs = self.log_specific_std, self.log_harmonic_std
        specific, harmonic = (torch.diag_embed((2 * log_std).exp()) for log_std in logs)
        matrices = (
            self.loadings @ self.loadings.mT + specific,
            in_phase @ in_phase.mT + quadrature @ quadrature.mT + harmonic,
            in_phase @ quadrature.mT - quadrature @ in_phase.mT,
        )
        return torch.cat(kernels), torch.cat(matrices)

    def between(
        self, cells: CellLocations, others: CellLocations, table: "CovarianceTable | None" = None
    ) -> Float[Tensor, "cell other"]:
        """Covariance of cells with others, without noise; looked up if there is a `table`."""
        if table is not None:
            return table.between(cells, others)
        # Kernels depend only on the times, which the cells of a row share.
        (time, row), (other_time, other_row) = (
            np.unique(each.time, return_inverse=True) for each in (cells, others)
        )
        lag = torch.from_numpy(np.subtract.outer(time, other_time).ravel())
        kernels, matrices = self._terms(lag)
        rows = torch.from_numpy(row)[:, None], torch.from_numpy(other_row)
        channels = torch.from_numpy(cells.channel)[:, None], torch.from_numpy(others.channel)
        # Term by term: all at once would take gigabytes.
        total = torch.zeros(row.size, other_row.size, dtype=torch.float64)
        for kernel, matrix in zip(kernels, matrices, strict=True):
            total = total + kernel.view(time.size, other_time.size)[rows] * matrix[channels]
        return total

    def cholesky(self, covariance: Square, cells: CellLocations) -> Square:
        """Lower Cholesky factor of the covariance of observed cells, with their noise.

        Jitter is added, and raised, while rounding makes it fail.
        """
        channel, jitter = torch.from_numpy(cells.channel), self.config.jitter
        matrix = covariance + torch.diag((2 * self.log_noise_std).exp()[channel] + jitter)
        lower, failed = torch.linalg.cholesky_ex(matrix)
        more = jitter * matrix.diagonal().mean()
        while failed and more.isfinite():
            lower, failed = torch.linalg.cholesky_ex(matrix + more * torch.eye(len(matrix)))
            more = 10 * more
        return lower

    @property
    def variance(self) -> Float[Tensor, " dim"]:
        """Variance of an observation of each channel, with noise."""
        return self(torch.zeros(1).double())[0].diagonal() + (2 * self.log_noise_std).exp()


class CovarianceTable:
    """Covariances on a grid of one unit, computed once for every lag up to `max_lag`."""

    def __init__(self, covariance: Covariance, max_lag: float) -> None:
        self.dims, self.max_lag = covariance.dims, int(np.rint(max_lag))
        lags = torch.arange(-self.max_lag, self.max_lag + 1, dtype=torch.float64)
        self.values = covariance(lags).flatten()

    def between(self, cells: CellLocations, others: CellLocations) -> Float[Tensor, "cell other"]:
        """Covariance of cells with others that are at most `max_lag` away."""
        origin = others.time[0]
        row, other_row = (np.rint(each.time - origin).astype(np.int64) for each in (cells, others))
        first = self.dims**2 * (row + self.max_lag) + self.dims * cells.channel
        place = first[:, None] + (others.channel - self.dims**2 * other_row)
        found = self.values.index_select(0, torch.from_numpy(place.ravel()))
        return found.view(place.shape)


def is_on_grid(series: SeriesSet) -> bool:
    """True if all times are whole units, so that few lags are distinct."""
    return bool(np.abs(series.time - np.rint(series.time)).max(initial=0.0) < GRID_TOLERANCE)


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
        before = cumulative(series.observed.sum(axis=1))
        cells = int((before[segments.end] - before[segments.begin]).sum())
        if series.dims > config.max_channels or cells < config.min_cells:
            return None
        with seeded(seed):
            covariance = Covariance(series.dims, periods, config.covariance)
        return cls(covariance, sample, config, seed)

    def __post_init__(self) -> None:
        self._on_grid = is_on_grid(self.sample.series)
        rate = self.config.learning_rate
        self._optimiser = Optimiser(self.covariance, "adam", rate, betas=(0.9, 0.999))

    @property
    def done(self) -> bool:
        """True after the largest number of steps."""
        return self.step >= self.config.max_steps

    def advance(self, fraction: float) -> float:
        """Makes one step if the loss is finite; returns the negative log-likelihood per cell."""
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

    def draw(self, rng: np.random.Generator) -> tuple[CellLocations, Float[np.ndarray, " cell"]]:
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
        return CellLocations(series.time[rows], channel), series.value[rows, channel].clip(
            -clip, clip
        )


@dataclass(frozen=True, eq=False)
class MultiOutputGP(ModulePredictor):
    """Gaussian process over time and channels with a stationary covariance function.

    The rows of a series are divided into blocks. The missing cells of a block are predicted
    together, from the observed cells in the block and the nearest ones of each channel on both
    sides of it.
    """

    module_type = Covariance
    slow = True
    gate_power = 1  # a few unpredictable cells would dominate the squares

    module: Covariance

    @classmethod
    def fit(cls, context: FitContext) -> "MultiOutputGP | None":
        """Maximises the likelihood of the training part; None if that does not help early on."""
        config, gate = context.config.gp, context.gate
        if not context.has_budget(config.min_seconds):
            return None
        trainer = GPTrainer.of(context.training, context.periods, config, context.seed)
        if trainer is None or not context.agree(gate.is_open):
            return None
        budget = context.budget(config.share)
        model = cls(trainer.covariance)
        context.train(trainer, budget, until=0.0)
        early_ratio = context.config.gate.early_ratio
        if not context.agree(gate.improves(model, early_ratio)):
            log.info("gp: does not lower the error after %d steps", trainer.step)
            return None
        context.train(trainer, budget)
        log.info("gp: trained for %d steps", trainer.step)
        return model

    @torch.inference_mode()
    def predict(
        self, series: SeriesSet, exclude: Numbers | None = None, threads: Threads | None = None
    ) -> BasePrediction:
        """Predicts every missing cell; interpolation where no observed cell is near."""
        config, covariance = self.module.config, self.module
        mean, variance = interpolate(series), covariance.variance.numpy()
        std = np.where(series.observed, 0.0, np.sqrt(variance))
        known = Known.of(series.observed, series.start)
        table = None
        if is_on_grid(series):
            max_lag = min(_longest_duration(series), 3 * config.max_distance)
            table = CovarianceTable(covariance, max_lag)

        blocks = _blocks(series, self._neighbours, config.max_distance)
        predict_block = partial(self._predict_block, series, known, table)
        found = (threads or Threads(1)).map(predict_block, blocks)
        for block, posterior in zip(blocks, found, strict=True):
            if posterior is not None:
                missing = ~series.observed[block]
                mean[block][missing], explained = posterior
                left = np.broadcast_to(variance, missing.shape)[missing] - explained
                std[block][missing] = np.sqrt(np.maximum(left, config.jitter))
        return BasePrediction(mean, std, np.ones_like(series.observed))

    @property
    def _neighbours(self) -> int:
        """Rows of a block, and observed cells of a channel that are read on each side of it."""
        config = self.module.config
        per_channel = config.context_cells // (3 * self.module.dims)
        return int(np.clip(per_channel, *config.neighbours))

    def _predict_block(
        self, series: SeriesSet, known: Known, table: CovarianceTable | None, block: slice
    ) -> tuple[Float[np.ndarray, " cell"], Float[np.ndarray, " cell"]] | None:
        """Means of the missing cells of a block, and the variance that observed cells explain.

        None if no observed cell is near.
        """
        config = self.module.config
        rows = [
            _observed_near(cells, series, block, self._neighbours, config.max_distance)
            for cells in known.cells
        ]
        row = np.concatenate(rows)
        channel = np.repeat(np.arange(len(rows)), [each.size for each in rows])
        if not row.size:
            return None
        missing_row, missing_channel = np.nonzero(~series.observed[block])
        observed = CellLocations(series.time[row], channel)
        both = CellLocations(
            np.concatenate([observed.time, series.time[block][missing_row]]),
            np.concatenate([channel, missing_channel]),
        )
        value = series.value[row, channel].clip(-config.max_deviation, config.max_deviation)
        with torch.inference_mode():  # the mode is a thread's own
            covariance = self.module.between(both, observed, table)
            among, across = covariance[: row.size], covariance[row.size :]
            right = torch.cat([torch.from_numpy(value)[:, None], across.mT], dim=1)
            lower = self.module.cholesky(among, observed)
            solved = torch.linalg.solve_triangular(lower, right, upper=False)
            mean = solved[:, 1:].mT @ solved[:, 0]
            return mean.numpy(), solved[:, 1:].square().sum(dim=0).numpy()

    def __str__(self) -> str:
        return f"reads {self._neighbours} observed cells per column on each side"


def _longest_duration(series: SeriesSet) -> float:
    """Time from the first to the last row of the longest series."""
    full = series.length > 0
    first, last = series.start[:-1][full], series.start[1:][full] - 1
    return float((series.time[last] - series.time[first]).max(initial=0.0))


def _blocks(series: SeriesSet, size: int, max_duration: float) -> list[slice]:
    """Blocks of at most `size` successive rows of a series; only those with missing cells."""
    first = series.start[series.owner]
    by_rows = (np.arange(series.rows) - first) // size
    by_time = (series.time - series.time[first]) // max_duration
    new = np.ones(series.rows, dtype=bool)
    new[1:] = (np.diff(series.owner) != 0) | (np.diff(by_rows) != 0) | (np.diff(by_time) != 0)
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], series.rows)
    incomplete = ~np.logical_and.reduce(series.observed, axis=1)
    chosen = np.logical_or.reduceat(incomplete, begin) if begin.size else begin.astype(bool)
    return list(map(slice, begin[chosen].tolist(), end[chosen].tolist()))


def _observed_near(
    cells: np.ndarray, series: SeriesSet, block: slice, neighbours: int, max_distance: float
) -> Int[np.ndarray, " near"]:
    """Observed rows of a channel in a block, and the nearest ones before and after it."""
    owner = int(np.searchsorted(series.start, block.start, side="right")) - 1
    bounds = series.start[owner], block.start, block.stop, series.start[owner + 1]
    begin, first, last, end = np.searchsorted(cells, bounds)
    # Known.cells has one entry more at each end, which is no row.
    rows = cells[max(begin, 1, first - neighbours) : min(end, cells.size - 1, last + neighbours)]
    earliest = series.time[block.start] - max_distance
    latest = series.time[block.stop - 1] + max_distance
    return rows[(series.time[rows] >= earliest) & (series.time[rows] <= latest)]
