"""A table of results as Markdown, with the paper's figures beside ours."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from nrtsi.bench.results import ERROR, Row
from nrtsi.bench.tables import EXPERT, Figures, Setting, Table

__all__ = ["conclusion", "grid", "markdown", "number", "summary"]

LABELS = {
    "l2": "L2 (squared error summed over channels)",
    "mse": "MSE",
    "mae": "MAE",
    "crps": "CRPS",
    "min_l2": "minMSE (best draw of each series, summed over channels)",
    "avg_over_min": "avgMSE / minMSE",
    "sinuosity": "sinuosity",
    "step_change": "step change",
    "step_deviation": "step deviation",
    "average_length": "average length",
    "reflection": "reflection to wall",
}

ERRORS = ("l2", "mse", "mae", "crps", "min_l2")
"""Measures of which less is better; of the others the expert's is best."""

DIGITS = {"sinuosity": 4}
"""Digits that count, where they are not three."""

CLOSE = 1.01
"""Errors that differ by less are called level."""

WIDE = 4
"""Settings beyond which the paper's figures stand below ours and not beside them."""

NONE = "–"


def markdown(table: Table, rows: Sequence[Row]) -> str:
    """The whole table: a grid for each measure, what it cost, and what failed."""
    mine = [row for row in rows if row.table == table.name]
    parts = [f"## {table.title}", table.about]
    if not mine:
        return "\n\n".join([*parts, "No results yet."]) + "\n"
    parts += [_metric(table, mine, metric) for metric in table.metrics]
    parts += [conclusion(table, mine), _remarks(table, mine), _costs(table, mine)]
    return "\n\n".join(part for part in parts if part) + "\n"


def conclusion(table: Table, rows: Sequence[Row]) -> str:
    """Where nrtsi stands among what had the same time to train, setting by setting."""
    rows = [row for row in rows if row.table == table.name]
    told = [
        f"- {setting.name}{f', {budget} each' if budget else ''}: {place}"
        for budget in dict.fromkeys(table.budget_of(method) for method in table.methods)
        for setting in table.settings
        if (place := _place(table, rows, setting, budget))
    ]
    if not told:
        return ""
    head = f"By {LABELS[table.metrics[0]].partition(' (')[0]}, among what was measured here"
    return "\n".join([f"{head}:", "", *told])


def _remarks(table: Table, rows: Sequence[Row]) -> str:
    """What a reader must know before comparing: what failed, what differs, what is not there."""
    lines = ["- **A quick run: its figures mean nothing.**"] if "quick" in _efforts(rows) else []
    lines += [
        f"- {row.method} failed in {row.setting}: {row.value}"
        for row in rows
        if row.metric == ERROR
    ]
    for method in _partly(table, rows):
        series = max(int(r.number) for r in rows if (r.method, r.metric) == (method, "series"))
        lines.append(f"- {method} was scored on {series:,} test series only, and is not ranked.")
    if len(_efforts(rows)) > 1:
        lines.append("- Methods were trained for different times: see the cost.")
    measured = {row.method for row in rows}
    absent = [method for method in table.methods if method not in measured]
    if absent:
        lines.append(f"- Not measured: {', '.join(absent)}.")
    there = {row.setting for row in rows}
    lines += [f"- No results in: {s.name}." for s in table.settings if s.name not in there]
    lines.append("- ± is the standard error over the test series, or the spread over seeds.")
    return "\n".join(["Remarks:", "", *lines])


