"""How much of imputing many series is deciding what comes when."""

import time

import numpy as np

from nrtsi.bench.datasets.billiards import billiards
from nrtsi.core.series import SeriesSet
from nrtsi.schedule.plan import plan
from speeds.billiards import fitted
from speeds.sizes import Sizes

POINTS = 1000
OBSERVED = (25, 100)


def planning(sizes: Sizes) -> dict[str, object]:
    """Seconds of the plan over those of filling, which makes the plan as well."""
    series, model = long_series(sizes.planned), fitted(sizes.steps)
    model.fill(series.select(np.arange(8)))
    planned, filled = [], []
    for _ in range(sizes.repeats):
        begun = time.perf_counter()
        steps = sum(1 for _ in plan(series, model.engine.schedule))
        planned.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        model.fill(series)
        filled.append(time.perf_counter() - begun)
    return {
        "planning_share": min(planned) / min(filled),
        "planning": {"steps": steps, "plan": min(planned), "fill": min(filled)},
    }


def long_series(series: int) -> SeriesSet:
    """Billiards for longer than the paper's, with few points observed, others of each series."""
    rng = np.random.default_rng(0)
    value = billiards(series, seed=2, steps=POINTS)[1].copy()
    kept = rng.integers(*OBSERVED, size=(series, 1))
    hidden = rng.random((series, POINTS)).argsort(axis=1) >= kept
    value[hidden] = np.nan
    return SeriesSet.stack(value)
