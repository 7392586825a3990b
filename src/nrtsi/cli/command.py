"""Turns functions into subcommands: groups of options, help in sections, errors in one line."""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nrtsi.errors import NrtsiError

__all__ = ["PANELS", "CommandGroup", "OptionGroup", "as_option", "command", "new_app"]

PANELS = DATA, TRAINING, OUTPUT, ADVANCED = ("Data", "Training", "Output", "Advanced")
"""Sections of the help of a command, in this order; other options follow."""


class OptionGroup:
    """Base of groups of options: a parameter of such a type becomes one option for each field."""


class _Command(TyperCommand):
    """A command whose help has one section for each panel of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options in sections, without the boxes of rich."""
        sections: dict[str, list[Any]] = {name: [] for name in (*PANELS, "Arguments", "Options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                other = "Arguments" if param.param_type_name == "argument" else "Options"
                sections[getattr(param, "rich_help_panel", None) or other].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


# typer does not export the class, the base of all mistakes in options, under a name.
_UsageError: Any = typer.BadParameter.__bases__[0]


class CommandGroup(TyperGroup):
    """Commands that report a mistake in their options in one line, as any other mistake."""

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


def new_app(help: str, **settings: Any) -> typer.Typer:
    """A group of commands."""
    # The boxes of rich show flags as if they took a value (--quiet <bool>).
    return typer.Typer(cls=CommandGroup, rich_markup_mode=None, help=help, **settings)


def command(
    app: typer.Typer, name: str | None = None, help: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds a function, which must have a parameter `console`, to `app`.

    A mistake of the user ends with one line and status 2, Ctrl-C with one line and status 130;
    any other exception is our bug and keeps its traceback.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            try:
                function(**_group(function, values, ctx.obj))
            except NrtsiError as error:
                names = [param.name for param in ctx.command.params if param.name]
                typer.echo(f"nrtsi: {_with_options(str(error), names)}", err=True)
                raise typer.Exit(2) from error
            except KeyboardInterrupt as error:
                typer.echo("nrtsi: interrupted; no output was written", err=True)
                raise typer.Exit(130) from error

        context = inspect.Parameter(
            "ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        parameters = [context, *_flat(function)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__  # typer would inspect it instead
        app.command(name, cls=_Command, help=help)(run)
        return function

    return add


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, OptionGroup)


def _flat(function: Callable[..., None]) -> list[inspect.Parameter]:
    flat: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        flat += inspect.signature(kind).parameters.values() if _is_group(kind) else [parameter]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in flat]


def _group(function: Callable[..., None], values: dict[str, Any], console: Any) -> dict[str, Any]:
    """The arguments of `function`; its console also obeys the options before the command."""
    grouped: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if _is_group(kind):
            names = inspect.signature(kind).parameters
            grouped[name] = kind(**{each: values[each] for each in names})
        else:
            grouped[name] = values[name]
    grouped["console"] = grouped["console"].joined(console)
    return grouped


def _with_options(message: str, names: Sequence[str]) -> str:
    """A message of the library on one line, with the arguments `names` written as options.

    >>> _with_options("name it with id=, or set on_empty='skip'", ["id", "on_empty"])
    'name it with --id, or set --on-empty skip'
    """

    def option(match: re.Match[str]) -> str:
        return f"{as_option(match['name'])} {match['value'] or ''}".rstrip()

    line = " ".join(message.split())
    return re.sub(rf"\b(?P<name>{'|'.join(names)})=(?:'(?P<value>\w+)')?", option, line)


def as_option(name: str) -> str:
    """The option that sets a parameter.

    >>> as_option("max_gap")
    '--max-gap'
    """
    return "--" + name.replace("_", "-")
