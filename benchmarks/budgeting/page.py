"""Error against budget as Markdown, and what is told of several seeds."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from budgeting.rows import Row, series_of
from nrtsi.bench.markdown import grid, number
from nrtsi.config import PRESETS

INTRODUCTION = Path(__file__).with_name("introduction.md")


def section(rows: Sequence[Row], picture: str | None = None) -> str:
    """The defaults in a grid, and the sizes beside each other. Empty without rows.

    What else was tried stands in the file.
    """
    lines = [_line(some) for _, asked, budgets in series_of(rows) if not asked for some in budgets]
    if not lines:
        return ""
    head = ["data", "budget", "preset", "parameters", "steps", "seeds", "measure", "error"]
    shown = [f"![Error against budget]({picture})"] if picture else []
    parts = [INTRODUCTION.read_text("utf-8").rstrip(), *shown, grid([*head, "of linear's"], lines)]
    return "\n\n".join([*parts, *_sizes(rows)]) + "\n"


def _sizes(rows: Sequence[Row]) -> list[str]:
    """Each preset's error as a share of linear interpolation's; bold what the budget takes."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: (row.data, row.seconds)):
        if not row.changes:
            found.setdefault((row.data, row.budget), {}).setdefault(row.preset, []).append(row)
    compared = {key: by for key, by in found.items() if len(by) > 1}
    if not compared:
        return []
    names = [name for name in PRESETS if any(name in by for by in compared.values())]
    lines = [[*key, *(_share(by.get(name, [])) for name in names)] for key, by in compared.items()]
    told = (
        "The sizes beside each other, in parts of linear interpolation's error; bold is the one "
        "that the budget chooses:"
    )
    return [told, grid(["data", "budget", *names], lines)]


def _share(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    share, spread = relative(rows)
    words = f"{number(share)} ± {number(spread, 2)}"
    return words if rows[0].asked else f"**{words}**"


def relative(rows: Sequence[Row]) -> tuple[float, float]:
    """The mean of the seeds as a share of linear interpolation's error, and how sure it is."""
    shares = [row.error / row.linear for row in rows]
    if len(rows) > 1:
        return fmean(shares), stdev(shares)
    return shares[0], rows[0].error_se / rows[0].linear


def _line(rows: Sequence[Row]) -> list[str]:
    first, (share, spread) = rows[0], relative(rows)
    return [
        first.data,
        first.budget,
        first.preset,
        f"{first.parameters:,}",
        f"{fmean(row.steps for row in rows):,.0f}",
        str(len(rows)),
        first.metric,
        number(fmean(row.error for row in rows)),
        f"{number(share)} ± {number(spread, 2)}",
    ]
