"""`Trainer`: trains one network; steps, validation, plateaus and early stopping."""

import logging
import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from nrtsi.config import TrainConfig
from nrtsi.core.state import with_prefix
from nrtsi.errors import TrainingError
from nrtsi.network.optimiser import Optimiser, decay_of
from nrtsi.network.registry import Network
from nrtsi.network.threads import Prefetch, Threads
from nrtsi.training.distributed import ProcessGroup
from nrtsi.training.sampler import Batch, WindowSampler

__all__ = ["Trainer", "autocast", "compiled", "fast_at_bfloat16", "loss_of"]

log = logging.getLogger(__name__)

Indices = Int[np.ndarray, " _"]
"""Windows of a pool."""

COUNTERS = ("step", "stale", "plateaus", "used", "better_at")
"""Fields of a trainer that a checkpoint keeps beside its tensors and its best loss."""


def loss_of(network: nn.Module, batch: Batch) -> Tensor:
    """Sum of the losses of the hidden cells; only training may use lower precision."""
    with autocast(batch.truth.device) if network.training else nullcontext():
        prediction = network(batch.tokens)
    return (prediction.loss(batch.truth) * batch.counts).sum()


@dataclass
class Trainer:
    """A network in training, and the state that resumes it.

    All random numbers are functions of the seed and of `step`. Each of several processes takes a
    share of the windows; all have the losses and weights of one process with all the windows.
    """

    network: Network
    sampler: WindowSampler
    validation: Batch
    config: TrainConfig
    level: int | None
    processes: ProcessGroup = field(default_factory=ProcessGroup)

    step: int = 0
    best_loss: float = math.inf
    stale: int = 0  # validations since the loss was last lower
    plateaus: int = 0
    used: float = 0.0  # fraction of the budget that is used
    better_at: float = 0.0  # that fraction when the loss was last lower, or at the last plateau
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config, rate = self.config, self.config.learning_rate
        kind, betas, warm_up = config.optimizer, config.betas, config.warm_up
        self.optimiser = Optimiser(self.network, kind, rate, betas=betas, warm_up=warm_up)
        self._drawn: tuple[int, Batch] | None = None
        self._trained: nn.Module | None = None
        device = self.network.device
        self._threads = Threads.of(device) if device.type == "cpu" else Threads(1)
        windows = self._size * config.steps_per_draw
        # Not a method: a trainer and its threads would keep each other alive.
        self._draw = Prefetch(partial(self.sampler.draw, count=windows, level=self.level))
        if not self.best:
            self._keep()

    def close(self) -> None:
        """Ends the threads."""
        self._draw.close()
        self._threads.close()

    @property
    def done(self) -> bool:
        """True if the validation loss has not fallen for too long."""
        return self.plateaus >= self.config.plateaus

    def advance(self, fraction: float) -> float:
        """Makes one step, given the fraction of the budget that is used; returns its loss.

        Raises `TrainingError` if it is not finite; the network then has the best weights so far.
        """
        self.used = fraction
        windows, cells = self._windows()
        self.optimiser.zero_grad()
        self.network.train()
        network = self._network(windows)
        if network is self.network:
            loss = self._backward_by_threads(windows, cells)
        else:
            loss = self._backward(network, windows, cells)
        decay = 1.0 if self.config.decay == "plateau" else decay_of(fraction)
        plateau = self.config.plateau_factor**self.plateaus
        self.optimiser.update(self.step, decay * plateau, self._threads)
        self.step += 1
        return loss

    def _backward_by_threads(self, windows: Indices, cells: int) -> float:
        """Computes the loss and its gradients; every thread takes a part of the windows."""
        weights = list(self.network.parameters())

        def learn(part: Indices) -> tuple[float, tuple[Tensor, ...]]:
            loss = loss_of(self.network, self._gather(part)) / cells
            return loss.item(), torch.autograd.grad(loss, weights, materialize_grads=True)

        results = self._threads.map(learn, self._parts(windows))
        loss = self._finite(sum(part for part, _ in results))
        for weight, *parts in zip(weights, *(gradient for _, gradient in results), strict=True):
            weight.grad = torch.stack(parts).sum(dim=0)
        return loss

    def _backward(self, network: nn.Module, windows: Indices, cells: int) -> float:
        """The same for a network that is compiled, or that several processes train."""
        # Gradients are averaged over the processes; losses are parts of a sum.
        part = loss_of(network, self._gather(windows)) * (self.processes.size / cells)
        loss = self._finite(self.processes.total(part.item())[0] / self.processes.size)
        part.backward()  # type: ignore[no-untyped-call]
        return loss

    def _finite(self, loss: float) -> float:
        if math.isfinite(loss):
            return loss
        self.restore_best()
        raise TrainingError(
            f"the loss is not finite at step {self.step + 1}"
            f"{'' if self.level is None else f' of level {self.level}'}; the best weights so "
            f"far are kept. Lower learning_rate (now {self.config.learning_rate:g})"
        )

    def validate(self) -> float:
        """Measures the validation loss, keeps the best weights and counts plateaus."""
        loss = self._validation_loss()
        if loss < self.best_loss:
            self.best_loss, self.stale, self.better_at = loss, 0, self.used
            self._keep()
        else:
            self.stale += 1
        waited = self.used - self.better_at >= self.config.patient_for
        if self.stale > self.config.patience and waited:
            self.plateaus, self.stale, self.better_at = self.plateaus + 1, 0, self.used
        return loss

    def _validation_loss(self) -> float:
        self.network.eval()
        size, processes = self.config.batch, self.processes

        def score(first: int) -> tuple[float, int]:
            last = min(first + size, self.validation.size)
            batch = self.validation.pick(np.arange(first, last)).to(self.network.device)
            with torch.inference_mode():
                return float(loss_of(self.network, batch)), int(batch.counts.sum())

        firsts = range(processes.rank * size, self.validation.size, processes.size * size)
        scores = self._threads.map(score, firsts)
        loss, cells = (sum(each) for each in zip(*scores, strict=True)) if scores else (0.0, 0)
        loss, total = processes.total(loss, float(cells))
        return loss / max(1.0, total)

    def restore_best(self) -> None:
        """Gives the network the weights of its best validation."""
        self.network.load_state_dict(self.best)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `load_state` resumes."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"best.{name}": t for name, t in self.best.items()}
        tensors |= {f"optimiser.{name}": t for name, t in self.optimiser.state().items()}
        best = self.best_loss if math.isfinite(self.best_loss) else None  # JSON has no infinity
        return tensors, {name: getattr(self, name) for name in COUNTERS} | {"best_loss": best}

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.network.load_state_dict(with_prefix(tensors, "network."))
        self.best = with_prefix(tensors, "best.")
        self.optimiser.load_state(with_prefix(tensors, "optimiser."))
        for name in COUNTERS:
            setattr(self, name, state[name])
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]

    def _keep(self) -> None:
        self.best = {k: v.detach().clone() for k, v in self.network.state_dict().items()}

    def _network(self, windows: Indices) -> nn.Module:
        """The network as it is trained: compiled if requested, shared by several processes."""
        if self._trained is None:
            network: nn.Module = self.network
            if self.config.compile:
                batch = self._gather(windows)
                network = compiled(self.network, lambda each: loss_of(each, batch) / batch.size)
            self._trained = self.processes.averaging(network)
        return self._trained

    def _windows(self) -> tuple[Indices, int]:
        """The windows of this process in the step, and the number of hidden cells in all."""
        number, turn = divmod(self.step, self.config.steps_per_draw)
        size, processes = self._size, self.processes
        pool = self._pool()
        order = np.random.default_rng([*self.sampler.seed, number, 1]).permutation(pool.size)
        chosen = np.take(order, np.arange(turn * size, (turn + 1) * size), mode="wrap")
        cells = int(pool.counts[torch.from_numpy(chosen)].sum())
        return chosen[processes.rank :: processes.size], max(1, cells)

    def _gather(self, windows: Indices) -> Batch:
        return self._pool().pick(windows).to(self.network.device)

    def _parts(self, windows: Indices) -> list[Indices]:
        """Divides the windows among the threads: equal numbers of tokens, similar sizes."""
        count = min(self._threads.count, max(1, windows.size // self.network.windows_per_core))
        size = self._pool().tokens.valid[torch.from_numpy(windows)].sum(dim=1).numpy()
        order = np.argsort(size, kind="stable")
        tokens = np.cumsum(size[order])
        ends = np.searchsorted(tokens, np.arange(1, count) * tokens[-1] / count)
        return [part for part in np.split(windows[order], ends) if part.size]

    @property
    def _size(self) -> int:
        """Windows per step over all processes."""
        return self.config.batch * self.processes.size

    def _pool(self) -> Batch:
        """The windows that the current steps share; every process draws all of them."""
        number = self.step // self.config.steps_per_draw
        if self._drawn is None or self._drawn[0] != number:
            drawn = self._draw(number, following=number + 1)
            # Sparse data may have no window of this level; the validation part has one.
            self._drawn = number, self.validation if drawn is None else drawn
        return self._drawn[1]


def fast_at_bfloat16(device: torch.device) -> bool:
    """True for GPUs with bfloat16 in hardware.

    Never for a CPU: PyTorch does not tell which have it, and others are forty times slower.
    """
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """Multiplies matrices in bfloat16 if that is fast; weights stay in float32."""
    fast = fast_at_bfloat16(device)
    return torch.autocast(device.type, torch.bfloat16) if fast else nullcontext()


def compiled(network: nn.Module, loss: Callable[[nn.Module], Tensor]) -> nn.Module:
    """The compiled network, which shares the weights; the network itself if that fails.

    The backward pass of `loss`, on some batch, is compiled too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler warns of what it leaves alone
            fast = cast(nn.Module, torch.compile(network))
            loss(fast).backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        # Compilers fail in many ways, and training works without one.
        reason = str(error).strip().partition("\n")[0]
        log.warning("the network cannot be compiled here (%s); training goes on without", reason)
        return network
    finally:
        network.zero_grad(set_to_none=True)
    return fast
