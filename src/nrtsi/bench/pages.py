"""Writes the pages that show results, from the results and from nothing else.

    python benchmarks/document.py

`docs/benchmarks.md` has an introduction, every table with results in `benchmarks/results` and what
`benchmarks/single.py` and `benchmarks/budgets.py` measured; README has a summary of the tables,
between two marks; `docs/speed.md` is made of what `benchmarks/speed.py` measured, and
`docs/trust.md` has between two marks what `benchmarks/trust.py` did. With `--check` the files are
not written but compared, and the status is 1 where they are not up to date.
"""

import sys
from pathlib import Path

from budgeting.page import section
from budgeting.rows import read as read_budgets
from singles.page import COLUMNS
from singles.page import section as section_of_singles
from singles.page import table as grid_of_singles
from speeds.page import page as speed_page
from trusting.page import table as kept

from nrtsi.bench.markdown import markdown, summary
from nrtsi.bench.results import read, read_lines
from nrtsi.bench.tables import open_table, table_names

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ONE_TABLE = (
    "One table with gaps, as most people have it, a minute of one core (`benchmarks/single.py`, "
    "[more](docs/benchmarks.md#one-table)):"
)
MARKS = ("<!-- made by benchmarks/document.py -->\n", "<!-- end -->\n")


def tables():
    """The tables that have results, with their rows."""
    for name in table_names():
        rows = read(RESULTS / f"{name}.csv")
        if rows:
            yield open_table(name), rows


def page():
    head = (ROOT / "benchmarks" / "introduction.md").read_text("utf-8")
    parts = [head, *(markdown(table, rows) for table, rows in tables()), singles(), budgets()]
    return "\n".join(part for part in parts if part)


def singles():
    """What is shown of single tables; empty without results."""
    return section_of_singles(read_lines(RESULTS / "single.csv", COLUMNS))


def own_table():
    """The same for README, in short."""
    lines = read_lines(RESULTS / "single.csv", COLUMNS)
    return f"\n{ONE_TABLE}\n\n{grid_of_singles(lines)}\n" if lines else ""


def budgets():
    """Error against budget, with its picture where there is one; empty without results."""
    picture = "pictures/budgets.png"
    there = (ROOT / "docs" / picture).exists()
    return section(read_budgets(RESULTS / "budgets.csv"), picture if there else None)


def between_marks(path, made):
    """The page with what stands between its marks replaced."""
    before, rest = (ROOT / path).read_text("utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return before + MARKS[0] + made + MARKS[1] + after


def main():
    made = {
        ROOT / "docs" / "benchmarks.md": page(),
        ROOT / "docs" / "speed.md": speed_page(RESULTS / "speed.json"),
        ROOT / "README.md": between_marks("README.md", summary(list(tables())) + own_table()),
        ROOT / "docs" / "trust.md": between_marks("docs/trust.md", kept(RESULTS / "trust.csv")),
    }
    for path, text in made.items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.exit(f"{path.name} is not what the results say; run benchmarks/document.py")


if __name__ == "__main__":
    main()
