"""Runs the jobs of a table that have no rows yet, and adds their rows to the file of results."""

import glob
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nrtsi.bench.datasets.dataset import Dataset
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
from nrtsi.bench.tables import EXPERT, Setting, Table
from nrtsi.bench.tasks import Task, data_sets, task_of
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCK_LABELS, CLOCKS, use_clock
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration
from nrtsi.training.plan import Budget

__all__ = ["Notify", "Plan", "check_clock", "digest", "run_plan"]

log = logging.getLogger(__name__)

Notify = Callable[[str], None]
"""Receives a line for the user."""


@dataclass(frozen=True)
class Plan:
    """Which part of a table is run, and how."""

    table: Table
    out: Path
    methods: tuple[str, ...]
    budget: Budget
    seeds: tuple[int, ...] = (0,)
    quick: bool = False

    models: Path | None = None
    """Folder for the trained models."""

    overwrite: bool = False
    """Replace rows that were made with another budget."""

    clock: str = "wall"
    """The clock of budgets, one of `CLOCKS`."""

    def __post_init__(self) -> None:
        check_clock(self.clock)
        if not self.methods:
            raise InputError(f"--methods must name some of {', '.join(self.table.methods)}")
        for name in self.methods:
            if name not in self.table.methods:
                raise InputError(
                    f"--methods must be among {', '.join(self.table.methods)} for the table "
                    f"{self.table.name}, got {name!r}"
                )

    def effort(self, method: str) -> str:
        """The effort that the rows of a method record."""
        if self.quick:
            return "quick"
        if not is_trained(self.table.kind_of(method)):
            return ""
        budget = self.budget_of(method)
        if budget.steps is not None:
            return f"{budget.steps} steps"
        return f"budget {budget.seconds:g} s{CLOCK_LABELS[self.clock]}"

    def budget_of(self, method: str) -> Budget:
        """The training budget of a method: its own, or that of all."""
        if self.quick:
            return Budget(steps=self.table.quick.steps)
        own = self.table.budget_of(method)
        return self.budget if own is None else Budget(seconds=parse_duration(own))


def check_clock(clock: str) -> None:
    """Raises InputError if there is no such clock."""
    if clock not in CLOCKS:
        raise InputError(f"--clock must be one of {', '.join(CLOCKS)}, got {clock!r}")


def run_plan(
    plan: Plan, notify: Notify = lambda line: None, listener: Listener | None = None
) -> list[Row]:
    """Runs what is not in the file yet, and returns all rows of the table in the file.

    The rows of a job are written as soon as it is done, so that a run that was stopped resumes
    there; the training of nrtsi resumes at its last checkpoint. Failed jobs are tried again.
    """
    check_writable(plan.out, overwrite=True)
    _refuse_other_effort(plan)
    revision = code_revision()  # read now, because the source may be edited during the run
    for name, data in data_sets(plan.table, quick=plan.quick, notify=notify):
        jobs = list(_jobs(plan, name, data, revision))
        if jobs:
            notify(f"{name}: {data.about}")
            _refuse_other_data(plan, data)
        with use_clock(CLOCKS[plan.clock]):
            for job in jobs:
                for rows in job.run(listener):
                    add(plan.out, rows)
                    notify(_summary(rows))
    return [row for row in read(plan.out, Row) if row.table == plan.table.name]


def _jobs(plan: Plan, data_name: str, data: Dataset, revision: str) -> "Iterator[_Job]":
    """The trainings on one data set whose figures are not all in the file."""
    table, metrics = plan.table, set(plan.table.metrics)
    found: dict[tuple[str, str, str, int], set[str]] = {}
    for row in read(plan.out, Row):
        if row.effort == plan.effort(row.method):
            found.setdefault(row.job, set()).add(row.metric)
    for seed in plan.seeds:
        for method in plan.methods:
            missing = [
                setting
                for setting in table.settings
                if table.data_of(setting) == data_name
                and not metrics <= found.get((table.name, setting.name, method, seed), set())
            ]
            for masks in dict.fromkeys(table.training_of(setting) for setting in missing):
                settings = tuple(s for s in missing if table.training_of(s) == masks)
                yield _Job(plan, data, method, seed, settings, revision)


