"""Encodes arrays as JSON and base64 text that a browser decodes quickly (`decode.js`)."""

import base64
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from nrtsi.report.content import CellState, ReportSeries

__all__ = ["encode_series", "encode_times"]

MIN_RELATIVE_RANGE = 1e-6
"""The range of a channel is at least this share of its intervals, which 32 bits still resolve."""

MIN_RANGE = 1e-300
"""Smallest range of a channel: half of it must still be a normal number."""


def encode_series(series: ReportSeries) -> dict[str, Any]:
    """The series as a tree that JSON can hold."""
    columns = zip(series.value.T, series.state.T, series.lower.T, series.upper.T, strict=True)
    return {
        "id": series.id,
        "rows": series.time.size,
        "time": encode_times(series.time),
        "channels": [_encode_channel(*column) for column in columns],
    }


def encode_times(time: Float[np.ndarray, " row"]) -> dict[str, Any]:
    """Start and step if the times are regular, else all times."""
    if time.size < 2:
        return {"start": float(time[0]) if time.size else 0.0, "step": 0.0}
    step = float(time[-1] - time[0]) / (time.size - 1)
    regular = time[0] + step * np.arange(time.size)
    if np.abs(time - regular).max() <= 1e-6 * step:
        return {"start": float(time[0]), "step": step}
    return {"all": _base64(time.astype("<f8"))}


def _encode_channel(
    value: Float[np.ndarray, " row"],
    state: UInt8[np.ndarray, " row"],
    lower: Float[np.ndarray, " row"],
    upper: Float[np.ndarray, " row"],
) -> dict[str, Any]:
    """One channel, scaled to its own range, for which 32 bits are enough."""
    shown = np.isfinite(value) & (state <= CellState.IMPUTED)
    missing = state != CellState.OBSERVED
    offset, scale = _range(value[shown], np.concatenate([lower[missing], upper[missing]]))

    def scaled(numbers: np.ndarray) -> str:
        finite = np.where(np.isfinite(numbers), numbers, np.nan).astype(float)
        return _base64(((finite / 2 - offset / 2) / (scale / 2)).astype("<f4"))

    return {
        "offset": offset,
        "scale": scale,
        "value": scaled(np.where(shown, value, np.nan)),
        "state": _base64(state.astype("u1")),
        "lower": scaled(lower[missing]),
        "upper": scaled(upper[missing]),
    }


def _range(value: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Middle and half width of the values; the width is positive."""
    ends = ends[np.isfinite(ends)].astype(float)
    value = value.astype(float) if value.size else ends
    if not value.size:
        return 0.0, 1.0
    # Halve before adding or subtracting, here and in `scaled`: the largest numbers overflow.
    low, high = value.min() / 2, value.max() / 2
    offset = float(low + high)
    interval = 2 * MIN_RELATIVE_RANGE * np.abs(ends / 2 - offset / 2).max(initial=0.0)
    scale = max(high - low, interval) or abs(offset) or 1.0
    return offset, max(float(scale), MIN_RANGE)


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
