"""Runs the jobs of a table that have no rows yet, and adds their rows to the file of results."""

import glob
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.experiments import Experiment, Notify, RunOptions
from nrtsi.bench.meter import Meter
from nrtsi.bench.methods import (
    Method,
    TrainingTask,
    expected_errors,
    is_trained,
    method_of,
    quick_settings,
)
from nrtsi.bench.results import ERROR, Row, add, code_revision, code_versions, read
from nrtsi.bench.table_page import TablePage
from nrtsi.bench.tables import EXPERT, Setting, Table, open_table
from nrtsi.bench.tasks import Task, data_sets, task_of
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCK_LABELS, CLOCKS, use_clock
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.training.settings import Budget, budget_of

__all__ = ["digest", "experiment_of", "rows_of", "run_table"]

log = logging.getLogger(__name__)

OPTIONS = {"methods", "budget", "steps", "seeds", "quick", "models", "overwrite", "clock"}
DEFAULT_BUDGET = "10m"


def experiment_of(name: str) -> Experiment:
    """The experiment of a table."""
    table = open_table(name)
    return Experiment(
        OPTIONS,
        partial(run_table, table),
        lambda path: TablePage(table, rows_of(table, path)).markdown(),
    )


def rows_of(table: Table, path: Path) -> list[Row]:
    """Reads a file of results that must have rows of the table, if it has any."""
    rows = read(path)
    names = sorted({row.table for row in rows})
    if rows and table.name not in names:
        raise InputError(f"{path} has no rows of {table.name}, only of {', '.join(names)}")
    return rows


def run_table(
    table: Table,
    options: RunOptions,
    notify: Notify = lambda line: None,
    listener: Listener | None = None,
) -> list[Row]:
    """Runs what is not in the file yet, and returns all rows of the table in the file.

    The rows of a job are written as soon as it is done, so that a run that was stopped resumes
    there; the training of nrtsi resumes at its last checkpoint. Failed jobs are tried again.
    """
    if options.methods is None:
        options = replace(options, methods=table.default_methods)
    _check_methods(table, options)
    budget_of(options.budget or DEFAULT_BUDGET, options.steps)  # rejects a wrong one early
    check_writable(options.out, overwrite=True)
    if options.models is not None:
        try:
            options.models.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--models must be a folder, got {options.models}: {error.strerror}"
            ) from error
    _refuse_other_effort(table, options)
    revision = code_revision()  # read now, because the source may be edited during the run
    for name, data in data_sets(table, quick=options.quick, notify=notify):
        jobs = list(_jobs(table, options, name, data, revision))
        if jobs:
            notify(f"{name}: {data.about}")
            _refuse_other_data(table, options, data)
        with use_clock(CLOCKS[options.clock]):
            for job in jobs:
                for rows in job.run(listener):
                    add(options.out, rows)
                    notify(_summary(rows))
    return [row for row in read(options.out) if row.table == table.name]


def budget_for(table: Table, options: RunOptions, method: str) -> Budget:
    """The training budget of a method: its own, or that of all."""
    if options.quick:
        return Budget(steps=table.quick.steps)
    if own := table.budget_of(method):
        return budget_of(own, None)
    return budget_of(options.budget or DEFAULT_BUDGET, options.steps)


def effort_of(table: Table, options: RunOptions, method: str) -> str:
    """The effort that the rows of a method record."""
    if options.quick:
        return "quick"
    if not is_trained(table.kind_of(method)):
        return ""
    budget = budget_for(table, options, method)
    if budget.steps is not None:
        return f"{budget.steps} steps"
    return f"budget {budget.seconds:g} s{CLOCK_LABELS[options.clock]}"


def _jobs(
    table: Table, options: RunOptions, data_name: str, data: Dataset, revision: str
) -> "Iterator[_Job]":
    """The trainings on one data set whose figures are not all in the file."""
    found: dict[tuple[str, str, str, int], set[str]] = {}
    for row in read(options.out):
        if row.effort == effort_of(table, options, row.method):
            found.setdefault(row.job, set()).add(row.metric)
    for seed in options.seeds:
        for method in options.methods or ():
            by_masks: dict[object, list[Setting]] = {}
            for setting in table.settings:
                measured = found.get((table.name, setting.name, method, seed), set())
                if table.data_of(setting) == data_name and not set(table.metrics) <= measured:
                    by_masks.setdefault(table.training_of(setting), []).append(setting)
            for settings in by_masks.values():
                yield _Job(table, options, data, method, seed, settings, revision)


