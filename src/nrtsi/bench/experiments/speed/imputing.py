"""Series a second of nrtsi, of the paper's arrangement and of competitors; stages; planning."""

import cProfile
import inspect
import pstats
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from nrtsi.bench.competitors import TRAINING, Competitor
from nrtsi.bench.datasets.billiards import billiards
from nrtsi.bench.datasets.dataset import Part
from nrtsi.bench.experiments.speed.config import BATCHES, Sizes
from nrtsi.bench.experiments.speed.models import (
    billiards_task,
    fitted_model,
    training_task,
    with_mask,
)
from nrtsi.bench.meter import Meter, take_turns
from nrtsi.bench.tasks import Task
from nrtsi.config import ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.fitted import FittedModel
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import tokens
from nrtsi.schedule.plan import plan
from nrtsi.schedule.windows import Windows, windows

__all__ = ["planning", "ratios", "seconds_inside", "throughput"]

SHARED = 64
"""Series of a batch that share a mask, in the favourable form of the paper's arrangement."""

PLANNED_POINTS, PLANNED_OBSERVED = 1000, (25, 100)
"""Length of the series that are planned, and the range of their observed points."""

STAGES: dict[str, list[Callable[..., Any]]] = {
    "schedule": [plan],
    "gather": [windows, Windows.batches, tokens],
    "network": [RowNetwork.forward],
}
"""Functions of each stage of imputation; none calls another."""


@dataclass(frozen=True)
class _Entry:
    """One way to impute some series."""

    series: int
    impute: Callable[[], object]


def throughput(sizes: Sizes) -> dict[str, Any]:
    """The ratios of series a second, the figures they are made of, and the stages of nrtsi."""
    task, model = billiards_task(sizes.series), fitted_model(sizes.steps)
    own = _in_turn(model, [task.given])
    entries = {"nrtsi": own} | _paper(model, task, sizes) | _competitors(task, sizes)
    model.predict(task.given.head(SHARED).to_set())
    meters = take_turns({name: entry.impute for name, entry in entries.items()}, sizes.repeats)
    table = {name: _figures(entry, meters[name]) for name, entry in entries.items()}
    with _one_thread():
        inside, total = seconds_inside(own.impute, STAGES)
    shares = {name: seconds / total for name, seconds in inside.items()}
    shares["scatter"] = 1 - sum(shares.values())
    return ratios(table) | {"billiards": table, "stages": shares}


def _figures(entry: _Entry, meters: list[Meter]) -> dict[str, Any]:
    """The fastest round counts: other work on the machine can only add to the time."""
    seconds = min(meter.seconds for meter in meters)
    peaks = [meter.peak_mib for meter in meters if meter.peak_mib is not None]
    return {
        "series": entry.series,
        "seconds": seconds,
        "series_per_second": entry.series / seconds,
        "peak_mib": max(peaks, default=None),
    }


def ratios(table: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Series a second of nrtsi over those of others; None if another was not measured."""
    others = {"over_paper_arrangement": ["paper"], "over_paper_shared_masks": ["paper, shared"]}
    for name, batches in BATCHES.items():
        own = [entry for entry in table if entry.split(",")[0] == name]
        others[f"over_{name}"] = own[:1]
        if len(batches) > 1:
            others[f"over_{name}_fastest"] = own
    rate = {name: row["series_per_second"] for name, row in table.items()}
    return {
        key: rate["nrtsi"] / max(rate[name] for name in names) if names else None
        for key, names in others.items()
    }


def _in_turn(model: FittedModel, batches: list[Part]) -> _Entry:
    sets = [batch.to_set() for batch in batches]
    series = sum(batch.series for batch in batches)
    return _Entry(series, lambda: [model.predict(each) for each in sets])


def _paper(model: FittedModel, task: Task, sizes: Sizes) -> dict[str, _Entry]:
    """The same weights: one mask a batch, the paper's order, attention over whole series."""
    engine = replace(
        model.engine,
        model=model.engine.model.model_copy(update={"window": None}),
        schedule=ScheduleConfig(order="widest", max_level=4),
    )
    paper = replace(model, engine=engine)
    some = task.given.spread(sizes.alone)
    alone = [some.take(slice(i, i + 1)) for i in range(some.series)]
    first = task.truth.head(SHARED)
    shared = [
        with_mask(first, np.broadcast_to(task.hidden[i], task.hidden[:SHARED].shape)).given
        for i in range(sizes.shared // SHARED)
    ]
    return {"paper": _in_turn(paper, alone), "paper, shared": _in_turn(paper, shared)}


def _competitors(task: Task, sizes: Sizes) -> dict[str, _Entry]:
    """Untrained networks of the recommended sizes; none if PyPOTS is not installed."""
    if find_spec("pypots") is None:
        return {}
    return {
        f"{name}, {batch} at once": _competitor(name, task.given.spread(series), batch)
        for name, series in sizes.competitors.items()
        for batch in BATCHES[name]
        if batch == min(BATCHES[name]) or batch <= series
    }


def _competitor(name: str, given: Part, batch: int) -> _Entry:
    training = TRAINING.model_copy(update={"batch": batch})
    competitor, task = Competitor(name, training=training), training_task(0)
    # One validation is made, which warms the network up.
    competitor.fit(task.train, task.validation.head(1), task.masks.draw, task.budget)
    if competitor.draws:
        return _Entry(given.series, partial(competitor.sample, given, 1))
    return _Entry(given.series, partial(competitor.impute, given))


def seconds_inside(
    work: Callable[[], object], groups: Mapping[str, list[Callable[..., Any]]]
) -> tuple[dict[str, float], float]:
    """The seconds inside the functions of each group while `work` runs, and those of `work`.

    The time between the items of a generator is not counted.
    """
    profile = cProfile.Profile()
    with Meter() as meter, profile:
        work()
    found: Any = pstats.Stats(profile)

    def seconds(function: Callable[..., Any]) -> float:
        code = inspect.unwrap(function).__code__
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        return float(found.stats[key][3]) if key in found.stats else 0.0

    return {name: sum(map(seconds, own)) for name, own in groups.items()}, meter.seconds


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def planning(sizes: Sizes) -> dict[str, Any]:
    """Seconds to plan over seconds to impute, which include planning."""
    rng = np.random.default_rng(0)
    value = billiards(sizes.planned, seed=2, steps=PLANNED_POINTS)[1].copy()
    observed = rng.integers(*PLANNED_OBSERVED, size=(sizes.planned, 1))
    value[rng.random((sizes.planned, PLANNED_POINTS)).argsort(axis=1) >= observed] = np.nan
    series, model = SeriesSet.stack(value), fitted_model(sizes.steps)
    model.predict(series.select(np.arange(8)))
    steps: list[int] = []
    works: dict[str, Callable[[], object]] = {
        "plan": lambda: steps.append(sum(1 for _ in plan(series, model.engine.schedule))),
        "fill": lambda: model.predict(series),
    }
    meters = take_turns(works, sizes.repeats)
    seconds = {name: min(meter.seconds for meter in own) for name, own in meters.items()}
    return {
        "planning_share": seconds["plan"] / seconds["fill"],
        "planning": {"steps": steps[0], **seconds},
    }
