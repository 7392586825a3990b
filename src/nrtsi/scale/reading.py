"""Parts read from their files, each file in one pass."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nrtsi.errors import InputError
from nrtsi.scale.sources import Part

__all__ = ["naming", "read_parts"]

_BATCH = 2**16  # rows decoded at once
# Read as the rows are asked for: otherwise a column of a row group is held whole, and there may be
# but one row group; and what is read ahead (pre_buffer) is held until the file is closed.
_LITTLE_BY_LITTLE = {"buffer_size": 2**20, "pre_buffer": False}


def read_parts(parts: Sequence[Part], columns: list[str] | None = None) -> Iterator[Any]:
    """The `pyarrow.Table` of each part; parts of one file must follow each other.

    With `columns`, of these alone.

    Raises:
        InputError: A file cannot be read any more.
    """
    for _, group in groupby(parts, key=lambda part: part.source.name):
        own = list(group)
        source = own[0].source
        try:
            with pq.ParquetFile(source.path, **_LITTLE_BY_LITTLE) as file:
                yield from _tables(file, own, columns)
        except (OSError, pa.ArrowInvalid) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise InputError(f"{source.path} cannot be read: {reason}; is it damaged?") from error


@contextmanager
def naming(part: Part) -> Iterator[None]:
    """Says in what file a mistake was found."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{part}: {error}") from error


def _tables(file: Any, parts: Sequence[Part], columns: list[str] | None) -> Iterator[Any]:
    batches = _batches(file, parts[0].first, columns)
    schema, rest = file.schema_arrow, None
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
    for part in parts:
        held, rest = _take(batches, rest, part.rows)
        yield pa.Table.from_batches(held, schema)


def _batches(file: Any, first: int, columns: list[str] | None) -> Iterator[Any]:
    """Batches from row `first` on; row groups before it are not decoded."""
    groups = list(range(file.metadata.num_row_groups))
    while groups and file.metadata.row_group(groups[0]).num_rows <= first:
        first -= file.metadata.row_group(groups.pop(0)).num_rows
    for batch in file.iter_batches(batch_size=_BATCH, row_groups=groups, columns=columns):
        skipped = min(first, batch.num_rows)
        first -= skipped
        yield batch.slice(skipped)


def _take(batches: Iterator[Any], rest: Any | None, rows: int) -> tuple[list[Any], Any | None]:
    """The next rows, and what is left of the batch in which they end."""
    held = []
    while rows:
        batch = next(batches) if rest is None or not rest.num_rows else rest
        taken = min(rows, batch.num_rows)
        held.append(batch.slice(0, taken))
        rest = batch.slice(taken)
        rows -= taken
    return held, rest