@dataclass
class _Job:
    """One training, and its scores in some settings."""

    plan: Plan
    data: Dataset
    name: str
    seed: int
    settings: tuple[Setting, ...]
    revision: str
    training: Meter | None = None
    method: Method | None = None

    @property
    def kind(self) -> str:
        return self.plan.table.kind_of(self.name)

    def run(self, listener: Listener | None) -> Iterator[list[Row]]:
        """Trains the method and yields its rows by setting; a failure is a row with the reason."""
        options = dict(self.plan.table.method.get(self.name, {}))
        limit = options.pop("series", None)
        options.pop("budget", None)
        if self.plan.quick:
            options |= quick_settings(self.kind)
        checkpoint = self._checkpoint(options)
        if self.kind != EXPERT:
            try:
                self._train(options, checkpoint, listener)
            except expected_errors(self.kind) as error:
                checkpoint.unlink(missing_ok=True)  # or the next try would start at the failure
                yield self._failures(self.settings, error)
                return
        failed = False
        for setting in self.settings:
            rows = self._score(setting, task_of(self.plan.table, setting, self.data).subset(limit))
            failed |= rows[0].failed
            yield rows
        if not failed:  # else the next try scores the same training
            checkpoint.unlink(missing_ok=True)

    def _train(self, options: dict[str, Any], checkpoint: Path, listener: Listener | None) -> None:
        method = method_of(self.name, self.seed, options)
        task = TrainingTask(
            train=self.data.train,
            validation=self.data.validation,
            channels=self.data.channels,
            masks=self.plan.table.training_of(self.settings[0]),
            budget=self.plan.budget_of(self.name),
            checkpoint=checkpoint,
            listener=listener,
        )
        with Meter() as self.training:
            method.fit(task)
        self.method = method
        if self.plan.models is not None:
            quick = "-quick" if self.plan.quick else ""
            stem = f"{self.plan.table.name}-{self.data.name}-{self.name}-{self.seed}{quick}"
            method.save(self.plan.models / f"{stem}.nrtsi")

    def _score(self, setting: Setting, task: Task) -> list[Row]:
        table = self.plan.table
        with Meter() as meter:
            try:
                imputation = task.impute(self.method, table.draws)
            except expected_errors(self.kind) as error:
                return self._failures((setting,), error)
        try:
            figures = task.figures(imputation, table.metrics)
        except InputError as error:
            return self._failures((setting,), error)
        return [self._row(setting, name, f"{value:.6g}", meter) for name, value in figures.items()]

    def _row(self, setting: Setting, metric: str, value: str, meter: Meter | None) -> Row:
        peaks = [m.peak_mib for m in (self.training, meter) if m and m.peak_mib is not None]
        parameters = self.method.parameters if self.method else None
        train_s = ""
        if self.training is not None and is_trained(self.kind):
            resumed = self.method.seconds if self.method else None
            train_s = f"{max(self.training.seconds, resumed or 0.0):.1f}"
        return Row(
            table=self.plan.table.name,
            setting=setting.name,
            method=self.name,
            seed=self.seed,
            metric=metric,
            value=value,
            train_s=train_s,
            impute_s=f"{meter.seconds:.2f}" if meter else "",
            peak_mib=f"{max(peaks):.0f}" if peaks else "",
            parameters="" if parameters is None else str(parameters),
            versions=code_versions(self.data.digest, self.plan.effort(self.name)),
            revision=self.revision,
        )

    def _failures(self, settings: Sequence[Setting], error: Exception) -> list[Row]:
        log.info("%s failed", self.name, exc_info=error)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return [self._row(setting, ERROR, reason, None) for setting in settings]

    def _checkpoint(self, options: dict[str, Any]) -> Path:
        """The checkpoint of this training; those of other trainings of the job are removed."""
        plan = self.plan
        masks = plan.table.training_of(self.settings[0]).model_dump()
        training = digest([masks, options, plan.effort(self.name), self.revision])
        job = digest([plan.table.name, self.data.name, self.name, self.seed])
        path = plan.out.with_name(f"{plan.out.name}.{job}-{training}.checkpoint")
        for other in plan.out.parent.glob(f"{glob.escape(f'{plan.out.name}.{job}-')}*.checkpoint"):
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


def _refuse_other_effort(plan: Plan) -> None:
    jobs = {(name, seed) for name in plan.methods for seed in plan.seeds}
    for row in [] if plan.overwrite else read(plan.out, Row):
        if row.table != plan.table.name or (row.method, row.seed) not in jobs:
            continue
        if row.effort != plan.effort(row.method):
            raise InputError(
                f"{plan.out} has rows of {row.method} made with {row.effort or 'all data'}, not "
                f"with {plan.effort(row.method) or 'all data'}; give the same, another --out, or "
                f"--overwrite to replace them"
            )


def _refuse_other_data(plan: Plan, data: Dataset) -> None:
    settings = {s.name for s in plan.table.settings if plan.table.data_of(s) == data.name}
    for row in [] if plan.overwrite else read(plan.out, Row):
        same_setting = row.table == plan.table.name and row.setting in settings
        if same_setting and row.data not in ("", data.digest):
            raise InputError(
                f"{plan.out} has rows of {row.method} measured on other data of the name "
                f"{data.name} ({row.data}, not {data.digest}); make the same data again, give "
                f"another --out, or --overwrite to mix them"
            )
