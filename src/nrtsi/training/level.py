"""Trains one network: steps, validation, plateaus, and when to stop."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nrtsi.config import TrainConfig
from nrtsi.errors import TrainingError
from nrtsi.model.rows import RowNetwork
from nrtsi.model.tokens import Tokens
from nrtsi.threads import Ahead
from nrtsi.training.acceleration import autocast, fastest
from nrtsi.training.batches import Batch, Questions
from nrtsi.training.muon import Muon
from nrtsi.training.ranks import Ranks

__all__ = ["Trainer", "loss_of", "under"]

# Steps that share one drawing of hidden cells: planning is paid for once in so many.
STEPS_A_DRAW = 16
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

    network: RowNetwork
    questions: Questions
    validation: Batch
    config: TrainConfig
    level: int | None
    ranks: Ranks = field(default_factory=Ranks)
    seconds: float | None = None
    """Time to train, where the budget is one of time."""

    step: int = 0
    best_loss: float = math.inf
    stale: int = 0
    plateaus: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizers = _optimizers(self.network, self.config)
        self._drawn: tuple[int, list[Batch]] | None = None
        self._trained: nn.Module | None = None
        windows = self._size * STEPS_A_DRAW
        self._draw = Ahead(lambda number: self.questions.draw(number, windows, self.level))
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
        batch, cells = self._batch()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate(fraction)
            optimizer.zero_grad(set_to_none=True)
        self.network.train()
        # The gradients of the processes are averaged, but their losses are parts of a sum.
        part = loss_of(self._network(batch), batch) * (self.ranks.size / cells)
        loss = self.ranks.total(part.item())[0] / self.ranks.size
        if not math.isfinite(loss):
            raise self._failure()
        part.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
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
            self.best_loss, self.stale = loss, 0
            self._keep()
        else:
            self.stale += 1
        if self.stale > self.config.patience:
            self.plateaus, self.stale = self.plateaus + 1, 0
        return loss

    def _validation_loss(self) -> float:
        self.network.eval()
        loss, cells = 0.0, 0
        size, ranks = self.config.batch, self.ranks
        with torch.inference_mode():
            for first in range(ranks.rank * size, self.validation.size, ranks.size * size):
                last = min(first + size, self.validation.size)
                batch = self.validation.pick(np.arange(first, last)).to(self.network.device)
                loss += float(loss_of(self.network, batch))
                cells += int(batch.counts.sum())
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

    def _network(self, batch: Batch) -> nn.Module:
        """The network as it is trained; its first batch shows the compiler what is done."""
        if self._trained is None:
            fast = fastest(
                self.network,
                lambda network: loss_of(network, batch) / batch.size,
                compiling=self.config.compile,
                seconds=self.seconds,
            )
            self._trained = self.ranks.averaging(fast)
        return self._trained

    def _batch(self) -> tuple[Batch, int]:
        """This process's share of the step's windows, and how many cells count in all of them."""
        number, turn = divmod(self.step, STEPS_A_DRAW)
        size, ranks = self._size, self.ranks
        pool = self._pool(number)
        order = np.random.default_rng([*self.questions.seed, number, 1]).permutation(pool.size)
        chosen = np.take(order, np.arange(turn * size, (turn + 1) * size), mode="wrap")
        cells = int(pool.counts[torch.from_numpy(chosen)].sum())
        own = pool.pick(chosen[ranks.rank :: ranks.size])
        return own.to(self.network.device), max(1, cells)

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


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, named by what follows it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _opened(batch: Batch) -> dict[str, Tensor]:
    """All of a batch as tensors."""
    tokens = batch.tokens
    named = {name: getattr(tokens, name) for name in tokens.names()}
    return named | {"obs": torch.tensor(tokens.obs), "truth": batch.truth, "counts": batch.counts}


def _closed(tensors: dict[str, Tensor]) -> Batch:
    """The batch that `_opened` took apart."""
    named = {name: tensors[name] for name in Tokens.names()}
    return Batch(Tokens(obs=int(tensors["obs"]), **named), tensors["truth"], tensors["counts"])


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
