"""The caller's times as exact counts of ticks, and back into the caller's type."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nrtsi.errors import InputError
from nrtsi.tables.timestamps import TimestampFormat, parse

__all__ = ["Times", "read_times", "repeats", "row_numbers", "spacings", "together"]

_TICK = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_LARGEST = 1e300  # differences of such times, and sums of those, are still floats
_UNIT = {tick: unit for unit, tick in _TICK.items()}


@dataclass(frozen=True)
class Times:
    """Times as whole ticks (datetimes) or plain numbers, and what they looked like."""

    kind: Literal["datetime", "number"]
    ticks: np.ndarray
    """int64 or float64; datetimes count from 1970, in UTC where a zone is known."""

    tick: int
    """Nanoseconds of a tick; 1 for numbers."""

    type: pa.DataType
    """The caller's Arrow type."""

    style: TimestampFormat | None = None
    """How the caller writes times, where they are text."""

    zone: str | None = None
    """The caller's time zone; None for naive times and numbers."""

    @property
    def may_repeat_an_hour(self) -> bool:
        """Whether these are local times of day, of which a clock set back shows some twice."""
        bare = pa.types.is_date(self.type) or (self.style is not None and self.style.dates_only)
        return self.kind == "datetime" and self.zone is None and not bare

    def take(self, rows: np.ndarray) -> "Times":
        """The times at these rows."""
        return replace(self, ticks=self.ticks[rows])

    def show(self, row: int) -> str:
        """One time as the caller would write it."""
        shown = self.take(np.array([row])).to_arrow()
        if pa.types.is_timestamp(shown.type) and shown.type.tz:
            shown = pc.strftime(_shortest(shown), format="%Y-%m-%d %H:%M:%S%z")
        elif pa.types.is_timestamp(shown.type):
            shown = _shortest(shown)
        return str(shown.cast(pa.string())[0])

    def to_arrow(self) -> pa.Array:
        """The times in the caller's type; in a wider one where that cannot hold them."""
        if self.kind == "number":
            return _narrowest(pa.array(self.ticks), self.type)
        stamps = pa.array(self.ticks, pa.timestamp(_UNIT[self.tick], self.zone))
        if self.style is not None:
            return self.style.write(stamps)
        return _narrowest(stamps, self.type)

    def finer(self, tick: int) -> "Times":
        """The same times in ticks of at most `tick` nanoseconds."""
        if self.kind == "number" or self.tick <= tick:
            return self
        factor = self.tick // tick
        if self.ticks.size and int(np.abs(self.ticks).max()) >= 2**63 // factor:
            raise InputError(
                f"times asked for must be no finer than {_UNIT[self.tick]} for a time as far from "
                f"1970 as {self.show(int(np.abs(self.ticks).argmax()))!r}; round them"
            )
        return replace(self, ticks=self.ticks * factor, tick=tick)


def _shortest(stamps: pa.Array) -> pa.Array:
    try:
        return stamps.cast(pa.timestamp("s", stamps.type.tz))
    except pa.ArrowInvalid:
        return stamps


def _narrowest(times: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        narrow = times.cast(wanted)
    except pa.ArrowInvalid:
        return times
    # Casting a moment to a date drops the hour without complaint.
    return narrow if narrow.cast(times.type).equals(times) else times


def row_numbers(owner: np.ndarray) -> Times:
    """The number of each row inside its series."""
    order = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[order], np.arange(int(owner.max()) + 1))
    ticks = np.empty(owner.size, np.int64)
    ticks[order] = np.arange(owner.size) - start[owner[order]]
    return Times("number", ticks, 1, pa.int64())


def spacings(times: Times, owner: np.ndarray) -> np.ndarray:
    """Distances, in ticks, of neighbouring times inside each series (sorted)."""
    with np.errstate(over="ignore"):
        steps = np.diff(times.ticks)[np.diff(owner) == 0]
    return steps[(steps > 0) & np.isfinite(steps)]


def repeats(owner: np.ndarray, ticks: np.ndarray) -> np.ndarray:
    """True where a sorted row is followed by one of the same series and time."""
    # Compared, not subtracted: differences of 64-bit integers wrap around.
    return (owner[1:] == owner[:-1]) & (ticks[1:] == ticks[:-1])


