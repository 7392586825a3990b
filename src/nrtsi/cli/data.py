"""`nrtsi data`: makes the data sets of the benchmarks."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from nrtsi.cli.command import command, new_app
from nrtsi.cli.console import Console
from nrtsi.cli.options import Overwrite
from nrtsi.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from nrtsi.bench.datasets.dataset import Dataset

__all__ = ["app"]

app = new_app("Make the data sets of the benchmarks.", no_args_is_help=True)

PartName = Literal["all", "train", "validation", "test"]


@command(app, "list")
def list_data(console: Console) -> None:
    """Print the data sets and what each needs."""
    from nrtsi.bench.datasets.registry import DATASETS

    typer.echo("Sizes are series for training (a tenth of them for validation) + for the test.\n")
    for recipe in DATASETS.values():
        typer.echo(f"{recipe.name}\n    {recipe.description}\n    {recipe.sizes}")
        typer.echo(f"    needs {recipe.needs}")


@command(app)
def make(
    name: Annotated[str, Argument(metavar="NAME", help="See `nrtsi data list`.")],
    console: Console,
    path: Annotated[Path | None, Option(help="The original files, if needed.")] = None,
    seed: Annotated[int, Option(min=0, help="Seed of a simulation.")] = 0,
    out: Annotated[Path | None, Option(help="Table to write: .csv, .tsv or .parquet.")] = None,
    part: Annotated[PartName, Option(help="Which part to write.")] = "all",
    series: Annotated[int | None, Option(min=1, help="Series to write of each part.")] = None,
    gaps: Annotated[bool, Option("--gaps", help="Hide cells of the test series.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Make a data set for the benchmarks, or write it as a table."""
    from nrtsi.bench.datasets.registry import default_cache
    from nrtsi.bench.datasets.registry import make as make_data
    from nrtsi.tables.files import FileTable, check_output, write_table

    if out is not None:
        check_output(out, overwrite=overwrite)
    elif gaps or series is not None or part != "all":
        raise InputError("--part, --series and --gaps select what is written; add --out FILE")
    if gaps and part not in ("all", "test"):
        raise InputError(f"--gaps applies to the test series, got --part {part}; leave one out")
    data = make_data(name, path=path, seed=seed)
    console.note(data.about)
    if out is None:
        sizes = ", ".join(f"{each.series:,} {title}" for title, each in data.parts.items())
        _, steps, dims = data.test.value.shape
        console.report(
            f"made {name}: {sizes} series of {steps} steps and {dims} channels, "
            f"cached in {default_cache()}"
        )
        return
    if gaps:
        data, hidden = _with_gaps(data)
        console.note(f"hid the cells of the benchmark: {hidden}")
    table = _cut(data, part, series)
    write_table(out, FileTable(table), overwrite=overwrite)
    console.report(f"wrote {out}: {table.num_rows:,} rows")


def _cut(data: "Dataset", part: PartName, series: int | None) -> "pa.Table":
    """The table of one part, or of the first series of each; a series keeps its number."""
    import pyarrow as pa

    table, pieces, row = data.to_table(), [], 0
    for name, each in data.parts.items():
        if part in ("all", name):
            pieces.append(table.slice(row, each.time[:series].size))
        row += each.time.size
    return pa.concat_tables(pieces)


def _with_gaps(data: "Dataset") -> "tuple[Dataset, str]":
    """The data set with the gaps of the first table that uses it, and the name of the setting."""
    from nrtsi.bench.tables import open_table, table_names
    from nrtsi.bench.tasks import task_of

    for name in sorted(table_names(), key=lambda name: name != data.name):
        table = open_table(name)
        for setting in table.settings:
            if table.data_of(setting) == data.name:
                given = task_of(table, setting, data).given.head(data.test.series)
                return replace(data, test=given), f"table {name}, {setting.name}"
    raise InputError(f"no benchmark uses {data.name}; leave --gaps out")
