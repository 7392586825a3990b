"""Progress events of training and imputation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Event", "ImputeStep", "Listener", "TrainStep"]


@dataclass(frozen=True)
class TrainStep:
    """The optimizer made a step."""

    level: int | None  # level being trained; None if one network serves all levels
    step: int  # steps made so far, of all levels; 0 while a base predictor is trained
    loss: float  # loss of the batch; of a base predictor while that is trained
    valid_loss: float | None
    """Loss on the validation part; None if it was not measured at this step."""

    fraction: float  # share of the budget that is used


@dataclass(frozen=True)
class ImputeStep:
    """A step of the plan is complete."""

    level: int  # coarsest level of the step
    fraction: float  # share of the missing rows that are imputed


Event: TypeAlias = TrainStep | ImputeStep
Listener: TypeAlias = Callable[[Event], None]
