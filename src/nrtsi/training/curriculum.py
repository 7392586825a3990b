"""`train`: base predictors first, then the networks, finest level first, then shrinkage."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nrtsi.core.budget_clock import now
from nrtsi.core.events import Listener, TrainStep
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import with_prefix
from nrtsi.errors import InputError, TrainingError
from nrtsi.inference import Engine
from nrtsi.network.layers import seeded
from nrtsi.network.optimiser import optimise
from nrtsi.network.registry import Network, network_of
from nrtsi.predictors.base import BasePredictor, HeldOutGate
from nrtsi.predictors.registry import PREDICTORS, BasePredictors
from nrtsi.training.blending import fit_blend, fit_shrinkage, shrink_end_to_end
from nrtsi.training.distributed import join
from nrtsi.training.run import Saved, TrainingRun
from nrtsi.training.sampler import Batch
from nrtsi.training.settings import Trained, TrainingSettings
from nrtsi.training.trainer import Trainer

__all__ = ["train"]

log = logging.getLogger(__name__)

# A checkpoint that resumes after base predictors took most of the budget must still train.
MAX_BASE_SHARE = 0.9


def train(
    settings: TrainingSettings,
    series: SeriesSet,
    *,
    validation: SeriesSet | None = None,
    path: Path | None = None,
    identity: str = "",
    resume: bool = False,
    listener: Listener | None = None,
) -> Trained:
    """Trains base predictors and networks on the observed cells of scaled `series`.

    The best weights are those with the lowest loss on `validation`, or, without it, on a part of
    `series` that is held out. Ctrl-C, or a loss that is not finite, ends training early with the
    best weights so far.

    Several processes, started by torchrun or in a process group, train together: a step takes
    `batch` windows of each, and the result is that of one process with all these windows. The
    first of them writes the checkpoint to `path` and calls the listener at every step.

    With `resume`, training continues from the checkpoint if its `identity`, a digest of the data
    and the settings, is the same. A training of a number of steps then ends with the same weights
    as one that never stopped.

    Raises:
        InputError: There is too little data to hide any of it, or the checkpoint belongs to
            another run, or processes that train together have different data.
    """
    processes, device = join(settings.device)
    processes.check_equal("data and settings", identity)
    if path is not None and not resume and processes.is_first:
        path.unlink(missing_ok=True)  # a later resume must not continue an older run
    settings = replace(settings, device=device)
    run = TrainingRun(settings, series, validation, path, identity, listener, processes)
    with processes.stopping_together():
        return _train(run, run.load() if resume else None)


@dataclass(frozen=True)
class _Stage:
    """A network to train."""

    level: int | None  # the level it serves; None: all
    validation: Batch
    index: int
    count: int


def _train(run: TrainingRun, saved: Saved | None) -> Trained:
    _fit_base_predictors(run, saved)
    stages = _stages(run)
    first = 0 if saved is None else _restore(run, stages, saved)
    interrupted, failure = False, None
    try:
        for stage in stages[first:]:
            trainer = _trainer(run, stage)
            if saved is not None:
                trainer.load_state(saved[0], saved[1]["trainer"])
                saved = None
            _train_stage(run, trainer, stage)
    except KeyboardInterrupt:
        if not run.steps_before:
            raise  # there is nothing to keep
        interrupted = True
        log.warning("training was interrupted; the best weights so far are kept")
    except TrainingError as error:
        failure = error
    if not run.steps_before and run.settings.budget.steps != 0:
        log.warning("no training step was made within the budget; give a longer one")
    residual, config = run.plan.model.residual, run.plan.train
    if residual:
        for network, stage in zip(run.networks, stages, strict=False):
            fit_shrinkage(network, stage.validation, config.batch, config.shrinkage)
    networks = _by_level(run, stages)
    if residual and run.steps_before:
        plan, gate = run.plan, run.gate()
        engine = Engine(networks, plan.model, plan.layout, plan.schedule, run.predictors)
        shrink_end_to_end(engine, gate.truth, gate.masked)
    progress = run.history, run.steps_before, run.seconds
    return Trained(networks, run.plan, run.predictors, *progress, interrupted, failure)


def _fit_base_predictors(run: TrainingRun, saved: Saved | None) -> None:
    """Keeps the base predictors that lower the held-out error, or those of a checkpoint."""
    if saved is not None:
        run.seconds_before, run.base_share = saved[1]["seconds"], saved[1]["base_share"]
    if not run.settings.predictors:
        return
    gate, kept = run.gate(), BasePredictors()
    for name in run.settings.predictors:
        began = now()
        predictor = _fit(run, name, gate) if saved is None else _restored(run, name, gate, saved)
        if predictor is None:
            continue
        log.info("%s: kept after %.1f s", name, now() - began)
        kept[name], gate = predictor, gate.add(predictor)
    if saved is None and run.settings.budget.seconds is not None:
        run.base_share = min(MAX_BASE_SHARE, run.used(0))
    run.predictors, run.plan = kept, run.settings.plan(kept)


def _fit(run: TrainingRun, name: str, gate: HeldOutGate) -> BasePredictor | None:
    """The predictor of the first process, if it lowers the held-out error."""
    predictor, processes = PREDICTORS[name].fit(run.context(gate)), run.processes
    if predictor is None:
        return None
    if processes.size > 1 and predictor.from_gradients:
        tensors, record = predictor.state()
        predictor = predictor.from_state(processes.broadcast(tensors), record)
    if processes.decide(gate.improves(predictor, run.plan.train.gate.max_ratio)):
        return predictor
    log.info("%s: not kept, the held-out error is not lower", name)
    return None


def _restored(
    run: TrainingRun, name: str, gate: HeldOutGate, saved: Saved
) -> BasePredictor | None:
    """The predictor of a checkpoint; one that is not stored there is fitted again."""
    tensors, settings = saved
    if name not in settings["kept"]:
        return None
    kind = PREDICTORS[name]
    if not kind.from_gradients:
        return kind.fit(run.context(gate))
    own = with_prefix(tensors, f"predictors.{name}.")
    return kind.from_state(own, settings["predictors"][name])


def _stages(run: TrainingRun) -> list[_Stage]:
    """The levels that occur in the data, finest first, with their validation windows."""
    plan = run.plan
    levels: Sequence[int | None] = range(plan.layout.levels) if plan.model.per_level else (None,)
    sampler = run.sampler(validation=True)
    windows = max(plan.train.validation_batches * run.batch, plan.train.min_validation_windows)
    drawn = [(level, sampler.draw(0, windows, level)) for level in levels]
    found = [(level, batch) for level, batch in drawn if batch is not None]
    if not found:
        raise InputError(
            "there is too little data to learn from: nothing can be hidden; "
            "give more rows, or use a simple method such as linear interpolation"
        )
    return [_Stage(*each, index, len(found)) for index, each in enumerate(found)]


def _trainer(run: TrainingRun, stage: _Stage) -> Trainer:
    plan, settings = run.plan, run.settings
    sampler = run.sampler(validation=False)
    with seeded(settings.seed):
        network = network_of(plan.model, plan.layout)
    if run.networks:
        network.load_state_dict(run.networks[-1].state_dict())
    elif plan.model.residual:
        weights = fit_blend(sampler, stage.validation, network, plan.train.blend)
        sampler = replace(sampler, level_weights=weights)
    network = network.to(settings.device)
    return Trainer(network, sampler, stage.validation, plan.train, stage.level, run.processes)


def _train_stage(run: TrainingRun, trainer: Trainer, stage: _Stage) -> None:
    """Trains one network until its part of the budget is used or it stops improving."""
    try:
        budget = run.stage_budget(stage.index, stage.count)
        optimise(trainer, budget, partial(_after_step, run, trainer, stage))
    except KeyboardInterrupt:
        if trainer.step:
            trainer.validate()
        raise
    finally:
        trainer.close()
        trainer.restore_best()
        run.networks.append(trainer.network)
        run.steps_before += trainer.step


def _after_step(
    run: TrainingRun, trainer: Trainer, stage: _Stage, loss: float, used: float
) -> None:
    """Validates and saves now and then, and calls the listener."""
    valid, steps, level = None, run.steps_before + trainer.step, trainer.level
    if trainer.step % run.plan.train.validate_every == 0 or used >= 1.0:
        valid = trainer.validate()
        run.history.append({"level": level, "step": steps, "loss": loss, "valid_loss": valid})
        run.save(trainer, stage.index)
    fraction = run.base_share + (1 - run.base_share) * (stage.index + used) / stage.count
    run.report(TrainStep(level, steps, loss, valid, min(1.0, fraction)))


def _by_level(run: TrainingRun, stages: list[_Stage]) -> list[Network]:
    """One network per level; a level without its own shares that of the next finer level."""
    if not run.plan.model.per_level:
        return run.networks
    own = {stage.level: each for stage, each in zip(stages, run.networks, strict=False)}
    networks: list[Network] = []
    for level in range(run.plan.layout.levels):
        networks.append(own.get(level) or (networks[-1] if networks else run.networks[0]))
    return networks


def _restore(run: TrainingRun, stages: list[_Stage], saved: Saved) -> int:
    """Restores the finished networks; returns the index of the next stage."""
    tensors, settings = saved
    if settings["batch"] != run.batch:
        raise InputError(
            f"{run.path} belongs to a run of {settings['batch']} windows a step, which is "
            f"processes times batch, this one has {run.batch}; use as many processes to "
            f"resume, or remove it to start over"
        )
    for stage in stages[: settings["stage"]]:
        network = _trainer(run, stage).network
        network.load_state_dict(with_prefix(tensors, f"done.{stage.index}."))
        run.networks.append(network)
    run.steps_before = settings["steps_before"]
    run.history = settings["history"]
    return int(settings["stage"])
