"""The context of every shard: rows of other shards with which it is imputed, found in one pass.

A shard gets the observed rows of its series at the near ends of both neighbours; and if a channel
is missing there too, the known rows on the far sides of that gap, which may lie any number of
shards away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int

from nrtsi.config import StreamConfig
from nrtsi.core.atomic import atomic
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.scale.shards import Shard, errors_in, read_shards
from nrtsi.tables import Panel, read

__all__ = ["find_context", "read_context"]

# Columns of the file of context: row in the whole input, its shard, the shards that need it.
_ROW, _SHARD, _FIRST, _LAST = "nrtsi:row", "nrtsi:shard", "nrtsi:first", "nrtsi:last"

RowMask = Bool[np.ndarray, " row"]


def read_context(path: Path, shard: Shard, own: Any, model: NRTSI) -> tuple[Any, Any]:
    """Reads the context of a shard from the file that `find_context` wrote.

    Args:
        path: The file.
        shard: The shard to be imputed.
        own: Its rows in the columns of the model.
        model: The fitted model.

    Returns:
        The rows to be placed before those of the shard, and after them.
    """
    columns = model.columns_
    found = pq.read_table(
        path, filters=[(_FIRST, "<=", shard.number), (_LAST, ">=", shard.number)]
    )
    if columns.id is not None:
        found = found.filter(pc.is_in(found[columns.id], pc.unique(own[columns.id])))
    # A row can be listed for several channels.
    _, unique = np.unique(found[_ROW].to_numpy(), return_index=True)
    found = found.take(unique)
    distance = found[_SHARD].to_numpy() - shard.number
    rows = found.select(own.column_names).cast(own.schema)
    before, after, far_before, far_after = (
        rows.filter(pa.array(chosen))
        for chosen in (distance == -1, distance == 1, distance < -1, distance > 1)
    )
    far = pa.concat_tables([far_after, far_before])
    if columns.time is None:
        # The distance of far rows is unknown if rows are numbered in each shard: they only serve
        # series of which nothing is known nearby.
        near = pa.concat_tables([before, own, after])
        empty = read(near, columns, clock=model.clock_).empty
        if columns.id is not None:
            ids = pa.array(empty, own.schema.field(columns.id).type)
            far = far.filter(pc.is_in(far[columns.id], ids))
        elif not empty:
            far = far.slice(0, 0)
    return pa.concat_tables([far, before]), after


def find_context(path: Path, shards: Sequence[Shard], model: NRTSI, config: StreamConfig) -> None:
    """Reads all shards once and writes the rows that `read_context` returns to `path`.

    Each series is tracked from shard to shard by its last row and the last known rows of each
    channel. Beyond `max_series`, the series that were not seen for longest are dropped.

    Raises:
        InputError: The rows of a shard cannot be used; the message names the file.
    """
    names = model.columns_.named
    schema = pa.schema([shards[0].file.schema.field(name).remove_metadata() for name in names])
    extra = [pa.field(name, pa.int64()) for name in (_ROW, _SHARD, _FIRST, _LAST)]
    with (
        atomic(path) as temporary,
        pq.ParquetWriter(temporary, pa.schema([*schema, *extra])) as writer,
    ):
        tracker = _Tracker(model, writer, max(shard.file.max_rows for shard in shards), config)
        for shard, table in zip(shards, read_shards(shards, names), strict=True):
            if table.num_rows:
                with errors_in(shard):
                    tracker.add(shard, table.cast(schema))
        tracker.end()


@dataclass(frozen=True)
class _SortedRows:
    """Rows of some series, sorted by series and time; the table has their `_ROW` and `_SHARD`."""

    table: Any
    series: SeriesSet
    ids: tuple[Any, ...]

    @property
    def shard(self) -> Int[np.ndarray, " row"]:
        return self.table[_SHARD].to_numpy()

    @property
    def last_shard(self) -> Int[np.ndarray, " series"]:
        """The last shard with a row of each series, known or not."""
        return self.shard[self.series.start[1:] - 1]

    def known(
        self, dim: int, among: RowMask | bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices, series and shards of the rows in which a channel is known."""
        index = np.flatnonzero(self.series.observed[:, dim] & among)
        return index, self.series.owner[index], self.shard[index]

    def among(self, ids: set[Any]) -> RowMask:
        """True for the rows of these series."""
        return np.array([key in ids for key in self.ids], dtype=bool)[self.series.owner]


