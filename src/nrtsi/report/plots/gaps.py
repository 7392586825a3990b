"""How the error grows with the distance to the nearest known value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.events import Listener
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.report.plots.canvas import IMPUTED, blank, explain, plain_axes, save
from nrtsi.schedule.distances import distances as row_distances
from nrtsi.schedule.distances import level_of
from nrtsi.schedule.policies import SAME
from nrtsi.tables import Clock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GapErrors", "distances", "gap_errors", "plot_gaps"]

# Of the baselines, in their order; nrtsi has the colour of imputed values.
COLORS = ("#1f5a96", "#4d9221", "#7a7a7a", "#8c6bb1", "#b8860b", "#333333")

FARTHEST = 60
"""The last bucket, of distances that no series has; what is infinitely far falls into it."""


@dataclass(frozen=True)
class GapErrors:
    """Squared errors of hidden cells by their distance to the nearest known value."""

    bucket: Int[np.ndarray, " bucket"]
    """`k` holds distances in `(2**(k-1), 2**k]` units, 0 those up to 1; ascending."""

    cells: Int[np.ndarray, " bucket"]
    """Hidden cells of each bucket."""

    mse: dict[str, Float[np.ndarray, " bucket"]]
    """Of each method, nrtsi first, in standard deviations of each channel."""

    whole: bool
    """All distances are whole numbers of units."""

    clock: Clock
    """What a unit is."""

    guesses: tuple[str, ...] = ()
    """Sentences that say what was guessed about the columns."""

    def overall(self, method: str) -> float:
        """The error over all hidden cells."""
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
) -> GapErrors:
    """Hides known cells as `NRTSI.backtest` does, and draws the error against the gap.

    Args:
        path: The picture to write, .png, .svg or .pdf; an existing one is replaced.
        frame: Anything that `NRTSI.fit` takes.
        model: A fitted model; None fits one on the data without the hidden cells.
        baselines: Names of the baselines to draw beside nrtsi.
        title: A line above the picture.
        listener: Is told of the progress.
        settings: Settings of the model to fit.

    Returns:
        The numbers that were drawn.

    Raises:
        InputError: matplotlib is not installed, the frame or a setting cannot be used, or `path`
            cannot be written.
    """
    figure = blank(7.0)  # finds out whether matplotlib is there before the training
    errors = gap_errors(frame, model=model, baselines=baselines, listener=listener, **settings)
    _draw(figure, errors, title or "Error of hidden values by their distance to what is known")
    save(figure, path)
    return errors


def gap_errors(
    frame: Any,
    *,
    model: NRTSI | None = None,
    baselines: Sequence[str] = ("linear", "forward", "mean"),
    listener: Listener | None = None,
    **settings: Any,
) -> GapErrors:
    """The errors that a back-test averages, by the distance to the nearest known value."""
    _refuse_settings(model, settings)
    imputer = NRTSI(**settings) if model is None else model
    trial = imputer.backtest(frame, baselines=baselines, listener=listener)
    hidden = trial.holdout.hidden
    far = distances(trial.holdout.known, hidden)[hidden]
    bucket = np.where(np.isfinite(far), level_of(far - SAME, max_level=FARTHEST), FARTHEST)
    found, cells = np.unique(bucket, return_counts=True)
    spread = trial.channel_std[trial.channel]

    def errors(guess: Float[np.ndarray, " cell"]) -> Float[np.ndarray, " bucket"]:
        squared = ((trial.truth - guess) / spread) ** 2
        return np.array([squared[bucket == each].mean() for each in found])

    return GapErrors(
        bucket=found,
        cells=cells,
        mse={name: errors(guess) for name, guess in trial.predictions.items()},
        whole=bool((far == np.round(far)).all()),
        clock=trial.clock,
        guesses=trial.remarks,
    )


def _refuse_settings(model: NRTSI | None, settings: Mapping[str, Any]) -> None:
    if model is not None and settings:
        raise InputError(
            f"{', '.join(settings)} must not be given with a model, which has its own; "
            f"leave the model out to fit one with these settings"
        )


def distances(
    known: SeriesSet, cells: Bool[np.ndarray, "row dim"]
) -> Float[np.ndarray, "row dim"]:
    """Distance in time from each of `cells` to the nearest known one of its channel; 0 elsewhere.

    Infinite where a series knows nothing of the channel.
    """
    far = np.zeros(cells.shape)
    for dim in range(known.dims):
        rows = np.flatnonzero(cells[:, dim])
        far[rows, dim] = row_distances(known.time, known.observed[:, dim], known.start, rows)
    return far


def bucket_name(bucket: int, *, whole: bool) -> str:
    """The distances that a bucket holds.

    >>> [bucket_name(k, whole=True) for k in range(4)]
    ['1', '2', '3–4', '5–8']
    >>> [bucket_name(k, whole=False) for k in range(3)]
    ['up to 1', '1–2', '2–4']
    """
    if bucket >= FARTHEST:
        return "nothing\nknown"
    low, high = 2 ** (bucket - 1) if bucket else 0, 2**bucket
    if not whole:
        return f"{low:,}–{high:,}" if bucket else "up to 1"
    return f"{low + 1:,}–{high:,}" if bucket > 1 else f"{high}"


def _draw(figure: "Figure", errors: GapErrors, title: str) -> None:
    axes = figure.subplots()
    place = np.arange(errors.bucket.size)
    for (name, mse), color in zip(errors.mse.items(), (IMPUTED, *COLORS), strict=False):
        ours = name == "nrtsi"
        axes.plot(
            place,
            mse,
            marker="o",
            color=color,
            linewidth=2.5 if ours else 1.4,
            markersize=7 if ours else 5,
            zorder=3 if ours else 2,
            label=f"{name} ({errors.overall(name):.3g} overall)",
        )
    if min(float(mse.min()) for mse in errors.mse.values()) > 0:
        axes.set_yscale("log")  # a baseline without any error has no logarithm
    names = (bucket_name(int(each), whole=errors.whole) for each in errors.bucket)
    counts = (f"{count:,} cell{'' if count == 1 else 's'}" for count in errors.cells)
    axes.set_xticks(place, [f"{name}\n{count}" for name, count in zip(names, counts, strict=True)])
    axes.set_xlabel(f"distance in time to the nearest known value{_unit(errors.clock)}")
    axes.set_ylabel("mean squared error, in standard deviations²")
    axes.set_xlim(-0.4, place.size - 0.6)
    axes.grid(axis="y", color="#e4e1dc", linewidth=0.7)
    axes.set_axisbelow(True)
    plain_axes(axes)
    explain(figure, title, axes.get_legend_handles_labels()[0])


def _unit(clock: Clock) -> str:
    """What distances are counted in, unless it is the unit of the data.

    >>> _unit(Clock("number", 0, 0.5)), _unit(Clock("datetime", 0, 900e9))
    (', in steps of 0.5', ', in steps of 0:15:00')
    """
    if clock.kind == "datetime":
        return f", in steps of {timedelta(microseconds=clock.unit / 1000)}"
    return "" if clock.unit == 1 else f", in steps of {clock.unit:g}"
