"""Several fillings of one series, laid over each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots.canvas import (
    IMPUTED,
    LINE,
    OBSERVED,
    blank,
    explain,
    plain_axes,
    sample,
    save,
)
from nrtsi.report.plots.view import One, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["drawn", "plot_draws"]


def plot_draws(
    path: str | Path,
    model: NRTSI,
    frame: Any,
    *,
    draws: int = 10,
    series: int = 0,
    columns: Sequence[str] | None = None,
    plane: bool = False,
    title: str | None = None,
    listener: Listener | None = None,
) -> None:
    """Draws the paths of several draws, thin, and what `impute` gives, bold.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        model: A fitted model.
        frame: Data with missing cells.
        draws: How many draws.
        series: Which of the frame's series, counted in their sorted order.
        columns: Names of the value columns to draw; all where None.
        plane: Draw two columns against each other instead of each over time.
        title: A line above the panels; without it, which series it is.
        listener: Told of every pass.

    Raises:
        InputError: matplotlib is not installed, there is no such series or column, `draws` is
            not positive, or `path` cannot be written.
    """
    one = One.of(model.read_fitted(frame), series)
    if plane:
        views = [View.of(one, columns, plane=True)]
    else:
        views = [View(one, (dim,)) for dim in one.places(columns)]
    paths = drawn(model, one, draws, listener)
    mean = np.where(one.series.observed, one.series.value, model.impute_series(one.series))
    title = title or f"{one.label}: {draws} draws of what is missing"
    save(_figure(views, paths, mean, title), path)


def drawn(
    model: NRTSI, one: One, draws: int, listener: Listener | None
) -> list[Float[np.ndarray, "row dim"]]:
    """Draws of one series, all its values; those of `NRTSI.sample`."""
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}; ask for more")
    return list(model.draw(one.series, None, draws, listener=listener))


def _figure(
    views: Sequence[View], paths: Sequence[np.ndarray], mean: np.ndarray, title: str
) -> "Figure":
    plane = views[0].plane
    figure = blank(9.5 if plane else max(6.0, 2.2 * len(views)))
    panels = figure.subplots(len(views), sharex=not plane, squeeze=False)[:, 0]
    for view, axes in zip(views, panels, strict=True):
        _draw(axes, view, paths, mean)
        view.label(axes, bottom=view is views[-1])
    figure.align_ylabels(panels)
    legend = [
        sample(OBSERVED, "observed"),
        sample(IMPUTED, "imputed: the mean", linewidth=2.2, **LINE),
        sample(IMPUTED, "a draw", alpha=0.5, linewidth=0.9, **LINE),
    ]
    explain(figure, title, legend)
    return figure


def _draw(axes: "Axes", view: View, paths: Sequence[np.ndarray], mean: np.ndarray) -> None:
    alpha = float(np.clip(3 / len(paths), 0.08, 0.5))
    for path in paths:
        axes.plot(*view.xy(path), color=IMPUTED, linewidth=0.9, alpha=alpha)
    axes.plot(*view.xy(mean), color=IMPUTED, linewidth=2.2)
    x, y = (place[view.observed] for place in view.xy(mean))
    axes.plot(x, y, "o", color=OBSERVED, markersize=view.dot, zorder=3)
    plain_axes(axes)
