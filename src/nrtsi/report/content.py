"""What a report says, as plain numbers and words; nothing of how it was found or is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, Self, TypeVar

import numpy as np
from jaxtyping import Float, UInt8

from nrtsi.errors import InputError

__all__ = [
    "MethodUse",
    "Coverage",
    "Gap",
    "RefusalCount",
    "Report",
    "ReportScore",
    "SeriesShown",
    "State",
    "Tally",
]


class State(IntEnum):
    """What is known of a cell."""

    OBSERVED = 0
    IMPUTED = 1
    REFUSED = 2
    """Missing, and left so on purpose."""
    MISSING = 3
    """Missing, and nothing was tried."""


@dataclass(frozen=True, eq=False)
class SeriesShown:
    """One series, drawn cell by cell.

    Raises:
        InputError: The arrays differ in shape, a state is none, or the times do not ascend.
    """

    id: str
    time: Float[np.ndarray, " row"]
    """Ascending; milliseconds since 1970 in UTC where the report's times are datetimes."""
    value: Float[np.ndarray, "row channel"]
    """NaN where it is still missing."""
    state: UInt8[np.ndarray, "row channel"]
    lower: Float[np.ndarray, "row channel"]
    """Of the interval; NaN where the cell was observed or has none."""
    upper: Float[np.ndarray, "row channel"]

    def __post_init__(self) -> None:
        shapes = {array.shape for array in (self.value, self.state, self.lower, self.upper)}
        rows = self.value.shape[0]
        if len(shapes) > 1 or self.value.ndim != 2 or self.time.shape != (rows,):
            raise InputError(
                f"series {self.id!r} must have value, state, lower and upper of one shape (row, "
                f"channel) and a time for each row, got {sorted(shapes)} and {self.time.shape}; "
                f"give every cell all four"
            )
        if not (np.isfinite(self.time).all() and (np.diff(self.time) >= 0).all()):
            raise InputError(
                f"series {self.id!r} must have finite times that ascend, got others; sort its rows"
            )
        if self.state.size and self.state.max() > max(State):
            raise InputError(
                f"series {self.id!r} must have states from 0 to {max(State):d}, "
                f"got {self.state.max()}; use State"
            )


@dataclass(frozen=True)
class Tally:
    """How many cells of a channel are in each state, over all series."""

    channel: str
    observed: int
    imputed: int
    refused: int
    missing: int

    @classmethod
    def of(cls, channel: str, states: Iterable[UInt8[np.ndarray, "..."]]) -> Self:
        """Counts the states of one channel, given series by series."""
        total = np.zeros(len(State), dtype=np.int64)
        for state in states:
            total += np.bincount(state.ravel(), minlength=len(State))
        return cls(channel, *map(int, total))

    @property
    def cells(self) -> int:
        """All of them."""
        return self.observed + self.gaps

    @property
    def gaps(self) -> int:
        """Cells that had no value to begin with."""
        return self.imputed + self.refused + self.missing


@dataclass(frozen=True, order=True)
class Gap:
    """A range of gap lengths, as numbers for an axis and as words for a reader."""

    start: float
    stop: float
    """Infinite where there is no end."""
    start_label: str
    stop_label: str

    def __str__(self) -> str:
        if not np.isfinite(self.stop):
            return f"over {self.start_label}"
        if self.start_label == self.stop_label:
            return self.start_label
        return f"{self.start_label} – {self.stop_label}"


@dataclass(frozen=True)
class ReportScore:
    """A method's error on hidden cells, in the units of the channel; NaN where it failed."""

    channel: str
    gap: Gap
    method: str
    n: int
    mse: float
    mae: float


@dataclass(frozen=True)
class MethodUse:
    """Which method filled the gaps of this length."""

    channel: str
    gap: Gap
    method: str
    cells: int = 1
    """How many it filled."""


@dataclass(frozen=True)
class Coverage:
    """How often the interval held the hidden value."""

    channel: str
    gap: Gap
    n: int
    """Hidden cells."""
    gaps: int
    """The gaps they were hidden in; cells of one gap are right or wrong together."""
    nominal: float
    """The share it promises, between 0 and 1."""
    covered: float
    """The share found."""

    @property
    def strikes(self) -> bool:
        """Whether the two differ by more than five points and more than chance would have it."""
        chance = 2 * (self.nominal * (1 - self.nominal) / max(self.gaps, 1)) ** 0.5
        return abs(self.covered - self.nominal) > max(0.05, chance)


@dataclass(frozen=True)
class RefusalCount:
    """Cells that were left missing on purpose."""

    channel: str
    count: int
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """All that the page says.

    Raises:
        InputError: Something names a channel that `channels` lacks, a series has another number
            of channels, or a tally is absent.
    """

    title: str
    source: str
    """What the data are called, such as the name of the file."""
    made_at: datetime
    version: str
    time_kind: Literal["datetime", "number"]
    channels: tuple[str, ...]
    series: tuple[SeriesShown, ...]
    """Those shown; see `most_missing`."""
    all_series: int
    """How many there are, shown or not."""
    tallies: tuple[Tally, ...]
    """One for each channel, in the order of `channels`, over all series."""
    level: float
    """Nominal share of values inside the intervals, between 0 and 1."""
    scores: tuple[ReportScore, ...] = ()
    choices: tuple[MethodUse, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    refusals: tuple[RefusalCount, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences about what was guessed or is odd in the data."""
    caveats: tuple[str, ...] = ()
    command: str = ""
    """The command line that makes the report again."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    zone: str = ""
    """What clock the times are shown in; nothing where nobody says."""

    def __post_init__(self) -> None:
        if tuple(tally.channel for tally in self.tallies) != self.channels:
            raise InputError(
                f"a report must have one tally for each channel {list(self.channels)}, got "
                f"{[tally.channel for tally in self.tallies]}; count every channel"
            )
        for one in self.series:
            if one.value.shape[1] != len(self.channels):
                raise InputError(
                    f"series {one.id!r} must have {len(self.channels)} channels, "
                    f"got {one.value.shape[1]}; give a column for each"
                )
        rows: list[ReportScore | MethodUse | Coverage | RefusalCount] = [
            *self.scores,
            *self.choices,
        ]
        rows += [*self.coverage, *self.refusals]
        unknown = sorted({row.channel for row in rows} - set(self.channels))
        if unknown:
            raise InputError(
                f"a report must speak of its channels {list(self.channels)}, got {unknown}; "
                f"leave those rows out"
            )

    def scores_of(self, channel: str) -> list[ReportScore]:
        """The scores of one channel."""
        return self._scores.get(channel, [])

    def choices_of(self, channel: str) -> list[MethodUse]:
        """What was used on one channel."""
        return self._choices.get(channel, [])

    def coverage_of(self, channel: str) -> list[Coverage]:
        """How well the intervals of one channel held."""
        return self._coverage.get(channel, [])

    # Grouped once: looking through all rows for each of many channels would be slow.
    @cached_property
    def _scores(self) -> dict[str, list[ReportScore]]:
        return _by_channel(self.scores)

    @cached_property
    def _choices(self) -> dict[str, list[MethodUse]]:
        return _by_channel(self.choices)

    @cached_property
    def _coverage(self) -> dict[str, list[Coverage]]:
        return _by_channel(self.coverage)


Row = TypeVar("Row", ReportScore, MethodUse, Coverage)


def _by_channel(rows: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.channel, []).append(row)
    return grouped
