"""The predictive distribution of every cell, and the result that is written for the caller."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int

from nrtsi.core.bounds import Bounds
from nrtsi.core.gaps import Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet, Values
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.options import ImputeTask, RefusedCells
from nrtsi.inference import noise

__all__ = ["SOURCES", "ImputationResult", "PredictiveDistribution"]

CellNumbers: TypeAlias = Int[np.ndarray, "row dim"]

CELLS_AT_ONCE = 2**22
"""Cells of the draws that are made together; bounds their memory."""

SOURCES = ("observed", "imputed", "refused", "missing")
"""A cell is missing if nothing is observed in its series."""


@dataclass(frozen=True)
class PredictiveDistribution:
    """A prediction with calibrated errors, within the bounds of each channel."""

    series: SeriesSet
    prediction: Prediction
    """Before bounds are applied."""
    calibration: Calibration
    bounds: Bounds | None
    gaps: Gaps
    """Gaps of `series`."""

    @property
    def value(self) -> Values:
        """The best prediction of every missing cell; observed cells keep their value."""
        return self._bounded(self.prediction.mean)

    def quantile(self, level: float) -> Values:
        """Returns the value that a missing cell stays below with probability `level`."""
        return self._at(np.full(self.series.value.shape, NormalDist().inv_cdf(level)))

    def interval(self, level: float) -> tuple[Values, Values]:
        """Returns the ends that contain a missing cell with probability `level`."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        ends = self.calibration.interval(level, channel, self.gaps.gap_bin[row, channel])
        value, (lower, upper) = self.value, (self._shifted(row, channel, end) for end in ends)
        return np.minimum(lower, value), np.maximum(upper, value)

    def draws(self, count: int, seed: int) -> Iterator[Values]:
        """Yields coherent paths: errors are correlated over time and between channels."""
        size = int(np.clip(CELLS_AT_ONCE // max(self.series.value.size, 1), 1, count))
        for first in range(0, count, size):
            some = range(first, min(first + size, count))
            independent = np.stack(
                [[noise(self.series, seed, 2 * draw + each) for each in (0, 1)] for draw in some]
            )
            correlation = self.calibration.error_correlation
            yield from map(self._at, correlation.correlate(self.series, self.gaps, independent))

    def _at(self, normal: Values) -> Values:
        """Returns values whose errors correspond to these standard normal numbers."""
        row, channel = np.nonzero(self.gaps.number >= 0)
        gap_bin = self.gaps.gap_bin[row, channel]
        score = self.calibration.from_normal(normal[row, channel], channel, gap_bin)
        return self._shifted(row, channel, score)

    def _shifted(self, row: np.ndarray, channel: np.ndarray, score: np.ndarray) -> Values:
        """Returns values with errors of `score` standard deviations at these cells."""
        value = self.prediction.mean.copy()
        value[row, channel] += self.prediction.std[row, channel] * score
        return self._bounded(value)

    def _bounded(self, value: Values) -> Values:
        """Returns values within the bounds; observed cells keep theirs."""
        inside = value if self.bounds is None else self.bounds.clip(value)
        return np.where(self.series.observed, self.series.value, inside)


@dataclass(frozen=True)
class ImputationResult:
    """The imputed data of a task."""

    task: ImputeTask
    value: Values
    interval: tuple[Values, Values] | None
    """The lower and the upper end; None if the task needs no intervals."""
    gaps: Gaps
    refused: RefusedCells
    selection: MethodSelection
    """Which method imputes which cells."""

    @property
    def names(self) -> tuple[str, ...]:
        """The channels."""
        return tuple(str(name) for name in self.task.panel.columns.values or ())

    @property
    def kept(self) -> Values:
        """The values, with NaN for refused cells."""
        return np.where(self.refused.cells, np.nan, self.value)

    @property
    def source(self) -> CellNumbers:
        """The index in `SOURCES` of each cell."""
        imputed = np.where(np.isnan(self.value), 3, 1)
        source = np.where(self.gaps.number >= 0, imputed, 0)
        return np.where(self.refused.cells, 2, source)

    @property
    def method(self) -> CellNumbers:
        """The index in `selection.methods` of each missing cell; -1 for observed cells."""
        return self.selection.index(self.gaps)

    def frame(self) -> Any:
        """Returns the caller's data, imputed, with the requested columns."""
        query = self.task.query
        return query.write(self.kept, self.columns() if self.task.options.adds_columns else {})

    def columns(self) -> dict[str, np.ndarray]:
        """Returns further columns: intervals, and the provenance if requested."""
        assert self.interval is not None
        columns: dict[str, np.ndarray] = {}
        missing = self.gaps.number >= 0
        source = np.array(SOURCES, dtype=object)[self.source]
        method = np.array([*self.selection.methods, None], dtype=object)[self.method]
        length = np.where(missing, self.gaps.length, np.nan)
        for dim, name in enumerate(self.names):
            if self.task.options.provenance:
                columns[f"{name}_source"] = source[:, dim]
                columns[f"{name}_method"] = method[:, dim]
                columns[f"{name}_gap"] = self.task.panel.clock.to_durations(length[:, dim])
            for end, each in zip(("lower", "upper"), self.interval, strict=True):
                columns[f"{name}_{end}"] = np.where(missing[:, dim], each[:, dim], np.nan)
        return columns
