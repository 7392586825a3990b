"""The opening of a run: what can be said without a network is settled first, and its network."""

import logging
from dataclasses import replace

from nrtsi.events import TrainStep
from nrtsi.model.flow import Flow
from nrtsi.model.hints import Hints
from nrtsi.model.names import under
from nrtsi.training.flows import Apprentice, Trial
from nrtsi.training.resuming import Saved
from nrtsi.training.run import Run

__all__ = ["settle_hints"]

log = logging.getLogger(__name__)

# Part of a budget in which the flow of rows is learnt, and the least that budgets must be for it;
# and the part of that part after which it is seen whether it leads anywhere.
FLOW_SHARE, FLOW_SECONDS, FLOW_STEPS, FLOW_LOOK = 1 / 3, 30.0, 100, 0.15


def settle_hints(run: Run, saved: Saved | None) -> None:
    """Gives the run what is remembered, and the flow of its rows where that is of use."""
    if saved is None:
        flow = _learnt_flow(run)
        run.opened = 0.0 if run.course.budget.seconds is None else min(0.9, run.share(0))
    else:
        tensors, settings = saved
        run.seconds_before, run.opened = settings["seconds"], settings["opened"]
        flow = settings["flow"] and Flow.unpack(under(tensors, "flow."), settings["flow"])
    run.hints = Hints(run.memory, flow)
    layout = replace(run.course.layout, hints=run.hints.count)
    run.course = replace(run.course, layout=layout)
    if flow is not None and run.course.free and run.course.model.network == "rows":
        # A row that decides the next leaves nothing to be read behind the nearest ones.
        model = run.course.model.model_copy(update={"network": "near", "per_level": False})
        train = run.course.train.model_copy(update={"batch": 2 * run.course.train.batch})
        run.course = replace(run.course, model=model, train=train)


def _learnt_flow(run: Run) -> Flow | None:
    """How rows go on, learnt in a part of the budget; None where that is of no use."""
    course, budget = run.course, run.course.budget
    short = (budget.seconds or 0) < FLOW_SECONDS and (budget.steps or 0) < FLOW_STEPS
    if short or not (course.model.flow and course.model.residual):
        return None
    learn, hold = (run.material(validation=held) for held in (False, True))
    apprentice = Apprentice.of(learn, hold, course.train, course.seed)
    if apprentice is None:
        return None
    trial = Trial.of(*hold, course.hiding, course.seed, run.memory, run.own(hold[0]))
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


def _learn_flow(run: Run, apprentice: Apprentice, until: float, least: int = 0) -> None:
    """Learns up to a part of the time there is for it, or of as many steps as the network makes.

    And so many steps at `least`, if there is time for them.
    """
    counted = run.course.budget.steps is not None
    while (used := run.share(apprentice.step) / (1.0 if counted else FLOW_SHARE)) < 1.0:
        if used >= until and apprentice.step >= least:
            break
        loss = apprentice.advance(used)
        run.tell(TrainStep(None, 0, loss, None, 0 if counted else used * FLOW_SHARE))
