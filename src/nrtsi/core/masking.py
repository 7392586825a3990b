"""`Masking`: draws which observed cells to hide, for training and for scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from nrtsi.config import EvaluationConfig, TrainConfig
from nrtsi.core.mask_patterns import GapTemplates, blocks, empirical, points
from nrtsi.core.ragged import count_in_groups, cumulative, place_in_group
from nrtsi.core.series import Flags, SeriesSet
from nrtsi.errors import InputError

__all__ = ["Mask", "Masking", "Kind", "blocks", "empirical", "points", "rows_fail_together"]

Kind = Literal["empirical", "points", "blocks"]  # a pattern of missing cells
Mask = Literal["auto", "empirical", "points", "blocks"]  # what a caller may request
MIN_MISSING = 0.02  # share of missing cells from which "auto" imitates the gaps of the data
RATES = TrainConfig().hidden  # default range of the share that points and blocks hide
PIECES = 16  # number of pieces into which scoring cuts a long series, about
MIN_PIECE_ROWS = 64  # rows of a piece, at least, so that the longest gaps fit
ROUNDS = 30  # copies of the gaps of the data that scoring overlays, at most


def rows_fail_together(series: SeriesSet) -> bool:
    """Whether rows are missing, and every row is either complete or missing in all channels."""
    return not series.observed.all() and not series.partly.any()


@dataclass(frozen=True)
class Masking:
    """The patterns in which the cells of a data set are hidden."""

    kinds: tuple[Kind, ...]
    weights: tuple[float, ...]  # probability of each kind
    whole_rows: bool  # hide all channels of a row together
    donors: SeriesSet  # the data whose gaps are imitated
    rates: tuple[float, float] = RATES  # range of the share that points and blocks hide
    scoring: bool = False  # hide the share `rates[0]`, and never a whole channel of a series
    day: float | None = None  # length of a day in units, to keep the time of day of gaps

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
        """Resolves `mask` for a data set.

        "auto" imitates the gaps of the data if at least 2 % of the cells are missing, otherwise it
        hides points and blocks. Training mixes points and blocks with imitated gaps, because the
        model may meet other gaps than those of the data; scoring does not.
        """
        if mask not in get_args(Mask):
            raise InputError(f"mask must be one of {', '.join(get_args(Mask))}, got {mask!r}")
        missing = float(np.mean(~series.observed)) if series.observed.size else 0.0
        if mask == "empirical" and missing == 0:
            raise InputError(
                "mask must be 'points' or 'blocks' for data with nothing missing, "
                "got 'empirical'; there is no gap to imitate"
            )
        weights: dict[Kind, float]
        if mask in ("points", "blocks"):
            weights = {"points": 1.0} if mask == "points" else {"blocks": 1.0}
        elif mask == "auto" and missing < MIN_MISSING:
            weights = {"points": 0.5, "blocks": 0.5}
        elif scoring:
            weights = {"empirical": 1.0}
        else:
            weights = {"empirical": 0.5, "points": 0.25, "blocks": 0.25}
        rates = (share, share) if scoring else rates
        return cls(
            tuple(weights), tuple(weights.values()), whole_rows, series, rates, scoring, day
        )

    def draw(self, series: SeriesSet, rng: np.random.Generator) -> Flags:
        """The cells to hide: observed ones, and never all of a series.

        Each series has its own kind and rate.
        """
        if self.scoring:
            return _keep_channels(self._draw_scored(series, rng), series, self.whole_rows)
        return _keep_a_row(self._draw_mixed(series, rng), series, rng)

    @cached_property
    def _gaps(self) -> GapTemplates:
        # Cached, because training draws many times.
        return GapTemplates.of(self.donors)

    def _draw_mixed(self, series: SeriesSet, rng: np.random.Generator) -> Flags:
        """Draws a kind and a rate for each series."""
        drawn = rng.choice(len(self.kinds), size=series.series, p=self.weights)
        rate = rng.uniform(*self.rates, size=series.series)
        # At least one cell of a short series is hidden.
        cells = count_in_groups(series.observed, series.start)
        rate = np.clip(rate, 1 / np.maximum(cells, 1), 1.0)
        hidden = np.zeros_like(series.observed)
        for index, kind in enumerate(self.kinds):
            picked = np.flatnonzero(drawn == index)
            part = series if picked.size == series.series else series.select(picked)
            hidden[drawn[series.owner] == index] = self._draw_kind(kind, part, rng, rate[picked])
        return hidden

    def _draw_kind(
        self,
        kind: Kind,
        series: SeriesSet,
        rng: np.random.Generator,
        rate: Float[np.ndarray, " series"],
    ) -> Flags:
        if kind == "points":
            return points(series, rng, rate=rate, whole_rows=self.whole_rows)
        if kind == "blocks":
            longest = max(2, int(series.length.max(initial=0)) // 2)
            return blocks(series, rng, rate=rate, length=(2, longest), whole_rows=self.whole_rows)
        return empirical(series, rng, self._gaps, self.day)

    def _draw_scored(self, series: SeriesSet, rng: np.random.Generator) -> Flags:
        """Hides about the share `rates[0]` of the cells.

        If the gaps of the data are many, they are imitated in some pieces of the series only; if
        they are few, several copies of them are overlaid.
        """
        pieces = _cut(series)
        goal = round(self.rates[0] * int(series.observed.sum()))
        # Gaps are imitated in whole series, because cutting would shorten them.
        masked = series if self.kinds == ("empirical",) else pieces
        hidden = np.zeros_like(series.observed)
        for _ in range(ROUNDS):
            more = self._draw_mixed(masked, rng) & ~hidden
            hidden |= _in_some_pieces(more, pieces, rng, goal - int(hidden.sum()))
            if hidden.sum() >= 0.8 * goal:
                break
        return hidden


def _in_some_pieces(
    hidden: Flags, pieces: SeriesSet, rng: np.random.Generator, cells: int
) -> Flags:
    """The hidden cells of random pieces, about `cells` at most."""
    if hidden.sum() <= cells:
        return hidden
    order = np.argsort(rng.permutation(pieces.series)[pieces.owner], kind="stable")
    count = hidden[order].sum(axis=1)
    taken = np.empty(pieces.rows, dtype=bool)
    taken[order] = np.cumsum(count) - count / 2 <= cells
    return hidden & taken[:, None]


def _cut(series: SeriesSet) -> SeriesSet:
    """The series in about `PIECES` pieces each; a short series has fewer."""
    size = np.maximum(-(-series.length // PIECES), MIN_PIECE_ROWS)
    count = -(-series.length // size)
    owner = np.repeat(np.arange(series.series), count)
    begin = series.start[owner] + place_in_group(count) * size[owner]
    return series.slices(begin, np.minimum(begin + size[owner], series.start[owner + 1]))


def _keep_a_row(hidden: Flags, series: SeriesSet, rng: np.random.Generator) -> Flags:
    """Keeps one random row of each series that would lose all its cells."""
    lost = count_in_groups(series.observed & ~hidden, series.start) == 0
    if lost.any():
        row = rng.permutation(np.flatnonzero(lost[series.owner] & series.has_data))
        kept = np.full(series.series, -1)
        kept[series.owner[row]] = row
        hidden[kept[kept >= 0]] = False
    return hidden


def _keep_channels(hidden: Flags, series: SeriesSet, whole_rows: bool) -> Flags:
    """Hides no cell of a channel that would lose all its cells in a series."""

    def count(cells: Flags) -> Int[np.ndarray, "series dim"]:
        return np.diff(cumulative(cells)[series.start], axis=0)

    lost = count(series.observed & ~hidden) == 0
    if whole_rows:
        lost &= count(series.observed) > 0
        lost = np.broadcast_to(lost.any(axis=1, keepdims=True), lost.shape)
    return hidden & ~lost[series.owner]
