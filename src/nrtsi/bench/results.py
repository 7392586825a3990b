"""Files of results: CSV files with a dataclass a row, and what the rows were made with."""

import csv
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["ERROR", "COLUMNS", "ResultRow", "Row", "add", "code_revision", "code_versions", "read"]

ERROR = "error"
"""Metric of a method that failed; the value is the reason."""


class ResultRow:
    """Base class of the rows of result files; the columns are the fields of the subclass."""

    @property
    def job(self) -> tuple[object, ...]:
        """Identifies what is measured together; new rows replace those of the same job."""
        raise NotImplementedError

    @property
    def failed(self) -> bool:
        """Whether the row records a failure instead of a figure."""
        return False


@dataclass(frozen=True)
class Row(ResultRow):
    """One figure of a table, its cost, and what it was made with."""

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
        """Table, setting, method and seed."""
        return self.table, self.setting, self.method, self.seed

    @property
    def failed(self) -> bool:
        """Whether the method gave no figure."""
        return self.metric == ERROR

    @property
    def effort(self) -> str:
        """The budget of a trained method, or "quick": the end of `versions`."""
        return self.versions.partition("; ")[2]

    @property
    def data(self) -> str:
        """The digest of the data; empty if it was not recorded."""
        found = re.search(r"\bdata ([0-9a-f]+)", self.versions)
        return found[1] if found else ""

    @property
    def number(self) -> float:
        """The figure."""
        return float(self.value)


RowT = TypeVar("RowT", bound=ResultRow)


def columns_of(kind: type[ResultRow]) -> list[str]:
    """The columns of a file of these rows."""
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]


COLUMNS = tuple(columns_of(Row))


def read(path: Path, kind: type[RowT]) -> list[RowT]:
    """Reads the rows of a file; none if there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}; choose another file") from error
    columns = columns_of(kind)
    if header != columns:
        raise InputError(
            f"{path} must be a file of results with the columns {', '.join(columns[:3])}, …, "
            f"got {', '.join(header[:3]) or 'an empty file'}; choose another file"
        )
    return [_row(path, number, cells, kind) for number, cells in enumerate(lines, start=2)]


def add(path: Path, new: Sequence[RowT]) -> None:
    """Adds rows of one kind to a file; they replace the rows of the same jobs.

    A failure replaces only an earlier failure, so that no figure is lost. The file is read again
    just before it is written: two runs can share it if they do not write at the same instant.
    """
    failed = {row.job for row in new if row.failed}
    jobs = {row.job for row in new}
    kept = [
        row
        for row in read(path, type(new[0]))
        if row.job not in jobs or (row.job in failed and not row.failed)
    ]
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns_of(type(new[0])))
        writer.writerows(astuple(row) for row in [*kept, *new])  # type: ignore[call-overload]


def _row(path: Path, number: int, cells: list[str], kind: type[RowT]) -> RowT:
    try:
        return kind(
            *(
                cell == "True" if field.type is bool else field.type(cell)  # type: ignore[operator]
                for field, cell in zip(fields(kind), cells, strict=True)  # type: ignore[arg-type]
            )
        )
    except ValueError as error:
        raise InputError(
            f"{path}, line {number} is not a result; correct it or choose another file"
        ) from error


def code_versions(data: str, effort: str) -> str:
    """Versions of the software, the digest of the data, and after a semicolon the effort."""
    found = [f"python {platform.python_version()}"]
    for name in ("nrtsi", "torch", "numpy", "pypots"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return " ".join([*found, f"data {data}"]) + (f"; {effort}" if effort else "")


def code_revision() -> str:
    """The commit of the running source; empty for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip()
