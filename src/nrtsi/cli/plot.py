"""`nrtsi plot`: plots of series, of how they are imputed, and of the errors."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from nrtsi.cli.command import OptionGroup, command, new_app
from nrtsi.cli.console import Console
from nrtsi.cli.options import Data, Model, Overwrite, Settings
from nrtsi.errors import InputError

__all__ = ["app"]

app = new_app("Plot series, how they are imputed, and the errors.", invoke_without_command=True)

Picture = Annotated[Path, typer.Option("--out", help="Plot to write: .png, .svg or .pdf.")]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME", help="Column to plot; may be repeated."),
]
Number = Annotated[int, typer.Option("--series", help="Series of a long table, from 0.")]


@app.callback()
def _general(ctx: typer.Context) -> None:
    ctx.obj = ctx.obj or Console()
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@dataclass(frozen=True)
class PlotOptions(OptionGroup):
    """Options of every plot of one series by a model."""

    out: Picture
    model: Annotated[Path, typer.Option("--model", help="Model written by `nrtsi fit`.")]
    series: Number = 0
    column: Column = None
    plane: Annotated[
        bool, typer.Option("--plane", help="Plot two columns against each other, not over time.")
    ] = False
    overwrite: Overwrite = False


def _number(name: str, help: str, default: int | None = None, **limits: Any) -> inspect.Parameter:
    kind = Annotated[int | None, typer.Option(f"--{name}", help=help, **limits)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=kind)


PLOTS = {
    "procedure": (
        "Plot how a model imputes one series from coarse to fine, step by step.",
        [_number("panels", "Largest number of panels; steps share them.", 12, min=2)],
    ),
    "draws": (
        "Plot several draws of one series over each other, which shows their uncertainty.",
        [
            _number("draws", "Number of draws.", 10, min=1),
            _number("seed", "Seed of the draws. Default: that of the model.", min=0),
        ],
    ),
    "attention": (
        "Plot which known points a model attends to when it imputes a missing one.",
        [
            _number("step", "Step of the imputation, from 1. Default: the first."),
            _number("row", "Missing row of the series, from 0. Default: any."),
            _number("block", "Attention block, from 1. Default: all."),
            _number("head", "Attention head, from 1. Default: all."),
        ],
    ),
}
"""Help and options of each plot that `nrtsi.report.plots.plot_NAME` makes with a model."""


def _add_plot(name: str, help: str, extra: list[inspect.Parameter]) -> None:
    def draw(data: Data, options: PlotOptions, console: Console, **values: Any) -> None:
        from nrtsi.imputer.functions import load
        from nrtsi.report import plots
        from nrtsi.tables.files import read_table

        plots.check_picture(options.out, overwrite=options.overwrite)
        frame, model = read_table(data).typed, load(options.model)
        if (seed := values.pop("seed", None)) is not None:
            model.set_params(seed=seed)
        values |= {"series": options.series, "columns": options.column, "plane": options.plane}
        with console.progress() as listener:
            if name == "draws":
                values["listener"] = listener
            getattr(plots, f"plot_{name}")(options.out, model, frame, **values)
        console.report(f"wrote {options.out}")

    *fixed, _ = inspect.signature(draw).parameters.values()
    draw.__signature__ = inspect.Signature([*fixed, *extra])  # type: ignore[attr-defined]
    command(app, name, help)(draw)


@command(app)
def series(
    data: Data,
    *,
    out: Picture,
    console: Console,
    filled: Annotated[Path | None, typer.Option(help="DATA after imputation.")] = None,
    model: Annotated[Path | None, typer.Option(help="Model written by `nrtsi fit`.")] = None,
    number: Number = 0,
    column: Column = None,
    interval: Annotated[
        float, typer.Option(metavar="P", help="Probability of the interval; 0 for none.")
    ] = 0.9,
    time: Annotated[str | None, typer.Option(help="Column of times, with --filled.")] = None,
    id: Annotated[str | None, typer.Option(help="Column of ids, with --filled.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Plot one series as it was imputed, or as a model imputes it."""
    from nrtsi.imputer.functions import load
    from nrtsi.report.plots import check_picture, plot_filling, plot_series
    from nrtsi.tables import Columns, read
    from nrtsi.tables.files import read_table

    if (filled is None) == (model is None):
        raise InputError("either --filled or --model must be given; give one of them")
    if model is not None and (time is not None or id is not None):
        raise InputError(
            "--time and --id must not be given with --model, which has its own; leave them out"
        )
    check_picture(out, overwrite=overwrite)
    frame = read_table(data).typed
    if model is not None:
        view: dict[str, Any] = {"series": number, "shown": column, "interval": interval or None}
        with console.progress() as listener:
            plot_filling(out, load(model), frame, listener=listener, **view)
    elif filled is not None:
        columns = Columns(time=time, id=id)
        for note in read(frame, columns).notes:
            console.note(note)
        other, title = read_table(filled).typed, f"{data.name}, imputed as in {filled.name}"
        plot_series(out, frame, other, columns=columns, series=number, shown=column, title=title)
    console.report(f"wrote {out}")


for _name, (_help, _extra) in PLOTS.items():
    _add_plot(_name, _help, _extra)


@command(app)
def gaps(
    data: Data,
    out: Picture,
    settings: Settings,
    console: Console,
    model: Model = None,
    overwrite: Overwrite = False,
) -> None:
    """Hide known values of DATA, and plot the errors by gap."""
    from nrtsi.imputer.functions import load
    from nrtsi.report.plots import check_picture, plot_gaps
    from nrtsi.tables.files import read_table

    check_picture(out, overwrite=overwrite)
    given, fitted = settings.given(), None
    frame = read_table(data).typed
    if model is not None:
        settings.reject_all_but("seed", "device", "mask")
        fitted = load(model, device=given.pop("device", "auto")).set_params(**given)
        given = {}
    with console.progress() as listener:
        errors = plot_gaps(out, frame, model=fitted, listener=listener, **given)
    for note in errors.remarks:
        console.note(note)
    console.report(f"wrote {out}: {int(errors.cells.sum()):,} hidden cells")
