"""Options that several commands share, with help from the docstrings of the library."""

import ast
import csv
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import nrtsi
from nrtsi.cli.command import ADVANCED, DATA, OUTPUT, TRAINING, OptionGroup, as_option
from nrtsi.errors import InputError

__all__ = [
    "Data",
    "DataOrFolder",
    "Json",
    "LibraryOption",
    "Model",
    "Out",
    "Overwrite",
    "QueryOptions",
]
__all__ += ["ResultOptions", "Settings", "StreamOptions", "output"]


def output(help: str, *flags: str, **settings: Any) -> Any:
    """An option in the section of the output."""
    return typer.Option(*flags, help=help, rich_help_panel=OUTPUT, **settings)


def _data(help: str) -> Any:
    return typer.Argument(metavar="DATA", help=help, rich_help_panel=DATA)


Data = Annotated[Path, _data("CSV or Parquet file.")]
DataOrFolder = Annotated[Path, _data("CSV or Parquet file, or a folder of Parquet files.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_MODEL = "Model written by `nrtsi fit`. Default: train on DATA."
Model = Annotated[Path | None, typer.Option(help=_MODEL, rich_help_panel=TRAINING)]
Out = Annotated[Path, output("File to write: .csv, .tsv or .parquet.")]
Overwrite = Annotated[bool, output("Replace an existing output.", "--overwrite")]


# Help from docstrings ---------------------------------------------------------------------------


@cache
def _parameters(method: str) -> dict[str, tuple[str, Any, str]]:
    """The type, default and description of each parameter of a method of `NRTSI`.

    Those of the constructor are documented by the class. The source is parsed, not imported: the
    import takes seconds, and a help text should not.
    """
    source = (Path(nrtsi.__file__).parent / "imputer" / "nrtsi.py").read_text("utf-8")
    kinds = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    owner = next(node for node in kinds if node.name == "NRTSI")
    functions = (node for node in owner.body if isinstance(node, ast.FunctionDef))
    function = next(node for node in functions if node.name == method)
    texts = _descriptions(ast.get_docstring(owner if method == "__init__" else function) or "")
    return {
        each.arg: (
            ast.unparse(each.annotation) if each.annotation else "",
            ast.literal_eval(default) if default is not None else None,
            texts.get(each.arg, ""),
        )
        for each, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    }


def _descriptions(docstring: str) -> dict[str, str]:
    """The descriptions in the section "Args" of a docstring.

    >>> _descriptions('''Imputes.
    ...
    ... Args:
    ...     every: Spacing, such as "15min"
    ...         or a number.
    ...     at: Times.
    ... ''')
    {'every': 'Spacing, such as 15min or a number.', 'at': 'Times.'}
    """
    section = re.search(r"^Args:\n((?: .*\n?|\n)*)", docstring, re.MULTILINE)
    found = re.split(r"^    (\w+): ", section[1] if section else "", flags=re.MULTILINE)
    texts = (" ".join(re.sub(r'["`]', "", text).split()) for text in found[2::2])
    return dict(zip(found[1::2], texts, strict=True))


_TYPES = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class LibraryOption:
    """How an option that sets a parameter of the library is shown and read."""

    panel: str
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None  # converts the text of the option
    help: str | None = None  # replaces the description of the library
    minimum: int | None = None

    def declared(self, name: str, kind: str, default: Any, text: str) -> inspect.Parameter:
        """The option as typer takes it; None stands for the default of the library."""
        of = _TYPES.get(kind.removesuffix(" | None"), str)
        text = self.help or text
        if default is not None and default is not False and "Default" not in text:
            text += f" Default: {default}."
        option = typer.Option(
            *([as_option(name)] if of is bool else []),
            help=text,
            metavar=self.metavar,
            min=self.minimum,
            rich_help_panel=self.panel,
        )
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if of is bool else None,
            annotation=Annotated[of if of is bool else of | None, option],
        )


class _LibraryOptions(OptionGroup):
    """A group of options that are parameters of a method of `NRTSI`."""

    options: ClassVar[dict[str, LibraryOption]]
    exclusive: ClassVar[tuple[str, ...]] = ()  # two options, of which one may be given

    def __init_subclass__(cls, method: str) -> None:
        known = _parameters(method)
        parameters = [option.declared(name, *known[name]) for name, option in cls.options.items()]
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __init__(self, **values: Any) -> None:
        self.values = {name: v for name, v in values.items() if v is not None and v is not False}

    def given(self) -> dict[str, Any]:
        """The options that the user gave, as arguments of the library.

        Raises:
            InputError: One cannot be read, or two contradict each other.
        """
        if self.exclusive and all(name in self.values for name in self.exclusive):
            both = " and ".join(map(as_option, self.exclusive))
            raise InputError(f"{both} must not both be given; leave one of them out")
        return {
            name: value if (parse := self.options[name].parse) is None else parse(value)
            for name, value in self.values.items()
        }

    def reject_all_but(self, *names: str) -> None:
        """Raises `InputError` for an option that a saved model would ignore."""
        for name in self.values:
            if name not in names:
                raise InputError(
                    f"{as_option(name)} must not be given with --model, which has its own; "
                    f"leave it out"
                )


# Text of options --------------------------------------------------------------------------------


def _names(option: str) -> Callable[[str], list[str]]:
    """Parses names as in a line of CSV, so that a name with a comma can be quoted.

    >>> _names("--columns")('x, "y, in m", z')
    ['x', 'y, in m', 'z']
    """

    def parse(text: str) -> list[str]:
        names = [name.strip() for row in csv.reader([text], skipinitialspace=True) for name in row]
        if not names or not all(names):
            raise InputError(
                f"{option} must be names separated by commas, got {text!r}; write {option} a,b,c"
            )
        return names

    return parse


def _predictors(text: str) -> list[str]:
    """Parses names of base predictors; "none" stands for none.

    >>> _predictors("analogs,gp"), _predictors("none")
    (['analogs', 'gp'], [])
    """
    return [] if text.strip() == "none" else _names("--predictors")(text)


def _pairs(text: str, option: str, example: str) -> dict[str, str]:
    """Parses a value for each name.

    >>> _pairs('a=1, "b, in m"=2', "--max-width", "a=1,b=2")
    {'a': '1', 'b, in m': '2'}
    """
    quoted = re.sub(r'"([^"]*)"(=[^,]*)', r'"\1\2"', text)  # a quoted cell of CSV
    parts = [part for row in csv.reader([quoted], skipinitialspace=True) for part in row]
    pairs = dict(part.rpartition("=")[::2] for part in parts)
    if not pairs or "" in pairs:
        raise InputError(f"{option} must be names and values, got {text!r}; write {example}")
    return {name.strip(): value.strip() for name, value in pairs.items()}


def _bounds(text: str) -> dict[str, tuple[float | None, float | None]]:
    """Parses bounds of columns.

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
    """Parses one width for all columns, or one by column.

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
        raise InputError(f"{option} must be numbers, got {text!r}; write {example}") from None


def _level(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _duration(text: str) -> str:
    from nrtsi.tables import parse_duration

    parse_duration(text)  # finds a mistake now
    return text


def _frame(text: str) -> Any:
    from nrtsi.tables.files import read_table

    return read_table(Path(text)).typed


# Groups of options ------------------------------------------------------------------------------


class Settings(_LibraryOptions, method="__init__"):
    """The parameters of `NRTSI`: columns and training."""

    options: ClassVar = {
        "time": LibraryOption(DATA),
        "id": LibraryOption(DATA),
        "columns": LibraryOption(DATA, "A,B,C", _names("--columns")),
        "bounds": LibraryOption(
            DATA,
            "A=0:,B=0:100",
            _bounds,
            "Lower and upper bound of the values of a column; one of them may be left out.",
        ),
        "on_empty": LibraryOption(DATA),
        "budget": LibraryOption(TRAINING, "TIME", _duration),
        "steps": LibraryOption(TRAINING, minimum=1),
        "preset": LibraryOption(TRAINING),
        "seed": LibraryOption(TRAINING, minimum=0),
        "device": LibraryOption(TRAINING),
        "setting": LibraryOption(ADVANCED),
        "mask": LibraryOption(ADVANCED),
        "max_level": LibraryOption(ADVANCED, "LEVEL", _level),
        "scaling": LibraryOption(ADVANCED),
        "predictors": LibraryOption(ADVANCED, "A,B,C|none", _predictors),
    }
    exclusive = ("budget", "steps")


class ResultOptions(_LibraryOptions, method="impute"):
    """The options of `NRTSI.impute` that `ImputeOptions` has."""

    options: ClassVar = {
        "method": LibraryOption(OUTPUT),
        "interval": LibraryOption(OUTPUT, "P"),
        "max_gap": LibraryOption(OUTPUT, "TIME"),
        "max_width": LibraryOption(OUTPUT, "W|A=2,B=10", _widths),
        "provenance": LibraryOption(OUTPUT),
    }


class QueryOptions(_LibraryOptions, method="impute"):
    """The options of `NRTSI.impute` that choose the rows to return."""

    options: ClassVar = {
        "at": LibraryOption(
            OUTPUT, "FILE", _frame, "Return the values at the times (and ids) of this table only."
        ),
        "every": LibraryOption(OUTPUT, "TIME"),
    }
    exclusive = ("at", "every")


_MEMORY = (
    "Working memory, such as 512MB or 4GiB. A Parquet file that needs more, and any folder, is "
    "imputed in shards. Default: 1GiB."
)
_RESUME = "Continue an interrupted run that imputes in shards."


@dataclass(frozen=True)
class StreamOptions(OptionGroup):
    """Memory, and what happens to the output of an earlier run."""

    overwrite: Overwrite = False
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help=_MEMORY, rich_help_panel=ADVANCED)
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help=_RESUME, rich_help_panel=ADVANCED)] = (
        False
    )
