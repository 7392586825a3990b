"""`Task`: the series with gaps that every method imputes, and the data they are made from."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.methods import Method
from nrtsi.bench.scores import Imputation, score
from nrtsi.bench.tables import Setting, Table
from nrtsi.errors import InputError

__all__ = ["Task", "data_of", "data_sets", "pool_tasks", "task_of"]


@dataclass(frozen=True)
class Task:
    """Series with gaps, the same for every method."""

    given: Part
    truth: Part
    hidden: Bool[np.ndarray, "series step dim"]

    copies: int = 1
    """Copies of the series, each with other hidden cells, one after the other."""

    def subset(self, series: int | None) -> "Task":
        """Evenly spaced series of the first copy; the whole task if `series` is None."""
        count = self.truth.series // self.copies
        if series is None or series >= count:
            return self
        at = np.linspace(0, count - 1, series).round().astype(np.int64)
        return Task(self.given.take(at), self.truth.take(at), self.hidden[at])

    def impute(self, method: Method | None, draws: int) -> Imputation:
        """Imputes the series with a method; None stands for the truth."""
        truth = self.truth.value
        mean, drawn = (truth, None) if method is None else method.impute(self.given, draws)
        return Imputation(truth, self.hidden, mean, drawn, self.copies)

    def figures(self, imputation: Imputation, metrics: Sequence[str]) -> dict[str, float]:
        """The figures that a result file records: metrics and the number of series."""
        return score(imputation, metrics) | {"series": float(self.truth.series)}


def data_sets(
    table: Table, *, quick: bool, notify: Callable[[str], None]
) -> Iterator[tuple[str, Dataset]]:
    """Yields the available data sets of a table."""
    names = dict.fromkeys(table.data_of(setting) for setting in table.settings)
    errors: list[InputError] = []
    for name in names:
        try:
            data = data_of(table, name, quick=quick)
        except InputError as error:
            errors.append(error)
            if len(names) > 1:
                notify(f"{name} is skipped: {error}")
            continue
        yield name, data
    if len(errors) == len(names):
        raise errors[0]


def data_of(table: Table, name: str, *, quick: bool) -> Dataset:
    """A data set of a table, in full or with the few series of `--quick`."""
    data = make(name, series=(table.quick.train, table.quick.test) if quick else None)
    return replace(data, train=_with_data(data.train), validation=_with_data(data.validation))


def task_of(table: Table, setting: Setting, data: Dataset, part: Part | None = None) -> Task:
    """The task of a setting: a pure function of the table and the data.

    It uses the test series, or those of `part`.
    """
    truth = _with_data(data.test if part is None else part)
    name = zlib.crc32(f"{table.data_of(setting)}/{setting.name}".encode())
    hidden = np.concatenate(
        [
            setting.masks.draw(truth, np.random.default_rng([name, repeat]))
            for repeat in range(setting.repeats)
        ]
    )
    whole = truth.take(np.tile(np.arange(truth.series), setting.repeats))
    given = replace(whole, value=np.where(hidden, np.nan, whole.value))
    return Task(given, whole, hidden, setting.repeats)


def pool_tasks(tasks: Sequence[Task]) -> Task:
    """Joins tasks of the same series into one with more copies."""
    given, truth = (
        Part(np.concatenate([p.time for p in parts]), np.concatenate([p.value for p in parts]))
        for parts in ([task.given for task in tasks], [task.truth for task in tasks])
    )
    hidden = np.concatenate([task.hidden for task in tasks])
    return Task(given, truth, hidden, sum(task.copies for task in tasks))


def _with_data(part: Part) -> Part:
    """Drops series without any observation."""
    observed = ~np.isnan(part.value).all(axis=(1, 2))
    return part if observed.all() else part.take(np.flatnonzero(observed))
