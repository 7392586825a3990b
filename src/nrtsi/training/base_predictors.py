"""The opening of a run: what can be said without a network is settled first, and its network."""

import logging
from dataclasses import replace
from typing import TypeVar

from nrtsi.core.events import TrainStep
from nrtsi.network.names import with_prefix
from nrtsi.predictors.base import BasePredictors
from nrtsi.predictors.dynamics import TransitionModel
from nrtsi.predictors.gaussian_process import MultiOutputGP
from nrtsi.training.dynamics import TransitionTrainer
from nrtsi.training.gaussian_process import GPTrainer
from nrtsi.training.held_out import HeldOutTest
from nrtsi.training.resume import Saved
from nrtsi.training.run import TrainingRun

__all__ = ["fit_base_predictors"]

log = logging.getLogger(__name__)

Learnt = TypeVar("Learnt", MultiOutputGP, TransitionModel)

# Parts of a budget in which the field of cells and the flow of rows are learnt; the least that
# budgets must be for it; and the part of a part after which it is seen whether it leads anywhere.
FIELD_SHARE, FLOW_SHARE = 1 / 4, 1 / 3
FIELD_SECONDS, FLOW_SECONDS, LEAST_STEPS, LOOK = 10.0, 30.0, 100, 0.15

# What may be left over with a hint, in parts of what is without, for it to be kept; and with a
# field that has just begun to learn, for it to go on.
WORTH, PROMISING = 0.9, 0.95


def fit_base_predictors(run: TrainingRun, saved: Saved | None) -> None:
    """Gives the run what is remembered, and the field and the flow of its data where of use."""
    if saved is None:
        run.predictors = BasePredictors(run.memory)
        run.predictors = replace(run.predictors, field=_learnt_field(run))
        run.predictors = replace(run.predictors, flow=_learnt_flow(run))
        run.opened = 0.0 if run.plan.budget.seconds is None else min(0.9, run.share(0))
    else:
        tensors, settings = saved
        run.seconds_before, run.opened = settings["seconds"], settings["opened"]
        learnt = BasePredictors.unpack(with_prefix(tensors, "hints."), settings["hints"])
        run.predictors = replace(learnt, memory=run.memory)
    layout = replace(run.plan.layout, base_predictors=run.predictors.count)
    run.plan = replace(run.plan, layout=layout)
    if run.predictors.flow and run.plan.free and run.plan.model.network == "rows":
        # A row that decides the next leaves nothing to be read behind the nearest ones.
        model = run.plan.model.model_copy(update={"network": "pointwise", "per_level": False})
        train = run.plan.train.model_copy(update={"batch": 2 * run.plan.train.batch})
        run.plan = replace(run.plan, model=model, train=train)


def _learnt_field(run: TrainingRun) -> MultiOutputGP | None:
    """How cells go with each other, learnt in a part of the budget; None where of no use."""
    plan = run.plan
    if not (plan.model.field and _has_time(run, FIELD_SECONDS)):
        return None
    survey = GPTrainer.of(*run.material(validation=False), plan.layout.periods, plan.seed)
    if survey is None:
        return None
    trial = _trial(run)
    if not run.agree(trial.open):
        return None
    lesson = _BudgetSlice(run, survey, FIELD_SHARE)
    for until, worth in ((0.0, PROMISING), (1.0, WORTH)):
        lesson.learn(until=until, least=LEAST_STEPS)
        field = _everyones(run, survey.field)
        if not run.agree(trial.helps(BasePredictors(field=field), worth, power=1)):
            log.info("field: of no use after %d steps", survey.step)
            return None
    log.info("field: learnt in %d steps", survey.step)
    return field


def _learnt_flow(run: TrainingRun) -> TransitionModel | None:
    """How rows go on, learnt in a part of the budget; None where that is of no use."""
    plan = run.plan
    if not (plan.model.flow and _has_time(run, FLOW_SECONDS)):
        return None
    learn, hold = (run.material(validation=held) for held in (False, True))
    apprentice = TransitionTrainer.of(learn, hold, plan.train, plan.seed)
    if apprentice is None:
        return None
    trial = _trial(run)
    if not run.agree(trial.open):
        return None
    lesson = _BudgetSlice(run, apprentice, FLOW_SHARE)
    lesson.learn(until=LOOK, least=LEAST_STEPS)
    if not run.agree(apprentice.leads()):
        log.info("flow: none to be seen after %d steps", apprentice.step)
        return None
    lesson.learn()
    flow = _everyones(run, apprentice.measured())
    if not run.agree(trial.helps(BasePredictors(flow=flow), WORTH)):
        log.info("flow: of no use after %d steps", apprentice.step)
        return None
    log.info("flow: learnt in %d steps", apprentice.step)
    return flow


def _has_time(run: TrainingRun, seconds: float) -> bool:
    """Whether there is time to learn hints, and a network that corrects them."""
    budget = run.plan.budget
    enough = (budget.seconds or 0) >= seconds or (budget.steps or 0) >= LEAST_STEPS
    return enough and run.plan.model.residual


def _trial(run: TrainingRun) -> HeldOutTest:
    hold = run.material(validation=True)
    return HeldOutTest.of(*hold, run.plan.hiding, run.plan.seed, run.predictors, run.own(hold[0]))


class _BudgetSlice:
    """A part of the budget to learn something in; of steps, as many as the network makes."""

    def __init__(
        self, run: TrainingRun, learner: GPTrainer | TransitionTrainer, share: float
    ) -> None:
        self.run, self.learner, self.share = run, learner, share
        self.counted = run.plan.budget.steps is not None
        self.began = run.share(0)

    @property
    def used(self) -> float:
        """What is used up of it."""
        if self.counted:
            return self.run.share(self.learner.step)
        return (self.run.share(0) - self.began) / self.share

    def learn(self, until: float = 1.0, least: int = 0) -> None:
        """Learns until so much of it is used up, and so many steps at least if there is time."""
        while (used := self.used) < 1.0 and not self.learner.done:
            if used >= until and self.learner.step >= least:
                break
            loss = self.learner.advance(used)
            told = 0.0 if self.counted else self.began + used * self.share
            self.run.tell(TrainStep(None, 0, loss, None, told))


def _everyones(run: TrainingRun, learnt: Learnt) -> Learnt:
    """What the first of the processes has learnt."""
    tensors, record = learnt.pack()
    return learnt.unpack(run.ranks.exchange(tensors)[0], record)
