"""`Transition`: networks that predict the next and the previous row, and their errors."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nrtsi.config import INPUT_CLIP, TransitionConfig
from nrtsi.core.series import GRID_TOLERANCE, SeriesSet
from nrtsi.network.layers import Perceptron

__all__ = ["Transition", "complete_rows", "has_next"]

# Standard deviation below which a channel counts as constant, and the smallest step size.
CONSTANT, MIN_STEP = 1e-6, 1e-9


class Transition(nn.Module):
    """One network that predicts the change to the next row, and one to the previous row.

    Args:
        dims: Number of channels.
        config: Size of the networks and limits of rollouts.
    """

    mean: Tensor
    """Mean of each channel."""

    std: Tensor
    """Standard deviation of each channel; 1 if it is constant."""

    step_size: Tensor
    """Root mean square change of each channel in a step."""

    low: Tensor
    """Smallest value of each channel in a rollout."""

    high: Tensor
    """Largest value of each channel in a rollout."""

    error: Tensor
    """Mean squared error by direction (forward, backward), number of steps and channel; infinite
    where unknown."""

    def __init__(self, dims: int, config: TransitionConfig | None = None) -> None:
        super().__init__()
        self.dims, self.config = dims, config or TransitionConfig()
        width, blocks = self.config.width, self.config.blocks
        self.networks = nn.ModuleList(Perceptron(dims, width, blocks, dims) for _ in range(2))
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("std", torch.ones(dims))
        self.register_buffer("step_size", torch.ones(dims))
        self.register_buffer("low", torch.full((dims,), -torch.inf))
        self.register_buffer("high", torch.full((dims,), torch.inf))
        self.register_buffer("error", torch.full((2, self.config.max_steps, dims), torch.inf))

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
