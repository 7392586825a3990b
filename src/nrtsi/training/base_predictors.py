"""Fits the base predictors and keeps those that lower the held-out error of the blend."""

import logging

from nrtsi.core.budget_clock import now
from nrtsi.core.state import with_prefix
from nrtsi.predictors.base import BasePredictor
from nrtsi.predictors.registry import PREDICTORS, BasePredictors
from nrtsi.training.run import MAX_BASE_SHARE, Saved, TrainingRun

__all__ = ["fit_base_predictors"]

log = logging.getLogger(__name__)


def fit_base_predictors(run: TrainingRun, saved: Saved | None) -> None:
    """Fits the base predictors of a run, or restores those of a checkpoint."""
    predictors = BasePredictors()
    if not run.candidates:
        run.keep(predictors)
        return
    gate = run.gate()
    for name in run.candidates:
        began, kind = now(), PREDICTORS[name]
        if saved is not None:
            predictor = _restored(run, name, saved)
        else:
            predictor = kind.fit(run.context(gate, run.processes.decide))
            if predictor is not None:
                predictor = _synchronised(run, predictor)
        if predictor is None:
            continue
        place = predictor.locate(run.source)
        if place is not None:
            place = BasePredictors({name: predictor}).locate(run.source)[name]
            run.exclude = {name: place}
            place = run.excluded(validation=True)[name]
        if saved is None and not run.processes.decide(
            gate.improves(
                predictor,
                run.plan.train.gate.max_ratio,
                power=kind.gate_power,
                exclude=place,
            )
        ):
            log.info("%s: not kept, the held-out error is not lower", kind.title)
            continue
        log.info("%s: kept after %.1f s", kind.title, now() - began)
        predictors = predictors.adding(name, predictor)
        gate = gate.add(predictor, place)
    if saved is not None:
        run.seconds_before, run.base_share = saved[1]["seconds"], saved[1]["base_share"]
    elif run.settings.budget.seconds is not None:
        run.base_share = min(MAX_BASE_SHARE, run.used(0))
    run.keep(predictors)


def _restored(run: TrainingRun, name: str, saved: Saved) -> BasePredictor | None:
    """The predictor of a checkpoint; one that is not stored there is fitted again."""
    tensors, settings = saved
    if name not in settings["kept"]:
        return None
    kind = PREDICTORS[name]
    if kind.from_gradients:
        own = with_prefix(tensors, f"predictors.{name}.")
        return kind.from_state(own, settings["predictors"][name])
    return kind.fit(run.context(run.gate(), run.processes.decide))


def _synchronised(run: TrainingRun, predictor: BasePredictor) -> BasePredictor:
    """The predictor of the first process, in all processes."""
    if run.processes.size == 1 or not predictor.from_gradients:
        return predictor
    tensors, record = predictor.state()
    return predictor.from_state(run.processes.broadcast(tensors), record)
