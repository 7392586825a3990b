"""Runs the jobs of a table that have no rows yet, and adds their rows to the file."""

import glob
import hashlib
import json
import logging
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.meter import Meter
from nrtsi.bench.methods import (
    Method,
    TrainingTask,
    failures_of,
    is_trained,
    method_of,
    tiny,
)
from nrtsi.bench.results import ERROR, Row, add, read
from nrtsi.bench.tables import EXPERT, Setting, Table
from nrtsi.bench.tasks import Task, data_sets, task_of
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCKS, TOLD, going_by
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration
from nrtsi.training.plan import Budget

__all__ = ["Plan", "Task", "code_revision", "code_versions", "run", "task_of"]

log = logging.getLogger(__name__)

Say = Callable[[str], None]


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
    """Folder to keep the models in."""

    overwrite: bool = False
    """Replace rows that were made with another budget."""

    clock: str = "wall"
    """What a second is, one of `CLOCKS`."""

    def __post_init__(self) -> None:
        if not self.methods:
            raise InputError(f"--methods must name some of {', '.join(self.table.methods)}")
        if self.clock not in CLOCKS:
            raise InputError(f"--clock must be one of {', '.join(CLOCKS)}, got {self.clock!r}")
        for name in self.methods:
            if name not in self.table.methods:
                raise InputError(
                    f"--methods must be among {', '.join(self.table.methods)} for the table "
                    f"{self.table.name}, got {name!r}"
                )

    def effort(self, method: str) -> str:
        """What was spent on the rows of a method, in words; rows of other effort are no match."""
        if self.quick:
            return "quick"
        if not is_trained(self.table.kind_of(method)):
            return ""
        budget = self.budget_of(method)
        if budget.steps is not None:
            return f"{budget.steps} steps"
        return f"budget {budget.seconds:g} s{TOLD[self.clock]}"

    def budget_of(self, method: str) -> Budget:
        """The time a method has to train: its own, or that of all."""
        if self.quick:
            return Budget(steps=self.table.quick.steps)
        own = self.table.budget_of(method)
        return self.budget if own is None else Budget(seconds=parse_duration(own))


def run(plan: Plan, say: Say = lambda line: None, listener: Listener | None = None) -> list[Row]:
    """Runs what is not in the file yet and returns all rows of the table in the file.

    Every job's rows are written as soon as it is done, so a run that was killed goes on where it
    stopped; the training of nrtsi goes on in the middle. Failed jobs are tried again.

    Raises:
        InputError: The data cannot be had, or the file holds rows made with another effort.
    """
    check_writable(plan.out, overwrite=True)
    _refuse_other_effort(plan)
    revision = code_revision()  # of the code that runs, which may be edited meanwhile
    for name, data in data_sets(plan.table, quick=plan.quick, say=say):
        todo = list(_missing(plan, name))
        if todo:
            say(f"{name}: {data.about}")
            _refuse_other_data(plan, data)
        with going_by(CLOCKS[plan.clock]):
            for seed, method, settings in todo:
                for rows in _job(plan, data, seed, method, settings, revision, listener):
                    add(plan.out, rows)
                    say(_sentence(rows))
    return [row for row in read(plan.out) if row.table == plan.table.name]


def _missing(plan: Plan, data: str) -> Iterator[tuple[int, str, tuple[Setting, ...]]]:
    """Trainings on one data set whose figures are not all there, with the settings they lack."""
    table, wanted = plan.table, set(plan.table.metrics)
    found: dict[tuple[str, str, str, int], set[str]] = {}
    for row in read(plan.out):
        if row.effort == plan.effort(row.method):
            found.setdefault(row.job, set()).add(row.metric)
    for seed in plan.seeds:
        for method in plan.methods:
            lacking = tuple(
                setting
                for setting in table.settings
                if table.data_of(setting) == data
                and not wanted <= found.get((table.name, setting.name, method, seed), set())
            )
            for masks in dict.fromkeys(table.training_of(setting) for setting in lacking):
                same = tuple(s for s in lacking if table.training_of(s) == masks)
                yield seed, method, same


def _job(
    plan: Plan,
    data: Dataset,
    seed: int,
    name: str,
    settings: tuple[Setting, ...],
    revision: str,
    listener: Listener | None,
) -> Iterator[list[Row]]:
    """Trains a method once and scores it in every setting; a failure is a row that says so."""
    clerk = _Clerk(plan, name, seed, revision, data.digest)
    kind, words = plan.table.kind_of(name), dict(plan.table.method.get(name, {}))
    limit = words.pop("series", None)
    words.pop("budget", None)
    if plan.quick:
        words |= tiny(kind)
    lesson = _lesson(plan, data, name, settings[0], listener)
    kept = _checkpoint(plan, lesson, (data.name, name, seed), words, revision)
    method = None
    if kind != EXPERT:
        try:
            method = method_of(name, seed, words)
            with Meter() as clerk.training:
                method.fit(replace(lesson, checkpoint=kept))
        except failures_of(kind) as error:
            kept.unlink(missing_ok=True)  # or the next try would begin just before the failure
            yield clerk.failures(settings, error)
            return
        clerk.method = method
        if plan.models is not None:
            quick = "-quick" if plan.quick else ""
            file = f"{plan.table.name}-{data.name}-{name}-{seed}{quick}.nrtsi"
            method.save(plan.models / file)
    failed = False
    for setting in settings:
        task = task_of(plan.table, setting, data).some(limit)
        rows = _scored(clerk, method, task, setting)
        failed |= rows[0].metric == ERROR
        yield rows
    if not failed:  # else the next try scores the same training
        kept.unlink(missing_ok=True)


