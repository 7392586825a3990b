"""One series with its gaps filled, column by column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions
from nrtsi.report.plots.canvas import GAP, IMPUTED, OBSERVED, blank, plain_axes, save
from nrtsi.report.plots.view import One
from nrtsi.tables import Columns, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_filling", "plot_series"]


MOSTLY = 0.5
"""Share of observed rows from which gaps are shaded; of fewer the shade would be the ground."""


@dataclass(frozen=True)
class _Picture:
    """A series as it is drawn."""

    one: One

    value: Float[np.ndarray, "row dim"]
    """After imputation; NaN where something is missing still."""

    band: tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]] | None = None
    """Lower and upper bounds."""

    band_label: str = "interval"


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
) -> None:
    """Draws one series as it was filled: a panel for every value column, gaps shaded.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        frame: Data with missing cells.
        filled: The same data after imputation.
        columns: Which columns are what; guessed where None.
        series: Which of the frame's series, counted in their sorted order.
        shown: Names of the value columns to draw; all where None.
        interval: Lower and upper bounds, frames like `filled`, drawn as a band.
        title: A line above the panels.

    Raises:
        InputError: matplotlib is not installed, there is no such series or column, the frames
            do not fit each other, or `path` cannot be written.
    """
    picture = _picture(frame, filled, columns or Columns(), series, interval)
    save(_figure(picture, shown, title), path)


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
) -> None:
    """Draws one series as the model fills it, with a band that is to hold 90 % of the truth.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which of the frame's series, counted in their sorted order.
        shown: Names of the value columns to draw; all where None.
        interval: Probability that the band is to hold; None leaves it out.
        title: A line above the panels; without it, which series it is.
        listener: Told of every pass.

    Raises:
        InputError: As for `plot_series`; or `interval` is no probability.
    """
    ImputeOptions(interval=interval)  # raises if it is not a probability
    one = One.of(model.read_fitted(frame), series)
    one.places(shown)  # a mistake in these is found before the work
    predicted = model.predict(one.series, listener=listener)
    band = None if interval is None else predicted.interval(interval)
    picture = _Picture(one, predicted.value, band, f"{100 * (interval or 0):g} % interval")
    save(_figure(picture, shown, title or f"{one.label}, filled by nrtsi"), path)


def _picture(
    frame: Any, filled: Any, columns: Columns, series: int, interval: tuple[Any, Any] | None
) -> _Picture:
    panel = read(frame, columns)
    one = One.of(panel, series)
    rows = slice(*panel.series.start[series : series + 2])

    def values(other: Any) -> Float[np.ndarray, "row dim"]:
        again = read(other, panel.columns, clock=panel.clock).series
        if not np.array_equal(again.start, panel.series.start):
            raise InputError(
                f"the filled data must have the rows of the data, {panel.series.rows} in "
                f"{panel.series.series} series, got {again.rows} in {again.series}; "
                f"fill these very data"
            )
        return np.where(again.observed, again.value, np.nan)[rows]

    band = (values(interval[0]), values(interval[1])) if interval else None
    return _Picture(one, values(filled), band)


def _figure(picture: _Picture, shown: Sequence[str] | None, title: str | None) -> "Figure":
    dims = picture.one.places(shown)
    figure = blank(max(8.0, 1.6 * len(dims)))
    panels = figure.subplots(len(dims), sharex=True, squeeze=False)[:, 0]
    for dim, axes in zip(dims, panels, strict=True):
        _draw(axes, picture, dim)
    panels[-1].set_xlabel(picture.one.time_name)
    figure.align_ylabels(panels)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    return figure


def _draw(axes: "Axes", picture: _Picture, dim: int) -> None:
    time, value = picture.one.time, picture.value[:, dim]
    observed = picture.one.series.observed[:, dim]
    if observed.mean() > MOSTLY:
        _shade(axes, time, ~observed)
    if picture.band is not None:
        low, high = (bound[:, dim] for bound in picture.band)
        band = axes.fill_between(time, low, high, where=_widened(~observed))
        band.set(color=IMPUTED, alpha=0.25, linewidth=0, label=picture.band_label)
    style: dict[str, Any] = {"linewidth": 1.2, "markersize": 3.0 if time.size <= 2000 else 1.0}
    imputed = np.where(_widened(~observed), value, np.nan)
    known = np.where(observed, value, np.nan)
    axes.plot(time, imputed, ".-", color=IMPUTED, label="imputed", **style)
    axes.plot(time, known, ".-", color=OBSERVED, label="observed", **style)
    # A lone point has no line to either side and is easily overlooked.
    lone = observed & ~_beside(observed)
    axes.plot(time[lone], value[lone], "o", color=OBSERVED, markersize=1.6 * style["markersize"])
    axes.set_ylabel(picture.one.names[dim])
    plain_axes(axes)
    axes.margins(x=0.01)


def _widened(missing: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Also True at the rows beside a gap, so that its line meets the data."""
    return missing | _beside(missing)


def _beside(rows: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """True for the rows before and after a True one."""
    beside = np.zeros_like(rows)
    beside[1:] |= rows[:-1]
    beside[:-1] |= rows[1:]
    return beside


def _runs(missing: Bool[np.ndarray, " row"]) -> list[tuple[int, int]]:
    """First row and row after the last of every run of True.

    >>> _runs(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edge = np.diff(missing.astype(np.int8), prepend=0, append=0)
    begin, end = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    return list(zip(begin.tolist(), end.tolist(), strict=True))


def _shade(axes: "Axes", time: np.ndarray, missing: Bool[np.ndarray, " row"]) -> None:
    last = time.size - 1
    spans = [(max(begin - 1, 0), min(end, last)) for begin, end in _runs(missing)]
    # One polygon for all gaps: left edge, right edge, and a break before the next.
    edges = np.array([(begin, end, end) for begin, end in spans], dtype=np.int64).reshape(-1)
    height = np.tile([1.0, 1.0, np.nan], len(spans))
    across = axes.get_xaxis_transform()
    gaps = axes.fill_between(time[edges], 0, height, transform=across)
    gaps.set(color=GAP, linewidth=0, zorder=0, label="gap")
