"""What training is asked to do, and what it leaves behind."""

from dataclasses import dataclass

import torch

from nrtsi.config import ModelConfig, ScheduleConfig, TrainConfig
from nrtsi.core.masking import Masking
from nrtsi.errors import TrainingError
from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.base import BasePredictors
from nrtsi.training.sampler import SEGMENT

__all__ = ["Budget", "TrainingPlan", "Record", "Trained"]

Record = dict[str, float | int | None]
"""One validation: level, step, loss of the last batch, validation loss."""


@dataclass(frozen=True)
class Budget:
    """How long to train: in seconds, or in steps over all levels."""

    seconds: float | None = None
    steps: int | None = None

    def fraction(self, steps: int, seconds: float) -> float:
        """Share of the budget used up."""
        if self.steps is not None:
            return steps / self.steps if self.steps else 1.0
        assert self.seconds is not None
        return seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides what is learnt from the data."""

    model: ModelConfig
    layout: TokenLayout
    schedule: ScheduleConfig
    train: TrainConfig
    hiding: Masking
    budget: Budget
    seed: int
    device: torch.device

    stretch: int = SEGMENT
    """Rows of a series that are hidden and planned together, at most."""

    free: bool = False
    """The network was not named, and may be another where that suits the data."""


@dataclass(frozen=True)
class Trained:
    """What training left behind."""

    networks: list[Network]
    """One for each level, finest first, or a single one."""

    plan: TrainingPlan
    """As it was settled: with the hints that there are, and the network that suits them."""

    predictors: BasePredictors
    history: list[Record]
    steps: int
    seconds: float
    """Time of training, of all sittings together."""

    interrupted: bool = False

    failure: TrainingError | None = None
    """Why training could not go on; the networks are as good as they had been until then."""
