"""The page itself: words, tables, arrays and the code that draws them, in one file."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from math import isfinite, nan
from pathlib import Path
from typing import Any

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError
from nrtsi.report.content import Report, ReportScore
from nrtsi.report.packing import pack_series
from nrtsi.report.summary import sentences
from nrtsi.report.tables import (
    channels_table,
    coverage_table,
    refusals_table,
    scores_table,
    settings_list,
)
from nrtsi.report.words import share

__all__ = ["check_report", "render", "write_report"]

SCRIPTS = (
    "decode",
    "theme",
    "ticks",
    "view",
    "hands",
    "columns",
    "strokes",
    "panel",
    "tip",
    "map",
    "chart",
    "errors",
    "main",
)
"""In the order of use; together they are one script."""

MOST_CELLS = 20_000_000
"""A browser opens no more than this with pleasure, or at all."""


def check_report(path: str | Path, *, overwrite: bool = False) -> None:
    """Finds out before any work whether a report could be written to `path`.

    Raises:
        InputError: The name is none of a page, `path` exists and `overwrite` is False, or it
            cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            f"a report must end in .html, got {path.name!r}; write a name such as "
            f"{path.stem or 'report'}.html"
        )
    check_writable(path, overwrite=overwrite)


def write_report(path: str | Path, report: Report, *, overwrite: bool = False) -> None:
    """Writes the page, whole or not at all.

    Raises:
        InputError: As for `check_report`; or the series shown have too many cells for a page.
    """
    check_report(path, overwrite=overwrite)
    page = render(report)
    with atomic(Path(path)) as temporary:
        # A name can hold halves of characters, which no file can.
        temporary.write_bytes(page.encode("utf-8", "replace"))


def render(report: Report) -> str:
    """The page as text; it needs no other file and no network.

    Raises:
        InputError: The series shown have too many cells for a page.
    """
    cells = sum(one.value.size for one in report.series)
    if cells > MOST_CELLS:
        raise InputError(
            f"a report must show at most {MOST_CELLS:,} cells, got {cells:,}; show fewer series, "
            f"columns or rows"
        )
    script, style = _script(), _asset("style.css")
    # Nothing but these two texts may run or style, whatever a channel is called.
    policy = "; ".join([
        "default-src 'none'",
        "img-src data:",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
    ])  # fmt: skip
    parts = {"policy": policy, "style": style, "script": script, **_parts(report)}
    return _fill(_asset("page.html"), parts)


def _script() -> str:
    body = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();'


def _asset(name: str) -> str:
    return (files("nrtsi.report") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _fill(template: str, parts: Mapping[str, str]) -> str:
    # In one pass: what a user called {{script}} stays as it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _parts(report: Report) -> dict[str, str]:
    first, *rest = sentences(report)
    data = [_json(f"series-{i}", pack_series(one)) for i, one in enumerate(report.series)]
    return {
        "title": escape(report.title),
        "source": escape(report.source),
        "made": escape(f"{report.made_at:%Y-%m-%d %H:%M %Z}".strip()),
        "version": escape(report.version),
        "headline": _prose(first),
        "more": "".join(f"<p>{_prose(text)}</p>" for text in rest),
        "remarks": _sentences(report.remarks, "What was guessed or is worth knowing"),
        "channels": channels_table(report),
        "shown": escape(_shown(report)),
        "level": escape(share(report.level, 1)),
        "scores": scores_table(report),
        "coverage": coverage_table(report),
        "refusals": refusals_table(report),
        "settings": settings_list(report),
        "caveats": _sentences(report.caveats, "Caveats"),
        "data": "\n".join([_json("facts", _facts(report)), *data]),
    }


def _sentences(texts: tuple[str, ...], title: str) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{_prose(text)}</li>" for text in texts)
    return f'<section class="notes"><h3>{title}</h3><ul>{items}</ul></section>'


def _prose(text: str) -> str:
    """A sentence whose percentages stay on one line."""
    return escape(text).replace(" %", "&nbsp;%")


def _shown(report: Report) -> str:
    if len(report.series) >= report.all_series:
        return ""
    return (
        f"{len(report.series):,} of {report.all_series:,} series are shown: those with the most "
        f"missing cells. All figures in the tables are of all series."
    )


def _facts(report: Report) -> dict[str, Any]:
    """What the code needs besides the arrays."""
    place = {name: number for number, name in enumerate(report.channels)}
    return {
        "datetime": report.time_kind == "datetime",
        "zone": report.zone,
        "channels": report.channels,
        "series": [one.id for one in report.series],
        "level": report.level,
        "scores": [{"channel": place[score.channel], **_score(score)} for score in report.scores],
        "choices": [
            {"channel": place[one.channel], "gap": str(one.gap), "method": one.method}
            for one in report.choices
        ],
    }


def _score(score: ReportScore) -> dict[str, Any]:
    return {
        "gap": str(score.gap),
        "start": score.gap.start,
        "stop": _plain(score.gap.stop),
        "labels": [score.gap.start_label, score.gap.stop_label],
        "method": score.method,
        "n": score.n,
        "mae": _plain(score.mae),
        "rmse": _plain(score.mse**0.5 if score.mse >= 0 else nan),
    }


def _plain(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _json(name: str, tree: object) -> str:
    # "<" is all that could end the element early.
    text = json.dumps(tree, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
