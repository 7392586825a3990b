"""Pictures of filled series."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.atomic import atomic
from nrtsi.errors import InputError
from nrtsi.frames import Clock, Columns, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_series"]

OBSERVED = "#1f5a96"
IMPUTED = "#d95f02"
GAP = "#eeeae4"


@dataclass(frozen=True)
class _Picture:
    """One series as it is drawn."""

    time: np.ndarray
    value: Float[np.ndarray, "row dim"]
    observed: Bool[np.ndarray, "row dim"]
    names: tuple[str, ...]
    low: Float[np.ndarray, "row dim"] | None = None
    high: Float[np.ndarray, "row dim"] | None = None


def plot_series(
    path: Path,
    frame: Any,
    filled: Any,
    *,
    columns: Columns | None = None,
    series: int = 0,
    interval: tuple[Any, Any] | None = None,
    title: str | None = None,
) -> None:
    """Writes a PNG picture of one series: a panel for every value column, gaps shaded.

    Args:
        path: The picture to write; an existing one is replaced.
        frame: Data with missing cells.
        filled: The same data after imputation.
        columns: Which columns are what; guessed where None.
        series: Which of the frame's series, counted in their sorted order.
        interval: Lower and upper bounds, frames like `filled`, drawn as a band.
        title: A line above the panels.

    Raises:
        InputError: matplotlib is not installed, there is no such series, or `path` cannot
            be written.
    """
    figure = _figure(_picture(frame, filled, columns or Columns(), series, interval), title)
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png")


def _picture(
    frame: Any, filled: Any, columns: Columns, series: int, interval: tuple[Any, Any] | None
) -> _Picture:
    panel = read(frame, columns)
    if not 0 <= series < panel.series.series:
        raise InputError(
            f"series must be at least 0 and below {panel.series.series}, got {series}"
        )
    rows = slice(*panel.series.start[series : series + 2])

    def values(other: Any) -> Float[np.ndarray, "row dim"]:
        return read(other, panel.columns, clock=panel.clock).series.value[rows]

    low, high = (values(interval[0]), values(interval[1])) if interval else (None, None)
    return _Picture(
        time=_axis(panel.series.time[rows], panel.clock),
        value=values(filled),
        observed=panel.series.observed[rows],
        names=panel.columns.values or (),
        low=low,
        high=high,
    )


def _axis(time: Float[np.ndarray, " row"], clock: Clock) -> np.ndarray:
    """Times as the caller knows them."""
    if clock.kind == "number":
        return time * clock.unit
    ticks = int(clock.origin) + np.round(time * clock.unit).astype(np.int64)
    return ticks.astype("datetime64[ns]")


def _figure(picture: _Picture, title: str | None) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'plots need matplotlib, which is not installed; pip install "nrtsi[plot]"'
        ) from error
    count = len(picture.names)
    # A Figure of its own draws with Agg and leaves the caller's pyplot alone.
    figure = Figure(figsize=(12, max(8.0, 1.6 * count)), dpi=100, layout="constrained")
    panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
    for dim, axes in enumerate(panels):
        _draw(axes, picture, dim)
    figure.align_ylabels(panels)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    return figure


def _draw(axes: "Axes", picture: _Picture, dim: int) -> None:
    time, value = picture.time, picture.value[:, dim]
    observed = picture.observed[:, dim]
    _shade(axes, time, ~observed)
    if picture.low is not None and picture.high is not None:
        low, high = picture.low[:, dim], picture.high[:, dim]
        band = axes.fill_between(time, low, high, where=_widened(~observed))
        band.set(color=IMPUTED, alpha=0.25, linewidth=0, label="interval")
    _line(axes, time, np.where(_widened(~observed), value, np.nan), IMPUTED, "imputed")
    _line(axes, time, np.where(observed, value, np.nan), OBSERVED, "observed")
    # A lone point has no line to either side, so every point also gets a dot.
    size = 3.0 if time.size <= 2000 else 1.0
    axes.plot(time[~observed], value[~observed], ".", color=IMPUTED, markersize=size)
    axes.plot(time[observed], value[observed], ".", color=OBSERVED, markersize=size)
    axes.set_ylabel(picture.names[dim])
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)


def _line(axes: "Axes", time: np.ndarray, value: np.ndarray, color: str, label: str) -> None:
    axes.plot(time, value, color=color, linewidth=1.2, label=label)


def _widened(missing: Bool[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Also True at the rows beside a gap, so that its line meets the data."""
    wide = missing.copy()
    wide[1:] |= missing[:-1]
    wide[:-1] |= missing[1:]
    return wide


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
