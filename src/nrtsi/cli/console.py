"""What the commands print: notes, results, tables of scores, progress."""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrtsi.cli.command import OptionGroup
from nrtsi.cli.progress import ProgressBar

if TYPE_CHECKING:
    from nrtsi.evaluation.backtest import Backtest
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.imputer.result import ImputationResult
    from nrtsi.scale import Summary
    from nrtsi.tables import Panel

__all__ = ["Console", "Quiet", "Verbose", "absent_rows", "conclusion", "count", "imputed_cells"]
__all__ += ["methods_used", "plain", "shape", "shards_done", "training_done"]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print details.")]


@dataclass(frozen=True)
class Console(OptionGroup):
    """Prints to the terminal."""

    quiet: Quiet = False
    verbose: Verbose = False

    def joined(self, other: "Console") -> "Console":
        """A console with the options of both; log messages obey them too."""
        console = Console(self.quiet or other.quiet, self.verbose or other.verbose)
        level = logging.INFO if console.verbose else logging.WARNING
        level = logging.ERROR if console.quiet else level
        logging.basicConfig(level=level, format="nrtsi: %(message)s", force=True)
        return console

    def note(self, line: str) -> None:
        """Prints a note to standard error, unless quiet."""
        if not self.quiet:
            typer.echo(f"nrtsi: {line}", err=True)

    def report(self, line: str) -> None:
        """Prints what was done to standard output, unless quiet."""
        if not self.quiet:
            typer.echo(line)

    def progress(self) -> ProgressBar:
        """A progress bar that listens to events."""
        return ProgressBar(quiet=self.quiet)

    def scores(self, backtest: "Backtest", advice: str | None) -> None:
        """Prints the errors of all methods and a conclusion; see `conclusion` for `advice`."""
        rows = [
            [name, f"{score.mse:.4g}", f"{score.mae:.4g}", f"{score.seconds:.1f}"]
            for name, score in backtest.methods.items()
        ]
        failed = [[name, "failed", "", ""] for name in backtest.failed]
        _print_table(("method", "MSE", "MAE", "seconds"), rows + failed)
        hidden = f"{backtest.hidden:,} of {backtest.cells:,} known cells were hidden"
        lines = [f"{name} failed: {reason}" for name, reason in backtest.failed.items()]
        lines.append(f"{hidden}; errors are in standard deviations of each column")
        line = conclusion({name: s.mse for name, s in backtest.methods.items()}, advice)
        typer.echo("\n".join([*lines, *([] if line is None else [line])]))

    def scores_by_gap(self, backtest: "Backtest") -> None:
        """Prints the absolute errors by column and gap length."""
        shown = [name for name in ("nrtsi", "linear") if name in backtest.predictions]
        bins: dict[tuple[str, float, float], dict[str, Any]] = {}
        for row in backtest.rows():
            key = (row["channel"], row["gap_from"], row["gap_to"])
            bins.setdefault(key, {})[row["method"]] = row
        rows = []
        for (channel, _, longest), by_method in bins.items():
            best = min(by_method, key=lambda name: by_method[name]["mae"])
            cells = f"{by_method[best]['n']:,}"
            errors = [f"{by_method[name]['mae']:.4g}" for name in (*shown, best)]
            gap = backtest.clock.format_duration(longest)
            rows.append([channel, gap, cells, *errors[:-1], best, errors[-1]])
        maes = [f"{name} MAE" for name in shown]
        _print_table(("column", "gaps up to", "cells", *maes, "best", "its MAE"), rows)
        typer.echo("errors are in the units of each column; gaps from one observation to the next")


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows below a head, the first column flush left."""
    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table as RichTable

    terminal = sys.stdout.isatty()
    grid = RichTable(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal)
    for index, name in enumerate(head):
        grid.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    RichConsole(width=None if terminal else 120, highlight=False).print(grid)


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "row"), count(2000, "row")
    ('1 row', '2,000 rows')
    """
    plural = noun if number == 1 or noun == "series" else f"{noun}s"
    return f"{number:,} {plural}"


