"""`nrtsi bench`: runs, shows and checks benchmarks, and writes their pages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nrtsi.cli.command import command, new_app
from nrtsi.cli.console import Console
from nrtsi.cli.progress import ProgressBar
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from nrtsi.bench.experiments import Experiment

__all__ = ["app"]

app = new_app("Run experiments and show results beside the paper's.", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAME", help="See `nrtsi bench list`.")]
Results = Annotated[Path | None, Option(help="File of results; default: bench-NAME.csv.")]
QuickOption = Annotated[bool, Option("--quick", help="Few series and steps: does it run?")]


@command(app, "list")
def list_experiments(console: Console) -> None:
    """Print the tables and the other experiments."""
    from nrtsi.bench.experiments import EXPERIMENTS, experiment_names
    from nrtsi.bench.tables import open_table, table_names

    titles = {}
    for name in table_names():
        table = open_table(name)
        titles[name] = f"{table.title} (data: {', '.join(table.data_names)})"
    width = max(map(len, experiment_names()))
    for name, title in (titles | EXPERIMENTS).items():
        typer.echo(f"{name:<{width}}  {title}")


@command(app)
def run(
    name: Name,
    console: Console,
    out: Annotated[Path | None, Option(help="File to add to; default: bench-NAME.csv.")] = None,
    methods: Annotated[
        str | None, Option(metavar="A,B,C", help="Default: all without a budget of their own.")
    ] = None,
    data: Annotated[
        list[str] | None, Option(help="Data of single or trust, table of budgets; repeatable.")
    ] = None,
    budget: Annotated[
        str | None, Option(help="Training time, 10m by default; budgets takes several: 1m,1h.")
    ] = None,
    steps: Annotated[int | None, Option(min=1, help="Training steps, instead of a time.")] = None,
    seed: Annotated[
        list[int] | None, Option(min=0, help="Seed of the training; repeatable. 0 by default.")
    ] = None,
    preset: Annotated[str | None, Option(help="Preset of nrtsi; default: of the budget.")] = None,
    quick: QuickOption = False,
    models: Annotated[Path | None, Option(help="Folder to save nrtsi models in.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace other rows.")] = False,
    clock: Annotated[str, Option(help="Of budgets: wall, or core for CPU time.")] = "wall",
) -> None:
    """Run the table or experiment NAME and print its results.

    Every method gets the same data, masks and budget. Data sets are simulated, or were read
    before by `nrtsi data make NAME --path FILE`. Rows that are in the file are not measured
    again: the same command resumes a run that was stopped.
    """
    from nrtsi.bench.experiments import RunOptions, open_experiment

    limits = {"--quick": quick, "--budget": budget, "--steps": steps}
    both = [option for option, value in limits.items() if value]
    if len(both) > 1:
        raise InputError(f"{' and '.join(both)} must not be given together; leave one out")
    experiment = open_experiment(name)
    names = None if methods is None else [each.strip() for each in methods.split(",")]
    options = RunOptions(
        out=out or _default(name, experiment),
        data=tuple(data or ()),
        methods=None if names is None else tuple(filter(None, names)),
        budget=budget,
        steps=steps,
        seeds=tuple(dict.fromkeys(seed or [0])),
        quick=quick,
        models=models,
        overwrite=overwrite,
        clock=clock,
        preset=preset,
    )
    for field in sorted(options.given - experiment.options):
        option = "seed" if field == "seeds" else field
        raise InputError(f"--{option} does not apply to {name}; leave it out")
    try:
        with ProgressBar(quiet=console.quiet) as listener:
            experiment.run(options, console.note, listener)
    except KeyboardInterrupt:
        console.note(f"stopped; results so far are in {options.out}; the same command resumes")
        raise typer.Exit(130) from None
    console.note(f"results are in {options.out}")
    typer.echo(experiment.markdown(options.out), nl=False)


@command(app)
def show(name: Name, console: Console, results: Results = None) -> None:
    """Print the results of NAME as Markdown, those of a table beside the paper's."""
    from nrtsi.bench.experiments import open_experiment

    experiment = open_experiment(name)
    path = results or _default(name, experiment)
    typer.echo(experiment.markdown(_existing(name, path)), nl=False)


@command(app)
def check(
    table: Annotated[str, Argument(metavar="TABLE", help="See `nrtsi bench list`.")],
    model: Annotated[Path, Argument(metavar="MODEL", help="Saved by `bench run --models`.")],
    console: Console,
    results: Results = None,
    method: Annotated[str, Option(help="Row of the table that the model is of.")] = "nrtsi",
    quick: QuickOption = False,
) -> None:
    """Score MODEL on the test series of TABLE and compare with the recorded figures.

    Data and masks are those of `nrtsi bench run`. The status is 1 if a figure differs by more
    than a thousandth from the file of results.
    """
    from nrtsi.bench.tables import open_table

    opened = open_table(table)  # rejects a wrong name before anything large is loaded
    path = _existing(table, results) if results else Path(f"bench-{table}.csv")

    from nrtsi.bench.check import check_model, markdown
    from nrtsi.bench.runner import rows_of

    rows = rows_of(opened, path)
    figures = check_model(opened, model, method, rows, quick=quick, notify=console.note)
    typer.echo(markdown(figures))
    if rows and all(figure.recorded is None for figure in figures):
        console.note(f"{path} has no figures of {method} with the seed, data and size of MODEL")
    differing = sum(figure.differs for figure in figures)
    if differing:
        console.note(f"{differing} of {len(figures)} figures differ from those in {path}")
        raise typer.Exit(1)


@command(app)
def page(
    console: Console,
    root: Annotated[Path, Option(help="Clone of the repository.")] = Path(),
    check: Annotated[bool, Option("--check", help="Write nothing; status 1 if outdated.")] = False,
) -> None:
    """Write the pages that show the results in benchmarks/results."""
    from nrtsi.bench.pages import outdated_pages, write_pages

    outdated = [str(path) for path in (outdated_pages if check else write_pages)(root)]
    if not check:
        console.report(f"wrote {', '.join(outdated) or 'nothing: all pages are up to date'}")
    elif outdated:
        console.note(f"{', '.join(outdated)} differ from the results; run nrtsi bench page")
        raise typer.Exit(1)


def _existing(name: str, path: Path) -> Path:
    if not path.exists():
        raise InputError(
            f"there is no file of results {path}; make it with nrtsi bench run {name}, "
            f"or name another with --results"
        )
    return path


def _default(name: str, experiment: "Experiment") -> Path:
    # Not NAME.csv, which is a natural name for the data set.
    return Path(f"bench-{name}{experiment.suffix}")
