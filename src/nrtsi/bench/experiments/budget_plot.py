"""A picture of the error against the budget."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from nrtsi.bench.experiments.budgets import BudgetRow, by_budget, relative_error
from nrtsi.errors import InputError
from nrtsi.report.plots.canvas import (
    IMPUTED,
    LINE,
    OBSERVED,
    PATH,
    READ,
    blank,
    plain_axes,
    sample,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_budgets"]

COLOURS = {
    "tiny": "#4d9221",
    "small": IMPUTED,
    "base": OBSERVED,
    "large": READ,
    "paper": "#333333",
}


def plot_budgets(path: Path, rows: Sequence[BudgetRow]) -> None:
    """Draws a panel for each table: a dot for each preset and budget, a line for the defaults."""
    rows = [row for row in rows if not row.changes]
    if not rows:
        raise InputError("there are no rows to draw; run the experiment budgets first")
    figure = blank(4.5)
    data = sorted({row.data for row in rows})
    panels = figure.subplots(1, len(data), squeeze=False)[0]
    for axes, name in zip(panels, data, strict=True):
        _panel(axes, name, [row for row in rows if row.data == name])
    panels[0].set_ylabel("error, linear interpolation = 1")
    presets = {row.preset for row in rows}
    legend = [sample(color, name) for name, color in COLOURS.items() if name in presets]
    legend.append(sample(PATH, "default preset of the budget", **LINE))
    save(figure, path, "Validation error by training time", legend)


def _panel(axes: "Axes", name: str, rows: Sequence[BudgetRow]) -> None:
    for _, variant, budgets in by_budget(rows):
        time = [fmean(row.budget_seconds for row in some) for some in budgets]
        ratios, errors = zip(*map(relative_error, budgets), strict=True)
        if not variant:
            axes.plot(time, ratios, color=PATH, zorder=1)
        for some, x, y, error in zip(budgets, time, ratios, errors, strict=True):
            color = COLOURS[some[0].preset]
            axes.errorbar(x, y, yerr=error, color=color, marker="o", capsize=3, alpha=0.8)
    ticks = {row.budget_seconds: row.budget for row in rows}
    axes.set(title=name, xscale="log", yscale="log", xlabel="training time")
    axes.set_xticks(list(ticks), list(ticks.values()), minor=False)
    axes.set_xticks([], minor=True)
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted("{x:g}")
    plain_axes(axes)
