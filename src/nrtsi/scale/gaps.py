"""Gaps longer than a part: what is known on their far sides, found before anything is filled."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int

from nrtsi.core.atomic import atomic
from nrtsi.core.series import SeriesSet
from nrtsi.scale.context import FAR, known_ends, refuse_disorder
from nrtsi.scale.reading import naming, read_parts
from nrtsi.scale.sources import Part
from nrtsi.tables import Clock, Columns, read

__all__ = ["far_rows", "survey"]

SERIES = 2**17
"""Series that are followed at once, however small a part is: it may hold less than one row of
each, and then none is known beside it."""

_ROW, _FIRST, _LAST = "nrtsi:row", "nrtsi:first", "nrtsi:last"


def far_rows(path: Path, part: Part, wanted: Any, columns: Columns) -> Any:
    """What the survey at `path` found for the series of `part`, as rows of the model's columns.

    They lie beyond the parts beside it, in gaps that reach there. Rows before the part come last.

    Args:
        path: The file that `survey` wrote.
        part: The part to be filled.
        wanted: Table of rows of the series that are wanted, or of none.
        columns: Those of the model.
    """
    found = pq.read_table(path, filters=[(_FIRST, "<=", part.number), (_LAST, ">=", part.number)])
    if columns.id is not None:
        found = found.filter(pc.is_in(found[columns.id], pc.unique(wanted[columns.id])))
    elif not wanted.num_rows:
        found = found.slice(0, 0)
    # A row can be noted for several channels.
    row, once = np.unique(found[_ROW].to_numpy(), return_index=True)
    ahead = row >= part.begin
    return found.take(np.concatenate([once[ahead], once[~ahead]])).drop_columns(
        [_ROW, _FIRST, _LAST]
    )


def survey(
    path: Path, parts: Sequence[Part], names: list[str], columns: Columns, clock: Clock
) -> None:
    """Reads all parts once and writes to `path` what `far_rows` needs.

    A series is carried from part to part by its last row and the last known rows of each channel.
    As many are carried as a part may have rows, or `SERIES`; of more, those that were not seen for
    longest are forgotten.

    Raises:
        InputError: The rows of a part cannot be used; the message names the file.
    """
    kind = pa.schema([parts[0].source.schema.field(name).remove_metadata() for name in names])
    notes = [pa.field(name, pa.int64()) for name in (_ROW, _FIRST, _LAST)]
    with (
        atomic(path) as temporary,
        pq.ParquetWriter(temporary, pa.schema([*kind, *notes])) as writer,
    ):
        surveyor = _Surveyor(parts, columns, clock, writer)
        for part, table in zip(parts, read_parts(parts, names), strict=True):
            if table.num_rows:
                with naming(part):
                    surveyor.add(part, table.cast(kind))
        surveyor.end()


@dataclass(frozen=True)
class _Rows:
    """Rows of some series, by series and by time."""

    table: Any
    row: Int[np.ndarray, " row"]
    """Number of each in the whole input."""

    part: Int[np.ndarray, " row"]
    """The part it stands in."""

    since: Int[np.ndarray, " row"]
    """The part from which on its series has been followed."""

    series: SeriesSet
    ids: tuple[Any, ...]

    @property
    def seen(self) -> Int[np.ndarray, " series"]:
        """The last part with a row of each series, known or not."""
        return self.part[self.series.start[1:] - 1]

    def known(self, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, series and parts of the rows in which a channel is known."""
        place = np.flatnonzero(self.series.observed[:, dim])
        return place, self.series.owner[place], self.part[place]


