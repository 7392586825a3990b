"""Calibration on unseen cells: intervals, back-test, method selection and draws.

Models are fitted to tables whose missing cells only the experiment knows. It compares the share of
90 % intervals that contain the truth, by channel and gap length, with 90 %; the error of the
back-test with the true error; `method="auto"` with the best single method; and the 90 % intervals
of daily totals, pooled over draws, with the true totals.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nrtsi import pool
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.datasets.weather import weather
from nrtsi.bench.experiments.base import Experiment, RunOptions, choose
from nrtsi.bench.results import ResultRow, add, read
from nrtsi.bench.runner import Notify
from nrtsi.core.events import Listener
from nrtsi.core.gaps import Gaps, gap_bin_range
from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["EXPERIMENT", "TrustRow", "measure"]

LEVEL = 0.9
"""Nominal coverage of the intervals."""

DRAWS = 50

MIN_CELLS = 500
"""Cells from which the coverage of a gap bin is reported."""

DEFAULT_BUDGET = "2m"

HOURS = pd.date_range("2024-01-01", periods=24 * 365, freq="h")


@dataclass(frozen=True)
class TrustRow(ResultRow):
    """A reported figure and the true one."""

    data: str
    seed: int
    about: str
    """coverage, error, auto or total."""

    where: str
    """Channel and gap length, or method."""

    cells: int
    promised: float
    found: float
    within: bool

    @property
    def job(self) -> tuple[str, int]:
        """Table and seed."""
        return self.data, self.seed

    @classmethod
    def of(cls, job: tuple[str, int], about: str, where: str, **figures: Any) -> "TrustRow":
        """A row, with whether the figure is within its tolerance."""
        cells, promised, found = (figures[name] for name in ("cells", "promised", "found"))
        if about == "error":
            within = abs(found / promised - 1) <= 0.2
        elif about == "auto":
            within = found <= 1.03 * promised
        else:
            tolerance = 0.05 if about == "total" else 0.02
            standard_error = np.sqrt(LEVEL * (1 - LEVEL) / cells)
            within = abs(found - promised) <= tolerance + 2 * standard_error
        return cls(*job, about, where, int(cells), float(promised), float(found), bool(within))


Table = tuple[pd.DataFrame, pd.DataFrame]
"""A table with gaps, and the truth."""


def _station(seed: int) -> Table:
    """A year of a simulated weather station, with the gaps of its logger."""
    gappy, truth = (
        pd.DataFrame(each).set_index("time") for each in weather(1000 + seed, days=365)
    )
    return gappy, truth


def _drifting(seed: int) -> Table:
    """Three autoregressive channels that depend on each other, with blocks removed."""
    rng = np.random.default_rng([7, seed])
    mixing = np.array([[1.0, 0.7, 0.2], [0.0, 0.7, 0.3], [0.0, 0.0, 0.9]])
    innovations = rng.normal(size=(HOURS.size, 3)) @ mixing
    value = _autoregression(np.array([0.95, 0.8, 0.99]), innovations[1:])
    return _remove_blocks(pd.DataFrame(value, HOURS, ["fast", "faster", "slow"]), rng)


def _rain(seed: int) -> Table:
    """Two skewed channels that are never negative and often 0, with blocks removed."""
    rng = np.random.default_rng([8, seed])
    value = _autoregression(np.array([0.93, 0.93]), rng.normal(size=(HOURS.size - 1, 2)))
    rain = pd.DataFrame(np.maximum(value, 0.0) ** 1.5, HOURS, ["north", "south"])
    return _remove_blocks(rain, rng)


def _air(seed: int) -> Table:
    """Beijing's stations; the real gaps stay, and blocks are removed besides."""
    value = make("air").train.value
    value = value.reshape(-1, value.shape[-1])[:24000]
    times = pd.date_range("2013-03-01", periods=len(value), freq="h")
    frame = pd.DataFrame(value, times, [f"c{channel}" for channel in range(value.shape[1])])
    return _remove_blocks(frame, np.random.default_rng([9, seed]))


