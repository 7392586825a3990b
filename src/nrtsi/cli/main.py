"""The `nrtsi` command: parse, call the library, print."""

# PyTorch, pyarrow and scikit-learn take seconds to import and `nrtsi --help` should not, so
# every command imports what it needs inside.

import gc
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nrtsi.cli.commands import bench, data, plot, stream
from nrtsi.cli.commands.page import Page
from nrtsi.cli.messages import (
    absent_rows,
    count,
    imputed,
    methods,
    plain,
    print_gaps,
    print_scores,
    shape,
    work,
)
from nrtsi.cli.options import (
    Asking,
    Console,
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
    Wanted,
    prepared,
)
from nrtsi.cli.progress import ProgressBar
from nrtsi.core.launch import launch
from nrtsi.errors import InputError, TrainingError

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.tables import Panel
    from nrtsi.tables.files import Table

__all__ = ["app", "main"]

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes show flags as if they took a value: --quiet <bool>
    help="Fill the gaps of time series, from coarse to fine, and say how good the filling is.",
    epilog="First time? Try: nrtsi demo",
)


app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(plot.app, name="plot")


def main() -> None:
    """Runs the command line."""
    # Read once, when PyTorch is imported. Its threads spin while they wait for each other; on a
    # machine busy with something else that keeps the awaited thread from running. A short spin is
    # as fast where nothing else runs.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # oneDNN keeps its latest 1,024 kernels, one for every shape it meets, and windows have many
    # shapes: memory would grow for long.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # An import makes a million objects and hardly any garbage; looking for it every 700 objects,
    # as Python does, takes a tenth of the time of a short command.
    gc.set_threshold(100_000)
    app()


@app.callback()
def _general(
    ctx: typer.Context,
    quiet: Quiet = False,
    verbose: Verbose = False,
    version: Version = False,
) -> None:
    place = launch()
    ctx.obj = Console(quiet or not place.is_first, verbose)
    if place.size > 1 and ctx.invoked_subcommand != "fit":
        if place.is_first:
            typer.echo(f"nrtsi: {_ALONE}", err=True)
        raise typer.Exit(2)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


_ALONE = (
    "several processes must run nrtsi fit, got another command; "
    "run it in one process, with the --model that they fitted"
)


