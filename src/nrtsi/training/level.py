"""Trains one network: steps, validation, plateaus, and when to stop."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nrtsi.config import TrainConfig
from nrtsi.errors import TrainingError
from nrtsi.model.rows import RowNetwork
from nrtsi.training.batches import Batch, Questions
from nrtsi.training.muon import Muon

__all__ = ["Trainer", "loss_of", "under"]

# Steps that share one drawing of hidden cells: planning is paid for once in so many.
STEPS_A_DRAW = 16
WARM_UP = 20


def loss_of(network: RowNetwork, batch: Batch) -> Tensor:
    """Mean loss over the cells that count."""
    cells = network(batch.tokens).loss(batch.truth)
    counts = batch.counts.to(cells.dtype)
    return (cells * counts).sum() / counts.sum().clamp(min=1.0)


@dataclass
class Trainer:
    """A network being trained, and all that is needed to go on after an interruption.

    Everything random is a function of the seed and of `step`, so the number of steps is the whole
    random state.
    """

    network: RowNetwork
    questions: Questions
    validation: Batch
    config: TrainConfig
    level: int | None
    step: int = 0
    best_loss: float = math.inf
    stale: int = 0
    plateaus: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizers = _optimizers(self.network, self.config)
        self._drawn: tuple[int, Batch] | None = None
        if not self.best:
            self._keep()

    @property
    def finished(self) -> bool:
        """True where the validation loss has stood still for too long."""
        return self.plateaus >= self.config.plateaus

    def advance(self, fraction: float) -> float:
        """Makes one step, `fraction` of the budget being used up; returns its loss.

        Raises:
            TrainingError: The loss is not finite; the network is as good as it has been.
        """
        batch = self._batch().to(self.network.device)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate(fraction)
            optimizer.zero_grad(set_to_none=True)
        self.network.train()
        loss = loss_of(self.network, batch)
        if not torch.isfinite(loss):
            self.network.load_state_dict(self.best)
            raise TrainingError(
                f"the loss is not finite at step {self.step + 1}"
                f"{'' if self.level is None else f' of level {self.level}'}; the best weights so "
                f"far are kept. Lower learning_rate (now {self.config.learning_rate:g})"
            )
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        return float(loss.detach())

    def validate(self) -> float:
        """Measures the validation loss, keeps the best weights, and notices a plateau."""
        loss = self._validation_loss()
        if loss < self.best_loss:
            self.best_loss, self.stale = loss, 0
            self._keep()
        else:
            self.stale += 1
        if self.stale > self.config.patience:
            self.plateaus, self.stale = self.plateaus + 1, 0
        return loss

    def _validation_loss(self) -> float:
        self.network.eval()
        total, cells = 0.0, 0
        size = self.config.batch
        with torch.inference_mode():
            for first in range(0, self.validation.size, size):
                last = min(first + size, self.validation.size)
                batch = self.validation.pick(np.arange(first, last)).to(self.network.device)
                count = int(batch.counts.sum())
                total += float(loss_of(self.network, batch)) * count
                cells += count
        return total / max(1, cells)

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
        numbers = {"step": self.step, "stale": self.stale, "plateaus": self.plateaus}
        return tensors, numbers | {"best_loss": best}

    def unpack(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Takes up what `pack` put down."""
        self.network.load_state_dict(under(tensors, "network."))
        self.best = under(tensors, "best.")
        for number, optimizer in enumerate(self.optimizers):
            own: dict[int, dict[str, Tensor]] = {}
            for key, tensor in under(tensors, f"optimizer.{number}.").items():
                parameter, name = key.split(".", 1)
                own.setdefault(int(parameter), {})[name] = tensor
            optimizer.load_state_dict(optimizer.state_dict() | {"state": own})
        self.step, self.stale, self.plateaus = state["step"], state["stale"], state["plateaus"]
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]

    def _keep(self) -> None:
        self.best = {k: v.detach().clone() for k, v in self.network.state_dict().items()}

    def _batch(self) -> Batch:
        number, turn = divmod(self.step, STEPS_A_DRAW)
        size = self.config.batch
        if self._drawn is None or self._drawn[0] != number:
            drawn = self.questions.draw(number, size * STEPS_A_DRAW, self.level)
            # Sparse data may have no window of this level; the validation part has one at least.
            self._drawn = number, self.validation if drawn is None else drawn
        pool = self._drawn[1]
        order = np.random.default_rng([*self.questions.seed, number, 1]).permutation(pool.size)
        return pool.pick(np.take(order, np.arange(turn * size, (turn + 1) * size), mode="wrap"))

    def _rate(self, fraction: float) -> float:
        warm = min(1.0, (self.step + 1) / WARM_UP)
        decay = 1.0 if self.config.decay == "plateau" else max(0.01, 1.0 - fraction)
        plateau = self.config.plateau_factor**self.plateaus
        return self.config.learning_rate * warm * decay * plateau


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, named by what follows it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _optimizers(network: RowNetwork, config: TrainConfig) -> list[torch.optim.Optimizer]:
    matrices = [
        p for name, p in network.named_parameters() if p.ndim == 2 and ".blocks." in f".{name}"
    ]
    if config.optimizer == "adam":
        matrices = []
    inside = {id(p) for p in matrices}
    rest = [p for p in network.parameters() if id(p) not in inside]
    adam = torch.optim.Adam(rest, lr=config.learning_rate, betas=(0.9, 0.99))
    return [adam, Muon(matrices, lr=config.learning_rate)] if matrices else [adam]
