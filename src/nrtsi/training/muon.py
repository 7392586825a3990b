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
        """Moves every matrix; those of one shape together, since small products are slow alone.

        A matrix and one that lies on its side are of one shape.
        """
        for group in self.param_groups:
            shapes: dict[tuple[int, ...], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(tuple(sorted(parameter.shape)), []).append(parameter)
            for shape, parameters in shapes.items():
                self._move(parameters, group, length=group["lr"] * 0.4 * shape[-1] ** 0.5)

    def _move(self, parameters: list[Tensor], group: dict[str, Any], length: float) -> None:
        """Moves matrices of one shape; the root mean square of an entry is as large as Adam's."""
        tall = [p.shape[0] > p.shape[1] for p in parameters]
        directions = self._directions(parameters, group)
        lying = [d.mT if t else d for d, t in zip(directions, tall, strict=True)]
        update = orthogonal(torch.stack(lying)).unbind()
        upright = [u.mT if t else u for u, t in zip(update, tall, strict=True)]
        torch._foreach_add_(parameters, upright, alpha=-length)

    def _directions(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        momentum = group["momentum"]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        old = [self.state[parameter]["momentum"] for parameter in parameters]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(old, grads, 1 - momentum)
        return list(torch._foreach_lerp(grads, old, momentum))
