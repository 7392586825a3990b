"""Draws the error by distance to the nearest observed value."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.events import Listener
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import Backtest
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots import canvas
from nrtsi.schedule.distances import TIME_TOLERANCE, distances, level_of
from nrtsi.tables import Clock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DistanceErrors", "cell_distances", "plot_gaps"]

COLORS = ("#1f5a96", "#4d9221", "#7a7a7a", "#8c6bb1", "#b8860b", "#333333")
"""Colours of the baselines."""

LAST_BIN = 60
"""The bin of infinite distances; finite ones are far below."""


@dataclass(frozen=True)
class DistanceErrors:
    """Mean squared errors of held-out cells by distance to the nearest observed value."""

    distance_bin: Int[np.ndarray, " bin"]
    """Bin `k` contains distances in `(2**(k-1), 2**k]` units, bin 0 those up to 1; ascending."""

    cells: Int[np.ndarray, " bin"]
    """Number of held-out cells."""

    mse: dict[str, Float[np.ndarray, " bin"]]
    """Error of each method, nrtsi first, in standard deviations of each channel."""

    whole: bool
    """True if all distances are whole numbers of units."""

    clock: Clock
    guesses: tuple[str, ...] = ()
    """Sentences that state what was detected about the columns."""

    @classmethod
    def of(cls, backtest: Backtest) -> "DistanceErrors":
        """The errors of a back-test."""
        hidden = backtest.holdout.hidden
        distance = cell_distances(backtest.holdout.known, hidden)[hidden]
        level = level_of(distance - TIME_TOLERANCE, max_level=LAST_BIN)
        bins = np.where(np.isfinite(distance), level, LAST_BIN)
        found, cells = np.unique(bins, return_counts=True)
        std = backtest.channel_std[backtest.channel]

        def errors(values: Float[np.ndarray, " cell"]) -> Float[np.ndarray, " bin"]:
            squared = ((backtest.truth - values) / std) ** 2
            return np.array([squared[bins == each].mean() for each in found])

        return cls(
            distance_bin=found,
            cells=cells,
            mse={name: errors(values) for name, values in backtest.imputed.items()},
            whole=bool((distance == np.round(distance)).all()),
            clock=backtest.clock,
            guesses=backtest.remarks,
        )

    def overall(self, method: str) -> float:
        """The error over all held-out cells."""
        return float(np.average(self.mse[method], weights=self.cells))


def plot_gaps(
    path: str | Path,
    frame: Any,
    *,
    model: NRTSI | None = None,
    baselines: Sequence[str] = ("linear", "forward", "mean"),
    title: str | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> DistanceErrors:
    """Holds out observed cells as `NRTSI.backtest` does, and draws the error by distance.

    Args:
        path: The file to write, .png, .svg or .pdf.
        frame: Data as for `NRTSI.fit`.
        model: A fitted model. Default: a model that is fitted on the remaining cells.
        baselines: Names of the baselines to draw.
        title: The title.
        listener: Is called at every step.
        settings: Parameters of the model to fit.

    Raises:
        InputError: As in `nrtsi.report.plots`, or the data or a setting cannot be used.
    """
    if model is not None and settings:
        raise InputError(
            f"{', '.join(settings)} must not be given with a model, which has its own; "
            f"leave the model out to fit one with these settings"
        )
    figure = canvas.blank(7.0)  # raises before the training if matplotlib is not installed
    model = NRTSI(**settings) if model is None else model
    errors = DistanceErrors.of(model.backtest(frame, baselines=baselines, listener=listener))
    _draw(figure, errors, title or "Error by distance to the nearest observed value")
    canvas.save(figure, path)
    return errors


def cell_distances(
    known: SeriesSet, cells: Bool[np.ndarray, "row dim"]
) -> Float[np.ndarray, "row dim"]:
    """Time from each of `cells` to the nearest observed value of its channel; 0 elsewhere.

    Infinite if the series has no observed value in the channel.
    """
    found = np.zeros(cells.shape)
    for dim in range(known.dims):
        rows = np.flatnonzero(cells[:, dim])
        found[rows, dim] = distances(known.time, known.observed[:, dim], known.start, rows)
    return found


def _bin_label(index: int, *, whole: bool) -> str:
    """The distances in a bin.

    >>> [_bin_label(k, whole=True) for k in range(4)]
    ['1', '2', '3–4', '5–8']
    >>> [_bin_label(k, whole=False) for k in range(3)]
    ['up to 1', '1–2', '2–4']
    """
    if index >= LAST_BIN:
        return "nothing\nobserved"
    low, high = 2 ** (index - 1) if index else 0, 2**index
    if not whole:
        return f"{low:,}–{high:,}" if index else "up to 1"
    return f"{low + 1:,}–{high:,}" if index > 1 else f"{high}"


def _draw(figure: "Figure", errors: DistanceErrors, title: str) -> None:
    axes = figure.subplots()
    place = np.arange(errors.distance_bin.size)
    for (name, mse), color in zip(errors.mse.items(), (canvas.IMPUTED, *COLORS), strict=False):
        width, size, order = (2.5, 7, 3) if name == "nrtsi" else (1.4, 5, 2)
        style: dict[str, Any] = {"linewidth": width, "markersize": size, "zorder": order}
        label = f"{name} ({errors.overall(name):.3g} overall)"
        axes.plot(place, mse, marker="o", color=color, label=label, **style)
    if min(float(mse.min()) for mse in errors.mse.values()) > 0:
        axes.set_yscale("log")  # zero has no logarithm
    ticks = [
        f"{_bin_label(int(index), whole=errors.whole)}\n{count:,} cell{'' if count == 1 else 's'}"
        for index, count in zip(errors.distance_bin, errors.cells, strict=True)
    ]
    axes.set_xticks(place, ticks)
    axes.set_xlabel(f"distance in time to the nearest observed value{_unit(errors.clock)}")
    axes.set_ylabel("mean squared error, in standard deviations²")
    axes.set_xlim(-0.4, place.size - 0.6)
    axes.grid(axis="y", color="#e4e1dc", linewidth=0.7)
    axes.set_axisbelow(True)
    canvas.plain_axes(axes)
    canvas.explain(figure, title, axes.get_legend_handles_labels()[0])


def _unit(clock: Clock) -> str:
    """The unit of distances, unless it is that of the data.

    >>> _unit(Clock("number", 0, 0.5)), _unit(Clock("datetime", 0, 900e9))
    (', in steps of 0.5', ', in steps of 0:15:00')
    """
    if clock.kind == "datetime":
        return f", in steps of {timedelta(microseconds=clock.unit / 1000)}"
    return "" if clock.unit == 1 else f", in steps of {clock.unit:g}"
