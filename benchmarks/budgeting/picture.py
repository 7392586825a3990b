"""Error against budget as a picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from budgeting.page import relative
from budgeting.rows import Row, series_of
from nrtsi.errors import InputError
from nrtsi.plotting.canvas import (
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

COLORS = (IMPUTED, OBSERVED, READ, "#4d9221", "#7a7a7a", "#b8860b", "#333333")

DEFAULT: dict[str, Any] = {"marker": "o", "linestyle": "-", "capsize": 3}
TRIED: dict[str, Any] = {"marker": ".", "linestyle": "none", "alpha": 0.5}


def plot(path: Path, rows: Sequence[Row]) -> None:
    """A line a data set with the defaults, and a dot for everything else that was tried."""
    if not rows:
        raise InputError("there is nothing to draw; measure something first")
    figure = blank(6.0)
    axes = figure.subplots()
    color = dict(zip(sorted({row.data for row in rows}), COLORS * len(rows), strict=False))
    for data, asked, budgets in series_of(rows):
        time = [fmean(row.seconds for row in some) for some in budgets]
        share, spread = zip(*map(relative, budgets), strict=True)
        axes.errorbar(
            time,
            share,
            yerr=None if asked else spread,
            color=color[data],
            **TRIED if asked else DEFAULT,
        )
    axes.axhline(1.0, color=PATH, linestyle="--", zorder=1)
    axes.set(xscale="log", yscale="log", xlabel="time to train")
    axes.set_ylabel("error on validation series, linear interpolation = 1")
    budgets = {row.budget: row.seconds for row in rows}
    axes.set_xticks(list(budgets.values()), list(budgets), minor=False)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:g}")
    plain_axes(axes)
    legend = [sample(each, name, **LINE) for name, each in color.items()]
    legend.append(sample(PATH, "linear interpolation", marker="none", linestyle="--"))
    if any(row.asked for row in rows):
        legend.append(sample(PATH, "other sizes", markersize=3.0))
    explain(figure, "What time to train buys", legend)
    save(figure, path)
