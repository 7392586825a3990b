"""What one fitted model promises of a table, and what comes true."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import nrtsi
from nrtsi import NRTSI
from nrtsi.core.gaps import Gaps, gap_bin_range

LEVEL, DRAWS, ENOUGH = 0.9, 50, 500


@dataclass(frozen=True)
class Figure:
    """One promise and what came of it."""

    data: str
    seed: int
    about: str
    """coverage, error, auto or total."""

    where: str
    """Channel and length of gap, or method."""

    cells: int
    promised: float
    found: float

    def within(self) -> bool:
        """Whether it is as near to the promise as is to be asked for."""
        if self.about == "error":
            return abs(self.found / self.promised - 1) <= 0.2
        if self.about == "auto":
            return self.found <= 1.03 * self.promised
        slack = 2 * np.sqrt(LEVEL * (1 - LEVEL) / self.cells)
        wide = 0.05 if self.about == "total" else 0.02
        return abs(self.found - self.promised) <= wide + slack


def figures(name: str, seed: int, gappy: pd.DataFrame, truth: pd.DataFrame, model: NRTSI):
    """All figures of one table; the model is fitted on it."""
    lost = gappy.isna() & truth.notna()
    yield from _coverage(name, seed, gappy, truth, lost, model)
    yield from _errors(name, seed, gappy, truth, lost, model)
    yield from _totals(name, seed, gappy, truth, lost, model)


def _coverage(name, seed, gappy, truth, lost, model):
    filled = model.impute(gappy, interval=LEVEL)
    gap_bin = Gaps.of(model.read_fitted(gappy).series).gap_bin
    every = []
    for dim, channel in enumerate(truth):
        own = lost[channel].to_numpy()
        value = truth[channel].to_numpy()
        low, high = (filled[f"{channel}_{end}"].to_numpy() for end in ("lower", "upper"))
        inside = (value >= low) & (value <= high)
        every.append(inside[own])
        for each in np.unique(gap_bin[own, dim]):
            cells = own & (gap_bin[:, dim] == each)
            if cells.sum() >= ENOUGH:
                where = f"{channel}, gaps up to {gap_bin_range(int(each))[1]:g} h"
                found = float(inside[cells].mean())
                yield Figure(name, seed, "coverage", where, int(cells.sum()), LEVEL, found)
    inside = np.concatenate(every)
    yield Figure(name, seed, "coverage", "all", inside.size, LEVEL, float(inside.mean()))


def _errors(name, seed, gappy, truth, lost, model):
    trial = model.backtest(gappy)
    spread = gappy.std(ddof=0).to_numpy()

    def error(method):
        filled = model.impute(gappy, method=method)
        return float(np.mean((((filled - truth) / spread).to_numpy()[lost.to_numpy()]) ** 2))

    found = {method: error(method) for method in (*trial.methods, "auto")}
    count = int(lost.to_numpy().sum())
    for method, score in trial.methods.items():
        yield Figure(name, seed, "error", method, count, score.mse, found[method])
    best = min(value for method, value in found.items() if method != "auto")
    yield Figure(name, seed, "auto", "auto against the best", count, best, found["auto"])


def _totals(name, seed, gappy, truth, lost, model):
    """Of every day with something lost, the sum of each channel, pooled over draws."""
    draws = model.sample(gappy, draws=DRAWS)

    def totals(one):
        return one.groupby(one.index.floor("D")).sum()[list(truth)].stack()

    pooled = nrtsi.pool(totals, draws, level=LEVEL)
    whole = truth.where(truth.notna(), draws[draws["draw"] == 0][list(truth)])
    # Where nobody knows the truth, a day says nothing.
    known = ~truth.isna().groupby(truth.index.floor("D")).any().stack()
    some = lost.groupby(lost.index.floor("D")).any().stack() & known
    right = totals(whole)
    inside = (pooled.lower <= right) & (right <= pooled.upper)
    yield Figure(
        name, seed, "total", "daily totals", int(some.sum()), LEVEL, float(inside[some].mean())
    )
