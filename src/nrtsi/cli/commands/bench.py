"""`nrtsi bench`: the paper's tables, run, shown and checked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nrtsi.cli.options import Console, OneLineErrors, prepared
from nrtsi.cli.progress import ProgressBar
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from nrtsi.bench.results import Row

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
def list_tables(console: Console) -> None:
    """Print the tables there are."""
    from nrtsi.bench.tables import open_table, table_names

    width = max(len(name) for name in table_names())
    for name in table_names():
        table = open_table(name)
        data = ", ".join(dict.fromkeys(table.data_of(setting) for setting in table.settings))
        typer.echo(f"{name:<{width}}  {table.title} (data: {data})")


@app.command()
@prepared
def run(
    table: Name,
    console: Console,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to add results to; bench-TABLE.csv by default.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Rows to run; by default all but long trainings, such as nrtsi-30m, which have "
            "a time of their own.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time to train each method; 10m by default."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, in place of a time.")
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Seed of the training; may be repeated. 0 by default."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few series, few steps, tiny networks: does it run at all?"),
    ] = False,
    models: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the trained nrtsi models here.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace rows made with another budget.")
    ] = False,
    clock: Annotated[
        str,
        typer.Option(
            metavar="CLOCK",
            help="What a second is: wall, or core, one that a core worked on the method, so "
            "that other work on the machine cuts no training short.",
        ),
    ] = "wall",
) -> None:
    """Measure the methods of TABLE and print the table.

    Every method gets the same data, masks and budget; the data are made, or were read before by
    `nrtsi data make NAME --path FILE`. Each method is trained once and scored in every setting.
    Rows that are in the file already are not measured again: a run that was stopped goes on.
    """
    from nrtsi.bench.markdown import markdown
    from nrtsi.bench.tables import open_table

    opened = open_table(table)  # refuses a mistake before anything large is loaded
    _refuse_both({"--quick": quick, "--budget": budget, "--steps": steps})
    if models is not None:
        _make_folder(models)

    from nrtsi.bench.runner import Plan
    from nrtsi.bench.runner import run as run_plan
    from nrtsi.training.settings import budget_of

    plan = Plan(
        table=opened,
        out=out or _default(table),
        methods=opened.usual if methods is None else _names(methods),
        budget=budget_of(budget or "10m", steps),
        seeds=tuple(dict.fromkeys(seed or (0,))),
        quick=quick,
        models=models,
        overwrite=overwrite,
        clock=clock,
    )
    try:
        with ProgressBar(quiet=console.quiet) as listener:
            rows = run_plan(plan, console.say, listener)
    except KeyboardInterrupt:
        console.say(f"stopped; {plan.out} has what was done, and the same command goes on")
        raise typer.Exit(130) from None
    console.say(f"results are in {plan.out}")
    typer.echo(markdown(opened, rows), nl=False)


@app.command()
@prepared
def show(
    table: Name,
    console: Console,
    results: Annotated[
        Path | None, typer.Option(help="CSV file of results; bench-TABLE.csv by default.")
    ] = None,
) -> None:
    """Print TABLE as Markdown, beside the paper's figures."""
    from nrtsi.bench.markdown import markdown
    from nrtsi.bench.tables import open_table

    opened = open_table(table)
    typer.echo(markdown(opened, _rows(table, results or _default(table))), nl=False)


@app.command()
@prepared
def check(
    table: Name,
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Model kept by `nrtsi bench run TABLE --models`."),
    ],
    console: Console,
    results: Annotated[
        Path | None,
        typer.Option(help="CSV file of results to compare with; bench-TABLE.csv if it is there."),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Row of the table that the model is of.")
    ] = "nrtsi",
    quick: Annotated[
        bool, typer.Option("--quick", help="The few series of `nrtsi bench run --quick`.")
    ] = False,
) -> None:
    """Score MODEL on the test series of TABLE, beside the figures written down of it.

    The same data and masks as in `nrtsi bench run`, so the same figures. The status is 1 where
    one differs by more than a thousandth from what the file of results has.
    """
    from nrtsi.bench.tables import open_table

    opened = open_table(table)  # refuses a mistake before anything large is loaded
    path = results or _default(table)
    rows = _rows(table, path) if results is not None or path.exists() else []

    from nrtsi.bench.check import Question, shown
    from nrtsi.bench.check import check as figures_of

    figures = figures_of(Question(opened, model, method, quick), rows, console.say)
    typer.echo(shown(figures))
    if rows and all(figure.written is None for figure in figures):
        console.say(
            f"{path} has no figures of {method} with the seed, data and size of this model"
        )
    differing = sum(figure.differs for figure in figures)
    if differing:
        console.say(f"{differing} of {len(figures)} figures differ from those in {path}")
        raise typer.Exit(1)


def _rows(table: str, path: Path) -> "list[Row]":
    """The rows of a file of results, which must have some of the table."""
    from nrtsi.bench.results import read

    if not path.exists():
        raise InputError(
            f"there is no file of results {path}; make it with nrtsi bench run {table}, "
            f"or name another with --results"
        )
    rows = read(path)
    held = sorted({row.table for row in rows})
    if rows and table not in held:
        raise InputError(f"{path} has no rows of {table}, only of {', '.join(held)}")
    return rows


def _default(table: str) -> Path:
    # Not TABLE.csv: that is what one calls the data set of the same name.
    return Path(f"bench-{table}.csv")


def _refuse_both(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} must not be given together; leave one out")


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--models must be a folder, got {path}: {error.strerror}") from error


def _names(text: str) -> tuple[str, ...]:
    """Names with commas between.

    >>> _names("linear, nrtsi")
    ('linear', 'nrtsi')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())
