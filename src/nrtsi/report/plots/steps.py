"""Draws the steps in which a series is imputed, and the attention weights of one of them."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots import canvas
from nrtsi.report.plots.canvas import HIGHLIGHT, IMPUTED, READ, Figure, View, check_number, sample
from nrtsi.schedule.plan import Step, plan

__all__ = ["Stage", "plot_attention", "plot_procedure", "stages", "steps_to_show"]

FEW_POINTS = 40
"""Up to this many new points of a panel are enlarged and drawn on top of the others."""

STAR: dict[str, Any] = HIGHLIGHT | {"marker": "*", "markersize": 13}
"""Style of the target of the attention."""


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

    ends = steps_to_show(len(steps), most)
    return [stage(start, end) for start, end in pairwise([0, *ends])]


def steps_to_show(count: int, most: int) -> list[int]:
    """The last step of each panel, counted from 1: the first, the last, evenly spaced between.

    >>> steps_to_show(3, 12), steps_to_show(9, 3)
    ([1, 2, 3], [1, 5, 9])
    """
    return np.unique(np.linspace(1, count, min(count, most)).round().astype(int)).tolist()


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
    known, size = view.observed, canvas.dot_size(view.series.rows)
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
        axes.plot(x[new], y[new], "o", c=IMPUTED, markersize=large, zorder=order, **HIGHLIGHT)
        axes.set_title(stage.title, fontsize=10)
        lowest = index + across >= len(shown)
        view.finish(axes, left=index % across == 0, bottom=lowest)
        axes.tick_params(labelbottom=lowest)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    legend = [
        *canvas.known_legend(),
        sample(IMPUTED, "imputed in the steps of the panel", **HIGHLIGHT | {"markersize": 8.0}),
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
    size, star = scale * canvas.dot_size(int(nearby.sum())), scale * STAR["markersize"]
    x, y = view.xy(value)
    for (i, j), axes in np.ndenumerate(panels):
        view.draw_known(axes, value, view.complete(known) & nearby, size, zorder=4)
        weight = weights[i, j] / largest
        for each, alpha in zip(rows, weight.tolist(), strict=True):
            ends = [each, row]
            axes.plot(x[ends], y[ends], color=READ, alpha=alpha, linewidth=1.5, zorder=2)
        axes.scatter(x[rows], y[rows], area * weight, READ, alpha=0.4, lw=0, zorder=3)
        axes.plot(x[row], y[row], color=IMPUTED, zorder=5, **STAR | {"markersize": star})
        axes.margins(0.08)
        view.finish(axes, left=j == 0, bottom=i == down - 1)
        axes.set_title("block {}, head {}".format(*grid[:, i, j] + 1), fontsize=min(10, 5 * width))
        if width < 2:
            axes.tick_params(labelleft=False, labelbottom=False)
    legend = [sample(IMPUTED, "target", **STAR), *canvas.known_legend()]
    for weight in (float(f"{largest / part:.1g}") for part in (8, 2)):
        circle = {"markersize": np.sqrt(area * weight / largest), "markeredgewidth": 0}
        legend.append(sample(READ, f"weight {weight:g}", alpha=0.4, **circle))
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
    if step is not None:
        check_number("step", step, len(steps), first=1)
    number = step or 1
    if row is None:
        targets = steps[number - 1].rows
        row = int(targets[targets.size // 2])
    else:
        number = _step_of(row, steps, view.series.rows)
        if step not in (None, number):
            raise InputError(
                f"row {row} must be imputed in step {step}, got a row imputed in step {number}; "
                f"leave one of the two out"
            )
    own, time = steps[number - 1], view.time[row]
    place = np.searchsorted(own.rows, row)
    when = np.datetime_as_string(time, "s") if view.time.dtype.kind == "M" else f"{time:g}"
    return row, (
        f"{view.label}: attention to known points when the point at {view.time_name} {when} is "
        f"imputed\nstep {number}: distance {own.distance[place]:.3g}, level {own.level[place]}"
    )


def _step_of(row: int, steps: Sequence[Step], rows: int) -> int:
    """The number of the step that imputes a row."""
    check_number("row", row, rows)
    for number, step in enumerate(steps, start=1):
        if row in step.rows:
            return number
    raise InputError(f"row must be a missing one, got {row}, which is observed; try another")


def _indices(name: str, number: int | None, count: int) -> list[int]:
    """The index of the thing with this number, or all indices."""
    if number is None:
        return list(range(count))
    check_number(name, number, count, first=1)
    return [number - 1]