class _Tracker:
    """Tracks every series through the shards and writes the rows that other shards need."""

    def __init__(
        self, model: NRTSI, writer: pq.ParquetWriter, max_rows: int, config: StreamConfig
    ) -> None:
        self._model, self._writer, self._max_rows, self._config = model, writer, max_rows, config
        self._tracked: _SortedRows | None = None
        self._previous: _SortedRows | None = None
        self._since: dict[Any, int] = {}  # the shard from which each series is tracked

    def add(self, shard: Shard, table: Any) -> None:
        """Adds the rows of the next shard."""
        row = np.arange(shard.offset, shard.offset + shard.rows)
        table = table.append_column(_ROW, pa.array(row))
        table = table.append_column(_SHARD, pa.array(np.full(shard.rows, shard.number)))
        panel = self._read(table)
        chosen = np.logical_or(*_near_rows(panel.series, self._config))[panel.query_rows]
        rows = ends = self._sorted(table.filter(pa.array(chosen)))
        back: set[Any] = set()
        if self._tracked is not None:
            back = self._going_back(self._tracked, rows, shard)
            kept = pa.array(~self._tracked.among(back))
            self._drop(self._tracked, back)
            rows = self._sorted(pa.concat_tables([self._tracked.table.filter(kept), rows.table]))
        for key in ends.ids:
            self._since.setdefault(key, shard.number)
        self._write_near(ends, back)
        self._write_closed(rows, shard.number)
        self._tracked, self._previous = self._trimmed(rows), ends

    def end(self) -> None:
        """Writes the gaps that reach the end of the input."""
        if self._tracked is not None:
            self._drop(self._tracked, set(self._tracked.ids))

    def _read(self, table: Any) -> Panel:
        return read(table, self._model.columns_, clock=self._model.clock_)

    def _sorted(self, table: Any) -> _SortedRows:
        panel = self._read(table)
        return _SortedRows(table.take(np.argsort(panel.query_rows)), panel.series, panel.ids)

    def _going_back(self, tracked: _SortedRows, rows: _SortedRows, shard: Shard) -> set[Any]:
        """The tracked series whose times go back in this shard.

        Raises:
            InputError: They go back inside one file.
        """
        if self._model.columns_.time is None:
            return set()
        begin = dict(zip(rows.ids, rows.series.time[rows.series.start[:-1]], strict=True))
        end = tracked.series.time[tracked.series.start[1:] - 1]
        back = np.array([begin.get(key, np.inf) for key in tracked.ids]) <= end
        wrong = np.flatnonzero(back & (tracked.last_shard >= shard.number - shard.index))
        if wrong.size:
            raise InputError(
                f"{shard.file.path} must have the rows of each series in order of time, because "
                f"it is imputed in shards, got a time of series {tracked.ids[wrong[0]]!r} at or "
                f"after row {shard.first:,} that is not later than those before; sort it by "
                f"time, or raise the memory limit"
            )
        return {tracked.ids[index] for index in np.flatnonzero(back)}

    def _write_near(self, rows: _SortedRows, back: set[Any]) -> None:
        """Writes the rows that this shard and the one before it give each other."""
        head, _ = _near_rows(rows.series, self._config)
        index = np.flatnonzero(head & ~rows.among(back))
        self._write(rows, [_entries(index, rows.shard[index] - 1, rows.shard[index] - 1)])
        if (before := self._previous) is not None:
            _, tail = _near_rows(before.series, self._config)
            index = np.flatnonzero(tail & ~before.among(back))
            self._write(
                before, [_entries(index, before.shard[index] + 1, before.shard[index] + 1)]
            )

    def _write_closed(self, rows: _SortedRows, number: int) -> None:
        """Writes both sides of every gap that ends in shard `number`."""
        since, entries = np.array([self._since[key] for key in rows.ids]), []
        for dim in range(rows.series.dims):
            index, owner, shard = rows.known(dim)
            new = shard == number
            before = _last_shard(owner[~new], shard[~new], len(rows.ids))
            left = ~new & np.isin(owner, owner[new])
            entries.append(_entries(index[left], before[owner[left]] + 2, number))
            rank = np.arange(new.sum()) - np.searchsorted(owner[new], owner[new])
            nearest = rank < self._config.channel_rows
            right, whose = index[new][nearest], owner[new][nearest]
            begins = np.where(before >= 0, before, since)[whose]
            entries.append(_entries(right, begins, number - 2))
        self._write(rows, entries)

    def _drop(self, rows: _SortedRows, ids: set[Any]) -> None:
        """Stops tracking these series; writes the near side of their last gaps."""
        entries = []
        for dim in range(rows.series.dims):
            index, owner, shard = rows.known(dim, rows.among(ids))
            first = _last_shard(owner, shard, len(rows.ids))[owner] + 2
            entries.append(_entries(index, first, rows.last_shard[owner]))
        self._write(rows, entries)
        for key in ids:
            del self._since[key]

    def _write(self, rows: _SortedRows, entries: list[np.ndarray]) -> None:
        index, first, last = np.unique(np.concatenate(entries, axis=1), axis=1)
        if index.size:
            table = rows.table.take(index).append_column(_FIRST, pa.array(first))
            self._writer.write_table(table.append_column(_LAST, pa.array(last)))

    def _trimmed(self, rows: _SortedRows) -> _SortedRows:
        """The rows that are tracked further."""
        series = rows.series
        recent = np.argsort(-rows.last_shard, kind="stable")
        oldest = {rows.ids[i] for i in recent[max(self._config.max_series, self._max_rows) :]}
        self._drop(rows, oldest)
        most = min(self._config.channel_rows, self._max_rows // recent.size)
        _, kept = _known_ends(series, max(1, most))
        kept[series.start[1:] - 1] = True
        return self._sorted(rows.table.filter(pa.array(kept & ~rows.among(oldest))))


def _near_rows(series: SeriesSet, config: StreamConfig) -> tuple[RowMask, RowMask]:
    """The rows that the shard before this one needs, and those that the next one needs."""
    observed = _ends(series, series.has_data, config.context_rows)
    known = _known_ends(series, config.channel_rows)
    return observed[0] | known[0], observed[1] | known[1]


def _known_ends(series: SeriesSet, count: int) -> tuple[RowMask, RowMask]:
    """The first and the last `count` known rows of each channel in every series."""
    first, last = np.zeros((2, series.rows), dtype=bool)
    for known in series.observed.T:
        begin, end = _ends(series, known, count)
        first |= known & begin
        last |= known & end
    return first, last


def _ends(series: SeriesSet, known: RowMask, count: int) -> tuple[RowMask, RowMask]:
    """The rows with fewer than `count` known rows before them in their series, and after them."""
    seen = np.cumsum(known)
    base = np.concatenate([[0], seen])[series.start]
    first = seen - known - base[:-1][series.owner] < count
    last = base[1:][series.owner] - seen < count
    return first, last


def _last_shard(owner: np.ndarray, shard: np.ndarray, series: int) -> Int[np.ndarray, " series"]:
    """The last shard of each series, -1 if it has none."""
    last = np.full(series, -1)
    np.maximum.at(last, owner, shard)
    return last


def _entries(index: np.ndarray, first: Any, last: Any) -> Int[np.ndarray, "3 row"]:
    """Rows with the first and the last shard that need them; rows that none needs are dropped."""
    entries = np.stack(np.broadcast_arrays(index, first, last))
    return entries[:, entries[1] <= entries[2]]
