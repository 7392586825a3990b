"""Files of results: CSV files of rows, and what the rows were made with."""

import csv
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["COLUMNS", "ERROR", "Row", "add", "code_revision", "code_versions", "read"]

ERROR = "error"
"""Metric of a method that failed; the value is the reason."""


@dataclass(frozen=True)
class Row:
    """One figure, its cost, and what it was made with."""

    table: str
    """The table of the paper; in other experiments the data."""

    setting: str
    method: str
    seed: int
    metric: str
    value: str
    train_s: str = ""
    impute_s: str = ""
    peak_mib: str = ""
    parameters: str = ""
    versions: str = ""
    revision: str = ""

    reference: str = ""
    """Figure to compare with: of linear interpolation, or the one the model reports."""

    cells: str = ""
    """Number of scored cells."""

    @property
    def job(self) -> tuple[str, str, str, int]:
        """Identifies what is measured together; new rows replace those of the same job."""
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


OPTIONAL = ("reference", "cells")
"""Columns that a file has only if a row needs them."""

COLUMNS = tuple(field.name for field in fields(Row) if field.name not in OPTIONAL)


def read(path: Path) -> list[Row]:
    """Reads the rows of a file; none if there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}; choose another file") from error
    if tuple(header[: len(COLUMNS)]) != COLUMNS or set(header) - {*COLUMNS, *OPTIONAL}:
        raise InputError(
            f"{path} must be a file of results with the columns {', '.join(COLUMNS[:3])}, …, "
            f"got {', '.join(header[:3]) or 'an empty file'}; choose another file"
        )
    rows = []
    for number, line in enumerate(lines, start=2):
        try:
            cells = dict(zip(header, line, strict=True))
            rows.append(Row(**cells | {"seed": int(cells["seed"])}))  # type: ignore[arg-type]
        except ValueError as error:
            raise InputError(
                f"{path}, line {number} is not a result; correct it or choose another file"
            ) from error
    return rows


def add(path: Path, new: Sequence[Row]) -> None:
    """Adds rows to a file; they replace the rows of the same jobs.

    A failure replaces only an earlier failure, so that no figure is lost. The file is read again
    just before it is written: two runs can share it if they do not write at the same instant.
    """
    failed = {row.job for row in new if row.failed}
    jobs = {row.job for row in new}
    rows = [
        row for row in read(path) if row.job not in jobs or (row.job in failed and not row.failed)
    ]
    rows += new
    columns = [*COLUMNS, *(name for name in OPTIONAL if any(getattr(row, name) for row in rows))]
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


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
