"""`nrtsi plot`: pictures of series, of how they are filled, and of how well."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nrtsi.cli.options import Console, Data, Model, OneLineErrors, Overwrite, Settings, prepared
from nrtsi.cli.progress import ProgressBar
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["app"]

app = typer.Typer(
    cls=OneLineErrors,
    invoke_without_command=True,
    rich_markup_mode=None,
    help="Draw series, how they are filled, and how well.",
)

Picture = Annotated[Path, typer.Option("--out", help="Picture to write: .png, .svg or .pdf.")]
Trained = Annotated[Path, typer.Option("--model", help="Model made by `nrtsi fit`.")]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME", help="Column of values to draw; may be repeated."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the draws; the model's own.")]


@dataclass(frozen=True)
class Shown:
    """Which series is drawn, and how."""

    series: Annotated[int, typer.Option(help="Which series of a long table, counted from 0.")] = 0
    column: Column = None
    plane: Annotated[
        bool, typer.Option("--plane", help="Draw two columns against each other, not over time.")
    ] = False


@app.callback()
def _general(ctx: typer.Context) -> None:
    ctx.obj = ctx.obj or Console()
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@prepared
def series(
    data: Data,
    *,
    out: Picture,
    console: Console,
    filled: Annotated[Path | None, typer.Option(help="DATA after imputation.")] = None,
    model: Model = None,
    number: Annotated[
        int, typer.Option("--series", help="Which series of a long table, counted from 0.")
    ] = 0,
    column: Column = None,
    interval: Annotated[
        float, typer.Option(metavar="P", help="Probability of the band; 0 leaves it out.")
    ] = 0.9,
    time: Annotated[str | None, typer.Option(help="Column of times, with --filled.")] = None,
    id: Annotated[
        str | None, typer.Option(help="Column that tells series apart, with --filled.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw one series as it was filled, or as a model fills it."""
    from nrtsi.report.plots import check_picture, plot_filling, plot_series
    from nrtsi.tables import Columns, read
    from nrtsi.tables.files import read_table

    if (filled is None) == (model is None):
        raise InputError("one of --filled and --model must be given; give one")
    if model is not None and (time is not None or id is not None):
        raise InputError(
            "--time and --id must not be given with --model, which has its own; leave them out"
        )
    check_picture(out, overwrite=overwrite)
    frame = read_table(data).typed
    if model is not None:
        trained = _load(model)
        with ProgressBar(quiet=console.quiet) as listener:
            plot_filling(
                out,
                trained,
                frame,
                series=number,
                shown=column,
                interval=interval or None,
                listener=listener,
            )
    elif filled is not None:
        columns = Columns(time=time, id=id)
        for guess in read(frame, columns).notes:
            console.say(guess)
        other = read_table(filled).typed
        title = f"{data.name}, filled as in {filled.name}"
        plot_series(out, frame, other, columns=columns, series=number, shown=column, title=title)
    console.report(f"wrote {out}")


@app.command()
@prepared
def procedure(
    data: Data,
    out: Picture,
    model: Trained,
    shown: Shown,
    console: Console,
    panels: Annotated[
        int, typer.Option(min=2, help="Most panels; some steps share one where there are more.")
    ] = 12,
    overwrite: Overwrite = False,
) -> None:
    """Draw how a model fills one series from coarse to fine, step by step."""
    from nrtsi.report.plots import check_picture, plot_procedure
    from nrtsi.tables.files import read_table

    check_picture(out, overwrite=overwrite)
    frame = read_table(data).typed
    plot_procedure(
        out,
        _load(model),
        frame,
        series=shown.series,
        columns=shown.column,
        plane=shown.plane,
        panels=panels,
    )
    console.report(f"wrote {out}")


@app.command()
@prepared
def draws(
    data: Data,
    out: Picture,
    model: Trained,
    shown: Shown,
    console: Console,
    count: Annotated[int, typer.Option("--draws", min=1, help="How many fillings to draw.")] = 10,
    seed: Seed = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw several fillings of one series over each other, to see how sure they are."""
    from nrtsi.report.plots import check_picture, plot_draws
    from nrtsi.tables.files import read_table

    check_picture(out, overwrite=overwrite)
    frame = read_table(data).typed
    trained = _load(model)
    if seed is not None:
        trained.set_params(seed=seed)
    with ProgressBar(quiet=console.quiet) as listener:
        plot_draws(
            out,
            trained,
            frame,
            draws=count,
            series=shown.series,
            columns=shown.column,
            plane=shown.plane,
            listener=listener,
        )
    console.report(f"wrote {out}")


@app.command()
@prepared
def attention(
    data: Data,
    *,
    out: Picture,
    model: Trained,
    shown: Shown,
    console: Console,
    step: Annotated[
        int | None, typer.Option(help="Step of the filling, counted from 1; the first.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(help="Missing row of the series, counted from 0; any.")
    ] = None,
    block: Annotated[
        int | None, typer.Option(help="Attention block, counted from 1; all without it.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="Attention head, counted from 1; all without it.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw which known points a model looks at when it fills a missing one."""
    from nrtsi.report.plots import check_picture, plot_attention
    from nrtsi.tables.files import read_table

    check_picture(out, overwrite=overwrite)
    frame = read_table(data).typed
    plot_attention(
        out,
        _load(model),
        frame,
        series=shown.series,
        row=row,
        step=step,
        block=block,
        head=head,
        columns=shown.column,
        plane=shown.plane,
    )
    console.report(f"wrote {out}")


@app.command()
@prepared
def gaps(
    data: Data,
    out: Picture,
    settings: Settings,
    console: Console,
    model: Model = None,
    overwrite: Overwrite = False,
) -> None:
    """Hide known values of DATA, and draw the errors by gap."""
    from nrtsi.report.plots import check_picture, plot_gaps
    from nrtsi.tables.files import read_table

    check_picture(out, overwrite=overwrite)
    given, trained = settings.given(), None
    frame = read_table(data).typed
    if model is not None:
        allowed = ("seed", "device", "mask")
        settings.refuse_all_but(*allowed, because="with --model, which has its own")
        trained = _load(model, given.pop("device", "auto")).set_params(**given)
        given = {}
    with ProgressBar(quiet=console.quiet) as listener:
        errors = plot_gaps(out, frame, model=trained, listener=listener, **given)
    for guess in errors.guesses:
        console.say(guess)
    console.report(f"wrote {out}: {int(errors.cells.sum()):,} hidden cells")


def _load(path: Path, device: str = "auto") -> "NRTSI":
    from nrtsi.imputer.functions import load

    return load(path, device=device)
