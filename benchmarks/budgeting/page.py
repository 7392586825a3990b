"""Error against budget as Markdown, and what is told of several seeds."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from budgeting.rows import Row, series_of
from nrtsi.bench.markdown import grid, number

INTRODUCTION = Path(__file__).with_name("introduction.md")


def section(rows: Sequence[Row], picture: str | None = None) -> str:
    """The defaults in a grid; what else was tried stands in the file. Empty without rows."""
    lines = [
        _line(some) for _, changes, budgets in series_of(rows) if not changes for some in budgets
    ]
    if not lines:
        return ""
    head = ["data", "budget", "preset", "parameters", "steps", "seeds", "measure", "error"]
    shown = [f"![Error against budget]({picture})"] if picture else []
    parts = [INTRODUCTION.read_text("utf-8").rstrip(), *shown, grid([*head, "of linear's"], lines)]
    return "\n\n".join(parts) + "\n"


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
