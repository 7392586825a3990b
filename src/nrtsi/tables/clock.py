"""`Clock`: the caller's times as float units, and durations such as "1h30m"."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from nrtsi.errors import InputError
from nrtsi.tables.times import Times, spacings

__all__ = ["Clock", "duration", "format_duration"]

_SECOND = 1_000_000_000  # nanoseconds
_DAY = 86_400.0  # seconds
_PERIODS = (_DAY, 7 * _DAY, 365.2425 * _DAY)

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": _DAY,
    "w": 7 * _DAY,
}
_SPELT = {
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hr": "h",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*")
_PLAIN = re.compile(rf"\s*(?:{_NUMBER})\s*")


def duration(text: str | float) -> float:
    """Seconds in a duration; a plain number is seconds already, "m" and "min" are minutes.

    Units may be written in capitals, but not "M", which elsewhere stands for months.

    Raises:
        InputError: The text is no duration, or the duration is not positive.

    >>> duration("1h30m"), duration("15min"), duration("6 hours"), duration(90)
    (5400.0, 900.0, 21600.0, 90.0)
    """
    seconds = _seconds(text) if isinstance(text, str) else _plain(text)
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(
            f"a duration must be a positive number of seconds or a text such as '90s', '15min', "
            f"'1h', '2d' or '1h30m', got {text!r}; write it in one of these ways"
            f"{_month_hint(text)}"
        )
    return seconds


def _month_hint(text: Any) -> str:
    months = isinstance(text, str) and any(unit == "M" for _, unit in _PART.findall(text))
    return " ('M' could be months: write minutes as '1min', a month as '30d')" if months else ""


def _plain(number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float | np.number):
        return math.nan
    return float(number)


def _seconds(text: str) -> float:
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text):
        return math.nan
    return math.fsum(float(number) * _length(unit) for number, unit in parts)


def _length(unit: str) -> float:
    name = unit.lower()
    if name not in _SECONDS:
        name = _SPELT.get(name.removesuffix("s"), name)
    return math.nan if unit == "M" else _SECONDS.get(name, math.nan)


@dataclass(frozen=True)
class Clock:
    """Turns the caller's times into float units; stored in the model file."""

    kind: Literal["datetime", "number"]
    """Whether the caller's times are points in time, or plain numbers (row numbers are)."""

    origin: int
    """Time 0: nanoseconds since 1970 (UTC) for datetimes, always 0 for numbers."""

    unit: float
    """Length of a unit: nanoseconds for datetimes, the caller's own measure for numbers."""

    def to_json(self) -> dict[str, Any]:
        """The clock as a dictionary of plain values."""
        return {"kind": self.kind, "origin": self.origin, "unit": self.unit}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Clock":
        """The clock that `to_json` described.

        >>> clock = Clock("datetime", 0, 3.6e12)
        >>> Clock.from_json(clock.to_json()) == clock
        True
        """
        kind, unit = record["kind"], float(record["unit"])
        if kind not in ("datetime", "number") or not (math.isfinite(unit) and unit > 0):
            raise InputError(
                f"a clock must be of kind 'datetime' or 'number' and have a positive unit, "
                f"got {dict(record)!r}; save the model again"
            )
        return cls(kind, int(record["origin"]), unit)

    @classmethod
    def fit(cls, times: Times, owner: np.ndarray, unit: float | str | None) -> "Clock":
        """The clock of sorted times; its unit is the named one, or the median spacing."""
        length = _named_unit(unit, times.kind) if unit is not None else _median(times, owner)
        origin = int(times.ticks.min()) * times.tick if times.kind == "datetime" else 0
        return cls(times.kind, origin, length)

    def units(self, times: Times) -> Float[np.ndarray, " row"]:
        """Times in units from the origin.

        Raises:
            InputError: The times are of the other kind.
        """
        if times.kind != self.kind:
            raise InputError(
                f"times must be {_KIND[self.kind]}, as in the data the model was fitted on, "
                f"got {_KIND[times.kind]}; convert them, or fit again"
            )
        if self.kind == "number":
            with np.errstate(over="ignore"):  # the caller refuses what is not finite
                return times.ticks.astype(np.float64) / self.unit
        whole, rest = divmod(self.origin, times.tick)
        # In ticks, not nanoseconds: seconds and microseconds of centuries are exact floats.
        ticks = _less(times.ticks, whole) - rest / times.tick
        return ticks / (self.unit / times.tick)

    def lengths(self, units: Float[np.ndarray, " _"]) -> np.ndarray:
        """Lengths of time as the caller has them: durations, or numbers of the caller's measure.

        What is infinite becomes no duration at all.
        """
        if self.kind == "number":
            return units * self.unit
        with np.errstate(invalid="ignore"):
            nanoseconds = np.where(np.abs(units * self.unit) < 2**63, units * self.unit, np.nan)
            whole = np.rint(np.nan_to_num(nanoseconds)).astype("timedelta64[ns]")
        whole[np.isnan(nanoseconds)] = np.timedelta64("NaT")
        return whole

    def length_of(self, length: float | str, what: str) -> float:
        """Units in a length: a number of steps, which are units, or a duration.

        Raises:
            InputError: It is neither, or a duration where times are plain numbers.

        >>> hourly = Clock("datetime", 0, 3600e9)
        >>> hourly.length_of("1d", "max_gap"), hourly.length_of(6, "max_gap")
        (24.0, 6.0)
        """
        if not isinstance(length, str) or _PLAIN.fullmatch(length):
            return _steps(length, what)
        if self.kind == "datetime":
            return duration(length) * _SECOND / self.unit
        raise InputError(
            f"{what} must be a number of steps where times are plain numbers, got {length!r}; "
            f"write it without a unit"
        )

    def words(self, units: float) -> str:
        """A length of time as a reader would write it, and as `every` takes it.

        >>> hourly = Clock("datetime", 0, 3600e9)
        >>> hourly.words(0.25), hourly.words(6.0), hourly.words(36.0), hourly.words(48.0)
        ('15min', '6h', '36h', '2d')
        >>> Clock("number", 0, 2.0).words(1.0)
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
        """A day in units, where there is one and it is longer than two units."""
        return next((period for period in self.periods() if self._is_day(period)), None)

    def _is_day(self, period: float) -> bool:
        return math.isclose(period * self.unit, _DAY * _SECOND)

    def periods(self) -> tuple[float, ...]:
        """Day, week and year in units, those longer than two units; none for plain numbers.

        >>> Clock("datetime", 0, 6 * 3600e9).periods()
        (4.0, 28.0, 1460.97)
        """
        if self.kind == "number":
            return ()
        lengths = (period * _SECOND / self.unit for period in _PERIODS)
        return tuple(length for length in lengths if length > 2)


def format_duration(nanoseconds: int) -> str:
    """A duration in its largest unit that leaves no fraction.

    >>> format_duration(5_400_000_000_000), format_duration(0)
    ('90min', '0d')
    """
    name = next(name for name, size in _NAMES.items() if nanoseconds % size == 0)
    return f"{nanoseconds // _NAMES[name]}{name}"


_NAMES = {
    "d": 86_400 * _SECOND,
    "h": 3_600 * _SECOND,
    "min": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}


_KIND = {"datetime": "datetimes", "number": "plain numbers"}


def _less(ticks: np.ndarray, origin: int) -> Float[np.ndarray, " row"]:
    # Nanoseconds over more than 292 years apart do not fit in 64 bits; floats do.
    reach = (
        max(abs(int(ticks.min()) - origin), abs(int(ticks.max()) - origin)) if ticks.size else 0
    )
    if reach >= 2**63 or abs(origin) >= 2**63:
        return ticks.astype(np.float64) - float(origin)
    return (ticks - origin).astype(np.float64)


def _median(times: Times, owner: np.ndarray) -> float:
    steps = spacings(times, owner)
    if steps.size:
        return float(np.median(steps)) * times.tick
    # Nothing to measure: a second is a sane scale for points in time, a nanosecond is not.
    return float(_SECOND) if times.kind == "datetime" else 1.0


def _named_unit(unit: float | str, kind: str) -> float:
    if kind == "datetime":
        return datetime_step(unit, "unit") * _SECOND
    return number_step(unit, "unit")


def datetime_step(step: float | str, what: str) -> float:
    """Seconds of a length on a clock of datetimes; a number without a unit is refused."""
    seconds = duration(step) if isinstance(step, str) else math.nan
    if not isinstance(step, str) or _PLAIN.fullmatch(step):
        raise InputError(
            f"{what} must be a duration such as '15min' for datetimes, got {step}; "
            f"say what the number measures, e.g. '{step}min'"
        )
    return seconds


def number_step(step: float | str, what: str) -> float:
    """A positive length on a clock of plain numbers; text is read as a number."""
    length = _number(step)
    if math.isnan(length):
        raise InputError(
            f"{what} must be a positive number where times are plain numbers, got {step!r}; "
            f"give it in the measure of the time column"
        )
    return length


def _steps(length: float | str, what: str) -> float:
    """A positive number of units."""
    steps = _number(length)
    if math.isnan(steps):
        raise InputError(
            f"{what} must be a positive number of steps, or a duration such as '6h' where times "
            f"are datetimes, got {length!r}; leave it out for no limit"
        )
    return steps


def _number(text: float | str) -> float:
    """A positive, finite number; NaN where it is none."""
    try:
        number = math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) and number > 0 else math.nan
