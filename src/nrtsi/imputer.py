"""`NRTSI`: fit, impute, sample, quantiles, save and load; everything is done elsewhere."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from nrtsi.choices import course_of, device_of
from nrtsi.errors import InputError
from nrtsi.estimator import Fill, Imputer, warn_of_row_numbers
from nrtsi.events import Listener
from nrtsi.fingerprint import fingerprint
from nrtsi.fitted import Fitted
from nrtsi.frames import Clock, Columns, Panel, fitted_columns_must_match, read
from nrtsi.inference import Engine, part_of
from nrtsi.scaling import Scaler
from nrtsi.series import SeriesSet
from nrtsi.sizes import bytes_of
from nrtsi.training import checkpoint as model_file
from nrtsi.training.curriculum import Course, train

__all__ = ["NRTSI", "impute", "load"]

log = logging.getLogger(__name__)


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
        hide: How observed cells are hidden to learn from: the data's "own" gaps, "points",
            "blocks", or "auto" to decide by the data.
        max_level: Coarsest level; it reaches gaps of `2**max_level` units. "auto" reaches the
            middle of the longest hole of the data it is fitted on, gaps of 16 units at least.
        scaling: What an error of training is measured by: the spread of its "channel", so that all
            channels count alike; or "together" one spread for all, which suits channels of one
            unit, such as the coordinates of a place.
        model: Fields of `ModelConfig` to set otherwise than the preset does.
        schedule: Fields of `ScheduleConfig` to set otherwise than the setting does.
        train: Fields of `TrainConfig` to set otherwise than the preset does.
        device: "cpu", "cuda", …, or "auto" for a GPU where there is one.
        memory: What imputing may take beside the data, as "512MB", "1GiB" or bytes; it decides
            how many series and windows are worked on at once, and changes no more than the last
            digits of a result.
        time: Column of times; guessed without it (a datetime index, a column called `time`, …).
        id: Column that tells series apart, in a long table.
        columns: Columns to impute; all numeric ones without it.
        unit: Unit of time, a duration such as "1h" or a number; the median spacing without it.
        on_empty: What to do with a series in which nothing is observed: "error", or "skip" to
            leave it missing.

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
        hide: str = "auto",
        max_level: int | str = "auto",
        scaling: str = "channel",
        model: Mapping[str, Any] | None = None,
        schedule: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        device: str = "auto",
        memory: str | float = "1GiB",
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        unit: float | str | None = None,
        on_empty: str = "error",
    ) -> None:
        super().__init__(time=time, id=id, columns=columns, unit=unit, on_empty=on_empty)
        self.preset = preset
        self.setting = setting
        self.budget = budget
        self.steps = steps
        self.seed = seed
        self.hide = hide
        self.max_level = max_level
        self.scaling = scaling
        self.model = model
        self.schedule = schedule
        self.train = train
        self.device = device
        self.memory = memory

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

        Args:
            frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
                (series, step, dim). NaN and null are missing.
            y: Ignored; a pipeline passes it.
            time: Column of times, where the constructor was not told.
            id: Column of ids, where the constructor was not told.
            columns: Columns to impute, where the constructor was not told.
            times: Times of the steps of an array.
            validation: Data like `frame` by which the best weights are chosen; without them a
                part of `frame` is held out for it.
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
        self._settle(panel)
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
        scaled = scaler.scale(series)
        held = None if validation is None else scaler.scale(validation)
        words = self.get_params(deep=False)
        course, self.setting_, self.preset_ = course_of(words, scaled, self.clock_)
        if held is not None:
            _check_validation(held, course)
        network = course.model.network
        log.info("setting %s, preset %s, network %s", self.setting_, self.preset_, network)
        trained = train(
            course,
            scaled,
            validation=held,
            path=path,
            identity=_identity(course, scaled, held),
            resume=resume,
            listener=listener,
        )
        self.steps_, self.seconds_ = trained.steps, trained.seconds
        self.history_ = trained.history
        self.interrupted_ = trained.interrupted
        self.fitted_ = Fitted(
            engine=Engine(trained.networks, course.model, course.layout, course.schedule),
            scaler=scaler,
            fingerprint=fingerprint(series),
            setting=self.setting_,
            preset=self.preset_,
            steps=trained.steps,
            history=trained.history,
        )
        if trained.failure is not None:
            raise trained.failure

    def _scaler(self, series: SeriesSet) -> Scaler:
        if self.scaling not in ("channel", "together"):
            raise InputError(f"scaling must be 'channel' or 'together', got {self.scaling!r}")
        scaler = Scaler.fit(series)
        return scaler if self.scaling == "channel" else scaler.together()

    def fill_series(self, series: SeriesSet, listener: Listener | None = None) -> np.ndarray:
        """The mean of every cell, in the units of the data."""
        return self.fitted_.within(bytes_of(self.memory)).fill(series, listener)

    def _filler(self, listener: Listener | None) -> Fill:
        return lambda series: self.fill_series(series, listener)

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
    ) -> Any:
        """Draws whole paths: `frame` once for every draw, with a first column `draw`.

        Missing cells differ from draw to draw by as much as they are uncertain; inside a draw they
        fit together. An array gets a first axis of draws instead.

        Raises:
            InputError: `draws` is not positive, or the model has a point head, or as for `impute`.
        """
        panel = self.open(frame, times=times)
        asked = panel.asked(at, every)
        values = self._draws(panel, asked, draws, listener)
        return asked.stack(values, "draw", list(range(draws)))

    def quantiles(
        self,
        frame: Any,
        *,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        draws: int = 100,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
    ) -> Any:
        """Quantiles of every missing cell over `draws` draws: `frame` once for every level.

        The first column, `quantile`, says which; an array gets a first axis instead. Draws carry
        the uncertainty of earlier, coarser steps into the finer ones.

        Raises:
            InputError: A level is not between 0 and 1, or as for `sample`.
        """
        if not levels or any(not 0 < level < 1 for level in levels):
            raise InputError(f"levels must lie between 0 and 1, got {list(levels)}")
        panel = self.open(frame, times=times)
        asked = panel.asked(at, every)
        drawn = np.stack(self._draws(panel, asked, draws, listener))
        return asked.stack(list(np.quantile(drawn, levels, axis=0)), "quantile", list(levels))

    def save(self, path: str | Path) -> None:
        """Writes the model to one safetensors file, whole or not at all.

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

    def _draws(
        self, panel: Panel, asked: Panel, draws: int, listener: Listener | None
    ) -> list[np.ndarray]:
        if draws < 1:
            raise InputError(f"draws must be at least 1, got {draws}")

        fitted = self.fitted_.within(bytes_of(self.memory))

        def drawn(draw: int) -> Fill:
            told = part_of(listener, draw / draws, 1 / draws)
            return lambda series: fitted.draw(series, self.seed, draw, told)

        return [self.values(panel, asked, drawn(draw)) for draw in range(draws)]


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
    model.fitted_ = Fitted.unpack(tensors, record, device_of(device))
    for name in ("setting", "preset", "steps", "history"):
        setattr(model, f"{name}_", record[name])
    return model


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
        settings: Further arguments of `NRTSI`, and `at`, `every` and `times` of `impute`.

    Raises:
        InputError: The data or a setting cannot be used; the message says what to change.
    """
    asked = {name: settings.pop(name) for name in ("at", "every") if name in settings}
    times = settings.pop("times", None)
    model = NRTSI(
        time=time, id=id, columns=columns, budget=budget, steps=steps, seed=seed, **settings
    )
    panel = model.read(frame, times=times)
    if panel.series.observed.all() and not any(value is not None for value in asked.values()):
        return frame  # nothing is missing, so there is nothing to learn for
    warn_of_row_numbers(panel)
    model.fit_panel(panel, listener=listener)
    return model.impute(frame, times=times, listener=listener, **asked)


def _check_validation(held: SeriesSet, course: Course) -> None:
    """Refuses data by which no weights could be chosen."""
    if not held.observed.any():
        raise InputError("validation must have something observed, got nothing; leave it out")
    if held.partly.any() and not course.layout.partial:
        raise InputError(
            f"validation must have rows observed in all columns or in none, as the data have, got "
            f"{int(held.partly.sum())} partly observed rows; fit with setting='partial'"
        )


def _identity(course: Course, series: SeriesSet, held: SeriesSet | None) -> str:
    """A digest of the data and of every setting: only the same run can be gone on with."""
    digest = hashlib.sha256()
    for data in (series,) if held is None else (series, held):
        for array in (data.time, data.value, data.observed, data.start):
            digest.update(np.ascontiguousarray(array).tobytes())
    settings = [
        course.model.model_dump(),
        course.schedule.model_dump(),
        course.train.model_dump(exclude={"batch", "compile"}),
        course.layout.to_dict(),
        course.hiding.kinds,
        course.budget.seconds,
        course.budget.steps,
        course.seed,
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
