"""`nrtsi bench`: the paper's tables, run and shown."""

from pathlib import Path
from typing import Annotated

import typer

from nrtsi.errors import InputError
from nrtsi.options import OneLineErrors, Voice, prepared
from nrtsi.progress import ProgressBar

__all__ = ["app"]

app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run the paper's experiments, and show what came out beside what the paper printed.",
)

Name = Annotated[str, typer.Argument(metavar="TABLE", help="Table; see `nrtsi bench list`.")]


@app.command("list")
@prepared
def list_tables(voice: Voice) -> None:
    """Print the tables there are."""
    from nrtsi.bench.tables import open_table, table_names

    width = max(len(name) for name in table_names())
    for name in table_names():
        table = open_table(name)
        typer.echo(f"{name:<{width}}  {table.title}: {', '.join(table.methods)}")


@app.command()
@prepared
def run(
    table: Name,
    voice: Voice,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to add results to; TABLE.csv by default.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Rows to run; all by default.")
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time to train each method, such as 10m.")
    ] = "10m",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, in place of a time.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Seed; several may be given. 0 by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few series and steps: does it run at all?")
    ] = False,
    models: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the trained nrtsi models here.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace rows made with another budget.")
    ] = False,
) -> None:
    """Measure every method of TABLE, with the same data, masks and budget, and print the table.

    Rows that are in the file already are not measured again: a run that was stopped goes on.
    """
    from nrtsi.bench.markdown import markdown
    from nrtsi.bench.runner import Plan
    from nrtsi.bench.runner import run as run_plan
    from nrtsi.bench.tables import open_table
    from nrtsi.choices import budget_of

    opened = open_table(table)
    if models is not None and not models.is_dir():
        raise InputError(f"--models must be a folder, got {models}; create it first")
    plan = Plan(
        table=opened,
        out=out or Path(f"{table}.csv"),
        methods=_names(methods) or opened.methods,
        budget=budget_of(budget, steps),
        seeds=tuple(dict.fromkeys(seed or (0,))),
        quick=quick,
        models=models,
        overwrite=overwrite,
    )
    try:
        with ProgressBar(quiet=voice.quiet) as listener:
            rows = run_plan(plan, voice.say, listener)
    except KeyboardInterrupt:
        voice.say(f"stopped; {plan.out} has what was done, and the same command goes on")
        raise typer.Exit(130) from None
    voice.say(f"results are in {plan.out}")
    typer.echo(markdown(opened, rows), nl=False)


@app.command()
@prepared
def show(
    table: Name,
    voice: Voice,
    results: Annotated[
        Path | None, typer.Option(help="CSV file of results; TABLE.csv by default.")
    ] = None,
) -> None:
    """Print TABLE as Markdown, with the paper's figures beside those measured."""
    from nrtsi.bench.markdown import markdown
    from nrtsi.bench.results import read
    from nrtsi.bench.tables import open_table

    opened, path = open_table(table), results or Path(f"{table}.csv")
    if not path.exists():
        raise InputError(
            f"there is no file of results {path}; make it with nrtsi bench run {table}, "
            f"or name another with --results"
        )
    typer.echo(markdown(opened, read(path)), nl=False)


def _names(text: str | None) -> tuple[str, ...]:
    """Names with commas between.

    >>> _names("linear, nrtsi")
    ('linear', 'nrtsi')
    """
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
