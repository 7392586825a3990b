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
    "Voice",
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
            "the middle of the longest hole.",
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            help="Spread that training measures errors by: channel, the default, each channel's "
            "own; or together, one for all, which suits channels of one unit."
        ),
    ] = None
    hide: Annotated[
        str | None,
        typer.Option(
            help="Cells hidden to learn and to score: own, points, blocks or auto, the default."
        ),
    ] = None
    on_empty: Annotated[
        str | None,
        typer.Option(
            help="A series with nothing known: error, the default, or skip to leave it missing."
        ),
    ] = None
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto, the default.")] = None

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
            from nrtsi.frames import duration

            duration(self.budget)
        if self.columns is not None:
            given["columns"] = _names(self.columns)
        if self.max_level is not None and self.max_level.isdecimal():
            given["max_level"] = int(self.max_level)
        return given

    def refuse_all_but(self, *names: str, because: str) -> None:
        """Raises where another setting than the named was given and would be ignored."""
        for each in fields(self):
            if each.name not in names and getattr(self, each.name) is not None:
                option = _as_option(each.name)
                raise InputError(f"{option} must not be given {because}; leave it out")


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
    """Makes of `function` what typer takes as a subcommand; it needs a parameter `voice`.

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
    voice.start_logging()
    return grouped | {"voice": voice}


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

    names = "|".join(f.name for f in fields(Settings))
    line = " ".join(message.split())
    return re.sub(rf"\b(?P<name>{names})=(?:'(?P<value>\w+)')?", option, line)


def _as_option(name: str) -> str:
    return "--" + name.replace("_", "-")
