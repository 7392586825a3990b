"""Draws the error by distance to the nearest observed value."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

__all__ = ["DistanceErrors", "cell_distances", "plot_gaps"]

COLORS = (canvas.IMPUTED, "#1f5a96", "#4d9221", "#7a7a7a", "#8c6bb1", "#b8860b", "#333333")
LAST_BIN = 60  # of infinite distances; finite ones are far below


@dataclass(frozen=True)
class DistanceErrors:
    """Mean squared errors of held-out cells by distance to the nearest observed value."""

    distance_bin: Int[np.ndarray, " bin"]
    """Bin `k` contains distances in `(2**(k-1), 2**k]` units, bin 0 those up to 1; ascending."""
    cells: Int[np.ndarray, " bin"]  # number of held-out cells
    mse: dict[str, Float[np.ndarray, " bin"]]  # by method, in standard deviations of each channel
    clock: Clock
    remarks: tuple[str, ...]  # sentences that state what was detected about the columns

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

        mse = {name: errors(values) for name, values in backtest.imputed.items()}
        return cls(found, cells, mse, backtest.clock, backtest.remarks)

    def overall(self, method: str) -> float:
        """The error over all held-out cells."""
        return float(np.average(self.mse[method], weights=self.cells))


def plot_gaps(
    path: str | Path,
    frame: Any,
    *,
    model: NRTSI | None = None,
    baselines: Sequence[str] = ("linear", "forward", "mean"),
    listener: Listener | None = None,
    **settings: Any,
) -> DistanceErrors:
    """Holds out observed cells as `NRTSI.backtest` does, and draws the error by distance.

    Without a `model`, one with these `settings` is fitted on the remaining cells.
    """
    if model is not None and settings:
        raise InputError(
            f"{', '.join(settings)} must not be given with a model, which has its own; "
            f"leave the model out to fit one with these settings"
        )
    figure = canvas.blank(7.0)  # raises before the training if matplotlib is not installed
    model = NRTSI(**settings) if model is None else model
    errors = DistanceErrors.of(model.backtest(frame, baselines=baselines, listener=listener))
    axes = figure.subplots()
    place = np.arange(errors.distance_bin.size)
    for (name, mse), color in zip(errors.mse.items(), COLORS, strict=False):
        width, size, order = (2.5, 7, 3) if name == "nrtsi" else (1.4, 5, 2)
        label = f"{name} ({errors.overall(name):.3g} overall)"
        axes.plot(place, mse, "o-", c=color, label=label, lw=width, markersize=size, zorder=order)
    if min(float(mse.min()) for mse in errors.mse.values()) > 0:
        axes.set_yscale("log")  # zero has no logarithm
    ends = [f"up to {errors.clock.format_duration(2.0**k)}" for k in errors.distance_bin.tolist()]
    if errors.distance_bin[-1] == LAST_BIN:
        ends[-1] = "nothing\nobserved"
    ticks = [f"{end}\nn = {cells:,}" for end, cells in zip(ends, errors.cells, strict=True)]
    axes.set_xticks(place, ticks)
    axes.set(xlabel="distance in time to the nearest observed value", xlim=(-0.4, place[-1] + 0.4))
    axes.set_ylabel("mean squared error, in standard deviations²")
    axes.grid(axis="y", color="#e4e1dc", linewidth=0.7)
    axes.set_axisbelow(True)
    canvas.plain_axes(axes)
    title = "Error by distance to the nearest observed value"
    canvas.save(figure, path, title, axes.get_legend_handles_labels()[0])
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
