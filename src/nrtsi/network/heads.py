"""Output heads: map an encoded target to a point prediction or a Gaussian for every cell."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig

__all__ = ["HEADS", "CellDistribution", "Gaussian", "GaussianHead", "Point", "PointHead"]

HeadOutput: TypeAlias = Float[Tensor, "*batch dim"]
Factor: TypeAlias = Float[Tensor, "#*batch dim"]


@dataclass(frozen=True)
class Point:
    """A point prediction without uncertainty; its `std` is the unit of the cells."""

    mean: HeadOutput
    unit: Factor | float = 1.0

    @property
    def std(self) -> HeadOutput:
        """The unit."""
        return torch.ones_like(self.mean) * self.unit

    def shifted(self, shift: HeadOutput, scale: Factor) -> "Point":
        """Returns the prediction of `shift + scale × cell`."""
        return Point(shift + scale * self.mean, scale * self.unit)

    def shrunk(self, share: Factor, scale_factor: Factor) -> "Point":
        """Returns the prediction with `share × mean`."""
        return Point(share * self.mean, self.unit)

    def sample(self, noise: HeadOutput) -> HeadOutput:
        """Returns the mean."""
        return self.mean

    def loss(self, truth: HeadOutput) -> HeadOutput:
        """Returns the squared error of every cell."""
        return (truth - self.mean).square()


@dataclass(frozen=True)
class Gaussian:
    """An independent normal distribution for every cell: the paper's diagonal covariance."""

    mean: HeadOutput
    log_std: HeadOutput

    @property
    def std(self) -> HeadOutput:
        """The standard deviation."""
        return self.log_std.exp()

    def shifted(self, shift: HeadOutput, scale: Factor) -> "Gaussian":
        """Returns the distribution of `shift + scale × cell`."""
        return Gaussian(shift + scale * self.mean, self.log_std + scale.log())

    def shrunk(self, share: Factor, scale_factor: Factor) -> "Gaussian":
        """Returns the distribution with `share × mean` and `scale_factor × std`."""
        return Gaussian(share * self.mean, self.log_std + scale_factor.log())

    def sample(self, noise: HeadOutput) -> HeadOutput:
        """Returns `mean + std × noise`, a sample if `noise` is standard normal."""
        return self.mean + self.std * noise

    def loss(self, truth: HeadOutput) -> HeadOutput:
        """Returns the squared error plus the negative log-likelihood with a detached mean.

        With the likelihood alone (the paper's eq. 5), a large std would excuse a poor mean.
        """
        error = truth - self.mean
        standardised = error.detach() * (-self.log_std).exp()
        return error.square() + self.log_std + 0.5 * standardised.square()


CellDistribution: TypeAlias = Point | Gaussian
"""The predictive distribution of cells; both classes have the same methods."""


class PointHead(nn.Module):
    """f_out of the paper: a linear layer to `outputs` values per token; None if it is a cell."""

    def __init__(self, config: ModelConfig, outputs: int | None) -> None:
        super().__init__()
        self.outputs = outputs
        self.mean = nn.Linear(config.width, outputs or 1)

    def forward(self, targets: Float[Tensor, "*batch width"]) -> CellDistribution:
        """Predicts every cell of the targets."""
        return Point(self._cells(self.mean(targets)))

    def _cells(self, output: Float[Tensor, "*batch output"]) -> Float[Tensor, "*cells"]:
        return output.squeeze(-1) if self.outputs is None else output


class GaussianHead(PointHead):
    """Predicts the mean by a linear layer and the log std by a perceptron."""

    def __init__(self, config: ModelConfig, outputs: int | None) -> None:
        super().__init__(config, outputs)
        width = config.width
        self.range = config.min_log_std, config.max_log_std
        self.log_std = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, outputs or 1)
        )

    def forward(self, targets: Float[Tensor, "*batch width"]) -> CellDistribution:
        """Predicts every cell of the targets."""
        least, most = self.range
        free = self._cells(self.log_std(targets.detach()))  # the encoder serves the mean alone
        # A smooth upper bound, because a hard one has no gradient.
        bounded = most - nn.functional.softplus(most - free)
        return Gaussian(self._cells(self.mean(targets)), bounded.clamp(min=least))


HEADS: dict[str, type[PointHead]] = {"point": PointHead, "gaussian": GaussianHead}
