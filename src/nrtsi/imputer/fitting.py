"""Fits a model: scales the series, holds out cells, trains, and calibrates on them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nrtsi.core.bounds import Bounds
from nrtsi.core.events import Listener
from nrtsi.core.fingerprint import fingerprint, series_digest
from nrtsi.core.prediction import Prediction
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import digest
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import Backtest, run_backtest
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.imputer.fitted import FittedModel
from nrtsi.inference import Engine
from nrtsi.tables import Clock
from nrtsi.training.curriculum import train
from nrtsi.training.plan import TrainingSettings
from nrtsi.training.settings import has_one_row_per_unit, is_partial, resolve

__all__ = ["Fit", "bounds_of", "fit_model", "holdout_spec", "score"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fit:
    """A fitted model and how its training went."""

    model: FittedModel
    seconds: float
    interrupted: bool
    failure: Exception | None
    """Why training stopped early; the model has the best weights until then."""


def fit_model(
    params: Mapping[str, Any],
    series: SeriesSet,
    clock: Clock,
    names: Sequence[str],
    *,
    validation: SeriesSet | None = None,
    listener: Listener | None = None,
    path: Path | None = None,
    resume: bool = False,
) -> Fit:
    """Fits a model on the observed cells of `series`.

    Args:
        params: Parameters of `NRTSI`.
        series: The data, in the caller's units.
        clock: The unit of time.
        names: Names of the channels.
        validation: Series that select the weights; parts of `series` do without it.
        listener: Is called at every training step.
        path: File of the checkpoint.
        resume: Continue from the checkpoint if it exists.
    """
    scaler = _scaler(params["scaling"], series)
    bounds = bounds_of(params["bounds"], names, scaler)
    _warn_of_bounds(bounds, series, names)
    train_set = scaler.scale(series)
    validation_set = None if validation is None else scaler.scale(validation)
    settings = resolve(params, train_set, clock)
    spec = holdout_spec(params, series, clock)
    holdout = HoldOut.of(series if validation is None else validation, **spec, like=series)
    if holdout is not None and validation_set is None:
        train_set = holdout.remove_from(train_set)
    elif holdout is not None and validation_set is not None:
        validation_set = holdout.remove_from(validation_set)
    if validation_set is not None:
        _check_validation(validation_set, settings)
    log.info("setting %s, preset %s", settings.setting, settings.preset)
    trained = train(
        settings,
        train_set,
        validation=validation_set,
        path=path,
        identity=_identity(settings, train_set, validation_set),
        resume=resume,
        listener=listener,
    )
    model = FittedModel(
        engine=Engine(
            trained.networks,
            trained.plan.model,
            trained.plan.layout,
            trained.plan.schedule,
            trained.predictors.reloaded(),
        ),
        scaler=scaler,
        fingerprint=fingerprint(series),
        setting=settings.setting,
        preset=settings.preset,
        steps=trained.steps,
        history=trained.history,
        calibration=Calibration.none(series.dims),
        holdout=None if validation is not None else {"data": series_digest(series), "spec": spec},
    )
    if holdout is not None and trained.failure is None:
        backtest = score(model, holdout, clock, names, bounds)
        model = replace(model, calibration=backtest.calibrate())
    return Fit(model, trained.seconds, trained.interrupted, trained.failure)


def score(
    model: FittedModel | Exception,
    holdout: HoldOut,
    clock: Clock,
    names: Sequence[str],
    bounds: Bounds | None,
    *,
    baselines: Sequence[str] = (),
    cells: int = 0,
    listener: Listener | None = None,
) -> Backtest:
    """Predicts the held-out cells by the model and by baselines, and compares with the truth.

    Args:
        model: The fitted model, or the error that its fit raised.
        holdout: The hidden cells.
        clock: The unit of time.
        names: Names of the channels.
        bounds: Bounds of the channels.
        baselines: Names of the baselines.
        cells: Number of observed cells of the data.
        listener: Is called at every step of the imputation.
    """

    def predict(known: SeriesSet) -> Prediction:
        if isinstance(model, Exception):
            raise model
        return model.predict(known, listener=listener)

    return run_backtest(
        holdout, predict, baselines, clock=clock, names=tuple(names), cells=cells, bounds=bounds
    )


def holdout_spec(params: Mapping[str, Any], series: SeriesSet, clock: Clock) -> dict[str, Any]:
    """Arguments of `HoldOut.of` for these data."""
    return {
        "mask": params["mask"],
        "whole_rows": not is_partial(params["setting"], series),
        "seed": int(params["seed"]),
        "day": clock.day if has_one_row_per_unit(series) else None,
    }


def bounds_of(bounds: Any, names: Sequence[str], scaler: Scaler) -> Bounds | None:
    """The bounds of each channel; None without any."""
    return Bounds.of(bounds, list(names), scaler.spread)


def _scaler(scaling: str, series: SeriesSet) -> Scaler:
    if scaling not in ("channel", "shared"):
        raise InputError(f"scaling must be 'channel' or 'shared', got {scaling!r}")
    scaler = Scaler.fit(series)
    return scaler if scaling == "channel" else scaler.shared()


def _warn_of_bounds(bounds: Bounds | None, series: SeriesSet, names: Sequence[str]) -> None:
    if bounds is None:
        return
    counts = bounds.count_outside(series.value, series.observed)
    for name, count in zip(names, counts, strict=False):
        if count:
            log.warning("%d observed cells of %r lie beyond its bounds and stay", count, name)


def _check_validation(validation: SeriesSet, settings: TrainingSettings) -> None:
    """Refuses data that cannot select weights."""
    if not validation.observed.any():
        raise InputError("validation must have observed values, got none; leave it out")
    if validation.partly.any() and not settings.partial:
        raise InputError(
            f"validation must have rows observed in all columns or in none, as the data have, got "
            f"{int(validation.partly.sum())} partly observed rows; fit with setting='partial'"
        )


def _identity(settings: TrainingSettings, series: SeriesSet, validation: SeriesSet | None) -> str:
    """A digest of the data and the settings; a checkpoint resumes only the same run."""
    parts: list[Any] = []
    for data in (series,) if validation is None else (series, validation):
        parts += [data.time, data.value, data.observed, data.start]
    plan = settings.plan()
    values = [
        plan.model.model_dump(),
        plan.schedule.model_dump(),
        plan.train.model_dump(exclude={"batch", "compile"}),
        asdict(plan.layout),
        settings.predictors,
        settings.masking.kinds,
        settings.budget.seconds,
        settings.budget.steps,
        settings.seed,
    ]
    return digest(*map(np.asarray, parts), values)
