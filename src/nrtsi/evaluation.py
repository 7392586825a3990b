"""Hides known cells, lets every method fill them, and compares."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi import metrics
from nrtsi.baselines import BASELINES
from nrtsi.errors import InputError, NrtsiError, TrainingError
from nrtsi.events import Listener
from nrtsi.frames import Panel
from nrtsi.imputer import NRTSI
from nrtsi.missing import Hiding, rows_fail_together
from nrtsi.scaling import Scaler
from nrtsi.series import SeriesSet

__all__ = ["ChannelScore", "Evaluation", "Score", "Trial", "check_baselines", "evaluate"]

logger = logging.getLogger(__name__)

Way: TypeAlias = Callable[[], Float[np.ndarray, "row dim"]]
"""Fits a method, if need be, and gives its value of every cell."""

UNITS = "standard deviations of each channel"

FAILURES = (NrtsiError, ValueError, ArithmeticError, MemoryError)
"""What may keep a baseline from running; the others are scored all the same."""

OUR_FAILURES = (TrainingError, ArithmeticError)
"""What may keep nrtsi from running; a setting that cannot be used is the caller's to correct."""


@dataclass(frozen=True)
class ChannelScore:
    """Errors of one method in one channel, in the caller's units."""

    mse: float
    """Squared error, averaged over the hidden cells of the channel."""

    mae: float
    """Absolute error, averaged likewise."""


@dataclass(frozen=True)
class Score:
    """Errors of one method over all hidden cells.

    They are in standard deviations of each channel, so that degrees and pascals can be averaged.
    """

    mse: float
    """Squared error, averaged over the hidden cells."""

    mae: float
    """Absolute error, averaged likewise."""

    seconds: float
    """Time it took to fit, if it was fitted here, and to fill."""

    channels: dict[str, ChannelScore]
    """The same channel by channel, in the caller's units; only channels with hidden cells."""


@dataclass(frozen=True)
class Evaluation:
    """How well each method found the hidden cells again."""

    methods: dict[str, Score]
    """The score of each method that ran, nrtsi first."""

    failed: dict[str, str]
    """Why a method did not run."""

    hidden: int
    """Cells that were known and were hidden."""

    cells: int
    """Cells that were known."""

    hide: str
    """How they were chosen: the kinds of hiding in use."""

    seen: bool | None
    """Whether the given model was fitted on these data, hidden cells and all; None without one."""

    guesses: tuple[str, ...] = ()
    """Sentences that say what was guessed about the columns."""

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, for JSON."""
        return {
            "methods": {
                name: {"mse": score.mse, "mae": score.mae, "seconds": score.seconds}
                for name, score in self.methods.items()
            },
            "failed": dict(self.failed),
            "hidden": self.hidden,
            "cells": self.cells,
            "hide": self.hide,
            "seen": self.seen,
            "units": UNITS,
            "channels": self._by_channel(),
        }

    def _by_channel(self) -> dict[str, dict[str, dict[str, float]]]:
        """Channel, then method, then errors in the caller's units."""
        table: dict[str, dict[str, dict[str, float]]] = {}
        for method, score in self.methods.items():
            for channel, errors in score.channels.items():
                row = table.setdefault(channel, {})
                row[method] = {"mse": errors.mse, "mae": errors.mae}
        return table


