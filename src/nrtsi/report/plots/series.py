"""Draws one imputed series, column by column, and several draws of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions
from nrtsi.report.plots import canvas
from nrtsi.report.plots.canvas import IMPUTED, LINE, OBSERVED, Axes, Figure, View, sample
from nrtsi.tables import Columns, read

__all__ = ["plot_draws", "plot_filling", "plot_series"]

MIN_OBSERVED = 0.5
"""Share of observed rows above which gaps are shaded; below it, most of a panel would be."""


def plot_series(
    path: str | Path,
    frame: Any,
    filled: Any,
    *,
    columns: Columns | None = None,
    series: int = 0,
    shown: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws one series and its imputed values: one panel per value column, gaps shaded.

    `filled` is `frame` after imputation; `columns` are the roles of the columns (default:
    detected); `shown` names the value columns to draw (default: all).
    """
    panel = read(frame, columns or Columns())
    view = View.of(panel, series, shown)
    found = read(filled, panel.columns, clock=panel.clock).series
    if not np.array_equal(found.start, panel.series.start):
        raise InputError(
            f"the filled data must have the rows of the data, {panel.series.rows} in "
            f"{panel.series.series} series, got {found.rows} in {found.series}; "
            f"impute the same data"
        )
    value = np.where(found.observed, found.value, np.nan)
    return _plot(path, view, value[slice(*found.start[series : series + 2])], title)


def plot_filling(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    series: int = 0,
    shown: Sequence[str] | None = None,
    interval: float | None = 0.9,
    listener: Listener | None = None,
) -> Figure:
    """Imputes one series and draws it as `plot_series` does, with its interval.

    `shown` names the value columns to draw (default: all); `interval` is the probability of the
    interval, None draws none.
    """
    ImputeOptions(interval=interval)  # raises if it is not a probability
    view = View.of(model.read_fitted(frame), series, shown)
    predicted = model.predict(view.series, listener=listener)
    band = None if interval is None else predicted.interval(interval)
    label = f"{100 * (interval or 0):g} % interval"
    title = f"{view.label}, imputed by nrtsi"
    return _plot(path, view, predicted.value, title, band, label)


def _plot(
    path: str | Path,
    view: View,
    value: Float[np.ndarray, "row dim"],
    title: str | None,
    band: tuple[np.ndarray, np.ndarray] | None = None,
    band_label: str = "",
) -> Figure:
    figure = canvas.blank(max(8.0, 1.6 * len(view.dims)))
    panels = figure.subplots(len(view.dims), sharex=True, squeeze=False)[:, 0]
    for dim, axes in zip(view.dims, panels, strict=True):
        observed = view.series.observed[:, dim]
        if observed.mean() > MIN_OBSERVED:
            _shade_gaps(axes, view.time, ~observed)
        # The rows beside a gap are included, so that its line meets the data.
        gap = ~observed | _neighbours(~observed)
        if band is not None:
            area = axes.fill_between(view.time, band[0][:, dim], band[1][:, dim], where=gap)
            area.set(color=IMPUTED, alpha=0.25, linewidth=0, label=band_label)
        size = 3.0 if view.time.size <= 2000 else 1.0
        for rows, color, label in ((gap, IMPUTED, "imputed"), (observed, OBSERVED, "observed")):
            shown = np.where(rows, value[:, dim], np.nan)
            axes.plot(view.time, shown, ".-", c=color, label=label, lw=1.2, markersize=size)
        # A point without neighbours has no line and would be overlooked.
        lone = observed & ~_neighbours(observed)
        axes.plot(view.time[lone], value[lone, dim], "o", c=OBSERVED, markersize=1.6 * size)
        axes.set_ylabel(view.names[dim])
        axes.margins(x=0.01)
        canvas.plain_axes(axes)
    panels[-1].set_xlabel(view.time_name)
    figure.align_ylabels(panels)
    return canvas.save(
        figure, path, title, panels[0].get_legend_handles_labels()[0], "upper right"
    )


def _shade_gaps(axes: Axes, time: np.ndarray, missing: Bool[np.ndarray, " row"]) -> None:
    """Shades the time between two rows if one of them is missing."""
    height = np.append(missing[:-1] | missing[1:], False).astype(float)
    area = axes.fill_between(time, 0, height, step="post", transform=axes.get_xaxis_transform())
    area.set(color=canvas.GAP, linewidth=0, zorder=0, label="gap")


def _neighbours(rows: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """True for the rows before and after a True row."""
    padded = np.pad(rows, 1)
    return padded[:-2] | padded[2:]


def plot_draws(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    draws: int = 10,
    series: int = 0,
    columns: Sequence[str] | None = None,
    plane: bool = False,
    listener: Listener | None = None,
) -> Figure:
    """Draws `draws` paths of `NRTSI.sample` (thin) and the values of `NRTSI.impute` (bold).

    Over time, each of `columns` has its own panel.
    """
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}; ask for more")
    view = View.of(model.read_fitted(frame), series, columns, plane=plane)
    paths = list(model.draw(view.series, None, draws, listener=listener))
    value, views = model.predict(view.series).value, view.panels()
    figure = canvas.blank(9.5 if plane else max(6.0, 2.2 * len(views)))
    panels = figure.subplots(len(views), sharex=not plane, squeeze=False)[:, 0]
    alpha, size = float(np.clip(3 / draws, 0.08, 0.5)), canvas.dot_size(view.series.rows)
    for each, axes in zip(views, panels, strict=True):
        for one in paths:
            axes.plot(*each.xy(one), color=IMPUTED, linewidth=0.9, alpha=alpha)
        axes.plot(*each.xy(value), color=IMPUTED, linewidth=2.2)
        x, y = (place[each.observed] for place in each.xy(value))
        axes.plot(x, y, "o", color=OBSERVED, markersize=size, zorder=3)
        each.finish(axes, bottom=each is views[-1])
    figure.align_ylabels(panels)
    legend = [
        sample(OBSERVED, "observed"),
        sample(IMPUTED, "imputed (mean)", linewidth=2.2, **LINE),
        sample(IMPUTED, "draw", alpha=0.5, linewidth=0.9, **LINE),
    ]
    title = f"{view.label}: {draws} draws of the missing values"
    return canvas.save(figure, path, title, legend)
