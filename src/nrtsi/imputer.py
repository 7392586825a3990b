"""`NRTSI`: fit, impute, sample, quantiles, save and load; everything is done elsewhere."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from nrtsi import __version__
from nrtsi.config import (
    PRESETS,
    ModelConfig,
    ScheduleConfig,
    TrainConfig,
    preset_for,
    schedule_for,
    validated,
)
from nrtsi.errors import InputError
from nrtsi.estimator import Fill, Imputer
from nrtsi.events import Listener
from nrtsi.fingerprint import fingerprint, overlap
from nrtsi.frames import Clock, Columns, Panel, duration
from nrtsi.inference import Engine, noise, part_of
from nrtsi.missing import Hiding, rows_fail_together
from nrtsi.model.rows import RowNetwork
from nrtsi.model.tokens import Layout
from nrtsi.scaling import Scaler
from nrtsi.series import SeriesSet
from nrtsi.training import checkpoint
from nrtsi.training.curriculum import Budget, Course, train

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
        max_level: Coarsest level; it reaches gaps of `2**max_level` units.
        model: Fields of `ModelConfig` to set otherwise than the preset does.
        schedule: Fields of `ScheduleConfig` to set otherwise than the setting does.
        train: Fields of `TrainConfig` to set otherwise than the preset does.
        device: "cpu", "cuda", …, or "auto" for a GPU where there is one.
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
        max_level: int = 4,
        model: Mapping[str, Any] | None = None,
        schedule: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        device: str = "auto",
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
        self.model = model
        self.schedule = schedule
        self.train = train
        self.device = device

    def fit(
        self,
        frame: Any,
        y: object = None,
        *,
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        times: np.ndarray | None = None,
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
            listener: Told of every training step.
            checkpoint: File to keep the state of training in; once the model is saved it has
                served.
            resume: Go on from that file if it is there.

        Raises:
            InputError: The data or a setting cannot be used; the message says what to change.
            TrainingError: The loss is not finite; the model has the best weights so far.
        """
        panel = self.read(frame, time=time, id=id, columns=columns, times=times)
        path = None if checkpoint is None else Path(checkpoint)
        return self.fit_panel(panel, listener=listener, path=path, resume=resume)

    def fit_panel(
        self,
        panel: Panel,
        *,
        listener: Listener | None = None,
        path: Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Trains on data that has been read already; `path` is that of the checkpoint."""
        self._settle(panel)
        self.fit_series(panel.series, listener=listener, path=path, resume=resume)
        return self

    def fit_series(
        self,
        series: SeriesSet,
        *,
        listener: Listener | None = None,
        path: Path | None = None,
        resume: bool = False,
    ) -> None:
        """Trains on the observed cells of `series`."""
        budget = self._budget()
        self.setting_ = self._choose_setting(series)
        self.preset_ = preset_for(self.preset, budget.seconds)
        self.scaler_ = Scaler.fit(series)
        scaled = self.scaler_.scale(series)
        course = self._course(scaled, budget)
        self.fingerprint_ = fingerprint(series)
        identity = _identity(course, series)
        trained = train(
            course, scaled, path=path, identity=identity, resume=resume, listener=listener
        )
        self.engine_ = Engine(trained.networks, course.model, course.layout, course.schedule)
        self.history_, self.steps_ = trained.history, trained.steps
        if trained.failure is not None:
            raise trained.failure

    def fill_series(self, series: SeriesSet, listener: Listener | None = None) -> np.ndarray:
        """The mean of every cell, in the units of the data."""
        return self._fill(series, self.engine_, None, listener)

    def _fill(
        self,
        series: SeriesSet,
        engine: Engine,
        draw: np.ndarray | None,
        listener: Listener | None,
    ) -> np.ndarray:
        self._refuse_partial(series)
        scaled = self.scaler_.scale(series)
        return self.scaler_.unscale(engine.fill(scaled, draw=draw, listener=listener))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "engine_")

    def impute(
        self,
        frame: Any,
        *,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
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

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The data cannot be used, or differs from the fitted; the message says how.
        """
        panel = self.open(frame, times=times)
        asked = panel.asked(at, every)
        return asked.fill(self.values(panel, asked, lambda s: self.fill_series(s, listener)))

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
        unique = list(dict.fromkeys(self.engine_.networks))
        tensors = {
            f"network.{index}.{name}": tensor
            for index, network in enumerate(unique)
            for name, tensor in network.state_dict().items()
        }
        tensors["fingerprint"] = torch.from_numpy(self.fingerprint_)
        settings = self.info() | {
            "networks": [unique.index(network) for network in self.engine_.networks],
            "history": self.history_,
        }
        checkpoint.save(Path(path), "model", tensors, settings)

    def info(self) -> dict[str, Any]:
        """What the model is, as plain JSON: settings, columns, clock, sizes, training."""
        self.must_be_fitted()
        engine = self.engine_
        return {
            "version": __version__,
            "parameters": sum(p.numel() for p in engine.networks[0].parameters()),
            "levels": engine.schedule.max_level + 1,
            "preset": self.preset_,
            "setting": self.setting_,
            "steps": self.steps_,
            "params": _plain(self.get_params(deep=False)),
            "model": engine.model.model_dump(),
            "schedule": engine.schedule.model_dump(),
            "layout": {
                "dims": engine.layout.dims,
                "partial": engine.layout.partial,
                "periods": list(engine.layout.periods),
            },
            "scaler": self.scaler_.to_dict(),
            "clock": self.clock_.to_json(),
            "columns": {
                "time": self.columns_.time,
                "id": self.columns_.id,
                "values": None if self.columns_.values is None else list(self.columns_.values),
            },
        }

    def has_seen(self, series: SeriesSet) -> bool:
        """True where the model was fitted on rows of `series` (time in units of its clock)."""
        return overlap(self.fingerprint_, series) > 0.01

    def _draws(
        self, panel: Panel, asked: Panel, draws: int, listener: Listener | None
    ) -> list[np.ndarray]:
        if draws < 1:
            raise InputError(f"draws must be at least 1, got {draws}")
        if self.engine_.model.head == "point":
            raise InputError(
                "this model has a point head and knows no uncertainty; "
                "fit one with model={'head': 'gaussian'} to draw"
            )
        engine = self._drawing_engine()

        def drawn(draw: int) -> Fill:
            told = part_of(listener, draw / draws, 1 / draws)
            return lambda series: self._fill(series, engine, noise(series, self.seed, draw), told)

        return [self.values(panel, asked, drawn(draw)) for draw in range(draws)]

    def _drawing_engine(self) -> Engine:
        """The engine; where the user chose no setting, wide gaps are drawn one by one.

        Points of one hole that are drawn together would not fit each other.
        """
        engine = self.engine_
        if self.setting != "auto":
            return engine
        alone = {"one_by_one_above": min(4.0, 2.0**engine.schedule.max_level)}
        schedule = engine.schedule.model_copy(update=alone | {"one_by_one_in": "hole"})
        return Engine(engine.networks, engine.model, engine.layout, schedule)

    def _budget(self) -> Budget:
        if self.steps is None:
            return Budget(seconds=duration(self.budget))
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 0:
            raise InputError(f"steps must be a whole number, 0 or more, got {self.steps!r}")
        return Budget(steps=self.steps)

    def _choose_setting(self, series: SeriesSet) -> str:
        if self.setting != "auto":
            return self.setting
        partly = not series.observed.all() and not rows_fail_together(series)
        if partly or (series.dims > 1 and series.observed.all()):
            return "partial"
        return "regular" if _on_grid(series) else "irregular"

    def _course(self, scaled: SeriesSet, budget: Budget) -> Course:
        """All settings of a training run, checked."""
        partial = self.setting_ == "partial" or (
            not scaled.observed.all() and not rows_fail_together(scaled)
        )
        preset = PRESETS[self.preset_]
        # The paper: one network is enough where rows are partly observed.
        per_level = {"per_level": preset.model.per_level and not partial}
        fields = preset.model.model_dump() | per_level | dict(self.model or {})
        schedule = schedule_for(
            self.setting_, regular=_on_grid(scaled), max_level=self.max_level
        ).model_dump()
        return Course(
            model=validated(ModelConfig, fields),
            layout=Layout(scaled.dims, partial, self._periods(scaled)),
            schedule=validated(ScheduleConfig, schedule | dict(self.schedule or {})),
            train=validated(TrainConfig, preset.train.model_dump() | dict(self.train or {})),
            hiding=Hiding.choose(self.hide, scaled, whole_rows=not partial),
            budget=budget,
            seed=_checked_seed(self.seed),
            device=_device(self.device),
        )

    def _periods(self, series: SeriesSet) -> tuple[float, ...]:
        """Cycles of the calendar that the data goes through at least twice."""
        if self.preset_ == "paper" or not hasattr(self, "clock_"):
            return ()
        span = float(np.ptp(series.time)) if series.rows else 0.0
        return tuple(period for period in self.clock_.periods() if 2 * period <= span)

    def _refuse_partial(self, series: SeriesSet) -> None:
        some, every = series.observed.any(axis=1), series.observed.all(axis=1)
        if not self.engine_.layout.partial and (some != every).any():
            partly = np.flatnonzero(some != every)
            key = series.keys[int(series.owner[partly[0]])]
            raise InputError(
                f"rows must be observed in all columns or in none, as in the data this model was "
                f"fitted on, got {partly.size} partly observed rows, the first in series {key!r}; "
                f"fit with setting='partial'"
            )


def load(path: str | Path, *, device: str = "auto") -> NRTSI:
    """Reads a model that `NRTSI.save` or `nrtsi fit` wrote; it imputes exactly as that one does.

    Raises:
        CheckpointError: The file is absent, damaged, or not a model of this library.
    """
    tensors, settings = checkpoint.load(Path(path), "model")
    model = NRTSI(**settings["params"] | {"device": device})
    model.clock_ = Clock.from_json(settings["clock"])
    model.columns_ = Columns(**settings["columns"])
    model.guesses_ = ()
    model.scaler_ = Scaler.from_dict(settings["scaler"])
    model.fingerprint_ = tensors["fingerprint"].numpy()
    for name in ("setting", "preset", "steps", "history"):
        setattr(model, f"{name}_", settings[name])
    config, schedule = (
        ModelConfig(**settings["model"]),
        ScheduleConfig(**settings["schedule"]),
    )
    shape = settings["layout"]
    layout = Layout(shape["dims"], shape["partial"], tuple(shape["periods"]))
    unique = []
    for index in range(max(settings["networks"]) + 1):
        network = RowNetwork(config, layout, schedule.max_level + 1)
        prefix = f"network.{index}."
        network.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        unique.append(network.to(_device(device)).eval())
    networks = [unique[index] for index in settings["networks"]]
    model.engine_ = Engine(networks, config, layout, schedule)
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
    model.fit(frame, times=times, listener=listener)
    return model.impute(frame, times=times, listener=listener, **asked)


def _on_grid(series: SeriesSet) -> bool:
    """True where all spacings are whole numbers of units."""
    spacing = np.diff(series.time)[np.diff(series.owner) == 0]
    return bool((np.abs(spacing - np.rint(spacing)) <= 1e-3).all())


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here; use 'auto' or 'cpu'") from error
    return device


def _checked_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number, 0 or more, got {seed!r}")
    return int(seed)


def _identity(course: Course, series: SeriesSet) -> str:
    """A digest of the data and of every setting: only the same run can be gone on with."""
    digest = hashlib.sha256()
    for array in (series.time, series.value, series.observed, series.start):
        digest.update(np.ascontiguousarray(array).tobytes())
    settings = [
        course.model.model_dump(),
        course.schedule.model_dump(),
        course.train.model_dump(),
        course.hiding.kinds,
        course.budget.seconds,
        course.budget.steps,
        course.seed,
    ]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the constructor as JSON knows them."""
    return {
        name: list(value)
        if isinstance(value, tuple)
        else dict(value)
        if isinstance(value, Mapping)
        else value
        for name, value in params.items()
    }
