"""A record of `benchmarks/speed.py` as Markdown."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from speeds.goals import GOALS

INTRODUCTION = Path(__file__).with_name("introduction.md")

Record = dict[str, Any]


def page(path: Path) -> str:
    """All of `docs/speed.md`."""
    record = json.loads(path.read_text("utf-8"))
    return INTRODUCTION.read_text("utf-8") + "\n" + tables(record)


def tables(record: Record) -> str:
    """The ratios with their goals, then what they are made of, as far as it was measured."""
    parts: dict[str, Callable[[Any], str]] = {
        "billiards": _billiards,
        "stages": _stages,
        "planning": _planning,
        "training": _training,
        "growth": _growth,
        "startup": _startup,
    }
    told = [_remark(record), _ratios(record)]
    told += [write(record[name]) for name, write in parts.items() if name in record]
    return "\n\n".join(part for part in told if part) + f"\n\n{_made_with(record)}\n"


def _remark(record: Record) -> str:
    if not record["quick"]:
        return ""
    return (
        "**A quick run: its figures mean little. "
        "What stands for 10⁶ and 10⁵ points are 10⁵ and 10⁴.**"
    )


def _ratios(record: Record) -> str:
    rows = [
        [goal.what, goal.shown(record[key]), goal.asked, goal.met(record[key])]
        for key, goal in GOALS.items()
    ]
    return grid(["what", "measured", "must be", "reached"], rows)


def _billiards(table: dict[str, dict[str, float | None]]) -> str:
    rows = [
        [
            name,
            f"{row['series']:,}",
            number(row["seconds"]),
            number(row["series_per_second"]),
            number(row["peak_mib"]),
        ]
        for name, row in table.items()
    ]
    head = ["method", "series", "seconds", "series a second", "peak MiB"]
    return f"## Billiards\n\n{grid(head, rows)}"


def _stages(shares: dict[str, float]) -> str:
    rows = [[name, f"{share:.0%}"] for name, share in shares.items()]
    return f"Where the time of nrtsi goes:\n\n{grid(['stage', 'share'], rows)}"


def _planning(figures: Record) -> str:
    return (
        f"## Planning\n\nThe plan of {figures['steps']} steps takes {number(figures['plan'])} s "
        f"of the {number(figures['fill'])} s in which the series are filled."
    )


def _training(figures: Record) -> str:
    rows = [
        ["steps a second", number(figures["steps_per_second"])],
        ["GFLOP a step", number(figures["gflop_per_step"])],
        ["of which attention", f"{figures['attention_share']:.1%}"],
        ["GFLOP a second", number(figures["gflop_per_second"])],
        ["peak at the same products", number(figures["peak_gflop_per_second"])],
        ["tokens that are not padding", f"{figures['tokens_not_padding']:.0%}"],
    ]
    sizes = ", ".join(f"{m}×{k}×{n} ({count:.3g})" for m, k, n, count in figures["products"])
    most = f"The products made most often, and how often in a step: {sizes}."
    return f"## Training\n\n{grid(['figure', 'value'], rows)}\n\n{most}"


def _growth(kinds: dict[str, Record]) -> str:
    rows = [
        [f"{row['points']:,}", kind, number(row["seconds"]), number(row["peak_gib"])]
        for kind, table in kinds.items()
        for row in table["lengths"]
    ]
    powers = " and ".join(
        f"points^{table['exponent']:.2f} ({kind})" for kind, table in kinds.items()
    )
    head = ["points", "gaps in", "seconds", "peak GiB of the process"]
    return f"## One long series\n\n{grid(head, rows)}\n\nSeconds grow like {powers}."


def _startup(seconds: dict[str, float]) -> str:
    rows = [[f"`{name}`", number(each)] for name, each in seconds.items()]
    return f"## Start\n\n{grid(['program', 'seconds'], rows)}"


def _made_with(record: Record) -> str:
    return (
        f"Threads: {record['threads']}. Made with {record['versions']}, at {record['revision']}."
    )


def number(figure: float | None) -> str:
    """Three digits that count; a dash where nothing was measured.

    >>> number(1234.5), number(0.01234), number(None)
    ('1,234', '0.0123', '–')
    """
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns are as wide as need be; all but the first are set right."""
    lines = [list(head), *map(list, rows)]
    width = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = ["-" * width[0], *("-" * (size - 1) + ":" for size in width[1:])]
    shown = [_line(lines[0], width), f"| {' | '.join(rule)} |"]
    return "\n".join([*shown, *(_line(line, width) for line in lines[1:])])


def _line(cells: Sequence[str], width: Sequence[int]) -> str:
    first = cells[0].ljust(width[0])
    rest = (cell.rjust(size) for cell, size in zip(cells[1:], width[1:], strict=True))
    return f"| {' | '.join([first, *rest])} |"
