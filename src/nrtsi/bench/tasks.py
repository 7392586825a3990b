"""`Task`: series with gaps, the same for every method, and the data they are made of."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.methods import Method
from nrtsi.bench.scores import Answer, score
from nrtsi.bench.tables import Setting, Table
from nrtsi.errors import InputError

__all__ = ["Task", "data_of", "data_sets", "pooled", "task_of"]


@dataclass(frozen=True)
class Task:
    """Series with gaps, the same for every method."""

    given: Part
    truth: Part
    hidden: Bool[np.ndarray, "series step dim"]

    copies: int = 1
    """Times the series are asked, with other cells hidden: one copy after the other."""

    def some(self, series: int | None) -> "Task":
        """So many of the series of the first copy, evenly chosen; the whole task where None."""
        count = self.truth.series // self.copies
        if series is None or series >= count:
            return self
        at = np.linspace(0, count - 1, series).round().astype(np.int64)
        given, truth = (Part(p.time[at], p.value[at]) for p in (self.given, self.truth))
        return Task(given, truth, self.hidden[at])

    def answered(self, method: Method | None, draws: int) -> Answer:
        """What a method says; None is the truth itself."""
        truth = self.truth.value
        filled, drawn = (truth, None) if method is None else method.answer(self.given, draws)
        return Answer(truth, self.hidden, filled, drawn, self.copies)

    def figures(self, answer: Answer, metrics: Sequence[str]) -> dict[str, float]:
        """The rows of a file of results that an answer makes: measures, and how many series.

        Raises:
            InputError: The answer is not finite in a cell that counts.
        """
        return score(answer, metrics) | {"series": float(self.truth.series)}


def data_sets(
    table: Table, *, quick: bool, say: Callable[[str], None]
) -> Iterator[tuple[str, Dataset]]:
    """The data sets of a table that can be had.

    Raises:
        InputError: None of them can.
    """
    names = dict.fromkeys(table.data_of(setting) for setting in table.settings)
    refused: list[InputError] = []
    for name in names:
        try:
            data = data_of(table, name, quick=quick)
        except InputError as error:
            refused.append(error)
            if len(names) > 1:
                say(f"{name} is left out: {error}")
            continue
        yield name, data
    if len(refused) == len(names):
        raise refused[0]


def data_of(table: Table, name: str, *, quick: bool) -> Dataset:
    """A data set of a table, at its full size or as few series as `--quick` takes."""
    data = make(name, series=(table.quick.train, table.quick.test) if quick else None)
    return replace(data, train=_with_data(data.train), validation=_with_data(data.validation))


def task_of(table: Table, setting: Setting, data: Dataset, part: Part | None = None) -> Task:
    """The series of a setting: a pure function of the table's words and of the data.

    They are the test series; others where `part` says so.
    """
    truth = _with_data(data.test if part is None else part)
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


def pooled(tasks: Sequence[Task]) -> Task:
    """Tasks of the same series as one: further copies, with other cells hidden."""

    def joined(parts: Sequence[Part]) -> Part:
        return Part(*(np.concatenate([getattr(p, of) for p in parts]) for of in ("time", "value")))

    return Task(
        given=joined([task.given for task in tasks]),
        truth=joined([task.truth for task in tasks]),
        hidden=np.concatenate([task.hidden for task in tasks]),
        copies=sum(task.copies for task in tasks),
    )


def _with_data(part: Part) -> Part:
    """Without series in which nothing is observed: there is nothing to learn or to score."""
    some = ~np.isnan(part.value).all(axis=(1, 2))
    return part if some.all() else Part(part.time[some], part.value[some])
