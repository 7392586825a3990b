"""Three patterns of missing cells: points, blocks, and the gaps of other data.

Each function returns the cells to hide, all of them observed ones.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.ragged import concat_ranges, count_in_groups, place_in_group
from nrtsi.core.series import Flags, SeriesSet
from nrtsi.errors import InputError

__all__ = ["GapTemplates", "Rate", "blocks", "empirical", "points"]

Rate = float | Float[np.ndarray, " series"]  # share to hide, common or by series


def points(series: SeriesSet, rng: np.random.Generator, *, rate: Rate, whole_rows: bool) -> Flags:
    """Hides cells independently of each other, or whole rows.

    A cell is hidden with probability `rate`. Of `n` rows with data, `round(rate * n)` are hidden.
    """
    share = _per_series(rate, series)
    if not whole_rows:
        draw = rng.random(series.observed.shape)
        return series.observed & (draw < share[series.owner, None])
    rows = np.flatnonzero(series.has_data)
    owner = series.owner[rows]
    count = np.bincount(owner, minlength=series.series)
    shuffled = np.argsort(owner + rng.random(rows.size))  # within each series
    hidden = np.zeros_like(series.observed)
    hidden[rows[shuffled[place_in_group(count) < np.rint(share * count)[owner]]]] = True
    return hidden & series.observed


def blocks(
    series: SeriesSet,
    rng: np.random.Generator,
    *,
    rate: Rate,
    length: tuple[int, int],
    whole_rows: bool,
) -> Flags:
    """Hides runs of consecutive rows until about `rate` of each series' observed cells are hidden.

    Lengths are log-uniform in the range `length`, and at most `rate` of the series. A run covers
    one channel, several, or all (always all with `whole_rows`). Runs may overlap.
    """
    if not 1 <= length[0] <= length[1]:
        raise InputError(
            f"length must be (shortest, longest) with 1 <= shortest <= longest, got {length}"
        )
    share = _per_series(rate, series)
    observed = series.has_data[:, None] if whole_rows else series.observed
    runs = _Runs.draw(series, rng, share, length, channels=observed.shape[1])
    count = np.rint(share * count_in_groups(observed, series.start))
    return series.observed & runs.cover(observed, count)


@dataclass(frozen=True)
class GapTemplates:
    """The gaps of a data set, prepared for repeated imitation."""

    donors: SeriesSet
    row: Int[np.ndarray, " gap"]  # rows with a missing cell
    first: Int[np.ndarray, " gap"]  # first row of the series that contains the row
    size: Int[np.ndarray, " gap"]  # number of rows of that series
    step: Int[np.ndarray, " gap"]  # rows since the previous such row; circular

    @classmethod
    def of(cls, donors: SeriesSet) -> "GapTemplates":
        """Finds the gaps of `donors`."""
        row = np.flatnonzero(np.logical_or.reduce(~donors.observed, axis=1))
        owner = donors.owner[row]
        first, size = donors.start[owner], donors.length[owner]
        last = row[np.searchsorted(owner, owner, side="right") - 1]
        follows = np.concatenate([[False], np.diff(owner) == 0])[: row.size]
        step = np.where(follows, row - np.roll(row, 1), row - last + size)
        return cls(donors, row, first, size, step)

    def draw(
        self, length: Int[np.ndarray, " series"], rng: np.random.Generator
    ) -> tuple[Int[np.ndarray, " series"], ...]:
        """Draws segments of these lengths uniformly from all segments that contain a gap.

        Returns the first row and the size of the donor of each segment, and the row of the donor
        at which the segment begins.
        """
        pick, early = np.zeros_like(length), np.zeros_like(length)
        for rows in np.unique(length[length > 0]):
            equal = np.flatnonzero(length == rows)
            # A segment whose first gap is this one begins at it, or fewer than `step` rows before.
            begins = np.cumsum(np.minimum(self.step, rows))
            drawn = rng.integers(begins[-1], size=equal.size)
            pick[equal] = np.searchsorted(begins, drawn, side="right")
            early[equal] = begins[pick[equal]] - 1 - drawn
        first, size = self.first[pick], self.size[pick]
        return first, size, (self.row[pick] - first - early) % size


def empirical(
    series: SeriesSet,
    rng: np.random.Generator,
    donors: SeriesSet | GapTemplates,
    day: float | None = None,
) -> Flags:
    """Hides in each series the cells that are missing in a random segment of `donors`.

    Gaps keep their lengths, and channels that are missing together are hidden together. A segment
    has the length of the series and contains a missing cell; donors are circular. Hides nothing
    if `donors` is complete. With the length of a `day`, on data with one row per unit, gaps keep
    their time of day.
    """
    gaps = donors if isinstance(donors, GapTemplates) else GapTemplates.of(donors)
    if series.dims != gaps.donors.dims:
        raise InputError(f"donors must have {series.dims} channels, got {gaps.donors.dims}")
    if gaps.row.size == 0:
        return np.zeros_like(series.observed)
    first, size, offset = gaps.draw(series.length, rng)
    if day is not None:
        begin = series.time[np.minimum(series.start[:-1], max(series.rows - 1, 0))]
        shift = (begin - gaps.donors.time[first + offset]) % day
        # A circle of whole days keeps the time of day.
        size = np.where(size >= day, np.floor(size / day) * day, size).astype(np.int64)
        offset = offset + np.rint(shift).astype(np.int64)
    step = place_in_group(series.length) + np.repeat(offset, series.length)
    row = np.repeat(first, series.length) + step % np.repeat(size, series.length)
    return series.observed & ~gaps.donors.observed[row]


@dataclass(frozen=True)
class _Runs:
    """Runs of rows, grouped by series, in the order in which they were drawn."""

    owner: Int[np.ndarray, " run"]
    begin: Int[np.ndarray, " run"]
    end: Int[np.ndarray, " run"]
    channels: Bool[np.ndarray, "run channel"]  # the channels that the run covers

    @classmethod
    def draw(
        cls,
        series: SeriesSet,
        rng: np.random.Generator,
        share: Float[np.ndarray, " series"],
        length: tuple[int, int],
        *,
        channels: int,
    ) -> "_Runs":
        """Draws more runs than are needed to cover `share` of each series."""
        longest = np.clip(np.rint(share * series.length), 1, length[1])
        shortest = np.minimum(length[0], longest)
        # Runs at random places leave exp(-density) uncovered; half as many again likely suffice.
        density = -1.5 * np.log1p(-np.minimum(share, 0.98))
        ratio = (longest + 1) / shortest
        # Rounding down to whole rows shortens a run by half a row on average.
        typical = np.maximum((longest + 1 - shortest) / np.log(ratio) - 0.5, 1.0)
        per_run = (2 + 3 * channels) / 8 if channels > 1 else 1.0
        count = np.ceil(density * series.length * channels / (typical * per_run)) + 4
        count = np.where(series.length > 0, count, 0).astype(int)
        owner = np.repeat(np.arange(series.series), count)
        rows = np.floor(shortest[owner] * ratio[owner] ** rng.random(owner.size)).astype(np.int64)
        # Runs may extend beyond either end, so that the ends are hidden as often as the middle.
        room = series.length[owner] + rows - 1
        begin = series.start[owner] - rows + 1 + (rng.random(owner.size) * room).astype(np.int64)
        end = np.minimum(begin + rows, series.start[owner + 1])
        begin = np.maximum(begin, series.start[owner])
        return cls(owner, begin, end, _draw_channels(rng, owner.size, channels))

    def cover(
        self, observed: Bool[np.ndarray, "row channel"], count: Float[np.ndarray, " series"]
    ) -> Bool[np.ndarray, "row channel"]:
        """The observed cells of the first runs of each series that cover about `count` cells."""
        run, channel = np.nonzero(self.channels)
        begin, end = self.begin[run], self.end[run]
        cell = concat_ranges(begin, end) * observed.shape[1] + np.repeat(channel, end - begin)
        none = self.owner.size
        first = np.full(observed.size, none)
        # Written in reverse, so that the earliest of several runs over a cell remains.
        first[cell[::-1]] = np.repeat(run, end - begin)[::-1]
        first[~observed.reshape(-1)] = none
        fresh = np.bincount(first, minlength=none + 1)[:none]
        before = np.cumsum(fresh) - fresh
        before -= before[np.searchsorted(self.owner, self.owner)]
        limit = count[self.owner]
        taken = (before + fresh / 2 <= limit) & (limit > 0)
        return np.append(taken, False)[first].reshape(observed.shape)


def _draw_channels(
    rng: np.random.Generator, runs: int, channels: int
) -> Bool[np.ndarray, "run channel"]:
    """The channels of each run: one for half of the runs, otherwise any number, or all."""
    one = np.arange(channels) == rng.integers(channels, size=(runs, 1))
    kind = rng.random((runs, 1))
    several = one | (rng.random((runs, channels)) < 0.5)
    return (kind > 0.75) | np.where(kind < 0.5, one, several)


def _per_series(rate: Rate, series: SeriesSet) -> Float[np.ndarray, " series"]:
    share = np.broadcast_to(np.asarray(rate, dtype=np.float64), (series.series,))
    if not ((share >= 0) & (share <= 1)).all():
        raise InputError(f"rate must lie between 0 and 1, got {rate}")
    return share
