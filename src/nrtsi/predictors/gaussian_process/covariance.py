"""`Covariance`: the stationary covariance function of the Gaussian process."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nrtsi.config import CovarianceConfig
from nrtsi.core.series import GRID_TOLERANCE, SeriesSet

__all__ = ["CellIndex", "Covariance", "CovarianceTable", "is_on_grid", "jittered_cholesky"]

# Initial standard deviations: of the loadings, and as logarithms of the channel-specific parts and
# of the noise.
INITIAL_LOADING, INITIAL_LOG_SPECIFIC, INITIAL_LOG_NOISE = 0.1, -2.0, -3.0


@dataclass(frozen=True)
class CellIndex:
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
    calendar's cycles; Bₕ and Cₕ are the in-phase and the quadrature loadings, so that a cycle may
    peak later in one channel than in another.

    Args:
        dims: Number of channels.
        periods: Cycles of the calendar, in units.
        config: Kernels, and settings of the prediction.
    """

    angular_frequency: Tensor
    """ωₕ."""

    def __init__(
        self,
        dims: int,
        periods: Sequence[float] = (),
        config: CovarianceConfig | None = None,
    ) -> None:
        super().__init__()
        self.dims, self.periods = dims, tuple(periods)
        self.config = config = config or CovarianceConfig()
        frequency = [2 * np.pi * n / period for period in periods for n in config.harmonics]
        self.register_buffer("angular_frequency", torch.tensor(frequency).double())
        lengthscales = torch.tensor([config.lengthscales] * 2)
        kernels, harmonics = lengthscales.numel(), len(frequency)
        sources = min(config.sources, dims)

        def parameter(start: Tensor) -> nn.Parameter:
            return nn.Parameter(start.double())

        def loadings(terms: int) -> nn.Parameter:
            return parameter(INITIAL_LOADING * torch.randn(terms, dims, sources))

        self.log_lengthscales = parameter(lengthscales.log())
        """log ℓₖ: of the exponential kernels, then of the Matérn kernels."""
        self.loadings = loadings(kernels)
        """Aₖ."""
        self.log_specific_std = parameter(torch.full((kernels, dims), INITIAL_LOG_SPECIFIC))
        """log aₖ."""
        self.log_decay_times = parameter(torch.full((harmonics,), config.decay_time).log())
        """log dₕ."""
        self.harmonic_loadings = loadings(harmonics)
        """Bₕ."""
        self.phase_loadings = loadings(harmonics)
        """Cₕ."""
        self.log_harmonic_std = parameter(torch.full((harmonics, dims), INITIAL_LOG_SPECIFIC))
        """log bₕ."""
        self.log_noise_std = parameter(torch.full((dims,), INITIAL_LOG_NOISE))
        """log σ."""

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
        matrices = (
            self.loadings @ self.loadings.mT + _diagonal(self.log_specific_std),
            in_phase @ in_phase.mT + quadrature @ quadrature.mT + _diagonal(self.log_harmonic_std),
            in_phase @ quadrature.mT - quadrature @ in_phase.mT,
        )
        return torch.cat(kernels), torch.cat(matrices)

    def between(
        self, cells: CellIndex, others: CellIndex, table: "CovarianceTable | None" = None
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

    def cholesky(
        self, covariance: Float[Tensor, "cell cell"], cells: CellIndex
    ) -> Float[Tensor, "cell cell"]:
        """Cholesky factor of the covariance of observed cells, with their noise."""
        channel = torch.from_numpy(cells.channel)
        noise = torch.diag((2 * self.log_noise_std).exp()[channel] + self.config.jitter)
        return jittered_cholesky(covariance + noise, self.config.jitter)

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

    def between(self, cells: CellIndex, others: CellIndex) -> Float[Tensor, "cell other"]:
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


def jittered_cholesky(
    matrix: Float[Tensor, "cell cell"], jitter: float
) -> Float[Tensor, "cell cell"]:
    """Lower Cholesky factor; jitter is added, and raised, while rounding makes it fail."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    noise = jitter * matrix.diagonal().mean()
    while failed and noise.isfinite():
        lower, failed = torch.linalg.cholesky_ex(matrix + noise * torch.eye(len(matrix)))
        noise = 10 * noise
    return lower


def _diagonal(log_std: Float[Tensor, "term dim"]) -> Float[Tensor, "term dim dim"]:
    """Diagonal matrices of variances."""
    return torch.diag_embed((2 * log_std).exp())