def evaluate(
    frame: Any,
    *,
    model: NRTSI | None = None,
    hide: str = "auto",
    seed: int = 0,
    baselines: Sequence[str] = tuple(BASELINES),
    times: np.ndarray | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Evaluation:
    """Hides about 15 % of the known cells of `frame` and scores nrtsi and the baselines on them.

    The score is honest: without a model, one is fitted here, on the data without the hidden
    cells; so are the baselines. A given model that was fitted on these data has seen the cells it
    is asked for, and `seen` says so.

    Args:
        frame: Anything that `NRTSI.fit` takes.
        model: A fitted model to score; None fits one.
        hide: How cells are hidden, as in `NRTSI`; where it imitates the data's own gaps, a score
            hides nothing else.
        seed: Decides which cells are hidden, and the training.
        baselines: Names of the baselines to score.
        times: Times of the steps of an array.
        listener: Is told of the progress.
        settings: Settings of the model to fit: `time`, `id`, `columns`, `budget`, `steps`,
            `preset` and so on.

    Raises:
        InputError: The frame or a setting cannot be used, or there is too little to hide.
    """
    check_baselines(baselines)
    trial = Trial.open(frame, model, times, {"hide": hide, "seed": seed, **settings})
    names = tuple(str(name) for name in trial.panel.columns.values or ())
    judge = _Judge(trial.truth, trial.hidden, names)
    judge.run("nrtsi", partial(trial.fill, listener), OUR_FAILURES)
    for name in baselines:
        judge.run(name, partial(trial.fill_simply, name), FAILURES)
    return Evaluation(
        methods=judge.methods,
        failed=judge.failed,
        hidden=int(trial.hidden.sum()),
        cells=int(trial.truth.observed.sum()),
        hide="+".join(trial.kinds),
        seen=trial.seen if trial.given else None,
        guesses=trial.panel.guesses,
    )


@dataclass(frozen=True)
class Trial:
    """Data of which known cells are hidden from the methods."""

    panel: Panel
    """All of the data."""

    hidden: Bool[np.ndarray, "row dim"]
    """The cells to find again."""

    kinds: tuple[str, ...]
    """How they were chosen."""

    model: NRTSI
    given: bool
    """The model was given, fitted; else it is still to be fitted on what is left."""

    @classmethod
    def open(
        cls,
        frame: Any,
        model: NRTSI | None,
        times: np.ndarray | None,
        settings: dict[str, Any],
    ) -> "Trial":
        """Reads the data and hides some of the known cells.

        `settings` are those of a model to fit, with `hide` and `seed`, which decide what is
        hidden.

        Raises:
            InputError: As for `evaluate`.
        """
        panel, ours = _open(frame, model, times, settings)
        truth, hide = panel.series, settings["hide"]
        hiding = Hiding.choose(hide, truth, whole_rows=_whole_rows(model, truth), scoring=True)
        hidden = hiding.draw(truth, np.random.default_rng(settings["seed"]))
        _check_hidden(hidden, truth)
        return cls(panel, hidden, hiding.kinds, ours, given=model is not None)

    @property
    def truth(self) -> SeriesSet:
        """The data with nothing hidden."""
        return self.panel.series

    @property
    def known(self) -> SeriesSet:
        """What the methods see."""
        return self.truth.hide(self.hidden)

    @property
    def seen(self) -> bool:
        """The model was fitted on these data, hidden cells and all."""
        return self.given and self.model.fitted_.has_seen(self.truth)

    def fill(self, listener: Listener | None = None) -> Float[np.ndarray, "row dim"]:
        """What the model makes of the known cells, after learning from them if it has to."""
        known = replace(self.panel, series=self.known)
        if not self.given:
            self.model.fit_panel(known, listener=listener)
        return self.model.fill_series(known.series, listener)

    def fill_simply(self, name: str) -> Float[np.ndarray, "row dim"]:
        """What a baseline makes of the known cells."""
        baseline, known = BASELINES[name](), self.known
        baseline.fit_series(known)
        return baseline.fill_series(known)


def _open(
    frame: Any, model: NRTSI | None, times: np.ndarray | None, settings: dict[str, Any]
) -> tuple[Panel, NRTSI]:
    """The data, read as the model to be scored reads it, and that model."""
    if model is None:
        model = NRTSI(**settings)
        return model.read(frame, times=times), model
    other = [name for name in settings if name not in ("hide", "seed")]
    if other:
        raise InputError(
            f"{', '.join(other)} must not be given with a model, which has its own; "
            f"leave the model out to fit one with these settings"
        )
    return model.open(frame, times=times), model


def _whole_rows(model: NRTSI | None, truth: SeriesSet) -> bool:
    """Whether rows are to be hidden whole: they are lost so, or the model knows only such rows."""
    return rows_fail_together(truth) or (
        model is not None and not model.fitted_.engine.layout.partial
    )


class _Judge:
    """Knows the truth, and keeps the scores."""

    def __init__(
        self, truth: SeriesSet, hidden: Bool[np.ndarray, "row dim"], names: Sequence[str]
    ) -> None:
        self.truth = truth
        self.hidden = hidden
        self.names = names
        self.spread = Scaler.fit(truth).spread
        self.methods: dict[str, Score] = {}
        self.failed: dict[str, str] = {}

    def run(self, name: str, way: Way, failures: tuple[type[Exception], ...]) -> None:
        """Scores one method, or keeps the reason why it gave nothing to score."""
        began = time.perf_counter()
        try:
            filled = way()
            if not np.isfinite(filled[self.hidden]).all():
                raise ArithmeticError("it gave values that are not finite")
        except failures as error:
            logger.info("%s failed", name, exc_info=True)
            self.failed[name] = (str(error) or type(error).__name__).splitlines()[0]
            return
        self.methods[name] = self._score(filled, time.perf_counter() - began)

    def _score(self, filled: Float[np.ndarray, "row dim"], seconds: float) -> Score:
        truth, guess = self.truth.value / self.spread, filled / self.spread
        return Score(
            mse=metrics.mse(truth, guess, self.hidden),
            mae=metrics.mae(truth, guess, self.hidden),
            seconds=seconds,
            channels={
                name: self._channel(filled, channel)
                for channel, name in enumerate(self.names)
                if self.hidden[:, channel].any()
            },
        )

    def _channel(self, filled: Float[np.ndarray, "row dim"], channel: int) -> ChannelScore:
        cells = (self.truth.value[:, channel], filled[:, channel], self.hidden[:, channel])
        return ChannelScore(mse=metrics.mse(*cells), mae=metrics.mae(*cells))


def check_baselines(names: Sequence[str]) -> None:
    """Refuses names that no baseline has."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise InputError(
            f"baselines must be among {', '.join(BASELINES)}, got {unknown[0]!r}; "
            f"leave it out or correct it"
        )


def _check_hidden(hidden: Bool[np.ndarray, "row dim"], truth: SeriesSet) -> None:
    if not hidden.any():
        raise InputError(
            f"the data must have enough known cells to hide some, got {truth.observed.sum()} "
            f"known cells in {truth.series} series; give more rows"
        )
