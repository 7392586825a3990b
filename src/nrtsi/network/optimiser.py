"""Gradient descent: Muon and Adam, one optimiser step, and the loop that all training shares."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nrtsi.network.threads import Threads

__all__ = [
    "Fraction",
    "Learner",
    "Muon",
    "Optimiser",
    "decay_of",
    "optimise",
    "orthogonal",
]

Fraction: TypeAlias = Callable[[int], float]
"""The fraction of a budget that is used after a number of steps."""

# The learning rate decays to this share of its peak, so that the last steps still learn.
MIN_DECAY = 0.01


@runtime_checkable
class Learner(Protocol):
    """Something that is trained step by step."""

    step: int
    """Number of steps made."""

    @property
    def done(self) -> bool:
        """True if more steps would not help."""
        ...

    def advance(self, fraction: float) -> float:
        """Makes one step, given the fraction of the budget that is used; returns its loss."""
        ...


def optimise(
    learner: Learner,
    budget: Fraction,
    after_step: Callable[[float, float], None],
    *,
    until: float = 1.0,
    min_steps: int = 0,
) -> None:
    """Trains until the budget is used or the learner is done.

    Args:
        learner: What to train.
        budget: The fraction of the budget that is used after a number of steps.
        after_step: Receives the loss of each step and the fraction that is used after it.
        until: Stop at this fraction of the budget, after `min_steps` at least.
        min_steps: Number of steps to make before `until` holds.
    """
    used = budget(learner.step)
    while used < 1.0 and not learner.done:
        if used >= until and learner.step >= min_steps:
            break
        loss = learner.advance(used)
        used = budget(learner.step)
        after_step(loss, used)


class Optimiser:
    """Muon for the matrices of blocks and Adam for the rest, with warm-up and clipped gradients.

    Args:
        module: What to train.
        kind: "muon", or "adam" for all parameters.
        learning_rate: Peak learning rate.
        betas: Decay rates of Adam's averages.
        warm_up: Steps over which the learning rate rises.
        max_norm: Norm at which gradients are clipped.
    """

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
        matrices = [
            parameter
            for name, parameter in module.named_parameters()
            if kind == "muon" and parameter.ndim == 2 and ".blocks." in f".{name}"
        ]
        chosen = {id(parameter) for parameter in matrices}
        rest = [parameter for parameter in self.parameters if id(parameter) not in chosen]
        # Matrices of one shape are updated together, and each shape by another thread.
        shapes = sorted({_shape(parameter) for parameter in matrices})
        groups = [[p for p in matrices if _shape(p) == shape] for shape in shapes]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Adam(rest, lr=learning_rate, betas=betas),
            *(Muon(group, lr=learning_rate) for group in groups),
        ]

    def zero_grad(self) -> None:
        """Removes the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def update(self, step: int, decay: float, threads: Threads | None = None) -> None:
        """Clips the gradients and updates the parameters.

        Args:
            step: Number of steps made before.
            decay: Factor of the learning rate; see `decay_of`.
            threads: Threads that share the work.
        """
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
        """The tensors of the optimisers by name."""
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
    """Linear decay of the learning rate over the budget."""
    return max(MIN_DECAY, 1.0 - fraction)


def _shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(sorted(matrix.shape))


# A quintic whose iteration pushes every singular value towards 1 (Jordan et al., 2024).
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(matrix: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch row column"]:
    """The nearest matrix with singular values of about 1, by five Newton-Schulz iterations.

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
    """Muon with Nesterov momentum, for parameters that are matrices.

    Args:
        params: Matrices.
        lr: Learning rate; an update has the length of an Adam step of this rate.
        momentum: Weight of the previous direction.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Updates every matrix; those of one shape, or of its transpose, together."""
        for group in self.param_groups:
            shapes: dict[tuple[int, ...], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(tuple(sorted(parameter.shape)), []).append(parameter)
            for shape, parameters in shapes.items():
                self._update(parameters, group, length=group["lr"] * 0.4 * shape[-1] ** 0.5)

    def _update(self, parameters: list[Tensor], group: dict[str, Any], length: float) -> None:
        """Updates matrices of one shape; the root mean square of an entry is that of Adam."""
        tall = [p.shape[0] > p.shape[1] for p in parameters]
        directions = self._directions(parameters, group)
        flat = [d.mT if t else d for d, t in zip(directions, tall, strict=True)]
        update = orthogonal(torch.stack(flat)).unbind()
        update_of = [u.mT if t else u for u, t in zip(update, tall, strict=True)]
        torch._foreach_add_(parameters, update_of, alpha=-length)

    def _directions(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        momentum = group["momentum"]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        old = [self.state[parameter]["momentum"] for parameter in parameters]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(old, grads, 1 - momentum)
        return list(torch._foreach_lerp(grads, old, momentum))
