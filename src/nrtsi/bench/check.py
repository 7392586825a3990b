"""Scores a saved model on a table, beside the figures that were written down of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.markdown import grid
from nrtsi.bench.methods import Ours
from nrtsi.bench.results import ERROR, Row
from nrtsi.bench.tables import Setting, Table
from nrtsi.bench.tasks import data_sets, task_of
from nrtsi.errors import InputError

__all__ = ["Figure", "Question", "check", "shown"]

SAME = 1e-3
"""Figures that differ by less, relative to them, are the same on another machine."""


@dataclass(frozen=True)
class Question:
    """What is checked."""

    table: Table
    model: Path

    method: str = "nrtsi"
    """The row of the table that the model is of."""

    quick: bool = False
    """On the few series of a quick run."""

    def __post_init__(self) -> None:
        ours = [name for name in self.table.methods if self.table.kind_of(name) == "nrtsi"]
        if self.method not in ours:
            raise InputError(
                f"--method must be one of {', '.join(ours)} for the table {self.table.name}, "
                f"got {self.method!r}; choose one"
            )


@dataclass(frozen=True)
class Figure:
    """One figure of the model, and the one that was written down of it."""

    setting: str
    metric: str
    found: float
    written: float | None

    @property
    def differs(self) -> bool:
        """Whether another figure was written down; False where none was."""
        if self.written is None or (math.isnan(self.found) and math.isnan(self.written)):
            return False
        return not math.isclose(self.found, self.written, rel_tol=SAME)


def check(
    question: Question, rows: Sequence[Row] = (), say: Callable[[str], None] = lambda line: None
) -> list[Figure]:
    """The figures of a model in every setting of the table whose data have its channels.

    They are scored as `run` scores them; `rows` are those of a file of results.

    Raises:
        CheckpointError: The file is absent, damaged, or not a model of this library.
        InputError: The data cannot be had, or all have other channels than the model.
    """
    table, ours = question.table, Ours.load(question.model)
    figures: list[Figure] = []
    others: list[Dataset] = []
    for name, data in data_sets(table, quick=question.quick, say=say):
        if not ours.knows(data.channels):
            others.append(data)
            continue
        say(f"{name}: {data.about}")
        for setting in table.settings:
            if table.data_of(setting) == name:
                figures += _figures(question, ours, setting, data, rows)
    if not figures:
        wanted = " or of ".join(f"{data.name} ({', '.join(data.channels)})" for data in others)
        raise InputError(
            f"{question.model} must be a model of the channels of {wanted} for the table "
            f"{table.name}, got {', '.join(ours.channels)}; name the table it was trained for"
        )
    return figures


def shown(figures: Sequence[Figure]) -> str:
    """The figures as Markdown, each with its standard error where it has one."""
    errors = {
        (each.setting, each.metric.removesuffix("_se")): each
        for each in figures
        if each.metric.endswith("_se")
    }
    lines = []
    for each in figures:
        if each.metric.endswith("_se"):
            continue
        error = errors.get((each.setting, each.metric))
        found = _with_error(each.found, error.found if error else None)
        written = _with_error(each.written, error.written if error else None)
        verdict = "–" if each.written is None else "differs" if each.differs else "the same"
        lines.append([each.setting, each.metric, found, written, verdict])
    return grid(["setting", "measure", "this model", "written down", ""], lines)


def _figures(
    question: Question, ours: Ours, setting: Setting, data: Dataset, rows: Sequence[Row]
) -> list[Figure]:
    table, job = question.table, (question.table.name, setting.name, question.method, ours.seed)
    written = {
        row.metric: row.number
        for row in rows
        if row.job == job
        and row.metric != ERROR
        and row.data in ("", data.digest)
        and (row.effort == "quick") == question.quick
    }
    limit = table.method.get(question.method, {}).get("series")
    task = task_of(table, setting, data).some(limit)
    found = task.figures(task.answered(ours, table.draws), table.metrics)
    return [Figure(setting.name, name, each, written.get(name)) for name, each in found.items()]


def _with_error(value: float | None, error: float | None) -> str:
    """A figure as a file of results has it.

    >>> _with_error(0.01234567, 0.000456), _with_error(2000.0, None), _with_error(None, None)
    ('0.0123457 ± 0.00046', '2000', '–')
    """
    if value is None:
        return "–"
    return f"{value:.6g}" if error is None else f"{value:.6g} ± {error:.2g}"
