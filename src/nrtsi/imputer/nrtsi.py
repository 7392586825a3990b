"""`NRTSI`: the estimator. It reads data, fits, imputes, samples, back-tests and saves."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Imputer, warn_of_row_numbers
from nrtsi.core.bounds import Bounds
from nrtsi.core.events import Listener
from nrtsi.core.gaps import Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import Backtest, check_baselines
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.fitted import FittedModel
from nrtsi.imputer.fitting import fit_model
from nrtsi.imputer.options import ImputeOptions, ImputeTask, check_levels, check_method
from nrtsi.imputer.result import ImputationResult, PredictiveDistribution
from nrtsi.imputer.selection import backtest_panel, baseline_values, select_method
from nrtsi.inference import sub_listener
from nrtsi.tables import Panel, read
from nrtsi.training import checkpoint as checkpoints

__all__ = ["NRTSI"]

log = logging.getLogger(__name__)


class NRTSI(Imputer):
    """Imputes missing values coarse to fine with a set transformer.

    Follows the scikit-learn estimator API; scikit-learn is imported only when needed.

    Args:
        preset: Size of the network: "tiny", "small", "base", "large" or "paper". Default: the
            size that suits the budget.
        setting: Order of imputation: "regular", "irregular", "stochastic", "partial", the
            ablations "all" and "smallest", or "auto" to decide from the data.
        budget: Training time, such as "60s", "10m", "1h", or a number of seconds.
        steps: Number of training steps over all levels, instead of a time.
        seed: Seed of every random choice. The same seed, data, machine and number of steps give
            the same result.
        mask: How training hides observed cells: "empirical" (gaps like those of the data),
            "points", "blocks", or "auto" to decide from the data.
        max_level: Coarsest level, which reaches distances of `2**max_level` units. "auto" reaches
            the middle of the longest gap of the training data, 16 units at least.
        scaling: Unit of the training error: the standard deviation of each "channel", so that all
            channels weigh the same, or one "shared" by all, for channels of one unit such as
            coordinates.
        predictors: Names of the base predictors, out of "analogs", "gp" (Gaussian process) and
            "dynamics"; each is kept only if it lowers the held-out error. Default: all, and none
            with the preset "paper".
        model: Fields of `ModelConfig` that override the preset.
        schedule: Fields of `ScheduleConfig` that override the setting.
        train: Fields of `TrainConfig` that override the preset.
        device: "cpu", "cuda", …, or "auto" to use a GPU if one is available.
        memory_limit: Working memory for imputing, such as "512MB", "1GiB" or a number of bytes.
            It limits how many series and windows are processed at once and changes at most the
            last digits of a result.
        time: Column of times. Default: detected (a datetime index, a column `time`, …).
        id: Column that identifies the series of a long table.
        columns: Columns to impute. Default: all numeric columns.
        unit: Unit of time, a duration such as "1h" or a number. Default: the median spacing.
        on_empty: What to do with a series without any observation: raise an "error", or "skip"
            it, which leaves it missing.
        bounds: Lower and upper bound of columns, such as `{"rain": (0, None)}`. Imputed values,
            draws and intervals stay within them.

    Attributes:
        setting_: The order of imputation in use.
        preset_: The preset in use.
        steps_: Number of training steps made.
        seconds_: Training time over all resumed runs; not saved to a file.
        history_: One record per validation: level, step, loss, validation loss.
        detected_: Sentences that state what was detected about the columns.

    Example:
        >>> from nrtsi import NRTSI
        >>> NRTSI(seed=7).get_params()["seed"]
        7
    """

    fitted_: FittedModel

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
        predictors: Sequence[str] | None = None,
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
        self.preset, self.setting, self.predictors = preset, setting, predictors
        self.budget, self.steps, self.seed = budget, steps, seed
        self.mask, self.max_level = mask, max_level
        self.scaling, self.bounds = scaling, bounds
        self.model, self.schedule, self.train = model, schedule, train
        self.device, self.memory_limit = device, memory_limit

    setting_ = property(lambda self: self.fitted_.setting)
    preset_ = property(lambda self: self.fitted_.preset)
    steps_ = property(lambda self: self.fitted_.steps)
    history_ = property(lambda self: self.fitted_.history)

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
        """Trains on the observed cells of `frame`.

        About 15 % of the cells are held out first, in gaps like those of the data. Training never
        sees them; they calibrate the intervals.

        Args:
            frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
                (series, step, dim). NaN and null are missing.
            y: Ignored; present for scikit-learn pipelines.
            time: Column of times; overrides the constructor.
            id: Column of ids; overrides the constructor.
            columns: Columns to impute; overrides the constructor.
            times: Times of the steps of an array.
            validation: Data like `frame` that select the best weights and calibrate the
                intervals. Default: parts of `frame` are held out for both.
            validation_times: Times of the steps if `validation` is an array.
            listener: Is called at every training step.
            checkpoint: File that keeps the state of training.
            resume: Continue from that file if it exists.

        Raises:
            InputError: The data or a parameter cannot be used; the message says what to change.
            TrainingError: The loss is not finite; the model has the best weights so far.
        """
        panel = self.read(frame, time=time, id=id, columns=columns, times=times)
        warn_of_row_numbers(panel)
        other = None
        if validation is not None:
            other = read(validation, panel.columns, clock=panel.clock, times=validation_times)
        elif validation_times is not None:
            raise InputError("validation_times must come with validation; give both or neither")
        path = None if checkpoint is None else Path(checkpoint)
        return self.fit_panel(panel, validation=other, listener=listener, path=path, resume=resume)

    def fit_panel(
        self,
        panel: Panel,
        *,
        validation: Panel | None = None,
        listener: Listener | None = None,
        path: Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Trains on data that were read already; `path` is the file of the checkpoint."""
        if hasattr(self, "fitted_"):
            del self.fitted_  # a failed fit must not leave an old model with new columns
        self._record_schema(panel)
        params, known = (
            self.get_params(deep=False),
            None if validation is None else validation.series,
        )
        self.fitted_, trained = fit_model(
            params, panel, validation=known, listener=listener, path=path, resume=resume
        )
        self.seconds_, self.interrupted_ = trained.seconds, trained.interrupted
        if trained.failure is not None:
            raise trained.failure
        return self

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
        """Returns `frame` with every missing cell imputed and nothing else changed.

        Args:
            frame: Data of the kind the model was fitted on.
            at: Return the values at these times only, on the grid or off it: a list of times, or
                a table of times (and ids).
            every: Return the values at regular times only, this far apart ("15min", or a number),
                from the first to the last row of each series.
            times: Times of the steps of an array.
            listener: Is called at every step of the imputation.
            method: "nrtsi", a baseline such as "linear", or "auto": for every channel and gap
                length the method with the lowest error in the back-test. The back-test runs here
                unless it ran before.
            interval: Probability, such as 0.9, of the interval in two more columns per value
                column, `…_lower` and `…_upper`. They are empty for observed cells.
            max_gap: Longest gap to impute, a duration such as "6h" or a number of steps, from the
                observation before to the observation after. Cells of longer gaps stay missing.
            max_width: Widest interval to impute, in the units of the column: one for all columns
                or a mapping by column. Cells with wider intervals stay missing. The probability
                is `interval`, or 0.9.
            provenance: Add columns `…_source` (observed, imputed, refused, or missing if nothing
                is observed in the series), `…_method`, `…_gap` and the interval.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The data or an option cannot be used; the message says what to change.
        """
        options = ImputeOptions(method, interval, max_gap, max_width, provenance)
        panel = self.read_fitted(frame, times=times)
        return self.run(ImputeTask.of(panel, options, at=at, every=every), listener).frame()

    def run(
        self, task: ImputeTask, listener: Listener | None = None, *, intervals: bool = False
    ) -> ImputationResult:
        """Imputes the data of a task; `intervals` computes them even if no option needs them."""
        options, intervals = task.options, intervals or task.options.needs_intervals
        selection, calibration = select_method(
            self, task.panel, options.method, listener, calibrated=intervals
        )
        predicted = self.predict(task.panel.series, task.query, selection, calibration, listener)
        ends = width = None
        if intervals:
            if calibration.is_empty:
                log.warning(
                    "intervals are not calibrated: too few cells could be held out; fit on more "
                    "data, or take them as the network's own estimate"
                )
            ends = predicted.interval(options.level)
            width = ends[1] - ends[0]
        refused = task.limits.refused(predicted.gaps, width)
        return ImputationResult(task, predicted.value, ends, predicted.gaps, refused, selection)

    def predict(
        self,
        series: SeriesSet,
        query: Panel | None = None,
        selection: MethodSelection | None = None,
        calibration: Calibration | None = None,
        listener: Listener | None = None,
    ) -> PredictiveDistribution:
        """Predicts every cell of `series`, or of `query`, which has its rows and others.

        All methods use the network's standard deviation: it ranks cells by difficulty, and the
        calibration sets the scale. Without `selection`, the network predicts all cells.
        """
        model, rows = self.limited, series if query is None else query.series
        prediction, gaps = model.predict(series, query, listener=listener), Gaps.of(rows)
        mean = np.where(rows.in_empty_series[:, None], np.nan, prediction.mean)
        if selection is not None and query is not None:
            method = selection.index(gaps)
            for number, name in enumerate(selection.methods):
                if name != "nrtsi" and (chosen := method == number).any():
                    simple = baseline_values(name, series, query, self.clock_)
                    mean = np.where(chosen, simple, mean)
        selected = Prediction(mean, prediction.std)
        calibration = model.calibration if calibration is None else calibration
        return PredictiveDistribution(rows, selected, calibration, self.channel_bounds, gaps)

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """Returns the mean of every cell, in the units of the data and without bounds."""
        return self.limited.predict(series).mean

    @property
    def limited(self) -> FittedModel:
        """The fitted model, held to the memory limit."""
        return self.fitted_.with_memory_limit(bytes_of(self.memory_limit))

    @property
    def channel_bounds(self) -> Bounds | None:
        """The bounds of each channel; None without any."""
        return Bounds.of(self.bounds, list(self.names), self.fitted_.scaler.spread)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the value columns."""
        return tuple(str(name) for name in self.columns_.values or ())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

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
        """Draws coherent paths: `frame` once per draw, with a first column `draw`.

        Missing cells differ between draws by their uncertainty. Within a draw, errors are
        correlated over time and between channels, so that sums and means of a draw have the right
        uncertainty (see `nrtsi.pool`). An array gets a first axis of draws instead. With the
        setting "stochastic" the network draws every point given those drawn before.

        Raises:
            InputError: `draws` is not positive, or as for `impute`.
        """
        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise InputError(f"draws must be a whole number and at least 1, got {draws!r}")
        panel, query, selected = self._query(frame, at, every, times, method, listener)
        values = list(self.draw(panel.series, query, draws, *selected, listener))
        return query.stack(values, "draw", list(range(draws)))

    def draw(
        self,
        series: SeriesSet,
        query: Panel | None,
        draws: int,
        selection: MethodSelection | None = None,
        calibration: Calibration | None = None,
        listener: Listener | None = None,
    ) -> Iterator[Float[np.ndarray, "row dim"]]:
        """Yields draws of the rows of `query`; arguments as for `predict`."""
        network_only = selection is None or set(selection.used) == {"nrtsi"}
        if self.fitted_.setting != "stochastic" or not network_only:
            predicted = self.predict(series, query, selection, calibration, listener)
            yield from predicted.draws(draws, int(self.seed))
            return
        rows, bounds = series if query is None else query.series, self.channel_bounds
        for number in range(draws):
            part, draw = (
                sub_listener(listener, number / draws, 1 / draws),
                (int(self.seed), number),
            )
            drawn = self.limited.predict(series, query, draw=draw, listener=part)
            mean = np.where(rows.in_empty_series[:, None], np.nan, drawn.mean)
            inside = mean if bounds is None else bounds.clip(mean)
            yield np.where(rows.observed, rows.value, inside)

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
        """Returns quantiles: `frame` once per level, with a first column `quantile`.

        An array gets a first axis instead. The quantiles are those of the errors on held-out
        cells in gaps of about the same length.

        Raises:
            InputError: A level is not between 0 and 1, or as for `impute`.
        """
        check_levels(levels)
        panel, query, selected = self._query(frame, at, every, times, method, listener)
        predicted = self.predict(panel.series, query, *selected, listener)
        values = [predicted.quantile(level) for level in levels]
        return query.stack(values, "quantile", list(levels))

    def _query(
        self, frame: Any, at: Any, every: Any, times: Any, method: str, listener: Listener | None
    ) -> tuple[Panel, Panel, tuple[MethodSelection, Calibration]]:
        """Returns the data, the rows to predict, their methods and the error distribution."""
        check_method(method)
        panel = self.read_fitted(frame, times=times)
        query = panel.query(at, every)
        return panel, query, select_method(self, panel, method, listener)

    def backtest(
        self,
        frame: Any,
        *,
        baselines: Sequence[str] = tuple(BASELINES),
        times: np.ndarray | None = None,
        listener: Listener | None = None,
    ) -> Backtest:
        """Scores the model and the baselines on observed cells of `frame` that they never saw.

        The cells are masked in gaps like those of the data: as long, in as many channels at once.
        A model that was fitted on `frame` is scored on the cells that its fit held out. Instead
        of an unfitted model, or one that has seen parts of `frame`, a copy is fitted and scored.
        A fitted model that is compared with all baselines keeps the best methods for
        `method="auto"`.

        Args:
            frame: Data as for `fit`.
            baselines: Names of the baselines to score.
            times: Times of the steps of an array.
            listener: Is called at every step of training and imputation.

        Raises:
            InputError: The data or a parameter cannot be used, or too few cells can be held out.
        """
        check_baselines(baselines)
        fitted = self.__sklearn_is_fitted__()
        panel = self.read_fitted(frame, times=times) if fitted else self.read(frame, times=times)
        return backtest_panel(self, panel, tuple(baselines), listener)

    def save(self, path: str | Path) -> None:
        """Writes the model to one safetensors file, atomically.

        The file may contain values of the training series; `info()` states what it contains.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The file cannot be written.
        """
        self.must_be_fitted()
        tensors, record = self.fitted_.state()
        checkpoints.save(Path(path), "model", tensors, record | self._description())

    def info(self) -> dict[str, Any]:
        """Returns a description that JSON can hold: parameters, columns, sizes, training."""
        self.must_be_fitted()
        return self.fitted_.info() | self._description()

    def _description(self) -> dict[str, Any]:
        columns, params = self.columns_, self.get_params(deep=False)
        return {
            "columns": {"time": columns.time, "id": columns.id, "values": columns.values},
            "clock": asdict(self.clock_),
            "params": json.loads(json.dumps(params, default=_to_json)),
        }


def _to_json(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else list(value)
