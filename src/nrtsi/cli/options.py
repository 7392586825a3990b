"""What the commands are made with: shared options, and mistakes told in one line."""

import csv
import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nrtsi import __version__
from nrtsi.errors import InputError, NrtsiError

__all__ = [
    "Asking",
    "Data",
    "Json",
    "Model",
    "OneLineErrors",
    "Out",
    "Overwrite",
    "Quiet",
    "Settings",
    "Verbose",
    "Version",
    "Console",
    "Wanted",
    "prepared",
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nrtsi {__version__}")
        raise typer.Exit


Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[Path | None, typer.Option(help="Model made by `nrtsi fit`.")]
Out = Annotated[Path, typer.Option(help="File to write: .csv, .tsv or .parquet.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what is done.")]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


# Options that belong together -----------------------------------------------------------------


@dataclass(frozen=True)
class Console:
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

    def start_logging(self) -> None:
        """Lets the library's own remarks be heard as loudly."""
        level = logging.INFO if self.verbose else logging.WARNING
        logging.basicConfig(
            level=logging.ERROR if self.quiet else level, format="nrtsi: %(message)s", force=True
        )


@dataclass(frozen=True)
class Settings:
    """Which columns are what, and how to train; what is not given is left to the library."""

    time: Annotated[str | None, typer.Option(help="Column of times.")] = None
    id: Annotated[str | None, typer.Option(help="Column that tells series apart.")] = None
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns of values, with commas between.")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time to train, such as 90s, 10m or 1h; 60s by default."
        ),
    ] = None
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, in place of a time.")
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of every random choice; 0 by default.")
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="Size: tiny, small, base, large or paper; by default what suits the budget."
        ),
    ] = None
    setting: Annotated[
        str | None,
        typer.Option(
            help="Order of imputation, usually left at auto, the default, which looks at the "
            "data: regular, irregular, stochastic, partial or auto."
        ),
    ] = None
    max_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Coarsest level, which reaches gaps of 2^LEVEL units; auto, the default, reaches "
            "the middle of the longest gap.",
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            help="Spread that training measures errors by: channel, the default, each channel's "
            "own; or shared, one for all, which suits channels of one unit."
        ),
    ] = None
    mask: Annotated[
        str | None,
        typer.Option(
            help="Cells hidden to learn and to score: own, points, blocks or auto, the default."
        ),
    ] = None
    recall: Annotated[
        bool | None,
        typer.Option(
            "--recall/--no-recall",
            help="Remember series, where there are many that cover the same time: the default. "
            "Their values may then be in the model's file.",
        ),
    ] = None
    flow: Annotated[
        bool | None,
        typer.Option(
            "--flow/--no-flow",
            help="Learn how rows go on, where many whole rows follow each other: the default.",
        ),
    ] = None
    field: Annotated[
        bool | None,
        typer.Option(
            "--field/--no-field",
            help="Learn how cells go with each other by column and time: the default.",
        ),
    ] = None
    on_empty: Annotated[
        str | None,
        typer.Option(
            help="A series with nothing known: error, the default, or skip to leave it missing."
        ),
    ] = None
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto, the default.")] = None
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="A=0:,B=0:100",
            help="What values of a column are at least and at most; a side may be left out.",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The settings that were given, as the library takes them.

        Raises:
            InputError: They contradict each other or cannot be read.
        """
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if "budget" in given and "steps" in given:
            raise InputError("--budget and --steps must not both be given; leave one of them out")
        if self.budget is not None:
            from nrtsi.tables import parse_duration

            parse_duration(self.budget)
        if self.columns is not None:
            given["columns"] = _names(self.columns)
        if self.max_level is not None and self.max_level.isdecimal():
            given["max_level"] = int(self.max_level)
        if self.bounds is not None:
            given["bounds"] = _bounds(self.bounds)
        model = {name: given.pop(name) for name in ("recall", "flow", "field") if name in given}
        if model:
            given["model"] = model
        return given

    def refuse_all_but(self, *names: str, because: str) -> None:
        """Raises where another setting than the named was given and would be ignored."""
        for each in fields(self):
            if each.name not in names and getattr(self, each.name) is not None:
                option = _as_option(each.name)
                raise InputError(f"{option} must not be given {because}; leave it out")


@dataclass(frozen=True)
class Wanted:
    """What is asked for beside the values; what is not given is not asked for."""

    method: Annotated[
        str | None,
        typer.Option(
            help="nrtsi, the default; a simple method such as linear; or auto: for each column "
            "and length of gap the method that was best on hidden values."
        ),
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Add columns between which a value lies with probability P, as 0.9."
        ),
    ] = None
    max_gap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Longest gap to fill, such as 6h, or a number of steps."
        ),
    ] = None
    max_width: Annotated[
        str | None,
        typer.Option(
            metavar="W",
            help="Widest interval to fill a value with, one for all columns or A=2,B=10.",
        ),
    ] = None
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance", help="Add columns: source, method, gap and interval of each value."
        ),
    ] = False

    def given(self) -> dict[str, Any]:
        """What was asked for beside the values, as `NRTSI.impute` takes it.

        Raises:
            InputError: A width cannot be read.
        """
        names = ("method", "interval", "max_gap", "max_width", "provenance")
        given = {name: getattr(self, name) for name in names}
        given = {
            n: value for n, value in given.items() if value is not None and value is not False
        }
        if self.max_width is not None:
            given["max_width"] = _widths(self.max_width)
        return given


@dataclass(frozen=True)
class Asking(Wanted):
    """What is asked of an imputation."""

    at: Annotated[
        Path | None, typer.Option(help="File of the times at which values are wanted.")
    ] = None
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Values at this spacing, such as 15min.")
    ] = None

    def given(self) -> dict[str, Any]:
        """As for `Wanted`.

        Raises:
            InputError: As there, or both `at` and `every` are given.
        """
        if self.at is not None and self.every is not None:
            raise InputError("--at and --every must not both be given; leave one of them out")
        return super().given()

    def of_all_data(self) -> dict[str, Any]:
        """What takes all of the data at once; None where it was not asked for."""
        names = ("at", "every", "method", "interval", "provenance")
        return {name: None if (value := getattr(self, name)) is False else value for name in names}


def _pairs(text: str, option: str, example: str) -> dict[str, str]:
    """What stands behind the = of each name.

    >>> _pairs('a=1, "b, in m"=2', "--max-width", "a=1,b=2")
    {'a': '1', 'b, in m': '2'}
    """
    parts = [part for row in csv.reader([_quoted(text)], skipinitialspace=True) for part in row]
    pairs = dict(part.rpartition("=")[::2] for part in parts)
    if not pairs or "" in pairs:
        raise InputError(f"{option} must be names and values, got {text!r}; write {example}")
    return {name.strip(): value.strip() for name, value in pairs.items()}


def _quoted(text: str) -> str:
    """A quoted name with its value as one quoted cell, as CSV wants it."""
    return re.sub(r'"([^"]*)"(=[^,]*)', r'"\1\2"', text)


def _bounds(text: str) -> dict[str, tuple[float | None, float | None]]:
    """Bounds of columns.

    >>> _bounds("rain=0:,humidity=0:100")
    {'rain': (0.0, None), 'humidity': (0.0, 100.0)}
    """
    example = "rain=0:,humidity=0:100"
    bounds = {}
    for name, pair in _pairs(text, "--bounds", example).items():
        lower, colon, upper = pair.partition(":")
        if not colon:
            raise InputError(
                f"--bounds must be LOWER:UPPER for each column, got {pair!r}; write {example}"
            )
        ends = [_number(end, "--bounds", example) if end else None for end in (lower, upper)]
        bounds[name] = (ends[0], ends[1])
    return bounds


def _widths(text: str) -> float | dict[str, float]:
    """One width for all columns, or one by column.

    >>> _widths("2.5"), _widths("a=1,b=2")
    (2.5, {'a': 1.0, 'b': 2.0})
    """
    if "=" not in text:
        return _number(text, "--max-width", "2.5, or a=1,b=2")
    pairs = _pairs(text, "--max-width", "a=1,b=2")
    return {name: _number(width, "--max-width", "a=1,b=2") for name, width in pairs.items()}


def _number(text: str, option: str, example: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option} must hold numbers, got {text!r}; write {example}") from None


def _names(text: str) -> list[str]:
    """Column names as in a line of CSV, so that one with a comma can be put in quotes.

    >>> _names('x, "y, in m", z')
    ['x', 'y, in m', 'z']
    """
    names = [name.strip() for row in csv.reader([text], skipinitialspace=True) for name in row]
    if not names or not all(names):
        raise InputError(
            f"--columns must be names with commas between, got {text!r}; write --columns a,b,c"
        )
    return names


# From a function to a subcommand --------------------------------------------------------------


def prepared(function: Callable[..., None]) -> Callable[..., None]:
    """Makes of `function` what typer takes as a subcommand; it needs a parameter `console`.

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
    return run


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
    function: Callable[..., None], options: dict[str, Any], general: Console
) -> dict[str, Any]:
    grouped: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            grouped[name] = kind(**{f.name: options[f.name] for f in fields(kind)})
        else:
            grouped[name] = options[name]
    own = grouped["console"]
    console = Console(own.quiet or general.quiet, own.verbose or general.verbose)
    console.start_logging()
    return grouped | {"console": console}


# Mistakes in one line ---------------------------------------------------------------------------

# typer shows the class but has no name for it: what every mistake in the options is.
_UsageError: Any = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """Commands that tell a mistake in their options as they tell any other, in one line."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Runs the command that the arguments name, and ends the process."""
        try:
            status = super().main(*arguments, **settings | {"standalone_mode": False})
        except _UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "nrtsi"
            line = " ".join(error.format_message().split()).removesuffix(".")
            typer.echo(f"nrtsi: {line} (see {where} --help)", err=True)
            status = 2
        sys.exit(status or 0)


def _in_options(message: str) -> str:
    """A message of the library on one line, its arguments spelled as options.

    >>> _in_options("name it with id=, or set on_empty='skip'")
    'name it with --id, or set --on-empty skip'
    """

    def option(match: re.Match[str]) -> str:
        return f"{_as_option(match['name'])} {match['value'] or ''}".rstrip()

    names = "|".join(f.name for kind in (Settings, Asking) for f in fields(kind))
    line = " ".join(message.split())
    return re.sub(rf"\b(?P<name>{names})=(?:'(?P<value>\w+)')?", option, line)


def _as_option(name: str) -> str:
    return "--" + name.replace("_", "-")
