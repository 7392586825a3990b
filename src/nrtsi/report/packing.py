"""Arrays as text that a page can carry and a browser turns back into arrays quickly."""

import base64
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8

from nrtsi.report.content import SeriesShown, State

__all__ = ["pack_series", "pack_times"]

SMALLEST_PART = 1e-6
"""Values that differ by less than this part of their intervals are drawn alike."""

NARROWEST = 1e-300
"""Values that differ by less are drawn alike, too: half of it must still be a normal number."""


def pack_series(series: SeriesShown) -> dict[str, Any]:
    """The series as a tree that JSON can hold."""
    columns = zip(series.value.T, series.state.T, series.lower.T, series.upper.T, strict=True)
    return {
        "id": series.id,
        "rows": series.time.size,
        "time": pack_times(series.time),
        "channels": [_pack_channel(*column) for column in columns],
    }


def pack_times(time: Float[np.ndarray, " row"]) -> dict[str, Any]:
    """Start and step where the times are even, else all of them."""
    if time.size < 2:
        return {"start": float(time[0]) if time.size else 0.0, "step": 0.0}
    step = float(time[-1] - time[0]) / (time.size - 1)
    even = time[0] + step * np.arange(time.size)
    if np.abs(time - even).max() <= 1e-6 * step:
        return {"start": float(time[0]), "step": step}
    return {"all": _text(time.astype("<f8"))}


def _pack_channel(
    value: Float[np.ndarray, " row"],
    state: UInt8[np.ndarray, " row"],
    lower: Float[np.ndarray, " row"],
    upper: Float[np.ndarray, " row"],
) -> dict[str, Any]:
    """One channel; its numbers are in units of its own range, where 32 bits are enough."""
    # What is refused has no value to show, whatever the array holds there.
    shown = np.isfinite(value) & (state <= State.IMPUTED)
    gap = state != State.OBSERVED
    offset, scale = _range(value, shown, np.concatenate([lower[gap], upper[gap]]))
    return {
        "offset": offset,
        "scale": scale,
        "value": _small(np.where(shown, value, np.nan), offset, scale),
        "state": _text(state.astype("u1")),
        "lower": _small(lower[gap], offset, scale),
        "upper": _small(upper[gap], offset, scale),
    }


def _range(
    value: Float[np.ndarray, " row"], shown: Bool[np.ndarray, " row"], ends: np.ndarray
) -> tuple[float, float]:
    """Middle and half width of the values; never a width of 0, nor of nothing beside `ends`."""
    known = value[shown].astype(float)
    ends = ends[np.isfinite(ends)].astype(float)
    if not known.size:
        known = ends
    if not known.size:
        return 0.0, 1.0
    # Halves before sums and differences, here and below: the largest numbers overflow otherwise.
    low, high = known.min() / 2, known.max() / 2
    offset = float(low + high)
    interval = 2 * SMALLEST_PART * np.abs(ends / 2 - offset / 2).max(initial=0.0)
    scale = max(high - low, interval) or abs(offset) or 1.0
    return offset, max(float(scale), NARROWEST)


def _small(numbers: np.ndarray, offset: float, scale: float) -> str:
    finite = np.where(np.isfinite(numbers), numbers, np.nan).astype(float)
    return _text(((finite / 2 - offset / 2) / (scale / 2)).astype("<f4"))


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
