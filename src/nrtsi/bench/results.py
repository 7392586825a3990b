"""The CSV file of results: one row a figure, written whole or not at all."""

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["ERROR", "COLUMNS", "Row", "add", "read", "read_lines", "write_lines"]

ERROR = "error"
"""The metric of a method that gave no figure; its value is the reason."""


@dataclass(frozen=True)
class Row:
    """One figure, with what it cost and what it was made with."""

    table: str
    setting: str
    method: str
    seed: int
    metric: str
    value: str
    train_s: str
    impute_s: str
    peak_mib: str
    parameters: str
    versions: str
    revision: str

    @property
    def job(self) -> tuple[str, str, str, int]:
        """What is measured together: table, setting, method and seed."""
        return self.table, self.setting, self.method, self.seed

    @property
    def effort(self) -> str:
        """What was spent on it, where that makes a difference: the end of `versions`."""
        return self.versions.partition("; ")[2]

    @property
    def data(self) -> str:
        """The digest of the data it was measured on; empty where that was not written down."""
        found = re.search(r"\bdata ([0-9a-f]+)", self.versions)
        return found[1] if found else ""

    @property
    def number(self) -> float:
        """The figure."""
        return float(self.value)


COLUMNS = tuple(field.name for field in fields(Row))


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file.

    Raises:
        InputError: The file is not one of results.
    """
    return [
        _row(path, number, cells)
        for number, cells in enumerate(read_lines(path, COLUMNS), start=2)
    ]


def add(path: Path, new: Sequence[Row]) -> None:
    """Adds rows to a file, in the place of those of the same jobs.

    A failure takes the place of an earlier failure only: figures are not lost by it.

    The file is read again just before, so that two runs can share it as long as they do not write
    in the same instant.
    """
    failed = {row.job for row in new if row.metric == ERROR}
    jobs = {row.job for row in new}
    kept = [
        row
        for row in read(path)
        if row.job not in jobs or (row.job in failed and row.metric != ERROR)
    ]
    write_lines(path, COLUMNS, [astuple(row) for row in [*kept, *new]])


def read_lines(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The cells of a CSV file that must have these columns; none where there is no file.

    Raises:
        InputError: The file cannot be read or has other columns.
    """
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}; choose another file") from error
    if header != list(columns):
        raise InputError(
            f"{path} must be a file of results, whose columns are {', '.join(columns[:3])} and so "
            f"on, got {', '.join(header[:3]) or 'an empty file'}; choose another file"
        )
    return lines


def write_lines(path: Path, columns: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """Writes a CSV file, whole or not at all."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)


def _row(path: Path, number: int, cells: list[str]) -> Row:
    if len(cells) != len(COLUMNS) or not cells[3].isdecimal():
        raise InputError(f"{path}, line {number} is not a result; mend it or choose another file")
    table, setting, method, seed, *rest = cells
    return Row(table, setting, method, int(seed), *rest)
