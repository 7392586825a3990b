"""Scores a saved model on a table and compares it with the recorded figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.markdown import NONE, grid
from nrtsi.bench.methods import NRTSIMethod
from nrtsi.bench.results import Row
from nrtsi.bench.runner import Notify
from nrtsi.bench.tables import Setting, Table
from nrtsi.bench.tasks import data_sets, task_of
from nrtsi.errors import InputError

__all__ = ["CheckRequest", "Figure", "check", "markdown"]

TOLERANCE = 1e-3
"""Relative difference below which figures are equal; machines differ by less."""


@dataclass(frozen=True)
class CheckRequest:
    """The model to check, and the row of a table it belongs to."""

    table: Table
    model: Path
    method: str = "nrtsi"
    quick: bool = False

    def __post_init__(self) -> None:
        names = [name for name in self.table.methods if self.table.kind_of(name) == "nrtsi"]
        if self.method not in names:
            raise InputError(
                f"--method must be one of {', '.join(names)} for the table {self.table.name}, "
                f"got {self.method!r}; choose one"
            )


@dataclass(frozen=True)
class Figure:
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


def check(
    request: CheckRequest, rows: Sequence[Row] = (), notify: Notify = lambda line: None
) -> list[Figure]:
    """Scores a model in every setting whose data have its channels, as `nrtsi bench run` does."""
    table, method = request.table, NRTSIMethod.load(request.model)
    figures: list[Figure] = []
    others: list[str] = []
    for name, data in data_sets(table, quick=request.quick, notify=notify):
        if not method.has_channels(data.channels):
            others.append(f"{data.name} ({', '.join(data.channels)})")
            continue
        notify(f"{name}: {data.about}")
        for setting in table.settings:
            if table.data_of(setting) == name:
                figures += _figures(request, method, setting, data, rows)
    if not figures:
        raise InputError(
            f"{request.model} must be a model of the channels of {' or of '.join(others)} for the "
            f"table {table.name}, got {', '.join(method.channels)}; "
            f"name the table it was trained for"
        )
    return figures


def markdown(figures: Sequence[Figure]) -> str:
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


def _figures(
    request: CheckRequest,
    method: NRTSIMethod,
    setting: Setting,
    data: Dataset,
    rows: Sequence[Row],
) -> list[Figure]:
    table, job = request.table, (request.table.name, setting.name, request.method, method.seed)
    recorded = {
        row.metric: row.number
        for row in rows
        if row.job == job
        and not row.failed
        and row.data in ("", data.digest)
        and (row.effort == "quick") == request.quick
    }
    task = task_of(table, setting, data).subset(table.method.get(request.method, {}).get("series"))
    found = task.figures(task.impute(method, table.draws), table.metrics)
    return [Figure(setting.name, name, each, recorded.get(name)) for name, each in found.items()]


def _with_error(value: float | None, error: float | None) -> str:
    """A figure with the digits of a result file.

    >>> _with_error(0.01234567, 0.000456), _with_error(2000.0, None), _with_error(None, None)
    ('0.0123457 ± 0.00046', '2000', '–')
    """
    if value is None:
        return NONE
    return f"{value:.6g}" if error is None else f"{value:.6g} ± {error:.2g}"
