"""`Clock` converts times to float units, `Times` holds them exactly; durations such as "1h30m"."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from nrtsi.errors import InputError
from nrtsi.tables.timestamps import TimestampFormat, parse_timestamps, to_arrow

__all__ = ["Clock", "Times", "format_duration", "parse_duration", "parse_step"]

_SECOND = 1_000_000_000  # nanoseconds
_DAY = 86_400.0  # seconds
_PERIODS = (_DAY, 7 * _DAY, 365.2425 * _DAY)
_SYMBOLS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": _DAY, "w": 7 * _DAY,
}  # fmt: skip
_NAMES = {
    "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "hr": 3600.0, "hour": 3600.0,
    "day": _DAY, "week": 7 * _DAY,
}  # fmt: skip
_WRITTEN = {
    "d": 86_400 * _SECOND, "h": 3_600 * _SECOND, "min": 60 * _SECOND, "s": _SECOND,
    "ms": 1_000_000, "us": 1_000, "ns": 1,
}  # fmt: skip
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*")
_PLAIN = re.compile(rf"\s*(?:{_NUMBER})\s*")

_TICKS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_ARROW_UNITS = {tick: unit for unit, tick in _TICKS.items()}
_LARGEST = 1e300  # sums of differences of such times are still finite floats


def parse_duration(text: str | float) -> float:
    """Seconds in a duration; a plain number is in seconds, "m" and "min" are minutes.

    Units may be upper case, except "M", which stands for months in other libraries.

    >>> parse_duration("1h30m"), parse_duration("15min"), parse_duration("6 hours")
    (5400.0, 900.0, 21600.0)
    """
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not isinstance(text, str) or _PLAIN.fullmatch(text):
        seconds = _positive(text)
    elif not parts or _PART.sub("", text):
        seconds = math.nan
    else:
        seconds = math.fsum(float(number) * _unit_seconds(unit) for number, unit in parts)
    if not (math.isfinite(seconds) and seconds > 0):
        month = " ('M' could mean months: write minutes as '1min', a month as '30d')"
        raise InputError(
            f"a duration must be a positive number of seconds or a text such as '90s', '15min', "
            f"'1h', '2d' or '1h30m', got {text!r}; use one of these forms"
            f"{month if any(unit == 'M' for _, unit in parts) else ''}"
        )
    return seconds


def _unit_seconds(unit: str) -> float:
    name = unit.lower()
    if unit == "M":
        return math.nan
    return _SYMBOLS.get(name, _NAMES.get(name.removesuffix("s"), math.nan))


def _positive(number: Any) -> float:
    """A positive, finite number; NaN for anything else."""
    try:
        value = math.nan if isinstance(number, bool) else float(number)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) and value > 0 else math.nan


def parse_step(step: float | str, kind: str, name: str) -> float:
    """Length of a step: nanoseconds for datetimes, otherwise in the measure of the time column."""
    if kind == "datetime":
        seconds = parse_duration(step) if isinstance(step, str) else math.nan
        if not isinstance(step, str) or _PLAIN.fullmatch(step):
            raise InputError(
                f"{name} must be a duration such as '15min' for datetimes, got {step}; "
                f"add a unit, e.g. '{step}min'"
            )
        return seconds * _SECOND
    length = _positive(step)
    if math.isnan(length):
        raise InputError(
            f"{name} must be a positive number where times are plain numbers, got {step!r}; "
            f"give it in the measure of the time column"
        )
    return length


def format_duration(nanoseconds: int) -> str:
    """Writes a duration in the largest unit of which it is a multiple.

    >>> format_duration(5_400_000_000_000), format_duration(0)
    ('90min', '0d')
    """
    name = next(name for name, size in _WRITTEN.items() if nanoseconds % size == 0)
    return f"{nanoseconds // _WRITTEN[name]}{name}"


@dataclass(frozen=True)
class Times:
    """Exact times, as integer ticks (datetimes) or plain numbers, and their type in the table."""

    kind: Literal["datetime", "number"]
    ticks: np.ndarray  # int64 or float64; datetimes count from 1970, in UTC if the zone is known
    tick: int  # nanoseconds of a tick; 1 for numbers
    type: pa.DataType  # the Arrow type of the column
    format: TimestampFormat | None = None  # the format of a text column
    zone: str | None = None  # the time zone; None for naive times and numbers

    @classmethod
    def read(cls, values: Any, name: str) -> "Times":
        """Times of a column, list or array of datetimes, dates, numbers or text."""
        array, stamp_format = to_arrow(values, name), None
        kind = array.type
        if array.null_count:
            _raise_at_row(array.is_null(), "a missing", name)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return cls("number", _read_numbers(array, name), 1, kind)
        if pa.types.is_timestamp(kind):
            stamps = array
        elif pa.types.is_date(kind):
            stamps = array.cast(pa.timestamp("s"))
        elif pa.types.is_string(kind) or kind in (pa.large_string(), pa.string_view()):
            stamps, stamp_format = parse_timestamps(array.cast(pa.string()), name)
        else:
            raise InputError(
                f"{name} must hold datetimes, dates, numbers or text, got {kind}; "
                f"convert it, or name another column"
            )
        tick = _TICKS[stamps.type.unit]
        return cls("datetime", _integers(stamps), tick, kind, stamp_format, stamps.type.tz)

    @classmethod
    def row_numbers(cls, owner: Int[np.ndarray, " row"]) -> "Times":
        """The number of each row inside its series."""
        order = np.argsort(owner, kind="stable")
        start = np.searchsorted(owner[order], np.arange(int(owner.max()) + 1))
        ticks = np.empty(owner.size, np.int64)
        ticks[order] = np.arange(owner.size) - start[owner[order]]
        return cls("number", ticks, 1, pa.int64())

    @property
    def is_local(self) -> bool:
        """Whether these are local times of day, some of which repeat when clocks are set back."""
        dates = pa.types.is_date(self.type) or (self.format is not None and self.format.dates_only)
        return self.kind == "datetime" and self.zone is None and not dates

    def take(self, rows: Int[np.ndarray, " _"]) -> "Times":
        """The times at these rows."""
        return replace(self, ticks=self.ticks[rows])

    def show(self, row: int) -> str:
        """One time as text, for messages."""
        shown = self.take(np.array([row])).to_arrow()
        if pa.types.is_timestamp(shown.type):
            shown = _cast_exactly(shown, pa.timestamp("s", shown.type.tz))
            if shown.type.tz:
                shown = pc.strftime(shown, format="%Y-%m-%d %H:%M:%S%z")
        return str(shown.cast(pa.string())[0])

    def to_arrow(self) -> pa.Array:
        """The times in the type of the column, or in a wider one if that cannot hold them."""
        if self.kind == "number":
            return _cast_exactly(pa.array(self.ticks), self.type)
        stamps = pa.array(self.ticks, pa.timestamp(_ARROW_UNITS[self.tick], self.zone))
        if self.format is not None:
            return self.format.write(stamps)
        return _cast_exactly(stamps, self.type)

    def refine(self, tick: int) -> "Times":
        """The same times in ticks of at most `tick` nanoseconds."""
        if self.kind == "number" or self.tick <= tick:
            return self
        factor = self.tick // tick
        if self.ticks.size and int(np.abs(self.ticks).max()) >= 2**63 // factor:
            raise InputError(
                f"queried times must be no finer than {_ARROW_UNITS[self.tick]} if a time is as "
                f"far from 1970 as {self.show(int(np.abs(self.ticks).argmax()))!r}; round them"
            )
        return replace(self, ticks=self.ticks * factor, tick=tick)

    def align(self, query: "Times") -> tuple["Times", "Times"]:
        """These and queried times in common ticks, so that equal times have equal ticks.

        Naive queried times are local times of the table's zone.
        """
        if self.kind != query.kind:
            raise InputError(
                f"queried times must be {self.kind}s as in the data, got {query.type}; "
                f"convert them"
            )
        if self.zone is None and query.zone is not None:
            raise InputError(
                f"queried times must have no zone, as in the data, got zone {query.zone!r}; "
                f"remove the zone, or add one to the data"
            )
        if self.zone is not None and query.zone is None:
            query = query._localise(self.zone)
        tick = min(self.tick, query.tick)
        refined = query.refine(tick)
        same = replace(refined, type=self.type, format=self.format, zone=self.zone)
        return self.refine(tick), same

    def _localise(self, zone: str) -> "Times":
        naive = pa.array(self.ticks, pa.timestamp(_ARROW_UNITS[self.tick]))
        try:
            return replace(self, ticks=_integers(pc.assume_timezone(naive, zone)), zone=zone)
        except pa.ArrowInvalid as error:
            line = str(error).splitlines()[0].rstrip(".").removesuffix("It could be").rstrip(" .")
            raise InputError(
                f"queried times without a zone must occur exactly once in the zone of the data, "
                f"{zone}, got {line}; write them with their offset"
            ) from None


def _integers(array: pa.Array) -> Int[np.ndarray, " row"]:
    return np.asarray(array.cast(pa.int64()))


def _cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in this type if that loses nothing, otherwise as it was."""
    try:
        narrow = array.cast(kind)
    except pa.ArrowInvalid:
        return array
    # Casting a timestamp to a date drops the time of day without an error.
    return narrow if narrow.cast(array.type).equals(array) else array


