"""The tables of the page, complete without any code."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from math import isfinite

from nrtsi.report.content import Coverage, Report, Tally
from nrtsi.report.summary import Pooled, covered, likely_error, methods_used, pool
from nrtsi.report.words import number, share

__all__ = [
    "channels_table",
    "coverage_table",
    "refusals_table",
    "scores_table",
    "settings_list",
]


def channels_table(report: Report) -> str:
    """One line for each channel: how much was missing and how wrong the filling may be."""
    heads = ["Channel", "Cells", "Missing", "Filled", "Refused", "Left missing"]
    heads += ["Average error", "Intervals held", "Method"]
    lines = [_channel_line(report, tally) for tally in report.tallies]
    return _table("What was missing and filled, by channel", heads, lines, words={8})


def _channel_line(report: Report, tally: Tally) -> list[str]:
    found = covered(report.coverage_of(tally.channel))
    return [
        escape(tally.channel),
        f"{tally.cells:,}",
        f"{tally.gaps:,} <small>({escape(share(tally.gaps, tally.cells))})</small>",
        f"{tally.imputed:,}",
        f"{tally.refused:,}",
        f"{tally.missing:,}",
        escape(number(likely_error(report, tally.channel).mae)),
        escape(share(found, 1)) if isfinite(found) else "–",
        escape(methods_used(report.choices_of(tally.channel))),
    ]


def scores_table(report: Report) -> str:
    """Channels by methods, the best in bold; both measures, of which the page shows one."""
    methods = list(dict.fromkeys(score.method for score in report.scores))
    if not methods:
        return "<p>There was no back-test.</p>"
    lines = []
    for index, channel in enumerate(report.channels):
        errors = pool(report.scores_of(channel))
        if errors:
            button = f'<button type="button" data-channel="{index}">{escape(channel)}</button>'
            lines.append([button, *(_error(errors, method) for method in methods)])
    return _table("Error by channel and method", ["Channel", *map(escape, methods)], lines)


def _error(errors: Mapping[str, Pooled], method: str) -> str:
    mine = errors.get(method)
    if mine is None or not isfinite(mine.mae):
        return '<span title="not scored at every gap length">–</span>'
    known = [each for each in errors.values() if isfinite(each.mae)]
    mae = _emphasis(mine.mae, min(each.mae for each in known))
    rmse = _emphasis(mine.rmse, min(each.rmse for each in known))
    return f'<span class="mae">{mae}</span><span class="rmse">{rmse}</span>'


def _emphasis(value: float, best: float) -> str:
    text = escape(number(value))
    return f"<strong>{text}</strong>" if value == best else text


def coverage_table(report: Report) -> str:
    """Channels by gap length: the share of hidden values that the interval held."""
    if not report.coverage:
        return "<p>The intervals were not checked.</p>"
    gaps = sorted({row.gap for row in report.coverage})
    found = {(row.channel, row.gap): row for row in report.coverage}
    lines = [
        [escape(name), *(_held(found.get((name, gap))) for gap in gaps)]
        for name in report.channels
        if any((name, gap) in found for gap in gaps)
    ]
    heads = ["Channel", *(escape(str(gap)) for gap in gaps)]
    return _table("Share of hidden values inside the interval, by gap length", heads, lines)


def _held(row: Coverage | None) -> str:
    if row is None or not isfinite(row.covered):
        return "–"
    off = " ▾ too narrow" if row.covered < row.nominal else " ▴ too wide"
    word, look = (off, "held off") if row.strikes else ("", "held")
    return (
        f'<span class="{look}">{escape(share(row.covered, 1))}{word}</span>'
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/>'
        f'<rect class="{look}" width="{100 * row.covered:.1f}" height="8"/>'
        f'<rect class="mark" x="{100 * row.nominal - 0.8:.1f}" width="1.6" height="8"/></svg>'
        f"<small>of {row.n:,}</small>"
    )


def refusals_table(report: Report) -> str:
    """What was refused, and why."""
    if not report.refusals:
        return "<p>Nothing was refused.</p>"
    lines = [
        [escape(row.channel), f"{row.count:,}", escape(row.reason)] for row in report.refusals
    ]
    heads = ["Channel", "Cells", "Why"]
    return _table("Cells that were not filled", heads, lines, words={2})


def settings_list(report: Report) -> str:
    """What to type to get the page again."""
    command = f"<pre><code>{escape(report.command)}</code></pre>" if report.command else ""
    lines = [
        [escape(str(key)), f"<code>{escape(_plain(value))}</code>"]
        for key, value in report.settings.items()
    ]
    table = _table("Settings", ["Setting", "Value"], lines, words={1}) if lines else ""
    return command + table


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _table(
    caption: str, heads: Sequence[str], lines: Iterable[Sequence[str]], words: Collection[int] = ()
) -> str:
    """A table in a box of its own, which scrolls where the page is narrow.

    Args:
        caption: What it shows.
        heads: HTML of the first row.
        lines: HTML of the others.
        words: Numbers of the columns, besides the first, that hold words.
    """
    top = "".join(f'<th scope="col"{_side(i, words)}>{head}</th>' for i, head in enumerate(heads))
    body = "".join(f"<tr>{_cells(line, words)}</tr>" for line in lines)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
        f"</table></div>"
    )


def _cells(line: Sequence[str], words: Collection[int]) -> str:
    first, *rest = line
    cells = (f"<td{_side(i, words)}>{cell}</td>" for i, cell in enumerate(rest, start=1))
    return f'<th scope="row">{first}</th>{"".join(cells)}'


def _side(column: int, words: Collection[int]) -> str:
    return "" if column == 0 else ' class="words"' if column in words else ' class="number"'
