"""The `nrtsi` command: parse, call the library, print."""

# PyTorch, pyarrow and scikit-learn take seconds to import and `nrtsi --help` should not, so
# every command imports what it needs inside.

import csv
import functools
import inspect
import json
import logging
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nrtsi import __version__
from nrtsi.errors import InputError, NrtsiError, TrainingError

if TYPE_CHECKING:
    from nrtsi.evaluation import Evaluation
    from nrtsi.files import Table
    from nrtsi.imputer import NRTSI
    from nrtsi.progress import ProgressBar

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fill the holes of time series, from coarse to fine, and say how good the filling is.",
    epilog="First time? Try: nrtsi demo",
)


def main() -> None:
    """Runs the command line."""
    app()


# Options that several commands share ---------------------------------------------------------


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what is done.")]


@dataclass(frozen=True)
class Voice:
    """How much is said on standard error."""

    quiet: Quiet = False
    verbose: Verbose = False

    def say(self, line: str) -> None:
        """Prints a remark, unless told to be quiet."""
        if not self.quiet:
            typer.echo(f"nrtsi: {line}", err=True)

    def report(self, line: str) -> None:
        """Prints what was done to standard output, unless told to be quiet."""
        if not self.quiet:
            typer.echo(line)

    def progress(self) -> "ProgressBar":
        """A progress bar on standard error."""
        from nrtsi.progress import ProgressBar

        return ProgressBar(quiet=self.quiet)


