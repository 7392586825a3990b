"""Which column is what: the caller's names checked, and guessed where none were given."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from nrtsi.errors import InputError
from nrtsi.tables.detection import guess_time, guess_values, times_of
from nrtsi.tables.frames import arrow_of, frame_of, listed, time_index
from nrtsi.tables.times import Times, read_times, repeats, row_numbers

__all__ = ["Columns", "Owners", "fitted_columns_must_match", "owners_of", "resolve"]

_ID_NAMES = (
    "unique_id", "series_id", "series", "item_id", "id", "uid", "station_id", "station",
    "sensor_id", "sensor", "device_id", "device", "site_id", "site", "location_id", "location",
    "patient_id", "patient", "subject", "entity", "group", "key", "name", "item", "symbol",
    "ticker", "store",
)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """What the caller named; None is guessed."""

    time: str | None = None
    id: str | None = None
    values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            raise InputError(
                f"columns must be a list of names, got the text {self.values!r}; "
                f"write [{self.values!r}]"
            )
        if self.values is not None:
            object.__setattr__(self, "values", tuple(self.values))
        self._must_not_overlap()

    def _must_not_overlap(self) -> None:
        named = [name for name in (self.time, self.id) if name is not None]
        named += self.values or ()
        twice = [name for i, name in enumerate(named) if name in named[:i]]
        if twice:
            raise InputError(
                f"time, id and columns must name different columns, got {listed(twice)} twice; "
                f"name each column once"
            )


@dataclass(frozen=True)
class Owners:
    """The series each row belongs to."""

    code: np.ndarray
    """Index of the series of each row; series are numbered as they first appear."""

    ids: tuple[Any, ...] = (0,)
    """The caller's id of each series."""


@dataclass
class Resolution:
    """What every column is, and what had to be guessed."""

    columns: Columns
    times: Times
    owners: Owners
    guesses: list[str] = field(default_factory=list)


def fitted_columns_must_match(data: Any, fitted: Columns) -> None:
    """Refuses data that lacks a column of the fitted ones; further columns are no harm.

    Raises:
        InputError: A fitted column is absent; the message names those and the ones there are.
    """
    if isinstance(data, np.ndarray):
        there: list[Any] = array_names(data)
    else:
        frame = frame_of(data)
        index = time_index(frame)
        there = [*frame.columns, *([index.name] if index is not None else [])]
    wanted = [fitted.time, fitted.id, *(fitted.values or ())]
    absent = [name for name in wanted if name is not None and name not in there]
    if absent:
        raise InputError(
            f"the data must have the columns the model was fitted on, "
            f"{listed(n for n in wanted if n is not None)}; it lacks {listed(absent)} and has "
            f"{listed(there)}; rename its columns, or fit again"
        )
    if isinstance(data, np.ndarray) and len(there) != len(fitted.values or ()):
        raise InputError(
            f"the data must have the {len(fitted.values or ())} channels the model was fitted on, "
            f"got {len(there)}; leave out the others, or fit again"
        )


def array_names(array: np.ndarray) -> list[Any]:
    """The names an array's channels go by: their numbers, as text."""
    return [str(i) for i in range(array.shape[-1])] if array.ndim else []


def _near(name: str, there: Sequence[str]) -> str:
    """A question about the name that was perhaps meant."""
    close = get_close_matches(str(name), [str(each) for each in there], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _indexed(frame: nw.DataFrame[Any]) -> str:
    if nw.maybe_get_index(frame) is None:
        return ""
    return " (an index can be made a column with reset_index)"


def resolve(frame: nw.DataFrame[Any], columns: Columns) -> Resolution:
    """Settles time, id and values, in this order, since each guess rests on the one before.

    Raises:
        InputError: A named column is absent or of the wrong type, or nothing is left to impute.
    """
    index = time_index(frame)
    named = [
        name for name in (columns.time, columns.id, *(columns.values or ())) if name is not None
    ]
    indexed = index is not None and columns.time in (None, index.name)
    absent = [n for n in named if n not in frame.columns and not (indexed and n == columns.time)]
    if absent:
        raise InputError(
            f"the frame must have every named column, got no {listed(absent)}; there are "
            f"{listed(frame.columns)}{_near(absent[0], frame.columns)}{_indexed(frame)}"
        )
    guesses: list[str] = []
    if indexed and columns.time not in frame.columns:
        assert index is not None
        if columns.time is None:
            guesses.append("time: the index (guessed)")
        columns = replace(columns, time=None)
        times: Times | None = read_times(arrow_of(index, "the index"), "the index")
    else:
        columns, times = _with_time(frame, columns, guesses)
    columns, owners = _with_id(frame, columns, times, guesses)
    columns = _with_values(frame, columns, times, guesses)
    return Resolution(
        columns, row_numbers(owners.code) if times is None else times, owners, guesses
    )


def _with_time(
    frame: nw.DataFrame[Any], columns: Columns, guesses: list[str]
) -> tuple[Columns, Times | None]:
    if columns.time is not None:
        return columns, times_of(frame, columns.time)
    name, times, sentence = guess_time(frame, {columns.id, *(columns.values or ())})
    guesses.append(sentence)
    return replace(columns, time=name), times


def _is_label(dtype: Any) -> bool:
    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)


