"""`HoldOut`: known cells that are set aside, so that a model can be tried on what it never saw."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.core.masking import Masking
from nrtsi.core.series import SeriesSet

__all__ = ["HoldOut"]

# Cells of the stretches in which some are set aside: what bounds the time it takes to fill them.
MOST_CELLS = 2**17

# Rows of such a stretch where the data are longer: many gaps long, so that its ends hardly count.
STRETCH = 2**12

# Cells set aside below which nothing would be learnt from them that is worth their loss.
FEWEST = 5

# Share of the cells to set aside, at least, if a time of day can be kept to.
LEAST = 0.07

# Cells from which the lengths of their gaps are worth being compared with those of the data.
MANY = 200


@dataclass(frozen=True)
class HoldOut:
    """Stretches of some data, and the cells of them that are set aside."""

    truth: SeriesSet
    """The stretches, with nothing set aside."""

    hidden: Bool[np.ndarray, "row dim"]
    """The cells that are."""

    rows: Int[np.ndarray, " row"]
    """The row of the whole data that each row of `truth` is."""

    kinds: tuple[str, ...]
    """How the cells were chosen."""

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
    ) -> "HoldOut | None":
        """Sets cells of `series` aside, in gaps like its own; None where there are too few.

        Or in gaps like those of other data, `like`. With the length of a `day`, gaps keep their
        time of day.
        Some 15 % of the cells of stretches that are taken at random where there is much data, and
        that are all of it where there is little.
        """
        rng = np.random.default_rng([seed, 6])
        begin, end = _stretches(series, rng)
        truth = series.slices(begin, end)
        rows = np.concatenate([np.arange(b, e) for b, e in zip(begin, end, strict=True)])
        donors = series if like is None else like
        hiding = Masking.choose(mask, donors, whole_rows=whole_rows, scoring=True, day=day)
        hidden = hiding.draw(truth, rng)
        if day is not None and hidden.sum() < LEAST * truth.observed.sum():
            # What fails every day at the same time leaves nothing to hide at that time.
            hidden = replace(hiding, day=None).draw(truth, rng)
        if hiding.kinds == ("empirical",) and hidden.sum() > MANY:
            some = donors.slices(*_stretches(donors, rng))
            fewer = hidden & ~_too_common(some, truth, hidden, rng, whole_rows=whole_rows)
            # Gaps in a strict rhythm may have no other place than beside each other.
            hidden = fewer if 2 * fewer.sum() >= hidden.sum() else hidden
        if hidden.sum() < FEWEST:
            return None
        return cls(truth, hidden, rows, hiding.kinds)

    @property
    def known(self) -> SeriesSet:
        """What is left of the stretches."""
        return self.truth.hide(self.hidden)

    def leave(self, series: SeriesSet) -> SeriesSet:
        """The whole data without what is set aside."""
        cells = np.zeros_like(series.observed)
        cells[self.rows] = self.hidden
        return series.hide(cells)


def _too_common(
    donors: SeriesSet,
    truth: SeriesSet,
    hidden: Bool[np.ndarray, "row dim"],
    rng: np.random.Generator,
    *,
    whole_rows: bool,
) -> Bool[np.ndarray, "row dim"]:
    """Cells not to hide after all, so that gaps are not longer than those of the data.

    Gaps that are laid over others grow together with them. Of the gaps whose length is commoner
    than in the data as many are left out as are too many.
    """
    own, made = Gaps.of(donors), Gaps.of(truth.hide(hidden))
    wanted = np.bincount(own.bucket[own.number >= 0], minlength=GAP_BINS)
    there = np.bincount(made.bucket[hidden], minlength=GAP_BINS)
    fair = wanted * (hidden.sum() / max(wanted.sum(), 1)) / np.maximum(there, 1)
    number, place = np.unique(np.where(hidden, made.number, -1), return_inverse=True)
    lucky = rng.random(number.size)[place.reshape(hidden.shape)]
    left_out = hidden & (lucky >= fair[made.bucket])
    return left_out.any(axis=1, keepdims=True) & hidden if whole_rows else left_out


def _stretches(
    series: SeriesSet, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " piece"], Int[np.ndarray, " piece"]]:
    """All series; or pieces of them taken at random, in order, where there is much data."""
    most = max(1, MOST_CELLS // series.dims)
    if series.rows <= most:
        full = series.length > 0
        return series.start[:-1][full], series.start[1:][full]
    count = -(-series.length // min(STRETCH, most))
    owner = np.repeat(np.arange(series.series), count)
    nth = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    # Pieces of a series are of equal length, give or take a row.
    begin = series.start[owner] + nth * series.length[owner] // count[owner]
    end = series.start[owner] + (nth + 1) * series.length[owner] // count[owner]
    order = rng.permutation(owner.size)
    taken = np.sort(order[np.cumsum((end - begin)[order]) <= most])
    return begin[taken], end[taken]
