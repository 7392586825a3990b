"""Draws one imputed series, column by column."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions
from nrtsi.report.plots import canvas
from nrtsi.report.plots.view import OneSeries
from nrtsi.tables import Columns, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_filling", "plot_series"]

Values: TypeAlias = Float[np.ndarray, "row dim"]
Interval: TypeAlias = tuple[Values, Values]

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
    interval: tuple[Any, Any] | None = None,
    title: str | None = None,
) -> "Figure":
    """Draws one series and its imputed values: one panel per value column, gaps shaded.

    Args:
        path: The file to write, .png, .svg or .pdf.
        frame: Data with missing cells.
        filled: The same data after imputation.
        columns: Roles of the columns. Default: detected.
        series: Which series, counted from 0.
        shown: Names of the value columns to draw. Default: all.
        interval: Lower and upper ends as data like `filled`, drawn as a band.
        title: The title.

    Raises:
        InputError: As in `nrtsi.report.plots`, or the data do not have the same rows.
    """
    panel = read(frame, columns or Columns())
    one = OneSeries.of(panel, series)
    rows = slice(*panel.series.start[series : series + 2])

    def values(other: Any) -> Values:
        found = read(other, panel.columns, clock=panel.clock).series
        if not np.array_equal(found.start, panel.series.start):
            raise InputError(
                f"the filled data must have the rows of the data, {panel.series.rows} in "
                f"{panel.series.series} series, got {found.rows} in {found.series}; "
                f"impute the same data"
            )
        return np.where(found.observed, found.value, np.nan)[rows]

    band = (values(interval[0]), values(interval[1])) if interval else None
    figure = _figure(one, values(filled), band, "interval", shown, title)
    canvas.save(figure, path)
    return figure


def plot_filling(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    series: int = 0,
    shown: Sequence[str] | None = None,
    interval: float | None = 0.9,
    title: str | None = None,
    listener: Listener | None = None,
) -> "Figure":
    """Imputes one series and draws it as `plot_series` does, with its interval.

    Args:
        path: The file to write, .png, .svg or .pdf.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which series, counted from 0.
        shown: Names of the value columns to draw. Default: all.
        interval: Probability of the interval; None draws none.
        title: The title.
        listener: Is called at every step of the imputation.

    Raises:
        InputError: As in `nrtsi.report.plots`, or `interval` is not a probability.
    """
    ImputeOptions(interval=interval)  # raises if it is not a probability
    one = OneSeries.of(model.read_fitted(frame), series)
    one.dims(shown)  # raises before the work
    predicted = model.predict(one.series, listener=listener)
    band = None if interval is None else predicted.interval(interval)
    label = f"{100 * (interval or 0):g} % interval"
    title = title or f"{one.label}, imputed by nrtsi"
    figure = _figure(one, predicted.value, band, label, shown, title)
    canvas.save(figure, path)
    return figure


def _figure(
    one: OneSeries,
    value: Values,
    band: Interval | None,
    band_label: str,
    shown: Sequence[str] | None,
    title: str | None,
) -> "Figure":
    dims = one.dims(shown)
    figure = canvas.blank(max(8.0, 1.6 * len(dims)))
    panels = figure.subplots(len(dims), sharex=True, squeeze=False)[:, 0]
    for dim, axes in zip(dims, panels, strict=True):
        observed = one.series.observed[:, dim]
        if observed.mean() > MIN_OBSERVED:
            _shade_gaps(axes, one.time, ~observed)
        if band is not None:
            low, high = (end[:, dim] for end in band)
            area = axes.fill_between(one.time, low, high, where=_with_neighbours(~observed))
            area.set(color=canvas.IMPUTED, alpha=0.25, linewidth=0, label=band_label)
        _draw_values(axes, one.time, value[:, dim], observed)
        axes.set_ylabel(one.names[dim])
        axes.margins(x=0.01)
        canvas.plain_axes(axes)
    panels[-1].set_xlabel(one.time_name)
    figure.align_ylabels(panels)
    canvas.explain(figure, title, panels[0].get_legend_handles_labels()[0], at="upper right")
    return figure


def _draw_values(
    axes: "Axes", time: np.ndarray, value: np.ndarray, observed: Bool[np.ndarray, " row"]
) -> None:
    style: dict[str, Any] = {"linewidth": 1.2, "markersize": 3.0 if time.size <= 2000 else 1.0}
    imputed = np.where(_with_neighbours(~observed), value, np.nan)
    known = np.where(observed, value, np.nan)
    axes.plot(time, imputed, ".-", color=canvas.IMPUTED, label="imputed", **style)
    axes.plot(time, known, ".-", color=canvas.OBSERVED, label="observed", **style)
    # A point without neighbours has no line and would be overlooked.
    lone = observed & ~_neighbours(observed)
    axes.plot(
        time[lone], value[lone], "o", color=canvas.OBSERVED, markersize=1.6 * style["markersize"]
    )


def _shade_gaps(axes: "Axes", time: np.ndarray, missing: Bool[np.ndarray, " row"]) -> None:
    """Shades the time between two rows if one of them is missing."""
    height = np.append(missing[:-1] | missing[1:], False).astype(float)
    area = axes.fill_between(time, 0, height, step="post", transform=axes.get_xaxis_transform())
    area.set(color=canvas.GAP, linewidth=0, zorder=0, label="gap")


def _neighbours(rows: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """True for the rows before and after a True row."""
    padded = np.pad(rows, 1)
    return padded[:-2] | padded[2:]


def _with_neighbours(missing: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """True also for the rows beside a gap, so that its line meets the data."""
    return missing | _neighbours(missing)
