"""The way of all parts from the input to the output, each with its neighbours as context."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nrtsi.core.events import Listener
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions
from nrtsi.inference import sub_listener
from nrtsi.scale.context import Ends, after, before, ends_of
from nrtsi.scale.gaps import far_rows, survey
from nrtsi.scale.output import Output
from nrtsi.scale.reading import naming, read_parts
from nrtsi.scale.sources import Part
from nrtsi.tables import read
from nrtsi.tables.files import missing_cells

__all__ = ["Filling", "model_columns"]


def model_columns(model: NRTSI) -> list[str]:
    """The columns a fitted model reads."""
    columns = model.columns_
    return [n for n in (columns.time, columns.id, *(columns.values or ())) if n is not None]


@dataclass(frozen=True)
class _Read:
    """A part in memory."""

    part: Part
    table: Any
    """The `pyarrow.Table` of all its columns."""

    ends: Ends | None
    """None where it has no rows."""


@dataclass(frozen=True)
class _Neighbourhood:
    """A part and the ends of those beside it; None where there is none, or it has no rows."""

    before: Ends | None
    own: _Read
    after: Ends | None


@dataclass(frozen=True)
class Filling:
    """Fills parts by a fitted model."""

    model: NRTSI
    output: Output
    parts: Sequence[Part]

    options: ImputeOptions
    """What is not to be filled."""

    def run(self, listener: Listener | None) -> None:
        """Makes every part that has not been made, and places every file once it is complete."""
        self._survey()
        files = {name: list(own) for name, own in groupby(self.parts, lambda p: p.source.name)}
        open_files = [own for own in files.values() if not self.output.is_placed(own[0].source)]
        pending = [part for own in open_files for part in own if not self.output.is_made(part)]
        left = Counter(part.source.name for part in pending)
        for own in open_files:
            if not left[own[0].source.name]:
                self.output.place(own)
        rows, total = sum(p.rows for p in pending), max(1, sum(p.rows for p in self.parts))
        for neighbourhood in self._neighbourhoods(pending):
            part = neighbourhood.own.part
            self._make(neighbourhood, sub_listener(listener, 1 - rows / total, part.rows / total))
            pa.default_memory_pool().release_unused()  # or pieces of freed memory add up
            rows -= part.rows
            left[part.source.name] -= 1
            if not left[part.source.name]:
                self.output.place(files[part.source.name])

    def _survey(self) -> None:
        """Finds the long gaps, unless an earlier run did; two parts see each other anyway."""
        path, model = self.output.work.gaps, self.model
        if len(self.parts) > 2 and not path.exists():
            survey(path, self.parts, model_columns(model), model.columns_, model.clock_)

    def _neighbourhoods(self, pending: Sequence[Part]) -> Iterator[_Neighbourhood]:
        """Each pending part with its neighbours, which may have been made before."""
        wanted = {part.number for part in pending}
        for run in _runs(pending):
            span = self.parts[max(0, run[0].number - 1) : run[-1].number + 2]
            for each in _with_neighbours(self._read(span)):
                if each.own.part.number in wanted:
                    yield each

    def _read(self, parts: Sequence[Part]) -> Iterator[_Read]:
        columns, names = self.model.columns_, model_columns(self.model)
        for part, table in zip(parts, read_parts(parts), strict=True):
            ends = None
            if table.num_rows:
                with naming(part):
                    ends = ends_of(part, table.select(names), columns, self.model.clock_)
            yield _Read(part, table, ends)

    def _make(self, neighbourhood: _Neighbourhood, listener: Listener | None) -> None:
        own = neighbourhood.own
        if own.ends is None or not own.ends.missing:
            self.output.write(own.part, own.table, {"imputed": 0, "left": 0})
            return
        filled = self._filled(neighbourhood, own.ends, listener)
        left = sum(_missing(filled[name]) for name in self.model.columns_.values or ())
        self.output.write(own.part, filled, {"imputed": own.ends.missing - left, "left": left})

    def _filled(self, beside: _Neighbourhood, ends: Ends, listener: Listener | None) -> Any:
        table = beside.own.table
        own = table.select(model_columns(self.model))
        earlier = own.slice(0, 0) if beside.before is None else before(ends, beside.before)
        later = own.slice(0, 0) if beside.after is None else after(ends, beside.after)
        near = pa.concat_tables([earlier.cast(own.schema), own, later.cast(own.schema)])
        with naming(beside.own.part):
            far = self._far(beside.own.part, own, near).cast(own.schema)
            whole = pa.concat_tables([far, near])
            longest, widest = self.options.max_gap, self.options.max_width
            filled = self.model.impute(whole, listener=listener, max_gap=longest, max_width=widest)
        filled = filled.slice(far.num_rows + earlier.num_rows, own.num_rows)
        for name in self.model.columns_.values or ():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), filled[name])
        return table

    def _far(self, part: Part, own: Any, near: Any) -> Any:
        """What is known beyond `near`, the part and those beside it, of series with long gaps."""
        if not self.output.work.gaps.exists():
            return own.slice(0, 0)
        columns = self.model.columns_
        if columns.time is None:
            # How far away they are is not known when rows are counted anew: better than nothing.
            empty = read(near, columns, clock=self.model.clock_).empty
            own = own.filter(_among(own, columns.id, empty))
        return far_rows(self.output.work.gaps, part, own, columns)


def _among(table: Any, name: str | None, ids: tuple[Any, ...]) -> Any:
    """True for the rows of these series."""
    if name is None:
        return pa.array([bool(ids)] * table.num_rows)
    return pc.is_in(table[name], pa.array(ids, table.schema.field(name).type))


def _with_neighbours(parts: Iterable[_Read]) -> Iterator[_Neighbourhood]:
    """Each part with the ends of the one before and the one after it."""
    earlier: Ends | None = None
    own: _Read | None = None
    for later in chain(parts, [None]):
        if own is not None:
            yield _Neighbourhood(earlier, own, None if later is None else later.ends)
            earlier = own.ends
        own = later


def _runs(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts that follow each other without a break, together."""
    numbered = enumerate(parts)
    runs = groupby(numbered, key=lambda pair: pair[1].number - pair[0])
    return [[part for _, part in run] for _, run in runs]


def _missing(column: Any) -> int:
    return pc.sum(missing_cells(column)).as_py() or 0
