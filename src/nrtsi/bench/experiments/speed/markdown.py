"""The record of an experiment of speed in Markdown."""

from collections.abc import Callable
from typing import Any

from nrtsi.bench.experiments.speed.config import GOALS
from nrtsi.bench.markdown import NONE, grid

__all__ = ["markdown"]

Record = dict[str, Any]

QUICK_REMARK = (
    "**A quick run: its figures mean little. "
    "Those of 10⁶ and 10⁵ points were measured with 10⁵ and 10⁴.**"
)


def markdown(record: Record) -> str:
    """The figures with their bounds, then the details, as far as they were measured."""
    parts: dict[str, Callable[[Any], str]] = {
        "billiards": _billiards,
        "stages": _stages,
        "planning": _planning,
        "training": _training,
        "growth": _growth,
        "startup": _startup,
    }
    rows = [
        [goal.what, goal.format(record[key]), goal.bound, goal.met(record[key])]
        for key, goal in GOALS.items()
    ]
    sections = [grid(["what", "measured", "must be", "met"], rows)]
    sections += [write(record[name]) for name, write in parts.items() if name in record]
    if record["quick"]:
        sections.insert(0, QUICK_REMARK)
    made = (
        f"Threads: {record['threads']}. Made with {record['versions']}, at {record['revision']}."
    )
    return "\n\n".join([*sections, made]) + "\n"


def _billiards(table: dict[str, Record]) -> str:
    columns = ("seconds", "series_per_second", "peak_mib")
    rows = [
        [name, f"{row['series']:,}", *(_short(row[column]) for column in columns)]
        for name, row in table.items()
    ]
    header = ["method", "series", "seconds", "series a second", "peak MiB"]
    return f"## Billiards\n\n{grid(header, rows)}"


def _stages(shares: dict[str, float]) -> str:
    rows = [[name, f"{share:.0%}"] for name, share in shares.items()]
    return f"Stages of nrtsi:\n\n{grid(['stage', 'share of the time'], rows)}"


def _planning(figures: Record) -> str:
    return (
        f"## Planning\n\nThe plan of {figures['steps']} steps takes {_short(figures['plan'])} s "
        f"of the {_short(figures['fill'])} s in which the series are imputed."
    )


def _training(figures: Record) -> str:
    rows = [
        ["steps a second", _short(figures["steps_per_second"])],
        ["GFLOP a step", _short(figures["gflop_per_step"])],
        ["of which attention", f"{figures['attention_share']:.1%}"],
        ["GFLOP a second", _short(figures["gflop_per_second"])],
        ["peak at the same products", _short(figures["peak_gflop_per_second"])],
        ["tokens that are not padding", f"{figures['tokens_not_padding']:.0%}"],
    ]
    sizes = ", ".join(f"{m}×{k}×{n} ({count:.3g})" for m, k, n, count in figures["products"])
    most = f"The most frequent products, with their number in a step: {sizes}."
    return f"## Training\n\n{grid(['figure', 'value'], rows)}\n\n{most}"


def _growth(kinds: dict[str, Record]) -> str:
    rows = [
        [f"{row['points']:,}", kind, _short(row["seconds"]), _short(row["peak_gib"])]
        for kind, table in kinds.items()
        for row in table["lengths"]
    ]
    powers = " and ".join(
        f"points^{table['exponent']:.2f} ({kind})" for kind, table in kinds.items()
    )
    header = ["points", "gaps in", "seconds", "peak GiB of the process"]
    return f"## One long series\n\n{grid(header, rows)}\n\nSeconds grow as {powers}."


def _startup(seconds: dict[str, float]) -> str:
    rows = [[f"`{name}`", _short(each)] for name, each in seconds.items()]
    return f"## Start\n\n{grid(['program', 'seconds'], rows)}"


def _short(figure: float | None) -> str:
    """Three significant digits; a dash if nothing was measured.

    >>> _short(1234.5), _short(0.01234), _short(None)
    ('1,234', '0.0123', '–')
    """
    if figure is None:
        return NONE
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
