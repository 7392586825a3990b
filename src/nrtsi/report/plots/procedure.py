"""How a series is filled from coarse to fine, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots.canvas import (
    BRIGHT,
    EARLIER,
    IMPUTED,
    LINE,
    OBSERVED,
    PATH,
    blank,
    explain,
    plain_axes,
    sample,
    save,
)
from nrtsi.report.plots.view import One, View
from nrtsi.schedule.plan import Step, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Stage", "plot_procedure", "stages", "steps_to_show"]


@dataclass(frozen=True)
class Stage:
    """One step, or several in a row where there are more than panels."""

    first: int
    """The first step, counted from 1."""

    steps: tuple[Step, ...]

    value: Float[np.ndarray, "row dim"]
    """Every value as it is after the last of the steps."""

    @property
    def rows(self) -> Int[np.ndarray, " target"]:
        """The rows that these steps impute."""
        return np.concatenate([step.rows for step in self.steps])

    @property
    def title(self) -> str:
        """Which steps, how wide the gaps, and of which level."""
        count = len(self.steps)
        which = f"step {self.first}" if count == 1 else f"steps {self.first}–{self.last}"
        gap = _span(np.concatenate([step.distance for step in self.steps]))
        level = _span(np.concatenate([step.level for step in self.steps]))
        return f"{which}: gap {gap}, level {level}"

    @property
    def last(self) -> int:
        """The last step, counted from 1."""
        return self.first + len(self.steps) - 1


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
) -> None:
    """Draws how the model fills one series: a panel a step, with what is new in it bright.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        model: A fitted model.
        frame: Data with missing cells.
        series: Which of the frame's series, counted in their sorted order.
        columns: The value column to draw over time, the first where None; or two, in the plane.
        plane: Draw two columns against each other.
        panels: The most panels; where there are more steps, some share one.
        title: A line above the panels; without it, which series it is.

    Raises:
        InputError: matplotlib is not installed, there is no such series or column, nothing is
            missing, or `path` cannot be written.
    """
    view = View.of(One.of(model.read_fitted(frame), series), columns, plane=plane)
    if view.observed.all():
        raise InputError(
            f"{view.one.label} must have missing values to show how they are filled, got none; "
            f"choose another series or other columns"
        )
    title = title or f"{view.one.label}, filled from coarse to fine"
    save(_figure(view, stages(model, view.one, panels), title), path)


def stages(model: NRTSI, one: One, most: int) -> list[Stage]:
    """All steps of the plan, in at most so many stages; the first step is alone in the first."""
    count = sum(1 for _ in plan(one.series, model.fitted_.engine.schedule))
    ends = set(steps_to_show(count, most))
    done: list[Stage] = []
    waiting: list[Step] = []
    for number, (step, value) in enumerate(model.fitted_.walk(one.series), start=1):
        waiting.append(step)
        if number in ends:
            done.append(Stage(number - len(waiting) + 1, tuple(waiting), value))
            waiting = []
    return done


def steps_to_show(count: int, most: int) -> list[int]:
    """The steps, counted from 1, after which to look: the first, the last, evenly between.

    >>> steps_to_show(3, 12), steps_to_show(9, 3)
    ([1, 2, 3], [1, 5, 9])
    """
    if most < 2:
        raise InputError(f"panels must be at least 2, got {most}; ask for more")
    return np.unique(np.linspace(1, count, min(count, most)).round().astype(int)).tolist()


def _span(numbers: np.ndarray) -> str:
    """From the first to the last, which are the widest and the narrowest.

    >>> _span(np.array([9.0, 8.0])), _span(np.array([2.0, 2.0]))
    ('9–8', '2')
    """
    high, low = f"{numbers.max():.3g}", f"{numbers.min():.3g}"
    return high if high == low else f"{high}–{low}"


def _figure(view: View, shown: Sequence[Stage], title: str) -> "Figure":
    across = min(4, len(shown)) if view.plane else min(3, len(shown))
    down = -(-len(shown) // across)
    figure = blank(1.2 + down * (min(12 / across, 7.0) + 0.35 if view.plane else 2.4))
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
        sample(OBSERVED, "observed"),
        sample(EARLIER, "imputed before"),
        sample(IMPUTED, new, **BRIGHT | {"markersize": 8.0}),
        sample(PATH, "known so far, in the order of time", **LINE),
    ]
    explain(figure, title, legend)
    return figure


def _draw(axes: "Axes", view: View, stage: Stage, known: np.ndarray) -> np.ndarray:
    """Draws one stage; the rows that are known after it."""
    new = np.zeros_like(known)
    new[stage.rows] = True
    new &= ~known
    x, y = view.xy(stage.value)
    now = known | new
    axes.plot(x[now], y[now], color=PATH, linewidth=0.8, zorder=1)
    earlier = known & ~view.observed
    size = view.dot
    axes.plot(x[earlier], y[earlier], "o", color=EARLIER, markersize=size, zorder=2)
    # Where they are few they must be found; where they are many they must not cover the rest.
    larger, order = (max(1.5 * size, 5.0), 5) if new.sum() <= 40 else (size, 3)
    axes.plot(x[new], y[new], "o", color=IMPUTED, markersize=larger, zorder=order, **BRIGHT)
    axes.plot(x[view.observed], y[view.observed], "o", color=OBSERVED, markersize=size, zorder=4)
    axes.set_title(stage.title, fontsize=10)
    plain_axes(axes)
    return now
