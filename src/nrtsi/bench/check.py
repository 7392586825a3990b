"""Scores a saved model on a table and compares it with the recorded figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nrtsi.bench.experiments import Notify
from nrtsi.bench.markdown import NONE, grid
from nrtsi.bench.methods import NRTSIMethod
from nrtsi.bench.results import Row
from nrtsi.bench.tables import Table
from nrtsi.bench.tasks import data_sets, task_of
from nrtsi.errors import InputError

__all__ = ["CheckedFigure", "check_model", "markdown"]

TOLERANCE = 1e-3
"""Relative difference below which figures are equal; machines differ by less."""


@dataclass(frozen=True)
class CheckedFigure:
    """A figure of the model, and the recorded one."""

    setting: str
    metric: str
    found: float
    recorded: float | None

    @property
    def differs(self) -> bool:
        """Whether the recorded figure is another; False if there is none."""
        if self.recorded is None or (math.isnan(self.found) and math.isnan(self.recorded)):
            return False
        return not math.isclose(self.found, self.recorded, rel_tol=TOLERANCE)


def check_model(
    table: Table, model: Path, name: str, rows: Sequence[Row], *, quick: bool, notify: Notify
) -> list[CheckedFigure]:
    """Scores a model in every setting whose data have its channels, as `nrtsi bench run` does.

    `name` is the row of the table that the model belongs to.
    """
    names = [each for each in table.methods if table.kind_of(each) == "nrtsi"]
    if name not in names:
        raise InputError(
            f"--method must be one of {', '.join(names)} for the table {table.name}, "
            f"got {name!r}; choose one"
        )
    method = NRTSIMethod.load(model)
    figures: list[CheckedFigure] = []
    others: list[str] = []
    for data_name, data in data_sets(table, quick=quick, notify=notify):
        if not method.has_channels(data.channels):
            others.append(f"{data.name} ({', '.join(data.channels)})")
            continue
        notify(f"{data_name}: {data.about}")
        for setting in (each for each in table.settings if table.data_of(each) == data_name):
            job = (table.name, setting.name, name, method.seed)
            recorded = {
                row.metric: row.number
                for row in rows
                if row.job == job
                and not row.failed
                and row.data in ("", data.digest)
                and (row.effort == "quick") == quick
            }
            task = task_of(table, setting, data).subset(table.method.get(name, {}).get("series"))
            found = task.figures(task.impute(method, table.draws), table.metrics)
            figures += [
                CheckedFigure(setting.name, n, x, recorded.get(n)) for n, x in found.items()
            ]
    if not figures:
        raise InputError(
            f"{model} must be a model of the channels of {' or of '.join(others)} for the "
            f"table {table.name}, got {', '.join(method.channels)}; "
            f"name the table it was trained for"
        )
    return figures


def markdown(figures: Sequence[CheckedFigure]) -> str:
    """The figures as a table, each with its standard error if it has one."""
    errors = {(each.setting, each.metric): each for each in figures}
    lines = []
    for each in figures:
        if each.metric.endswith("_se"):
            continue
        error = errors.get((each.setting, f"{each.metric}_se"))
        found = _with_error(each.found, error.found if error else None)
        recorded = _with_error(each.recorded, error.recorded if error else None)
        verdict = NONE if each.recorded is None else "differs" if each.differs else "same"
        lines.append([each.setting, each.metric, found, recorded, verdict])
    return grid(["setting", "metric", "this model", "recorded", ""], lines)


def _with_error(value: float | None, error: float | None) -> str:
    """A figure with the digits of a result file."""
    if value is None:
        return NONE
    return f"{value:.6g}" if error is None else f"{value:.6g} ± {error:.2g}"
