"""Three ways to lose cells: points, blocks, and the gaps of other data.

Each returns the cells to hide, all of them observed ones.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = ["GapTemplates", "Rate", "blocks", "count_cells", "empirical", "points", "running"]

Rate = float | Float[np.ndarray, " series"]
"""Share of the observed cells to hide, one for all series or one for each."""


def points(
    series: SeriesSet, rng: np.random.Generator, *, rate: Rate, whole_rows: bool
) -> Bool[np.ndarray, "row dim"]:
    """Hides single cells independently of each other, or whole rows.

    Whole rows are counted: a series with `n` rows that have data loses `round(rate * n)` of them.
    Cells are not: each is hidden with probability `rate`.
    """
    share = _per_series(rate, series)
    if not whole_rows:
        draw = rng.random(series.observed.shape)
        return series.observed & (draw < share[series.owner, None])
    rows = np.flatnonzero(_rows_with_data(series))
    owner = series.owner[rows]
    count = np.bincount(owner, minlength=series.series)
    # Ordered by series and at random inside one; a row's rank is its place there.
    order = np.argsort(owner + rng.random(rows.size))
    rank = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    gone = rank < np.rint(share * count)[owner]
    hidden = np.zeros_like(series.observed)
    hidden[rows[order[gone]]] = True
    return hidden & series.observed


def blocks(
    series: SeriesSet,
    rng: np.random.Generator,
    *,
    rate: Rate,
    length: tuple[int, int],
    whole_rows: bool,
) -> Bool[np.ndarray, "row dim"]:
    """Hides runs of consecutive rows until about `rate` of each series' observed cells are gone.

    Lengths are log-uniform between the two of `length`, and no longer than `rate` of the series.
    A run covers one channel, several, or all (always all with `whole_rows`). Runs may overlap.
    """
    if not 1 <= length[0] <= length[1]:
        raise InputError(
            f"length must be (shortest, longest) with 1 <= shortest <= longest, got {length}"
        )
    share = _per_series(rate, series)
    seen = _rows_with_data(series)[:, None] if whole_rows else series.observed
    run = _runs(series, rng, share, length, channels=seen.shape[1])
    wanted = np.rint(share * count_cells(seen, series))
    return series.observed & _cover(seen, run, wanted)


@dataclass(frozen=True)
class GapTemplates:
    """The gaps of some data, ready to be imitated many times."""

    donors: SeriesSet
    """The data."""

    row: Int[np.ndarray, " gap"]
    """Rows that miss a cell."""

    first: Int[np.ndarray, " gap"]
    """First row of the series each lies in."""

    size: Int[np.ndarray, " gap"]
    """Number of rows of that series."""

    apart: Int[np.ndarray, " gap"]
    """Rows since the one before, going round from the last of a series to its first."""

    @classmethod
    def of(cls, donors: SeriesSet) -> "GapTemplates":
        """Finds the gaps of `donors`."""
        row = np.flatnonzero(np.logical_or.reduce(~donors.observed, axis=1))
        owner = donors.owner[row]
        first, size = donors.start[owner], donors.length[owner]
        last = row[np.searchsorted(owner, owner, side="right") - 1]
        follows = np.concatenate([[False], np.diff(owner) == 0])[: row.size]
        apart = np.where(follows, row - np.roll(row, 1), row - last + size)
        return cls(donors, row, first, size, apart)


def empirical(
    series: SeriesSet,
    rng: np.random.Generator,
    donors: SeriesSet | GapTemplates,
    day: float | None = None,
) -> Bool[np.ndarray, "row dim"]:
    """Hides in each series what is missing in a stretch of `donors` of the same length.

    So gaps keep their lengths, and channels that fail together are hidden together. A stretch
    begins at a random row, goes round from the end of its donor to the beginning, and is one that
    has missing cells. Hides nothing where `donors` misses nothing. With the length of a `day`, on
    data with a row a unit, what fails at a time of day is hidden at that time of day.
    """
    gaps = donors if isinstance(donors, GapTemplates) else GapTemplates.of(donors)
    if series.dims != gaps.donors.dims:
        raise InputError(f"donors must have {series.dims} channels, got {gaps.donors.dims}")
    if gaps.row.size == 0:
        return np.zeros_like(series.observed)
    first, size, offset = _stretches(series.length, gaps, rng)
    if day is not None:
        begins = series.time[np.minimum(series.start[:-1], max(series.rows - 1, 0))]
        later = (begins - gaps.donors.time[first + offset]) % day
        offset = (offset + np.rint(later).astype(np.int64)) % size
        # Going round after whole days keeps the time of day; what is left at the end is not used.
        size = np.where(size >= day, np.floor(size / day) * day, size).astype(np.int64)
    step = np.arange(series.rows) - np.repeat(series.start[:-1] - offset, series.length)
    row = np.repeat(first, series.length) + step % np.repeat(size, series.length)
    return series.observed & ~gaps.donors.observed[row]


@dataclass(frozen=True)
class _Runs:
    """Runs of rows, those of one series together, in the order in which they were drawn."""

    owner: Int[np.ndarray, " run"]
    """The series a run lies in."""

    begin: Int[np.ndarray, " run"]
    """Its first row."""

    end: Int[np.ndarray, " run"]
    """The row after its last."""

    covers: Bool[np.ndarray, "run channel"]
    """The channels it hides."""


def _runs(
    series: SeriesSet,
    rng: np.random.Generator,
    share: Float[np.ndarray, " series"],
    length: tuple[int, int],
    *,
    channels: int,
) -> _Runs:
    """More random runs than it takes to cover `share` of each series."""
    longest = np.clip(np.rint(share * series.length), 1, length[1])
    shortest = np.minimum(length[0], longest)
    # Runs at random places leave exp(-density) uncovered; half as many again make it likely
    # that there are enough.
    density = -1.5 * np.log1p(-np.minimum(share, 0.98))
    ratio = (longest + 1) / shortest
    # Rounded down to whole rows, they are half a row shorter.
    typical = np.maximum((longest + 1 - shortest) / np.log(ratio) - 0.5, 1.0)
    per_run = (2 + 3 * channels) / 8 if channels > 1 else 1.0
    many = np.ceil(density * series.length * channels / (typical * per_run)) + 4
    owner = np.repeat(np.arange(series.series), np.where(series.length > 0, many, 0).astype(int))
    rows = np.floor(shortest[owner] * ratio[owner] ** rng.random(owner.size)).astype(np.int64)
    # Runs may stick out at either end, so that the ends are hidden as often as the middle.
    room = series.length[owner] + rows - 1
    begin = series.start[owner] - rows + 1 + (rng.random(owner.size) * room).astype(np.int64)
    end = np.minimum(begin + rows, series.start[owner + 1])
    return _Runs(
        owner, np.maximum(begin, series.start[owner]), end, _channels(rng, owner.size, channels)
    )


def _channels(
    rng: np.random.Generator, runs: int, channels: int
) -> Bool[np.ndarray, "run channel"]:
    """The channels of each run: in half of the runs one, else any number, or all."""
    one = np.arange(channels) == rng.integers(channels, size=(runs, 1))
    kind = rng.random((runs, 1))
    several = one | (rng.random((runs, channels)) < 0.5)
    return (kind > 0.75) | np.where(kind < 0.5, one, several)


def _cover(
    seen: Bool[np.ndarray, "row channel"], run: _Runs, wanted: Float[np.ndarray, " series"]
) -> Bool[np.ndarray, "row channel"]:
    """Cells of `seen` under the first runs of each series that together hide `wanted` cells."""
    number, channel = np.nonzero(run.covers)
    rows = (run.end - run.begin)[number]
    step = np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows, rows)
    cell = (np.repeat(run.begin[number], rows) + step) * seen.shape[1] + np.repeat(channel, rows)
    none = run.owner.size
    first = np.full(seen.size, none)
    # Written last run first: of several runs over a cell, the earliest stays.
    first[cell[::-1]] = np.repeat(number, rows)[::-1]
    first[~seen.reshape(-1)] = none
    fresh = np.bincount(first, minlength=none + 1)[:none]
    before = np.cumsum(fresh) - fresh
    head = np.searchsorted(run.owner, run.owner)
    taken = before - before[head] + fresh / 2 <= wanted[run.owner]
    taken &= wanted[run.owner] > 0
    return np.append(taken, False)[first].reshape(seen.shape)


def _stretches(
    length: Int[np.ndarray, " series"], gaps: GapTemplates, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " series"], Int[np.ndarray, " series"], Int[np.ndarray, " series"]]:
    """Stretches of these lengths, drawn evenly from all that hold a gap.

    Returns the first row and the size of each one's donor, and the row in it where it begins.
    """
    pick, early = np.zeros_like(length), np.zeros_like(length)
    for rows in np.unique(length[length > 0]):
        asked = np.flatnonzero(length == rows)
        # A stretch whose first gap is this one begins here, or up to so many rows earlier.
        ways = np.cumsum(np.minimum(gaps.apart, rows))
        draw = rng.integers(ways[-1], size=asked.size)
        pick[asked] = np.searchsorted(ways, draw, side="right")
        early[asked] = ways[pick[asked]] - 1 - draw
    first, size = gaps.first[pick], gaps.size[pick]
    return first, size, (gaps.row[pick] - first - early) % size


def _per_series(rate: Rate, series: SeriesSet) -> Float[np.ndarray, " series"]:
    """One rate for each series."""
    share = np.broadcast_to(np.asarray(rate, dtype=np.float64), (series.series,))
    if not ((share >= 0) & (share <= 1)).all():
        raise InputError(f"rate must lie between 0 and 1, got {rate}")
    return share


def _rows_with_data(series: SeriesSet) -> Bool[np.ndarray, " row"]:
    """True where a row has at least one observed cell."""
    return np.logical_or.reduce(series.observed, axis=1)


def count_cells(
    cells: Bool[np.ndarray, "row dim"], series: SeriesSet
) -> Int[np.ndarray, " series"]:
    """Number of True cells of each series."""
    # Over the flat cells: numpy is slow at summing many rows of few cells.
    total = running(cells.reshape(-1))[series.start * cells.shape[1]]
    return np.diff(total)


def running(cells: np.ndarray) -> np.ndarray:
    """Sums along the first axis over all before each place, and last over all."""
    zero = np.zeros((1, *cells.shape[1:]), dtype=np.int64)
    return np.concatenate([zero, np.cumsum(cells, axis=0)])
