"""Calibration on unseen cells: intervals, back-test, method selection and draws.

Models are fitted to tables whose missing cells only the experiment knows. It compares the share of
90 % intervals that contain the truth, by channel and gap length, with 90 %; the error of the
back-test with the true error; `method="auto"` with the best single method; and the 90 % intervals
of daily totals, pooled over draws, with the true totals.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nrtsi import pool
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.datasets.weather import weather
from nrtsi.bench.experiments import Experiment, Notify, RunOptions, choose
from nrtsi.bench.results import Row, add, read
from nrtsi.core.events import Listener
from nrtsi.core.gaps import Gaps, gap_bin_range
from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["EXPERIMENT", "Trial", "is_within"]

LEVEL = 0.9
"""Nominal coverage of the intervals."""

DRAWS = 50

MIN_CELLS = 500
"""Cells from which the coverage of a gap bin is reported."""

DEFAULT_BUDGET = "2m"

HOURS = pd.date_range("2024-01-01", periods=24 * 365, freq="h")

TablePair = tuple[pd.DataFrame, pd.DataFrame]
"""A table with gaps, and the truth."""


def _station(seed: int) -> TablePair:
    """A year of a simulated weather station, with the gaps of its logger."""
    gappy, truth = weather(1000 + seed, days=365)
    return pd.DataFrame(gappy).set_index("time"), pd.DataFrame(truth).set_index("time")


def _drifting(seed: int) -> TablePair:
    """Three autoregressive channels that depend on each other, with blocks removed."""
    rng = np.random.default_rng([7, seed])
    mixing = np.array([[1.0, 0.7, 0.2], [0.0, 0.7, 0.3], [0.0, 0.0, 0.9]])
    innovations = rng.normal(size=(HOURS.size, 3)) @ mixing
    value = _autoregression(np.array([0.95, 0.8, 0.99]), innovations[1:])
    return _remove_blocks(pd.DataFrame(value, HOURS, ["fast", "faster", "slow"]), rng)


def _rain(seed: int) -> TablePair:
    """Two skewed channels that are never negative and often 0, with blocks removed."""
    rng = np.random.default_rng([8, seed])
    value = _autoregression(np.array([0.93, 0.93]), rng.normal(size=(HOURS.size - 1, 2)))
    rain = pd.DataFrame(np.maximum(value, 0.0) ** 1.5, HOURS, ["north", "south"])
    return _remove_blocks(rain, rng)


def _air(seed: int) -> TablePair:
    """Beijing's stations; the real gaps stay, and blocks are removed besides."""
    value = make("air").train.value
    value = value.reshape(-1, value.shape[-1])[:24000]
    times = pd.date_range("2013-03-01", periods=len(value), freq="h")
    frame = pd.DataFrame(value, times, [f"c{channel}" for channel in range(value.shape[1])])
    return _remove_blocks(frame, np.random.default_rng([9, seed]))


TABLES: dict[str, Callable[[int], TablePair]] = {
    "station": _station,
    "drifting": _drifting,
    "rain": _rain,
    "air": _air,
}

BOUNDS = {"rain": {"north": (0, None), "south": (0, None)}}


def _autoregression(factor: np.ndarray, innovations: np.ndarray) -> np.ndarray:
    """Starts at 0 and adds an innovation in every later row."""
    value = np.zeros((len(innovations) + 1, innovations.shape[1]))
    for row, innovation in enumerate(innovations):
        value[row + 1] = factor * value[row] + innovation
    return value


def _remove_blocks(truth: pd.DataFrame, rng: np.random.Generator) -> TablePair:
    """Removes about 15 % of each channel in blocks of 1 to 48 rows."""
    removed = np.zeros(truth.shape, dtype=bool)
    for channel in range(truth.shape[1]):
        while removed[:, channel].mean() < 0.15:
            begin = int(rng.integers(len(truth)))
            removed[begin : begin + int(48 ** rng.random()), channel] = True
    return truth.mask(removed), truth


