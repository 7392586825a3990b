"""The methods that are compared: nrtsi, baselines and competitors behind one protocol."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Imputer
from nrtsi.baselines.knn_sequences import KNNSequences
from nrtsi.bench.competitors import COMPETITORS, QUICK_SIZES, Competitor
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.tables import Masks
from nrtsi.core.events import Listener
from nrtsi.errors import InputError, NrtsiError
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables import Columns
from nrtsi.training.settings import Budget

__all__ = [
    "KINDS",
    "Method",
    "NRTSIMethod",
    "TrainingTask",
    "expected_errors",
    "is_trained",
    "method_of",
    "quick_settings",
]

SeriesValues = Float[np.ndarray, "series step dim"]
SeriesDraws = Float[np.ndarray, "draw series step dim"]


@dataclass(frozen=True)
class TrainingTask:
    """What every method is trained on, and for how long."""

    data: Dataset
    masks: Masks
    """What is hidden in training."""

    budget: Budget

    checkpoint: Path | None = None
    """Where a long training saves its state, and resumes from."""

    listener: Listener | None = None


class Method:
    """An imputation method."""

    parameters: int | None = None
    """Number of trained parameters; None for methods without any."""

    seconds: float | None = None
    """Training time over all sessions of a training that was resumed."""

    def fit(self, task: TrainingTask) -> None:
        """Trains the method for the budget."""
        raise NotImplementedError

    def impute(self, given: Part, draws: int) -> tuple[SeriesValues, SeriesDraws | None]:
        """Returns a value for every cell, and draws on request if the method can draw."""
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Saves the trained model, if it can be saved without code."""


class BaselineMethod(Method):
    """A baseline, fitted to the training series."""

    def __init__(self, make: Callable[..., Imputer], seed: int, **settings: Any) -> None:
        self.imputer = make(**settings)

    def fit(self, task: TrainingTask) -> None:
        """Fits the baseline."""
        self.imputer.fit_series(task.data.train.to_set())

    def impute(self, given: Part, draws: int) -> tuple[SeriesValues, None]:
        """Returns a value for every cell."""
        return self.imputer.impute_series(given.to_set()).reshape(given.value.shape), None


class NRTSIMethod(Method):
    """NRTSI, through its public interface."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.seed, self.settings = seed, settings

    def fit(self, task: TrainingTask) -> None:
        """Trains for the budget, or resumes a training that was interrupted."""
        data, self.channels = task.data, task.data.channels
        setting = "regular" if data.train.even else "irregular"
        if task.masks.rows is None:
            setting = "partial"
        settings = {"setting": setting, "mask": "points"} | self.settings
        hidden = task.masks.shares(data.train.value.shape[1])
        settings["train"] = {"hidden": hidden} | settings.get("train", {})
        if task.budget.seconds is not None:
            settings["budget"] = task.budget.seconds
        self.model = NRTSI(
            steps=task.budget.steps, seed=self.seed, unit=1.0, on_empty="skip", **settings
        )
        self.model.fit(
            data.train.value,
            times=data.train.time,
            validation=data.validation.value,
            validation_times=data.validation.time,
            listener=task.listener,
            checkpoint=task.checkpoint,
            resume=True,
        )
        if self.model.interrupted_:
            raise KeyboardInterrupt  # an unfinished training must not be scored
        self.seconds = self.model.seconds_
        self.parameters = _parameters(self.model)

    def impute(self, given: Part, draws: int) -> tuple[SeriesValues, SeriesDraws | None]:
        """Returns the mean, and draws on request."""
        mean = self.model.impute(given.value, times=given.time)
        if not draws:
            return mean, None
        return mean, self.model.sample(given.value, times=given.time, draws=draws)

    def save(self, path: Path) -> None:
        """Saves the model with the columns of the table that `nrtsi data make` writes."""
        model = copy(self.model)  # it was fitted on arrays, whose columns have no names
        model.columns_ = Columns(time="time", id="series", values=self.channels)
        model.save(path)

    @classmethod
    def load(cls, path: Path) -> "NRTSIMethod":
        """Loads a model that `save` wrote."""
        model = load(path)
        method = cls(model.seed)
        method.channels = model.columns_.values or ()
        model.columns_ = Columns(values=_numbers(method.channels))  # as if fitted on arrays
        method.model, method.parameters = model, _parameters(model)
        return method

    def has_channels(self, channels: tuple[str, ...]) -> bool:
        """Whether it was trained on these channels; channels of arrays are named by number."""
        return self.channels in (channels, _numbers(channels))


def _numbers(channels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(index) for index in range(len(channels)))


def _parameters(model: NRTSI) -> int:
    """Parameters of the networks; one that several levels share counts once."""
    networks = set(model.fitted_.engine.networks)
    return sum(p.numel() for net in networks for p in net.parameters())


class CompetitorMethod(Method):
    """A competitor from PyPOTS."""

    def __init__(self, name: str, seed: int, **sizes: Any) -> None:
        self.competitor = Competitor(name, seed=seed, **sizes)

    def fit(self, task: TrainingTask) -> None:
        """Trains for the budget."""
        self.competitor.fit(task.data.train, task.data.validation, task.masks.draw, task.budget)
        self.parameters = self.competitor.parameters

    def impute(self, given: Part, draws: int) -> tuple[SeriesValues, SeriesDraws | None]:
        """Returns the competitor's values; of a method that draws, the mean of its draws."""
        if not draws or not self.competitor.draws:
            return self.competitor.impute(given), None
        drawn = self.competitor.sample(given, draws)
        return drawn.mean(axis=0), drawn


KINDS: dict[str, Callable[..., Method]] = {
    "nrtsi": NRTSIMethod,
    **{name: partial(BaselineMethod, make) for name, make in BASELINES.items()},
    "knn-sequences": partial(BaselineMethod, KNNSequences),
    **{name: partial(CompetitorMethod, name) for name in COMPETITORS},
}
"""Kinds of methods: each a function of a seed and of settings."""


def is_trained(kind: str) -> bool:
    """Whether a training budget applies to this kind."""
    return kind == "nrtsi" or kind in COMPETITORS


def expected_errors(kind: str) -> tuple[type[Exception], ...]:
    """Errors that become a row of the results; all others are bugs of this library."""
    return (Exception,) if kind in COMPETITORS else (NrtsiError, ArithmeticError, MemoryError)


def quick_settings(kind: str) -> dict[str, Any]:
    """Settings of the smallest network of a kind."""
    return {"preset": "tiny"} if kind == "nrtsi" else dict(QUICK_SIZES.get(kind, {}))


def method_of(name: str, seed: int, settings: dict[str, Any]) -> Method:
    """Makes the method of a row of a table."""
    kind = settings.pop("kind", name)
    if kind not in KINDS:
        raise InputError(f"kind of {name} must be one of {', '.join(KINDS)}, got {kind!r}")
    return KINDS[kind](seed=seed, **settings)