def _scored(clerk: "_Clerk", method: Method | None, task: Task, setting: Setting) -> list[Row]:
    table = clerk.plan.table
    with Meter() as meter:
        try:
            answer = task.answered(method, table.draws)
        except failures_of(table.kind_of(clerk.name)) as error:
            return clerk.failures((setting,), error)
    try:
        figures = task.figures(answer, table.metrics)
    except InputError as error:
        return clerk.failures((setting,), error)
    return [clerk.row(setting, name, f"{value:.6g}", meter) for name, value in figures.items()]


def _lesson(
    plan: Plan, data: Dataset, method: str, setting: Setting, listener: Listener | None
) -> TrainingTask:
    return TrainingTask(
        train=data.train,
        validation=data.validation,
        channels=data.channels,
        masks=plan.table.training_of(setting),
        budget=plan.budget_of(method),
        listener=listener,
    )


def _checkpoint(
    plan: Plan,
    lesson: TrainingTask,
    job: tuple[str, str, int],
    words: dict[str, Any],
    revision: str,
) -> Path:
    """Where this very training keeps its state; what others have left of the job is removed."""
    masks, effort = lesson.masks.model_dump(), plan.effort(job[1])
    training = _digest([masks, words, effort, revision])
    prefix = f"{plan.out.name}.{_digest([plan.table.name, *job])}-"
    path = plan.out.with_name(f"{prefix}{training}.checkpoint")
    for other in plan.out.parent.glob(f"{glob.escape(prefix)}*.checkpoint"):
        if other.name != path.name:
            other.unlink(missing_ok=True)
    return path


def _digest(words: list[Any]) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:12]


@dataclass
class _Clerk:
    """Writes the rows of one training."""

    plan: Plan
    name: str
    seed: int
    revision: str
    data: str
    training: Meter | None = None
    method: Method | None = None

    def row(self, setting: Setting, metric: str, value: str, meter: Meter | None) -> Row:
        peaks = [m.peak_mib for m in (self.training, meter) if m and m.peak_mib is not None]
        known = self.method or Method()
        return Row(
            table=self.plan.table.name,
            setting=setting.name,
            method=self.name,
            seed=self.seed,
            metric=metric,
            value=value,
            train_s=self._trained(known),
            impute_s=f"{meter.seconds:.2f}" if meter else "",
            peak_mib=f"{max(peaks):.0f}" if peaks else "",
            parameters="" if known.parameters is None else str(known.parameters),
            versions=code_versions(self.data, self.plan.effort(self.name)),
            revision=self.revision,
        )

    def failures(self, settings: Sequence[Setting], error: Exception) -> list[Row]:
        log.info("%s failed", self.name, exc_info=error)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return [self.row(setting, ERROR, reason, None) for setting in settings]

    def _trained(self, method: Method) -> str:
        """Seconds of training, where there was any."""
        if self.training is None or not is_trained(self.plan.table.kind_of(self.name)):
            return ""
        return f"{max(self.training.seconds, method.seconds or 0.0):.1f}"


def _sentence(rows: Sequence[Row]) -> str:
    """What a job came to, in a line."""
    first = rows[0]
    place = f"{first.table}, {first.setting}, {first.method}"
    if first.metric == ERROR:
        return f"{place}: failed: {first.value}"
    spent = f"trained {first.train_s} s, " if first.train_s else ""
    return f"{place}: {first.metric} {first.value} ({spent}filled in {first.impute_s} s)"


def _refuse_other_effort(plan: Plan) -> None:
    if plan.overwrite:
        return
    asked = {(name, seed) for name in plan.methods for seed in plan.seeds}
    for row in read(plan.out):
        if row.table != plan.table.name or (row.method, row.seed) not in asked:
            continue
        if row.effort != plan.effort(row.method):
            raise InputError(
                f"{plan.out} has rows of {row.method} made with {row.effort or 'all data'}, not "
                f"with {plan.effort(row.method) or 'all data'}; give the same, another --out, or "
                f"--overwrite to replace them"
            )


def _refuse_other_data(plan: Plan, data: Dataset) -> None:
    """Rows of other data, such as another original, must not stand in one table with these."""
    settings = {s.name for s in plan.table.settings if plan.table.data_of(s) == data.name}
    for row in read(plan.out):
        mine = row.table == plan.table.name and row.setting in settings
        if mine and not plan.overwrite and row.data not in ("", data.digest):
            raise InputError(
                f"{plan.out} has rows of {row.method} measured on other data of the name "
                f"{data.name} ({row.data}, not {data.digest}); make the data as they were, or "
                f"give another --out, or --overwrite to mix them"
            )


def code_versions(data: str, effort: str) -> str:
    """What the figures depend on: software and data, and after a semicolon the effort."""
    found = [f"python {platform.python_version()}"]
    for name in ("nrtsi", "torch", "numpy", "pypots"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return " ".join([*found, f"data {data}"]) + (f"; {effort}" if effort else "")


def code_revision() -> str:
    """The commit of the source that runs; empty where it is an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