@dataclass
class _Job:
    """One training, and its scores in some settings."""

    table: Table
    options: RunOptions
    data: Dataset
    name: str
    seed: int
    settings: Sequence[Setting]
    revision: str
    training: Meter | None = None
    method: Method | None = None

    def __post_init__(self) -> None:
        self.kind = self.table.kind_of(self.name)
        self.masks = self.table.training_of(self.settings[0])
        self.effort = effort_of(self.table, self.options, self.name)

    def run(self, listener: Listener | None) -> Iterator[list[Row]]:
        """Trains the method and yields its rows by setting; a failure is a row with the reason."""
        parameters = dict(self.table.method.get(self.name, {}))
        limit = parameters.pop("series", None)
        parameters.pop("budget", None)
        if self.options.quick:
            parameters |= quick_settings(self.kind)
        checkpoint = self._checkpoint(parameters)
        if self.kind != EXPERT:
            try:
                self._train(parameters, checkpoint, listener)
            except expected_errors(self.kind) as error:
                checkpoint.unlink(missing_ok=True)  # or the next try would start at the failure
                yield [self._failure(setting, error) for setting in self.settings]
                return
        failed = False
        for setting in self.settings:
            rows = self._score(setting, task_of(self.table, setting, self.data).subset(limit))
            failed |= rows[0].failed
            yield rows
        if not failed:  # else the next try scores the same training
            checkpoint.unlink(missing_ok=True)

    def _train(
        self, parameters: dict[str, Any], checkpoint: Path, listener: Listener | None
    ) -> None:
        method = method_of(self.name, self.seed, parameters)
        budget = budget_for(self.table, self.options, self.name)
        task = TrainingTask(self.data, self.masks, budget, checkpoint, listener)
        with Meter() as self.training:
            method.fit(task)
        self.method = method
        if self.options.models is not None:
            quick = "-quick" if self.options.quick else ""
            stem = f"{self.table.name}-{self.data.name}-{self.name}-{self.seed}{quick}"
            method.save(self.options.models / f"{stem}.nrtsi")

    def _score(self, setting: Setting, task: Task) -> list[Row]:
        with Meter() as meter:
            try:
                imputation = task.impute(self.method, self.table.draws)
            except expected_errors(self.kind) as error:
                return [self._failure(setting, error)]
        try:
            figures = task.figures(imputation, self.table.metrics)
        except InputError as error:
            return [self._failure(setting, error)]
        return [self._row(setting, name, f"{value:.6g}", meter) for name, value in figures.items()]

    def _row(self, setting: Setting, metric: str, value: str, meter: Meter | None) -> Row:
        peaks = [m.peak_mib for m in (self.training, meter) if m and m.peak_mib is not None]
        parameters = self.method.parameters if self.method else None
        train_s = ""
        if self.training is not None and is_trained(self.kind):
            resumed = self.method.seconds if self.method else None
            train_s = f"{max(self.training.seconds, resumed or 0.0):.1f}"
        return Row(
            *(self.table.name, setting.name, self.name, self.seed, metric, value),
            train_s=train_s,
            impute_s=f"{meter.seconds:.2f}" if meter else "",
            peak_mib=f"{max(peaks):.0f}" if peaks else "",
            parameters="" if parameters is None else str(parameters),
            versions=code_versions(self.data.digest, self.effort),
            revision=self.revision,
        )

    def _failure(self, setting: Setting, error: Exception) -> Row:
        log.info("%s failed", self.name, exc_info=error)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return self._row(setting, ERROR, reason, None)

    def _checkpoint(self, parameters: dict[str, Any]) -> Path:
        """The checkpoint of this training; those of other trainings of the job are removed."""
        out = self.options.out
        training = digest([self.masks.model_dump(), parameters, self.effort, self.revision])
        job = digest([self.table.name, self.data.name, self.name, self.seed])
        path = out.with_name(f"{out.name}.{job}-{training}.checkpoint")
        for other in out.parent.glob(f"{glob.escape(f'{out.name}.{job}-')}*.checkpoint"):
            if other.name != path.name:
                other.unlink(missing_ok=True)
        return path


def digest(value: list[Any]) -> str:
    """Identifies a JSON value, such as the settings of a training."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _summary(rows: Sequence[Row]) -> str:
    """The result of a job in one line."""
    first = rows[0]
    place = f"{first.table}, {first.setting}, {first.method}"
    if first.failed:
        return f"{place}: failed: {first.value}"
    trained = f"trained {first.train_s} s, " if first.train_s else ""
    return f"{place}: {first.metric} {first.value} ({trained}imputed in {first.impute_s} s)"


def _check_methods(table: Table, options: RunOptions) -> None:
    known = ", ".join(table.methods)
    if not options.methods:
        raise InputError(f"--methods must name some of {known}")
    for name in options.methods:
        if name not in table.methods:
            raise InputError(
                f"--methods must be among {known} for the table {table.name}, got {name!r}"
            )


def _refuse_other_effort(table: Table, options: RunOptions) -> None:
    jobs = set(product([table.name], options.methods or (), options.seeds))
    for row in [] if options.overwrite else read(options.out):
        effort = effort_of(table, options, row.method)
        if (row.table, row.method, row.seed) in jobs and row.effort != effort:
            raise InputError(
                f"{options.out} has rows of {row.method} made with {row.effort or 'all data'}, "
                f"not with {effort or 'all data'}; give the same, another --out, or --overwrite "
                f"to replace them"
            )


def _refuse_other_data(table: Table, options: RunOptions, data: Dataset) -> None:
    settings = {s.name for s in table.settings if table.data_of(s) == data.name}
    for row in [] if options.overwrite else read(options.out):
        same_setting = row.table == table.name and row.setting in settings
        if same_setting and row.data not in ("", data.digest):
            raise InputError(
                f"{options.out} has rows of {row.method} measured on other data of the name "
                f"{data.name} ({row.data}, not {data.digest}); make the same data again, give "
                f"another --out, or --overwrite to mix them"
            )