def summary(tables: Sequence[tuple[Table, Sequence[Row]]]) -> str:
    """A line for up to three settings of every table: ours, linear, the best other, the paper."""
    lines, efforts = [], set[str]()
    for table, rows in tables:
        mine = [row for row in rows if row.table == table.name]
        found = [
            line
            for index in sorted({0, len(table.settings) // 2, len(table.settings) - 1})
            if table.summarised and (line := _summary_line(table, mine, index))
        ]
        lines += found
        usual = [row for row in mine if row.method in table.usual]
        efforts |= _efforts(usual) if found else set()
    header = ["squared error", "nrtsi", "linear", "best other", "nrtsi, longer"]
    header += ["best other, as long", "paper's NRTSI"]
    return f"{grid(header, lines)}\n\nEffort: {', '.join(sorted(efforts))} for each method.\n"


def _summary_line(table: Table, rows: Sequence[Row], index: int) -> list[str] | None:
    """One setting; None where nrtsi or everything else was not measured."""
    metric, setting = table.metrics[0], table.settings[index]
    scores, scale = _ranked(table, rows, setting, metric), table.scale.get(metric, 1.0)
    others = {name: s for name, s in scores.items() if not name.startswith("nrtsi")}
    if "nrtsi" not in scores or not others:
        return None
    best = min(others, key=lambda name: others[name])
    ours = number(scores["nrtsi"] / scale)
    printed = next((row for row in table.paper if row.method == "nrtsi"), None)
    return [
        f"{table.title}, {setting.name}{_unit(scale)}",
        f"**{ours}**" if scores["nrtsi"] <= others[best] else ours,
        number(scores["linear"] / scale) if "linear" in scores else NONE,
        f"{best} {number(others[best] / scale)}",
        *_longest(table, rows, setting),
        _theirs(printed, metric, index),
    ]


def _longest(table: Table, rows: Sequence[Row], setting: Setting) -> tuple[str, str]:
    """The longest training of nrtsi beside the usual one, and the best other of that length."""
    metric = table.metrics[0]
    scale = table.scale.get(metric, 1.0)
    found = [
        (float(row.train_s), row.method)
        for row in rows
        if (row.setting, row.metric) == (setting.name, metric)
        and table.kind_of(row.method) == "nrtsi"
        and table.budget_of(row.method)
    ]
    if not found:
        return NONE, NONE
    own, budget = max(found)[1], table.budget_of(max(found)[1])
    scores = _ranked(table, rows, setting, metric, budget)
    others = {
        table.kind_of(name): score
        for name, score in scores.items()
        if table.budget_of(name) == budget and table.kind_of(name) != "nrtsi"
    }
    ours = f"{number(scores[own] / scale)} ({budget})"
    if not others:
        return ours, NONE
    best = min(others, key=lambda name: others[name])
    first = scores[own] <= others[best]
    return f"**{ours}**" if first else ours, f"{best} {number(others[best] / scale)}"


def _place(table: Table, rows: Sequence[Row], setting: Setting, budget: str | None) -> str | None:
    """The place of the best nrtsi in one setting; None where there is nothing to compare."""
    scores = _ranked(table, rows, setting, table.metrics[0], budget)
    order = sorted(scores, key=lambda name: scores[name])
    ours = [name for name in order if name.startswith("nrtsi")]
    others = [name for name in order if name not in ours]
    if not ours or not others:
        return None
    place = order.index(ours[0])
    if scores[others[0]] < CLOSE * scores[ours[0]] and scores[ours[0]] < CLOSE * scores[others[0]]:
        return f"{ours[0]} and {others[0]} are level, first of {len(order)}."
    if place == 0:
        times = scores[others[0]] / scores[ours[0]]
        rival = f"{others[0]} has {times:.2f} times its error"
        return f"**{ours[0]}** is first of {len(order)}; {rival}."
    times = scores[ours[0]] / scores[order[0]]
    return (
        f"{ours[0]} is number {place + 1} of {len(order)}, behind {', '.join(order[:place])}, "
        f"with {times:.2f} times the error of {order[0]}."
    )


def _ranked(
    table: Table, rows: Sequence[Row], setting: Setting, metric: str, budget: str | None = None
) -> dict[str, float]:
    """The mean figure of every method that was scored on all test series; the truth is none.

    Methods with a time of their own are ranked among those with the same and those that need none.
    """
    left_out = {EXPERT, *_partly(table, rows)}
    untrained = {row.method for row in rows if not row.effort}
    rivals = [
        method
        for method in table.methods
        if table.budget_of(method) == budget or method in untrained
    ]
    return {
        method: fmean(figures)
        for method in rivals
        if method not in left_out and (figures := _figures(rows, setting, method, metric))
    }


def _efforts(rows: Sequence[Row]) -> set[str]:
    """What was spent on the methods that are trained."""
    return {row.effort for row in rows} - {""}


def _partly(table: Table, rows: Sequence[Row]) -> list[str]:
    """Methods that were scored on a part of the test series only."""
    counts: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.metric == "series":
            counts[row.method, row.setting] = row.number
    most = {
        setting: max(n for (_, other), n in counts.items() if other == setting)
        for _, setting in counts
    }
    few = {method for (method, setting), n in counts.items() if n < most[setting]}
    return [method for method in table.methods if method in few]


def _metric(table: Table, rows: Sequence[Row], metric: str) -> str:
    """A grid of one measure: methods down, settings across, the paper's figure beside ours.

    Of many settings the paper's figures stand in a line of their own, or nobody could read it.
    """
    scale, names = table.scale.get(metric, 1.0), [setting.name for setting in table.settings]
    printed = {row.method: row for row in table.paper if metric in row.values}
    wide = len(names) > WIDE
    best = [_best(table, rows, setting, metric) for setting in table.settings]
    lines: list[list[str]] = []
    for method in dict.fromkeys([*table.methods, *printed]):
        row, theirs = printed.get(method), []
        name = method if row is None or row.source == "NRTSI" else f"{method} ({row.source})"
        ours = [_ours(rows, setting, method, metric, scale) for setting in table.settings]
        ours = [
            f"**{cell}**" if method == first else cell
            for cell, first in zip(ours, best, strict=True)
        ]
        if printed:
            theirs = [_theirs(row, metric, index) for index in range(len(names))]
        if wide:
            lines += [[method, *ours], [f"{name}, paper", *theirs]]
        else:
            lines.append([name, *(_alternate(ours, theirs) if theirs else ours)])
    header = _alternate(names, ["paper"] * len(names)) if printed and not wide else names
    filled = [line for line in lines if any(cell != NONE for cell in line[1:])]
    return f"### {LABELS[metric]}{_unit(scale)}\n\n{grid(['method', *header], filled)}"


def _alternate(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return [each for pair in zip(first, second, strict=True) for each in pair]


def _best(table: Table, rows: Sequence[Row], setting: Setting, metric: str) -> str | None:
    """The method with the lowest error; None for measures that are not errors."""
    scores = _ranked(table, rows, setting, metric) if metric in ERRORS else {}
    return min(scores, key=lambda name: scores[name]) if len(scores) > 1 else None


def _figures(rows: Sequence[Row], setting: Setting, method: str, metric: str) -> list[float]:
    """The figure of every seed."""
    wanted = (setting.name, method, metric)
    found = [row.number for row in rows if (row.setting, row.method, row.metric) == wanted]
    return [figure for figure in found if not math.isnan(figure)]


def _ours(rows: Sequence[Row], setting: Setting, method: str, metric: str, scale: float) -> str:
    """The mean over seeds, with its spread; or with the standard error over the test series."""
    figures = _figures(rows, setting, method, metric)
    if not figures:
        failed = any(
            (r.setting, r.method, r.metric) == (setting.name, method, ERROR) for r in rows
        )
        return "failed" if failed else NONE
    middle = number(fmean(figures) / scale, DIGITS.get(metric, 3))
    if len(figures) > 1:
        return f"{middle} ± {number(stdev(figures) / scale, 2)}"
    error = _figures(rows, setting, method, f"{metric}_se")
    if error and error[0] > 0:
        return f"{middle} ± {number(error[0] / scale, 2)}"
    return middle


def _theirs(row: Figures | None, metric: str, index: int) -> str:
    if row is None or metric not in row.values:
        return NONE
    figure = row.values[metric][index]
    return NONE if math.isnan(figure) else f"{figure:g}"


def _costs(table: Table, rows: Sequence[Row]) -> str:
    """What each method took, over the settings."""
    lines = []
    for method in table.methods:
        mine = [row for row in rows if row.method == method and row.metric != ERROR]
        if not mine or method == EXPERT:
            continue
        lines.append(
            [
                method,
                _span([row.train_s for row in mine], 0),
                _span([row.impute_s for row in mine], 1),
                _span([row.value for row in mine if row.metric == "series"], 0),
                _span([row.peak_mib for row in mine], 0),
                _span([row.parameters for row in mine], 0),
                ", ".join(dict.fromkeys(row.effort for row in mine)) or NONE,
            ]
        )
    header = ["method", "train s", "impute s", "series", "peak MiB", "parameters", "effort"]
    return f"### Cost\n\n{grid(header, lines)}" if lines else ""


def _span(values: Sequence[str], digits: int) -> str:
    """The least and the most of some numbers."""
    numbers = [float(value) for value in values if value]
    if not numbers:
        return NONE
    ends = dict.fromkeys(f"{end:,.{digits}f}" for end in (min(numbers), max(numbers)))
    return "–".join(ends)


def grid(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up in plain text too."""
    table = [header, *lines]
    width = [max(len(line[column]) for line in table) for column in range(len(header))]

    def text(line: Sequence[str]) -> str:
        first, *rest = zip(line, width, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(size) for cell, size in rest)]
        return f"| {' | '.join(cells)} |"

    rule = ["-" * width[0], *("-" * (size - 1) + ":" for size in width[1:])]
    return "\n".join([text(header), text(rule), *(text(line) for line in lines)])


def number(value: float, digits: int = 3) -> str:
    """A number with so many digits that count, and no exponent where a reader wants none.

    >>> number(0.020346), number(12345.6), number(0.0000123), number(21.04)
    ('0.0203', '12346', '1.23e-05', '21.0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    power = math.floor(math.log10(abs(value)))
    if power < -4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - power)}f}"


def _unit(scale: float) -> str:
    """The power of ten that printed figures are to be multiplied by.

    >>> _unit(1e-3), _unit(1.0)
    (', ×10⁻³', '')
    """
    power = round(math.log10(scale))
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f", ×10{raised}" if power else ""
