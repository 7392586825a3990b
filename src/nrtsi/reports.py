"""What the commands say of what was done."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from nrtsi.evaluation import Evaluation
    from nrtsi.files import Table
    from nrtsi.frames import Panel
    from nrtsi.imputer import NRTSI

__all__ = [
    "absent_rows",
    "conclusion",
    "count",
    "imputed",
    "plain",
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

    from nrtsi.files import missing_cells

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
    return f", {count(model.steps_, 'step')} in {seconds}{_network(model)}"


def _network(model: "NRTSI") -> str:
    """The network and why it was chosen, where it is not the usual one."""
    network = str(model.info().get("network", "rows"))
    return "" if network.startswith("rows") else f" ({network})"


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
    spaced = _spacing(panel.clock.unit, datetimes=panel.clock.kind == "datetime")
    return f"{count(absent, 'row')} {verb} to be absent; --every {spaced} would fill {them} in"


def _spacing(unit: float, *, datetimes: bool) -> str:
    """A spacing of the clock as --every takes it.

    >>> _spacing(900e9, datetimes=True), _spacing(2.0, datetimes=False)
    ('15min', '2')
    """
    if not datetimes:
        return f"{unit:.15g}"
    lengths = {"d": 86400e9, "h": 3600e9, "min": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
    name = next((name for name, length in lengths.items() if unit % length == 0), "ns")
    return f"{round(unit / lengths[name])}{name}"


def conclusion(mse: dict[str, float], longer: str | None) -> str | None:
    """Which method was best; and what may help nrtsi, where it was not.

    >>> conclusion({"nrtsi": 0.1, "linear": 0.98, "mean": 2.0}, "a longer --budget (60s)")
    'nrtsi was best: 9.8 times lower MSE than linear'
    >>> conclusion({"nrtsi": 0.5, "linear": 0.4}, "a longer --budget (60s)")
    'linear was best on this data; nrtsi may need a longer --budget (60s)'
    """
    if len(mse) < 2:
        return None
    best, second = sorted(mse, key=lambda name: mse[name])[:2]
    if best != "nrtsi":
        may_help = longer is not None and "nrtsi" in mse
        return f"{best} was best on this data" + (f"; nrtsi may need {longer}" if may_help else "")
    if mse[second] < 1.05 * mse[best]:
        return f"nrtsi was best, but hardly better than {second}"
    if mse[best] == 0:
        return "nrtsi was best, without any error"
    times = mse[second] / mse[best]
    return f"nrtsi was best: {times:,.{0 if times >= 10 else 1}f} times lower MSE than {second}"


def print_scores(evaluation: "Evaluation", longer: str | None) -> None:
    """Prints the table of scores and what to conclude; `longer` says how to train for longer."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    terminal = sys.stdout.isatty()
    grid = RichTable(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal)
    for name in ("method", "MSE", "MAE", "seconds"):
        grid.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for name, score in evaluation.methods.items():
        grid.add_row(name, f"{score.mse:.4g}", f"{score.mae:.4g}", f"{score.seconds:.1f}")
    for name in evaluation.failed:
        grid.add_row(name, "failed", "", "")
    Console(width=None if terminal else 120, highlight=False).print(grid)
    for name, reason in evaluation.failed.items():
        typer.echo(f"{name} failed: {reason}")
    typer.echo(
        f"{evaluation.hidden:,} of {evaluation.cells:,} known cells were hidden; "
        f"errors are in standard deviations of each column"
    )
    if evaluation.seen:
        typer.echo("the model was trained on this data, so its own error is flattering")
    last = conclusion({name: s.mse for name, s in evaluation.methods.items()}, longer)
    if last is not None:
        typer.echo(last)
