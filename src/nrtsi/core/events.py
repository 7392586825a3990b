"""What long work tells whoever listens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Event", "ImputeStep", "Listener", "TrainStep"]


@dataclass(frozen=True)
class TrainStep:
    """The optimizer made a step."""

    level: int | None
    """Level being trained; None where one network serves all."""

    step: int
    """Steps made so far, over all levels; 0 while it is learnt how rows go on."""

    loss: float
    """Loss of this step's batch; of the flow, in a measure of its own, where that is learnt."""

    valid_loss: float | None
    """Loss on the validation part, at the steps where it was measured."""

    fraction: float
    """Share of the budget used so far."""


@dataclass(frozen=True)
class ImputeStep:
    """A pass of the plan was carried out."""

    level: int
    """Coarsest level of the pass."""

    fraction: float
    """Share of the missing rows that are done."""


Event: TypeAlias = TrainStep | ImputeStep
Listener: TypeAlias = Callable[[Event], None]