@app.command()
@prepared
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Model file to write, such as model.nrtsi.")],
    settings: Settings,
    console: Console,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run cut short.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a model on DATA and keep it for later."""
    from nrtsi.tables.files import read_table

    checkpoint, leads = out.with_name(out.name + ".checkpoint"), launch().is_first
    _check_model_output(out, checkpoint, resume=resume, overwrite=overwrite)
    if resume and not checkpoint.exists():
        console.say(f"there is no {checkpoint} to resume; starting from the beginning")
    table, began = read_table(data), time.monotonic()
    model, panel = _new_model(settings, table, console)
    try:
        with ProgressBar(quiet=console.quiet) as listener:
            model.fit_panel(panel, listener=listener, path=checkpoint, resume=resume)
    except TrainingError:
        if not leads:
            return  # a failure here would have the one that leads killed while it writes
        model.save(out)
        console.say(f"wrote {out} with the last good weights")
        raise
    if not leads:
        return
    model.save(out)
    if not model.interrupted_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists():
        console.say(f"training was cut short; add --resume to go on from {checkpoint}")
    console.report(f"wrote {out}: {shape(model, table)}{work(model, None, began)}")


@app.command()
@prepared
def impute(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="CSV or Parquet file, or a folder of Parquet files."),
    ],
    out: Annotated[
        Path,
        typer.Option(help="File to write: .csv, .tsv or .parquet; a folder where DATA is one."),
    ],
    settings: Settings,
    console: Console,
    stream_options: stream.StreamOptions,
    asking: Asking,
    model: Model = None,
    report: Annotated[
        Path | None, typer.Option(help="Page to write beside it, .html: what was done, how well.")
    ] = None,
) -> None:
    """Fill the missing values of DATA, by a model or by training on DATA itself."""
    from nrtsi.imputer.options import ImputeOptions, ImputeTask
    from nrtsi.scale.journal import memory_for
    from nrtsi.scale.sources import in_parts
    from nrtsi.tables.files import (
        check_output,
        prevent_pandas_import,
        read_table,
        write_table,
    )

    prevent_pandas_import()
    options = ImputeOptions(**asking.given())
    memory = memory_for(stream_options.memory, out, resume=stream_options.resume)
    if in_parts(data, out, memory):
        stream.refuse_in_parts(data, report=report, **asking.of_all_data())
        imputer = _any_model(model, settings)
        stream.impute_in_parts(imputer, options, model, data, out, stream_options, console)
        return
    stream.refuse_whole(data, out, stream_options, console)
    check_output(out, overwrite=stream_options.overwrite)
    page = None if report is None else Page(report, data, overwrite=stream_options.overwrite)
    at = None if asking.at is None else read_table(asking.at).typed
    table, began = read_table(data), time.monotonic()
    imputer, panel = _model(model, settings, table, console)
    imputer.memory_limit = memory
    task = ImputeTask.of(panel, options, at=at, every=asking.every)
    whole, new = task.query is panel, model is None
    if new and whole and (remark := absent_rows(panel)) is not None:
        console.say(remark)
    plain = options == ImputeOptions() and page is None
    if new and whole and panel.series.observed.all() and plain:
        write_table(out, table, overwrite=stream_options.overwrite)
        console.report(f"wrote {out}: nothing was missing")
        return
    with ProgressBar(quiet=console.quiet) as listener:
        if new:
            imputer.fit_panel(panel, listener=listener)
        result = imputer.run(task, listener, intervals=page is not None)
    frame = result.frame()
    imputed_table = table.fill(frame) if whole else table.without_text(frame)
    write_table(out, imputed_table, overwrite=stream_options.overwrite)
    at_times = f"{count(frame.num_rows, 'row')} at the times asked for"
    done = imputed(imputer, table, frame) if whole else at_times
    console.report(f"wrote {out}: {done}{work(imputer, model, began)}")
    if options.method == "auto":
        console.report(f"filled {methods(imputer)}, by length of gap where there are several")
    if page is not None:
        with ProgressBar(quiet=console.quiet) as listener:
            page.write(imputer, result if whole else None, panel, options, listener)
        console.report(f"wrote {page.path}")


@app.command()
@prepared
def report(
    data: Data,
    out: Annotated[Path, typer.Option(help="Page to write, such as report.html.")],
    settings: Settings,
    asking: Wanted,
    console: Console,
    model: Model = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a page on DATA: what is missing, how it would be filled, and how well."""
    from nrtsi.imputer.options import ImputeOptions, ImputeTask
    from nrtsi.tables.files import read_table

    page, options = Page(out, data, overwrite=overwrite), ImputeOptions(**asking.given())
    table, began = read_table(data), time.monotonic()
    imputer, panel = _model(model, settings, table, console)
    with ProgressBar(quiet=console.quiet) as listener:
        ImputeTask.of(panel, options)
        if model is None:
            imputer.fit_panel(panel, listener=listener)
        page.write(imputer, None, panel, options, listener)
    console.report(f"wrote {out}: {shape(imputer, table)}{work(imputer, model, began)}")


@app.command()
@prepared
def sample(
    data: Data,
    out: Out,
    settings: Settings,
    console: Console,
    model: Model = None,
    draws: Annotated[int, typer.Option(min=1, help="How many fillings to draw.")] = 10,
    method: Annotated[str, typer.Option(help="As for impute: nrtsi, auto, or another.")] = "nrtsi",
    overwrite: Overwrite = False,
) -> None:
    """Draw several fillings of DATA, to see how sure the values are."""
    from nrtsi.imputer.options import check_method
    from nrtsi.tables.files import check_output, read_table, write_table

    check_output(out, overwrite=overwrite)
    check_method(method)
    table, began = read_table(data), time.monotonic()
    _check_drawable(table)
    imputer, panel = _model(model, settings, table, console)
    with ProgressBar(quiet=console.quiet) as listener:
        if model is None:
            imputer.fit_panel(panel, listener=listener)
        drawn = imputer.sample(table.typed, draws=draws, method=method, listener=listener)
    write_table(out, table.stack(drawn), overwrite=overwrite)
    done = f"{count(draws, 'draw')} of {count(table.typed.num_rows, 'row')}"
    console.report(f"wrote {out}: {done}{work(imputer, model, began)}")


