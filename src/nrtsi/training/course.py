"""What training is asked to do, and what it leaves behind."""

from dataclasses import dataclass

import torch

from nrtsi.config import ModelConfig, ScheduleConfig, TrainConfig
from nrtsi.errors import TrainingError
from nrtsi.missing import Hiding
from nrtsi.model.hints import Hints
from nrtsi.model.networks import Network
from nrtsi.model.tokens import Layout
from nrtsi.training.batches import SEGMENT

__all__ = ["Budget", "Course", "Record", "Trained"]

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
class Course:
    """Everything that decides what is learnt from the data."""

    model: ModelConfig
    layout: Layout
    schedule: ScheduleConfig
    train: TrainConfig
    hiding: Hiding
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

    course: Course
    """As it was settled: with the hints that there are, and the network that suits them."""

    hints: Hints
    history: list[Record]
    steps: int
    seconds: float
    """Time of training, of all sittings together."""

    interrupted: bool = False

    failure: TrainingError | None = None
    """Why training could not go on; the networks are as good as they had been until then."""