@dataclass(frozen=True)
class Settings:
    """Which columns are what, and how to train; what is not given is left to the library."""

    time: Annotated[str | None, typer.Option(help="Column of times.")] = None
    id: Annotated[str | None, typer.Option(help="Column that tells series apart.")] = None
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns of values, with commas between.")
    ] = None
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time to train, such as 90s, 10m or 1h.")
    ] = None
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, in place of a time.")
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random choice.")] = None
    preset: Annotated[
        str | None, typer.Option(help="Size: tiny, small, base, large or paper.")
    ] = None
    setting: Annotated[
        str | None,
        typer.Option(help="Order of imputation: regular, irregular, stochastic, partial or auto."),
    ] = None
    hide: Annotated[
        str | None,
        typer.Option(help="Cells hidden to learn and to score: own, points, blocks or auto."),
    ] = None
    on_empty: Annotated[
        str | None,
        typer.Option(help="A series with nothing known: error, or skip to leave it missing."),
    ] = None
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto.")] = None

    def given(self) -> dict[str, Any]:
        """The settings that were given, as the library takes them."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if "budget" in given and "steps" in given:
            raise InputError("--budget and --steps must not both be given; leave one of them out")
        if self.budget is not None:
            from nrtsi.frames import duration

            duration(self.budget)
        if self.columns is not None:
            # As in a CSV line, so that a name with a comma can be put in quotes.
            given["columns"] = [name.strip() for name in next(csv.reader([self.columns]))]
        return given

    def refuse(self, *names: str, because: str) -> None:
        """Raises where one of the named settings was given and would be ignored."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"--{name} must not be given {because}; leave it out")


Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file.")]
Model = Annotated[Path | None, typer.Option(help="Model made by `nrtsi fit`.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]
Out = Annotated[Path, typer.Option(help="File to write: .csv, .tsv or .parquet.")]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Makes a subcommand of `function`.

    A parameter whose type is a dataclass becomes one option for every field. A mistake of the
    user ends with one line and status 2, Ctrl-C with one line and status 130; anything else is
    our bug and keeps its traceback.
    """

    @functools.wraps(function)
    def run(ctx: typer.Context, **options: Any) -> None:
        try:
            function(**_grouped(function, options, ctx.obj))
        except NrtsiError as error:
            typer.echo(f"nrtsi: {_in_options(str(error))}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("nrtsi: interrupted; no output was written", err=True)
            raise typer.Exit(130) from error

    _declare(run, [_CONTEXT, *_flat(function)])
    return app.command()(run)


def _in_options(message: str) -> str:
    """A message of the library on one line, its arguments spelled as options.

    >>> _in_options("name it with id=, or set on_empty='skip'")
    'name it with --id, or set --on-empty skip'
    """
    line = " ".join(message.split())

    def option(match: re.Match[str]) -> str:
        name = "--" + match["name"].replace("_", "-")
        return f"{name} {match['value']}" if match["value"] else name

    return re.sub(r"\b(?P<name>time|id|columns|on_empty)=(?:'(?P<value>\w+)')?", option, line)


_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _flat(function: Callable[..., None]) -> list[inspect.Parameter]:
    flat: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        nested = is_dataclass(parameter.annotation)
        inner = inspect.signature(parameter.annotation).parameters if nested else {}
        flat.extend(inner.values() if nested else [parameter])
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in flat]


def _declare(run: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]  # typer would look through to it


def _grouped(
    function: Callable[..., None], options: dict[str, Any], general: Voice
) -> dict[str, Any]:
    grouped: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            grouped[name] = kind(**{f.name: options[f.name] for f in fields(kind)})
        else:
            grouped[name] = options[name]
    own = grouped["voice"]
    voice = Voice(own.quiet or general.quiet, own.verbose or general.verbose)
    _start_logging(voice)
    return grouped | {"voice": voice}


def _start_logging(voice: Voice) -> None:
    level = logging.INFO if voice.verbose else logging.WARNING
    logging.basicConfig(
        level=logging.ERROR if voice.quiet else level, format="nrtsi: %(message)s", force=True
    )


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
    ctx: typer.Context,
    quiet: Quiet = False,
    verbose: Verbose = False,
    version: Version = False,
) -> None:
    ctx.obj = Voice(quiet, verbose)


# Commands ------------------------------------------------------------------------------------


@_command
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    settings: Settings,
    voice: Voice,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run cut short.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a model on DATA and keep it for later."""
    from nrtsi.atomic import check_writable
    from nrtsi.files import read_table

    checkpoint = out.with_name(out.name + ".checkpoint")
    check_writable(out, overwrite=overwrite or (resume and checkpoint.exists()))
    _check_checkpoint(checkpoint, resume=resume, overwrite=overwrite, voice=voice)
    table, began = read_table(data), time.monotonic()
    model = _new_model(settings, table, voice)
    try:
        with voice.progress() as listener:
            model.fit(table.typed, listener=listener, checkpoint=checkpoint, resume=resume)
    except TrainingError:
        model.save(out)
        voice.say(f"wrote {out} with the last good weights")
        raise
    model.save(out)
    if checkpoint.exists():
        voice.say(f"training was cut short; add --resume to go on from {checkpoint}")
    voice.report(f"wrote {out}: {_shape(model, table)}, {_trained(model, began)}")


@_command
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
    from nrtsi.files import Table, check_output, read_table, write_table

    if at is not None and every is not None:
        raise InputError("--at and --every must not both be given; leave one of them out")
    check_output(out, overwrite=overwrite)
    table, asked = read_table(data), None if at is None else read_table(at).typed
    whole, began = at is None and every is None, time.monotonic()
    if model is None and whole and _is_complete(table, settings):
        write_table(out, table, overwrite=overwrite)
        voice.report(f"wrote {out}: nothing was missing")
        return
    with voice.progress() as listener:
        imputer = _ready_model(model, settings, table, voice, listener)
        filled = imputer.impute(table.typed, at=asked, every=every, listener=listener)
    result = table.fill(filled) if whole else Table(filled, None, table.delimiter)
    write_table(out, result, overwrite=overwrite)
    done = _imputed(imputer, table, filled) if whole else _count(filled.num_rows, "row")
    voice.report(f"wrote {out}: {done}, {_trained(imputer, began)}")


@_command
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
    from nrtsi.files import Table, check_output, read_table, write_table

    check_output(out, overwrite=overwrite)
    table, began = read_table(data), time.monotonic()
    with voice.progress() as listener:
        imputer = _ready_model(model, settings, table, voice, listener)
        drawn = imputer.sample(table.typed, draws=draws, listener=listener)
    write_table(out, Table(drawn, None, table.delimiter), overwrite=overwrite)
    done = f"{_count(draws, 'draw')} of {_count(table.typed.num_rows, 'row')}"
    voice.report(f"wrote {out}: {done}, {_trained(imputer, began)}")


@_command
def evaluate(
    data: Data,
    settings: Settings,
    voice: Voice,
    model: Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hide known values of DATA and print how well each method finds them again."""
    from nrtsi.evaluation import evaluate as score
    from nrtsi.files import read_table

    given, trained = settings.given(), None
    table = read_table(data)
    if model is not None:
        names = [f.name for f in fields(settings) if f.name not in ("seed", "device", "hide")]
        settings.refuse(*names, because="with --model, which has its own")
        trained = _loaded(model, settings)
        given.pop("device", None)
    with voice.progress() as listener:
        evaluation = score(table.typed, model=trained, listener=listener, **given)
    if as_json:
        typer.echo(json.dumps(evaluation.to_json(), indent=2))
    else:
        _print_scores(evaluation)


@_command
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by `nrtsi fit`.")],
    voice: Voice,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a model file holds."""
    from nrtsi.imputer import load

    record = load(model).info()
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        typer.echo(f"{name:<{width}}  {shown}")


@_command
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

    with voice.progress() as listener:
        result = run_demo(out, budget=budget, overwrite=overwrite, listener=listener)
    typer.echo(
        f"filled   {result.missing:,} of {result.cells:,} cells of a weather station's data"
    )
    typer.echo(f"wrote    {result.filled}\nwrote    {result.picture}")
    _print_scores(result.evaluation)
    typer.echo("\nNow your own file:\n\n  nrtsi impute your.csv --out filled.csv\n")


# What the commands have in common --------------------------------------------------------------


def _check_checkpoint(checkpoint: Path, *, resume: bool, overwrite: bool, voice: Voice) -> None:
    if resume and not checkpoint.exists():
        voice.say(f"there is no {checkpoint} to resume; starting from the beginning")
    if checkpoint.exists() and not resume and not overwrite:
        raise InputError(
            f"{checkpoint} is left from a run that was cut short; add --resume to go on with it, "
            f"or --overwrite to start anew"
        )


def _new_model(settings: Settings, table: "Table", voice: Voice) -> "NRTSI":
    """A model still to be fitted; says first, before any training, what it takes for what."""
    from nrtsi.imputer import NRTSI

    model = NRTSI(**settings.given())
    for guess in model.read(table.typed).guesses:
        voice.say(guess)
    return model


def _is_complete(table: "Table", settings: Settings) -> bool:
    """True where nothing is missing, so that there is nothing to train for."""
    from nrtsi.imputer import NRTSI

    return bool(NRTSI(**settings.given()).read(table.typed).series.observed.all())


def _ready_model(
    path: Path | None, settings: Settings, table: "Table", voice: Voice, listener: "ProgressBar"
) -> "NRTSI":
    """The model in the file, or one trained on the table itself."""
    if path is None:
        return _new_model(settings, table, voice).fit(table.typed, listener=listener)
    names = [f.name for f in fields(settings) if f.name not in ("seed", "device")]
    settings.refuse(*names, because="with --model, which has its own")
    return _loaded(path, settings)


def _loaded(path: Path, settings: Settings) -> "NRTSI":
    from nrtsi.imputer import load

    model = load(path, device=settings.device or "auto")
    return model if settings.seed is None else model.set_params(seed=settings.seed)


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
    return (
        f"{missing(table.typed) - missing(filled):,} of {cells} imputed ({_shape(model, table)})"
    )


def _trained(model: "NRTSI", began: float) -> str:
    return f"{_count(model.steps_, 'step')} in {time.monotonic() - began:.0f} s"


def _print_scores(evaluation: "Evaluation") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    terminal = sys.stdout.isatty()
    grid = RichTable(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal)
    for name in ("method", "MSE", "MAE", "seconds"):
        grid.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for name, score in evaluation.methods.items():
        grid.add_row(name, f"{score.mse:.4g}", f"{score.mae:.4g}", f"{score.seconds:.1f}")
    for name, reason in evaluation.failed.items():
        grid.add_row(name, "failed", reason, "")
    Console(width=None if terminal else 120, highlight=False).print(grid)
    typer.echo(
        f"{evaluation.hidden:,} of {evaluation.cells:,} known cells were hidden; "
        f"errors are in standard deviations of each column"
    )
    if evaluation.seen:
        typer.echo("the model was trained on this data, so its own error is flattering")
