"""The order of training: the finest level first, each coarser one starting from the finer."""

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nrtsi.config import ModelConfig, ScheduleConfig, TrainConfig
from nrtsi.errors import InputError, TrainingError
from nrtsi.events import Listener, TrainStep
from nrtsi.memory import Kept
from nrtsi.missing import Hiding
from nrtsi.model.flow import Flow
from nrtsi.model.hints import Hints
from nrtsi.model.names import under
from nrtsi.model.networks import Network, network_of
from nrtsi.model.tokens import Layout
from nrtsi.series import SeriesSet
from nrtsi.training import checkpoint
from nrtsi.training.batches import SEGMENT, Batch, Questions, Spans, split
from nrtsi.training.flows import Apprentice, Trial
from nrtsi.training.level import Trainer
from nrtsi.training.ranks import Ranks, join
from nrtsi.training.seeding import seeded
from nrtsi.training.spreads import settle_base
from nrtsi.training.trust import settle_trust

__all__ = ["Budget", "Course", "Record", "Trained", "train"]

log = logging.getLogger(__name__)

# Part of a budget in which the flow of rows is learnt, and the least that budgets must be for it;
# and the part of that part after which it is seen whether it leads anywhere.
FLOW_SHARE, FLOW_SECONDS, FLOW_STEPS, FLOW_LOOK = 1 / 3, 30.0, 100, 0.15

VALIDATION_BATCHES, FEWEST_TO_VALIDATE = 8, 128

Record = dict[str, float | int | None]
"""One validation: level, step, loss of the last batch, validation loss."""


@dataclass(frozen=True)
class Budget:
    """How long to train: in seconds, or in steps over all levels."""

    seconds: float | None = None
    steps: int | None = None

    def fraction(self, steps: int, seconds: float) -> float:
        """Share of the budget used up."""
        if self.steps is not None:
            return steps / self.steps if self.steps else 1.0
        assert self.seconds is not None
        return seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True)
class Course:
    """Everything that decides what is learnt from the data."""

    model: ModelConfig
    layout: Layout
    schedule: ScheduleConfig
    train: TrainConfig
    hiding: Hiding
    budget: Budget
    seed: int
    device: torch.device

    stretch: int = SEGMENT
    """Rows of a series that are hidden and planned together, at most."""

    free: bool = False
    """The network was not named, and may be another where that suits the data."""


@dataclass(frozen=True)
class Trained:
    """What training left behind."""

    networks: list[Network]
    """One for each level, finest first, or a single one."""

    course: Course
    """As it was settled: with the hints that there are, and the network that suits them."""

    hints: Hints
    history: list[Record]
    steps: int
    seconds: float
    """Time of training, of all sittings together."""

    interrupted: bool = False

    failure: TrainingError | None = None
    """Why training could not go on; the networks are as good as they had been until then."""


@dataclass
class _Run:
    """A training run that can be stopped anywhere and gone on with."""

    course: Course
    series: SeriesSet
    validation: SeriesSet | None
    kept: Kept | None
    path: Path | None
    identity: str
    listener: Listener | None
    ranks: Ranks
    hints: Hints = field(default_factory=Hints)
    opened: float = 0.0
    """Share of the budget that was used up before the networks' turn came."""

    networks: list[Network] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    steps_before: int = 0
    seconds_before: float = 0.0

    def __post_init__(self) -> None:
        self.begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.begun

    @property
    def windows(self) -> int:
        """Windows in a step, of all processes together."""
        return self.ranks.size * self.course.train.batch

    def used(self, trainer: Trainer) -> float:
        """Share of the budget used up, the same for all processes."""
        return self.share(self.steps_before + trainer.step)

    def share(self, steps: int) -> float:
        """The same after so many steps.

        Raises:
            KeyboardInterrupt: One of several processes was interrupted.
        """
        return self.course.budget.fraction(steps, self.ranks.clock(self.seconds))

    def agree(self, said: bool) -> bool:
        """What the first of the processes says."""
        return bool(self.ranks.all(float(said))[0, 0])

    def tell(self, event: TrainStep) -> None:
        """Tells the listener of the process that leads."""
        if self.listener is None or not self.ranks.leads:
            return
        try:
            self.listener(event)
        except KeyboardInterrupt:
            self.ranks.interrupt()


