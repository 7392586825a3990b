"""`Masking`: which of the ways to hide cells suits a data set, for training and for scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.config import EvaluationConfig
from nrtsi.core.masking.patterns import (
    GapTemplates,
    blocks,
    count_cells,
    empirical,
    points,
    running,
)
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = ["Mask", "Masking", "Kind", "rows_fail_together"]

Kind = Literal["empirical", "points", "blocks"]
"""One way of hiding cells."""

Mask = Literal["auto", "empirical", "points", "blocks"]
"""What a caller may ask for; "auto" decides by how much of the data is missing."""

FEW = 0.02
"""Share of missing cells below which the data's own gaps say too little to be imitated."""

RATES = (0.05, 0.95)
"""Range of the share of cells that points and blocks hide, unless it is said otherwise."""

PIECES = 16
"""Scoring hides cells in pieces of a series: a long series is cut into about this many."""

SHORTEST_PIECE = 64
"""Rows below which a series is not cut: the longest gaps would no longer fit."""

ROUNDS = 30
"""Clones of the data's own gaps laid over each other, at most, to hide enough for a score."""


def rows_fail_together(series: SeriesSet) -> bool:
    """Whether rows are missing, and every row is either complete or missing in all channels."""
    return not series.observed.all() and not series.partly.any()


