"""Plots of one series: its imputed values, several draws, the steps, and attention weights."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.events import Listener
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions
from nrtsi.report.plots import canvas
from nrtsi.report.plots.canvas import IMPUTED, OBSERVED, Figure, View, dot_size, sample
from nrtsi.schedule.plan import Step, plan
from nrtsi.tables import Columns, read

__all__ = ["plot_attention", "plot_draws", "plot_filling", "plot_procedure", "plot_series"]

FEW_POINTS = 40  # up to which the new points of a panel are enlarged and on top of the others
STAR: dict[str, Any] = {**canvas.HIGHLIGHT, "marker": "*", "markersize": 13}  # style of a target
Band: TypeAlias = tuple[str, np.ndarray, np.ndarray]  # label, lower and upper ends
MIN_OBSERVED = 0.5  # share of rows; below it, shaded gaps would cover most of a panel


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
    band = None
    if interval is not None:
        band = (f"{100 * interval:g} % interval", *predicted.interval(interval))
    return _plot(path, view, predicted.value, f"{view.label}, imputed by nrtsi", band)


def _plot(
    path: str | Path, view: View, value: np.ndarray, title: str | None, band: Band | None = None
) -> Figure:
    figure = canvas.blank(max(8.0, 1.6 * len(view.dims)))
    panels = figure.subplots(len(view.dims), sharex=True, squeeze=False)[:, 0]
    for dim, axes in zip(view.dims, panels, strict=True):
        observed = view.series.observed[:, dim]
        if observed.mean() > MIN_OBSERVED:
            # The time between two rows is shaded if one of them is missing.
            height = np.append(~(observed[:-1] & observed[1:]), False).astype(float)
            whole = axes.get_xaxis_transform()
            area = axes.fill_between(view.time, 0, height, step="post", transform=whole)
            area.set(color=canvas.GAP, linewidth=0, zorder=0, label="gap")
        # The rows beside a gap are included, so that its line meets the data.
        gap = ~observed | _neighbours(~observed)
        if band is not None:
            label, low, high = band
            area = axes.fill_between(view.time, low[:, dim], high[:, dim], where=gap)
            area.set(color=IMPUTED, alpha=0.25, linewidth=0, label=label)
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
    legend = panels[0].get_legend_handles_labels()[0]
    return canvas.save(figure, path, title, legend, at="upper right")


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
    value = model.predict(view.series).value
    views = [view] if plane else [replace(view, dims=(dim,)) for dim in view.dims]
    figure = canvas.blank(9.5 if plane else max(6.0, 2.2 * len(views)))
    panels = figure.subplots(len(views), sharex=not plane, squeeze=False)[:, 0]
    alpha, size = float(np.clip(3 / draws, 0.08, 0.5)), dot_size(view.series.rows)
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
        sample(IMPUTED, "imputed (mean)", linewidth=2.2, **canvas.LINE),
        sample(IMPUTED, "draw", alpha=0.5, linewidth=0.9, **canvas.LINE),
    ]
    title = f"{view.label}: {draws} draws of the missing values"
    return canvas.save(figure, path, title, legend)


class Stage(NamedTuple):
    """The consecutive steps that share a panel."""

    title: str
    rows: Int[np.ndarray, " target"]
    """The rows that these steps impute."""
    value: Float[np.ndarray, "row dim"]
    """All values after the last of the steps."""


def stages(model: NRTSI, series: SeriesSet, most: int) -> list[Stage]:
    """The steps of the plan in at most `most` stages; the first contains one step."""
    steps, values = zip(*model.fitted_.walk(series), strict=True)

    def stage(start: int, end: int) -> Stage:
        rows, distance, level = (
            np.concatenate([getattr(step, name) for step in steps[start:end]])
            for name in ("rows", "distance", "level")
        )
        number = f"step {end}" if end == start + 1 else f"steps {start + 1}–{end}"
        title = f"{number}: distance {_span(distance)}, level {_span(level)}"
        return Stage(title, rows, values[end - 1])

    # Evenly spaced: a panel ends with the first step, the last one with the last step.
    ends = np.unique(np.linspace(1, len(steps), min(len(steps), most)).round().astype(int))
    return [stage(start, end) for start, end in pairwise([0, *ends.tolist()])]


def _span(numbers: np.ndarray) -> str:
    """The largest and the smallest number.

    >>> _span(np.array([9.0, 8.0])), _span(np.array([2.0, 2.0]))
    ('9–8', '2')
    """
    return "–".join(dict.fromkeys(f"{end:.3g}" for end in (numbers.max(), numbers.min())))


def plot_procedure(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    series: int = 0,
    columns: Sequence[str] | None = None,
    plane: bool = False,
    panels: int = 12,
) -> Figure:
    """Draws how the model imputes one series: a panel per step, with its new values highlighted.

    If there are more steps than `panels`, consecutive steps share a panel.
    """
    if panels < 2:
        raise InputError(f"panels must be at least 2, got {panels}; ask for more")
    view = View.of(model.read_fitted(frame), series, columns, plane=plane, single=True)
    known, size = view.observed, dot_size(view.series.rows)
    if known.all():
        raise InputError(
            f"{view.label} must have missing values to show their imputation, got none; "
            f"choose another series or other columns"
        )
    shown = stages(model, view.series, panels)
    across = min(4 if plane else 3, len(shown))
    down = -(-len(shown) // across)
    figure = canvas.blank(1.2 + down * (min(12 / across, 7.0) + 0.35 if plane else 2.4))
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).reshape(-1)
    for index, (axes, stage) in enumerate(zip(grid, shown, strict=False)):
        new = np.isin(np.arange(known.size), stage.rows) & ~known
        known = known | new
        view.draw_known(axes, stage.value, known, size, zorder=2)
        x, y = view.xy(stage.value)
        large, order = (max(1.5 * size, 5.0), 5) if new.sum() <= FEW_POINTS else (size, 3)
        style = {"markersize": large, "zorder": order, **canvas.HIGHLIGHT}
        axes.plot(x[new], y[new], "o", color=IMPUTED, **style)
        axes.set_title(stage.title, fontsize=10)
        lowest = index + across >= len(shown)
        view.finish(axes, left=index % across == 0, bottom=lowest)
        axes.tick_params(labelbottom=lowest)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    legend = [
        *canvas.known_legend(),
        sample(IMPUTED, "imputed in this panel", **canvas.HIGHLIGHT | {"markersize": 8.0}),
        sample(canvas.PATH, "known values in time order", **canvas.LINE),
    ]
    return canvas.save(figure, path, f"{view.label}, imputed from coarse to fine", legend)


def plot_attention(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    series: int = 0,
    row: int | None = None,
    step: int | None = None,
    block: int | None = None,
    head: int | None = None,
    columns: Sequence[str] | None = None,
    plane: bool = False,
) -> Figure:
    """Draws the attention of each head to each known point when one missing point is imputed.

    The missing `row` of the series is counted from 0 and is by default in the middle of those
    that the step imputes. The others are counted from 1: the `step` of the plan (default: that
    of the row, or the first), the attention `block` and `head` (default: a panel for each).
    """
    view = View.of(model.read_fitted(frame), series, columns, plane=plane, single=True)
    row, title = _target(view, list(plan(view.series, model.fitted_.engine.schedule)), row, step)
    known, attention = model.fitted_.attention(view.series, row)
    value, rows = model.predict(view.series).value, attention.rows
    blocks, heads, _ = attention.weight.shape
    chosen = _indices("block", block, blocks), _indices("head", head, heads)
    grid = np.stack(np.meshgrid(*chosen, indexing="ij"))
    # The longer side of the grid is horizontal.
    grid = grid.swapaxes(1, 2) if grid.shape[1] > grid.shape[2] else grid
    _, down, across = grid.shape
    width = canvas.WIDTH / across
    height = min(width, 8.0) if plane else max(min(0.7 * width, 6.0), 1.2)
    figure = canvas.blank(1.6 + down * (height + 0.3))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    weights = attention.weight[*grid]
    largest = float(weights.max())
    area = float(np.clip(150 * width, 100, 1200))  # of the largest circle, in square points
    scale = min(1.0, np.sqrt(area / 400))  # smaller marks in a grid of many panels
    # Over time, only the rows around those attended to are drawn.
    low, high, place = rows.min(), rows.max(), np.arange(value.shape[0])
    margin = 3 + (high - low) // 2
    nearby = (place >= low - margin) & (place <= high + margin) | plane
    size, star = scale * dot_size(int(nearby.sum())), scale * STAR["markersize"]
    x, y = view.xy(value)
    for (i, j), axes in np.ndenumerate(panels):
        view.draw_known(axes, value, view.complete(known) & nearby, size, zorder=4)
        weight = weights[i, j] / largest
        for each, alpha in zip(rows, weight.tolist(), strict=True):
            ends = [each, row]
            axes.plot(x[ends], y[ends], color=canvas.READ, alpha=alpha, linewidth=1.5, zorder=2)
        axes.scatter(x[rows], y[rows], area * weight, canvas.READ, alpha=0.4, lw=0, zorder=3)
        axes.plot(x[row], y[row], color=IMPUTED, zorder=5, **STAR | {"markersize": star})
        axes.margins(0.08)
        view.finish(axes, left=j == 0, bottom=i == down - 1)
        axes.set_title("block {}, head {}".format(*grid[:, i, j] + 1), fontsize=min(10, 5 * width))
        if width < 2:
            axes.tick_params(labelleft=False, labelbottom=False)
    legend = [sample(IMPUTED, "target", **STAR), *canvas.known_legend()]
    for weight in (float(f"{largest / part:.1g}") for part in (8, 2)):
        circle = {"markersize": np.sqrt(area * weight / largest), "markeredgewidth": 0}
        legend.append(sample(canvas.READ, f"weight {weight:g}", alpha=0.4, **circle))
    return canvas.save(figure, path, title, legend)


def _target(
    view: View, steps: Sequence[Step], row: int | None, step: int | None
) -> tuple[int, str]:
    """The row whose attention is drawn, and the title of the figure."""
    if not steps:
        raise InputError(
            f"{view.label} must have missing values to show the attention to known ones, "
            f"got none; choose another series"
        )
    canvas.check_number("step", 1 if step is None else step, len(steps), first=1)
    if row is None:
        targets = steps[(step or 1) - 1].rows
        row = int(targets[targets.size // 2])
    canvas.check_number("row", row, view.series.rows)
    number = next((n for n, each in enumerate(steps, start=1) if row in each.rows), None)
    if number is None or step not in (None, number):
        needed = "missing" if step is None else f"imputed in step {step}"
        raise InputError(f"row must be {needed}, got {row}, which is not; choose another")
    own, time = steps[number - 1], view.time[row]
    place = np.searchsorted(own.rows, row)
    when = np.datetime_as_string(time, "s") if view.time.dtype.kind == "M" else f"{time:g}"
    return row, (
        f"{view.label}: attention to known points when the point at {view.time_name} {when} is "
        f"imputed\nstep {number}: distance {own.distance[place]:.3g}, level {own.level[place]}"
    )


def _indices(name: str, number: int | None, count: int) -> list[int]:
    """The index of the thing with this number, or all indices."""
    if number is None:
        return list(range(count))
    canvas.check_number(name, number, count, first=1)
    return [number - 1]
