"""Trains one network: steps, validation, plateaus, and when to stop."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from nrtsi.config import TrainConfig
from nrtsi.errors import TrainingError
from nrtsi.network.names import with_prefix
from nrtsi.network.registry import Network
from nrtsi.network.threads import Prefetch, Threads
from nrtsi.network.tokens import Tokens
from nrtsi.training.acceleration import autocast, fastest
from nrtsi.training.distributed import ProcessGroup
from nrtsi.training.muon import Muon
from nrtsi.training.sampler import Batch, WindowSampler

__all__ = ["Trainer", "loss_of", "optimizers_of"]

# Steps that share one drawing of hidden cells: planning is paid for once in so many.
STEPS_A_DRAW = 16

COUNTED = ("step", "stale", "plateaus", "used", "better_at")
"""What a trainer counts, beside its tensors and its best loss."""

WARM_UP = 20


def loss_of(network: nn.Module, batch: Batch) -> Tensor:
    """Sum of the losses of the cells that count.

    Only learning is done in lower precision, where that is faster: what imputes is validated.
    """
    device = batch.truth.device
    with autocast(device) if network.training else nullcontext():
        prediction = network(batch.tokens)
    return (prediction.loss(batch.truth) * batch.counts).sum()


@dataclass
class Trainer:
    """A network being trained, and all that is needed to go on after an interruption.

    Everything random is a function of the seed and of `step`, so the number of steps is the whole
    random state. Of several processes each takes its share of the windows, and all of them come to
    the losses and weights that one would come to with all the windows.
    """

    network: Network
    questions: WindowSampler
    validation: Batch
    config: TrainConfig
    level: int | None
    ranks: ProcessGroup = field(default_factory=ProcessGroup)
    seconds: float | None = None
    """Time to train, where the budget is one of time."""

    step: int = 0
    best_loss: float = math.inf
    stale: int = 0
    plateaus: int = 0
    used: float = 0.0
    """Share of the budget used up."""

    better_at: float = 0.0
    """That share when the loss was last better, or a plateau was noticed."""

    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizers = optimizers_of(self.network, self.config)
        self._drawn: tuple[int, list[Batch]] | None = None
        self._trained: nn.Module | None = None
        device = self.network.device
        self._cores = Threads.of(device) if device.type == "cpu" else Threads(1)
        windows = self._size * STEPS_A_DRAW
        # Not by way of `self`, or a trainer and its threads would keep each other alive.
        self._draw = Prefetch(partial(self.questions.draw, count=windows, level=self.level))
        if not self.best:
            self._keep()

    def close(self) -> None:
        """Ends its threads; it can be trained no more."""
        self._draw.close()
        self._cores.close()

    @property
    def finished(self) -> bool:
        """True where the validation loss has stood still for too long."""
        return self.plateaus >= self.config.plateaus

    def advance(self, fraction: float) -> float:
        """Makes one step, `fraction` of the budget being used up; returns its loss.

        Raises:
            TrainingError: The loss is not finite; the network is as good as it has been.
        """
        self.used = fraction
        windows, cells = self._windows()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate(fraction)
            optimizer.zero_grad(set_to_none=True)
        self.network.train()
        network = self._network(windows)
        if network is self.network:
            loss = self._learn_by_cores(windows, cells)
        else:
            loss = self._learn_together(network, windows, cells)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._cores.map(lambda optimizer: optimizer.step(), self.optimizers)
        self.step += 1
        return loss

    def _learn_by_cores(self, windows: Int[np.ndarray, " window"], cells: int) -> float:
        """The loss, and its gradients in the weights; every core takes a part of the windows."""
        weights = list(self.network.parameters())

        def learn(part: Int[np.ndarray, " window"]) -> tuple[float, tuple[Tensor, ...]]:
            loss = loss_of(self.network, self._gathered(part)) / cells
            return loss.item(), torch.autograd.grad(loss, weights, materialize_grads=True)

        learnt = self._cores.map(learn, self._parts(windows))
        loss = sum(part for part, _ in learnt)
        if not math.isfinite(loss):
            raise self._failure()
        gradients = [gradient for _, gradient in learnt]
        for weight, *parts in zip(weights, *gradients, strict=True):
            weight.grad = torch.stack(parts).sum(dim=0)
        return loss

    def _learn_together(
        self, network: nn.Module, windows: Int[np.ndarray, " window"], cells: int
    ) -> float:
        """The same by a network that is compiled, or that other processes train as well."""
        # The gradients of the processes are averaged, but their losses are parts of a sum.
        part = loss_of(network, self._gathered(windows)) * (self.ranks.size / cells)
        loss = self.ranks.total(part.item())[0] / self.ranks.size
        if not math.isfinite(loss):
            raise self._failure()
        part.backward()  # type: ignore[no-untyped-call]
        return loss

    def _failure(self) -> TrainingError:
        self.network.load_state_dict(self.best)
        return TrainingError(
            f"the loss is not finite at step {self.step + 1}"
            f"{'' if self.level is None else f' of level {self.level}'}; the best weights so "
            f"far are kept. Lower learning_rate (now {self.config.learning_rate:g})"
        )

    def validate(self) -> float:
        """Measures the validation loss, keeps the best weights, and notices a plateau."""
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
        size, ranks = self.config.batch, self.ranks

        def score(first: int) -> tuple[float, int]:
            last = min(first + size, self.validation.size)
            batch = self.validation.pick(np.arange(first, last)).to(self.network.device)
            with torch.inference_mode():
                return float(loss_of(self.network, batch)), int(batch.counts.sum())

        firsts = range(ranks.rank * size, self.validation.size, ranks.size * size)
        scores = self._cores.map(score, firsts)
        loss, cells = (sum(each) for each in zip(*scores, strict=True)) if scores else (0.0, 0)
        loss, everyones = ranks.total(loss, float(cells))
        return loss / max(1.0, everyones)

    def restore_best(self) -> None:
        """Gives the network the weights of its best validation."""
        self.network.load_state_dict(self.best)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain JSON from which `unpack` goes on as if nothing had happened."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"best.{name}": t for name, t in self.best.items()}
        for number, optimizer in enumerate(self.optimizers):
            for parameter, state in optimizer.state_dict()["state"].items():
                for name, tensor in state.items():
                    tensors[f"optimizer.{number}.{parameter}.{name}"] = tensor
        # JSON has no infinity.
        best = self.best_loss if math.isfinite(self.best_loss) else None
        numbers = {name: getattr(self, name) for name in COUNTED}
        return tensors, numbers | {"best_loss": best}

    def unpack(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Takes up what `pack` put down."""
        self.network.load_state_dict(with_prefix(tensors, "network."))
        self.best = with_prefix(tensors, "best.")
        for number, optimizer in enumerate(self.optimizers):
            own: dict[int, dict[str, Tensor]] = {}
            for key, tensor in with_prefix(tensors, f"optimizer.{number}.").items():
                parameter, name = key.split(".", 1)
                own.setdefault(int(parameter), {})[name] = tensor
            optimizer.load_state_dict(optimizer.state_dict() | {"state": own})
        for name in COUNTED:
            setattr(self, name, state[name])
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]

    def _keep(self) -> None:
        self.best = {k: v.detach().clone() for k, v in self.network.state_dict().items()}

    def _network(self, windows: Int[np.ndarray, " window"]) -> nn.Module:
        """The network as it is trained; the first windows show the compiler what is done."""
        if self._trained is None:
            batch = self._gathered(windows)
            fast = fastest(
                self.network,
                lambda network: loss_of(network, batch) / batch.size,
                compiling=self.config.compile,
                seconds=self.seconds,
            )
            self._trained = self.ranks.averaging(fast)
        return self._trained

    def _windows(self) -> tuple[Int[np.ndarray, " window"], int]:
        """This process's share of the step's windows, and how many cells count in all of them."""
        number, turn = divmod(self.step, STEPS_A_DRAW)
        size, ranks = self._size, self.ranks
        pool = self._pool(number)
        order = np.random.default_rng([*self.questions.seed, number, 1]).permutation(pool.size)
        chosen = np.take(order, np.arange(turn * size, (turn + 1) * size), mode="wrap")
        cells = int(pool.counts[torch.from_numpy(chosen)].sum())
        return chosen[ranks.rank :: ranks.size], max(1, cells)

    def _gathered(self, windows: Int[np.ndarray, " window"]) -> Batch:
        return self._pool(self.step // STEPS_A_DRAW).pick(windows).to(self.network.device)

    def _parts(self, windows: Int[np.ndarray, " window"]) -> list[Int[np.ndarray, " part"]]:
        """The windows divided among the threads, like sizes together and as many tokens for each."""
        count = min(self._cores.count, max(1, windows.size // self.network.windows_per_core))
        valid = self._pool(self.step // STEPS_A_DRAW).tokens.valid
        size = valid[torch.from_numpy(windows)].sum(dim=1).numpy()
        order = np.argsort(size, kind="stable")
        tokens = np.cumsum(size[order])
        ends = np.searchsorted(tokens, np.arange(1, count) * tokens[-1] / count)
        return [part for part in np.split(windows[order], ends) if part.size]

    @property
    def _size(self) -> int:
        """Windows in a step, of all processes together."""
        return self.config.batch * self.ranks.size

    def _pool(self, number: int) -> Batch:
        """The windows of a drawing; of as many drawings as there are processes, each makes one."""
        ranks = self.ranks
        first = number - number % ranks.size
        if self._drawn is None or self._drawn[0] != first:
            turn = first + ranks.rank
            drawn = self._draw(turn, following=turn + ranks.size)
            # Sparse data may have no window of this level; the validation part has one at least.
            own = self.validation if drawn is None else drawn
            self._drawn = first, [_closed(each) for each in ranks.exchange(_opened(own))]
        return self._drawn[1][number - first]

    def _rate(self, fraction: float) -> float:
        warm = min(1.0, (self.step + 1) / WARM_UP)
        decay = 1.0 if self.config.decay == "plateau" else max(0.01, 1.0 - fraction)
        plateau = self.config.plateau_factor**self.plateaus
        return self.config.learning_rate * warm * decay * plateau


def _opened(batch: Batch) -> dict[str, Tensor]:
    """All of a batch as tensors."""
    tokens = batch.tokens
    named = {name: getattr(tokens, name) for name in tokens.names()}
    return named | {
        "n_known": torch.tensor(tokens.n_known),
        "truth": batch.truth,
        "counts": batch.counts,
    }


def _closed(tensors: dict[str, Tensor]) -> Batch:
    """The batch that `_opened` took apart."""
    named = {name: tensors[name] for name in Tokens.names()}
    return Batch(
        Tokens(n_known=int(tensors["n_known"]), **named), tensors["truth"], tensors["counts"]
    )


def optimizers_of(network: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of blocks, Adam for the rest."""
    matrices = [
        p for name, p in network.named_parameters() if p.ndim == 2 and ".blocks." in f".{name}"
    ]
    if config.optimizer == "adam":
        matrices = []
    inside = {id(p) for p in matrices}
    rest = [p for p in network.parameters() if id(p) not in inside]
    adam = torch.optim.Adam(rest, lr=config.learning_rate, betas=(0.9, 0.99))
    # Matrices of one shape are worked on together, and each shape by another core.
    shapes = sorted({tuple(sorted(p.shape)) for p in matrices})
    alike = [[p for p in matrices if tuple(sorted(p.shape)) == shape] for shape in shapes]
    return [adam, *(Muon(each, lr=config.learning_rate) for each in alike)]
