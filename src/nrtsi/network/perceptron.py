"""Layers that read one token by itself."""

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["FARTHEST", "Perceptron"]

# How far from 0 an input is read, where its usual size is 1; beyond, all is alike.
FARTHEST = 16.0


class Perceptron(nn.Module):
    """Linear, blocks of a hidden layer each that are added, linear; says 0 before it is trained.

    Args:
        inputs: Numbers of a token.
        width: Numbers that it is turned into.
        blocks: Hidden layers, each twice as wide.
        outputs: Numbers that are said of it.
    """

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
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, token: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """What the layers say of each token."""
        inside = self.embed(token)
        for block in self.blocks:
            inside = inside + block(inside)
        return self.project(inside)
