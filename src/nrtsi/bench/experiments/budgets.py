"""Error against budget: the validation error of nrtsi by training time and preset.

Presets are chosen by this error, so the test series are not used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.experiments.base import Experiment, RunOptions
from nrtsi.bench.markdown import NONE, bold, grid, number
from nrtsi.bench.methods import Method, NRTSIMethod, TrainingTask, method_of, quick_settings
from nrtsi.bench.results import ResultRow, add, code_revision, code_versions, read
from nrtsi.bench.runner import Notify, check_clock, digest
from nrtsi.bench.scores import score
from nrtsi.bench.tables import Table, open_table
from nrtsi.bench.tasks import Task, data_of, pool_tasks, task_of
from nrtsi.config import PRESETS, preset_for
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCK_LABELS, CLOCKS, use_clock
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration
from nrtsi.training.plan import Budget

__all__ = ["EXPERIMENT", "BudgetRow", "BudgetTraining", "by_budget", "relative_error"]

DEFAULT_TABLES, DEFAULT_BUDGETS = ("billiards", "mujoco", "air"), "1m,10m,1h"

QUICK = "quick"

Job = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class BudgetRow(ResultRow):
    """The error of one training on the validation series, over all settings of a table."""

    data: str
    """The table."""

    budget: str
    """Such as 10m; or quick."""

    changes: str
    """Parameters that differ from their defaults, except the preset, such as `model.width=48`."""

    seed: int

    preset: str
    """The preset that was used."""

    steps: int
    seconds: float
    parameters: int

    metric: str
    error: float

    error_se: float
    """Its standard error over the series."""

    linear: float
    """The error of linear interpolation in the same cells."""

    versions: str
    revision: str

    @property
    def job(self) -> Job:
        """Identifies the training."""
        return self.data, self.budget, self.preset, self.changes, self.seed

    @property
    def budget_seconds(self) -> float:
        """The budget in seconds; of a quick run the seconds it took."""
        return self.seconds if self.budget == QUICK else parse_duration(self.budget)

    @property
    def variant(self) -> str:
        """What differs from the defaults, such as `small model.width=48`; empty for nothing."""
        default = None
        if self.budget != QUICK:
            partial = open_table(self.data).partial
            default = preset_for(None, self.budget_seconds, partial=partial)
        preset = "" if self.preset == default else self.preset
        return f"{preset} {self.changes}".strip()


@dataclass(frozen=True)
class BudgetTraining:
    """A training to make."""

    table: Table
    seconds: float | None
    """The budget; None for a quick run of few steps."""

    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of `NRTSI` that differ from their defaults."""

    clock: str = "wall"

    @property
    def budget(self) -> str:
        """As in a row."""
        return QUICK if self.seconds is None else format_budget(self.seconds)

    @property
    def effort(self) -> str:
        """The budget with its clock, as the versions of a row record it."""
        return self.budget if self.seconds is None else self.budget + CLOCK_LABELS[self.clock]

    @property
    def job(self) -> Job:
        """As in a row."""
        default = "tiny" if self.seconds is None else None
        preset = self.settings.get("preset", default)
        preset = preset_for(preset, self.seconds, partial=self.table.partial)
        return self.table.name, self.budget, preset, self.changes, self.seed

    @property
    def changes(self) -> str:
        """The settings except the preset, as in a row."""
        flat: dict[str, Any] = {}
        for name, value in self.settings.items():
            inner = value if isinstance(value, dict) else {}
            flat |= {f"{name}.{key}": each for key, each in inner.items()} or {name: value}
        return " ".join(f"{name}={flat[name]}" for name in sorted(flat) if name != "preset")

    def is_in(self, rows: Sequence[BudgetRow], data: Dataset) -> bool:
        """Whether there is a row of it, of these data."""
        end = f" data {data.digest}; {self.effort}"
        return any(row.job == self.job and row.versions.endswith(end) for row in rows)

    def checkpoint(self, out: Path, revision: str) -> Path:
        """The checkpoint of an interrupted training, beside the results."""
        key = digest([*self.job, self.clock, revision])
        return out.with_name(f"{out.name}.{key}.checkpoint")

    def run(
        self,
        data: Dataset,
        checkpoint: Path | None,
        revision: str,
        listener: Listener | None = None,
    ) -> BudgetRow:
        """Trains, or resumes at the checkpoint, and scores."""
        quick = quick_settings("nrtsi") if self.seconds is None else {}
        settings = self.table.method.get("nrtsi", {}) | quick | dict(self.settings)
        steps = self.table.quick.steps if self.seconds is None else None
        task = TrainingTask(
            train=data.train,
            validation=data.validation,
            channels=data.channels,
            masks=self.table.training,
            budget=Budget(steps=steps, seconds=self.seconds),
            checkpoint=checkpoint,
            listener=listener,
        )
        method, linear = NRTSIMethod(self.seed, **settings), method_of("linear", self.seed, {})
        linear.fit(task)
        with use_clock(CLOCKS[self.clock]):
            method.fit(task)
        held_out, metric = validation_task(self.table, data), self.table.metrics[0]
        figures = _figures(method, held_out, metric)
        assert method.seconds is not None
        assert method.parameters is not None
        return BudgetRow(
            data=self.table.name,
            budget=self.budget,
            changes=self.changes,
            seed=self.seed,
            preset=method.model.preset_,
            steps=method.model.steps_,
            seconds=round(method.seconds, 1),
            parameters=method.parameters,
            metric=metric,
            error=figures[metric],
            error_se=figures.get(f"{metric}_se", float("nan")),
            linear=_figures(linear, held_out, metric)[metric],
            versions=code_versions(data.digest, self.effort),
            revision=revision,
        )


