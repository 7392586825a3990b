"""The table of `docs/trust.md`, made of what `benchmarks/trust.py` measured."""

import csv
from itertools import groupby
from pathlib import Path


def table(path: Path) -> str:
    """One line a table and seed; a sentence where nothing was measured."""
    if not path.exists():
        return "Nothing was measured yet.\n"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    head = [
        "data",
        "intervals of 90 % that held",
        "lengths of gap in which they held 88–92 %",
        "error of nrtsi: promised, found",
        "auto: error over the best method's",
        "daily totals inside 90 %",
    ]
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(head) - 1)])]
    keys = sorted({(row["data"], row["seed"]) for row in rows})
    for key in keys:
        own = [row for row in rows if (row["data"], row["seed"]) == key]
        lines.append(" | ".join([f"{key[0]}, seed {key[1]}", *_cells(own)]))
    return "".join(f"| {line} |\n" for line in lines)


def _cells(rows: list[dict[str, str]]) -> list[str]:
    about = {name: list(some) for name, some in groupby(sorted(rows, key=_about), key=_about)}
    whole = next(row for row in about["coverage"] if row["where"] == "all")
    parts = [row for row in about["coverage"] if row["where"] != "all"]
    kept = sum(row["within"] == "True" for row in parts)
    ours = next(row for row in about["error"] if row["where"] == "nrtsi")
    auto, total = about["auto"][0], about["total"][0]
    return [
        f"{100 * float(whole['found']):.1f} % of {int(whole['cells']):,}",
        f"{kept} of {len(parts)}" if parts else "none has 500 cells",
        f"{float(ours['promised']):.3g}, {float(ours['found']):.3g}",
        f"{float(auto['found']) / float(auto['promised']):.2f}",
        f"{100 * float(total['found']):.1f} % of {int(total['cells']):,}",
    ]


def _about(row: dict[str, str]) -> str:
    return row["about"]