@dataclass(frozen=True)
class Trial:
    """A model, the table it was fitted to, and the truth."""

    name: str
    seed: int
    gappy: pd.DataFrame
    truth: pd.DataFrame
    model: NRTSI

    @cached_property
    def removed(self) -> pd.DataFrame:
        """The cells that are missing in the table and known in the truth."""
        return self.gappy.isna() & self.truth.notna()

    def measure(self) -> Iterator[Row]:
        """Yields all rows."""
        yield from self._coverage()
        yield from self._errors()
        yield self._totals()

    def _row(
        self, metric: str, setting: str, method: str, cells: int, reported: float, true: float
    ) -> Row:
        figures = {"value": repr(float(true)), "reference": repr(float(reported))}
        return Row(self.name, setting, method, self.seed, metric, cells=str(cells), **figures)

    def _coverage(self) -> Iterator[Row]:
        imputed = self.model.impute(self.gappy, interval=LEVEL)
        gap_bin = Gaps.of(self.model.read_fitted(self.gappy).series).gap_bin
        every = []
        for dim, channel in enumerate(self.truth):
            own, value = self.removed[channel].to_numpy(), self.truth[channel].to_numpy()
            low, high = (imputed[f"{channel}_{end}"].to_numpy() for end in ("lower", "upper"))
            inside = (value >= low) & (value <= high)
            every.append(inside[own])
            for each in np.unique(gap_bin[own, dim]):
                cells = own & (gap_bin[:, dim] == each)
                if cells.sum() >= MIN_CELLS:
                    setting = f"{channel}, gaps up to {gap_bin_range(int(each))[1]:g} h"
                    covered = inside[cells].mean()
                    yield self._row("coverage", setting, "nrtsi", int(cells.sum()), LEVEL, covered)
        inside = np.concatenate(every)
        yield self._row("coverage", "all", "nrtsi", inside.size, LEVEL, inside.mean())

    def _errors(self) -> Iterator[Row]:
        backtest = self.model.backtest(self.gappy)
        scale, cells = self.gappy.std(ddof=0).to_numpy(), int(self.removed.to_numpy().sum())

        def error(method: str) -> float:
            difference = (self.model.impute(self.gappy, method=method) - self.truth) / scale
            return float(np.mean(difference.to_numpy()[self.removed.to_numpy()] ** 2))

        true = {method: error(method) for method in backtest.methods}
        for method, score in backtest.methods.items():
            yield self._row("error", "all", method, cells, score.mse, true[method])
        yield self._row("auto", "all", "auto", cells, min(true.values()), error("auto"))

    def _totals(self) -> Row:
        """Daily totals of each channel on days with removed cells, pooled over draws."""
        truth, draws = self.truth, self.model.sample(self.gappy, draws=DRAWS)

        def totals(one: pd.DataFrame) -> pd.Series:
            return one.groupby(one.index.floor("D")).sum()[list(truth)].stack()

        def any_of_a_day(cells: pd.DataFrame) -> pd.Series:
            return cells.groupby(cells.index.floor("D")).any().stack()

        pooled = pool(totals, draws, level=LEVEL)
        right = totals(truth.where(truth.notna(), draws[draws["draw"] == 0][list(truth)]))
        # A day on which the truth is unknown does not count.
        days = any_of_a_day(self.removed) & ~any_of_a_day(truth.isna())
        inside = (pooled.lower <= right) & (right <= pooled.upper)
        found = inside[days].mean()
        return self._row("total", "daily totals", "nrtsi", int(days.sum()), LEVEL, found)


def is_within(row: Row) -> bool:
    """Whether a figure is within the tolerance of the reported one."""
    reported, true = float(row.reference), row.number
    if row.metric == "error":
        return abs(true / reported - 1) <= 0.2
    if row.metric == "auto":
        return true <= 1.03 * reported
    tolerance = 0.05 if row.metric == "total" else 0.02
    standard_error = math.sqrt(LEVEL * (1 - LEVEL) / int(row.cells))
    return abs(true - reported) <= tolerance + 2 * standard_error


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    budget: dict[str, Any] = {"budget": options.budget or DEFAULT_BUDGET}
    if options.steps is not None:
        budget = {"steps": options.steps}
    for name, seed in product(choose(options.data, TABLES, "--data"), options.seeds):
        gappy, truth = TABLES[name](seed)
        model = NRTSI(seed=seed, bounds=BOUNDS.get(name), **budget)
        model.fit(gappy, listener=listener)
        rows = list(Trial(name, seed, gappy, truth, model).measure())
        for row in rows:
            figures = f"reported {float(row.reference):.4g}, true {row.number:.4g}"
            outside = "" if is_within(row) else ", outside the tolerance"
            about = f"{row.metric}: {row.setting}, {row.method}"
            notify(f"{name} {seed} {about}: {figures} ({int(row.cells):,} cells){outside}")
        add(options.out, rows)


def _markdown(path: Path) -> str:
    """A line for each table and seed."""
    rows = read(path)
    if not rows:
        return ""
    header = [
        "data",
        "coverage of 90 % intervals",
        "gap bins within tolerance",
        "error of nrtsi: back-test, true",
        "auto: error over the best method's",
        "daily totals in 90 % intervals",
    ]
    lines = [" | ".join(header), " | ".join(["---", *["---:"] * (len(header) - 1)])]
    for name, seed in sorted({(row.table, row.seed) for row in rows}):
        own = [row for row in rows if (row.table, row.seed) == (name, seed)]
        one = {(row.metric, row.setting, row.method): row for row in own}
        bins = [row for row in own if row.metric == "coverage" and row.setting != "all"]
        within = f"{sum(map(is_within, bins))} of {len(bins)}" if bins else "none has 500 cells"
        error, auto = one["error", "all", "nrtsi"], one["auto", "all", "auto"]
        cells = [
            f"{name}, seed {seed}",
            _share(one["coverage", "all", "nrtsi"]),
            within,
            f"{float(error.reference):.3g}, {error.number:.3g}",
            f"{auto.number / float(auto.reference):.2f}",
            _share(one["total", "daily totals", "nrtsi"]),
        ]
        lines.append(" | ".join(cells))
    return "".join(f"| {line} |\n" for line in lines)


def _share(row: Row) -> str:
    return f"{100 * row.number:.1f} % of {int(row.cells):,}"


EXPERIMENT = Experiment({"data", "budget", "steps", "seeds"}, _run, _markdown)
