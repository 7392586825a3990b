"""The Parquet files to impute, and the shards in which they are read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError

__all__ = ["BYTES_PER_CELL", "SUFFIXES", "InputFile", "Shard", "check_schemas", "errors_in"]
__all__ += ["input_files", "needs_shards", "read_shards", "shards_of"]

BYTES_PER_CELL = 400
"""Memory for a cell of a shard with its context and all copies: the worst case, in which the
context is the whole of both neighbours."""

SUFFIXES = (".parquet", ".pq")
_CODECS = ("snappy", "gzip", "brotli", "zstd", "lz4")
_BATCH_ROWS = 2**16  # rows decoded at once
# Without a buffer size, pyarrow holds a whole column of a row group, and a file may have only one
# row group; with pre_buffer, it holds all it has read until the file is closed.
_READER = {"buffer_size": 2**20, "pre_buffer": False}


@dataclass(frozen=True)
class InputFile:
    """A Parquet file, as its footer describes it."""

    path: Path
    name: str  # path inside the input folder, with slashes; the file name of a single input
    schema: Any  # the `pyarrow.Schema`
    rows: int
    cuts: tuple[int, ...]  # the first row of each shard, and last the number of rows
    max_rows: int  # rows that a shard may have
    group_rows: int  # rows of the largest row group
    compression: str  # codec of the first column, as a writer takes it
    size: int
    modified: int  # nanoseconds since 1970


@dataclass(frozen=True)
class Shard:
    """Rows of one file that are imputed together."""

    number: int  # among the shards of all files
    file: InputFile
    first: int
    last: int  # one beyond its last row
    offset: int  # rows of all shards before it

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    @property
    def index(self) -> int:
        """Index among the shards of its file."""
        return self.file.cuts.index(self.first)

    @property
    def memory_share(self) -> float:
        """Share of the memory for a shard that it takes, at most 1."""
        return self.rows / self.file.max_rows

    def __str__(self) -> str:
        whole = self.rows == self.file.rows
        return str(self.file.path) + ("" if whole else f", shard from row {self.first:,}")


def needs_shards(data: Path, out: Path, memory_limit: str | float) -> bool:
    """True if `data` is imputed in shards: a folder, or a Parquet file of more than one shard.

    Raises:
        InputError: `data` does not exist, or is a damaged Parquet file.
    """
    memory = bytes_of(memory_limit)
    if not data.exists():
        raise _absent(data)
    if data.is_dir():
        return True
    parquet = data.suffix.lower() in SUFFIXES and out.suffix.lower() in SUFFIXES
    return parquet and data.is_file() and len(_inspect(data, data.name, memory).cuts) > 2


def input_files(data: Path, memory: int) -> list[InputFile]:
    """The Parquet files of a folder and its subfolders, or the single file `data`.

    They are sorted by name, numbers by value. Names that begin with a dot or an underscore are
    skipped, as other readers of such folders do.

    Raises:
        InputError: There are none, or one cannot be read.
    """
    if not data.is_dir():
        return [_inspect(data, data.name, memory)]
    inside = [path.relative_to(data) for path in data.rglob("*") if path.is_file()]
    names = [
        name
        for name in inside
        if name.suffix.lower() in SUFFIXES and not any(part[0] in "._" for part in name.parts)
    ]
    if not names:
        raise InputError(
            f"{data} must contain files that end in {' or '.join(SUFFIXES)}, got none; "
            f"name another folder, or a file"
        )
    names.sort(key=lambda name: [_natural(part) for part in name.parts])
    return [_inspect(data / name, name.as_posix(), memory) for name in names]


def shards_of(files: Sequence[InputFile]) -> list[Shard]:
    """The shards of all files in order."""
    bounds = [(file, *bound) for file in files for bound in pairwise(file.cuts)]
    offsets = accumulate((last - first for _, first, last in bounds), initial=0)
    return [
        Shard(number, *bound, offset)
        for number, (bound, offset) in enumerate(zip(bounds, offsets, strict=False))
    ]


def check_schemas(files: Sequence[InputFile], columns: Sequence[str] | None) -> None:
    """Checks that all files have `columns`, or all columns of the first, with the same types.

    Raises:
        InputError: A column is missing, or has another type.
    """
    first = files[0]
    for file in files:
        for name in first.schema.names if columns is None else columns:
            if file.schema.names.count(name) != 1:
                raise InputError(
                    f"{file.path} must have one column {name!r}, "
                    f"got {file.schema.names.count(name) or 'none'}; "
                    f"rename its columns, or move the file elsewhere"
                )
            kind, expected = file.schema.field(name).type, first.schema.field(name).type
            if kind != expected:
                raise InputError(
                    f"{file.path} must have column {name!r} of type {expected} as {first.name} "
                    f"has, got {kind}; convert the column"
                )


def read_shards(shards: Sequence[Shard], columns: list[str] | None = None) -> Iterator[Any]:
    """Yields the `pyarrow.Table` of each shard with these columns; default: all.

    Raises:
        InputError: A file cannot be read any more.
    """
    # Consecutive shards of a file are read in one pass.
    runs = groupby(
        enumerate(shards), key=lambda pair: (pair[1].file.name, pair[1].number - pair[0])
    )
    for _, run in runs:
        own = [shard for _, shard in run]
        path = own[0].file.path
        try:
            with pq.ParquetFile(path, **_READER) as file:
                yield from _tables(file, own, columns)
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(
                f"{path} cannot be read: {_first_line(error)}; is it damaged?"
            ) from error


@contextmanager
def errors_in(shard: Shard) -> Iterator[None]:
    """Adds the file and the shard to the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{shard}: {error}") from error


