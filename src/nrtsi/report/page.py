"""Renders a report as one HTML file with its data, styles and scripts."""

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nrtsi.config import ReportConfig
from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError
from nrtsi.report import sections
from nrtsi.report.content import CellState, Report, ReportSeries

__all__ = ["SCRIPTS", "check_report", "encode_series", "encode_times", "render", "write_report"]

SCRIPTS = "decode theme ticks view interaction values panel tooltip map errors main"
"""Script files in the order of use; together they are one script."""

MIN_RANGE = 1e-300  # of a channel: half of it must still be a normal number
MIN_RELATIVE_RANGE = 1e-6  # share of the intervals that 32 bits still resolve

DEFAULT = ReportConfig()


def check_report(path: str | Path, *, overwrite: bool = False) -> None:
    """Raises `InputError` if a report cannot be written to `path`, or it exists already."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"a report must end in .html, got {path.name!r}; write a name such as "
            f"{path.stem or 'report'}.html"
        )
    check_writable(path, overwrite=overwrite)


def write_report(path: str | Path, report: Report, *, overwrite: bool = False) -> None:
    """Writes the page atomically; raises `InputError` as `check_report` and `render` do."""
    check_report(path, overwrite=overwrite)
    page = render(report)
    with atomic(Path(path)) as temporary:
        # A name can contain lone surrogates, which UTF-8 cannot encode.
        temporary.write_bytes(page.encode("utf-8", "replace"))


def render(report: Report, config: ReportConfig = DEFAULT) -> str:
    """The page as text; it needs no other file and no network.

    Raises `InputError` if the series shown have too many cells.
    """
    cells = sum(series.value.size for series in report.series)
    if cells > config.max_page_cells:
        raise InputError(
            f"a report must show at most {config.max_page_cells:,} cells, got {cells:,}; "
            f"show fewer series, columns or rows"
        )
    body = "\n".join(_asset(f"{name}.js") for name in SCRIPTS.split())
    script, style = f'(() => {{\n"use strict";\n{body}}})();', _asset("style.css")
    data = [_json(f"series-{i}", encode_series(each)) for i, each in enumerate(report.series)]
    parts = {
        # The browser runs and applies these two texts only, whatever a channel is called.
        "policy": f"default-src 'none'; img-src data:; script-src {_hash(script)}; "
        f"style-src {_hash(style)}",
        "style": style,
        "script": script,
        "source": escape(report.source),
        "made": escape(f"{report.made_at:%Y-%m-%d %H:%M %Z}".strip()),
        "version": escape(report.version),
        "level": sections.format_share(report.level),
        "data": "\n".join([_json("facts", _facts(report)), *data]),
        **sections.sections(report),
    }
    # In one pass: a name such as {{script}} is not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("nrtsi.report") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(name: str, tree: object) -> str:
    # Only "<" could end the element early.
    text = json.dumps(tree, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _facts(report: Report) -> dict[str, Any]:
    """The data of the scripts besides the arrays."""
    channels = list(enumerate(report.channels))
    return {
        "datetime": report.datetimes,
        "zone": report.zone,
        "channels": [channel.name for channel in report.channels],
        "series": [series.id for series in report.series],
        "level": report.level,
        "scores": [
            {
                "channel": i,
                "gap": str(gap),
                "start": gap.start,
                "stop": _finite(gap.stop),
                "labels": [gap.start_label, gap.stop_label],
                "method": method,
                "n": cells,
                "mae": _finite(mae),
                "rmse": _finite(mse**0.5) if mse >= 0 else None,
            }
            for i, each in channels
            for gap, method, cells, mse, mae in each.scores
        ],
        "methods": [
            {"channel": i, "gap": str(use.gap), "method": use.method}
            for i, each in channels
            for use in each.methods
        ],
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def encode_series(series: ReportSeries) -> dict[str, Any]:
    """The series as a tree that JSON can hold, with arrays as base64 (read by `decode.js`)."""
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
    value: np.ndarray, state: np.ndarray, lower: np.ndarray, upper: np.ndarray
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
    return base64.b64encode(array.tobytes()).decode("ascii")
