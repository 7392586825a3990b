"""A table of the paper as an experiment."""

from functools import partial
from pathlib import Path

from nrtsi.bench.experiments.base import Experiment, RunOptions
from nrtsi.bench.results import Row, read
from nrtsi.bench.runner import Notify, Plan, run_plan
from nrtsi.bench.table_page import TablePage
from nrtsi.bench.tables import Table, open_table
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.training.plan import budget_of

__all__ = ["experiment_of", "rows_of"]

OPTIONS = {"methods", "budget", "steps", "seeds", "quick", "models", "overwrite", "clock"}
DEFAULT_BUDGET = "10m"


def experiment_of(name: str) -> Experiment:
    """The experiment of a table."""
    table = open_table(name)
    return Experiment(OPTIONS, partial(_run, table), partial(_markdown, table))


def rows_of(table: Table, path: Path) -> list[Row]:
    """Reads a file of results."""
    rows = read(path, Row)
    names = sorted({row.table for row in rows})
    if rows and table.name not in names:
        raise InputError(f"{path} has no rows of {table.name}, only of {', '.join(names)}")
    return rows


def _run(table: Table, options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    plan = Plan(
        table=table,
        out=options.out,
        methods=table.default_methods if options.methods is None else options.methods,
        budget=budget_of(options.budget or DEFAULT_BUDGET, options.steps),
        seeds=options.seeds,
        quick=options.quick,
        models=options.models,
        overwrite=options.overwrite,
        clock=options.clock,
    )
    run_plan(plan, notify, listener)


def _markdown(table: Table, path: Path) -> str:
    return TablePage(table, rows_of(table, path)).markdown()
