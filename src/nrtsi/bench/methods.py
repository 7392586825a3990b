"""What is compared: nrtsi, simple methods and peers, each behind the same small protocol."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Imputer
from nrtsi.baselines.knn_sequences import KNNSequences
from nrtsi.bench.competitors import PEERS, TINY, Competitor
from nrtsi.bench.datasets.dataset import Part
from nrtsi.bench.masks import Masks
from nrtsi.core.events import Listener
from nrtsi.errors import InputError, NrtsiError
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables import Columns
from nrtsi.training.plan import Budget

__all__ = ["KINDS", "TrainingTask", "Method", "failures_of", "is_trained", "method_of", "tiny"]

Values = Float[np.ndarray, "series step dim"]
Draws = Float[np.ndarray, "draw series step dim"]


@dataclass(frozen=True)
class TrainingTask:
    """What every method may learn from, and for how long."""

    train: Part
    validation: Part
    channels: tuple[str, ...]

    masks: Masks
    """What is hidden in training; a method that hides cells to learn hides about as much."""

    budget: Budget

    checkpoint: Path | None = None
    """Where a long training may keep its state, and go on from."""

    listener: Listener | None = None


class Method:
    """Something that fills gaps."""

    parameters: int | None = None
    """Numbers learnt; None where the word has no meaning."""

    seconds: float | None = None
    """Time of a training that was made in several sittings, all of them together."""

    def fit(self, lesson: TrainingTask) -> None:
        """Learns."""
        raise NotImplementedError

    def answer(self, given: Part, draws: int) -> tuple[Values, Draws | None]:
        """Values for all cells; and `draws` whole fillings, of a method that can draw."""
        raise NotImplementedError

    def save(self, path: Path) -> None:
        """Keeps what was learnt in a file, where it can be kept without code in it."""


class Simple(Method):
    """One of the methods that fit in a moment."""

    def __init__(self, imputer: Imputer) -> None:
        self.imputer = imputer

    def fit(self, lesson: TrainingTask) -> None:
        """Learns from the training series as they are."""
        self.imputer.fit_series(lesson.train.to_set())

    def answer(self, given: Part, draws: int) -> tuple[Values, None]:
        """Values for all cells."""
        return self.imputer.impute_series(given.to_set()).reshape(given.value.shape), None


class Ours(Method):
    """NRTSI, used as anyone would use it."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.seed = seed
        self.settings = settings

    def fit(self, lesson: TrainingTask) -> None:
        """Trains for the budget, or goes on with a training that was cut short."""
        self.channels = lesson.channels
        settings = {"setting": _order(lesson), "mask": "points"} | self.settings
        hidden = lesson.masks.shares(lesson.train.value.shape[1])
        settings["train"] = {"hidden": hidden} | settings.get("train", {})
        if lesson.budget.seconds is not None:
            settings["budget"] = lesson.budget.seconds
        self.model = NRTSI(
            steps=lesson.budget.steps, seed=self.seed, unit=1.0, on_empty="skip", **settings
        )
        self.model.fit(
            lesson.train.value,
            times=lesson.train.time,
            validation=lesson.validation.value,
            validation_times=lesson.validation.time,
            listener=lesson.listener,
            checkpoint=lesson.checkpoint,
            resume=True,
        )
        if self.model.interrupted_:
            raise KeyboardInterrupt  # half a training must not be scored as a whole one
        self.seconds = self.model.seconds_
        self.parameters = _learnt(self.model)

    def answer(self, given: Part, draws: int) -> tuple[Values, Draws | None]:
        """The mean, and draws where they are asked for."""
        filled = self.model.impute(given.value, times=given.time)
        if not draws:
            return filled, None
        return filled, self.model.sample(given.value, times=given.time, draws=draws)

    def save(self, path: Path) -> None:
        """Keeps the model, for the table that `nrtsi data make` writes of the data set."""
        model = copy(self.model)  # it was fitted on arrays, whose columns have no names
        model.columns_ = Columns(time="time", id="series", values=self.channels)
        model.save(path)

    @classmethod
    def load(cls, path: Path) -> "Ours":
        """What `save` kept, ready to answer; `channels` are those it was trained on.

        Raises:
            CheckpointError: The file is absent, damaged, or not a model of this library.
        """
        model = load(path)
        ours = cls(model.seed)
        ours.channels = model.columns_.values or ()
        model.columns_ = Columns(values=_numbers(ours.channels))  # as if fitted on arrays
        ours.model, ours.parameters = model, _learnt(model)
        return ours

    def knows(self, channels: tuple[str, ...]) -> bool:
        """Whether it was trained on these channels; arrays have numbers for names."""
        return self.channels in (channels, _numbers(channels))


def _numbers(channels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(index) for index in range(len(channels)))


def _learnt(model: NRTSI) -> int:
    """Numbers learnt; a network of several levels counts once."""
    networks = set(model.fitted_.engine.networks)
    return sum(p.numel() for net in networks for p in net.parameters())


def _order(lesson: TrainingTask) -> str:
    """The order of imputation of such gaps at such times."""
    if lesson.masks.rows is None:
        return "partial"
    return "regular" if lesson.train.even else "irregular"


class Theirs(Method):
    """A peer."""

    def __init__(self, name: str, seed: int, **sizes: Any) -> None:
        self.peer = Competitor(name, seed=seed, **sizes)

    def fit(self, lesson: TrainingTask) -> None:
        """Trains for the budget."""
        self.peer.fit(lesson.train, lesson.validation, lesson.masks.draw, lesson.budget)
        self.parameters = self.peer.parameters

    def answer(self, given: Part, draws: int) -> tuple[Values, Draws | None]:
        """The peer's values; of one that draws, the mean of its draws."""
        if not draws or not self.peer.gives_draws:
            return self.peer.fill(given), None
        drawn = self.peer.draw(given, draws)
        return drawn.mean(axis=0), drawn


def _simple(make: Callable[[], Imputer]) -> Callable[..., Method]:
    return lambda seed, **settings: Simple(make(**settings))


KINDS: dict[str, Callable[..., Method]] = {
    "nrtsi": Ours,
    **{name: _simple(make) for name, make in BASELINES.items()},
    "knn-sequences": _simple(KNNSequences),
    **{name: lambda seed, _name=name, **sizes: Theirs(_name, seed, **sizes) for name in PEERS},
}
"""Kinds of methods: each a function of a seed and of settings."""


def is_trained(kind: str) -> bool:
    """Whether a budget makes a difference."""
    return kind == "nrtsi" or kind in PEERS


def failures_of(kind: str) -> tuple[type[Exception], ...]:
    """What may keep a method from a result; anything else is a bug of ours and not a row."""
    return (Exception,) if kind in PEERS else (NrtsiError, ArithmeticError, MemoryError)


def tiny(kind: str) -> dict[str, Any]:
    """Settings that make a method as small as it can be."""
    return {"preset": "tiny"} if kind == "nrtsi" else dict(TINY.get(kind, {}))


def method_of(name: str, seed: int, settings: dict[str, Any]) -> Method:
    """The method of a row of a table.

    Raises:
        InputError: There is no such kind.
    """
    kind = settings.pop("kind", name)
    if kind not in KINDS:
        raise InputError(f"kind of {name} must be one of {', '.join(KINDS)}, got {kind!r}")
    return KINDS[kind](seed=seed, **settings)
