"""`run_backtest` scores methods on held-out cells; `Backtest` is the result."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.config import EvaluationConfig
from nrtsi.core.bounds import Bounds
from nrtsi.core.gaps import GAP_BINS, Gaps, gap_bin_range
from nrtsi.core.prediction import Prediction
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet, Values
from nrtsi.errors import InputError, NrtsiError, TrainingError
from nrtsi.evaluation.conformal import Calibration, coverage
from nrtsi.evaluation.holdout import CalibrationScores, CellIndex, CellMask, CellValues, HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.tables import Clock

__all__ = [
    "BASELINE_FAILURES",
    "MODEL_FAILURES",
    "Backtest",
    "ChannelScore",
    "MethodScore",
    "check_baselines",
    "run_backtest",
]

log = logging.getLogger(__name__)

UNITS = "standard deviations of each channel"
COLUMNS = ("channel", "gap_from", "gap_to", "method", "n", "mse", "mae")

# Exceptions that a back-test reports while the other methods are still scored.
BASELINE_FAILURES = (NrtsiError, ValueError, ArithmeticError, MemoryError)
MODEL_FAILURES = (TrainingError, ArithmeticError)  # an invalid setting is still raised

DEFAULT = EvaluationConfig()


@dataclass(frozen=True)
class ChannelScore:
    """Mean squared and mean absolute error in one channel, in the units of the channel."""

    mse: float  # mean squared error
    mae: float  # mean absolute error


@dataclass(frozen=True)
class MethodScore:
    """Errors of one method over all held-out cells, in standard deviations of each channel."""

    mse: float  # mean squared error
    mae: float  # mean absolute error
    seconds: float  # run time of imputation, and of fitting in the back-test if any
    channels: dict[str, ChannelScore]  # errors by channel; only channels with held-out cells


@dataclass(frozen=True)
class Backtest:
    """Predictions of several methods at held-out cells, and their errors."""

    holdout: HoldOut
    predictions: dict[str, CellValues]  # values of each successful method at the held-out cells
    std: Values | None  # standard deviations that nrtsi predicts; None if it did not run
    seconds: dict[str, float]  # run time of each method
    failed: dict[str, str]  # reason why a method failed
    names: tuple[str, ...]  # names of the channels
    clock: Clock
    cells: int  # number of observed cells in the data set
    bounds: Bounds | None = None
    config: EvaluationConfig = DEFAULT
    backend: Any = None  # data frame library of the caller
    remarks: tuple[str, ...] = ()  # sentences on the detected columns

    @property
    def hidden(self) -> int:
        """Number of held-out cells."""
        return int(self.holdout.hidden.sum())

    @property
    def mask(self) -> str:
        """The masks that chose the held-out cells, such as "points+blocks"."""
        return "+".join(self.holdout.kinds)

    @cached_property
    def truth(self) -> CellValues:
        """True values of the held-out cells."""
        return self.holdout.truth.value[self.holdout.hidden]

    @cached_property
    def channel(self) -> CellIndex:
        """Channel of each held-out cell."""
        return np.nonzero(self.holdout.hidden)[1]

    @cached_property
    def _gaps(self) -> Gaps:
        return Gaps.of(self.holdout.known)

    @cached_property
    def gap_bin(self) -> CellIndex:
        """Gap bin of each held-out cell."""
        return self._gaps.gap_bin[self.holdout.hidden]

    @cached_property
    def channel_std(self) -> Float[np.ndarray, " dim"]:
        """Standard deviation of each channel."""
        return Scaler.fit(self.holdout.truth).spread

    def __repr__(self) -> str:
        ranked = sorted(self.methods.items(), key=lambda item: item[1].mse)
        lines = [f"  {name:<10} {score.mse:.4g}" for name, score in ranked]
        lines += [f"  {name:<10} failed: {reason}" for name, reason in self.failed.items()]
        head = f"Backtest of {self.hidden:,} hidden cells; squared errors in {UNITS}:"
        return "\n".join([head, *lines])

    @cached_property
    def methods(self) -> dict[str, MethodScore]:
        """The score of each successful method, nrtsi first."""
        return {name: self._score(name) for name in self.predictions}

    @cached_property
    def imputed(self) -> dict[str, CellValues]:
        """The predictions, moved inside the bounds."""
        if self.bounds is None:
            return self.predictions
        bounds = self.bounds.take(self.channel)
        return {name: bounds.clip(values) for name, values in self.predictions.items()}

    def _score(self, name: str) -> MethodScore:
        error = self.truth - self.imputed[name]
        total = _errors(error / self.channel_std[self.channel])
        channels = {
            self.names[dim]: _errors(error[self.channel == dim]) for dim in np.unique(self.channel)
        }
        return MethodScore(total.mse, total.mae, self.seconds[name], channels)

    @property
    def best(self) -> str:
        """The method with the lowest mean squared error."""
        return min(self.methods, key=lambda name: self.methods[name].mse)

    def _by_channel_and_gap(self) -> Iterator[tuple[dict[str, Any], CellMask]]:
        """Each occurring channel and range of gap lengths, with its cells."""
        for pair in np.unique(self.channel * GAP_BINS + self.gap_bin).tolist():
            channel, gap_bin = divmod(pair, GAP_BINS)
            low, high = gap_bin_range(gap_bin)
            group = {"channel": self.names[channel], "gap_from": low, "gap_to": high}
            yield group, (self.channel == channel) & (self.gap_bin == gap_bin)

    def rows(self) -> list[dict[str, Any]]:
        """Errors by channel, gap length and method; lengths are in units of the clock."""
        return [
            group
            | {"method": name, "n": int(cells.sum())}
            | asdict(_errors(self.truth[cells] - values[cells]))
            for group, cells in self._by_channel_and_gap()
            for name, values in self.imputed.items()
        ]

    def to_frame(self) -> Any:
        """Errors by channel, gap length and method, in the units of the channels.

        Returns a table of the caller's kind with the columns `channel`, `gap_from`, `gap_to`,
        `method`, `n`, `mse` and `mae`. A gap is longer than `gap_from` and at most as long as
        `gap_to`, measured from the observation before to the observation after it. A gap at an
        end of a series counts as twice as long.
        """
        rows = self.rows()
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in COLUMNS}
        for name in ("gap_from", "gap_to"):
            columns[name] = self.clock.to_durations(np.array(columns[name], dtype=np.float64))
        return nw.from_dict(columns, backend=self.backend or "pyarrow").to_native()

    def coverage(self, level: float | None = None, method: str = "nrtsi") -> list[dict[str, Any]]:
        """Share of held-out cells inside their interval, by channel and gap length.

        The coverage is cross-validated: the interval of a gap is estimated from other gaps.
        """
        scores, config = self._scores(method), self.config.calibration
        if scores is None:
            return []
        covered = coverage(scores, len(self.names), level or config.level, config)
        return [
            group
            | {"n": int(cells.sum()), "gaps": int(np.unique(scores.gap[cells]).size)}
            | {"covered": float(covered[cells].mean())}
            for group, cells in self._by_channel_and_gap()
        ]

    def to_json(self) -> dict[str, Any]:
        """All scores as plain dictionaries."""
        methods = {name: asdict(score) for name, score in self.methods.items()}
        channels: dict[str, dict[str, Any]] = {}
        for name, score in methods.items():
            for channel, errors in score.pop("channels").items():
                channels.setdefault(channel, {})[name] = errors
        return {
            "methods": methods,
            "best": self.best,
            "failed": dict(self.failed),
            "hidden": self.hidden,
            "cells": self.cells,
            "mask": self.mask,
            "units": {
                "methods": UNITS,
                "channels": "those of each channel",
                "gaps": "those of each channel; lengths in steps of "
                f"{self.clock.format_duration(1.0)}",
            },
            "channels": channels,
            # JSON has no infinity.
            "gaps": [
                row | {"gap_to": row["gap_to"] if np.isfinite(row["gap_to"]) else None}
                for row in self.rows()
            ],
        }

    @cached_property
    def selection(self) -> MethodSelection:
        """The method with the lowest error for each channel and gap length."""
        error = np.stack([self.truth - values for values in self.imputed.values()])
        squared = (error / self.channel_std[self.channel]) ** 2
        gap = self._gaps.number[self.holdout.hidden]
        where = self.channel, self.gap_bin, gap, len(self.names)
        return MethodSelection.fit(tuple(self.predictions), squared, *where, self.config)

    def calibrate(self, method: str = "nrtsi") -> Calibration:
        """Fits the distribution of the errors of a method, or of "auto"."""
        scores = self._scores(method)
        if scores is None:
            return Calibration.none(len(self.names))
        return Calibration.fit(scores, len(self.names), self.config.calibration)

    def _scores(self, method: str) -> CalibrationScores | None:
        if self.std is None or (method != "auto" and method not in self.predictions):
            return None
        if method == "auto":
            index = self.selection.table[self.channel, self.gap_bin]
            values = np.stack(list(self.predictions.values()))[index, np.arange(index.size)]
        else:
            values = self.predictions[method]
        hidden, truth = self.holdout.hidden, self.holdout.truth.value
        # Predictions are not yet inside the bounds; a truth on a bound is any value beyond it.
        target = truth if self.bounds is None else self.bounds.unclip(truth)
        std = np.maximum(self.std, 1e-9 * self.channel_std)[hidden]
        return CalibrationScores.of(self.holdout.known, hidden, (target[hidden] - values) / std)


def run_backtest(
    holdout: HoldOut,
    predict: Callable[[SeriesSet], Prediction] | None,
    baselines: Sequence[str],
    *,
    clock: Clock,
    names: tuple[str, ...],
    cells: int = 0,
    bounds: Bounds | None = None,
    config: EvaluationConfig = DEFAULT,
) -> Backtest:
    """Runs nrtsi, if `predict` is given, and the baselines on the data without held-out cells.

    The data set has `cells` observed cells, of channels with these `names`.
    """
    known, std = holdout.known, None
    predictions: dict[str, CellValues] = {}
    seconds, failed = {}, {}
    for name in (*(() if predict is None else ("nrtsi",)), *baselines):
        start = time.perf_counter()
        try:
            if name == "nrtsi" and predict is not None:
                prediction = predict(known)
                value, std = prediction.mean, prediction.std
            else:
                baseline = BASELINES[name]()
                baseline.clock_ = clock
                baseline.fit_series(known)
                value = baseline.impute_series(known)
            if not np.isfinite(value[holdout.hidden]).all():
                raise ArithmeticError("the imputed values are not finite")
        except BASELINE_FAILURES as error:
            if name == "nrtsi" and not isinstance(error, MODEL_FAILURES):
                raise
            log.info("%s failed", name, exc_info=error)
            failed[name] = (str(error) or type(error).__name__).splitlines()[0]
        else:
            predictions[name] = value[holdout.hidden]
            seconds[name] = time.perf_counter() - start
    results = holdout, predictions, std, seconds, failed
    return Backtest(*results, names, clock, cells, bounds, config)


def check_baselines(names: Sequence[str]) -> None:
    """Raises an InputError if a name is not that of a baseline."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise InputError(
            f"baselines must be among {', '.join(BASELINES)}, got {unknown[0]!r}; "
            f"remove or correct it"
        )


def _errors(error: CellValues) -> ChannelScore:
    return ChannelScore(float(np.mean(error**2)), float(np.mean(np.abs(error))))