def owners_of(frame: nw.DataFrame[Any], name: str) -> Owners:
    """The series of each row by its id column.

    Raises:
        InputError: An id is missing, or ids are of several types.
    """
    array = arrow_of(frame.get_column(name), f"id column {name!r}")
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    absent = np.asarray(array.is_null(nan_is_null=True))
    if absent.any():
        raise InputError(
            f"id column {name!r} must be known in every row, got a missing id at row "
            f"{int(absent.argmax())} (the first is row 0); drop the row or give it an id"
        )
    coded = array.dictionary_encode()
    return Owners(np.asarray(coded.indices).astype(np.int64), tuple(coded.dictionary.to_pylist()))


def _repeats(code: np.ndarray, times: Times) -> bool:
    order = np.lexsort((times.ticks, code))
    return bool(repeats(code[order], times.ticks[order]).any())


def _with_id(
    frame: nw.DataFrame[Any], columns: Columns, times: Times | None, guesses: list[str]
) -> tuple[Columns, Owners]:
    if columns.id is not None:
        return columns, owners_of(frame, columns.id)
    alone = Owners(np.zeros(len(frame), np.int64))
    repeated = times is not None and _repeats(alone.code, times)
    for name in _id_candidates(frame, columns, by_type=repeated):
        if frame.get_column(name).is_null().any():
            continue
        owners = owners_of(frame, name)
        if repeated and times is not None:
            suits = not _repeats(owners.code, times)
        else:
            # A column that differs in every row numbers the rows; it does not group them.
            suits = 1 < len(owners.ids) < len(frame)
        if suits:
            guesses.append(f"id: column {name!r} (guessed, {len(owners.ids)} series)")
            return replace(columns, id=name), owners
    return columns, alone


def _id_candidates(frame: nw.DataFrame[Any], columns: Columns, *, by_type: bool) -> list[str]:
    taken = {columns.time, *(columns.values or ())}
    free = {name: dtype for name, dtype in frame.schema.items() if name not in taken}
    there = {
        str(name).casefold(): name
        for name in reversed(free)
        if _is_label(free[name]) or free[name].is_integer()
    }
    found = [there[name] for name in _ID_NAMES if name in there]
    labels = [name for name, dtype in free.items() if _is_label(dtype)]
    if by_type and len(labels) == 1 and labels[0] not in found:
        found.append(labels[0])
    return found


def _with_values(
    frame: nw.DataFrame[Any], columns: Columns, times: Times | None, guesses: list[str]
) -> Columns:
    if columns.values is not None:
        for name in columns.values:
            _must_be_numeric(frame, name)
        names = columns.values
    else:
        dated = times is not None and times.kind == "datetime"
        names, sentences = guess_values(frame, (columns.time, columns.id), dated=dated)
        guesses.extend(sentences)
    if not names:
        raise InputError(
            f"there must be at least one numeric column to impute, got {listed(frame.columns)}; "
            f"name columns of numbers with columns="
        )
    return replace(columns, values=names)


def _must_be_numeric(frame: nw.DataFrame[Any], name: str) -> None:
    dtype = frame.get_column(name).dtype
    if not dtype.is_numeric():
        raise InputError(
            f"column {name!r} must be numeric, got {dtype}; convert it to numbers, "
            f"or leave it out of columns="
        )
