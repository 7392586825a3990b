"""Timestamps as Python objects or as text: conversion to Arrow data and back."""

import contextlib
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from nrtsi.errors import InputError

__all__ = ["TimestampFormat", "parse_timestamps", "to_arrow"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HEAD = 100  # rows that a format must parse before the whole column is tried
_DAY, _YEAR = r"(?P<d>\d{1,2})", r"(?P<y>\d{4})"
_MONTH, _NAME = r"(?P<m>\d{1,2})", r"(?P<name>[A-Za-z]{3})[a-z]*"
_TIME_OF_DAY = (
    r"(?:[ T]+(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
    r"(?: ?(?P<p>[AaPp])[Mm])?)?"
)
_ZONE = r"(?: ?(?P<z>Z|[+-]\d{2}:?\d{2}))?"


def to_arrow(values: Any, name: str) -> pa.Array:
    """Converts a narwhals column, a list or a numpy array to Arrow; messages call it `name`."""
    if isinstance(values, nw.Series):
        values = values.to_list() if isinstance(values.dtype, nw.Object) else values.to_arrow()
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        values = _python_to_arrow(values, name)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _python_to_arrow(items: Any, name: str) -> pa.Array:
    target = None
    if getattr(items, "dtype", None) is None or items.dtype.kind == "O":
        items = list(items)
        kinds = {_datetime_kind(item) for item in items} - {""}
        if len(kinds) > 1:
            raise _mixed_types(name, " and ".join(sorted(kinds)))
        # Without a type, Arrow would drop the nanoseconds of pandas' timestamps.
        fine = next((item for item in items if getattr(item, "nanosecond", 0)), None)
        target = None if fine is None else pa.timestamp("ns", pa.array([fine]).type.tz)
    try:
        return pa.array(items, target, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed_types(name, str(error).splitlines()[0]) from None


def _datetime_kind(item: Any) -> str:
    """The kinds that Arrow would convert to each other, losing the time of day or the zone."""
    if isinstance(item, datetime.datetime):
        if str(item) == "NaT":  # a missing timestamp of pandas
            return ""
        return "naive datetimes" if item.tzinfo is None else "datetimes with a zone"
    return "dates" if isinstance(item, datetime.date) else ""


def _mixed_types(name: str, found: str) -> InputError:
    return InputError(f"{name} must hold values of one type, got {found}; convert it to one type")


@dataclass(frozen=True)
class TimestampFormat:
    """The format in which a text column writes its timestamps."""

    date: str  # strftime format of the date
    separator: str = " "  # text between the date and the time of day
    twelve_hours: bool = False  # whether the time of day is written with AM and PM
    dates_only: bool = False  # whether the column writes no time of day

    @classmethod
    def detect(cls, first: str, date: str) -> "TimestampFormat":
        """The format of a column whose first cell is `first` and whose date format is `date`."""
        separator = "T" if "T" in first[10:11] else " "
        return cls(date, separator, first[-1:] in "mM", ":" not in first)

    def write(self, stamps: pa.Array) -> pa.Array:
        """Timestamps as text; dates get a time of day if one of them is not at midnight."""
        zone = stamps.type.tz
        # Arrow writes as many digits below a second as the type has.
        with contextlib.suppress(pa.ArrowInvalid):
            stamps = stamps.cast(pa.timestamp("s", zone))
        midnight = pc.equal(stamps, pc.floor_temporal(stamps, unit="day"))
        if self.dates_only and pc.all(midnight).as_py():
            return pc.strftime(stamps, format=self.date, locale="C")
        clock = "%I:%M:%S %p" if self.twelve_hours else "%H:%M:%S"
        text = pc.strftime(stamps, format=self.date + self.separator + clock, locale="C")
        return pc.binary_join_element_wise(text, "Z", "") if zone else text


@dataclass(frozen=True)
class _DateFormat:
    pattern: str
    strftime: str  # format of the date; "/" stands for the separator of the column

    def parse(self, text: pa.Array) -> pa.Array:
        """Parses every row; raises ArrowInvalid if a row has another format or is no date."""
        parts = pc.extract_regex(text, f"^{self.pattern}{_TIME_OF_DAY}{_ZONE}$")
        if parts.null_count:
            raise pa.ArrowInvalid("another format")
        return _parse_iso(_to_iso(parts))

    def detect(self, text: pa.Array) -> TimestampFormat:
        separator = pc.extract_regex(text[:1], f"^{self.pattern}")[0].as_py()["s"]
        return TimestampFormat.detect(text[0].as_py(), self.strftime.replace("/", separator))


_DAY_OR_MONTH_FIRST = (
    _DateFormat(rf"{_DAY}(?P<s>[/-]){_MONTH}[/-]{_YEAR}", "%d/%m/%Y"),
    _DateFormat(rf"{_MONTH}(?P<s>[/-]){_DAY}[/-]{_YEAR}", "%m/%d/%Y"),
)
_UNAMBIGUOUS = (
    _DateFormat(rf"{_YEAR}(?P<s>[/.-]){_MONTH}[/.-]{_DAY}", "%Y/%m/%d"),
    _DateFormat(rf"{_DAY}(?P<s>\.){_MONTH}\.{_YEAR}", "%d/%m/%Y"),
    _DateFormat(rf"{_DAY}(?P<s>[ -]){_NAME}[ -]{_YEAR}", "%d/%b/%Y"),
    _DateFormat(rf"{_NAME}(?P<s> ){_DAY},? {_YEAR}", "%b %d, %Y"),
)


def parse_timestamps(text: pa.Array, name: str) -> tuple[pa.Array, TimestampFormat]:
    """Parses a text column; returns its timestamps and their format."""
    iso = _parse_or_none(_parse_iso, text)
    if iso is not None:
        return iso, TimestampFormat.detect(text[0].as_py(), "%Y-%m-%d")
    formats = (*_DAY_OR_MONTH_FIRST, *_UNAMBIGUOUS)
    found = [
        (each, stamps)
        for each in formats
        if (stamps := _parse_or_none(each.parse, text)) is not None
    ]
    if len(found) == 2 and not found[0][1].equals(found[1][1]):
        raise InputError(
            f"{name} is ambiguous: {text[0].as_py()!r} and all other rows can be read with the "
            f"day or the month first; write the dates as 2024-01-31"
        )
    if found:
        return found[0][1], found[0][0].detect(text)
    row = max(_first_failure(parse, text) for parse in (_parse_iso, *(f.parse for f in formats)))
    raise InputError(
        f"{name} must hold timestamps in one format, got {text[row].as_py()!r} at row {row} "
        f"(the first is row 0); write them as 2024-01-31 or 2024-01-31T18:30:00 "
        f"(in every row with a zone, or in none), or name another column"
    )


def _parse_or_none(parse: Callable[[pa.Array], pa.Array], text: pa.Array) -> pa.Array | None:
    try:
        parse(text[:_HEAD])  # most formats fail here, at little cost
        return parse(text)
    except pa.ArrowInvalid:
        return None


def _first_failure(parse: Callable[[pa.Array], pa.Array], text: pa.Array) -> int:
    """The first row that does not parse, found by bisection."""
    if _parse_or_none(parse, text[:_HEAD]) is None:
        text = text[:_HEAD]
    low, high = 0, len(text) - 1  # rows before `low` parse; one of low…high does not
    while low < high:
        middle = (low + high) // 2
        try:
            # Row 0 is parsed too, because it decides whether a zone is expected.
            parse(pa.concat_arrays([text[:1], text[low : middle + 1]]))
            low = middle + 1
        except pa.ArrowInvalid:
            high = middle
    return low


def _parse_iso(text: pa.Array) -> pa.Array:
    """Timestamps of ISO 8601 text that has a zone in every row or in none."""
    tail = text[0].as_py()[10:]
    zone = "UTC" if tail.endswith("Z") or "+" in tail or "-" in tail else None
    try:
        return pc.cast(text, pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        # Digits below a microsecond need the finer type, which ends in the year 2262.
        return pc.cast(text, pa.timestamp("ns", zone))


def _to_iso(parts: pa.StructArray) -> pa.Array:
    part = {field.name: parts.field(i) for i, field in enumerate(parts.type)}
    month = pc.utf8_lpad(part["m"], 2, "0") if "m" in part else _month(part["name"])
    date = pc.binary_join_element_wise(part["y"], month, pc.utf8_lpad(part["d"], 2, "0"), "-")
    second = pc.if_else(pc.equal(part["S"], ""), "00", part["S"])
    minute = pc.if_else(pc.equal(part["M"], ""), "00", part["M"])
    clock = pc.binary_join_element_wise(_hour(part["H"], part["p"]), minute, second, ":")
    point = pc.if_else(pc.equal(part["f"], ""), "", ".")
    tail = pc.binary_join_element_wise(clock, point, part["f"], part["z"], "")
    return pc.binary_join_element_wise(date, tail, " ")


def _month(name: pa.Array) -> pa.Array:
    number = pc.index_in(pc.utf8_lower(name), pa.array(_MONTHS))
    if number.null_count:
        raise pa.ArrowInvalid("no such month")
    return pc.utf8_lpad(pc.add(number, 1).cast(pa.string()), 2, "0")


def _hour(hour: pa.Array, half: pa.Array) -> pa.Array:
    number = pc.if_else(pc.equal(hour, ""), "0", hour).cast(pa.int32())
    halved = pc.not_equal(half, "")
    outside = pc.or_(pc.less(number, 1), pc.greater(number, 12))
    if pc.any(pc.and_(halved, outside)).as_py():
        raise pa.ArrowInvalid("AM and PM go with the hours 1 to 12")
    afternoon = pc.if_else(pc.equal(pc.utf8_lower(half), "p"), 12, 0)
    twelve = pc.if_else(pc.equal(number, 12), 0, number)
    number = pc.if_else(halved, pc.add(twelve, afternoon), number)
    return pc.utf8_lpad(number.cast(pa.string()), 2, "0")
