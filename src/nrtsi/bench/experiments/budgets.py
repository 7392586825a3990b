"""One training of nrtsi, scored on the validation series of a table: never on the test series."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from budgeting.rows import Row
from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.methods import Method, Ours, TrainingTask, method_of, tiny
from nrtsi.bench.runner import code_versions
from nrtsi.bench.scores import score
from nrtsi.bench.tables import Table
from nrtsi.bench.tasks import Task, pooled, task_of
from nrtsi.config import preset_for
from nrtsi.core.budget_clock import CLOCKS, TOLD, going_by
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.training.plan import Budget

UNITS = {3600: "h", 60: "m"}


@dataclass(frozen=True)
class Trial:
    """What is to be trained, and for how long."""

    table: Table
    seconds: float | None
    """None is a quick trial, of few steps."""

    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    """Arguments of `NRTSI` that are not left at their defaults."""

    clock: str = "wall"
    """What a second of the budget is; rows tell where it is another."""

    @property
    def budget(self) -> str:
        """In words."""
        return "quick" if self.seconds is None else spelled(self.seconds)

    @property
    def _told(self) -> str:
        """The budget, and what a second of it was."""
        return self.budget if self.seconds is None else self.budget + TOLD[self.clock]

    @property
    def preset(self) -> str:
        """The one that is asked for, or that the budget chooses."""
        usual = "tiny" if self.seconds is None else None
        asked = self.settings.get("preset", usual)
        return preset_for(asked, self.seconds, partial=self.table.partial)

    @property
    def changes(self) -> str:
        """The other settings in words, the same for the same settings."""
        flat: dict[str, Any] = {}
        for name, value in self.settings.items():
            inner = value if isinstance(value, dict) else {}
            flat |= {f"{name}.{key}": each for key, each in inner.items()} or {name: value}
        return " ".join(f"{name}={flat[name]}" for name in sorted(flat) if name != "preset")

    @property
    def job(self) -> tuple[str, str, str, str, int]:
        """As a row's."""
        return self.table.name, self.budget, self.preset, self.changes, self.seed

    def is_in(self, rows: Sequence[Row], data: Dataset) -> bool:
        """Whether it was made already, on these very data."""
        own = f" data {data.digest}; {self._told}"
        return any(row.job == self.job and row.versions.endswith(own) for row in rows)

    def checkpoint(self, out: Path, revision: str) -> Path:
        """Where a training that was stopped is kept: beside the results."""
        words = json.dumps([*self.job, self.clock, revision])
        return out.with_name(
            f"{out.name}.{hashlib.sha256(words.encode()).hexdigest()[:12]}.checkpoint"
        )

    def run(
        self, data: Dataset, checkpoint: Path, revision: str, listener: Listener | None = None
    ) -> Row:
        """Trains, or goes on with what the checkpoint has, and scores."""
        quick = tiny("nrtsi") if self.seconds is None else {}
        ours = Ours(self.seed, **self.table.method.get("nrtsi", {}) | quick | self.settings)
        with going_by(CLOCKS[self.clock]):
            ours.fit(replace(self._lesson(data), checkpoint=checkpoint, listener=listener))
        return self._scored(ours, data, self._told, revision)

    def of_kept(self, path: Path, data: Dataset, revision: str) -> Row:
        """Scores a model that `nrtsi bench run --models` kept of a training like this one.

        Raises:
            CheckpointError: The file is absent, damaged, or not a model of this library.
            InputError: The model is of another budget, seed or data.
        """
        ours = Ours.load(path)
        made = ours.model.budget, ours.model.seed
        if made != (self.seconds, self.seed) or not ours.knows(data.channels):
            raise InputError(
                f"--kept must be a model of {self.table.name} after {self.budget}, seed "
                f"{self.seed}, got {path}, which has {', '.join(ours.channels)}, budget "
                f"{made[0]} and seed {made[1]}; name its own table, budget and seed"
            )
        ours.seconds = self.seconds
        return self._scored(ours, data, f"{self.budget}, {path.name}", revision)

    def _scored(self, ours: Ours, data: Dataset, told: str, revision: str) -> Row:
        task, metric = validation_task(self.table, data), self.table.metrics[0]
        linear = method_of("linear", self.seed, {})
        linear.fit(self._lesson(data))
        found = _figures(ours, task, metric)
        assert ours.seconds is not None
        assert ours.parameters is not None
        return Row(
            data=self.table.name,
            budget=self.budget,
            changes=self.changes,
            seed=self.seed,
            preset=ours.model.preset_,
            steps=ours.model.steps_,
            seconds=round(ours.seconds, 1),
            parameters=ours.parameters,
            metric=metric,
            error=_short(found[metric]),
            error_se=_short(found.get(f"{metric}_se", float("nan"))),
            linear=_short(_figures(linear, task, metric)[metric]),
            versions=code_versions(data.digest, told),
            revision=revision,
        )

    def _lesson(self, data: Dataset) -> TrainingTask:
        steps = self.table.quick.steps if self.seconds is None else None
        return TrainingTask(
            train=data.train,
            validation=data.validation,
            channels=data.channels,
            masks=self.table.training,
            budget=Budget(steps=steps, seconds=self.seconds),
        )


def validation_task(table: Table, data: Dataset) -> Task:
    """The validation series with what the settings hide, those that the training is meant for."""
    settings = [
        setting
        for setting in table.settings
        if table.data_of(setting) == table.data and table.training_of(setting) == table.training
    ]
    return pooled([task_of(table, each, data, part=data.validation) for each in settings])


def spelled(seconds: float) -> str:
    """A time as one types it.

    >>> spelled(600.0), spelled(3600.0), spelled(90.0)
    ('10m', '1h', '90s')
    """
    fitting = (unit for unit in UNITS if seconds % unit == 0)
    unit = next(fitting, 1)
    return f"{seconds / unit:g}{UNITS.get(unit, 's')}"


def _figures(method: Method, task: Task, metric: str) -> dict[str, float]:
    return score(task.answered(method, draws=0), [metric])


def _short(value: float) -> float:
    """As many digits as a file of results has."""
    return float(f"{value:.6g}")