TABLES: dict[str, Callable[[int], Table]] = {
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


def _remove_blocks(truth: pd.DataFrame, rng: np.random.Generator) -> Table:
    """Removes about 15 % of each channel in blocks of 1 to 48 rows."""
    removed = np.zeros(truth.shape, dtype=bool)
    for channel in range(truth.shape[1]):
        while removed[:, channel].mean() < 0.15:
            begin = int(rng.integers(len(truth)))
            removed[begin : begin + int(48 ** rng.random()), channel] = True
    return truth.mask(removed), truth


def measure(job: tuple[str, int], table: Table, model: NRTSI) -> Iterator[TrustRow]:
    """Yields all rows of one table; the model is fitted to it."""
    gappy, truth = table
    row = partial(TrustRow.of, job)
    removed = gappy.isna() & truth.notna()
    yield from _coverage(row, gappy, truth, removed, model)
    yield from _errors(row, gappy, truth, removed, model)
    yield _totals(row, gappy, truth, removed, model)


RowOf = Callable[..., TrustRow]


def _coverage(
    row: RowOf, gappy: pd.DataFrame, truth: pd.DataFrame, removed: pd.DataFrame, model: NRTSI
) -> Iterator[TrustRow]:
    imputed = model.impute(gappy, interval=LEVEL)
    gap_bin = Gaps.of(model.read_fitted(gappy).series).gap_bin
    every = []
    for dim, channel in enumerate(truth):
        own, value = removed[channel].to_numpy(), truth[channel].to_numpy()
        low, high = (imputed[f"{channel}_{end}"].to_numpy() for end in ("lower", "upper"))
        inside = (value >= low) & (value <= high)
        every.append(inside[own])
        for each in np.unique(gap_bin[own, dim]):
            cells = own & (gap_bin[:, dim] == each)
            if cells.sum() >= MIN_CELLS:
                where = f"{channel}, gaps up to {gap_bin_range(int(each))[1]:g} h"
                found = inside[cells].mean()
                yield row("coverage", where, cells=cells.sum(), promised=LEVEL, found=found)
    inside = np.concatenate(every)
    yield row("coverage", "all", cells=inside.size, promised=LEVEL, found=inside.mean())


def _errors(
    row: RowOf, gappy: pd.DataFrame, truth: pd.DataFrame, removed: pd.DataFrame, model: NRTSI
) -> Iterator[TrustRow]:
    backtest = model.backtest(gappy)
    scale = gappy.std(ddof=0).to_numpy()

    def error(method: str) -> float:
        imputed = model.impute(gappy, method=method)
        return float(np.mean((((imputed - truth) / scale).to_numpy()[removed.to_numpy()]) ** 2))

    found = {method: error(method) for method in (*backtest.methods, "auto")}
    cells = int(removed.to_numpy().sum())
    for method, score in backtest.methods.items():
        yield row("error", method, cells=cells, promised=score.mse, found=found[method])
    best = min(value for method, value in found.items() if method != "auto")
    yield row("auto", "auto against the best", cells=cells, promised=best, found=found["auto"])


def _totals(
    row: RowOf, gappy: pd.DataFrame, truth: pd.DataFrame, removed: pd.DataFrame, model: NRTSI
) -> TrustRow:
    """Daily totals of each channel on days with removed cells, pooled over draws."""
    draws = model.sample(gappy, draws=DRAWS)

    def totals(one: pd.DataFrame) -> pd.Series:
        return one.groupby(one.index.floor("D")).sum()[list(truth)].stack()

    pooled = pool(totals, draws, level=LEVEL)
    right = totals(truth.where(truth.notna(), draws[draws["draw"] == 0][list(truth)]))
    # A day on which the truth is unknown does not count.
    known = ~truth.isna().groupby(truth.index.floor("D")).any().stack()
    days = removed.groupby(removed.index.floor("D")).any().stack() & known
    inside = (pooled.lower <= right) & (right <= pooled.upper)
    found = inside[days].mean()
    return row("total", "daily totals", cells=days.sum(), promised=LEVEL, found=found)


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    budget: dict[str, Any] = {"budget": options.budget or DEFAULT_BUDGET}
    if options.steps is not None:
        budget = {"steps": options.steps}
    for name in choose(options.data, TABLES, "--data"):
        for seed in options.seeds:
            table = TABLES[name](seed)
            model = NRTSI(seed=seed, bounds=BOUNDS.get(name), **budget)
            model.fit(table[0], listener=listener)
            rows = list(measure((name, seed), table, model))
            for row in rows:
                figures = (
                    f"reported {row.promised:.4g}, true {row.found:.4g} ({row.cells:,} cells)"
                )
                outside = "" if row.within else ", outside the tolerance"
                notify(f"{name} {seed} {row.about}: {row.where}: {figures}{outside}")
            add(options.out, rows)


def _markdown(path: Path) -> str:
    """A line for each table and seed."""
    rows = read(path, TrustRow)
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
    for data, seed in sorted({row.job for row in rows}):
        own = [row for row in rows if row.job == (data, seed)]
        lines.append(" | ".join([f"{data}, seed {seed}", *_cells(own)]))
    return "".join(f"| {line} |\n" for line in lines)


def _cells(rows: list[TrustRow]) -> list[str]:
    overall = next(row for row in rows if (row.about, row.where) == ("coverage", "all"))
    bins = [row for row in rows if row.about == "coverage" and row.where != "all"]
    error = next(row for row in rows if (row.about, row.where) == ("error", "nrtsi"))
    auto = next(row for row in rows if row.about == "auto")
    total = next(row for row in rows if row.about == "total")
    return [
        f"{100 * overall.found:.1f} % of {overall.cells:,}",
        f"{sum(row.within for row in bins)} of {len(bins)}" if bins else "none has 500 cells",
        f"{error.promised:.3g}, {error.found:.3g}",
        f"{auto.found / auto.promised:.2f}",
        f"{100 * total.found:.1f} % of {total.cells:,}",
    ]


EXPERIMENT = Experiment({"data", "budget", "steps", "seeds"}, _run, _markdown)
