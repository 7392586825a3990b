"""Muon: momentum whose every update of a matrix is made orthogonal."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["Muon", "orthogonal"]

# A quintic whose iteration pushes every singular value towards 1 (Jordan et al., 2024).
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(matrix: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch row column"]:
    """The nearest matrix with singular values of about 1, by five Newton-Schulz iterations.

    In the precision of its argument: torch's own runs in bfloat16, which a CPU is slow at.
    """
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, for parameters that are matrices.

    Args:
        params: Matrices.
        lr: Learning rate; the length of an update is that of an Adam step of this rate.
        momentum: Share of the old direction that is kept.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Moves every matrix; those of one shape together, since small products are slow alone."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in shapes.items():
                update = orthogonal(self._directions(parameters, group))
                # Root mean square of an entry as large as Adam's, whatever the shape.
                length = group["lr"] * 0.4 * max(shape) ** 0.5
                torch._foreach_add_(parameters, list(update.unbind()), alpha=-length)

    def _directions(
        self, parameters: list[Tensor], group: dict[str, Any]
    ) -> Float[Tensor, "matrix row column"]:
        momentum = group["momentum"]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        old = [self.state[parameter]["momentum"] for parameter in parameters]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(old, grads, 1 - momentum)
        return torch.stack(torch._foreach_lerp(grads, old, momentum))
