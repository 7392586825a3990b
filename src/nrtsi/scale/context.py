"""Rows of neighbouring parts that a part is imputed with."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.scale.sources import Part
from nrtsi.tables import Clock, Columns, read

__all__ = ["CONTEXT", "FAR", "Ends", "after", "before", "ends_of", "known_ends", "refuse_disorder"]

CONTEXT = 256
"""Rows with something observed that a series takes along from the part before and the one after,
with the missing rows among them."""

FAR = 16
"""Known rows of every channel that it takes along beside these: a channel can be missing where
others are not, and for longer than a part."""


@dataclass(frozen=True)
class ContextRows:
    """Some rows of a part and the series each belongs to."""

    table: Any
    owner: Int[np.ndarray, " row"]

    def of(self, series: Bool[np.ndarray, " series"]) -> Any:
        """The rows of these series."""
        return self.table.filter(pa.array(series[self.owner]))


@dataclass(frozen=True)
class Ends:
    """What the neighbours of a part must know of it."""

    part: Part
    ids: tuple[Any, ...]
    """The series of the part."""

    begin: Float[np.ndarray, " series"]
    """Time of each series' first row."""

    end: Float[np.ndarray, " series"]
    """Time of each series' last row."""

    head: ContextRows
    tail: ContextRows
    missing: int
    """Cells that are missing."""

    counted: bool
    """Whether times are row numbers, which begin anew in every part."""


def ends_of(part: Part, table: Any, columns: Columns, clock: Clock) -> Ends:
    """The ends of the series in `table`, which has the rows of `part` and the model's columns.

    Raises:
        InputError: The rows cannot be used; the message names the file.
    """
    panel = read(table, columns, clock=clock)
    series = panel.series
    first, last = _near_ends(series, np.logical_or.reduce(series.observed, axis=1), CONTEXT)
    first_known, last_known = known_ends(series, FAR)
    first, last = first | first_known, last | last_known
    return Ends(
        part=part,
        ids=panel.ids,
        begin=series.time[series.start[:-1]],
        end=series.time[series.start[1:] - 1],
        head=_rows(table, series.owner[panel.query_rows], first[panel.query_rows]),
        tail=_rows(table, series.owner[panel.query_rows], last[panel.query_rows]),
        missing=int((~series.observed).sum()),
        counted=columns.time is None,
    )


def before(own: Ends, neighbour: Ends) -> Any:
    """The last rows in the part before of the series that go on in this one.

    Raises:
        InputError: Both are parts of one file, and a series goes back in time between them.
    """
    here, there = _shared(own, neighbour)
    return neighbour.tail.of(_going_on((neighbour, there), (own, here), of=0))


def after(own: Ends, neighbour: Ends) -> Any:
    """The first rows in the part after of the series that go on there.

    Raises:
        InputError: Both are parts of one file, and a series goes back in time between them.
    """
    here, there = _shared(own, neighbour)
    return neighbour.head.of(_going_on((own, here), (neighbour, there), of=1))


def _going_on(
    earlier: tuple[Ends, np.ndarray], later: tuple[Ends, np.ndarray], *, of: Literal[0, 1]
) -> Bool[np.ndarray, " series"]:
    """True for the series, of the earlier or the later part, that go on from one to the other."""
    (first, ending), (second, beginning) = earlier, later
    ascends = first.counted | (first.end[ending] < second.begin[beginning])
    if first.part.source is second.part.source and not ascends.all():
        refuse_disorder(second.part, second.ids[beginning[int(np.argmin(ascends))]])
    chosen = np.zeros(len((first, second)[of].ids), dtype=bool)
    chosen[(ending, beginning)[of][ascends]] = True
    return chosen


def refuse_disorder(part: Part, key: Any) -> None:
    """Raises `InputError`: a series goes back in time where a file is cut."""
    raise InputError(
        f"{part.source.path} must have the rows of each series in order of time, because it is "
        f"read in parts, got series {key!r} going back or standing still at row {part.first:,}; "
        f"sort it by time, or allow more memory"
    )


def known_ends(
    series: SeriesSet, most: int
) -> tuple[Bool[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """The first known rows of each channel in every series, and the last, so many of each."""
    first, last = np.zeros((2, series.rows), dtype=bool)
    for known in series.observed.T:
        begin, end = _near_ends(series, known, most)
        first |= known & begin
        last |= known & end
    return first, last


def _near_ends(
    series: SeriesSet, known: Bool[np.ndarray, " row"], most: int
) -> tuple[Bool[np.ndarray, " row"], Bool[np.ndarray, " row"]]:
    """The rows with fewer than `most` known rows before them in their series, or after."""
    seen = np.cumsum(known)
    base = np.concatenate([[0], seen])[series.start]
    owner = series.owner
    first = seen - known - base[:-1][owner] < most
    last = base[1:][owner] - seen < most
    return first, last


def _rows(table: Any, owner: np.ndarray, chosen: np.ndarray) -> ContextRows:
    # A filter copies: the part itself can be forgotten.
    return ContextRows(table.filter(pa.array(chosen)), owner[chosen])


def _shared(own: Ends, neighbour: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Places of the series that both have, in the one and in the other."""
    place = {key: index for index, key in enumerate(own.ids)}
    pairs = [(place[key], index) for index, key in enumerate(neighbour.ids) if key in place]
    shared = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return shared[:, 0], shared[:, 1]
