"""The `nrtsi` command: parse, call the library, print."""

# PyTorch, pyarrow and scikit-learn take seconds to import and `nrtsi --help` should not, so
# every command imports what it needs inside.

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrtsi.errors import InputError, TrainingError
from nrtsi.options import (
    Data,
    Json,
    Model,
    OneLineErrors,
    Out,
    Overwrite,
    Quiet,
    Settings,
    Verbose,
    Version,
    Voice,
    prepared,
)
from nrtsi.progress import ProgressBar

if TYPE_CHECKING:
    from nrtsi.evaluation import Evaluation
    from nrtsi.files import Table
    from nrtsi.frames import Panel
    from nrtsi.imputer import NRTSI

__all__ = ["app", "main"]

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes show flags as if they took a value: --quiet <bool>
    help="Fill the holes of time series, from coarse to fine, and say how good the filling is.",
    epilog="First time? Try: nrtsi demo",
)


def main() -> None:
    """Runs the command line."""
    # Read once, when PyTorch is imported. Its threads spin while they wait for each other; on a
    # machine busy with something else that keeps the awaited thread from running. A short spin is
    # as fast where nothing else runs.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    app()


@app.callback()
def _general(
    ctx: typer.Context,
    quiet: Quiet = False,
    verbose: Verbose = False,
    version: Version = False,
) -> None:
    ctx.obj = Voice(quiet, verbose)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@prepared
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Model file to write, such as model.nrtsi.")],
    settings: Settings,
    voice: Voice,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run cut short.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a model on DATA and keep it for later."""
    from nrtsi.files import read_table

    checkpoint = out.with_name(out.name + ".checkpoint")
    _check_model_output(out, checkpoint, resume=resume, overwrite=overwrite)
    if resume and not checkpoint.exists():
        voice.say(f"there is no {checkpoint} to resume; starting from the beginning")
    table, began = read_table(data), time.monotonic()
    model, panel = _new_model(settings, table, voice)
    try:
        with ProgressBar(quiet=voice.quiet) as listener:
            model.fit_panel(panel, listener=listener, path=checkpoint, resume=resume)
    except TrainingError:
        model.save(out)
        voice.say(f"wrote {out} with the last good weights")
        raise
    model.save(out)
    if not model.interrupted_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists():
        voice.say(f"training was cut short; add --resume to go on from {checkpoint}")
    voice.report(f"wrote {out}: {_shape(model, table)}{_work(model, None, began)}")


@app.command()
@prepared
def impute(
    data: Data,
    out: Out,
    settings: Settings,
    voice: Voice,
    model: Model = None,
    at: Annotated[
        Path | None, typer.Option(help="File of the times at which values are wanted.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Values at this spacing, such as 15min.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Fill the missing values of DATA, by a model or by training on DATA itself."""
    from nrtsi.files import check_output, read_table, write_table

    if at is not None and every is not None:
        raise InputError("--at and --every must not both be given; leave one of them out")
    check_output(out, overwrite=overwrite)
    table, asked = read_table(data), None if at is None else read_table(at).typed
    whole, began = at is None and every is None, time.monotonic()
    imputer, panel = _model(model, settings, table, voice)
    if panel is not None and whole:
        _say_absent_rows(panel, voice)
    if panel is not None and whole and panel.series.observed.all():
        write_table(out, table, overwrite=overwrite)
        voice.report(f"wrote {out}: nothing was missing")
        return
    with ProgressBar(quiet=voice.quiet) as listener:
        if panel is not None:
            panel.asked(asked, every)  # a mistake in these is found now, not after the training
            imputer.fit_panel(panel, listener=listener)
        filled = imputer.impute(table.typed, at=asked, every=every, listener=listener)
    result = table.fill(filled) if whole else table.without_text(filled)
    write_table(out, result, overwrite=overwrite)
    at_times = f"{_count(filled.num_rows, 'row')} at the times asked for"
    done = _imputed(imputer, table, filled) if whole else at_times
    voice.report(f"wrote {out}: {done}{_work(imputer, model, began)}")


