"""What a network says of a cell: a single guess, or a distribution."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Gaussian", "GaussianHead", "Point", "PointHead", "CellDistribution"]

# Below this a cell that happens to fit exactly dominates the likelihood of a batch.
SMALLEST_LOG_SCALE = -9.0

# The largest scale: six times what interpolation leaves over on the average, for there are bursts.
# What is drawn is read when the next point is drawn: a scale without bound, far too wide here and
# there, would grow from draw to draw.
LARGEST_LOG_SCALE = 1.8


@runtime_checkable
class CellDistribution(Protocol):
    """The one interface that training and inference know; a new head implements these seven."""

    @property
    def mean(self) -> Float[Tensor, "*batch dim"]:
        """Best single guess."""
        ...

    @property
    def scale(self) -> Float[Tensor, "*batch dim"]:
        """How far the truth may be from it: as large as errors of the kind usually are."""
        ...

    def shifted(
        self, shift: Float[Tensor, "*batch dim"], scale: Float[Tensor, "#*batch dim"]
    ) -> "CellDistribution":
        """The same prediction for `shift + scale × cell`."""
        ...

    def shrunk(
        self, share: Float[Tensor, "#*batch dim"], scale_factor: Float[Tensor, "#*batch dim"]
    ) -> "CellDistribution":
        """The same with a share of its best guess, so many times as wide."""
        ...

    def draw(self, noise: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """The draw that standard normal `noise` stands for; a single guess returns its mean."""
        ...

    def quantile(self, level: float) -> Float[Tensor, "*batch dim"]:
        """The value that a cell stays below with probability `level`."""
        ...

    def loss(self, truth: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Loss of every cell, unreduced: the caller knows which cells count."""
        ...


@dataclass(frozen=True)
class Point:
    """A single guess for every cell; its scale is that of the unit it is told in."""

    mean: Float[Tensor, "*batch dim"]
    unit: Float[Tensor, "#*batch dim"] | float = 1.0

    @property
    def scale(self) -> Float[Tensor, "*batch dim"]:
        """The unit, of every cell alike."""
        return torch.ones_like(self.mean) * self.unit

    def shifted(
        self, shift: Float[Tensor, "*batch dim"], scale: Float[Tensor, "#*batch dim"]
    ) -> "Point":
        """The same guess for `shift + scale × cell`."""
        return Point(shift + scale * self.mean, scale * self.unit)

    def shrunk(
        self, share: Float[Tensor, "#*batch dim"], scale_factor: Float[Tensor, "#*batch dim"]
    ) -> "Point":
        """A share of the guess."""
        return Point(share * self.mean, self.unit)

    def draw(self, noise: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """The guess, whatever the noise."""
        return self.mean

    def quantile(self, level: float) -> Float[Tensor, "*batch dim"]:
        """The guess, whatever the level."""
        return self.mean

    def loss(self, truth: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Squared error."""
        return (truth - self.mean).square()


@dataclass(frozen=True)
class Gaussian:
    """An independent normal distribution for every cell."""

    mean: Float[Tensor, "*batch dim"]
    log_scale: Float[Tensor, "*batch dim"]

    @property
    def scale(self) -> Float[Tensor, "*batch dim"]:
        """The standard deviation."""
        return self.log_scale.exp()

    def shifted(
        self, shift: Float[Tensor, "*batch dim"], scale: Float[Tensor, "#*batch dim"]
    ) -> "Gaussian":
        """The same distribution for `shift + scale × cell`."""
        return Gaussian(shift + scale * self.mean, self.log_scale + scale.log())

    def shrunk(
        self, share: Float[Tensor, "#*batch dim"], scale_factor: Float[Tensor, "#*batch dim"]
    ) -> "Gaussian":
        """The same distribution about a share of its mean, so many times as wide."""
        return Gaussian(share * self.mean, self.log_scale + scale_factor.log())

    def draw(self, noise: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Mean plus scaled noise."""
        return self.mean + self.scale * noise

    def quantile(self, level: float) -> Float[Tensor, "*batch dim"]:
        """Mean plus the standard normal's quantile, scaled."""
        probability = torch.as_tensor(level, dtype=self.mean.dtype, device=self.mean.device)
        return self.draw(torch.special.ndtri(probability).expand_as(self.mean))

    def loss(self, truth: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Squared error for the mean, and for the scale the likelihood given that mean.

        The likelihood alone would let a cell with a large scale excuse a poor mean.
        """
        error = truth - self.mean
        standard = error.detach() * (-self.log_scale).exp()
        return error.square() + self.log_scale + 0.5 * standard.square()


class _Head(nn.Module):
    """Reads `dims` numbers off a token; or with None one, where the tokens are the cells."""

    def __init__(self, width: int, dims: int | None) -> None:
        super().__init__()
        self.dims = dims
        self.mean = nn.Linear(width, dims or 1)

    def _cells(self, read: Float[Tensor, "*batch read"]) -> Float[Tensor, "*cells"]:
        return read.squeeze(-1) if self.dims is None else read


class PointHead(_Head):
    """Reads one guess a channel off a token."""

    def forward(self, tokens: Float[Tensor, "*batch width"]) -> Point:
        """Predicts a value per channel."""
        return Point(self._cells(self.mean(tokens)))


class GaussianHead(_Head):
    """Reads a normal distribution a channel off a token.

    The scale is read off a detached token, so that the encoder serves the mean alone.
    """

    def __init__(self, width: int, dims: int | None) -> None:
        super().__init__(width, dims)
        self.scale = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, dims or 1))

    def forward(self, tokens: Float[Tensor, "*batch width"]) -> Gaussian:
        """Predicts a Gaussian per channel."""
        free = self._cells(self.scale(tokens.detach()))
        # Bounded smoothly: a scale that has hit a wall would never learn to come back from it.
        bounded = LARGEST_LOG_SCALE - nn.functional.softplus(LARGEST_LOG_SCALE - free)
        log_scale = bounded.clamp(min=SMALLEST_LOG_SCALE)
        return Gaussian(self._cells(self.mean(tokens)), log_scale)
