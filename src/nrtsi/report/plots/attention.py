"""Draws the attention weights with which the network imputes one point."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.inference import AttentionRecord
from nrtsi.report.plots import canvas
from nrtsi.report.plots.view import OneSeries, View, check_index, check_number, dot_size
from nrtsi.schedule.plan import Step, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_attention"]

STAR: dict[str, Any] = canvas.HIGHLIGHT | {"marker": "*", "markersize": 13}
"""Style of the target."""

CIRCLE: dict[str, Any] = {"alpha": 0.4, "markeredgewidth": 0}
"""Style of a circle whose area is a weight."""

SMALL = 2.0
"""Width in inches below which a panel has a short title and no tick labels."""


@dataclass(frozen=True)
class _Target:
    """A point to be imputed, and the state of the series before its step."""

    view: View
    row: int
    step: int
    """The step that imputes it, counted from 1."""

    distance: float
    level: int
    known: SeriesSet
    """The values that are known before the step."""

    value: Float[np.ndarray, "row dim"]
    """All values after the imputation; the coordinates of the rows."""

    attention: AttentionRecord

    @property
    def nearby(self) -> Bool[np.ndarray, " row"]:
        """True for the rows that are drawn: over time, those around the rows attended to."""
        rows = np.arange(self.value.shape[0])
        low, high = self.attention.rows.min(), self.attention.rows.max()
        margin = 3 + (high - low) // 2
        return (rows >= low - margin) & (rows <= high + margin) | self.view.plane


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
    title: str | None = None,
) -> "Figure":
    """Draws the attention of each head to each known point when one missing point is imputed.

    Args:
        path: The file to write, .png, .svg or .pdf.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which series, counted from 0.
        row: The missing row of the series, counted from 0. Default: one in the middle of those
            that the step imputes.
        step: The step of the plan, counted from 1. Default: the step of `row`, or the first.
        block: The attention block, counted from 1. Default: a panel for each.
        head: The attention head, counted from 1. Default: a panel for each.
        columns: The column to draw over time, by default the first; or two in the plane.
        plane: Draw two columns against each other.
        title: The title.

    Raises:
        InputError: As in `nrtsi.report.plots`; or nothing is missing, or there is no such row,
            step, block or head.
    """
    view = View.of(OneSeries.of(model.read_fitted(frame), series), columns, plane=plane)
    target = _target(model, view, row, step)
    blocks, heads, _ = target.attention.weight.shape
    numbers = _numbers("block", block, blocks), _numbers("head", head, heads)
    figure = _figure(target, *numbers, title or _title(target))
    canvas.save(figure, path)
    return figure


def _target(model: NRTSI, view: View, row: int | None, step: int | None) -> _Target:
    series = view.one.series
    steps = list(plan(series, model.fitted_.engine.schedule))
    if not steps:
        raise InputError(
            f"{view.one.label} must have missing values to show the attention to known ones, "
            f"got none; choose another series"
        )
    number = _step_number(steps, row, step, series.rows)
    chosen = steps[number - 1]
    row = int(chosen.rows[chosen.rows.size // 2]) if row is None else row
    known, attention = model.fitted_.attention(series, row)
    place = int(np.searchsorted(chosen.rows, row))
    distance, level = float(chosen.distance[place]), int(chosen.level[place])
    value = model.predict(series).value
    return _Target(view, row, number, distance, level, known, value, attention)


def _step_number(steps: Sequence[Step], row: int | None, step: int | None, rows: int) -> int:
    """The number of the step to draw; if a row is given, the step that imputes it."""
    if step is not None:
        check_number("step", step, len(steps))
    if row is None:
        return step or 1
    check_index("row", row, rows)
    own = next((number for number, each in enumerate(steps, start=1) if row in each.rows), None)
    if own is None:
        raise InputError(f"row must be a missing one, got {row}, which is observed; try another")
    if step not in (None, own):
        raise InputError(
            f"row {row} must be imputed in step {step}, got a row imputed in step {own}; "
            f"leave one of the two out"
        )
    return own


def _numbers(name: str, number: int | None, count: int) -> list[int]:
    """The given number, or all from 1."""
    if number is None:
        return list(range(1, count + 1))
    check_number(name, number, count)
    return [number]


def _title(target: _Target) -> str:
    one = target.view.one
    time = one.time[target.row]
    when = np.datetime_as_string(time, "s") if one.time.dtype.kind == "M" else f"{time:g}"
    return (
        f"{one.label}: attention to known points when the point at {one.time_name} {when} is "
        f"imputed\nstep {target.step}: distance {target.distance:.3g}, level {target.level}"
    )


def _figure(target: _Target, blocks: Sequence[int], heads: Sequence[int], title: str) -> "Figure":
    # The longer side of the grid is horizontal.
    transposed = len(blocks) > len(heads)
    down, across = (heads, blocks) if transposed else (blocks, heads)
    width = 12 / len(across)
    height = min(width, 8.0) if target.view.plane else max(min(0.7 * width, 6.0), 1.2)
    figure = canvas.blank(1.6 + len(down) * (height + 0.3))
    panels = figure.subplots(len(down), len(across), sharex=True, sharey=True, squeeze=False)
    weights = target.attention.weight[np.ix_([b - 1 for b in blocks], [h - 1 for h in heads])]
    largest = float(weights.max())
    area = float(np.clip(150 * width, 100, 1200))  # of the largest circle, in square points
    for (i, j), axes in np.ndenumerate(panels):
        block, head = (across[j], down[i]) if transposed else (down[i], across[j])
        _draw(axes, target, target.attention.weight[block - 1, head - 1] / largest, area)
        target.view.label(axes, left=j == 0, bottom=i == len(down) - 1)
        if width < SMALL:
            axes.set_title(f"{block} / {head}", fontsize=7)
            axes.tick_params(labelleft=False, labelbottom=False)
        else:
            axes.set_title(f"block {block}, head {head}", fontsize=10)
    title = f"{title}; panel titles: block / head" if width < SMALL else title
    circles = [
        canvas.sample(
            canvas.READ,
            f"weight {weight:g}",
            markersize=np.sqrt(area * weight / largest),
            **CIRCLE,
        )
        for weight in (float(f"{largest / part:.1g}") for part in (8, 2))
    ]
    points = [
        canvas.sample(canvas.OBSERVED, "observed"),
        canvas.sample(canvas.EARLIER, "imputed earlier"),
    ]
    canvas.explain(
        figure, title, [canvas.sample(canvas.IMPUTED, "target", **STAR), *points, *circles]
    )
    return figure


def _draw(axes: "Axes", target: _Target, weight: Float[np.ndarray, " read"], area: float) -> None:
    """Draws one head; `weight` is relative to the largest of the figure."""
    view, rows = target.view, target.attention.rows
    x, y = view.xy(target.value)
    known = view.complete(target.known) & target.nearby
    axes.plot(x[known], y[known], color=canvas.PATH, linewidth=0.7, zorder=1)
    for row, alpha in zip(rows, weight.tolist(), strict=True):
        ends = [row, target.row]
        axes.plot(x[ends], y[ends], color=canvas.READ, alpha=alpha, linewidth=1.5, zorder=2)
    axes.scatter(x[rows], y[rows], area * weight, canvas.READ, alpha=0.4, lw=0, zorder=3)
    scale = min(1.0, np.sqrt(area / 400))  # smaller marks in a grid of many panels
    size = scale * dot_size(int(target.nearby.sum()))
    for which, color in (
        (known & ~view.observed, canvas.EARLIER),
        (known & view.observed, canvas.OBSERVED),
    ):
        axes.plot(x[which], y[which], "o", color=color, markersize=size, zorder=4)
    star = STAR | {"markersize": scale * STAR["markersize"]}
    axes.plot(x[target.row], y[target.row], color=canvas.IMPUTED, zorder=5, **star)
    axes.margins(0.08)
    canvas.plain_axes(axes)
