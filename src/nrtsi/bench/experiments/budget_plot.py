"""Error against budget as a picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from budgeting.page import relative
from budgeting.rows import Row, series_of
from nrtsi.errors import InputError
from nrtsi.report.plots.canvas import (
    IMPUTED,
    LINE,
    OBSERVED,
    PATH,
    READ,
    blank,
    explain,
    plain_axes,
    sample,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = {"tiny": "#4d9221", "small": IMPUTED, "base": OBSERVED, "large": READ, "paper": "#333333"}


def plot(path: Path, rows: Sequence[Row]) -> None:
    """A panel a data set: a dot for each size and time, a line through what budgets choose."""
    rows = [row for row in rows if not row.changes]
    if not rows:
        raise InputError("there is nothing to draw; measure something first")
    figure = blank(4.5)
    data = sorted({row.data for row in rows})
    panels = figure.subplots(1, len(data), squeeze=False)[0]
    for axes, name in zip(panels, data, strict=True):
        _panel(axes, name, [row for row in rows if row.data == name])
    panels[0].set_ylabel("error, linear interpolation = 1")
    sizes = {row.preset for row in rows}
    legend = [sample(color, name) for name, color in SIZES.items() if name in sizes]
    legend.append(sample(PATH, "what the budget chooses", **LINE))
    explain(figure, "What time to train buys, on validation series", legend)
    save(figure, path)


def _panel(axes: "Axes", name: str, rows: Sequence[Row]) -> None:
    for _, asked, budgets in series_of(rows):
        time = [fmean(row.nominal for row in some) for some in budgets]
        share, spread = zip(*map(relative, budgets), strict=True)
        if not asked:
            axes.plot(time, share, color=PATH, zorder=1)
        for each in zip(time, share, spread, budgets, strict=True):
            _dot(axes, *each)
    budgets = {row.nominal: row.budget for row in rows}
    axes.set(title=name, xscale="log", yscale="log", xlabel="time to train")
    axes.set_xticks(list(budgets), list(budgets.values()), minor=False)
    axes.set_xticks([], minor=True)
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted("{x:g}")
    plain_axes(axes)


def _dot(axes: "Axes", time: float, share: float, spread: float, rows: Sequence[Row]) -> None:
    color = SIZES[rows[0].preset]
    axes.errorbar(time, share, yerr=spread, color=color, marker="o", capsize=3, alpha=0.8)
