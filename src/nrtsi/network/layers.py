"""Feed-forward layers that networks and base predictors share, and their seeded initialisation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig

__all__ = ["Perceptron", "feed_forward", "norm", "seeded"]

_SEEDING = threading.Lock()


class Perceptron(nn.Module):
    """Perceptron with residual blocks of one hidden layer; its output is 0 before training."""

    def __init__(self, inputs: int, width: int, blocks: int, outputs: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width, bias=False),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )
            for _ in range(blocks)
        )
        self.project = nn.Linear(width, outputs)
        for parameter in self.project.parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """Applies the layers to each input."""
        hidden = self.embed(inputs)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.project(hidden)


def feed_forward(config: ModelConfig) -> nn.Sequential:
    """Returns the two linear layers of a transformer block."""
    return nn.Sequential(
        nn.Linear(config.width, config.feed_forward),
        nn.GELU() if config.normalise else nn.ReLU(),
        nn.Linear(config.feed_forward, config.width),
    )


def norm(config: ModelConfig) -> nn.Module:
    """Returns a layer norm, or the identity if `config` does not normalise."""
    # Not an RMS norm: PyTorch has a fused layer norm for CPUs, which is faster.
    return nn.LayerNorm(config.width, bias=False) if config.normalise else nn.Identity()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds PyTorch's random numbers inside the block and restores their state afterwards.

    The state belongs to the process: a lock keeps concurrent fits from sharing it.
    """
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
