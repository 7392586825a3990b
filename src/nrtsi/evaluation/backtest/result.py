"""`Backtest`: what methods said of cells that were hidden from them, and how far off they were."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.bounds import Bounds
from nrtsi.core.gaps import GAP_BINS, Gaps, gap_bin_range
from nrtsi.core.scaling import Scaler
from nrtsi.evaluation.backtest.method_selection import MethodSelection
from nrtsi.evaluation.calibration import Calibration, CalibrationScores, HoldOut
from nrtsi.evaluation.calibration.conformal import coverage
from nrtsi.tables import Clock

__all__ = ["Backtest", "ChannelScore", "Score"]

UNITS = "standard deviations of each channel"


@dataclass(frozen=True)
class ChannelScore:
    """Errors of one method in one channel, in the caller's units."""

    mse: float
    """Squared error, averaged over the hidden cells of the channel."""

    mae: float
    """Absolute error, averaged likewise."""


@dataclass(frozen=True)
class Score:
    """Errors of one method over all hidden cells.

    They are in standard deviations of each channel, so that degrees and pascals can be averaged.
    """

    mse: float
    """Squared error, averaged over the hidden cells."""

    mae: float
    """Absolute error, averaged likewise."""

    seconds: float
    """Time it took to fit, if it was fitted here, and to fill."""

    channels: dict[str, ChannelScore]
    """The same channel by channel, in the caller's units; only channels with hidden cells."""


