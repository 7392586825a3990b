"""Gradient descent: Muon and Adam, one optimiser step, and the loop that all training shares."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nrtsi.network.threads import Threads

__all__ = ["Fraction", "Learner", "Muon", "Optimiser", "decay_of", "optimise", "orthogonal"]

Fraction: TypeAlias = Callable[[int], float]
"""The fraction of a budget that is used after a number of steps."""

ReportStep: TypeAlias = Callable[[float, float], None]
"""Receives the loss of each step and the fraction that is used after it."""

# The learning rate decays to this share of its peak, so that the last steps still learn.
MIN_DECAY = 0.01


@runtime_checkable
class Learner(Protocol):
    """Something that is trained step by step."""

    step: int  # number of steps made

    @property
    def done(self) -> bool:
        """True if more steps would not help."""

    def advance(self, fraction: float) -> float:
        """Makes one step, given the fraction of the budget that is used; returns its loss."""


def optimise(
    learner: Learner,
    budget: Fraction,
    report: ReportStep,
    *,
    until: float = 1.0,
    min_steps: int = 0,
) -> None:
    """Trains until the budget is used, the learner is done, or `until` and `min_steps` hold."""
    used = budget(learner.step)
    while used < 1.0 and not learner.done and (used < until or learner.step < min_steps):
        loss = learner.advance(used)
        used = budget(learner.step)
        report(loss, used)


class Optimiser:
    """Muon for the matrices of blocks and Adam for the rest, or ("adam") Adam for all."""

    def __init__(
        self,
        module: nn.Module,
        kind: str,
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        warm_up: int = 1,
        max_norm: float = 1.0,
    ) -> None:
        self.parameters = list(module.parameters())
        self.learning_rate, self.warm_up, self.max_norm = learning_rate, warm_up, max_norm
        rest: list[Tensor] = []
        shapes: dict[tuple[int, ...], list[Tensor]] = {}
        for name, parameter in module.named_parameters():
            if kind == "muon" and parameter.ndim == 2 and ".blocks." in f".{name}":
                shapes.setdefault(tuple(sorted(parameter.shape)), []).append(parameter)
            else:
                rest.append(parameter)
        # Matrices of one shape are updated together, and each shape by another thread.
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Adam(rest, lr=learning_rate, betas=betas),
            *(Muon(shapes[shape], lr=learning_rate) for shape in sorted(shapes)),
        ]

    def zero_grad(self) -> None:
        """Removes the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def update(self, step: int, decay: float, threads: Threads | None = None) -> None:
        """Clips the gradients and updates the parameters, after `step` earlier updates."""
        rate = self.learning_rate * min(1.0, (step + 1) / self.warm_up) * decay
        nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        (threads or Threads(1)).map(lambda optimizer: optimizer.step(), self.optimizers)

    def minimise(self, loss: Float[Tensor, ""], step: int, decay: float) -> None:
        """Makes one step that lowers `loss`."""
        self.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.update(step, decay)

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of the optimisers by name."""
        return {
            f"{number}.{parameter}.{name}": tensor
            for number, optimizer in enumerate(self.optimizers)
            for parameter, state in optimizer.state_dict()["state"].items()
            for name, tensor in state.items()
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restores what `state` returned."""
        states: list[dict[int, dict[str, Tensor]]] = [{} for _ in self.optimizers]
        for key, tensor in tensors.items():
            number, parameter, name = key.split(".", 2)
            states[int(number)].setdefault(int(parameter), {})[name] = tensor
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def decay_of(fraction: float) -> float:
    """Returns the linear decay of the learning rate over the budget."""
    return max(MIN_DECAY, 1.0 - fraction)


# A quintic whose iteration pushes every singular value towards 1 (Jordan et al., 2024).
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(matrix: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch row column"]:
    """Returns the nearest matrix with singular values of about 1, by five Newton-Schulz steps.

    It has the precision of its argument; torch's own runs in bfloat16, which is slow on a CPU.
    """
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, for matrices of one shape, or of its transpose.

    The root mean square of an update is that of an Adam step with this learning rate.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Updates all matrices together."""
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            if not matrices:
                continue
            directions = _flipped(self._directions(matrices, group["momentum"]), matrices)
            updates = _flipped(orthogonal(torch.stack(directions)).unbind(), matrices)
            length = group["lr"] * 0.4 * max(matrices[0].shape) ** 0.5
            torch._foreach_add_(matrices, updates, alpha=-length)

    def _directions(self, matrices: list[Tensor], momentum: float) -> list[Tensor]:
        """Updates the averages of the gradients and returns the Nesterov directions."""
        for matrix in matrices:
            if "momentum" not in self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        averages = [self.state[matrix]["momentum"] for matrix in matrices]
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, averages, momentum))


def _flipped(tensors: Iterable[Tensor], matrices: list[Tensor]) -> list[Tensor]:
    """Transposes the tensors of tall matrices."""
    pairs = zip(tensors, matrices, strict=True)
    return [t.mT if matrix.shape[0] > matrix.shape[1] else t for t, matrix in pairs]
