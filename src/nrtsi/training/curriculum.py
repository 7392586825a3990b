"""The order of training: the finest level first, each coarser one starting from the finer."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nrtsi.core.events import Listener, TrainStep
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError, TrainingError
from nrtsi.inference import Engine
from nrtsi.network.names import with_prefix
from nrtsi.network.registry import Network, network_of
from nrtsi.network.seeding import seeded
from nrtsi.predictors.analogs import AnalogFit
from nrtsi.training.base_predictors import fit_base_predictors
from nrtsi.training.blending import fit_blend
from nrtsi.training.distributed import join
from nrtsi.training.held_out import HeldOutTest
from nrtsi.training.plan import Trained, TrainingPlan
from nrtsi.training.resume import must_fit, save, saved
from nrtsi.training.run import TrainingRun
from nrtsi.training.sampler import Batch
from nrtsi.training.shrinkage import fit_shrinkage, shrink_end_to_end
from nrtsi.training.trainer import Trainer

__all__ = ["train"]

log = logging.getLogger(__name__)

VALIDATION_BATCHES, FEWEST_TO_VALIDATE = 8, 128


def train(
    plan: TrainingPlan,
    series: SeriesSet,
    *,
    validation: SeriesSet | None = None,
    kept: AnalogFit | None = None,
    path: Path | None = None,
    identity: str = "",
    resume: bool = False,
    listener: Listener | None = None,
) -> Trained:
    """Trains the networks of a plan on the observed cells of `series`, which is scaled.

    The best weights are those with the lowest loss on `validation`, or, without it, on a part of
    `series` that is held out.

    With a `path`, a checkpoint is kept there; `resume` goes on from it, and a run of so many steps
    ends with the same weights as one that was never stopped. Ctrl-C, or a loss that is not finite,
    ends training early with the best weights so far.

    Several processes, started by torchrun or in a process group, train together: a step takes
    `batch` windows of each, and the result is that of one process with all these windows. The
    first of them writes the checkpoint and tells the listener.

    Raises:
        InputError: There is too little data to hide any of it, or the checkpoint is another run's,
            or processes that train together have different data.
    """
    ranks, device = join(plan.device)
    ranks.must_match("data and settings", identity)
    if path is not None and not resume and ranks.leads:
        path.unlink(missing_ok=True)  # a later --resume must not take up an older run
    held = None if validation is None else _dense(validation)
    plan = replace(plan, device=device)
    run = TrainingRun(plan, _dense(series), held, kept, path, identity, listener, ranks)
    with ranks.stopping_together():
        return _train(run, resume=resume)


def _train(run: TrainingRun, *, resume: bool) -> Trained:
    found = saved(run) if resume else None
    fit_base_predictors(run, found)
    stages = _stages(run)
    first = 0 if found is None else _restore(run, stages, *found)
    interrupted, failure = False, None
    try:
        for index in range(first, len(stages)):
            trainer = _trainer(run, stages[index], len(stages))
            if found is not None:
                trainer.unpack(found[0], found[1]["trainer"])
                found = None
            _train_stage(run, trainer, index, len(stages))
    except KeyboardInterrupt:
        if not run.steps_before:
            raise  # nothing was learnt that could be kept
        interrupted = True
        log.warning("training was interrupted; the best weights so far are kept")
    except TrainingError as error:
        failure = error
    if not run.steps_before and run.plan.budget.steps != 0:
        log.warning("no training step was made within the budget; give a longer one")
    if run.plan.model.residual:
        for network, (_, validation) in zip(run.networks, stages, strict=False):
            fit_shrinkage(network, validation, run.plan.train.batch)
    networks = _complete(run, [level for level, _ in stages])
    if run.plan.model.residual and run.steps_before:
        _temper(run, networks)
    return Trained(
        networks,
        run.plan,
        run.predictors,
        run.history,
        run.steps_before,
        run.seconds,
        interrupted,
        failure,
    )


def _dense(series: SeriesSet) -> SeriesSet:
    """Only the rows with data.

    The others are neither read nor asked for; without them a stretch of rows says the same of
    sparse data as of dense.
    """
    return series.keep(np.logical_or.reduce(series.observed, axis=1))


Stage = tuple[int | None, Batch]


def _stages(run: TrainingRun) -> list[Stage]:
    """The levels that occur in the data, finest first, each with its validation questions."""
    plan = run.plan
    levels: Sequence[int | None] = range(plan.layout.levels) if plan.model.per_level else (None,)
    questions = run.questions(validation=True)
    windows = max(VALIDATION_BATCHES * run.windows, FEWEST_TO_VALIDATE)
    drawn = [(level, questions.draw(0, windows, level)) for level in levels]
    stages = [(level, batch) for level, batch in drawn if batch is not None]
    if not stages:
        raise InputError(
            "there is too little data to learn from: nothing can be hidden; "
            "give more rows, or use a simple method such as linear interpolation"
        )
    return stages


def _trainer(run: TrainingRun, stage: Stage, stages: int) -> Trainer:
    plan = run.plan
    level, validation = stage
    questions = run.questions(validation=False)
    with seeded(plan.seed):
        network = network_of(plan.model, plan.layout)
    if run.networks:
        network.load_state_dict(run.networks[-1].state_dict())
    elif plan.model.residual:
        questions = replace(questions, level_weights=fit_blend(questions, validation, network))
    seconds = plan.budget.seconds
    if seconds is not None:
        seconds *= (1 - run.opened) / stages
    return Trainer(
        network.to(plan.device),
        questions,
        validation,
        plan.train,
        level,
        run.ranks,
        seconds,
    )


def _train_stage(run: TrainingRun, trainer: Trainer, index: int, stages: int) -> None:
    """Trains one level until its share of the budget is used up or it learns no more."""
    left = 1 - run.opened
    begins, ends = run.opened + left * index / stages, run.opened + left * (index + 1) / stages
    try:
        used = run.used(trainer)
        while used < ends and not trainer.finished:
            loss = trainer.advance(max(0.0, used - begins) / (ends - begins))
            used = run.used(trainer)
            valid = None
            if trainer.step % run.plan.train.validate_every == 0 or used >= ends:
                valid = trainer.validate()
                _note(run, trainer, loss, valid)
                save(run, trainer, index)
            steps = run.steps_before + trainer.step
            run.tell(TrainStep(trainer.level, steps, loss, valid, min(1.0, used)))
    except KeyboardInterrupt:
        if trainer.step:
            trainer.validate()
        raise
    finally:
        trainer.close()
        trainer.restore_best()
        run.networks.append(trainer.network)
        run.steps_before += trainer.step


def _note(run: TrainingRun, trainer: Trainer, loss: float, valid: float) -> None:
    run.history.append(
        {
            "level": trainer.level,
            "step": run.steps_before + trainer.step,
            "loss": loss,
            "valid_loss": valid,
        }
    )


def _complete(run: TrainingRun, levels: list[int | None]) -> list[Network]:
    """One network a level: a level without one of its own shares that of the next finer."""
    if not run.plan.model.per_level:
        return run.networks
    trained = dict(zip(levels, run.networks, strict=False))
    complete: list[Network] = []
    for level in range(run.plan.layout.levels):
        complete.append(trained.get(level) or (complete[-1] if complete else run.networks[0]))
    return complete


def _temper(run: TrainingRun, networks: list[Network]) -> None:
    """Tries the networks on whole fillings of what was not learnt from."""
    plan = run.plan
    trial = HeldOutTest.of(*run.material(validation=True), plan.hiding, plan.seed)
    engine = Engine(networks, plan.model, plan.layout, plan.schedule, run.predictors)
    shrink_end_to_end(engine, trial.truth, trial.gappy)


def _restore(
    run: TrainingRun, stages: list[Stage], tensors: dict[str, Tensor], settings: dict[str, Any]
) -> int:
    """Brings back the finished levels, and tells which one is next: its trainer is not ready."""
    must_fit(run, settings)
    for index in range(settings["stage"]):
        network = _trainer(run, stages[index], len(stages)).network
        network.load_state_dict(with_prefix(tensors, f"done.{index}."))
        run.networks.append(network)
    run.steps_before = settings["steps_before"]
    run.history = settings["history"]
    return int(settings["stage"])
