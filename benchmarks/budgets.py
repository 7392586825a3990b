"""Error against budget: what time to train buys, and which sizes suit which time.

    python benchmarks/budgets.py                              # three data sets, 1m, 10m and 1h
    python benchmarks/budgets.py billiards --budgets 10m --preset small --model blocks=4
    python benchmarks/budgets.py mujoco --budgets 1h --kept benchmarks/models/mujoco-….nrtsi
    python benchmarks/budgets.py --plot docs/pictures/budgets.png

trains `NRTSI(budget=…)` on the data sets of the benchmarks, with the masks of their tables, and
adds a row for each training to `benchmarks/results/budgets.csv`. The error is that of the
validation series: sizes are chosen by it, so the test series are not touched. Trainings whose rows
are there are not made again; one that was stopped goes on in the middle. `--kept` scores a model
that `nrtsi bench run --models` trained for that budget. `OMP_NUM_THREADS` says how many threads
are used. `--clock core` counts the seconds that threads worked on a training instead of those that
passed, so that several can be made side by side and other work does not cut them short.
"""

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgeting.rows import Row, add, read

from nrtsi.bench.tables import open_table
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCKS
from nrtsi.errors import InputError, NrtsiError
from nrtsi.tables import parse_duration

if TYPE_CHECKING:
    from budgeting.trial import Trial

    from nrtsi.bench.datasets.dataset import Dataset

OUT = Path(__file__).parent / "results" / "budgets.csv"


def main() -> None:
    options = _options()
    try:
        _measure(options)
    except NrtsiError as error:
        print(f"budgets: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("budgets: stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)


def _measure(options: argparse.Namespace) -> None:
    """Trains what has no row yet, and draws what is in the file."""
    settings, tables = _settings(options), [open_table(name) for name in options.data]
    if options.kept is not None and (len(tables) > 1 or "," in options.budgets or settings):
        raise InputError(
            "--kept must have one table and one budget, and no other settings; write "
            "budgets.py mujoco --budgets 1h --kept MODEL"
        )
    budgets = [None] if options.quick else sorted(map(parse_duration, options.budgets.split(",")))
    check_writable(options.out, overwrite=True)
    read(options.out)
    # Imported here, not above: PyTorch takes seconds, and a mistake in the options should not.
    from budgeting.picture import plot
    from budgeting.trial import Trial

    from nrtsi.bench.runner import code_revision
    from nrtsi.bench.tasks import data_of
    from nrtsi.report.plots.canvas import check_picture

    if options.plot is not None:
        check_picture(options.plot, overwrite=True)
    revision = code_revision()  # of the code that runs, which may be edited meanwhile
    # Before the first hour of training, so that data that cannot be had are told at once.
    data = {table.name: data_of(table, table.data, quick=options.quick) for table in tables}
    for seconds, table in product(budgets, tables):  # the shortest first, to see something early
        trial = Trial(table, seconds, options.seed, settings, options.clock)
        if options.kept is not None:
            row = trial.of_kept(options.kept, data[table.name], revision)
        elif not options.overwrite and trial.is_in(read(options.out), data[table.name]):
            continue
        else:
            row = _trained(trial, data[table.name], options.out, revision)
        add(options.out, row)
        if options.kept is None:
            trial.checkpoint(options.out, revision).unlink(missing_ok=True)
        print(_sentence(row))
    if options.plot is not None:
        plot(options.plot, read(options.out))


def _trained(trial: "Trial", data: "Dataset", out: Path, revision: str) -> Row:
    from nrtsi.cli.progress import ProgressBar

    with ProgressBar() as listener:
        return trial.run(data, trial.checkpoint(out, revision), revision, listener)


def _sentence(row: Row) -> str:
    words = " ".join(each for each in (row.data, row.budget, row.preset, row.changes) if each)
    share = f"{row.error / row.linear:.3g} of linear's"
    return f"{words}, seed {row.seed}: {row.metric} {row.error:g}, {share}"


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `NRTSI` that were given."""
    groups = {"model": _fields(options.model), "train": _fields(options.train)}
    given: dict[str, Any] = {name: group for name, group in groups.items() if group}
    return given | ({"preset": options.preset} if options.preset else {})


def _fields(words: list[str]) -> dict[str, Any]:
    """`width=48` and the like, as a dict.

    >>> _fields(["width=48", "head=point"])
    {'width': 48, 'head': 'point'}
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise InputError(
                f"--model and --train must be NAME=VALUE, got {word!r}; write width=48"
            )
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_argument = parser.add_argument
    add_argument("data", nargs="*", default=["billiards", "mujoco", "air"], help="tables")
    add_argument("--budgets", default="1m,10m,1h", metavar="A,B,C", help="times to train")
    add_argument("--seed", type=int, default=0)
    add_argument("--preset", help="a size, in place of the one that suits the budget")
    for name in ("model", "train"):
        text = f"a field of {name.capitalize()}Config; may be repeated"
        add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE", help=text)
    add_argument("--out", type=Path, default=OUT, help="file to add rows to")
    add_argument("--plot", type=Path, help="picture of all rows of the file")
    add_argument("--kept", type=Path, metavar="MODEL", help="score this in place of a training")
    add_argument("--clock", choices=CLOCKS, default="wall", help="what a second of a budget is")
    add_argument("--overwrite", action="store_true", help="make trainings that have rows again")
    add_argument("--quick", action="store_true", help="few series and steps: does it run?")
    options = parser.parse_args()
    if options.quick and options.out == OUT:
        parser.error("--quick must have an --out of its own: its figures mean nothing")
    return options


if __name__ == "__main__":
    main()
