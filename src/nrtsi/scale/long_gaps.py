"""Gaps longer than a shard: finds the known rows on their far sides before anything is imputed."""

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
from nrtsi.scale.context import known_ends, unsorted_error
from nrtsi.scale.shards import Shard, errors_in, read_shards
from nrtsi.tables import Clock, Columns, read

__all__ = ["far_rows", "find_long_gaps"]

_ROW, _FIRST, _LAST = "nrtsi:row", "nrtsi:first", "nrtsi:last"


def far_rows(path: Path, shard: Shard, own: Any, columns: Columns) -> Any:
    """The known rows beyond the neighbours of `shard`, in gaps that reach there.

    Args:
        path: The file that `find_long_gaps` wrote.
        shard: The shard to be imputed.
        own: Its rows, of the series that need far rows.
        columns: Those of the model.

    Returns:
        Rows in the columns of the model; those before the shard come last.
    """
    found = pq.read_table(
        path, filters=[(_FIRST, "<=", shard.number), (_LAST, ">=", shard.number)]
    )
    if columns.id is not None:
        found = found.filter(pc.is_in(found[columns.id], pc.unique(own[columns.id])))
    elif not own.num_rows:
        found = found.slice(0, 0)
    # A row can be listed for several channels.
    row, unique = np.unique(found[_ROW].to_numpy(), return_index=True)
    after = row >= shard.offset
    order = np.concatenate([unique[after], unique[~after]])
    return found.take(order).drop_columns([_ROW, _FIRST, _LAST])


def find_long_gaps(
    path: Path,
    shards: Sequence[Shard],
    names: list[str],
    columns: Columns,
    clock: Clock,
    config: StreamConfig,
) -> None:
    """Reads all shards once and writes the rows that `far_rows` returns to `path`.

    Each series is tracked from shard to shard by its last row and the last known rows of each
    channel. Beyond `max_series`, the series that were not seen for longest are dropped.

    Raises:
        InputError: The rows of a shard cannot be used; the message names the file.
    """
    schema = pa.schema([shards[0].file.schema.field(name).remove_metadata() for name in names])
    extra = [pa.field(name, pa.int64()) for name in (_ROW, _FIRST, _LAST)]
    with (
        atomic(path) as temporary,
        pq.ParquetWriter(temporary, pa.schema([*schema, *extra])) as writer,
    ):
        tracker = _GapTracker(shards, columns, clock, writer, config)
        for shard, table in zip(shards, read_shards(shards, names), strict=True):
            if table.num_rows:
                with errors_in(shard):
                    tracker.add(shard, table.cast(schema))
        tracker.end()