def _raise_at_row(bad: Any, found: str, name: str) -> None:
    row = int(np.flatnonzero(np.asarray(bad))[0])
    raise InputError(
        f"{name} must be known and finite in every row, got {found} time at row {row} "
        f"(the first is row 0); drop the row or give it a time"
    )


def _read_numbers(array: pa.Array, name: str) -> np.ndarray:
    if pa.types.is_integer(array.type):
        try:
            return _integers(array)
        except pa.ArrowInvalid:
            raise InputError(
                f"{name} must hold numbers below 2**63, got larger ones; subtract an offset"
            ) from None
    ticks = np.asarray(array.cast(pa.float64()))
    for bad, found in ((np.isnan(ticks), "a NaN"), (np.isinf(ticks), "an infinite")):
        if bad.any():
            _raise_at_row(bad, found, name)
    largest = np.abs(ticks).max(initial=0.0)
    if largest > _LARGEST:
        raise InputError(
            f"{name} must hold numbers of at most {_LARGEST:g} in size, got {largest:g}; "
            f"rescale them"
        )
    return ticks


@dataclass(frozen=True)
class Clock:
    """Converts times to float units; part of a saved model."""

    kind: Literal["datetime", "number"]  # plain numbers may be row numbers
    origin: int  # time 0: nanoseconds since 1970 (UTC) for datetimes, 0 for numbers
    unit: float  # length of a unit: nanoseconds for datetimes

    def __post_init__(self) -> None:
        if self.kind not in ("datetime", "number") or not (0 < self.unit < math.inf):
            raise InputError(
                f"a clock must have the kind 'datetime' or 'number' and a positive unit, "
                f"got {self}; save the model again"
            )

    @classmethod
    def fit(
        cls, times: Times, owner: Int[np.ndarray, " row"], unit: float | str | None
    ) -> "Clock":
        """The clock of sorted times; its unit is `unit`, or without one the median spacing."""
        origin = int(times.ticks.min()) * times.tick if times.kind == "datetime" else 0
        if unit is not None:
            return cls(times.kind, origin, parse_step(unit, times.kind, "unit"))
        with np.errstate(over="ignore"):
            steps = np.diff(times.ticks)[np.diff(owner) == 0]
        steps = steps[(steps > 0) & np.isfinite(steps)]
        # Without any spacing, datetimes get a unit of a second, not of a nanosecond.
        default = float(_SECOND) if times.kind == "datetime" else 1.0
        length = float(np.median(steps)) * times.tick if steps.size else default
        return cls(times.kind, origin, length)

    def to_units(self, times: Times) -> Float[np.ndarray, " row"]:
        """Times in units from the origin."""
        if times.kind != self.kind:
            names = {"datetime": "datetimes", "number": "plain numbers"}
            raise InputError(
                f"times must be {names[self.kind]}, as in the data the model was fitted on, "
                f"got {names[times.kind]}; convert them, or fit the model again"
            )
        if self.kind == "number":
            with np.errstate(over="ignore"):  # `read` rejects infinite times
                return times.ticks.astype(np.float64) / self.unit
        whole, rest = divmod(self.origin, times.tick)
        # In ticks, not nanoseconds: floats are exact for centuries of microseconds.
        ticks = _subtract(times.ticks, whole) - rest / times.tick
        return ticks / (self.unit / times.tick)

    def to_durations(self, units: Float[np.ndarray, " _"]) -> np.ndarray:
        """Lengths of time as timedeltas (datetimes; NaT if infinite) or numbers (numbers)."""
        if self.kind == "number":
            return units * self.unit
        with np.errstate(invalid="ignore"):
            nanoseconds = np.where(np.abs(units * self.unit) < 2**63, units * self.unit, np.nan)
            whole = np.rint(np.nan_to_num(nanoseconds)).astype("timedelta64[ns]")
        whole[np.isnan(nanoseconds)] = np.timedelta64("NaT")
        return whole

    def parse_length(self, length: float | str, name: str) -> float:
        """Units in a length of time, given as a number of steps or, for datetimes, a duration.

        >>> hourly = Clock("datetime", 0, 3600e9)
        >>> hourly.parse_length("1d", "max_gap"), hourly.parse_length(6, "max_gap")
        (24.0, 6.0)
        """
        if isinstance(length, str) and not _PLAIN.fullmatch(length):
            if self.kind == "datetime":
                return parse_duration(length) * _SECOND / self.unit
            raise InputError(
                f"{name} must be a number of steps where times are plain numbers, "
                f"got {length!r}; write it without a unit"
            )
        steps = _positive(length)
        if math.isnan(steps):
            raise InputError(
                f"{name} must be a positive number of steps, or a duration such as '6h' where "
                f"times are datetimes, got {length!r}; leave it out for no limit"
            )
        return steps

    def format_duration(self, units: float) -> str:
        """A length of time as text that `every` accepts; "any" if infinite.

        >>> hourly = Clock("datetime", 0, 3600e9)
        >>> hourly.format_duration(0.25), hourly.format_duration(36.0)
        ('15min', '36h')
        >>> Clock("number", 0, 2.0).format_duration(1.0)
        '2'
        """
        if not math.isfinite(units):
            return "any"
        if not units:
            return "0"
        if self.kind == "number":
            return f"{units * self.unit:.6g}"
        return format_duration(round(units * self.unit))

    @property
    def day(self) -> float | None:
        """A day in units if times are datetimes and a day is longer than two units."""
        day = _DAY * _SECOND / self.unit
        return day if self.kind == "datetime" and day > 2 else None

    def periods(self) -> tuple[float, ...]:
        """Day, week and year in units, those longer than two units; none for plain numbers.

        >>> Clock("datetime", 0, 6 * 3600e9).periods()
        (4.0, 28.0, 1460.97)
        """
        lengths = (period * _SECOND / self.unit for period in _PERIODS)
        return tuple(length for length in lengths if length > 2 and self.kind == "datetime")


def _subtract(ticks: np.ndarray, origin: int) -> Float[np.ndarray, " row"]:
    # Differences of more than 292 years in nanoseconds exceed 64-bit integers, but not floats.
    low, high = (int(ticks.min()), int(ticks.max())) if ticks.size else (origin, origin)
    if max(abs(low - origin), abs(high - origin), abs(origin)) >= 2**63:
        return ticks.astype(np.float64) - float(origin)
    return (ticks - origin).astype(np.float64)
