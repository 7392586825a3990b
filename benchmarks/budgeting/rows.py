"""The file of `benchmarks/budgets.py`: a row for each training."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path

from nrtsi.bench.results import read_lines, write_lines
from nrtsi.bench.tables import open_table
from nrtsi.config import preset_for
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration


@dataclass(frozen=True)
class Row:
    """What one training came to on the validation series, all settings of a table together."""

    data: str
    """The table, which names the data set."""

    budget: str
    """Such as 10m; or quick."""

    changes: str
    """What was not left at its default but for the preset, such as `model.width=48`."""

    seed: int

    preset: str
    """The one in use, chosen by the budget where it was not asked for."""

    steps: int
    seconds: float
    parameters: int

    metric: str
    error: float

    error_se: float
    """Its standard error over the series; not a number where the measure has none."""

    linear: float
    """The error of linear interpolation in the same cells."""

    versions: str
    revision: str

    @property
    def job(self) -> tuple[str, str, str, str, int]:
        """What tells trainings apart."""
        return self.data, self.budget, self.preset, self.changes, self.seed

    @property
    def nominal(self) -> float:
        """Seconds that were asked for, or that a quick trial took."""
        return self.seconds if self.budget == "quick" else parse_duration(self.budget)

    @property
    def asked(self) -> str:
        """What is to be asked for to get it, such as `small model.width=48`; empty for nothing."""
        partial = open_table(self.data).partial
        usual = None if self.budget == "quick" else preset_for(None, self.nominal, partial=partial)
        preset = "" if self.preset == usual else self.preset
        return " ".join(word for word in (preset, self.changes) if word)


COLUMNS = tuple(field.name for field in fields(Row))


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file.

    Raises:
        InputError: The file is not one of these.
    """
    lines = enumerate(read_lines(path, COLUMNS), start=2)
    return [_row(path, number, cells) for number, cells in lines]


def add(path: Path, new: Row) -> None:
    """Adds a row, in the place of one of the same training."""
    kept = [row for row in read(path) if row.job != new.job]
    write_lines(path, COLUMNS, [astuple(row) for row in [*kept, new]])


def series_of(rows: Iterable[Row]) -> Iterator[tuple[str, str, list[list[Row]]]]:
    """For each data set and what was asked for: its budgets, ascending, each with its seeds."""
    rows = sorted(rows, key=lambda row: (row.data, row.asked, row.seconds))
    for (data, asked), some in groupby(rows, key=lambda row: (row.data, row.asked)):
        budgets: dict[str, list[Row]] = {}
        for row in some:
            budgets.setdefault(row.budget, []).append(row)
        yield data, asked, list(budgets.values())


def _row(path: Path, number: int, cells: list[str]) -> Row:
    try:
        return Row(*(field.type(cell) for field, cell in zip(fields(Row), cells, strict=True)))
    except ValueError as error:
        raise InputError(
            f"{path}, line {number} is not a result; mend it or choose another file"
        ) from error