def _tables(file: Any, shards: Sequence[Shard], columns: list[str] | None) -> Iterator[Any]:
    batches, rest = _batches(file, shards[0].first, columns), None
    schema = file.schema_arrow
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
    for shard in shards:
        taken, rows = [], shard.rows
        while rows:
            batch = next(batches) if rest is None or not rest.num_rows else rest
            taken.append(batch.slice(0, rows))
            rest = batch.slice(min(rows, batch.num_rows))
            rows -= taken[-1].num_rows
        yield pa.Table.from_batches(taken, schema)


def _batches(file: Any, first: int, columns: list[str] | None) -> Iterator[Any]:
    """Batches from row `first`; row groups before it are not decoded."""
    groups = list(range(file.metadata.num_row_groups))
    while groups and file.metadata.row_group(groups[0]).num_rows <= first:
        first -= file.metadata.row_group(groups.pop(0)).num_rows
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups, columns=columns):
        skipped = min(first, batch.num_rows)
        first -= skipped
        yield batch.slice(skipped)


def _natural(name: str) -> list[Any]:
    """A key that sorts numbers by value.

    >>> sorted(["b10", "b9", "a"], key=_natural)
    ['a', 'b9', 'b10']
    """
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", name)]


def _inspect(path: Path, name: str, memory: int) -> InputFile:
    try:
        status = path.stat()
        with pq.ParquetFile(path) as file:
            footer, schema = file.metadata, file.schema_arrow
    except FileNotFoundError as error:
        raise _absent(path) from error
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}") from error
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    # Three shards are held at once, with text columns as large as in the file.
    stored = sum(group.total_byte_size for group in groups) / max(1, footer.num_rows)
    row_bytes = BYTES_PER_CELL * max(1, footer.num_columns) + 3 * stored
    max_rows = max(1, int(memory / row_bytes))
    return InputFile(
        path=path,
        name=name,
        schema=schema,
        rows=footer.num_rows,
        cuts=_cuts(footer.num_rows, max_rows),
        max_rows=max_rows,
        group_rows=max([group.num_rows for group in groups], default=0),
        compression=_codec(groups),
        size=status.st_size,
        modified=status.st_mtime_ns,
    )


def _absent(path: Path) -> InputError:
    return InputError(f"{path} does not exist; check the name and the folder")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def _cuts(rows: int, max_rows: int) -> tuple[int, ...]:
    """Cuts into shards of nearly equal size.

    >>> _cuts(10, 4), _cuts(3, 4), _cuts(0, 4)
    ((0, 3, 6, 10), (0, 3), (0, 0))
    """
    count = max(1, -(-rows // max_rows))
    return tuple(index * rows // count for index in range(count + 1))


def _codec(groups: Sequence[Any]) -> str:
    if not groups or not groups[0].num_columns:
        return "snappy"
    codec = groups[0].column(0).compression.lower()
    return {"uncompressed": "none"}.get(codec, codec if codec in _CODECS else "snappy")
