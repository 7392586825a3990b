"""Times written as text: what they mean, and writing more of them in the same manner."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nrtsi.errors import InputError

__all__ = ["TimestampFormat", "parse", "readable"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HEAD = 100
_DAY, _YEAR = r"(?P<d>\d{1,2})", r"(?P<y>\d{4})"
_MONTH, _NAME = r"(?P<m>\d{1,2})", r"(?P<name>[A-Za-z]{3})[a-z]*"
_CLOCK = (
    r"(?:[ T]+(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
    r"(?: ?(?P<p>[AaPp])[Mm])?)?"
)
_ZONE = r"(?: ?(?P<z>Z|[+-]\d{2}:?\d{2}))?"


@dataclass(frozen=True)
class TimestampFormat:
    """The manner in which a column writes its times."""

    date: str
    """strftime format of the date."""

    between: str = " "
    """What stands between date and time of day."""

    half_days: bool = False
    """Whether the time of day is written with AM and PM."""

    dates_only: bool = False
    """Whether no time of day is written."""

    def write(self, stamps: pa.Array) -> pa.Array:
        """The moments as text; a time of day is added to bare dates where one needs it."""
        zone = stamps.type.tz
        # Fractions of a second are written with as many digits as the type has.
        with contextlib.suppress(pa.ArrowInvalid):
            stamps = stamps.cast(pa.timestamp("s", zone))
        if self.dates_only and _midnights(stamps):
            return pc.strftime(stamps, format=self.date, locale="C")
        clock = "%I:%M:%S %p" if self.half_days else "%H:%M:%S"
        text = pc.strftime(stamps, format=self.date + self.between + clock, locale="C")
        return pc.binary_join_element_wise(text, "Z", "") if zone else text


def _midnights(stamps: pa.Array) -> bool:
    return bool(pc.all(pc.equal(stamps, pc.floor_temporal(stamps, unit="day"))).as_py())


@dataclass(frozen=True)
class _Manner:
    """One way of writing a date."""

    pattern: str
    style: Callable[[str], str]
    """strftime format of the date, from the separator met."""

    def read(self, array: pa.Array) -> pa.Array:
        """The moments; raises ArrowInvalid where a row is not written so or does not exist."""
        parts = pc.extract_regex(array, f"^{self.pattern}{_CLOCK}{_ZONE}$")
        if parts.null_count:
            raise pa.ArrowInvalid("not written so")
        return _stamps(_iso(parts))


def _iso(parts: pa.StructArray) -> pa.Array:
    part = {field.name: parts.field(i) for i, field in enumerate(parts.type)}
    month = pc.utf8_lpad(part["m"], 2, "0") if "m" in part else _month(part["name"])
    date = pc.binary_join_element_wise(part["y"], month, pc.utf8_lpad(part["d"], 2, "0"), "-")
    second = pc.if_else(pc.equal(part["S"], ""), "00", part["S"])
    minute = pc.if_else(pc.equal(part["M"], ""), "00", part["M"])
    clock = pc.binary_join_element_wise(_hour(part["H"], part["p"]), minute, second, ":")
    fraction = pc.if_else(
        pc.equal(part["f"], ""), "", pc.binary_join_element_wise("", part["f"], ".")
    )
    tail = pc.binary_join_element_wise(clock, fraction, part["z"], "")
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
        raise pa.ArrowInvalid("no such hour before or after noon")
    twelve = pc.if_else(pc.equal(number, 12), 0, number)
    afternoon = pc.equal(pc.utf8_lower(half), "p")
    number = pc.if_else(halved, pc.if_else(afternoon, pc.add(twelve, 12), twelve), number)
    return pc.utf8_lpad(number.cast(pa.string()), 2, "0")


def _stamps(array: pa.Array) -> pa.Array:
    """Moments of ISO 8601 text, with a zone in every row or in none."""
    zone = "UTC" if array[0].as_py()[10:].endswith("Z") or _offset(array[0].as_py()) else None
    try:
        return pc.cast(array, pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        # Digits below a microsecond need the finer type, which ends in the year 2262.
        return pc.cast(array, pa.timestamp("ns", zone))


def _offset(text: str) -> bool:
    return any(sign in text[10:] for sign in "+-")


_DAY_FIRST = _Manner(rf"{_DAY}(?P<s>[/-]){_MONTH}[/-]{_YEAR}", lambda s: f"%d{s}%m{s}%Y")
_MONTH_FIRST = _Manner(rf"{_MONTH}(?P<s>[/-]){_DAY}[/-]{_YEAR}", lambda s: f"%m{s}%d{s}%Y")
_PLAIN = (
    _Manner(rf"{_YEAR}(?P<s>[/.-]){_MONTH}[/.-]{_DAY}", lambda s: f"%Y{s}%m{s}%d"),
    _Manner(rf"{_DAY}(?P<s>\.){_MONTH}\.{_YEAR}", lambda s: "%d.%m.%Y"),
    _Manner(rf"{_DAY}(?P<s>[ -]){_NAME}[ -]{_YEAR}", lambda s: f"%d{s}%b{s}%Y"),
    _Manner(rf"{_NAME}(?P<s> ){_DAY},? {_YEAR}", lambda s: "%b %d, %Y"),
)


def parse(array: pa.Array, what: str) -> tuple[pa.Array, TimestampFormat]:
    """Moments of a text column, and its manner of writing.

    Raises:
        InputError: A row does not parse, or day and month could be exchanged throughout.
    """
    first = array[0].as_py() if len(array) else ""
    try:
        return _stamps(array), _style(first, "%Y-%m-%d")
    except pa.ArrowInvalid:
        pass
    for manners in ((_DAY_FIRST, _MONTH_FIRST), *((manner,) for manner in _PLAIN)):
        readings = [
            (each, stamps) for each in manners if (stamps := _try(each, array)) is not None
        ]
        if len(readings) == 2 and not readings[0][1].equals(readings[1][1]):
            raise InputError(
                f"{what} must say which number is the day and which the month, got {first!r} and "
                f"others that can be read either way; write the dates as 2024-01-31"
            )
        for manner, stamps in readings:
            separator = pc.extract_regex(array[:1], f"^{manner.pattern}")[0].as_py()["s"]
            return stamps, _style(first, manner.style(separator))
    raise _refusal(array, what)


def readable(array: pa.Array) -> bool:
    """Whether the rows can be read as times in one manner at least."""
    if array.null_count or not len(array):
        return False
    with contextlib.suppress(pa.ArrowInvalid):
        return bool(len(_stamps(array)))
    return any(_try(each, array) is not None for each in (_DAY_FIRST, _MONTH_FIRST, *_PLAIN))


def _try(manner: _Manner, array: pa.Array) -> pa.Array | None:
    try:
        manner.read(array[:_HEAD])  # most manners fail here, at little cost
        return manner.read(array)
    except pa.ArrowInvalid:
        return None


def _style(first: str, date: str) -> TimestampFormat:
    return TimestampFormat(
        date=date,
        between="T" if "T" in first[10:11] else " ",
        half_days=first[-1:] in "mM",
        dates_only=":" not in first,
    )


def _refusal(array: pa.Array, what: str) -> InputError:
    readers: list[Callable[[pa.Array], pa.Array]] = [_stamps]
    readers += [manner.read for manner in (_DAY_FIRST, _MONTH_FIRST, *_PLAIN)]
    row = max(_first_bad(read, array) for read in readers)
    return InputError(
        f"{what} must hold times in one way of writing, got {array[row].as_py()!r} at row {row} "
        f"(the first is row 0); write them as 2024-01-31 or 2024-01-31T18:30:00 "
        f"(in every row with a zone, or in none), or name another column"
    )


def _first_bad(read: Callable[[pa.Array], pa.Array], array: pa.Array) -> int:
    """The first row at which reading fails, found by halving."""
    low, high = 0, len(array) - 1  # rows before `low` parse; one in low…high does not
    while low < high:
        middle = (low + high) // 2
        try:
            # Row 0 goes along, since it decides whether a zone is expected.
            read(pa.concat_arrays([array[:1], array[low : middle + 1]]))
            low = middle + 1
        except pa.ArrowInvalid:
            high = middle
    return low
