"""The `nrtsi` command: parse, call the library, print."""

# PyTorch, pyarrow and scikit-learn take seconds to import and `nrtsi --help` should not, so
# every command imports what it needs inside.

import gc
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrtsi import __version__
from nrtsi.cli import bench, data, plot
from nrtsi.cli.command import command, new_app
from nrtsi.cli.console import (
    Console,
    Quiet,
    Verbose,
    absent_rows,
    count,
    imputed_cells,
    methods_used,
    plain,
    shape,
    training_done,
)
from nrtsi.cli.options import (
    Data,
    DataOrFolder,
    Json,
    Model,
    Out,
    Overwrite,
    QueryOptions,
    ResultOptions,
    Settings,
    StreamOptions,
    output,
)
from nrtsi.cli.stream import check_in_memory, impute_in_shards, reject_options
from nrtsi.core.launch import launch
from nrtsi.errors import InputError, TrainingError

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.imputer.options import ImputeTask
    from nrtsi.imputer.result import ImputationResult
    from nrtsi.tables import Panel

__all__ = ["app", "main"]

app = new_app(
    "Impute missing values in time series, and measure the accuracy on your own data.",
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    epilog="First time? Try: nrtsi demo",
)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(plot.app, name="plot")


def main() -> None:
    """Runs the command line."""
    # PyTorch reads this when it is imported. Its threads spin while they wait for each other; on
    # a busy machine that keeps the awaited thread from running. A short spin is as fast on an
    # idle one.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # oneDNN caches 1,024 kernels, one for every shape, and windows have many shapes: memory would
    # grow for long.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # Imports make a million objects and hardly any garbage; the default threshold of 700 costs a
    # tenth of the time of a short command.
    gc.set_threshold(100_000)
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nrtsi {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


@app.callback()
def _general(
    ctx: typer.Context, quiet: Quiet = False, verbose: Verbose = False, version: Version = False
) -> None:
    process = launch()
    ctx.obj = Console(quiet or not process.is_first, verbose)
    if process.size > 1 and ctx.invoked_subcommand != "fit":
        if process.is_first:
            typer.echo(
                "nrtsi: several processes must run nrtsi fit, got another command; "
                "run it in one process, with the --model that they fitted",
                err=True,
            )
        raise typer.Exit(2)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@command(app)
def fit(
    data: Data,
    out: Annotated[Path, output("Model file to write: model.nrtsi.")],
    settings: Settings,
    console: Console,
    resume: Annotated[bool, output("Continue an interrupted run.", "--resume")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a model on DATA and save it."""
    from nrtsi.tables.files import read_table

    checkpoint, first = out.with_name(out.name + ".checkpoint"), launch().is_first
    _check_model_output(out, checkpoint, resume=resume, overwrite=overwrite)
    if resume and not checkpoint.exists():
        console.note(f"there is no {checkpoint} to resume; starting from the beginning")
    frame, began = read_table(data).typed, time.monotonic()
    model, panel = _open_model(None, settings, frame, console)
    try:
        with console.progress() as listener:
            model.fit_panel(panel, listener=listener, path=checkpoint, resume=resume)
    except TrainingError:
        if not first:
            return  # an error here would make the launcher kill the process that writes
        model.save(out)
        console.note(f"wrote {out} with the last good weights")
        raise
    if not first:
        return
    model.save(out)
    if not model.interrupted_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists():
        console.note(f"training was interrupted; add --resume to continue from {checkpoint}")
    console.report(f"wrote {out}: {shape(panel)}{training_done(model, None, began)}")


@command(app)
def impute(
    data: DataOrFolder,
    settings: Settings,
    out: Annotated[
        Path, output("File to write: .csv, .tsv or .parquet; a folder if DATA is one.")
    ],
    results: ResultOptions,
    query: QueryOptions,
    stream: StreamOptions,
    console: Console,
    model: Model = None,
    report: Annotated[
        Path | None, output("HTML report to write: gaps, accuracy and settings.")
    ] = None,
) -> None:
    """Impute the missing values of DATA, with a saved model or one that is trained on DATA."""
    from nrtsi.imputer.options import ImputeOptions, ImputeTask
    from nrtsi.report import check_report
    from nrtsi.scale.journal import memory_limit_for
    from nrtsi.scale.shards import needs_shards
    from nrtsi.tables.files import check_output, prevent_pandas_import, read_table, write_table

    prevent_pandas_import()
    options, rows, began = ImputeOptions(**results.given()), query.given(), time.monotonic()
    limit = memory_limit_for(stream.memory_limit, out, resume=stream.resume)
    if needs_shards(data, out, limit):
        reject_options(data, results.values | query.values, report)
        imputer = _model(model, settings)
        done = impute_in_shards(imputer, data, out, options, stream, console)
        by = "" if model is None else f" by {model}"
        console.report(f"wrote {out}: {done}{by} in {time.monotonic() - began:.0f} s")
        return
    check_in_memory(data, out, stream, console)
    check_output(out, overwrite=stream.overwrite)
    if report is not None:
        check_report(report, overwrite=stream.overwrite)
    table, began = read_table(data), time.monotonic()
    imputer, panel = _open_model(model, settings, table.typed, console)
    imputer.memory_limit = limit
    task = ImputeTask.of(panel, options, **rows)
    whole, new = task.query is panel, model is None
    if new and whole and (note := absent_rows(panel)) is not None:
        console.note(note)
    complete = whole and panel.series.observed.all() and options == ImputeOptions()
    if new and complete and report is None:
        write_table(out, table, overwrite=stream.overwrite)
        console.report(f"wrote {out}: nothing was missing")
        return
    result = _run(imputer, task, console, intervals=report is not None)
    frame = result.frame()
    written = table.fill(frame) if whole else table.without_text(frame)
    write_table(out, written, overwrite=stream.overwrite)
    done = imputed_cells(result) if whole else f"{count(frame.num_rows, 'row')} at the given times"
    auto = f"\nimputed {methods_used(result)}" if options.method == "auto" else ""
    console.report(f"wrote {out}: {done}{training_done(imputer, model, began)}{auto}")
    if report is not None:
        _write_report(report, data, imputer, result, console, overwrite=stream.overwrite)
        console.report(f"wrote {report}")


@command(app)
def report(
    data: Data,
    out: Annotated[Path, output("HTML file to write: report.html.")],
    settings: Settings,
    results: ResultOptions,
    console: Console,
    model: Model = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a report on DATA: what is missing, how it would be imputed, and how accurately."""
    from nrtsi.imputer.options import ImputeOptions, ImputeTask
    from nrtsi.report import check_report
    from nrtsi.tables.files import read_table

    check_report(out, overwrite=overwrite)
    options = ImputeOptions(**results.given())
    frame, began = read_table(data).typed, time.monotonic()
    imputer, panel = _open_model(model, settings, frame, console)
    result = _run(imputer, ImputeTask.of(panel, options), console, intervals=True)
    _write_report(out, data, imputer, result, console, overwrite=overwrite)
    console.report(f"wrote {out}: {shape(panel)}{training_done(imputer, model, began)}")


@command(app)
def sample(
    data: Data,
    out: Out,
    settings: Settings,
    console: Console,
    model: Model = None,
    draws: Annotated[int, output("Number of draws.", min=1)] = 10,
    method: Annotated[str, output("As for impute: nrtsi, auto, …")] = "nrtsi",
    overwrite: Overwrite = False,
) -> None:
    """Draw several imputations of DATA, which differ by their uncertainty."""
    from nrtsi.imputer.options import check_method
    from nrtsi.tables.files import check_output, read_table, write_table

    check_output(out, overwrite=overwrite)
    check_method(method)
    table, began = read_table(data), time.monotonic()
    if "draw" in table.typed.column_names:
        raise InputError("data must have no column 'draw', which the result adds; rename it")
    imputer, panel = _open_model(model, settings, table.typed, console)
    with console.progress() as listener:
        if model is None:
            imputer.fit_panel(panel, listener=listener)
        drawn = imputer.sample(table.typed, draws=draws, method=method, listener=listener)
    write_table(out, table.stack(drawn), overwrite=overwrite)
    done = f"{count(draws, 'draw')} of {count(table.typed.num_rows, 'row')}"
    console.report(f"wrote {out}: {done}{training_done(imputer, model, began)}")


@command(app)
def evaluate(
    data: Data, settings: Settings, console: Console, model: Model = None, as_json: Json = False
) -> None:
    """Hide known values of DATA and print the error of each method on them."""
    from nrtsi.imputer.selection import backtest_panel
    from nrtsi.tables.files import read_table

    frame = read_table(data).typed
    imputer, panel = _open_model(model, settings, frame, console, "mask")
    with console.progress() as listener:
        backtest = backtest_panel(imputer, panel, listener=listener)
    if as_json:
        typer.echo(json.dumps(backtest.to_json(), indent=2))
        return
    given = settings.values
    budget, steps = given.get("budget", "60s"), given.get("steps")
    advice = f"a longer --budget ({budget})" if steps is None else f"more --steps ({steps})"
    console.scores_by_gap(backtest)
    console.scores(backtest, None if model else advice)


@command(app)
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by `nrtsi fit`.")],
    console: Console,
    as_json: Json = False,
) -> None:
    """Print what a model file contains."""
    from nrtsi.imputer.functions import load

    record = load(model).info()
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{name:<{width}}  {plain(value)}")


@command(app)
def demo(
    console: Console,
    out: Annotated[Path, output("Folder to write to.", metavar="FOLDER")] = Path("demo"),
    budget: Annotated[str, output("Training time.", metavar="TIME")] = "45s",
    overwrite: Overwrite = False,
) -> None:
    """Impute a small weather table that comes with nrtsi, and report the accuracy."""
    from nrtsi.cli.demo import run_demo
    from nrtsi.tables import parse_duration

    parse_duration(budget)  # finds a mistake before a folder is made
    with console.progress() as listener:
        result = run_demo(out, budget=budget, overwrite=overwrite, listener=listener)
    typer.echo(f"imputed  {result.missing:,} of {result.cells:,} cells of a weather station")
    for path in result.files:
        typer.echo(f"wrote    {path}")
    console.scores(result.backtest, f"a longer --budget ({budget})")
    typer.echo("\nNow your own file:\n\n  nrtsi impute your.csv --out filled.csv\n")


# Models and reports -----------------------------------------------------------------------------


def _check_model_output(out: Path, checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    """Checks, before any training, that the model can and may be written."""
    from nrtsi.core.atomic import check_writable
    from nrtsi.tables.files import SUFFIXES

    if out.name.lower().endswith(SUFFIXES):
        raise InputError(
            f"--out must name a model file, got {out}, which is the name of a table; write a name "
            f"such as {out.with_suffix('.nrtsi')}, or impute a table with nrtsi impute"
        )
    if checkpoint.exists() and not resume and not overwrite:
        raise InputError(
            f"{checkpoint} is left from an interrupted run; add --resume to continue it, "
            f"or --overwrite to start over"
        )
    check_writable(out, overwrite=overwrite or (resume and checkpoint.exists()))


def _open_model(
    path: Path | None, settings: Settings, frame: Any, console: Console, *allowed: str
) -> "tuple[NRTSI, Panel]":
    """The model in the file or a new one, and the data as it reads them."""
    model = _model(path, settings, *allowed)
    if path is not None:
        return model, model.read_fitted(frame)
    panel = model.read(frame)
    for note in panel.notes:
        console.note(note)
    return model, panel


def _model(path: Path | None, settings: Settings, *allowed: str) -> "NRTSI":
    """A new model; or that of the file, with the settings that may be changed."""
    from nrtsi.imputer.functions import load
    from nrtsi.imputer.nrtsi import NRTSI

    given = settings.given()
    if path is None:
        return NRTSI(**given)
    settings.reject_all_but("seed", "device", "on_empty", *allowed)
    if given.get("on_empty", "error") not in ("error", "skip"):
        raise InputError(f"--on-empty must be error or skip, got {given['on_empty']!r}")
    return load(path, device=given.pop("device", "auto")).set_params(**given)


def _run(
    model: "NRTSI", task: "ImputeTask", console: Console, *, intervals: bool
) -> "ImputationResult":
    """Imputes the data of a task, with a new model after it is fitted on them."""
    with console.progress() as listener:
        if not model.__sklearn_is_fitted__():
            model.fit_panel(task.panel, listener=listener)
        return model.run(task, listener, intervals=intervals)


def _write_report(
    path: Path,
    data: Path,
    model: "NRTSI",
    result: "ImputationResult",
    console: Console,
    *,
    overwrite: bool,
) -> None:
    """Back-tests the model and writes the report on all rows of the data."""
    from nrtsi.imputer.options import ImputeTask
    from nrtsi.imputer.selection import backtest_panel
    from nrtsi.report import write_report
    from nrtsi.report.build import report_of

    panel, options, note = result.task.panel, result.task.options, absent_rows(result.task.panel)
    with console.progress() as listener:
        backtest = backtest_panel(model, panel, listener=listener)
        if result.task.query is not panel:
            result = model.run(ImputeTask.of(panel, options), listener, intervals=True)
    content = report_of(
        panel,
        result,
        backtest,
        options,
        source=data.name,
        command=shlex.join(["nrtsi", *sys.argv[1:]]),
        settings=model.info(),
        remarks=[] if note is None else [note],
    )
    write_report(path, content, overwrite=overwrite)