def together(times: Times, asked: Times) -> tuple[Times, Times]:
    """Both in the same ticks, so that equal times have equal ticks.

    Raises:
        InputError: One has datetimes and the other numbers, or one has a zone and the other not.
    """
    if times.kind != asked.kind:
        raise InputError(
            f"times asked for must be {times.kind}s like the data's, got {asked.type}; "
            f"convert them"
        )
    if times.zone is None and asked.zone is not None:
        raise InputError(
            f"times asked for must be without a zone like the data's, got zone {asked.zone!r}; "
            f"drop the zone, or give the data one"
        )
    if times.zone is not None and asked.zone is None:
        asked = _localised(asked, times.zone)
    tick = min(times.tick, asked.tick)
    times, asked = times.finer(tick), asked.finer(tick)
    return times, replace(asked, type=times.type, style=times.style, zone=times.zone)


def _localised(asked: Times, zone: str) -> Times:
    naive = pa.array(asked.ticks, pa.timestamp(_UNIT[asked.tick]))
    try:
        aware = pc.assume_timezone(naive, zone)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"times asked for without a zone must occur exactly once in the data's zone, {zone}, "
            f"got {_first_line(error)}; write them with their offset"
        ) from None
    return replace(asked, ticks=_integers(aware), zone=zone)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".").removesuffix("It could be").rstrip(" .")


def read_times(column: Any, what: str) -> Times:
    """Times of a column (Arrow data); `what` names it in messages.

    Raises:
        InputError: The type is no time, or a time is null, not finite, or does not parse.
    """
    array = _flat(column)
    kind = array.type
    if array.null_count:
        _refuse_row(array.is_null(), "a missing", what)
    for accepts, read in _READERS:
        if accepts(kind):
            return read(array, what)
    raise InputError(
        f"{what} must hold datetimes, dates, numbers or text, got {kind}; "
        f"convert it, or name another column"
    )


def _flat(column: Any) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _refuse_row(bad: pa.Array, found: str, what: str) -> None:
    row = int(np.flatnonzero(np.asarray(bad))[0])
    raise InputError(
        f"{what} must be known and finite in every row, got {found} time at row {row} "
        f"(the first is row 0); drop the row or give it a time"
    )


def _integers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.cast(pa.int64()))


def _stamps(array: pa.Array, what: str) -> Times:
    kind = array.type
    return Times("datetime", _integers(array), _TICK[kind.unit], kind, zone=kind.tz)


def _dates(array: pa.Array, what: str) -> Times:
    return replace(_stamps(array.cast(pa.timestamp("s")), what), type=array.type)


def _whole_numbers(array: pa.Array, what: str) -> Times:
    try:
        return Times("number", _integers(array), 1, array.type)
    except pa.ArrowInvalid:
        raise InputError(
            f"{what} must hold numbers below 2**63, got larger ones; subtract a start"
        ) from None


def _real_numbers(array: pa.Array, what: str) -> Times:
    ticks = np.asarray(array.cast(pa.float64()))
    for bad, found in ((np.isnan(ticks), "a NaN"), (np.isinf(ticks), "an infinite")):
        if bad.any():
            _refuse_row(bad, found, what)
    if np.abs(ticks).max(initial=0.0) > _LARGEST:
        raise InputError(
            f"{what} must hold numbers of at most {_LARGEST:g} in size, "
            f"got {np.abs(ticks).max():g}; rescale them"
        )
    return Times("number", ticks, 1, array.type)


def _text(array: pa.Array, what: str) -> Times:
    stamps, style = parse(array.cast(pa.string()), what)
    return replace(_stamps(stamps, what), type=array.type, style=style)


_Reader = Callable[[pa.Array, str], Times]
_READERS: tuple[tuple[Callable[[pa.DataType], bool], _Reader], ...] = (
    (pa.types.is_timestamp, _stamps),
    (pa.types.is_date, _dates),
    (pa.types.is_integer, _whole_numbers),
    (pa.types.is_floating, _real_numbers),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _text),
    (pa.types.is_string_view, _text),
)
