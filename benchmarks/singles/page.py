"""One table as Markdown: a line a table, a column a method."""

from collections.abc import Sequence
from pathlib import Path

from nrtsi.bench.markdown import grid, number

COLUMNS = ("table", "method", "error", "cells", "fit_s", "impute_s", "versions", "revision")
"""Of the file of `benchmarks/single.py`."""

INTRODUCTION = Path(__file__).with_name("introduction.md")


def section(lines: Sequence[Sequence[str]]) -> str:
    """The errors in a grid, the least in bold; empty without lines of the file."""
    if not lines:
        return ""
    introduction = INTRODUCTION.read_text("utf-8").rstrip()
    return f"{introduction}\n\n{table(lines)}\n"


def table(lines: Sequence[Sequence[str]]) -> str:
    """The grid alone."""
    error = {(line[0], line[1]): float(line[2]) for line in lines}
    names, methods = (list(dict.fromkeys(line[i] for line in lines)) for i in (0, 1))
    shown = []
    for name in names:
        own = [error.get((name, method)) for method in methods]
        least = min(value for value in own if value is not None)
        shown.append([name, *(_cell(value, least) for value in own)])
    return grid(["squared error", *methods], shown)


def _cell(value: float | None, least: float) -> str:
    if value is None:
        return "–"
    return f"**{number(value)}**" if value == least else number(value)
