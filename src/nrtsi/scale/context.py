"""Rows of the neighbouring shards with which a shard is imputed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from nrtsi.config import StreamConfig
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.scale.shards import Shard
from nrtsi.tables import Clock, Columns, read

__all__ = ["ShardEnds", "context_rows", "known_ends", "unsorted_error"]

Rows = Bool[np.ndarray, " row"]


@dataclass(frozen=True)
class ShardEnds:
    """The part of a shard that its neighbours need."""

    shard: Shard
    ids: tuple[Any, ...]
    """The series of the shard."""

    first_time: Float[np.ndarray, " series"]
    last_time: Float[np.ndarray, " series"]
    head: Any
    """The first rows of each series, a `pyarrow.Table`."""

    head_owner: Int[np.ndarray, " head_row"]
    """The series of each of these rows."""

    tail: Any
    """The last rows of each series."""

    tail_owner: Int[np.ndarray, " tail_row"]
    missing: int
    """Number of missing cells."""

    numbered: bool
    """True if times are row numbers, which start again in every shard."""

    @classmethod
    def of(
        cls, shard: Shard, table: Any, columns: Columns, clock: Clock, config: StreamConfig
    ) -> "ShardEnds":
        """The ends of the series in `table`, the rows of `shard` in the columns of the model.

        Raises:
            InputError: The rows cannot be used.
        """
        panel = read(table, columns, clock=clock)
        series, rows = panel.series, panel.query_rows
        owner = series.owner[rows]
        near = _ends(series, series.has_data, config.context_rows)
        known = known_ends(series, config.channel_rows)
        head, tail = ((a | b)[rows] for a, b in zip(near, known, strict=True))
        return cls(
            shard=shard,
            ids=panel.ids,
            first_time=series.time[series.start[:-1]],
            last_time=series.time[series.start[1:] - 1],
            # A filter copies, so that the table of the shard can be freed.
            head=table.filter(pa.array(head)),
            head_owner=owner[head],
            tail=table.filter(pa.array(tail)),
            tail_owner=owner[tail],
            missing=int((~series.observed).sum()),
            numbered=columns.time is None,
        )


def context_rows(earlier: ShardEnds, later: ShardEnds) -> tuple[Any, Any]:
    """The rows that two consecutive shards give each other, of the series that continue.

    Returns:
        The tail of `earlier`, for `later`; and the head of `later`, for `earlier`.

    Raises:
        InputError: Both are shards of one file, and the times of a series go back between them.
    """
    index = {key: number for number, key in enumerate(earlier.ids)}
    pairs = [(index[key], number) for number, key in enumerate(later.ids) if key in index]
    ending, beginning = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    ascends = earlier.numbered | (earlier.last_time[ending] < later.first_time[beginning])
    if earlier.shard.file is later.shard.file and not ascends.all():
        raise unsorted_error(later.shard, later.ids[beginning[int(np.argmin(ascends))]])
    tail = np.isin(earlier.tail_owner, ending[ascends])
    head = np.isin(later.head_owner, beginning[ascends])
    return earlier.tail.filter(pa.array(tail)), later.head.filter(pa.array(head))


def unsorted_error(shard: Shard, key: Any) -> InputError:
    """The error for a series whose times go back between two shards of a file."""
    return InputError(
        f"{shard.file.path} must have the rows of each series in order of time, because it is "
        f"imputed in shards, got a time of series {key!r} at or after row {shard.first:,} that is "
        f"not later than those before; sort it by time, or raise the memory limit"
    )


def known_ends(series: SeriesSet, count: int) -> tuple[Rows, Rows]:
    """The first and the last `count` known rows of each channel in every series."""
    first, last = np.zeros((2, series.rows), dtype=bool)
    for known in series.observed.T:
        begin, end = _ends(series, known, count)
        first |= known & begin
        last |= known & end
    return first, last


def _ends(series: SeriesSet, known: Rows, count: int) -> tuple[Rows, Rows]:
    """The rows with fewer than `count` known rows before them in their series, and after them."""
    seen = np.cumsum(known)
    base = np.concatenate([[0], seen])[series.start]
    owner = series.owner
    first = seen - known - base[:-1][owner] < count
    last = base[1:][owner] - seen < count
    return first, last
