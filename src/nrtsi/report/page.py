"""Renders a report as one HTML file with its data, styles and scripts."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from nrtsi.config import ReportConfig
from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError
from nrtsi.report import sections
from nrtsi.report.content import Report, ReportScore
from nrtsi.report.encoding import encode_series

__all__ = ["SCRIPTS", "check_report", "render", "write_report"]

SCRIPTS = (
    "decode",
    "theme",
    "ticks",
    "view",
    "interaction",
    "values",
    "panel",
    "tooltip",
    "map",
    "errors",
    "main",
)
"""Script files in the order of use; together they are one script."""

DEFAULT = ReportConfig()


def check_report(path: str | Path, *, overwrite: bool = False) -> None:
    """Checks that a report can be written to `path`.

    Raises:
        InputError: The suffix is not .html, `path` exists and `overwrite` is False, or it cannot
            be written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"a report must end in .html, got {path.name!r}; write a name such as "
            f"{path.stem or 'report'}.html"
        )
    check_writable(path, overwrite=overwrite)


def write_report(path: str | Path, report: Report, *, overwrite: bool = False) -> None:
    """Writes the page atomically.

    Raises:
        InputError: As for `check_report` and `render`.
    """
    check_report(path, overwrite=overwrite)
    page = render(report)
    with atomic(Path(path)) as temporary:
        # A name can contain lone surrogates, which UTF-8 cannot encode.
        temporary.write_bytes(page.encode("utf-8", "replace"))


def render(report: Report, config: ReportConfig = DEFAULT) -> str:
    """The page as text; it needs no other file and no network.

    Raises:
        InputError: The series shown have too many cells for a page.
    """
    cells = sum(series.value.size for series in report.series)
    if cells > config.max_page_cells:
        raise InputError(
            f"a report must show at most {config.max_page_cells:,} cells, got {cells:,}; "
            f"show fewer series, columns or rows"
        )
    body = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script, style = f'(() => {{\n"use strict";\n{body}}})();', _asset("style.css")
    # The browser runs and applies these two texts only, whatever a channel is called.
    policy = (
        f"default-src 'none'; img-src data:; script-src {_hash(script)}; style-src {_hash(style)}"
    )
    parts = {"policy": policy, "style": style, "script": script, **_parts(report)}
    # In one pass: a name such as {{script}} is not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("nrtsi.report") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _parts(report: Report) -> dict[str, str]:
    first, *rest = sections.summary(report)
    data = [_json(f"series-{i}", encode_series(each)) for i, each in enumerate(report.series)]
    return {
        "source": escape(report.source),
        "made": escape(f"{report.made_at:%Y-%m-%d %H:%M %Z}".strip()),
        "version": escape(report.version),
        "headline": _prose(first),
        "more": "".join(f"<p>{_prose(text)}</p>" for text in rest),
        "remarks": _remarks(report.remarks),
        "channels": sections.channels_table(report),
        "shown": escape(_shown(report)),
        "level": sections.format_share(report.level),
        "scores": sections.scores_table(report),
        "coverage": sections.coverage_table(report),
        "refusals": sections.refusals_table(report),
        "settings": sections.settings_list(report),
        "data": "\n".join([_json("facts", _facts(report)), *data]),
    }


def _remarks(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{_prose(text)}</li>" for text in texts)
    return f'<section class="notes"><h3>Remarks</h3><ul>{items}</ul></section>'


def _prose(text: str) -> str:
    """A sentence whose percentages are not broken over lines."""
    return escape(text).replace(" %", "&nbsp;%")


def _shown(report: Report) -> str:
    if len(report.series) >= report.series_count:
        return ""
    return (
        f"The charts show {len(report.series):,} of {report.series_count:,} series: those with "
        f"the most missing cells. The tables cover all series."
    )


def _facts(report: Report) -> dict[str, Any]:
    """The data of the scripts besides the arrays."""
    channels = list(enumerate(report.channels))
    return {
        "datetime": report.datetimes,
        "zone": report.zone,
        "channels": [channel.name for channel in report.channels],
        "series": [series.id for series in report.series],
        "level": report.level,
        "scores": [{"channel": i, **_score(row)} for i, each in channels for row in each.scores],
        "methods": [
            {"channel": i, "gap": str(use.gap), "method": use.method}
            for i, each in channels
            for use in each.methods
        ],
    }


def _score(score: ReportScore) -> dict[str, Any]:
    gap = score.gap
    return {
        "gap": str(gap),
        "start": gap.start,
        "stop": _finite(gap.stop),
        "labels": [gap.start_label, gap.stop_label],
        "method": score.method,
        "n": score.cells,
        "mae": _finite(score.mae),
        "rmse": _finite(score.mse**0.5) if score.mse >= 0 else None,
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _json(name: str, tree: object) -> str:
    # Only "<" could end the element early.
    text = json.dumps(tree, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
