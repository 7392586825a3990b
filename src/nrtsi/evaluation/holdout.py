"""Holds out observed cells, so that methods can be evaluated on cells they never saw."""

from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.config import EvaluationConfig
from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.core.masking import Masking
from nrtsi.core.ragged import concat_ranges, split_equally
from nrtsi.core.series import Flags, SeriesSet

__all__ = ["CalibrationScores", "CellIndex", "CellMask", "CellValues", "HoldOut"]

CellValues: TypeAlias = Float[np.ndarray, " cell"]
CellIndex: TypeAlias = Int[np.ndarray, " cell"]
CellMask: TypeAlias = Bool[np.ndarray, " cell"]

DEFAULT = EvaluationConfig()


@dataclass(frozen=True)
class HoldOut:
    """Segments of a data set, and the cells of them that are held out."""

    truth: SeriesSet  # the segments, held-out cells included
    hidden: Flags  # True in the held-out cells
    rows: Int[np.ndarray, " row"]  # for each row of `truth`, its row in the data set
    kinds: tuple[str, ...]  # the masks in use, such as `("empirical",)`

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        mask: str,
        *,
        whole_rows: bool,
        seed: int,
        day: float | None = None,
        like: SeriesSet | None = None,
        config: EvaluationConfig = DEFAULT,
    ) -> "HoldOut | None":
        """Holds out about 15 % of the observed cells; None if that would be too few cells.

        The cells form gaps like those of the data. A large data set is sampled first: cells are
        held out from random segments of it.

        Args:
            series: The data set.
            mask: "empirical", "points", "blocks" or "auto"; see `Masking`.
            whole_rows: Hold out all channels of a row together.
            seed: Seed of the random cells.
            day: Length of a day in units of time; gaps then keep their time of day.
            like: Data whose gaps are imitated instead of those of `series`.
            config: Sizes and thresholds.
        """
        rng = np.random.default_rng([seed, 6])
        begin, end = _segments(series, rng, config)
        truth = series.slices(begin, end)
        donors = series if like is None else like
        masking = Masking.choose(
            mask, donors, whole_rows=whole_rows, scoring=True, share=config.held_out, day=day
        )
        hidden = masking.draw(truth, rng)
        if day is not None and hidden.sum() < config.min_held_out * truth.observed.sum():
            # If data are missing at the same time every day, no cell at that time can be hidden.
            hidden = replace(masking, day=None).draw(truth, rng)
        if masking.kinds == ("empirical",) and hidden.sum() > config.match_gaps_above:
            sample = donors.slices(*_segments(donors, rng, config))
            fewer = hidden & ~_excess(sample, truth, hidden, rng, whole_rows=whole_rows)
            # Strictly periodic gaps may have no place except next to each other.
            hidden = fewer if 2 * fewer.sum() >= hidden.sum() else hidden
        if hidden.sum() < config.min_cells:
            return None
        return cls(truth, hidden, concat_ranges(begin, end), masking.kinds)

    @property
    def known(self) -> SeriesSet:
        """The segments without the held-out cells."""
        return self.truth.hide(self.hidden)

    def remove_from(self, series: SeriesSet) -> SeriesSet:
        """The whole data set without the held-out cells."""
        cells = np.zeros_like(series.observed)
        cells[self.rows] = self.hidden
        return series.hide(cells)


@dataclass(frozen=True)
class CalibrationScores:
    """Errors of a method at held-out cells, in units of its predicted standard deviation."""

    channel: CellIndex
    gap_bin: CellIndex  # bin of the length of the gap that contains the cell
    gap: CellIndex  # number of that gap
    row: CellIndex
    position: CellValues  # time in units of the gap's length
    score: CellValues  # (truth − predicted mean) / predicted standard deviation

    @classmethod
    def of(cls, known: SeriesSet, hidden: Flags, score: CellValues) -> "CalibrationScores":
        """Scores of the hidden cells, in row-major order; the methods saw `known` only."""
        gaps = Gaps.of(known)
        row, channel = np.nonzero(hidden)
        length = gaps.length[row, channel]
        time = known.time[row] - known.time[known.start[known.owner[row]]]
        return cls(
            channel=channel,
            gap_bin=gaps.gap_bin[row, channel],
            gap=gaps.number[row, channel],
            row=row,
            position=time / np.where(np.isfinite(length) & (length > 0), length, 1.0),
            score=score,
        )

    def select(self, cells: CellMask) -> "CalibrationScores":
        """The scores of some cells."""
        return CalibrationScores(*(getattr(self, field.name)[cells] for field in fields(self)))


def _excess(
    donors: SeriesSet,
    truth: SeriesSet,
    hidden: Flags,
    rng: np.random.Generator,
    *,
    whole_rows: bool,
) -> Flags:
    """Random hidden cells of gap lengths that are more frequent than in the data.

    Gaps that are placed over existing gaps merge with them and grow longer.
    """
    own, masked = Gaps.of(donors), Gaps.of(truth.hide(hidden))
    expected = np.bincount(own.gap_bin[own.number >= 0], minlength=GAP_BINS)
    actual = np.bincount(masked.gap_bin[hidden], minlength=GAP_BINS)
    keep = expected * (hidden.sum() / max(expected.sum(), 1)) / np.maximum(actual, 1)
    number, index = np.unique(np.where(hidden, masked.number, -1), return_inverse=True)
    uniform = rng.random(number.size)[index.reshape(hidden.shape)]
    excess = hidden & (uniform >= keep[masked.gap_bin])
    return excess.any(axis=1, keepdims=True) & hidden if whole_rows else excess


def _segments(
    series: SeriesSet, rng: np.random.Generator, config: EvaluationConfig
) -> tuple[Int[np.ndarray, " segment"], Int[np.ndarray, " segment"]]:
    """First rows and end rows of all series, or of random segments of a large data set."""
    max_rows = max(1, config.max_cells // series.dims)
    if series.rows <= max_rows:
        full = series.length > 0
        return series.start[:-1][full], series.start[1:][full]
    count = -(-series.length // min(config.segment_rows, max_rows))
    begin, end = split_equally(series.start, count)
    order = rng.permutation(begin.size)
    taken = np.sort(order[np.cumsum((end - begin)[order]) <= max_rows])
    return begin[taken], end[taken]
