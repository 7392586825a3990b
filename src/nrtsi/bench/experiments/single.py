"""One table with gaps: nrtsi and simple methods impute the table they are fitted to.

The tables are of one weather station or of a few road sensors, with the gaps of an unreliable
logger. The error is the squared error of the removed cells, in standard deviations of the column.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Imputer
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.datasets.weather import lost, weather
from nrtsi.bench.experiments import Experiment, Notify, RunOptions, choose
from nrtsi.bench.markdown import NONE, bold, grid, number
from nrtsi.bench.results import Row, add, code_revision, code_versions, read
from nrtsi.core.budget_clock import CLOCK_LABELS, CLOCKS, now, use_clock
from nrtsi.core.events import Listener
from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["EXPERIMENT", "SingleTable"]

HOURS = 24

STATIONS = 12
"""Stations in the air data, one after the other, with the same number of windows each."""

DEFAULT_BUDGET = "60s"

SIMPLE = ("linear", "spline", "seasonal", "kalman", "knn", "mice")

METHODS: dict[str, Callable[..., Imputer]] = {
    "nrtsi": NRTSI,
    "nrtsi without GP": partial(NRTSI, predictors=("analogs", "dynamics")),
    **{name: BASELINES[name] for name in SIMPLE},
}


@dataclass(frozen=True)
class SingleTable:
    """A table with gaps, and the truth."""

    gappy: pd.DataFrame
    truth: np.ndarray
    """All values, by row and column."""

    removed: np.ndarray
    """True where a cell is missing in `gappy` and known in `truth`."""

    @property
    def digest(self) -> str:
        """Identifies the removed cells and their values."""
        return hashlib.sha256(np.where(self.removed, self.truth, 0.5).tobytes()).hexdigest()[:8]

    def error(self, imputer: Imputer) -> float:
        """The mean squared error of the removed cells, in standard deviations of the column."""
        imputed = imputer.impute(self.gappy)
        known = self.gappy.drop(columns="time")
        error = (imputed[known.columns].to_numpy() - self.truth) / known.std().to_numpy()
        return float(np.square(error[self.removed]).mean())


def simulated(days: int, seed: int) -> SingleTable:
    """The weather station of the demo, with another seed."""
    gappy, truth = weather(seed, days=days)
    time = pd.Index(gappy.pop("time"))
    truth.pop("time")
    values = pd.DataFrame(gappy).to_numpy()
    return SingleTable(_frame(values, time), pd.DataFrame(truth).to_numpy(), np.isnan(values))


def with_gaps(windows: np.ndarray, days: int) -> SingleTable:
    """Joins consecutive windows to one table and removes cells."""
    value = windows.reshape(-1, windows.shape[-1])[: days * HOURS].astype(np.float64)
    gone = lost(len(value), value.shape[1], np.random.default_rng(0))
    time = pd.date_range("2024-01-01", periods=len(value), freq="h")
    gappy = _frame(np.where(gone, np.nan, value), time)
    return SingleTable(gappy, value, gone & np.isfinite(value))


def station(number: int, days: int) -> SingleTable:
    """Hours of one station of Beijing, from the test part of the data."""
    value = make("air").test.value
    share = len(value) // STATIONS
    return with_gaps(value[number * share : (number + 1) * share], days)


def sensors(days: int, count: int) -> SingleTable:
    """Hours of some road sensors, from the test part of the data."""
    return with_gaps(make("traffic20").test.value[..., :count], days)


TABLES: dict[str, Callable[[], SingleTable]] = {
    "simulated weather, 60 days": partial(simulated, 60, seed=21),
    "simulated weather, a year": partial(simulated, 365, seed=22),
    "Beijing station, 60 days": partial(station, 6, 60),
    "Beijing station, 290 days": partial(station, 9, 290),
    "8 road sensors, 60 days": partial(sensors, 60, 8),
}


def _frame(value: np.ndarray, time: pd.Index) -> pd.DataFrame:
    frame = pd.DataFrame(value, columns=[f"c{number}" for number in range(value.shape[1])])
    return frame.assign(time=time)


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    names = choose(options.data, TABLES, "--data")
    methods = choose(options.methods or (), METHODS, "--methods")
    revision, budget = code_revision(), options.budget or DEFAULT_BUDGET
    for name, seed in product(names, options.seeds):
        table = TABLES[name]()
        for method in methods:
            trained = method not in BASELINES
            with use_clock(CLOCKS[options.clock]):
                started = now()
                imputer = METHODS[method](**({"budget": budget, "seed": seed} if trained else {}))
                imputer.fit(table.gappy, time="time")
                fitted = now()
                error = table.error(imputer)
                impute_s = now() - fitted
            effort = (
                f"budget {budget}{CLOCK_LABELS[options.clock]}, seed {seed}" if trained else ""
            )
            row = Row(
                table="single",
                setting=name,
                method=method,
                seed=seed,
                metric="mse",
                value=f"{error:.6g}",
                train_s=f"{fitted - started:.1f}",
                impute_s=f"{impute_s:.2f}",
                versions=code_versions(table.digest, effort),
                revision=revision,
                cells=str(table.removed.sum()),
            )
            add(options.out, [row])
            notify(f"{name}: {method} {error:.4g}, {row.train_s} s")


def _markdown(path: Path) -> str:
    """The mean errors over seeds in a grid, the lowest of each table in bold."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in read(path):
        found.setdefault(row.setting, {}).setdefault(row.method, []).append(row.number)
    if not found:
        return ""
    methods = list(dict.fromkeys(method for errors in found.values() for method in errors))
    lines = []
    for name, errors in found.items():
        mean = {method: fmean(each) for method, each in errors.items()}
        lowest = min(mean.values())
        cells = [bold(number(mean[m]), mean[m] == lowest) if m in mean else NONE for m in methods]
        lines.append([name, *cells])
    return grid(["squared error", *methods], lines) + "\n"


EXPERIMENT = Experiment({"data", "methods", "budget", "seeds", "clock"}, _run, _markdown)
