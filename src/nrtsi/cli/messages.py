"""What the commands say of what was done."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from nrtsi.evaluation.backtest import Backtest
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.tables import Panel
    from nrtsi.tables.files import Table

__all__ = [
    "absent_rows",
    "conclusion",
    "count",
    "imputed",
    "methods",
    "plain",
    "print_gaps",
    "print_scores",
    "shape",
    "work",
]


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "row"), count(2000, "row")
    ('1 row', '2,000 rows')
    """
    plural = noun if number == 1 or noun == "series" else f"{noun}s"
    return f"{number:,} {plural}"


def shape(model: "NRTSI", table: "Table") -> str:
    """How many columns and series there are."""
    import pyarrow.compute as pc

    key, values = model.columns_.id, model.columns_.values or ()
    series = 1 if key is None else len(pc.unique(table.typed[key]))
    return f"{count(len(values), 'column')}, {count(series, 'series')}"


def imputed(model: "NRTSI", table: "Table", filled: Any) -> str:
    """How many cells were imputed, of how many."""
    import pyarrow.compute as pc

    from nrtsi.tables.files import missing_cells

    def missing(frame: Any) -> int:
        return sum(pc.sum(missing_cells(frame[name])).as_py() or 0 for name in values)

    values = model.columns_.values or ()
    cells = count(len(values) * table.typed.num_rows, "cell")
    left = missing(filled)
    still = f", {left:,} still missing" if left else ""
    imputed = f"{missing(table.typed) - left:,} of {cells} imputed{still}"
    return f"{imputed} ({shape(model, table)})"


def work(model: "NRTSI", path: Path | None, began: float) -> str:
    """The training, or the file that spared it, and the time since `began`."""
    seconds = f"{time.monotonic() - began:.0f} s"
    if path is not None:
        return f" by {path} in {seconds}"
    return f", {count(model.steps_, 'step')} in {seconds}{_what(model)}"


def _what(model: "NRTSI") -> str:
    """The network and why it was chosen, where it is not the usual one; and what hints it has."""
    about = model.info()
    network = str(about.get("network", "rows"))
    chosen = "" if network.startswith("rows") else f" ({network})"
    words = {"remembered": "remembers {}", "carried": "{}", "kriged": "kriges {}"}
    hints = {name: about.get(name, "nothing") for name in words}
    said = [words[name].format(hint) for name, hint in hints.items() if hint != "nothing"]
    return ", ".join([chosen, *said])


def methods(model: "NRTSI") -> str:
    """Which methods fill which column, as the back-test chose them."""
    chosen = model.fitted_.auto
    if chosen is None:
        return ""
    names = [
        ", ".join(chosen[0].methods[index] for index in dict.fromkeys(row))
        for row in chosen[0].table.tolist()
    ]
    columns = model.columns_.values or ()
    return "; ".join(f"{column} by {name}" for column, name in zip(columns, names, strict=True))


def plain(value: Any) -> str:
    """A value of JSON as a reader would write it.

    >>> plain({"time": "date", "id": None, "values": ["x", "y"]})
    'time date, id none, values [x, y]'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(plain(each) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def absent_rows(panel: "Panel") -> str | None:
    """A remark on times that are left out of an otherwise regular table."""
    import numpy as np

    spacing = np.diff(panel.series.time)[np.diff(panel.series.owner) == 0]
    steps = np.round(spacing)
    if spacing.size == 0 or steps.min() < 1 or np.abs(spacing - steps).max() > 0.01:
        return None
    absent = int((steps - 1).sum())
    if not absent:
        return None
    verb, them = ("seems", "it") if absent == 1 else ("seem", "them")
    spaced = panel.clock.format_duration(1.0)
    return f"{count(absent, 'row')} {verb} to be absent; --every {spaced} would fill {them} in"


def conclusion(mse: dict[str, float], longer: str | None) -> str | None:
    """Which method was best; and what may help nrtsi, where it was not.

    >>> conclusion({"nrtsi": 0.1, "linear": 0.98, "mean": 2.0}, "a longer --budget (60s)")
    'nrtsi was best: 9.8 times lower MSE than linear'
    >>> conclusion({"nrtsi": 0.5, "linear": 0.4}, "a longer --budget (60s)")
    'linear was best on this data: --method auto uses it; nrtsi may need a longer --budget (60s)'
    """
    if len(mse) < 2:
        return None
    best, second = sorted(mse, key=lambda name: mse[name])[:2]
    if best != "nrtsi":
        may_help = longer is not None and "nrtsi" in mse
        more = f"; nrtsi may need {longer}" if may_help else ""
        return f"{best} was best on this data: --method auto uses it{more}"
    if mse[second] < 1.05 * mse[best]:
        return f"nrtsi was best, but hardly better than {second}"
    if mse[best] == 0:
        return "nrtsi was best, without any error"
    times = mse[second] / mse[best]
    return f"nrtsi was best: {times:,.{0 if times >= 10 else 1}f} times lower MSE than {second}"


def print_scores(trial: "Backtest", longer: str | None) -> None:
    """Prints the tables of scores and what to conclude; `longer` says how to train for longer."""
    rows = [
        [name, f"{score.mse:.4g}", f"{score.mae:.4g}", f"{score.seconds:.1f}"]
        for name, score in trial.methods.items()
    ]
    failed = [[name, "failed", "", ""] for name in trial.failed]
    _print_table(("method", "MSE", "MAE", "seconds"), rows + failed, left=1)
    for name, reason in trial.failed.items():
        typer.echo(f"{name} failed: {reason}")
    typer.echo(
        f"{trial.hidden:,} of {trial.cells:,} known cells were hidden; "
        f"errors are in standard deviations of each column"
    )
    last = conclusion({name: s.mse for name, s in trial.methods.items()}, longer)
    if last is not None:
        typer.echo(last)


def print_gaps(trial: "Backtest") -> None:
    """Prints the absolute error of nrtsi and of the best method by column and length of gap."""
    shown = [name for name in ("nrtsi", "linear") if name in trial.predictions]
    cells: dict[tuple[str, float, float], dict[str, Any]] = {}
    for row in trial.rows():
        cells.setdefault((row["channel"], row["gap_from"], row["gap_to"]), {})[row["method"]] = row
    table = []
    for (channel, _, longest), by in cells.items():
        best = min(by, key=lambda name: by[name]["mae"])
        errors = [f"{by[name]['mae']:.4g}" for name in shown]
        some = f"{by[best]['n']:,}"
        about = [channel, trial.clock.format_duration(longest), some]
        table.append([*about, *errors, best, f"{by[best]['mae']:.4g}"])
    head = (
        "column",
        "gaps up to",
        "cells",
        *(f"{name} MAE" for name in shown),
        "best",
        "its MAE",
    )
    _print_table(head, table, left=1)
    typer.echo("errors are in the units of each column; gaps from one observation to the next")


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Prints rows under a head, the first `left` columns flush left."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    terminal = sys.stdout.isatty()
    grid = RichTable(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal)
    for index, name in enumerate(head):
        grid.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    Console(width=None if terminal else 120, highlight=False).print(grid)
