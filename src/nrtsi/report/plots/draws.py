"""Draws several draws of one series over each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots import canvas
from nrtsi.report.plots.view import OneSeries, View, dot_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_draws"]


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
) -> "Figure":
    """Draws the paths of `NRTSI.sample` (thin) and the values of `NRTSI.impute` (bold).

    Args:
        path: The file to write, .png, .svg or .pdf.
        model: A fitted model.
        frame: Data with missing cells.
        draws: Number of draws.
        series: Which series, counted from 0.
        columns: The columns to draw. Default: all, one panel each.
        plane: Draw two columns against each other.
        title: The title.
        listener: Is called at every step of the imputation.

    Raises:
        InputError: As in `nrtsi.report.plots`, or `draws` is not positive.
    """
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}; ask for more")
    one = OneSeries.of(model.read_fitted(frame), series)
    if plane:
        views = [View.of(one, columns, plane=True)]
    else:
        views = [View(one, (dim,)) for dim in one.dims(columns)]
    paths = list(model.draw(one.series, None, draws, listener=listener))
    value = model.predict(one.series).value
    figure = canvas.blank(9.5 if plane else max(6.0, 2.2 * len(views)))
    panels = figure.subplots(len(views), sharex=not plane, squeeze=False)[:, 0]
    alpha = float(np.clip(3 / draws, 0.08, 0.5))
    for view, axes in zip(views, panels, strict=True):
        for each in paths:
            axes.plot(*view.xy(each), color=canvas.IMPUTED, linewidth=0.9, alpha=alpha)
        axes.plot(*view.xy(value), color=canvas.IMPUTED, linewidth=2.2)
        x, y = (place[view.observed] for place in view.xy(value))
        axes.plot(x, y, "o", color=canvas.OBSERVED, markersize=dot_size(one.series.rows), zorder=3)
        view.label(axes, bottom=view is views[-1])
        canvas.plain_axes(axes)
    figure.align_ylabels(panels)
    legend = [
        canvas.sample(canvas.OBSERVED, "observed"),
        canvas.sample(canvas.IMPUTED, "imputed (mean)", linewidth=2.2, **canvas.LINE),
        canvas.sample(canvas.IMPUTED, "draw", alpha=0.5, linewidth=0.9, **canvas.LINE),
    ]
    canvas.explain(figure, title or f"{one.label}: {draws} draws of the missing values", legend)
    canvas.save(figure, path)
    return figure
