"""The content of a report as numbers and text, independent of the page that shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import cached_property
from math import isfinite, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8


class CellState(IntEnum):
    """The source of a cell; the order is that of `nrtsi.imputer.result.SOURCES`."""

    OBSERVED = 0
    IMPUTED = 1
    REFUSED = 2  # a limit of the user was exceeded
    MISSING = 3  # nothing is observed in the series


@dataclass(frozen=True, eq=False)
class ReportSeries:
    """One series, shown cell by cell; NaN where a cell is still missing or has no interval."""

    id: str
    time: Float[np.ndarray, " row"]  # ascending; datetimes in milliseconds since 1970, UTC
    value: Float[np.ndarray, "row channel"]
    state: UInt8[np.ndarray, "row channel"]
    lower: Float[np.ndarray, "row channel"]  # end of the interval
    upper: Float[np.ndarray, "row channel"]


@dataclass(frozen=True, order=True)
class GapRange:
    """A range of gap lengths, as numbers for an axis and as text; the last one is infinite."""

    start: float
    stop: float
    start_label: str
    stop_label: str

    def __str__(self) -> str:
        if not isfinite(self.stop):
            return f"over {self.start_label}"
        return " – ".join(dict.fromkeys([self.start_label, self.stop_label]))


class ReportScore(NamedTuple):
    """Error of a method on held-out cells, in the units of the channel; NaN if it failed."""

    gap: GapRange
    method: str
    cells: int
    mse: float
    mae: float


class MethodUse(NamedTuple):
    """The method that imputed the gaps of one range of lengths, and the number of cells."""

    gap: GapRange
    method: str
    cells: int = 1


class Coverage(NamedTuple):
    """Share of held-out cells inside their interval."""

    gap: GapRange
    cells: int
    gaps: int  # number of gaps that contain the cells; errors within a gap are correlated
    nominal: float  # probability of the interval
    covered: float

    @property
    def is_off(self) -> bool:
        """True if the shares differ by more than five points and by more than chance explains."""
        chance = 2 * (self.nominal * (1 - self.nominal) / max(self.gaps, 1)) ** 0.5
        return abs(self.covered - self.nominal) > max(0.05, chance)


class MeanError(NamedTuple):
    """Error over several gap lengths."""

    mae: float = nan
    rmse: float = nan

    @classmethod
    def of(cls, scores: Sequence[ReportScore]) -> "MeanError":
        """The mean over cells; NaN without any."""
        weights = [score.cells for score in scores]
        if not any(weights):
            return cls()
        errors = [(score.mae, score.mse) for score in scores]
        mae, mse = np.average(errors, axis=0, weights=weights).tolist()
        return cls(mae, sqrt(mse))


@dataclass(frozen=True)
class ChannelReport:
    """Counts over all series, errors, methods, coverage and refusals of one channel."""

    name: str
    counts: tuple[int, ...]  # number of cells by `CellState`
    scores: tuple[ReportScore, ...] = ()
    methods: tuple[MethodUse, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    refusals: tuple[tuple[int, str], ...] = ()  # number of cells, reason

    @cached_property
    def errors(self) -> dict[str, MeanError]:
        """The error of each method; NaN for a method that was not scored at every gap length."""
        scores = [score for score in self.scores if score.cells > 0]
        lengths = {score.gap for score in scores}
        errors = {}
        for method in dict.fromkeys(score.method for score in scores):
            own = [score for score in scores if score.method == method and isfinite(score.mae)]
            complete = {score.gap for score in own} == lengths
            errors[method] = MeanError.of(own if complete else ())
        return errors

    @property
    def expected_error(self) -> MeanError:
        """The error over the imputed cells of the methods in use, else that of the best method."""
        used = {(use.gap, use.method): use.cells for use in self.methods}
        own = [
            score._replace(cells=used[score.gap, score.method])
            for score in self.scores
            if used.get((score.gap, score.method)) and isfinite(score.mae) and score.cells > 0
        ]
        known = [error for error in self.errors.values() if isfinite(error.mae)]
        return MeanError.of(own) if own else min(known, default=MeanError())


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """The content of the page."""

    source: str  # name of the data, such as a file name
    made_at: datetime
    version: str
    datetimes: bool  # False if times are numbers
    channels: tuple[ChannelReport, ...]
    series: tuple[ReportSeries, ...]  # those that are shown
    series_count: int  # number of series, shown or not
    level: float  # probability of the intervals
    remarks: tuple[str, ...] = ()  # sentences on the data and the methods
    command: str = ""  # makes the report again
    settings: Mapping[str, Any] = field(default_factory=dict)
    zone: str = ""  # time zone; empty if unknown
