"""The Billiards series that are imputed, and a model of them."""

import numpy as np

from nrtsi.bench.datasets.billiards import CHANNELS, billiards
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.methods import NRTSIMethod, TrainingTask
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import Task
from nrtsi.core.events import Listener
from nrtsi.imputer.fitted import FittedModel
from nrtsi.training.plan import Budget

__all__ = ["billiards_task", "data_digest", "fitted_model", "training_task"]

TRAINING, VALIDATION = 256, 32
"""Series; enough to train for a few steps."""


def billiards_task(series: int) -> Task:
    """Series to impute, each with its own mask: 5 to 20 of 200 points are observed."""
    truth = Part(*billiards(series, seed=2))
    masks = open_table("billiards").settings[0].masks
    return with_mask(truth, masks.draw(truth, np.random.default_rng(0)))


def with_mask(truth: Part, hidden: np.ndarray) -> Task:
    """Series with these cells hidden."""
    return Task(Part(truth.time, np.where(hidden, np.nan, truth.value)), truth, hidden)


def training_task(steps: int, listener: Listener | None = None) -> TrainingTask:
    """A training of this many steps."""
    return TrainingTask(
        train=Part(*billiards(TRAINING, seed=0)),
        validation=Part(*billiards(VALIDATION, seed=1)),
        channels=CHANNELS,
        masks=open_table("billiards").settings[0].masks,
        budget=Budget(steps=steps),
        listener=listener,
    )


def fitted_model(steps: int) -> FittedModel:
    """A model of the preset `base`."""
    method = NRTSIMethod(seed=0, preset="base")
    method.fit(training_task(steps))
    return method.model.fitted_


def data_digest(series: int) -> str:
    """Identifies the series."""
    task = training_task(0)
    parts = task.train, task.validation, billiards_task(series).given
    return Dataset("billiards", *parts, CHANNELS, "").digest
