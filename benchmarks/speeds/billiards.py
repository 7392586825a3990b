"""The series everything but a single long one is measured on, and a model for them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from nrtsi.bench.datasets.billiards import CHANNELS, billiards
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.masks import Masks
from nrtsi.bench.methods import Ours, TrainingTask
from nrtsi.bench.tables import open_table
from nrtsi.core.events import Listener
from nrtsi.imputer.fitted import FittedModel
from nrtsi.training.plan import Budget

TRAINING, VALIDATION = 256, 32


@dataclass(frozen=True)
class Asked:
    """Series, and what is hidden of each: all but 5 to 20 of 200 points."""

    whole: Part
    hidden: Bool[np.ndarray, "series step dim"]

    @property
    def given(self) -> Part:
        """What a method gets to see."""
        return Part(self.whole.time, np.where(self.hidden, np.nan, self.whole.value))

    def sharing(self, mask: int, series: int) -> Part:
        """The first so many series, all with the mask of one."""
        same = np.broadcast_to(self.hidden[mask], self.hidden[:series].shape)
        return Asked(self.whole.head(series), same).given


def masks() -> Masks:
    """Those of the paper's table."""
    return open_table("billiards").settings[0].masks


def asked(series: int) -> Asked:
    """So many series to fill."""
    whole = Part(*billiards(series, seed=2))
    return Asked(whole, masks().draw(whole, np.random.default_rng(0)))


def lesson(steps: int, listener: Listener | None = None) -> TrainingTask:
    """Series to learn from, for so many steps."""
    return TrainingTask(
        train=Part(*billiards(TRAINING, seed=0)),
        validation=Part(*billiards(VALIDATION, seed=1)),
        channels=CHANNELS,
        masks=masks(),
        budget=Budget(steps=steps),
        listener=listener,
    )


def fitted(steps: int) -> FittedModel:
    """A model of the preset `base`."""
    ours = Ours(seed=0, preset="base")
    ours.fit(lesson(steps))
    return ours.model.fitted_


def digest(series: int) -> str:
    """Eight digits that other series would not have."""
    lessons, about = lesson(0), "to learn from, to validate on and to fill"
    parts = lessons.train, lessons.validation, asked(series).given
    return Dataset("billiards", *parts, CHANNELS, about).digest