@dataclass(frozen=True)
class Masking:
    """How cells are hidden, decided once for a data set; `draw` then hides some."""

    kinds: tuple[Kind, ...]
    """The ways in use."""

    weights: tuple[float, ...]
    """How often each way is used; they sum to 1."""

    whole_rows: bool
    """All channels of a row are hidden together."""

    donors: SeriesSet
    """The data whose gaps are imitated."""

    rates: tuple[float, float] = RATES
    """Range of the share of cells that points and blocks hide; each series has its own."""

    scoring: bool = False
    """Hides about 15 % of the cells, and never all of a channel of a series."""

    day: float | None = None
    """A day in units, where what fails at a time of day is to be hidden at that time of day."""

    @classmethod
    def choose(
        cls,
        mask: str,
        series: SeriesSet,
        *,
        whole_rows: bool,
        scoring: bool = False,
        share: float = EvaluationConfig().held_out,
        rates: tuple[float, float] = RATES,
        day: float | None = None,
    ) -> "Masking":
        """What `mask` means for these data.

        "auto" imitates the data's own gaps where at least 2 % of the cells are missing, and else
        hides points and blocks. Training mixes points and blocks into the own gaps, since those
        alone would teach nothing about gaps the data happen not to have; a score does not.

        Raises:
            InputError: `mask` is unknown, or is "empirical" and nothing is missing.
        """
        if mask not in get_args(Mask):
            raise InputError(f"mask must be one of {', '.join(get_args(Mask))}, got {mask!r}")
        missing = float(np.mean(~series.observed)) if series.observed.size else 0.0
        if mask == "empirical" and missing == 0:
            raise InputError(
                "mask must be 'points' or 'blocks' for data with nothing missing, "
                "got 'empirical'; there is no gap to imitate"
            )
        shares = _shares(mask, missing >= FEW, scoring)
        if scoring:
            rates = (share, share)
        weights = tuple(shares.values())
        return cls(tuple(shares), weights, whole_rows, series, rates, scoring, day)

    def draw(self, series: SeriesSet, rng: np.random.Generator) -> Bool[np.ndarray, "row dim"]:
        """The cells to hide: observed ones, and never all of a series.

        Each series is hidden in a way and at a rate of its own.
        """
        if self.scoring:
            return _spare_channels(self._draw_scored(series, rng), series, self.whole_rows)
        return _spare_a_row(self._draw_mixed(series, rng), series, rng)

    @cached_property
    def _gaps(self) -> GapTemplates:
        # Training draws again and again; looking for the gaps each time would cost more than that.
        return GapTemplates.of(self.donors)

    def _draw_mixed(
        self, series: SeriesSet, rng: np.random.Generator
    ) -> Bool[np.ndarray, "row dim"]:
        """One way and one rate for each series."""
        way = rng.choice(len(self.kinds), size=series.series, p=self.weights)
        rate = rng.uniform(*self.rates, size=series.series)
        # A short series would round to nothing hidden, and teach nothing.
        rate = np.clip(rate, 1 / np.maximum(count_cells(series.observed, series), 1), 1.0)
        hidden = np.zeros_like(series.observed)
        for index, kind in enumerate(self.kinds):
            picked = np.flatnonzero(way == index)
            part = series if picked.size == series.series else series.select(picked)
            hidden[way[series.owner] == index] = self._draw_kind(kind, part, rng, rate[picked])
        return hidden

    def _draw_kind(
        self,
        kind: Kind,
        series: SeriesSet,
        rng: np.random.Generator,
        rate: Float[np.ndarray, " series"],
    ) -> Bool[np.ndarray, "row dim"]:
        if kind == "points":
            return points(series, rng, rate=rate, whole_rows=self.whole_rows)
        if kind == "blocks":
            longest = max(2, int(series.length.max(initial=0)) // 2)
            return blocks(series, rng, rate=rate, length=(2, longest), whole_rows=self.whole_rows)
        return empirical(series, rng, self._gaps, self.day)

    def _draw_scored(
        self, series: SeriesSet, rng: np.random.Generator
    ) -> Bool[np.ndarray, "row dim"]:
        """About the share `rates[0]` of the cells.

        Where the gaps are many, they are hidden in some pieces of the series only; where they are
        few, several clones of them are laid over each other.
        """
        pieces = _cut(series)
        goal = round(self.rates[0] * int(series.observed.sum()))
        hidden = np.zeros_like(series.observed)
        for _ in range(ROUNDS):
            # Own gaps are cloned from whole series, so that cutting shortens no gap.
            whole = series if self.kinds == ("empirical",) else pieces
            more = self._draw_mixed(whole, rng) & ~hidden
            hidden |= _some_pieces(more, pieces, rng, goal - int(hidden.sum()))
            if hidden.sum() >= 0.8 * goal:
                break
        return hidden


def _shares(mask: str, enough_gaps: bool, scoring: bool) -> dict[Kind, float]:
    """The ways of hiding that `mask` stands for, and how often each is used."""
    if mask == "points":
        return {"points": 1.0}
    if mask == "blocks":
        return {"blocks": 1.0}
    if mask == "auto" and not enough_gaps:
        return {"points": 0.5, "blocks": 0.5}
    return {"empirical": 1.0} if scoring else {"empirical": 0.5, "points": 0.25, "blocks": 0.25}


def _some_pieces(
    hidden: Bool[np.ndarray, "row dim"], pieces: SeriesSet, rng: np.random.Generator, cells: int
) -> Bool[np.ndarray, "row dim"]:
    """At most about `cells` of the hidden cells: those of pieces taken at random."""
    if hidden.sum() <= cells:
        return hidden
    place = rng.permutation(pieces.series)
    order = np.argsort(place[pieces.owner], kind="stable")
    count = hidden[order].sum(axis=1)
    taken = np.empty(pieces.rows, dtype=bool)
    taken[order] = np.cumsum(count) - count / 2 <= cells
    return hidden & taken[:, None]


def _cut(series: SeriesSet) -> SeriesSet:
    """The series in about `PIECES` pieces each, short ones in one."""
    size = np.maximum(-(-series.length // PIECES), SHORTEST_PIECE)
    count = -(-series.length // size)
    owner = np.repeat(np.arange(series.series), count)
    nth = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    begin = series.start[owner] + nth * size[owner]
    return series.slices(begin, np.minimum(begin + size[owner], series.start[owner + 1]))


def _spare_a_row(
    hidden: Bool[np.ndarray, "row dim"], series: SeriesSet, rng: np.random.Generator
) -> Bool[np.ndarray, "row dim"]:
    """Leaves one random row of each series that would lose everything."""
    lost = count_cells(series.observed & ~hidden, series) == 0
    if not lost.any():
        return hidden
    owner = series.owner
    row = rng.permutation(
        np.flatnonzero(lost[owner] & np.logical_or.reduce(series.observed, axis=1))
    )
    spared = np.full(series.series, -1)
    spared[owner[row]] = row
    hidden[spared[spared >= 0]] = False
    return hidden


def _spare_channels(
    hidden: Bool[np.ndarray, "row dim"], series: SeriesSet, whole_rows: bool
) -> Bool[np.ndarray, "row dim"]:
    """Hides nothing where a channel of a series would lose everything.

    What a series has never seen of a channel says little about an imputation of gaps.
    """
    left = running(series.observed & ~hidden)
    lost = left[series.start[1:]] == left[series.start[:-1]]
    if whole_rows:
        seen = running(series.observed)
        lost &= seen[series.start[1:]] > seen[series.start[:-1]]
        lost = np.broadcast_to(lost.any(axis=1, keepdims=True), lost.shape)
    return hidden & ~lost[series.owner]
