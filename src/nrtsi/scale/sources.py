"""The Parquet files to impute, and the parts they are read in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError

__all__ = [
    "BYTES",
    "Part",
    "Source",
    "in_parts",
    "must_be_alike",
    "parts_of",
    "sources_of",
]

BYTES = 400
"""Memory for a cell of a part, with its neighbours as context and all copies on the way: in the
worst case, where a part is joined by the whole of both its neighbours."""

SUFFIXES = (".parquet", ".pq")
_CODECS = ("snappy", "gzip", "brotli", "zstd", "lz4")


@dataclass(frozen=True)
class Source:
    """One Parquet file, as its footer tells it."""

    path: Path
    name: str
    """Path inside the folder, with slashes; the name of a file that was given alone."""

    schema: Any
    """The `pyarrow.Schema`."""

    rows: int
    cuts: tuple[int, ...]
    """The row at which each part begins, and last the number of rows."""

    most: int
    """Rows that a part may have."""

    group_rows: int
    """Rows of the largest row group."""

    compression: str
    """Codec of the first column, as a writer takes it."""

    size: int
    modified: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True)
class Part:
    """Rows of one file that are imputed together."""

    number: int
    """Its place among the parts of all files."""

    source: Source
    first: int
    last: int
    """One beyond its last row."""

    begin: int
    """Rows of all parts before it."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    @property
    def index(self) -> int:
        """Its place among the parts of its file."""
        return self.source.cuts.index(self.first)

    @property
    def share(self) -> float:
        """How much of the memory for a part it takes, up to 1."""
        return self.rows / self.source.most

    def __str__(self) -> str:
        whole = self.rows == self.source.rows
        return str(self.source.path) + ("" if whole else f", part from row {self.first:,} on")


def in_parts(data: Path, out: Path, memory: str | float) -> bool:
    """Whether `data` is to be filled part by part into `out`.

    So is a folder, and a Parquet file of more than one part where another is to be written.

    Raises:
        InputError: There is no `data`, or it is a damaged Parquet file.
    """
    budget = bytes_of(memory)
    if not data.exists():
        raise _absent(data)
    if data.is_dir():
        return True
    parquet = data.suffix.lower() in SUFFIXES and out.suffix.lower() in SUFFIXES
    return parquet and data.is_file() and len(_source(data, data.name, budget).cuts) > 2


def sources_of(data: Path, memory: int) -> list[Source]:
    """The Parquet files of a folder and its subfolders, or the one that is given.

    Numbers in names count: "day-2" comes before "day-10". Names that begin with a point or an
    underscore are left out, as other readers of such folders do.

    Raises:
        InputError: There are none, or one cannot be read.
    """
    if not data.is_dir():
        return [_source(data, data.name, memory)]
    inside = [path.relative_to(data) for path in data.rglob("*") if path.is_file()]
    names = [
        name
        for name in inside
        if name.suffix.lower() in SUFFIXES and not any(p[0] in "._" for p in name.parts)
    ]
    if not names:
        raise InputError(
            f"{data} must hold files that end in {' or '.join(SUFFIXES)}, got none; "
            f"name another folder, or a file"
        )
    names.sort(key=lambda name: [_natural(part) for part in name.parts])
    return [_source(data / name, name.as_posix(), memory) for name in names]


def parts_of(sources: Sequence[Source]) -> list[Part]:
    """The parts of all files, one after the other."""
    bounds = [
        (source, first, last)
        for source in sources
        for first, last in zip(source.cuts, source.cuts[1:], strict=False)
    ]
    begins = accumulate((last - first for _, first, last in bounds), initial=0)
    return [
        Part(number, *bound, begin)
        for number, (bound, begin) in enumerate(zip(bounds, begins, strict=False))
    ]


def must_be_alike(sources: Sequence[Source], columns: Sequence[str] | None) -> None:
    """Refuses files that differ in their columns; with `columns`, in these.

    Raises:
        InputError: A file lacks a column that the first has, or has it in another type.
    """
    first = sources[0]
    wanted = first.schema.names if columns is None else columns
    for source in sources:
        for name in wanted:
            if source.schema.names.count(name) != 1:
                raise InputError(
                    f"{source.path} must have one column {name!r}, "
                    f"got {source.schema.names.count(name) or 'none'}; "
                    f"rename its columns, or move the file elsewhere"
                )
            kind, expected = source.schema.field(name).type, first.schema.field(name).type
            if kind != expected:
                raise InputError(
                    f"{source.path} must have column {name!r} of type {expected} as {first.name} "
                    f"has, got {kind}; convert the column"
                )


def _natural(name: str) -> list[Any]:
    """A key by which numbers sort as numbers.

    >>> sorted(["b10", "b9", "a"], key=_natural)
    ['a', 'b9', 'b10']
    """
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", name)]


def _source(path: Path, name: str, memory: int) -> Source:
    try:
        status = path.stat()
        with pq.ParquetFile(path) as file:
            footer, schema = file.metadata, file.schema_arrow
    except FileNotFoundError as error:
        raise _absent(path) from error
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise InputError(f"{path} is not a readable Parquet file: {reason}") from error
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    most = _rows_in(memory, footer, groups)
    return Source(
        path=path,
        name=name,
        schema=schema,
        rows=footer.num_rows,
        cuts=_cuts(footer.num_rows, most),
        most=most,
        group_rows=max([group.num_rows for group in groups], default=0),
        compression=_codec(groups),
        size=status.st_size,
        modified=status.st_mtime_ns,
    )


def _absent(path: Path) -> InputError:
    return InputError(f"{path} does not exist; check the name and the folder")


def _rows_in(memory: int, footer: Any, groups: Sequence[Any]) -> int:
    """Rows of a part, so that its cells and the text beside them stay within `memory`."""
    stored = sum(group.total_byte_size for group in groups) / max(1, footer.num_rows)
    # Three parts are held at once.
    return max(1, int(memory / (BYTES * max(1, footer.num_columns) + 3 * stored)))


def _cuts(rows: int, most: int) -> tuple[int, ...]:
    """Cuts into parts of nearly equal size.

    >>> _cuts(10, 4), _cuts(3, 4), _cuts(0, 4)
    ((0, 3, 6, 10), (0, 3), (0, 0))
    """
    count = max(1, -(-rows // most))
    return tuple(index * rows // count for index in range(count + 1))


def _codec(groups: Sequence[Any]) -> str:
    if not groups or not groups[0].num_columns:
        return "snappy"
    codec = groups[0].column(0).compression.lower()
    # What no writer knows by this name becomes the usual.
    return {"uncompressed": "none"}.get(codec, codec if codec in _CODECS else "snappy")