@dataclass(frozen=True)
class _TrackedRows:
    """Rows of some series, sorted by series and time."""

    table: Any
    row: Int[np.ndarray, " row"]
    """Row number in the whole input."""

    shard: Int[np.ndarray, " row"]
    """Number of the shard of each row."""

    since: Int[np.ndarray, " row"]
    """Number of the shard from which its series is tracked."""

    series: SeriesSet
    ids: tuple[Any, ...]

    @property
    def last_shard(self) -> Int[np.ndarray, " series"]:
        """The last shard with a row of each series, known or not."""
        return self.shard[self.series.start[1:] - 1]

    def known(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices, series and shards of the rows in which a channel is known."""
        index = np.flatnonzero(self.series.observed[:, dim])
        return index, self.series.owner[index], self.shard[index]


class _GapTracker:
    """Tracks every series through the shards and writes the rows at the ends of long gaps."""

    def __init__(
        self,
        shards: Sequence[Shard],
        columns: Columns,
        clock: Clock,
        writer: pq.ParquetWriter,
        config: StreamConfig,
    ) -> None:
        self._offsets = np.array([shard.offset for shard in shards])
        self._max_rows = max(shard.file.max_rows for shard in shards)
        self._config = config
        self._columns, self._clock, self._writer = columns, clock, writer
        self._tracked: _TrackedRows | None = None

    def add(self, shard: Shard, table: Any) -> None:
        """Adds the rows of the next shard."""
        rows, tracked = self._ends(shard, table), self._tracked
        if tracked is not None:
            back = self._going_back(tracked, rows, shard)
            self._write_open(tracked, back)
            rows = self._joined(tracked, ~back[tracked.series.owner], rows)
        self._write_closed(rows, shard.number)
        self._tracked = self._trimmed(rows)

    def end(self) -> None:
        """Writes the gaps that reach the end of the input."""
        if self._tracked is not None:
            self._write_open(self._tracked, np.ones(len(self._tracked.ids), dtype=bool))

    def _rows(self, table: Any, row: np.ndarray, since: np.ndarray) -> _TrackedRows:
        panel = read(table, self._columns, clock=self._clock)
        order = np.argsort(panel.query_rows)
        shard = np.searchsorted(self._offsets, row, side="right") - 1
        return _TrackedRows(
            table.take(order), row[order], shard[order], since[order], panel.series, panel.ids
        )

    def _ends(self, shard: Shard, table: Any) -> _TrackedRows:
        """The ends of each series, and the first and last known rows of each channel."""
        panel = read(table, self._columns, clock=self._clock)
        series = panel.series
        chosen = np.logical_or(*known_ends(series, self._config.channel_rows))
        chosen[series.start[:-1]] = chosen[series.start[1:] - 1] = True
        index = np.flatnonzero(chosen[panel.query_rows])
        return self._rows(
            table.take(index), shard.offset + index, np.full(index.size, shard.number)
        )

    def _going_back(
        self, tracked: _TrackedRows, rows: _TrackedRows, shard: Shard
    ) -> Bool[np.ndarray, " series"]:
        """True for the tracked series whose times go back in this shard.

        Raises:
            InputError: They go back inside one file.
        """
        if self._columns.time is None:
            return np.zeros(len(tracked.ids), dtype=bool)
        begin = dict(zip(rows.ids, rows.series.time[rows.series.start[:-1]], strict=True))
        end = tracked.series.time[tracked.series.start[1:] - 1]
        back = np.array([begin.get(key, np.inf) for key in tracked.ids]) <= end
        wrong = np.flatnonzero(back & (tracked.last_shard >= shard.number - shard.index))
        if wrong.size:
            raise unsorted_error(shard, tracked.ids[wrong[0]])
        return back

    def _joined(self, tracked: _TrackedRows, kept: np.ndarray, rows: _TrackedRows) -> _TrackedRows:
        table = pa.concat_tables([tracked.table.filter(pa.array(kept)), rows.table])
        row = np.concatenate([tracked.row[kept], rows.row])
        joined = self._rows(table, row, np.concatenate([tracked.since[kept], rows.since]))
        since = np.minimum.reduceat(joined.since, joined.series.start[:-1])
        joined.since[:] = since[joined.series.owner]
        return joined

    def _write_closed(self, rows: _TrackedRows, number: int) -> None:
        """Writes both sides of every gap that ends in shard `number`."""
        since, entries = rows.since[rows.series.start[:-1]], []
        for dim in range(rows.series.dims):
            index, owner, shard = rows.known(dim)
            new = shard == number
            before = _last_shard(owner[~new], shard[~new], len(rows.ids))
            ends = np.zeros(len(rows.ids), dtype=bool)
            ends[owner[new]] = True
            left = ~new & ends[owner]
            entries.append(_entries(index[left], before[owner[left]] + 2, number))
            rank = np.arange(new.sum()) - np.searchsorted(owner[new], owner[new])
            nearest = rank < self._config.channel_rows
            right, whose = index[new][nearest], owner[new][nearest]
            begins = np.where(before >= 0, before, since)[whose]
            entries.append(_entries(right, begins, number - 2))
        self._write(rows, entries)

    def _write_open(self, rows: _TrackedRows, dropped: Bool[np.ndarray, " series"]) -> None:
        """Writes the near side of the last gap of series that are no longer tracked."""
        entries = []
        for dim in range(rows.series.dims):
            index, owner, shard = rows.known(dim)
            last = _last_shard(owner, shard, len(rows.ids))
            own = dropped[owner]
            entries.append(_entries(index[own], last[owner[own]] + 2, rows.last_shard[owner[own]]))
        self._write(rows, entries)

    def _write(self, rows: _TrackedRows, entries: list[np.ndarray]) -> None:
        index, first, last = np.unique(np.concatenate(entries, axis=1), axis=1)
        if index.size:
            table = rows.table.take(index)
            for name, column in ((_ROW, rows.row[index]), (_FIRST, first), (_LAST, last)):
                table = table.append_column(name, pa.array(column))
            self._writer.write_table(table)

    def _trimmed(self, rows: _TrackedRows) -> _TrackedRows:
        """The rows that are tracked further."""
        series = rows.series
        recent = np.argsort(-rows.last_shard, kind="stable")
        dropped = np.zeros(recent.size, dtype=bool)
        dropped[recent[max(self._config.max_series, self._max_rows) :]] = True
        self._write_open(rows, dropped)
        most = min(self._config.channel_rows, self._max_rows // recent.size)
        _, kept = known_ends(series, max(1, most))
        kept[series.start[1:] - 1] = True
        kept &= ~dropped[series.owner]
        table = rows.table.filter(pa.array(kept))
        return self._rows(table, rows.row[kept], rows.since[kept])


def _last_shard(owner: np.ndarray, shard: np.ndarray, series: int) -> Int[np.ndarray, " series"]:
    """The last shard of each series, -1 if it has none."""
    last = np.full(series, -1)
    np.maximum.at(last, owner, shard)
    return last


def _entries(index: np.ndarray, first: Any, last: Any) -> Int[np.ndarray, "3 row"]:
    """Rows with the first and the last shard that need them; rows that none needs are dropped."""
    entries = np.stack(np.broadcast_arrays(index, first, last))
    return entries[:, entries[1] <= entries[2]]
