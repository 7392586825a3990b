"""What the network looks at when it fills a point: its attention, head by head."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.inference import AttentionRecord
from nrtsi.report.plots.canvas import (
    EARLIER,
    IMPUTED,
    OBSERVED,
    PATH,
    READ,
    blank,
    explain,
    plain_axes,
    sample,
    save,
)
from nrtsi.report.plots.view import One, View, dot_size
from nrtsi.schedule.plan import Step, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_attention"]


STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 13,
    "markeredgecolor": "black",
    "markeredgewidth": 0.6,
}


@dataclass(frozen=True)
class _Scene:
    """A point about to be filled, and all that is drawn around it."""

    view: View
    row: int
    step: int
    """Which step of the plan it is filled in, counted from 1."""

    gap: float
    level: int

    known: SeriesSet
    """What is known before that step."""

    value: np.ndarray
    """All values, known or still to be filled in: where the rows are in the picture."""

    reading: AttentionRecord

    @property
    def near(self) -> Bool[np.ndarray, " row"]:
        """True for the rows that are drawn: over time, those around what is read."""
        rows = np.arange(self.value.shape[0])
        low, high = self.reading.rows.min(), self.reading.rows.max()
        room = 3 + (high - low) // 2
        return (rows >= low - room) & (rows <= high + room) | self.view.plane


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
) -> None:
    """Draws how much each attention head reads of each known point to fill one missing point.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which of the frame's series, counted in their sorted order.
        row: Which row of the series is filled, counted from 0; without it, one in the middle of
            those that the step fills.
        step: Which step of the plan, counted from 1 as in `plot_procedure`; without it, the
            row's own, or the first.
        block: One attention block, counted from 1; a panel for each without it.
        head: One head, counted from 1; a panel for each without it.
        columns: The value column to draw over time, the first where None; or two, in the plane.
        plane: Draw two columns against each other.
        title: A line above the panels; without it, which point it is.

    Raises:
        InputError: matplotlib is not installed, there is no such series, column, row, step,
            block or head, nothing is missing, or `path` cannot be written.
    """
    view = View.of(One.of(model.read_fitted(frame), series), columns, plane=plane)
    scene = _scene(model, view, row, step)
    blocks, heads, _ = scene.reading.weight.shape
    sheet = _numbers("block", block, blocks), _numbers("head", head, heads)
    save(_figure(scene, *sheet, title or _title(scene)), path)


def _scene(model: NRTSI, view: View, row: int | None, step: int | None) -> _Scene:
    series = view.one.series
    steps = list(plan(series, model.fitted_.engine.schedule))
    if not steps:
        raise InputError(
            f"{view.one.label} must have missing values to show what they are filled from, "
            f"got none; choose another series"
        )
    number = _step_of(steps, row, step, series.rows)
    chosen = steps[number - 1]
    target = int(chosen.rows[chosen.rows.size // 2]) if row is None else row
    known, reading = model.fitted_.attention(series, target)
    value = np.where(series.observed, series.value, model.impute_series(series))
    place = int(np.searchsorted(chosen.rows, target))
    gap, level = float(chosen.distance[place]), int(chosen.level[place])
    return _Scene(view, target, number, gap, level, known, value, reading)


def _step_of(steps: Sequence[Step], row: int | None, step: int | None, rows: int) -> int:
    """Number of the step to look at, which fills the row where one is given."""
    if step is not None and not 1 <= step <= len(steps):
        raise InputError(
            f"step must be at least 1 and at most {len(steps)}, got {step}; choose another"
        )
    if row is None:
        return step or 1
    if not 0 <= row < rows:
        raise InputError(f"row must be at least 0 and below {rows}, got {row}; choose another")
    own = [number for number, each in enumerate(steps, start=1) if row in each.rows]
    if not own:
        raise InputError(f"row must be a missing one, got {row}, which is observed; try another")
    if step not in (None, own[0]):
        raise InputError(
            f"row {row} must be filled in step {step}, got one filled in step {own[0]}; "
            f"leave one of the two out"
        )
    return own[0]


def _numbers(name: str, given: int | None, count: int) -> list[int]:
    """The given one, or all from 1."""
    if given is None:
        return list(range(1, count + 1))
    if not 1 <= given <= count:
        raise InputError(
            f"{name} must be at least 1 and at most {count}, got {given}; choose another"
        )
    return [given]


def _title(scene: _Scene) -> str:
    one = scene.view.one
    when = one.time[scene.row]
    time = np.datetime_as_string(when, "s") if one.time.dtype.kind == "M" else f"{when:g}"
    return (
        f"{one.label}: what is read to fill the point at {one.time_name} {time}\n"
        f"step {scene.step}: gap {scene.gap:.3g}, level {scene.level}"
    )


def _figure(scene: _Scene, blocks: Sequence[int], heads: Sequence[int], title: str) -> "Figure":
    # The longer side of the sheet goes across, where a picture has more room.
    turned = len(blocks) > len(heads)
    down, across = (heads, blocks) if turned else (blocks, heads)
    wide = 12 / len(across)
    tall = min(wide, 8.0) if scene.view.plane else max(min(0.7 * wide, 6.0), 1.2)
    figure = blank(1.6 + len(down) * (tall + 0.3))
    panels = figure.subplots(len(down), len(across), sharex=True, sharey=True, squeeze=False)
    most = scene.reading.weight[np.ix_([b - 1 for b in blocks], [h - 1 for h in heads])].max()
    largest = float(np.clip(150 * wide, 100, 1200))  # area of the largest circle, in points
    for (i, j), axes in np.ndenumerate(panels):
        block, head = (across[j], down[i]) if turned else (down[i], across[j])
        weight = scene.reading.weight[block - 1, head - 1]
        _draw(axes, scene, weight, most, largest)
        axes.set_title(_short(block, head, small=wide < 2), fontsize=10 if wide >= 2 else 7)
        scene.view.label(axes, left=j == 0, bottom=i == len(down) - 1)
        if wide < 2:
            axes.tick_params(labelleft=False, labelbottom=False)
    if wide < 2:
        title = f"{title}; above each panel: block / head"
    explain(figure, title, _legend(most, largest))
    return figure


def _short(block: int, head: int, *, small: bool) -> str:
    return f"{block} / {head}" if small else f"block {block}, head {head}"


def _legend(most: float, largest: float) -> list[Any]:
    circles = []
    for weight in (float(f"{most / 8:.1g}"), float(f"{most / 2:.1g}")):  # one digit is enough
        across = float(np.sqrt(largest * weight / most))
        style = {"markersize": across, "alpha": 0.4, "markeredgewidth": 0}
        circles.append(sample(READ, f"weight {weight:g}", **style))
    return [
        sample(IMPUTED, "to be filled", **STAR),
        sample(OBSERVED, "observed"),
        sample(EARLIER, "imputed before"),
        *circles,
    ]


def _draw(axes: "Axes", scene: _Scene, weight: np.ndarray, most: float, largest: float) -> None:
    view, rows = scene.view, scene.reading.rows
    x, y = view.xy(scene.value)
    known = view.complete(scene.known) & scene.near
    axes.plot(x[known], y[known], color=PATH, linewidth=0.7, zorder=1)
    for row, part in zip(rows, weight / most, strict=True):
        ends = [row, scene.row]
        axes.plot(x[ends], y[ends], color=READ, alpha=float(part), linewidth=1.5, zorder=2)
    axes.scatter(x[rows], y[rows], largest * weight / most, READ, alpha=0.4, lw=0, zorder=3)
    size = min(1.0, np.sqrt(largest / 400))  # of the marks, smaller on a large sheet
    style: dict[str, Any] = {"markersize": size * dot_size(int(scene.near.sum())), "zorder": 4}
    for which, color in ((known & ~view.observed, EARLIER), (known & view.observed, OBSERVED)):
        axes.plot(x[which], y[which], "o", color=color, **style)
    star = STAR | {"markersize": size * STAR["markersize"], "zorder": 5}
    axes.plot(x[scene.row], y[scene.row], color=IMPUTED, **star)
    axes.margins(0.08)
    plain_axes(axes)