@app.command()
@prepared
def sample(
    data: Data,
    out: Out,
    settings: Settings,
    voice: Voice,
    model: Model = None,
    draws: Annotated[int, typer.Option(min=1, help="How many fillings to draw.")] = 10,
    overwrite: Overwrite = False,
) -> None:
    """Draw several fillings of DATA, to see how sure the values are."""
    from nrtsi.files import check_output, read_table, write_table

    check_output(out, overwrite=overwrite)
    table, began = read_table(data), time.monotonic()
    imputer, panel = _model(model, settings, table, voice)
    with ProgressBar(quiet=voice.quiet) as listener:
        if panel is not None:
            imputer.fit_panel(panel, listener=listener)
        drawn = imputer.sample(table.typed, draws=draws, listener=listener)
    write_table(out, table.stack(drawn), overwrite=overwrite)
    done = f"{_count(draws, 'draw')} of {_count(table.typed.num_rows, 'row')}"
    voice.report(f"wrote {out}: {done}{_work(imputer, model, began)}")


@app.command()
@prepared
def evaluate(
    data: Data,
    settings: Settings,
    voice: Voice,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Hide known values of DATA and print how well each method finds them again."""
    from nrtsi.evaluation import evaluate as score
    from nrtsi.files import read_table

    given, trained = settings.given(), None
    table = read_table(data)
    if model is not None:
        trained = _loaded(model, settings, "seed", "device", "hide")
        given.pop("device", None)
    with ProgressBar(quiet=voice.quiet) as listener:
        evaluation = score(table.typed, model=trained, listener=listener, **given)
    for guess in evaluation.guesses:
        voice.say(guess)
    if as_json:
        typer.echo(json.dumps(evaluation.to_json(), indent=2))
    else:
        steps = f"more --steps ({settings.steps})" if settings.steps else None
        longer = steps or f"a longer --budget ({settings.budget or '60s'})"
        _print_scores(evaluation, None if trained else longer)


@app.command()
@prepared
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by `nrtsi fit`.")],
    voice: Voice,
    as_json: Json = False,
) -> None:
    """Print what a model file holds."""
    from nrtsi.imputer import load

    record = load(model).info()
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{name:<{width}}  {_plain(value)}")


@app.command()
@prepared
def demo(
    voice: Voice,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "demo"
    ),
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time of each training.")] = "45s",
    overwrite: Overwrite = False,
) -> None:
    """Fill a small weather file that comes with nrtsi, and show how good the filling is."""
    from nrtsi.demo import run_demo
    from nrtsi.frames import duration

    duration(budget)  # refuses a mistake before a folder is made
    with ProgressBar(quiet=voice.quiet) as listener:
        result = run_demo(out, budget=budget, overwrite=overwrite, listener=listener)
    typer.echo(
        f"filled   {result.missing:,} of {result.cells:,} cells of a weather station's data"
    )
    typer.echo(f"wrote    {result.filled}\nwrote    {result.picture}")
    _print_scores(result.evaluation, f"a longer --budget ({budget})")
    typer.echo("\nNow your own file:\n\n  nrtsi impute your.csv --out filled.csv\n")


# Models, new and from files --------------------------------------------------------------------


def _check_model_output(out: Path, checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuses, before any training, an output that cannot or should not be written."""
    from nrtsi.atomic import check_writable
    from nrtsi.files import SUFFIXES

    if out.name.lower().endswith(SUFFIXES):
        raise InputError(
            f"--out must name a model file, got {out}, which is the name of a table; write a name "
            f"such as {out.with_suffix('.nrtsi')}, or fill a table with nrtsi impute"
        )
    if checkpoint.exists() and not resume and not overwrite:
        raise InputError(
            f"{checkpoint} is left from a run that was cut short; add --resume to go on with it, "
            f"or --overwrite to start anew"
        )
    check_writable(out, overwrite=overwrite or (resume and checkpoint.exists()))


def _new_model(settings: Settings, table: "Table", voice: Voice) -> "tuple[NRTSI, Panel]":
    """A model still to be fitted, and the data as it reads them.

    Says first, before any training, what it takes for what.
    """
    from nrtsi.imputer import NRTSI

    model = NRTSI(**settings.given())
    panel = model.read(table.typed)
    for guess in panel.guesses:
        voice.say(guess)
    return model, panel


def _model(
    path: Path | None, settings: Settings, table: "Table", voice: Voice
) -> "tuple[NRTSI, Panel | None]":
    """The model in the file; or a new one, and the table's own data to fit it on."""
    if path is None:
        return _new_model(settings, table, voice)
    return _loaded(path, settings, "seed", "device"), None


def _loaded(path: Path, settings: Settings, *allowed: str) -> "NRTSI":
    """The model in the file, which has all settings but the allowed ones."""
    from nrtsi.imputer import load

    settings.refuse_all_but(*allowed, because="with --model, which has its own")
    model = load(path, device=settings.device or "auto")
    return model if settings.seed is None else model.set_params(seed=settings.seed)


# What was done, in words -----------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> _count(1, "row"), _count(2000, "row")
    ('1 row', '2,000 rows')
    """
    plural = noun if number == 1 or noun == "series" else f"{noun}s"
    return f"{number:,} {plural}"


def _shape(model: "NRTSI", table: "Table") -> str:
    import pyarrow.compute as pc

    key, values = model.columns_.id, model.columns_.values or ()
    series = 1 if key is None else pc.count_distinct(table.typed[key]).as_py()
    return f"{_count(len(values), 'column')}, {_count(series, 'series')}"


def _imputed(model: "NRTSI", table: "Table", filled: Any) -> str:
    import pyarrow.compute as pc

    from nrtsi.files import missing_cells

    def missing(frame: Any) -> int:
        return sum(pc.sum(missing_cells(frame[name])).as_py() or 0 for name in values)

    values = model.columns_.values or ()
    cells = _count(len(values) * table.typed.num_rows, "cell")
    left = missing(filled)
    still = f", {left:,} still missing" if left else ""
    imputed = f"{missing(table.typed) - left:,} of {cells} imputed{still}"
    return f"{imputed} ({_shape(model, table)})"


def _work(model: "NRTSI", path: Path | None, began: float) -> str:
    """The training, or the file that spared it, and the time since `began`."""
    by = f", {_count(model.steps_, 'step')}" if path is None else f" by {path}"
    return f"{by} in {time.monotonic() - began:.0f} s"


def _plain(value: Any) -> str:
    """A value of JSON as a reader would write it.

    >>> _plain({"time": "date", "id": None, "values": ["x", "y"]})
    'time date, id none, values [x, y]'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(_plain(each) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _say_absent_rows(panel: "Panel", voice: Voice) -> None:
    """Remarks on times that are left out of an otherwise regular table."""
    import numpy as np

    spacing = np.diff(panel.series.time)[np.diff(panel.series.owner) == 0]
    steps = np.round(spacing)
    if spacing.size == 0 or steps.min() < 1 or np.abs(spacing - steps).max() > 0.01:
        return
    absent = int((steps - 1).sum())
    if absent:
        verb, them = ("seems", "it") if absent == 1 else ("seem", "them")
        every = _every(panel.clock.unit, datetimes=panel.clock.kind == "datetime")
        rows = _count(absent, "row")
        voice.say(f"{rows} {verb} to be absent; --every {every} would fill {them} in")


def _every(unit: float, *, datetimes: bool) -> str:
    """A spacing of the clock as --every takes it.

    >>> _every(900e9, datetimes=True), _every(1.5e6, datetimes=True), _every(2.0, datetimes=False)
    ('15min', '1500us', '2')
    """
    if not datetimes:
        return f"{unit:.15g}"
    lengths = {"d": 86400e9, "h": 3600e9, "min": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
    name = next((name for name, length in lengths.items() if unit % length == 0), "ns")
    return f"{round(unit / lengths[name])}{name}"


def _conclusion(mse: dict[str, float], longer: str | None) -> str | None:
    """Which method was best; and what may help nrtsi, where it was not.

    >>> _conclusion({"nrtsi": 0.1, "linear": 0.98, "mean": 2.0}, "a longer --budget (60s)")
    'nrtsi was best: 9.8 times lower MSE than linear'
    >>> _conclusion({"nrtsi": 0.5, "linear": 0.4}, "a longer --budget (60s)")
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


def _print_scores(evaluation: "Evaluation", longer: str | None) -> None:
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
    conclusion = _conclusion({name: s.mse for name, s in evaluation.methods.items()}, longer)
    if conclusion is not None:
        typer.echo(conclusion)
