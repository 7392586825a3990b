"""Fits a model: scales the series, holds out cells, trains, and calibrates on them."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from nrtsi.core.bounds import Bounds
from nrtsi.core.events import Listener
from nrtsi.core.fingerprint import fingerprint, series_digest
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import digest
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import run_backtest
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.imputer.fitted import FittedModel
from nrtsi.inference import Engine
from nrtsi.tables import Clock, Panel
from nrtsi.training.curriculum import train
from nrtsi.training.settings import (
    Trained,
    TrainingSettings,
    has_one_row_per_unit,
    is_partial,
    resolve,
)

__all__ = ["fit_model", "holdout_spec"]

log = logging.getLogger(__name__)


def fit_model(
    params: Mapping[str, Any],
    panel: Panel,
    *,
    validation: SeriesSet | None = None,
    listener: Listener | None = None,
    path: Path | None = None,
    resume: bool = False,
) -> tuple[FittedModel, Trained]:
    """Fits a model with the parameters of `NRTSI`, and returns it with its training.

    Two parts of the data are held out. Training never sees the cells of `HoldOut`, which calibrate
    the intervals. Of the rest, training validates on some segments, which select the weights, or
    on the separate series `validation`. `path` is the file of the checkpoint.
    """
    series, clock = panel.series, panel.clock
    names = tuple(str(name) for name in panel.columns.values or ())
    scaler = _scaler(params["scaling"], series)
    bounds = Bounds.of(params["bounds"], list(names), scaler.spread)
    if bounds is not None:
        counts = bounds.count_outside(series.value, series.observed)
        for name, count in zip(names, counts, strict=False):
            if count:
                log.warning("%d observed cells of %r lie beyond its bounds and stay", count, name)
    train_set = scaler.scale(series)
    validation_set = None if validation is None else scaler.scale(validation)
    settings = resolve(params, train_set, clock)
    spec = holdout_spec(params, series, clock)
    holdout = HoldOut.of(series if validation is None else validation, **spec, like=series)
    if validation_set is None:
        train_set = train_set if holdout is None else holdout.remove_from(train_set)
    else:
        validation_set = validation_set if holdout is None else holdout.remove_from(validation_set)
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
    plan, predictors = trained.plan, trained.predictors.reloaded()
    model = FittedModel(
        engine=Engine(trained.networks, plan.model, plan.layout, plan.schedule, predictors),
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
        backtest = run_backtest(
            holdout, model.predict, (), clock=clock, names=names, bounds=bounds
        )
        model = replace(model, calibration=backtest.calibrate())
    return model, trained


def holdout_spec(params: Mapping[str, Any], series: SeriesSet, clock: Clock) -> dict[str, Any]:
    """Returns the arguments of `HoldOut.of` for these data."""
    return {
        "mask": params["mask"],
        "whole_rows": not is_partial(params["setting"], series),
        "seed": int(params["seed"]),
        "day": clock.day if has_one_row_per_unit(series) else None,
    }


def _scaler(scaling: str, series: SeriesSet) -> Scaler:
    if scaling not in ("channel", "shared"):
        raise InputError(f"scaling must be 'channel' or 'shared', got {scaling!r}")
    scaler = Scaler.fit(series)
    return scaler if scaling == "channel" else scaler.shared()


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
    """Returns a digest of the data and the settings; a checkpoint resumes only the same run."""
    sets = (series,) if validation is None else (series, validation)
    parts = [each for s in sets for each in (s.time, s.value, s.observed, s.start)]
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
