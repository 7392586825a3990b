"""Runs the jobs of a table that have no rows yet, and adds their rows to the file."""

import glob
import hashlib
import json
import logging
import platform
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from nrtsi.atomic import check_writable
from nrtsi.bench.meter import Meter
from nrtsi.bench.methods import (
    Lesson,
    Method,
    failures_of,
    is_trained,
    method_of,
    tiny,
)
from nrtsi.bench.results import ERROR, Row, add, read
from nrtsi.bench.scores import Answer, score
from nrtsi.bench.tables import EXPERT, Setting, Table
from nrtsi.datasets.dataset import Dataset, Part
from nrtsi.datasets.registry import make
from nrtsi.errors import InputError
from nrtsi.events import Listener
from nrtsi.training.curriculum import Budget

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

    def __post_init__(self) -> None:
        if not self.methods:
            raise InputError(f"--methods must name some of {', '.join(self.table.methods)}")
        for name in self.methods:
            if name not in self.table.methods:
                raise InputError(
                    f"--methods must be among {', '.join(self.table.methods)} for the table "
                    f"{self.table.name}, got {name!r}"
                )

    def kind(self, method: str) -> str:
        """The kind of a method of the table."""
        return str(self.table.method.get(method, {}).get("kind", method))

    def effort(self, method: str) -> str:
        """What was spent on the rows of a method, in words; rows of other effort are no match."""
        if self.quick:
            return "quick"
        if not is_trained(self.kind(method)):
            return ""
        if self.budget.steps is not None:
            return f"{self.budget.steps} steps"
        return f"budget {self.budget.seconds:g} s"


@dataclass(frozen=True)
class Task:
    """Test series with holes, the same for every method."""

    given: Part
    truth: Part
    hidden: Bool[np.ndarray, "series step dim"]

    copies: int = 1
    """Times the test series are asked, with other cells hidden: one copy after the other."""

    def some(self, series: int | None) -> "Task":
        """So many of the series of the first copy, evenly chosen; the whole task where None."""
        count = self.truth.series // self.copies
        if series is None or series >= count:
            return self
        at = np.linspace(0, count - 1, series).round().astype(np.int64)
        given, truth = (Part(p.time[at], p.value[at]) for p in (self.given, self.truth))
        return Task(given, truth, self.hidden[at])


def task_of(table: Table, setting: Setting, data: Dataset) -> Task:
    """The test series of a setting: a pure function of the table's words and of the data."""
    truth = _with_data(data.test)
    name = zlib.crc32(f"{table.data_of(setting)}/{setting.name}".encode())
    hidden = [
        setting.masks.draw(truth, np.random.default_rng([name, repeat]))
        for repeat in range(setting.repeats)
    ]
    tile = (setting.repeats, 1)
    whole = Part(np.tile(truth.time, tile), np.tile(truth.value, (*tile, 1)))
    cells = np.concatenate(hidden)
    given = replace(whole, value=np.where(cells, np.nan, whole.value))
    return Task(given, whole, cells, setting.repeats)


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
    for name, data in _data_sets(plan, say):
        todo = list(_missing(plan, name))
        if todo:
            say(f"{name}: {data.about}")
            _refuse_other_data(plan, data)
        for seed, method, settings in todo:
            for rows in _job(plan, data, seed, method, settings, revision, listener):
                add(plan.out, rows)
                say(_sentence(rows))
    return [row for row in read(plan.out) if row.table == plan.table.name]


def _data_sets(plan: Plan, say: Say) -> Iterator[tuple[str, Dataset]]:
    """The data sets of the table that can be had.

    Raises:
        InputError: None of them can.
    """
    names = dict.fromkeys(plan.table.data_of(setting) for setting in plan.table.settings)
    refused: list[InputError] = []
    for name in names:
        try:
            data = _data(plan, name)
        except InputError as error:
            refused.append(error)
            if len(names) > 1:
                say(f"{name} is left out: {error}")
            continue
        yield name, data
    if len(refused) == len(names):
        raise refused[0]


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


def _data(plan: Plan, name: str) -> Dataset:
    quick = plan.table.quick
    sizes = (quick.train, quick.test) if plan.quick else None
    data = make(name, series=sizes)
    return replace(data, train=_with_data(data.train), validation=_with_data(data.validation))


def _with_data(part: Part) -> Part:
    """Without series in which nothing is observed: there is nothing to learn or to score."""
    some = ~np.isnan(part.value).all(axis=(1, 2))
    return part if some.all() else Part(part.time[some], part.value[some])


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
    kind, words = plan.kind(name), dict(plan.table.method.get(name, {}))
    limit = words.pop("series", None)
    if plan.quick:
        words |= tiny(kind)
    lesson = _lesson(plan, data, settings[0], listener)
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
    table, truth = clerk.plan.table, task.truth.value
    filled, draws = truth, None
    with Meter() as meter:
        if method is not None:
            try:
                filled, draws = method.answer(task.given, table.draws)
            except failures_of(clerk.plan.kind(clerk.name)) as error:
                return clerk.failures((setting,), error)
    try:
        figures = score(Answer(truth, task.hidden, filled, draws, task.copies), table.metrics)
    except InputError as error:
        return clerk.failures((setting,), error)
    figures["series"] = task.truth.series
    return [clerk.row(setting, name, f"{value:.6g}", meter) for name, value in figures.items()]


def _lesson(plan: Plan, data: Dataset, setting: Setting, listener: Listener | None) -> Lesson:
    return Lesson(
        train=data.train,
        validation=data.validation,
        channels=data.channels,
        masks=plan.table.training_of(setting),
        budget=Budget(steps=plan.table.quick.steps) if plan.quick else plan.budget,
        listener=listener,
    )


def _checkpoint(
    plan: Plan,
    lesson: Lesson,
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
        if self.training is None or not is_trained(self.plan.kind(self.name)):
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