@dataclass(frozen=True)
class Backtest:
    """What each method said of cells that were hidden from it, and how far off it was."""

    aside: HoldOut
    """The data, and the cells that were hidden."""

    guesses: dict[str, Float[np.ndarray, " cell"]]
    """The values that each method that ran gave the hidden cells, row by row; nrtsi first."""

    scale: Float[np.ndarray, "row dim"] | None
    """How far off nrtsi took itself to be; None where it did not run."""

    seconds: dict[str, float]
    """Time of each method."""

    failed: dict[str, str]
    """Why a method did not run."""

    names: tuple[str, ...]
    """The channels."""

    clock: Clock
    cells: int
    """Cells that were known in all the data."""

    bounds: Bounds | None = None
    backend: Any = None
    """What kind of frames the caller uses."""

    remarks: tuple[str, ...] = ()
    """Sentences that say what was guessed about the columns."""

    @property
    def hidden(self) -> int:
        """Cells that were known and were hidden."""
        return int(self.aside.hidden.sum())

    @property
    def mask(self) -> str:
        """How they were chosen: the kinds of hiding in use."""
        return "+".join(self.aside.kinds)

    @cached_property
    def truth(self) -> Float[np.ndarray, " cell"]:
        """The hidden cells, row by row."""
        return self.aside.truth.value[self.aside.hidden]

    @cached_property
    def channel(self) -> Int[np.ndarray, " cell"]:
        """The channel of each hidden cell."""
        return np.nonzero(self.aside.hidden)[1]

    @cached_property
    def _gaps(self) -> Gaps:
        return Gaps.of(self.aside.known)

    @cached_property
    def bucket(self) -> Int[np.ndarray, " cell"]:
        """The bucket of the length of the gap that each hidden cell lies in."""
        return self._gaps.bucket[self.aside.hidden]

    @cached_property
    def spread(self) -> Float[np.ndarray, " dim"]:
        """Standard deviation of each channel."""
        return Scaler.fit(self.aside.truth).spread

    def __repr__(self) -> str:
        """The errors in a few lines, the best first."""
        ranked = sorted(self.methods.items(), key=lambda each: each[1].mse)
        lines = [f"  {name:<10} {score.mse:.4g}" for name, score in ranked]
        lines += [f"  {name:<10} failed: {why}" for name, why in self.failed.items()]
        head = f"Backtest of {self.hidden:,} hidden cells; squared errors in {UNITS}:"
        return "\n".join([head, *lines])

    # What came of it ----------------------------------------------------------------------------

    @cached_property
    def methods(self) -> dict[str, Score]:
        """The score of each method that ran, nrtsi first."""
        return {name: self._score(name) for name in self.guesses}

    @cached_property
    def filled(self) -> dict[str, Float[np.ndarray, " cell"]]:
        """The guesses as they would be filled in: inside the bounds."""
        if self.bounds is None:
            return self.guesses
        bounds = self.bounds.at(self.channel)
        return {name: bounds.kept(guess) for name, guess in self.guesses.items()}

    def _score(self, name: str) -> Score:
        error = self.truth - self.filled[name]
        scaled = error / self.spread[self.channel]
        return Score(
            mse=float(np.mean(scaled**2)),
            mae=float(np.mean(np.abs(scaled))),
            seconds=self.seconds[name],
            channels={
                self.names[each]: ChannelScore(*_mean_errors(error[self.channel == each]))
                for each in np.unique(self.channel)
            },
        )

    @property
    def best(self) -> str:
        """The method with the lowest error over all hidden cells."""
        return min(self.methods, key=lambda name: self.methods[name].mse)

    def rows(self) -> list[dict[str, Any]]:
        """Errors by channel, length of the gap and method; lengths in units of the clock."""
        table = []
        for channel, bucket in _occurring(self.channel, self.bucket):
            own = (self.channel == channel) & (self.bucket == bucket)
            low, high = gap_bin_range(bucket)
            for name, guess in self.filled.items():
                mse, mae = _mean_errors(self.truth[own] - guess[own])
                about = {"channel": self.names[channel], "gap_from": low, "gap_to": high}
                errors = {"n": int(own.sum()), "mse": mse, "mae": mae}
                table.append(about | {"method": name} | errors)
        return table

    def to_frame(self) -> Any:
        """Errors by channel, length of the gap and method, in the caller's units.

        A table of the caller's kind with the columns `channel`, `gap_from`, `gap_to`, `method`,
        `n`, `mse` and `mae`. Gaps are longer than `gap_from` and at most as long as `gap_to`,
        from the observation before to the observation after; at an end of a series, where there
        is only one, they count as twice as long.
        """
        rows = self.rows()
        columns: dict[str, Any] = {
            name: [row[name] for row in rows]
            for name in ("channel", "gap_from", "gap_to", "method", "n", "mse", "mae")
        }
        for name in ("gap_from", "gap_to"):
            columns[name] = self.clock.to_durations(np.array(columns[name], dtype=np.float64))
        return nw.from_dict(columns, backend=self.backend or "pyarrow").to_native()

    def coverage(self, level: float = 0.9, method: str = "nrtsi") -> list[dict[str, Any]]:
        """How many hidden cells lie inside their interval, by channel and length of the gap.

        The intervals of a gap are found from the other gaps: nothing is told of itself.
        """
        errors = self._errors(method)
        if errors is None:
            return []
        covered = coverage(errors, len(self.names), level)
        table = []
        for channel, bucket in _occurring(errors.channel, errors.bucket):
            own = (errors.channel == channel) & (errors.bucket == bucket)
            low, high = gap_bin_range(bucket)
            about = {"channel": self.names[channel], "gap_from": low, "gap_to": high}
            gaps = int(np.unique(errors.gap[own]).size)
            found = {"n": int(own.sum()), "gaps": gaps, "covered": float(covered[own].mean())}
            table.append(about | found)
        return table

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, for JSON."""
        return {
            "methods": {
                name: {"mse": score.mse, "mae": score.mae, "seconds": score.seconds}
                for name, score in self.methods.items()
            },
            "best": self.best,
            "failed": dict(self.failed),
            "hidden": self.hidden,
            "cells": self.cells,
            "mask": self.mask,
            "units": {
                "methods": UNITS,
                "channels": "those of each channel",
                "gaps": "those of each channel; lengths in steps of "
                f"{self.clock.format_duration(1.0)}",
            },
            "channels": self._by_channel(),
            "gaps": [
                row | {n: _finite(row[n]) for n in ("gap_from", "gap_to")} for row in self.rows()
            ],
        }

    def _by_channel(self) -> dict[str, dict[str, dict[str, float]]]:
        """Channel, then method, then errors in the caller's units."""
        table: dict[str, dict[str, dict[str, float]]] = {}
        for method, score in self.methods.items():
            for channel, errors in score.channels.items():
                row = table.setdefault(channel, {})
                row[method] = {"mse": errors.mse, "mae": errors.mae}
        return table

    # What follows from it -----------------------------------------------------------------------

    @cached_property
    def choice(self) -> MethodSelection:
        """The method to use for each channel and length of gap: that with the lowest error."""
        error = np.stack([self.truth - guess for guess in self.filled.values()])
        squared = (error / self.spread[self.channel]) ** 2
        where = self.channel, self.bucket, self._gap
        return MethodSelection.of(tuple(self.guesses), squared, *where, len(self.names))

    @cached_property
    def _gap(self) -> Int[np.ndarray, " cell"]:
        return self._gaps.number[self.aside.hidden]

    def chosen(self, method: str) -> Float[np.ndarray, " cell"]:
        """The values that a method, or "auto", gives the hidden cells."""
        if method != "auto":
            return self.guesses[method]
        index = self.choice.table[self.channel, self.bucket]
        return np.stack(list(self.guesses.values()))[index, np.arange(index.size)]

    def calibrate(self, method: str = "nrtsi") -> Calibration:
        """How the errors of a method, or of "auto", are distributed."""
        errors = self._errors(method)
        if errors is None:
            return Calibration.none(len(self.names))
        return Calibration.fit(errors, len(self.names))

    def _errors(self, method: str) -> CalibrationScores | None:
        if self.scale is None or (method != "auto" and method not in self.guesses):
            return None
        hidden, truth = self.aside.hidden, self.aside.truth.value
        # Errors are those before bounds bend them: at a bound the truth is anything beyond it.
        straight = truth if self.bounds is None else self.bounds.outside(truth)
        scale = np.maximum(self.scale, 1e-9 * self.spread)[hidden]
        return CalibrationScores.of(
            self.aside.known, hidden, (straight[hidden] - self.chosen(method)) / scale
        )


def _occurring(
    channel: Int[np.ndarray, " cell"], bucket: Int[np.ndarray, " cell"]
) -> list[tuple[int, int]]:
    """The pairs of channel and bucket that have cells, in order."""
    pairs = np.unique(channel * GAP_BINS + bucket)
    return [(int(pair) // GAP_BINS, int(pair) % GAP_BINS) for pair in pairs]


def _mean_errors(error: Float[np.ndarray, " cell"]) -> tuple[float, float]:
    return float(np.mean(error**2)), float(np.mean(np.abs(error)))


def _finite(number: float) -> float | None:
    """JSON knows no infinity."""
    return number if np.isfinite(number) else None
