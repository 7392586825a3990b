"""Error against budget: the validation error of nrtsi by training time and preset.

Presets are chosen by this error, so the test series are not used.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.experiments import Experiment, Notify, RunOptions
from nrtsi.bench.markdown import NONE, bold, grid, number
from nrtsi.bench.methods import NRTSIMethod, TrainingTask, method_of
from nrtsi.bench.results import Row, add, code_revision, code_versions, read
from nrtsi.bench.runner import digest
from nrtsi.bench.tables import Table, open_table
from nrtsi.bench.tasks import Task, data_of, pool_tasks, score, task_of
from nrtsi.config import PRESETS, preset_for
from nrtsi.core.atomic import check_writable
from nrtsi.core.budget_clock import CLOCK_LABELS, CLOCKS, use_clock
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration
from nrtsi.training.settings import budget_of

__all__ = ["EXPERIMENT", "preset_of", "validation_task"]

DEFAULT_TABLES, DEFAULT_BUDGETS = ("billiards", "mujoco", "air"), "1m,10m,1h"

QUICK = "quick"
"""Budget of a quick run."""


def preset_of(table: Table, budget: str, preset: str | None = None) -> str:
    """The preset, by default the one that the budget selects."""
    if budget == QUICK:
        return preset_for(preset or "tiny", None, partial=table.partial)
    return preset_for(preset, parse_duration(budget), partial=table.partial)


def validation_task(table: Table, data: Dataset) -> Task:
    """The validation series with the masks of all settings that the training is meant for."""
    settings = [
        setting
        for setting in table.settings
        if table.data_of(setting) == table.data and table.training_of(setting) == table.training
    ]
    return pool_tasks([task_of(table, each, data, part=data.validation) for each in settings])


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    tables = [open_table(name) for name in options.data or DEFAULT_TABLES]
    budgets = [QUICK]
    if not options.quick:
        budgets = sorted((options.budget or DEFAULT_BUDGETS).split(","), key=parse_duration)
    check_writable(options.out, overwrite=True)
    if any((row.setting == QUICK) != options.quick for row in read(options.out)):
        raise InputError(
            f"{options.out} must not mix quick and other rows; give another --out for this run"
        )
    trainings = [  # rejects an unknown preset before the first training
        (table, budget, preset_of(table, budget, options.preset), seed)
        for budget, table, seed in product(budgets, tables, options.seeds)
    ]
    revision = code_revision()
    data = {table.name: data_of(table, table.data, quick=options.quick) for table in tables}
    for table, budget, preset, seed in trainings:
        own, job = data[table.name], (table.name, budget, preset, seed)
        effort = budget if options.quick else budget + CLOCK_LABELS[options.clock]
        if not options.overwrite and any(
            row.job == job and (row.data, row.effort) == (own.digest, effort)
            for row in read(options.out)
        ):
            continue
        key = digest([*job, options.clock, revision])
        checkpoint = options.out.with_name(f"{options.out.name}.{key}.checkpoint")
        limit = budget_of(budget, table.quick.steps if options.quick else None)
        task = TrainingTask(own, table.training, limit, checkpoint, listener)
        method = NRTSIMethod(seed, **table.method.get("nrtsi", {}) | {"preset": preset})
        with use_clock(CLOCKS[options.clock]):
            method.fit(task)
        linear = method_of("linear", seed, {})
        linear.fit(task)
        held_out, metric = validation_task(table, own), table.metrics[0]
        figures, other = (
            score(held_out.impute(each, draws=0), [metric]) for each in (method, linear)
        )
        row = Row(
            *job,
            metric,
            f"{figures[metric]:.6g}",
            train_s=f"{method.seconds:.1f}",
            parameters=str(method.parameters),
            versions=code_versions(own.digest, effort),
            revision=revision,
        )
        more = {f"{metric}_se": figures.get(f"{metric}_se"), "steps": method.model.steps_}
        others = [
            replace(row, metric=name, value=f"{figure:.6g}")
            for name, figure in more.items()
            if figure is not None
        ]
        add(options.out, [replace(row, reference=f"{other[metric]:.6g}"), *others])
        checkpoint.unlink(missing_ok=True)
        ratio = f"{figures[metric] / other[metric]:.3g} of linear's"
        notify(f"{table.name} {budget} {preset}, seed {seed}: {metric} {row.value}, {ratio}")


def _markdown(path: Path) -> str:
    """The defaults in a grid, and the presets side by side, relative to linear interpolation."""
    rows = [row for row in read(path) if row.method in PRESETS]
    figures = {(*row.job, row.metric): row.number for row in rows}
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: (row.table, float(row.train_s))):
        if row.reference:
            by_preset = found.setdefault((row.table, row.setting), {})
            by_preset.setdefault(row.method, []).append(row)
    defaults = {key: preset_of(open_table(key[0]), key[1]) for key in found}

    def relative(own: Sequence[Row]) -> str:
        """The mean error over seeds relative to linear interpolation, and its uncertainty."""
        ratios = [row.number / float(row.reference) for row in own]
        first = own[0]
        error = figures.get((*first.job, f"{first.metric}_se"), float("nan"))
        spread = stdev(ratios) if len(own) > 1 else error / float(first.reference)
        return f"{number(fmean(ratios))} ± {number(spread, 2)}"

    def line(own: Sequence[Row]) -> list[str]:
        first = own[0]
        steps = fmean(figures[*row.job, "steps"] for row in own)
        error = number(fmean(row.number for row in own))
        size = f"{int(first.parameters):,}"
        about = [first.table, first.setting, first.method, size, f"{steps:,.0f}", str(len(own))]
        return [*about, first.metric, error, relative(own)]

    lines = [line(by[defaults[key]]) for key, by in found.items() if defaults[key] in by]
    if not lines:
        return ""
    header = "data, budget, preset, parameters, steps, seeds, metric, error, of linear's"
    parts = [grid(header.split(", "), lines)]
    compared = {key: by for key, by in found.items() if len(by) > 1}
    names = [name for name in PRESETS if any(name in by for by in compared.values())]
    if compared:
        parts.append(
            "The presets side by side: error relative to linear interpolation; bold is the preset "
            "that the budget selects:"
        )
        cells = [
            [bold(relative(by[n]), n == defaults[key]) if n in by else NONE for n in names]
            for key, by in compared.items()
        ]
        sides = [[*key, *each] for key, each in zip(compared, cells, strict=True)]
        parts.append(grid(["data", "budget", *names], sides))
    return "\n\n".join(parts) + "\n"


OPTIONS = {"data", "budget", "seeds", "quick", "overwrite", "clock", "preset"}
EXPERIMENT = Experiment(OPTIONS, _run, _markdown)
