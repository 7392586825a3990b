"""The sentences and tables of the page, as HTML that is complete without scripts."""

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from math import isfinite

from nrtsi.report.content import CellState, ChannelReport, Coverage, MeanError, MethodUse, Report

__all__ = ["format_number", "format_share", "methods_used", "sections", "summary"]

MAX_NAMED_CHANNELS = 5  # whose errors the summary names; more do not fit a sentence


def sections(report: Report) -> dict[str, str]:
    """The HTML of each section of the page."""
    first, *rest = map(_prose, summary(report))
    remarks = "".join(f"<li>{_prose(text)}</li>" for text in report.remarks)
    notes = f'<section class="notes"><h3>Remarks</h3><ul>{remarks}</ul></section>'
    return {
        "headline": first,
        "more": "".join(f"<p>{text}</p>" for text in rest),
        "remarks": notes if remarks else "",
        "channels": _channels_table(report),
        "shown": _shown_sentence(report),
        "scores": _scores_table(report),
        "coverage": _coverage_table(report),
        "refusals": _refusals_table(report),
        "settings": _settings(report),
    }


def format_number(value: float) -> str:
    """Three significant digits; a dash if the value is not finite.

    >>> format_number(0.01234), format_number(1234.5), format_number(3e-9), format_number(math.nan)
    ('0.0123', '1,234', '3e-09', '–')
    """
    if not isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):.10g}"


def format_share(part: float, whole: float = 1) -> str:
    """A percentage that is 0 or 100 only if that is exact.

    >>> format_share(1, 3), format_share(1, 10_000), format_share(0.99995), format_share(0, 0)
    ('33 %', 'under 0.1 %', 'over 99.9 %', '0 %')
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "under 0.1 %"
    if 99.9 < percent < 100:
        return "over 99.9 %"
    fine = 0 < percent < 9.95 or 99 < percent < 100
    return f"{percent:.1f} %" if fine else f"{percent:.0f} %"


def summary(report: Report) -> list[str]:
    """The sentences at the top: number of imputed cells, their error, the coverage."""
    sentences = [_count_sentence(report), _error_sentence(report)]
    share = _coverage_share(row for channel in report.channels for row in channel.coverage)
    if isfinite(share):
        sentences.append(
            f"The {format_share(report.level)} intervals contain {format_share(share)} of the "
            f"held-out values."
        )
    return sentences


def _count_sentence(report: Report) -> str:
    counts = [sum(state) for state in zip(*(c.counts for c in report.channels), strict=True)]
    cells, (observed, imputed, refused, left) = sum(counts), counts
    if observed == cells:
        return f"None of the {cells:,} cells of {report.source} is missing; nothing was imputed."
    parts = [f"{imputed:,} were imputed", f"{refused:,} refused" if refused else "none refused"]
    parts += [f"{left:,} left missing"] if left else []
    missing = f"{cells - observed:,} ({format_share(cells - observed, cells)})"
    return f"Of the {cells:,} cells of {report.source}, {missing} were missing: {_joined(parts)}."


def _error_sentence(report: Report) -> str:
    errors = {channel.name: channel.expected_error.mae for channel in report.channels}
    known = [f"{format_number(mae)} for {name}" for name, mae in errors.items() if isfinite(mae)]
    if not known:
        return "The error of the imputed values is unknown because there was no back-test."
    start = "On known values that were held out as a test, the mean absolute error"
    if len(known) > MAX_NAMED_CHANNELS:
        return f"{start} of each channel is in the table below, in the units of the data."
    return f"{start} is {_joined(known)}, in the units of the data."


def _shown_sentence(report: Report) -> str:
    if len(report.series) == report.series_count:
        return ""
    shown = f"{len(report.series):,} of {report.series_count:,} series"
    reason = "those with the most missing cells. The tables cover all series."
    return f"The charts show {shown}: {reason}"


def _joined(words: Sequence[str]) -> str:
    """Joins words as in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _prose(text: str) -> str:
    """A sentence whose percentages are not broken over lines."""
    return escape(text).replace(" %", "&nbsp;%")


def _coverage_share(rows: Iterable[Coverage]) -> float:
    """Share of held-out cells inside their interval, over all rows; NaN without any."""
    known = [row for row in rows if row.cells > 0 and isfinite(row.covered)]
    cells = sum(row.cells for row in known)
    return sum(row.cells * row.covered for row in known) / cells if cells else math.nan


def methods_used(uses: Iterable[MethodUse]) -> str:
    """The methods of one channel by gap length, each with its longest gap."""
    ordered = sorted(uses, key=lambda use: use.gap)
    changes = [use for use, later in pairwise(ordered) if use.method != later.method]
    texts = [f"{use.method} up to {use.gap.stop_label}" for use in changes]
    return ", then ".join([*texts, *(use.method for use in ordered[-1:])]) or "–"


