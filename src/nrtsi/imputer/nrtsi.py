"""`NRTSI`: fit, backtest, impute, sample, save and load; everything is done elsewhere."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Fill, Imputer, warn_of_row_numbers
from nrtsi.core.bounds import Bounds
from nrtsi.core.events import Listener
from nrtsi.core.fingerprint import digest, fingerprint
from nrtsi.core.gaps import Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import MODEL_FAILURES, Backtest, check_baselines, run_backtest
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.distribution import PredictiveDistribution, believed
from nrtsi.imputer.fitted import FittedModel
from nrtsi.imputer.options import IMPUTE_OPTIONS, ImputeOptions, check_method
from nrtsi.imputer.result import ImputationResult
from nrtsi.inference import Engine, part_of
from nrtsi.predictors.analogs import AnalogFit, select_analogs
from nrtsi.tables import Clock, Columns, Panel, fitted_columns_must_match, read
from nrtsi.training import checkpoint as model_file
from nrtsi.training.curriculum import train
from nrtsi.training.plan import TrainingPlan
from nrtsi.training.settings import a_row_a_unit, device_of, is_partial, resolve

__all__ = ["NRTSI", "impute", "load"]

log = logging.getLogger(__name__)

UNCALIBRATED = (
    "intervals are the network's own guess: too few cells were set aside to calibrate them; "
    "fit on more data"
)


class NRTSI(Imputer):
    """Fills missing values from coarse to fine with a set transformer.

    Args:
        preset: Size of the network: "tiny", "small", "base", "large" or "paper"; what suits the
            budget without it.
        setting: Order of imputation: "regular", "irregular", "stochastic", "partial", the
            ablations "all" and "smallest", or "auto" to decide by the data.
        budget: Time to train, as "60s", "10m", "1h" or seconds.
        steps: Number of training steps over all levels, instead of a time.
        seed: Seed of every random choice; the same seed, data, machine and number of steps give
            the same result.
        mask: How observed cells are hidden to learn from: the data's "empirical" gaps, "points",
            "blocks", or "auto" to decide by the data.
        max_level: Coarsest level; it reaches gaps of `2**max_level` units. "auto" reaches the
            middle of the longest gap of the data it is fitted on, gaps of 16 units at least.
        scaling: What an error of training is measured by: the spread of its "channel", so that all
            channels count alike; or "shared" one spread for all, which suits channels of one
            unit, such as the coordinates of a place.
        model: Fields of `ModelConfig` to set otherwise than the preset does.
        schedule: Fields of `ScheduleConfig` to set otherwise than the setting does.
        train: Fields of `TrainConfig` to set otherwise than the preset does.
        device: "cpu", "cuda", …, or "auto" for a GPU where there is one.
        memory_limit: Memory for imputing beside the data, as "512MB", "1GiB" or bytes; it decides
            how many series and windows are worked on at once, and changes no more than the last
            digits of a result.
        time: Column of times; guessed without it (a datetime index, a column called `time`, …).
        id: Column that tells series apart, in a long table.
        columns: Columns to impute; all numeric ones without it.
        unit: Unit of time, a duration such as "1h" or a number; the median spacing without it.
        on_empty: What to do with a series in which nothing is observed: "error", or "skip" to
            leave it missing.
        bounds: What the values of a column can be at least and at most, such as
            `{"rain": (0, None)}`; imputed values, draws and intervals stay inside.

    Attributes:
        setting_: The order of imputation in use.
        preset_: The preset in use.
        steps_: Training steps made.
        seconds_: Time they took, in all sittings together; not kept in a file.
        history_: One record for every validation: level, step, loss, validation loss.
        guesses_: Sentences that say what was guessed about the columns.

    Example:
        >>> from nrtsi import NRTSI
        >>> NRTSI(seed=7).get_params()["seed"]
        7
    """

    def __init__(
        self,
        *,
        preset: str | None = None,
        setting: str = "auto",
        budget: str | float = "60s",
        steps: int | None = None,
        seed: int = 0,
        mask: str = "auto",
        max_level: int | str = "auto",
        scaling: str = "channel",
        model: Mapping[str, Any] | None = None,
        schedule: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        device: str = "auto",
        memory_limit: str | float = "1GiB",
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        unit: float | str | None = None,
        on_empty: str = "error",
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    ) -> None:
        super().__init__(time=time, id=id, columns=columns, unit=unit, on_empty=on_empty)
        self.preset = preset
        self.setting = setting
        self.budget = budget
        self.steps = steps
        self.seed = seed
        self.mask = mask
        self.max_level = max_level
        self.scaling = scaling
        self.model = model
        self.schedule = schedule
        self.train = train
        self.device = device
        self.memory_limit = memory_limit
        self.bounds = bounds

    def fit(
        self,
        frame: Any,
        y: object = None,
        *,
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        times: np.ndarray | None = None,
        validation: Any = None,
        validation_times: np.ndarray | None = None,
        listener: Listener | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Trains on the observed cells of `frame`, hiding some to learn from.

        Some 15 % of the cells are set aside first, in gaps like those of the data, and never
        trained on: on them it is found afterwards how sure the model may be.

        Args:
            frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
                (series, step, dim). NaN and null are missing.
            y: Ignored; a pipeline passes it.
            time: Column of times, where the constructor was not told.
            id: Column of ids, where the constructor was not told.
            columns: Columns to impute, where the constructor was not told.
            times: Times of the steps of an array.
            validation: Data like `frame` by which the best weights are chosen, and of which cells
                are set aside; without them parts of `frame` are held out for both.
            validation_times: Times of the steps, where `validation` is an array.
            listener: Told of every training step.
            checkpoint: File to keep the state of training in; once the model is saved it has
                served.
            resume: Go on from that file if it is there.

        Raises:
            InputError: The data or a setting cannot be used; the message says what to change.
            TrainingError: The loss is not finite; the model has the best weights so far.
        """
        panel = self.read(frame, time=time, id=id, columns=columns, times=times)
        warn_of_row_numbers(panel)
        held = None
        if validation is not None:
            fitted_columns_must_match(validation, panel.columns)
            held = read(validation, panel.columns, clock=panel.clock, times=validation_times)
        elif validation_times is not None:
            raise InputError("validation_times must come with validation; give both or neither")
        path = None if checkpoint is None else Path(checkpoint)
        return self.fit_panel(panel, validation=held, listener=listener, path=path, resume=resume)

    def fit_panel(
        self,
        panel: Panel,
        *,
        validation: Panel | None = None,
        listener: Listener | None = None,
        path: Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Trains on data that has been read already; `path` is that of the checkpoint."""
        if hasattr(self, "fitted_"):
            del self.fitted_  # or a fit that fails would leave an old model with new columns
        self._record_schema(panel)
        held = None if validation is None else validation.series
        self.fit_series(panel.series, validation=held, listener=listener, path=path, resume=resume)
        return self

    def fit_series(
        self,
        series: SeriesSet,
        *,
        validation: SeriesSet | None = None,
        listener: Listener | None = None,
        path: Path | None = None,
        resume: bool = False,
    ) -> None:
        """Trains on the observed cells of `series`."""
        scaler = self._scaler(series)
        self._check_bounds(series, scaler)
        scaled = scaler.scale(series)
        held = None if validation is None else scaler.scale(validation)
        words = self.get_params(deep=False)
        course, self.setting_, self.preset_ = resolve(words, scaled, self.clock_)
        how = self._how_aside(series)
        aside = HoldOut.of(series if validation is None else validation, **how, like=series)
        if aside is not None:
            scaled = aside.remove_from(scaled) if held is None else scaled
            held = held if held is None else aside.remove_from(held)
        if held is not None:
            _check_validation(held, course)
        recall = course.model.recall
        kept = select_analogs(scaled, course.hiding, course.seed, held) if recall else None
        network = course.model.network
        log.info("setting %s, preset %s, network %s", self.setting_, self.preset_, network)
        trained = train(
            course,
            scaled,
            validation=held,
            kept=kept,
            path=path,
            identity=_identity(course, scaled, held, kept),
            resume=resume,
            listener=listener,
        )
        self.steps_, self.seconds_ = trained.steps, trained.seconds
        self.history_ = trained.history
        self.interrupted_ = trained.interrupted
        self.fitted_ = FittedModel(
            engine=Engine(
                trained.networks,
                trained.course.model,
                trained.course.layout,
                trained.course.schedule,
                trained.hints.lasting(),
            ),
            scaler=scaler,
            fingerprint=fingerprint(series),
            setting=self.setting_,
            preset=self.preset_,
            steps=trained.steps,
            history=trained.history,
            calibration=Calibration.none(series.dims),
            aside=None if held is not None else {"data": digest(series), "how": how},
        )
        if aside is not None and trained.failure is None:
            trial = self._try(aside, (), None)
            self.fitted_ = replace(self.fitted_, calibration=trial.calibrate())
        if trained.failure is not None:
            raise trained.failure

    def _scaler(self, series: SeriesSet) -> Scaler:
        if self.scaling not in ("channel", "shared"):
            raise InputError(f"scaling must be 'channel' or 'shared', got {self.scaling!r}")
        scaler = Scaler.fit(series)
        return scaler if self.scaling == "channel" else scaler.shared()

    def _bounds(self, scaler: Scaler) -> Bounds | None:
        names = [str(name) for name in self.columns_.values or ()]
        return Bounds.of(self.bounds, names, scaler.spread)

    def _check_bounds(self, series: SeriesSet, scaler: Scaler) -> None:
        """Finds mistakes in the bounds before the training."""
        bounds = self._bounds(scaler)
        beyond = [0] if bounds is None else bounds.outside_count(series.value, series.observed)
        for name, count in zip(self._names, beyond, strict=False):
            if count:
                log.warning("%d observed cells of %r lie beyond its bounds and stay", count, name)

    def _how_aside(self, series: SeriesSet) -> dict[str, Any]:
        """How cells of these data are set aside."""
        whole_rows = not is_partial(self.setting, series)
        day = self.clock_.day if a_row_a_unit(series) else None
        return {"mask": self.mask, "whole_rows": whole_rows, "seed": int(self.seed), "day": day}

    def impute_series(self, series: SeriesSet, listener: Listener | None = None) -> np.ndarray:
        """The mean of every cell, in the units of the data."""
        return self.fitted_.within(bytes_of(self.memory_limit)).fill(series, listener)

    def _filler(self, listener: Listener | None) -> Fill:
        return lambda series: self.impute_series(series, listener)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def impute(
        self,
        frame: Any,
        *,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
        method: str = "nrtsi",
        interval: float | None = None,
        max_gap: float | str | None = None,
        max_width: float | Mapping[str, float] | None = None,
        provenance: bool = False,
    ) -> Any:
        """Returns `frame` with every missing cell filled and nothing else changed.

        Args:
            frame: Data of the fitted kind.
            at: Return the values at these times only, on the grid or off it: a list of times, or
                a table of times (and ids).
            every: Return the values at regular times only, so far apart ("15min", or a number),
                from the first to the last row of each series.
            times: Times of the steps of an array.
            listener: Told of every pass.
            method: "nrtsi"; a baseline such as "linear"; or "auto", for every channel and length
                of gap the one that was best in the back-test, which is made here unless it was
                made before.
            interval: Probability, such as 0.9, with which the truth is to lie between two more
                columns of each value column, `…_lower` and `…_upper`; empty where it is observed.
            max_gap: Longest gap to fill, a duration such as "6h" or a number of steps, from the
                observation before to the observation after; cells of longer ones stay missing.
            max_width: Widest interval with which a cell is filled, in the units of its column, one
                for all or one by column; cells with a wider one stay missing. The interval is that
                of `interval`, or 0.9.
            provenance: Adds more columns for each value column: `…_source`, which is observed,
                imputed, refused, or missing where nothing is known of its series; `…_method`,
                `…_gap` and the interval.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The data cannot be used, or differs from the fitted; the message says how.
        """
        options = ImputeOptions(method, interval, max_gap, max_width, provenance)
        panel = self.read_fitted(frame, times=times)
        asked = panel.asked(at, every)
        options.check(asked)
        if options.only_values:
            return asked.fill(self._values(panel, asked, listener))
        if not options.needs_intervals:
            return asked.fill(self._without_intervals(panel, asked, options, listener))
        filled = self.fill_panel(panel, asked, options, listener)
        if not options.adds_columns:
            return asked.fill(filled.kept)
        return asked.append_columns(asked.fill(filled.kept), filled.columns(about=provenance))

    def _values(
        self, panel: Panel, asked: Panel, listener: Listener | None
    ) -> Float[np.ndarray, "row dim"]:
        """The values alone, which is faster than with all that can be said of them."""
        return self._inside(self.values(panel, asked, self._filler(listener)))

    def _without_intervals(
        self, panel: Panel, asked: Panel, options: ImputeOptions, listener: Listener | None
    ) -> Float[np.ndarray, "row dim"]:
        """The values of any method, but for gaps that are too long."""
        method = options.method
        answers, _ = self._answers(panel, asked, method, listener, unsure=False)
        refused = options.refusal(self.clock_, self.columns_).refused(answers.gaps, None)
        return np.where(refused.cells, np.nan, answers.value)

    def _inside(self, values: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "row dim"]:
        bounds = self._bounds(self.fitted_.scaler)
        return values if bounds is None else bounds.kept(values)

    def fill_panel(
        self, panel: Panel, asked: Panel, options: ImputeOptions, listener: Listener | None = None
    ) -> ImputationResult:
        """All that is said of the cells of `asked`, and where it comes from."""
        answers, choice = self._answers(panel, asked, options.method, listener)
        if answers.calibration.is_empty:
            log.warning("%s", UNCALIBRATED)
        ends = answers.interval(options.level)
        refusal = options.refusal(self.clock_, self.columns_)
        refused = refusal.refused(answers.gaps, ends[1] - ends[0])
        return ImputationResult(
            self._names, self.clock_, answers.value, ends, answers.gaps, refused, choice
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.columns_.values or ())

    def _answers(
        self,
        panel: Panel,
        asked: Panel,
        method: str,
        listener: Listener | None,
        *,
        unsure: bool = True,
    ) -> tuple[PredictiveDistribution, MethodSelection]:
        """What is said of every cell of `asked`, and by which method.

        A baseline is tried only where it matters how `unsure` it is.
        """
        check_method(method)
        if method in BASELINES and not unsure:
            dims = panel.series.dims
            choice, calibration = MethodSelection.always(method, dims), Calibration.none(dims)
        else:
            choice, calibration = self._choice(panel, method, listener)
        fitted = self.fitted_.within(bytes_of(self.memory_limit))
        bounds = self._bounds(fitted.scaler)
        belief = believed(fitted, panel, asked, choice, listener)
        return PredictiveDistribution(
            asked.series, belief, Gaps.of(asked.series), calibration, bounds
        ), choice

    def _choice(
        self, panel: Panel, method: str, listener: Listener | None
    ) -> tuple[MethodSelection, Calibration]:
        """Which method fills which cells, and how their errors are distributed."""
        dims = panel.series.dims
        if method == "nrtsi":
            return MethodSelection.always(method, dims), self.fitted_.calibration
        if method == "auto" and self.fitted_.auto is not None:
            return self.fitted_.auto
        trial = self._backtest(
            panel, tuple(BASELINES) if method == "auto" else (method,), listener
        )
        if method in trial.failed:
            raise InputError(f"{method} cannot fill these data: {trial.failed[method]}")
        if method != "auto":
            return MethodSelection.always(method, dims), trial.calibrate(method)
        assert self.fitted_.auto is not None
        return self.fitted_.auto

    def sample(
        self,
        frame: Any,
        *,
        draws: int = 10,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
        method: str = "nrtsi",
    ) -> Any:
        """Draws whole paths: `frame` once for every draw, with a first column `draw`.

        Missing cells differ from draw to draw by as much as they are uncertain; inside a draw they
        fit together, over time and between channels, so that sums and means of a draw are as
        uncertain as they should be (see `nrtsi.pool`). An array gets a first axis of draws
        instead. With the setting "stochastic" every point is drawn by the network, given those
        drawn before it.

        Raises:
            InputError: `draws` is not positive, or as for `impute`.
        """
        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise InputError(f"draws must be a whole number and at least 1, got {draws!r}")
        panel = self.read_fitted(frame, times=times)
        asked = panel.asked(at, every)
        if self._draws_in_turn and method == "nrtsi":
            ways = (self._way(draw, draws, listener) for draw in range(draws))
            values = [self._inside(self.values(panel, asked, way)) for way in ways]
        else:
            answers, _ = self._answers(panel, asked, method, listener)
            values = list(answers.draws(draws, int(self.seed)))
        return asked.stack(values, "draw", list(range(draws)))

    @property
    def _draws_in_turn(self) -> bool:
        """Whether the networks draw point after point."""
        return self.fitted_.setting == "stochastic"

    def _way(self, draw: int, draws: int, listener: Listener | None) -> Fill:
        """One of several draws, in turn."""
        fitted = self.fitted_.within(bytes_of(self.memory_limit))
        told = part_of(listener, draw / draws, 1 / draws)
        return lambda series: fitted.draw(series, self.seed, draw, told)

    def answers(
        self, series: SeriesSet, listener: Listener | None = None
    ) -> PredictiveDistribution:
        """What the model says of every cell of series that were read already."""
        fitted = self.fitted_.within(bytes_of(self.memory_limit))
        belief, gaps = fitted.predict(series, listener=listener), Gaps.of(series)
        return PredictiveDistribution(
            series, belief, gaps, fitted.calibration, self._bounds(fitted.scaler)
        )

    def draw_series(
        self, series: SeriesSet, draws: int, listener: Listener | None = None
    ) -> list[np.ndarray]:
        """Draws of series that were read already, those of `sample`."""
        if not self._draws_in_turn:
            return list(self.answers(series, listener).draws(draws, int(self.seed)))
        ways = (self._way(draw, draws, listener) for draw in range(draws))
        values = (self._inside(way(series)) for way in ways)
        return [np.where(series.observed, series.value, value) for value in values]

    def quantiles(
        self,
        frame: Any,
        *,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
        method: str = "nrtsi",
    ) -> Any:
        """Quantiles of every missing cell: `frame` once for every level.

        The first column, `quantile`, says which; an array gets a first axis instead. They are
        those of errors that the model made on cells set aside, in gaps about as long.

        Raises:
            InputError: A level is not between 0 and 1, or as for `impute`.
        """
        _check_levels(levels)
        panel = self.read_fitted(frame, times=times)
        asked = panel.asked(at, every)
        answers, _ = self._answers(panel, asked, method, listener)
        values = [answers.quantile(level) for level in levels]
        return asked.stack(values, "quantile", list(levels))

    def backtest(
        self,
        frame: Any,
        *,
        baselines: Sequence[str] = tuple(BASELINES),
        times: np.ndarray | None = None,
        listener: Listener | None = None,
    ) -> Backtest:
        """Scores the model and the baselines on known cells of `frame` that they never saw.

        The cells are hidden in gaps like those of the data: as long, in as many channels at once.
        A model that was fitted on these very data is tried on the cells that were set aside then;
        one fitted on other data, on cells of these. A model that is not fitted, or that has seen
        parts of these data, stays as it is: a copy is fitted on what is not hidden. A fitted model
        that is compared with all baselines keeps in mind which was best where, for
        `method="auto"`.

        Args:
            frame: Anything that `fit` takes.
            baselines: Names of the baselines to score.
            times: Times of the steps of an array.
            listener: Told of every step of training and every pass of imputation.

        Raises:
            InputError: The frame or a setting cannot be used, or there is too little to hide.
        """
        check_baselines(baselines)
        fitted = self.__sklearn_is_fitted__()
        panel = self.read_fitted(frame, times=times) if fitted else self.read(frame, times=times)
        return self._backtest(panel, tuple(baselines), listener)

    def _backtest(
        self, panel: Panel, baselines: Sequence[str], listener: Listener | None
    ) -> Backtest:
        series = panel.series
        fitted = self.fitted_ if self.__sklearn_is_fitted__() else None
        aside = None if fitted is None else fitted.set_aside(series)
        model, failure = self, None
        if fitted is None or (aside is None and fitted.has_seen(series)):
            model, failure = self._refitted(panel, listener)
            aside = model.fitted_.set_aside(series) if failure is None else None
        aside = aside or HoldOut.of(series, **model._how_aside(series))
        if aside is None:
            raise InputError(
                f"the data must have enough known cells to hide some, got "
                f"{series.observed.sum()} known cells in {series.series} series; give more rows"
            )
        cells = int(series.observed.sum())
        trial = model._try(aside, baselines, listener, cells=cells, failure=failure)
        if fitted is not None and set(baselines) == set(BASELINES):
            self.fitted_ = replace(fitted, auto=(trial.selection, trial.calibrate("auto")))
        return replace(trial, backend=panel.backend, remarks=panel.guesses)

    def _refitted(
        self, panel: Panel, listener: Listener | None
    ) -> "tuple[NRTSI, Exception | None]":
        """A copy fitted on these data, and why it could not be."""
        model = NRTSI(**self.get_params(deep=False))
        try:
            model.fit_panel(panel, listener=listener)
        except MODEL_FAILURES as error:
            return model, error
        return model, None

    def _try(
        self,
        aside: HoldOut,
        baselines: Sequence[str],
        listener: Listener | None,
        *,
        cells: int = 0,
        failure: Exception | None = None,
    ) -> Backtest:
        """What the model and the baselines say of the cells that are set aside."""

        def predict(known: SeriesSet) -> Prediction:
            if failure is not None:
                raise failure
            fitted = self.fitted_.within(bytes_of(self.memory_limit))
            return fitted.predict(known, listener=listener)

        bounds = None if failure is not None else self._bounds(self.fitted_.scaler)
        return run_backtest(
            aside,
            predict,
            baselines,
            clock=self.clock_,
            names=self._names,
            cells=cells,
            bounds=bounds,
        )

    def save(self, path: str | Path) -> None:
        """Writes the model to one safetensors file, whole or not at all.

        Where series are remembered their values may be in it: `info()` says what is.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The file cannot be written.
        """
        self.must_be_fitted()
        tensors, record = self.fitted_.pack()
        model_file.save(Path(path), "model", tensors, record | self._about())

    def info(self) -> dict[str, Any]:
        """What the model is, as plain JSON: settings, columns, clock, sizes, training."""
        self.must_be_fitted()
        return self.fitted_.info() | self._about()

    def _about(self) -> dict[str, Any]:
        columns = self.columns_
        return {
            "columns": {"time": columns.time, "id": columns.id, "values": columns.values},
            "clock": self.clock_.to_json(),
            "params": _plain(self.get_params(deep=False)),
        }


def load(path: str | Path, *, device: str = "auto") -> NRTSI:
    """Reads a model that `NRTSI.save` or `nrtsi fit` wrote; it imputes exactly as that one does.

    Raises:
        CheckpointError: The file is absent, damaged, or not a model of this library.
    """
    tensors, record = model_file.load(Path(path), "model")
    model = NRTSI(**record["params"] | {"device": device})
    model.clock_ = Clock.from_json(record["clock"])
    model.columns_ = Columns(**record["columns"])
    model.guesses_ = ()
    model.fitted_ = FittedModel.unpack(tensors, record, device_of(device))
    for name in ("setting", "preset", "steps", "history"):
        setattr(model, f"{name}_", record[name])
    return model


_ASKED = ("at", "every", *IMPUTE_OPTIONS)
"""What `NRTSI.impute` is asked for; all else are settings of the model."""


def impute(
    frame: Any,
    *,
    time: str | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    budget: str | float = "60s",
    steps: int | None = None,
    seed: int = 0,
    listener: Listener | None = None,
    **settings: Any,
) -> Any:
    """Returns `frame` with every missing cell filled: trains on the frame itself, then imputes.

    Args:
        frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
            (series, step, dim). NaN and null are missing.
        time: Column of times; guessed without it.
        id: Column that tells series apart; guessed without it.
        columns: Columns to impute; all numeric ones without it.
        budget: Time to train, as "60s", "10m" or seconds.
        steps: Number of training steps instead of a time.
        seed: Seed of every random choice.
        listener: Told of every step of training and every pass of imputation.
        settings: Further arguments of `NRTSI` and of `NRTSI.impute`, such as `interval=0.9`,
            `method="auto"` or `max_gap="6h"`.

    Raises:
        InputError: The data or a setting cannot be used; the message says what to change.
    """
    asked = {name: settings.pop(name) for name in _ASKED if name in settings}
    times = settings.pop("times", None)
    model = NRTSI(
        time=time, id=id, columns=columns, budget=budget, steps=steps, seed=seed, **settings
    )
    panel = model.read(frame, times=times)
    if panel.series.observed.all() and not asked:
        return frame  # nothing is missing, so there is nothing to learn for
    warn_of_row_numbers(panel)
    ImputeOptions(**{name: asked[name] for name in IMPUTE_OPTIONS if name in asked}).check(panel)
    model.fit_panel(panel, listener=listener)
    return model.impute(frame, times=times, listener=listener, **asked)


def _check_levels(levels: Any) -> None:
    numbers = isinstance(levels, list | tuple | np.ndarray) and len(levels) > 0
    if not numbers or not all(
        isinstance(level, int | float | np.number) and 0 < level < 1 for level in levels
    ):
        raise InputError(
            f"levels must be a list of numbers between 0 and 1, got {levels!r}; "
            f"write (0.05, 0.5, 0.95)"
        )


def _check_validation(held: SeriesSet, course: TrainingPlan) -> None:
    """Refuses data by which no weights could be chosen."""
    if not held.observed.any():
        raise InputError("validation must have something observed, got nothing; leave it out")
    if held.partly.any() and not course.layout.partial:
        raise InputError(
            f"validation must have rows observed in all columns or in none, as the data have, got "
            f"{int(held.partly.sum())} partly observed rows; fit with setting='partial'"
        )


def _identity(
    course: TrainingPlan, series: SeriesSet, held: SeriesSet | None, kept: AnalogFit | None
) -> str:
    """A digest of the data and of every setting: only the same run can be gone on with."""
    digest = hashlib.sha256()
    for data in (series,) if held is None else (series, held):
        for array in (data.time, data.value, data.observed, data.start):
            digest.update(np.ascontiguousarray(array).tobytes())
    remembered = None
    if kept is not None:
        arrays, remembered = kept.memory.pack()
        for name in sorted(arrays):
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    settings = [
        remembered,
        course.model.model_dump(),
        course.schedule.model_dump(),
        course.train.model_dump(exclude={"batch", "compile"}),
        course.layout.to_dict(),
        course.hiding.kinds,
        course.budget.seconds,
        course.budget.steps,
        course.seed,
        course.free,
    ]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the constructor as JSON knows them."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return {str(key): plain(each) for key, each in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str):
            return [plain(each) for each in value]
        return value

    return {name: plain(value) for name, value in params.items()}
