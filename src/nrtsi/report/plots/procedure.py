"""Draws the steps in which a series is imputed, coarse to fine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots import canvas
from nrtsi.report.plots.view import OneSeries, View, dot_size
from nrtsi.schedule.plan import Step, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Stage", "plot_procedure", "stages", "steps_to_show"]

FEW_POINTS = 40
"""Up to this many new points of a panel are enlarged and drawn on top of the others."""


@dataclass(frozen=True)
class Stage:
    """The consecutive steps that share a panel."""

    first: int
    """The first step, counted from 1."""

    steps: tuple[Step, ...]
    value: Float[np.ndarray, "row dim"]
    """All values after the last of the steps."""

    @property
    def rows(self) -> Int[np.ndarray, " target"]:
        """The rows that these steps impute."""
        return np.concatenate([step.rows for step in self.steps])

    @property
    def last(self) -> int:
        """The last step, counted from 1."""
        return self.first + len(self.steps) - 1

    @property
    def title(self) -> str:
        """The steps, and the distances and levels of their targets."""
        steps = f"step {self.first}" if len(self.steps) == 1 else f"steps {self.first}–{self.last}"
        distance = _span(np.concatenate([step.distance for step in self.steps]))
        level = _span(np.concatenate([step.level for step in self.steps]))
        return f"{steps}: distance {distance}, level {level}"


def plot_procedure(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    series: int = 0,
    columns: Sequence[str] | None = None,
    plane: bool = False,
    panels: int = 12,
    title: str | None = None,
) -> "Figure":
    """Draws how the model imputes one series: a panel per step, with its new values highlighted.

    Args:
        path: The file to write, .png, .svg or .pdf.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which series, counted from 0.
        columns: The column to draw over time, by default the first; or two in the plane.
        plane: Draw two columns against each other.
        panels: Maximum number of panels; with more steps, consecutive steps share a panel.
        title: The title.

    Raises:
        InputError: As in `nrtsi.report.plots`, or nothing is missing.
    """
    view = View.of(OneSeries.of(model.read_fitted(frame), series), columns, plane=plane)
    if view.observed.all():
        raise InputError(
            f"{view.one.label} must have missing values to show their imputation, got none; "
            f"choose another series or other columns"
        )
    title = title or f"{view.one.label}, imputed from coarse to fine"
    figure = _figure(view, stages(model, view.one, panels), title)
    canvas.save(figure, path)
    return figure


def stages(model: NRTSI, one: OneSeries, most: int) -> list[Stage]:
    """The steps of the plan in at most `most` stages; the first contains one step."""
    count = sum(1 for _ in plan(one.series, model.fitted_.engine.schedule))
    ends = set(steps_to_show(count, most))
    done: list[Stage] = []
    steps: list[Step] = []
    for number, (step, value) in enumerate(model.fitted_.walk(one.series), start=1):
        steps.append(step)
        if number in ends:
            done.append(Stage(number - len(steps) + 1, tuple(steps), value))
            steps = []
    return done


def steps_to_show(count: int, most: int) -> list[int]:
    """The last step of each panel, counted from 1: the first, the last, evenly spaced between.

    >>> steps_to_show(3, 12), steps_to_show(9, 3)
    ([1, 2, 3], [1, 5, 9])
    """
    if most < 2:
        raise InputError(f"panels must be at least 2, got {most}; ask for more")
    return np.unique(np.linspace(1, count, min(count, most)).round().astype(int)).tolist()


def _span(numbers: np.ndarray) -> str:
    """The largest and the smallest number.

    >>> _span(np.array([9.0, 8.0])), _span(np.array([2.0, 2.0]))
    ('9–8', '2')
    """
    high, low = f"{numbers.max():.3g}", f"{numbers.min():.3g}"
    return high if high == low else f"{high}–{low}"


def _figure(view: View, shown: Sequence[Stage], title: str) -> "Figure":
    across = min(4 if view.plane else 3, len(shown))
    down = -(-len(shown) // across)
    figure = canvas.blank(1.2 + down * (min(12 / across, 7.0) + 0.35 if view.plane else 2.4))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).reshape(-1)
    known = view.observed
    for index, (axes, stage) in enumerate(zip(panels, shown, strict=False)):
        known = _draw(axes, view, stage, known)
        lowest = index + across >= len(shown)
        view.label(axes, left=index % across == 0, bottom=lowest)
        axes.tick_params(labelbottom=lowest)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    new = "imputed in this step" if len(shown) == shown[-1].last else "imputed in these steps"
    legend = [
        canvas.sample(canvas.OBSERVED, "observed"),
        canvas.sample(canvas.EARLIER, "imputed earlier"),
        canvas.sample(canvas.IMPUTED, new, **canvas.HIGHLIGHT | {"markersize": 8.0}),
        canvas.sample(canvas.PATH, "known values in time order", **canvas.LINE),
    ]
    canvas.explain(figure, title, legend)
    return figure


def _draw(
    axes: "Axes", view: View, stage: Stage, known: Bool[np.ndarray, " row"]
) -> Bool[np.ndarray, " row"]:
    """Draws one stage and returns the rows that are known after it."""
    new = np.isin(np.arange(known.size), stage.rows) & ~known
    now, observed, size = known | new, view.observed, dot_size(known.size)
    x, y = view.xy(stage.value)
    axes.plot(x[now], y[now], color=canvas.PATH, linewidth=0.8, zorder=1)
    large, order = (max(1.5 * size, 5.0), 5) if new.sum() <= FEW_POINTS else (size, 3)
    style: dict[str, Any] = {"markersize": large, "zorder": order, **canvas.HIGHLIGHT}
    axes.plot(x[new], y[new], "o", color=canvas.IMPUTED, **style)
    for rows, color, zorder in (
        (known & ~observed, canvas.EARLIER, 2),
        (observed, canvas.OBSERVED, 4),
    ):
        axes.plot(x[rows], y[rows], "o", color=color, markersize=size, zorder=zorder)
    axes.set_title(stage.title, fontsize=10)
    canvas.plain_axes(axes)
    return now