def plain(value: Any) -> str:
    """A value of JSON without quotes and braces.

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


def shape(panel: "Panel") -> str:
    """The number of columns and series."""
    return f"{count(panel.series.dims, 'column')}, {count(panel.series.series, 'series')}"


def imputed_cells(result: "ImputationResult") -> str:
    """The number of cells that were imputed."""
    import numpy as np

    panel = result.task.panel
    cells, missing = panel.series.observed.size, int((~panel.series.observed).sum())
    left = int(np.isnan(result.kept).sum())
    return f"{_imputed(missing - left, cells, left)} ({shape(panel)})"


def shards_done(summary: "Summary") -> str:
    """The number of cells that were imputed in shards."""
    done = f"{count(summary.files, 'file')}, {count(summary.shards, 'shard')}"
    return f"{_imputed(summary.imputed, summary.cells, summary.left)} ({done})"


def _imputed(imputed: int, cells: int, left: int) -> str:
    still = f", {left:,} still missing" if left else ""
    return f"{imputed:,} of {count(cells, 'cell')} imputed{still}"


def training_done(model: "NRTSI", path: Path | None, began: float) -> str:
    """The training, or the file of the model; the time since `began`; network and predictors."""
    seconds = f"{time.monotonic() - began:.0f} s"
    if path is not None:
        return f" by {path} in {seconds}"
    about = model.info()
    network = about["network"]
    unusual = "" if network.startswith("rows") else f" ({network})"
    used = {name: text for name, text in about["predictors"].items() if text != "not used"}
    predictors = "".join(f", {name}: {text}" for name, text in used.items())
    return f", {count(model.steps_, 'step')} in {seconds}{unusual}{predictors}"


def methods_used(result: "ImputationResult") -> str:
    """The methods that impute each column."""
    used = result.selection
    names = [[used.methods[index] for index in dict.fromkeys(row)] for row in used.table.tolist()]
    pairs = zip(result.names, names, strict=True)
    return "; ".join(f"{column} by {', '.join(by)}" for column, by in pairs)


def absent_rows(panel: "Panel") -> str | None:
    """A note on rows that are absent from an otherwise regular table; None without any."""
    import numpy as np

    spacing = np.diff(panel.series.time)[np.diff(panel.series.owner) == 0]
    steps = np.round(spacing)
    absent = int((steps - 1).sum())
    if not absent or steps.min() < 1 or np.abs(spacing - steps).max() > 0.01:
        return None
    verb, them = ("seems", "it") if absent == 1 else ("seem", "them")
    spaced = panel.clock.format_duration(1.0)
    return f"{count(absent, 'row')} {verb} to be absent; --every {spaced} would add {them}"


def conclusion(mse: dict[str, float], advice: str | None) -> str | None:
    """The best method; and `advice`, how to train longer, if it is not nrtsi.

    >>> conclusion({"nrtsi": 0.1, "linear": 0.98, "mean": 2.0}, "a longer --budget (60s)")
    'nrtsi was best: 9.8 times lower MSE than linear'
    >>> conclusion({"nrtsi": 0.5, "linear": 0.4}, "a longer --budget (60s)")
    'linear was best on this data: --method auto uses it; nrtsi may need a longer --budget (60s)'
    """
    if len(mse) < 2:
        return None
    best, second = sorted(mse, key=lambda name: mse[name])[:2]
    if best != "nrtsi":
        more = f"; nrtsi may need {advice}" if advice is not None and "nrtsi" in mse else ""
        return f"{best} was best on this data: --method auto uses it{more}"
    if mse[second] < 1.05 * mse[best]:
        return f"nrtsi was best, but hardly better than {second}"
    if mse[best] == 0:
        return "nrtsi was best, without any error"
    times = mse[second] / mse[best]
    return f"nrtsi was best: {times:,.{0 if times >= 10 else 1}f} times lower MSE than {second}"