def _channels_table(report: Report) -> str:
    """One row per channel: number of missing cells, expected error, coverage, method."""
    heads = ["Channel", "Cells", "Missing", "Imputed", "Refused", "Left missing"]
    heads += ["Mean absolute error", "Interval coverage", "Method"]
    rows = []
    for channel in report.channels:
        share, cells = _coverage_share(channel.coverage), sum(channel.counts)
        missing = cells - channel.counts[CellState.OBSERVED]
        row = [
            escape(channel.name),
            f"{cells:,}",
            f"{missing:,} <small>({format_share(missing, cells)})</small>",
            *(f"{count:,}" for count in channel.counts[CellState.IMPUTED :]),
            format_number(channel.expected_error.mae),
            format_share(share) if isfinite(share) else "–",
            escape(methods_used(channel.methods)),
        ]
        rows.append(row)
    return _table("Missing and imputed cells by channel", heads, rows, text=8)


def _scores_table(report: Report) -> str:
    """Channels by methods, the best in bold; the page shows one of the two measures."""
    methods = dict.fromkeys(score.method for each in report.channels for score in each.scores)
    rows = []
    for index, channel in enumerate(report.channels):
        button = f'<button type="button" data-channel="{index}">{escape(channel.name)}</button>'
        if channel.errors:
            rows.append([button, *(_error(channel, method) for method in methods)])
    heads = ["Channel", *map(escape, methods)]
    return _table("Error by channel and method", heads, rows, empty="There was no back-test.")


def _error(channel: ChannelReport, method: str) -> str:
    own = channel.errors.get(method, MeanError())
    if not isfinite(own.mae):
        return '<span title="not scored at every gap length">–</span>'
    known = [error for error in channel.errors.values() if isfinite(error.mae)]
    spans = []
    for measure, value, values in zip(own._fields, own, zip(*known, strict=True), strict=True):
        text = format_number(value)
        text = f"<strong>{text}</strong>" if value == min(values) else text
        spans.append(f'<span class="{measure}">{text}</span>')
    return "".join(spans)


def _coverage_table(report: Report) -> str:
    """Channels by gap length: the share of held-out values inside the interval."""
    gaps = sorted({row.gap for channel in report.channels for row in channel.coverage})
    rows = []
    for channel in report.channels:
        found = {row.gap: row for row in channel.coverage}
        if found:
            rows.append([escape(channel.name), *(_covered(found.get(gap)) for gap in gaps)])
    heads = ["Channel", *(escape(str(gap)) for gap in gaps)]
    caption = "Share of held-out values inside the interval, by gap length"
    return _table(caption, heads, rows, empty="The intervals were not tested.")


def _covered(row: Coverage | None) -> str:
    if row is None or not isfinite(row.covered):
        return "–"
    note, css = "", "covered"
    if row.is_off:
        note = " ▾ too narrow" if row.covered < row.nominal else " ▴ too wide"
        css = "covered off"
    return (
        f'<span class="{css}">{format_share(row.covered)}{note}</span>'
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/>'
        f'<rect class="{css}" width="{100 * row.covered:.1f}" height="8"/>'
        f'<rect class="mark" x="{100 * row.nominal - 0.8:.1f}" width="1.6" height="8"/></svg>'
        f"<small>of {row.cells:,}</small>"
    )


def _refusals_table(report: Report) -> str:
    rows = [
        [escape(channel.name), f"{cells:,}", escape(reason)]
        for channel in report.channels
        for cells, reason in channel.refusals
    ]
    caption, heads = "Missing cells that were not imputed", ["Channel", "Cells", "Reason"]
    return _table(caption, heads, rows, text=2, empty="No cells were refused.")


def _settings(report: Report) -> str:
    """The command that makes the page again, and the settings of the model."""
    command = f"<pre><code>{escape(report.command)}</code></pre>" if report.command else ""
    rows = []
    for key, value in report.settings.items():
        encoded = json.dumps(value, default=str, ensure_ascii=False)
        text = escape(value if isinstance(value, str) else encoded)
        rows.append([escape(key), f"<code>{text}</code>"])
    return command + _table("Settings", ["Setting", "Value"], rows, text=1)


def _table(
    caption: str, heads: list[str], rows: list[list[str]], *, text: int = 0, empty: str = ""
) -> str:
    """A table of HTML cells; the first column and the column `text` contain no numbers."""
    if not rows:
        return f"<p>{empty}</p>" if empty else ""
    css = ["", *(f' class="{"text" if i == text else "number"}"' for i in range(1, len(heads)))]
    top = "".join(f'<th scope="col"{c}>{head}</th>' for c, head in zip(css, heads, strict=True))
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td{c}>{cell}</td>" for c, cell in zip(css[1:], rest, strict=True))
        body += f'<tr><th scope="row">{first}</th>{cells}</tr>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
        f"</table></div>"
    )
