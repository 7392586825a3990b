"""`Task`: the series with gaps that every method imputes, and how imputations are scored."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.datasets.simulators import WALL
from nrtsi.bench.methods import Method
from nrtsi.bench.tables import Setting, Table
from nrtsi.errors import InputError
from nrtsi.evaluation import metrics, path_metrics

__all__ = [
    "SCORES",
    "Imputation",
    "Task",
    "data_of",
    "data_sets",
    "pool_tasks",
    "score",
    "task_of",
]


@dataclass(frozen=True)
class Imputation:
    """The values of a method beside the truth."""

    truth: Float[np.ndarray, "series step dim"]
    hidden: Bool[np.ndarray, "series step dim"]
    """The cells that are scored."""

    mean: Float[np.ndarray, "series step dim"]

    draws: Float[np.ndarray, "draw series step dim"] | None = None
    """Draws, if the method gives them and the table asks for them."""

    copies: int = 1
    """Copies of the test series, each with other hidden cells, one after the other."""

    @property
    def samples(self) -> Float[np.ndarray, "draw series step dim"]:
        """The draws; the mean if there are none."""
        return self.mean[None] if self.draws is None else self.draws

    @property
    def paths(self) -> Float[np.ndarray, "path step dim"]:
        """Whole series: the draws, because their mean is not a plausible path."""
        return self.samples.reshape(-1, *self.mean.shape[1:])

    @property
    def true_paths(self) -> Float[np.ndarray, "path step dim"]:
        """The truth of each of the paths."""
        return np.tile(self.truth, (len(self.samples), 1, 1))


SCORES: dict[str, Callable[[Imputation], float]] = {
    "l2": lambda i: metrics.l2(i.truth, i.mean, i.hidden),
    "mse": lambda i: metrics.mse(i.truth, i.mean, i.hidden),
    "mae": lambda i: metrics.mae(i.truth, i.mean, i.hidden),
    "crps": lambda i: metrics.crps(i.truth, i.samples, i.hidden),
    "min_l2": lambda i: metrics.min_l2(i.truth, i.samples, i.hidden),
    "avg_over_min": lambda i: metrics.avg_over_min(i.truth, i.samples, i.hidden),
    "sinuosity": lambda i: path_metrics.sinuosity(i.paths, i.true_paths),
    "step_change": lambda i: path_metrics.step_change(i.paths),
    "step_deviation": lambda i: path_metrics.step_deviation(i.paths),
    "average_length": lambda i: path_metrics.average_length(i.paths),
    "reflection": lambda i: path_metrics.reflection_to_wall(i.paths, i.true_paths, WALL),
}

AVERAGES = {"l2", "mse", "mae"}
"""Metrics that are averages over rows or cells, and so have a standard error."""


def score(imputation: Imputation, names: Sequence[str]) -> dict[str, float]:
    """Computes these metrics; of the first also the standard error, as `<name>_se`.

    A metric that is undefined for this imputation, such as the sinuosity of a path that does not
    move, is NaN.
    """
    if not np.isfinite(imputation.samples[:, imputation.hidden]).all():
        raise InputError("values that are not finite")
    found = {names[0]: SCORES[names[0]](imputation)}
    for name in names[1:]:
        try:
            found[name] = SCORES[name](imputation)
        except InputError:
            found[name] = float("nan")
    if names[0] in AVERAGES:
        found[f"{names[0]}_se"] = standard_error(imputation, names[0])
    return found


def standard_error(imputation: Imputation, name: str) -> float:
    """The standard error of a metric over the distinct test series.

    Errors in a series and its copies are correlated, so series are the sampling unit.
    """
    error = np.where(imputation.hidden, imputation.mean - imputation.truth, 0.0)
    cells = imputation.hidden.any(axis=2) if name == "l2" else imputation.hidden
    loss = np.abs(error) if name == "mae" else error**2
    shape = (imputation.copies, len(error) // imputation.copies, -1)
    total, count = (each.reshape(shape).sum(axis=(0, 2)) for each in (loss, cells))
    if total.size < 2:
        return float("nan")
    residual = total - count * total.sum() / count.sum()
    return float(np.sqrt(np.sum(residual**2) * total.size / (total.size - 1)) / count.sum())


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

    def figures(self, imputation: Imputation, names: Sequence[str]) -> dict[str, float]:
        """The figures that a result file records: metrics and the number of series."""
        return score(imputation, names) | {"series": float(self.truth.series)}


def data_sets(
    table: Table, *, quick: bool, notify: Callable[[str], None]
) -> Iterator[tuple[str, Dataset]]:
    """Yields the available data sets of a table."""
    names = table.data_names
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