class _Surveyor:
    """Follows every series through the parts and notes where long gaps begin and end."""

    def __init__(
        self, parts: Sequence[Part], columns: Columns, clock: Clock, writer: pq.ParquetWriter
    ) -> None:
        self._begins = np.array([part.begin for part in parts])
        self._most = max(part.source.most for part in parts)
        self._columns, self._clock, self._writer = columns, clock, writer
        self._carried: _Rows | None = None

    def add(self, part: Part, table: Any) -> None:
        """Takes the rows of the next part."""
        here = self._essential(part, table)
        carried = self._carried
        if carried is not None:
            back = self._going_back(carried, here, part)
            self._note_lost(carried, back)
            here = self._joined(carried, ~back[carried.series.owner], here)
        self._note_found(here, part.number)
        self._carried = self._trimmed(here)

    def end(self) -> None:
        """Notes the gaps that nothing ends."""
        if self._carried is not None:
            self._note_lost(self._carried, np.ones(len(self._carried.ids), dtype=bool))

    def _rows(self, table: Any, row: np.ndarray, since: np.ndarray) -> _Rows:
        panel = read(table, self._columns, clock=self._clock)
        line = np.argsort(panel.query_rows)
        part = np.searchsorted(self._begins, row, side="right") - 1
        return _Rows(table.take(line), row[line], part[line], since[line], panel.series, panel.ids)

    def _essential(self, part: Part, table: Any) -> _Rows:
        """The ends of each series, and the first and last known rows of each channel."""
        panel = read(table, self._columns, clock=self._clock)
        series = panel.series
        chosen = np.logical_or(*known_ends(series, FAR))
        chosen[series.start[:-1]] = chosen[series.start[1:] - 1] = True
        line = np.flatnonzero(chosen[panel.query_rows])
        return self._rows(table.take(line), part.begin + line, np.full(line.size, part.number))

    def _going_back(self, carried: _Rows, here: _Rows, part: Part) -> Bool[np.ndarray, " series"]:
        """True for the carried series whose times do not go on here.

        Raises:
            InputError: They do not inside one file.
        """
        if self._columns.time is None:
            return np.zeros(len(carried.ids), dtype=bool)
        begin = dict(zip(here.ids, here.series.time[here.series.start[:-1]], strict=True))
        end = carried.series.time[carried.series.start[1:] - 1]
        back = np.array([begin.get(key, np.inf) for key in carried.ids]) <= end
        wrong = np.flatnonzero(back & (carried.seen >= part.number - part.index))
        if wrong.size:
            refuse_disorder(part, carried.ids[wrong[0]])
        return back

    def _joined(self, carried: _Rows, kept: np.ndarray, here: _Rows) -> _Rows:
        table = pa.concat_tables([carried.table.filter(pa.array(kept)), here.table])
        row = np.concatenate([carried.row[kept], here.row])
        joined = self._rows(table, row, np.concatenate([carried.since[kept], here.since]))
        since = np.minimum.reduceat(joined.since, joined.series.start[:-1])
        joined.since[:] = since[joined.series.owner]
        return joined

    def _note_found(self, rows: _Rows, number: int) -> None:
        """Notes both sides of every gap that ends in part `number`."""
        start, notes = rows.since[rows.series.start[:-1]], []
        for dim in range(rows.series.dims):
            place, owner, part = rows.known(dim)
            new = part == number
            before = _last_part(owner[~new], part[~new], len(rows.ids))
            ends = np.zeros(len(rows.ids), dtype=bool)
            ends[owner[new]] = True
            left = ~new & ends[owner]
            notes.append(_noted(place[left], before[owner[left]] + 2, number))
            nearest = np.arange(new.sum()) - np.searchsorted(owner[new], owner[new]) < FAR
            right, whose = place[new][nearest], owner[new][nearest]
            begins = np.where(before >= 0, before, start)[whose]
            notes.append(_noted(right, begins, number - 2))
        self._write(rows, notes)

    def _note_lost(self, rows: _Rows, lost: Bool[np.ndarray, " series"]) -> None:
        """Notes the near side of gaps in series that are followed no further."""
        notes = []
        for dim in range(rows.series.dims):
            place, owner, part = rows.known(dim)
            last = _last_part(owner, part, len(rows.ids))
            own = lost[owner]
            notes.append(_noted(place[own], last[owner[own]] + 2, rows.seen[owner[own]]))
        self._write(rows, notes)

    def _write(self, rows: _Rows, notes: list[np.ndarray]) -> None:
        place, first, last = np.unique(np.concatenate(notes, axis=1), axis=1)
        if place.size:
            table = rows.table.take(place)
            for name, column in ((_ROW, rows.row[place]), (_FIRST, first), (_LAST, last)):
                table = table.append_column(name, pa.array(column))
            self._writer.write_table(table)

    def _trimmed(self, rows: _Rows) -> _Rows:
        """What is carried on of these rows."""
        series = rows.series
        late = np.argsort(-rows.seen, kind="stable")
        lost = np.zeros(late.size, dtype=bool)
        lost[late[max(SERIES, self._most) :]] = True
        self._note_lost(rows, lost)
        _, kept = known_ends(series, max(1, min(FAR, self._most // late.size)))
        kept[series.start[1:] - 1] = True
        kept &= ~lost[series.owner]
        table = rows.table.filter(pa.array(kept))
        return self._rows(table, rows.row[kept], rows.since[kept])


def _last_part(owner: np.ndarray, part: np.ndarray, series: int) -> Int[np.ndarray, " series"]:
    """The last of the parts of each series, -1 where it has none."""
    last = np.full(series, -1)
    np.maximum.at(last, owner, part)
    return last


def _noted(place: np.ndarray, first: Any, last: Any) -> Int[np.ndarray, "3 row"]:
    """Rows, and the first and the last part that they are for; those for none are left out."""
    notes = np.stack(np.broadcast_arrays(place, first, last))
    return notes[:, notes[1] <= notes[2]]