def train(
    course: Course,
    series: SeriesSet,
    *,
    validation: SeriesSet | None = None,
    kept: Kept | None = None,
    path: Path | None = None,
    identity: str = "",
    resume: bool = False,
    listener: Listener | None = None,
) -> Trained:
    """Trains the networks of a course on the observed cells of `series`, which is scaled.

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
    ranks, device = join(course.device)
    ranks.must_match("data and settings", *_digits(identity))
    if path is not None and not resume and ranks.leads:
        path.unlink(missing_ok=True)  # a later --resume must not take up an older run
    held = None if validation is None else _dense(validation)
    course = replace(course, device=device)
    run = _Run(course, _dense(series), held, kept, path, identity, listener, ranks)
    with ranks.stopping_together():
        return _train(run, resume=resume)


def _digits(identity: str) -> list[float]:
    """Numbers that tell identities apart."""
    digest = hashlib.sha256(identity.encode()).digest()
    return [float(byte) for byte in digest]


def _train(run: _Run, *, resume: bool) -> Trained:
    saved = _saved(run) if resume else None
    _settle_hints(run, saved)
    stages = _stages(run)
    first = 0 if saved is None else _restore(run, stages, *saved)
    interrupted, failure = False, None
    try:
        for index in range(first, len(stages)):
            trainer = _trainer(run, stages[index], len(stages))
            if saved is not None:
                trainer.unpack(saved[0], saved[1]["trainer"])
                saved = None
            _train_stage(run, trainer, index, len(stages))
    except KeyboardInterrupt:
        if not run.steps_before:
            raise  # nothing was learnt that could be kept
        interrupted = True
        log.warning("training was interrupted; the best weights so far are kept")
    except TrainingError as error:
        failure = error
    if not run.steps_before and run.course.budget.steps != 0:
        log.warning("no training step was made within the budget; give a longer one")
    if run.course.model.residual:
        for network, (_, validation) in zip(run.networks, stages, strict=False):
            settle_trust(network, validation, run.course.train.batch)
    networks = _complete(run, [level for level, _ in stages])
    return Trained(
        networks,
        run.course,
        run.hints,
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

Saved = tuple[dict[str, Tensor], dict[str, Any]]


def _stages(run: _Run) -> list[Stage]:
    """The levels that occur in the data, finest first, each with its validation questions."""
    course = run.course
    levels: Sequence[int | None] = (
        range(course.layout.levels) if course.model.per_level else (None,)
    )
    questions = _questions(run, validation=True)
    windows = max(VALIDATION_BATCHES * run.windows, FEWEST_TO_VALIDATE)
    drawn = [(level, questions.draw(0, windows, level)) for level in levels]
    stages = [(level, batch) for level, batch in drawn if batch is not None]
    if not stages:
        raise InputError(
            "there is too little data to learn from: nothing can be hidden; "
            "give more rows, or use a simple method such as linear interpolation"
        )
    return stages


def _settle_hints(run: _Run, saved: Saved | None) -> None:
    """Gives the run what is remembered, and the flow of its rows where that is of use."""
    memory = None if run.kept is None else run.kept.memory
    if saved is None:
        flow = _learnt_flow(run)
        run.opened = 0.0 if run.course.budget.seconds is None else min(0.9, run.share(0))
    else:
        tensors, settings = saved
        run.seconds_before, run.opened = settings["seconds"], settings["opened"]
        flow = settings["flow"] and Flow.unpack(under(tensors, "flow."), settings["flow"])
    run.hints = Hints(memory, flow)
    layout = replace(run.course.layout, hints=run.hints.count)
    run.course = replace(run.course, layout=layout)
    if flow is not None and run.course.free and run.course.model.network == "rows":
        # A row that decides the next leaves nothing to be read behind the nearest ones.
        model = run.course.model.model_copy(update={"network": "near", "per_level": False})
        train = run.course.train.model_copy(update={"batch": 2 * run.course.train.batch})
        run.course = replace(run.course, model=model, train=train)


def _learnt_flow(run: _Run) -> Flow | None:
    """How rows go on, learnt in a part of the budget; None where that is of no use."""
    course, budget = run.course, run.course.budget
    short = (budget.seconds or 0) < FLOW_SECONDS and (budget.steps or 0) < FLOW_STEPS
    if short or not (course.model.flow and course.model.residual):
        return None
    learn, hold = (_material(run, validation) for validation in (False, True))
    apprentice = Apprentice.of(learn, hold, course.train, course.seed)
    if apprentice is None:
        return None
    memory = None if run.kept is None else run.kept.memory
    trial = Trial.of(*hold, course.hiding, course.seed, memory, _own(run, hold[0]))
    if not run.agree(trial.open):
        return None
    _learn_flow(run, apprentice, until=FLOW_LOOK, least=FLOW_STEPS)
    if not run.agree(apprentice.leads()):
        log.info("flow: none to be seen after %d steps", apprentice.step)
        return None
    _learn_flow(run, apprentice, until=1.0)
    tensors, record = apprentice.measured().pack()
    flow = Flow.unpack(run.ranks.exchange(tensors)[0], record)
    if not run.agree(trial.helps(flow)):
        log.info("flow: of no use after %d steps", apprentice.step)
        return None
    log.info("flow: learnt in %d steps", apprentice.step)
    return flow


def _learn_flow(run: _Run, apprentice: Apprentice, until: float, least: int = 0) -> None:
    """Learns up to a part of the time there is for it, or of as many steps as the network makes.

    And so many steps at `least`, if there is time for them.
    """
    counted = run.course.budget.steps is not None
    while (used := run.share(apprentice.step) / (1.0 if counted else FLOW_SHARE)) < 1.0:
        if used >= until and apprentice.step >= least:
            break
        loss = apprentice.advance(used)
        run.tell(TrainStep(None, 0, loss, None, 0 if counted else used * FLOW_SHARE))


def _questions(run: _Run, *, validation: bool) -> Questions:
    course = run.course
    series, spans = _material(run, validation)
    return Questions(
        series,
        spans,
        course.hiding,
        course.schedule,
        course.model,
        course.layout,
        (course.seed, 2 if validation else 3),
        course.stretch,
        hints=run.hints,
        own=_own(run, series),
    )


def _own(run: _Run, series: SeriesSet) -> Int[np.ndarray, " series"] | None:
    """The number of each of the series among those remembered, where there are some."""
    if run.kept is None:
        return None
    return run.kept.own if series is run.series else np.full(series.series, -1)


def _material(run: _Run, validation: bool) -> tuple[SeriesSet, Spans]:
    """The data to validate on, or those to learn from, and the stretches of them to use."""
    if run.validation is not None:
        series = run.validation if validation else run.series
        return series, Spans.whole(series)
    rng = np.random.default_rng([run.course.seed, 1])
    learn, hold = split(run.series, run.course.train.validation, rng, run.course.stretch)
    return run.series, hold if validation else learn


def _trainer(run: _Run, stage: Stage, stages: int) -> Trainer:
    course = run.course
    level, validation = stage
    questions = _questions(run, validation=False)
    with seeded(course.seed):
        network = network_of(course.model, course.layout)
    if run.networks:
        network.load_state_dict(run.networks[-1].state_dict())
    elif course.model.residual:
        questions = replace(questions, shares=settle_base(questions, validation, network))
    seconds = course.budget.seconds
    if seconds is not None:
        seconds *= (1 - run.opened) / stages
    return Trainer(
        network.to(course.device),
        questions,
        validation,
        course.train,
        level,
        run.ranks,
        seconds,
    )


def _train_stage(run: _Run, trainer: Trainer, index: int, stages: int) -> None:
    """Trains one level until its share of the budget is used up or it learns no more."""
    left = 1 - run.opened
    begins, ends = run.opened + left * index / stages, run.opened + left * (index + 1) / stages
    try:
        used = run.used(trainer)
        while used < ends and not trainer.finished:
            loss = trainer.advance(max(0.0, used - begins) / (ends - begins))
            used = run.used(trainer)
            valid = None
            if trainer.step % run.course.train.validate_every == 0 or used >= ends:
                valid = trainer.validate()
                _note(run, trainer, loss, valid)
                _save(run, trainer, index)
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


def _note(run: _Run, trainer: Trainer, loss: float, valid: float) -> None:
    run.history.append(
        {
            "level": trainer.level,
            "step": run.steps_before + trainer.step,
            "loss": loss,
            "valid_loss": valid,
        }
    )


def _complete(run: _Run, levels: list[int | None]) -> list[Network]:
    """One network a level: a level without one of its own shares that of the next finer."""
    if not run.course.model.per_level:
        return run.networks
    trained = dict(zip(levels, run.networks, strict=False))
    complete: list[Network] = []
    for level in range(run.course.layout.levels):
        complete.append(trained.get(level) or (complete[-1] if complete else run.networks[0]))
    return complete


def _save(run: _Run, trainer: Trainer, index: int) -> None:
    if run.path is None or not run.ranks.leads:
        return
    tensors, state = trainer.pack()
    given, record = (None, None) if run.hints.flow is None else run.hints.flow.pack()
    tensors |= {f"flow.{name}": t for name, t in (given or {}).items()}
    for number, network in enumerate(run.networks):
        tensors |= {f"done.{number}.{name}": t for name, t in network.state_dict().items()}
    settings = {
        "identity": run.identity,
        "windows": run.windows,
        "stage": index,
        "steps_before": run.steps_before,
        "seconds": run.seconds,
        "opened": run.opened,
        "flow": record,
        "history": run.history,
        "trainer": state,
    }
    checkpoint.save(run.path, "training", tensors, settings)


def _saved(run: _Run) -> Saved | None:
    """What the checkpoint holds, where there is one."""
    saved = None
    if run.path is not None and run.path.exists():
        saved = checkpoint.load(run.path, "training")
        _must_be_own(run, run.path, saved[1])
    run.ranks.must_match("checkpoint", *_digits(json.dumps(saved and saved[1])))
    return saved


def _restore(
    run: _Run, stages: list[Stage], tensors: dict[str, Tensor], settings: dict[str, Any]
) -> int:
    """Brings back the finished levels, and tells which one is next: its trainer is not ready."""
    assert run.path is not None
    _must_fit(run, run.path, settings)
    for index in range(settings["stage"]):
        network = _trainer(run, stages[index], len(stages)).network
        network.load_state_dict(under(tensors, f"done.{index}."))
        run.networks.append(network)
    run.steps_before = settings["steps_before"]
    run.history = settings["history"]
    return int(settings["stage"])


def _must_be_own(run: _Run, path: Path, settings: dict[str, Any]) -> None:
    if settings["identity"] != run.identity:
        raise InputError(
            f"{path} belongs to a run with other data or settings, or another nrtsi; "
            f"use the same ones to resume, or remove it to start anew"
        )


def _must_fit(run: _Run, path: Path, settings: dict[str, Any]) -> None:
    if settings["windows"] != run.windows:
        raise InputError(
            f"{path} belongs to a run of {settings['windows']} windows a step, which is processes "
            f"times batch, this one has {run.windows}; use as many processes to resume, or remove "
            f"it to start anew"
        )