@app.command()
@prepared
def evaluate(
    data: Data,
    settings: Settings,
    console: Console,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Hide known values of DATA and print how well each method finds them again."""
    from nrtsi.tables.files import read_table

    table = read_table(data)
    if model is None:
        imputer, _ = _new_model(settings, table, console)
    else:
        imputer = _loaded(model, settings, "seed", "device", "mask", "on_empty")
    with ProgressBar(quiet=console.quiet) as listener:
        trial = imputer.backtest(table.typed, listener=listener)
    if as_json:
        typer.echo(json.dumps(trial.to_json(), indent=2))
    else:
        steps = f"more --steps ({settings.steps})" if settings.steps else None
        longer = steps or f"a longer --budget ({settings.budget or '60s'})"
        print_gaps(trial)
        print_scores(trial, None if model else longer)


@app.command()
@prepared
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by `nrtsi fit`.")],
    console: Console,
    as_json: Json = False,
) -> None:
    """Print what a model file holds."""
    from nrtsi.imputer.functions import load

    record = load(model).info()
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{name:<{width}}  {plain(value)}")


@app.command()
@prepared
def demo(
    console: Console,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "demo"
    ),
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time of each training.")] = "45s",
    overwrite: Overwrite = False,
) -> None:
    """Fill a small weather file that comes with nrtsi, and report on how good that is."""
    from nrtsi.cli.demo import run_demo
    from nrtsi.tables import parse_duration

    parse_duration(budget)  # refuses a mistake before a folder is made
    with ProgressBar(quiet=console.quiet) as listener:
        result = run_demo(out, budget=budget, overwrite=overwrite, listener=listener)
    typer.echo(
        f"filled   {result.missing:,} of {result.cells:,} cells of a weather station's data"
    )
    for path in (result.filled, result.picture, result.page):
        typer.echo(f"wrote    {path}")
    print_scores(result.backtest, f"a longer --budget ({budget})")
    typer.echo("\nNow your own file:\n\n  nrtsi impute your.csv --out filled.csv\n")


# Models, new and from files --------------------------------------------------------------------


def _check_model_output(out: Path, checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuses, before any training, an output that cannot or should not be written."""
    from nrtsi.core.atomic import check_writable
    from nrtsi.tables.files import SUFFIXES

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


def _check_drawable(table: "Table") -> None:
    """Finds out before training what would keep `sample` from its result afterwards."""
    if "draw" in table.typed.column_names:
        raise InputError("data must have no column 'draw', which the result adds; rename it")


def _new_model(settings: Settings, table: "Table", console: Console) -> "tuple[NRTSI, Panel]":
    """A model still to be fitted, and the data as it reads them.

    Says first, before any training, what it takes for what.
    """
    from nrtsi.imputer.nrtsi import NRTSI

    model = NRTSI(**settings.given())
    panel = model.read(table.typed)
    for guess in panel.notes:
        console.say(guess)
    return model, panel


def _model(
    path: Path | None, settings: Settings, table: "Table", console: Console
) -> "tuple[NRTSI, Panel]":
    """The model in the file or a new one, and the data as it reads them."""
    if path is None:
        return _new_model(settings, table, console)
    model = _loaded(path, settings, "seed", "device", "on_empty")
    return model, model.read_fitted(table.typed)


def _any_model(path: Path | None, settings: Settings) -> "NRTSI":
    """The model in the file; or a new one, still to be fitted."""
    from nrtsi.imputer.nrtsi import NRTSI

    if path is None:
        return NRTSI(**settings.given())
    return _loaded(path, settings, "seed", "device", "on_empty")


def _loaded(path: Path, settings: Settings, *allowed: str) -> "NRTSI":
    """The model in the file, which has all settings but the allowed ones."""
    from nrtsi.imputer.functions import load

    settings.refuse_all_but(*allowed, because="with --model, which has its own")
    if settings.on_empty not in (None, "error", "skip"):
        raise InputError(f"--on-empty must be error or skip, got {settings.on_empty!r}; mend it")
    words = {name: getattr(settings, name) for name in ("seed", "mask", "on_empty")}
    given = {name: word for name, word in words.items() if word is not None}
    model = load(path, device=settings.device or "auto")
    return model.set_params(**given) if given else model