def validation_task(table: Table, data: Dataset) -> Task:
    """The validation series with the masks of all settings that the training is meant for."""
    settings = [
        setting
        for setting in table.settings
        if table.data_of(setting) == table.data and table.training_of(setting) == table.training
    ]
    return pool_tasks([task_of(table, each, data, part=data.validation) for each in settings])


def _figures(method: Method, task: Task, metric: str) -> dict[str, float]:
    found = score(task.impute(method, draws=0), [metric])
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def format_budget(seconds: float) -> str:
    """A budget as the user types it.

    >>> format_budget(600.0), format_budget(3600.0), format_budget(90.0)
    ('10m', '1h', '90s')
    """
    unit, name = next(((u, n) for u, n in ((3600, "h"), (60, "m")) if seconds % u == 0), (1, "s"))
    return f"{seconds / unit:g}{name}"


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    check_clock(options.clock)
    tables = [open_table(name) for name in options.data or DEFAULT_TABLES]
    budgets: Sequence[float | None] = [None]
    if not options.quick:
        budgets = sorted(map(parse_duration, (options.budget or DEFAULT_BUDGETS).split(",")))
    check_writable(options.out, overwrite=True)
    if any((row.budget == QUICK) != options.quick for row in read(options.out, BudgetRow)):
        raise InputError(
            f"{options.out} must not mix quick and other rows; give another --out for this run"
        )
    settings = dict(options.settings) | ({"preset": options.preset} if options.preset else {})
    trainings = [
        BudgetTraining(table, seconds, seed, settings, options.clock)
        for seconds, table, seed in product(budgets, tables, options.seeds)
    ]
    for training in trainings:
        training.job  # noqa: B018  # rejects an unknown preset before the first training
    revision = code_revision()
    data = {table.name: data_of(table, table.data, quick=options.quick) for table in tables}
    for training in trainings:
        own = data[training.table.name]
        if not options.overwrite and training.is_in(read(options.out, BudgetRow), own):
            continue
        checkpoint = training.checkpoint(options.out, revision)
        row = training.run(own, checkpoint, revision, listener)
        add(options.out, [row])
        checkpoint.unlink(missing_ok=True)
        name = " ".join(each for each in (row.data, row.budget, row.preset, row.changes) if each)
        ratio = f"{row.error / row.linear:.3g} of linear's"
        notify(f"{name}, seed {row.seed}: {row.metric} {row.error:g}, {ratio}")


def by_budget(rows: Iterable[BudgetRow]) -> Iterator[tuple[str, str, list[list[BudgetRow]]]]:
    """For each table and variant: its budgets, ascending, each with the rows of its seeds."""
    rows = sorted(rows, key=lambda row: (row.data, row.variant, row.seconds))
    for (data, variant), some in groupby(rows, key=lambda row: (row.data, row.variant)):
        budgets: dict[str, list[BudgetRow]] = {}
        for row in some:
            budgets.setdefault(row.budget, []).append(row)
        yield data, variant, list(budgets.values())


def relative_error(rows: Sequence[BudgetRow]) -> tuple[float, float]:
    """The mean error over seeds relative to linear interpolation, and its uncertainty."""
    ratios = [row.error / row.linear for row in rows]
    if len(rows) > 1:
        return fmean(ratios), stdev(ratios)
    return ratios[0], rows[0].error_se / rows[0].linear


def _markdown(path: Path) -> str:
    """The defaults in a grid, and the presets side by side; other variants are not shown."""
    rows = read(path, BudgetRow)
    lines = [
        _line(some) for _, variant, budgets in by_budget(rows) if not variant for some in budgets
    ]
    if not lines:
        return ""
    header = "data, budget, preset, parameters, steps, seeds, metric, error, of linear's"
    return "\n\n".join([grid(header.split(", "), lines), *_presets(rows)]) + "\n"


def _presets(rows: Sequence[BudgetRow]) -> list[str]:
    """The error of each preset relative to linear interpolation."""
    found: dict[tuple[str, str], dict[str, list[BudgetRow]]] = {}
    for row in sorted(rows, key=lambda row: (row.data, row.seconds)):
        if not row.changes:
            found.setdefault((row.data, row.budget), {}).setdefault(row.preset, []).append(row)
    compared = {key: by for key, by in found.items() if len(by) > 1}
    if not compared:
        return []
    names = [name for name in PRESETS if any(name in by for by in compared.values())]
    lines = [[*key, *(_ratio(by.get(name, [])) for name in names)] for key, by in compared.items()]
    text = (
        "The presets side by side: error relative to linear interpolation; bold is the preset "
        "that the budget selects:"
    )
    return [text, grid(["data", "budget", *names], lines)]


def _ratio(rows: Sequence[BudgetRow]) -> str:
    return bold(_plus_minus(rows), not rows[0].variant) if rows else NONE


def _plus_minus(rows: Sequence[BudgetRow]) -> str:
    ratio, error = relative_error(rows)
    return f"{number(ratio)} ± {number(error, 2)}"


def _line(rows: Sequence[BudgetRow]) -> list[str]:
    first = rows[0]
    return [
        first.data,
        first.budget,
        first.preset,
        f"{first.parameters:,}",
        f"{fmean(row.steps for row in rows):,.0f}",
        str(len(rows)),
        first.metric,
        number(fmean(row.error for row in rows)),
        _plus_minus(rows),
    ]


OPTIONS = {"data", "budget", "seeds", "quick", "overwrite", "clock", "preset", "settings"}
EXPERIMENT = Experiment(OPTIONS, _run, _markdown)
