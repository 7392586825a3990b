"""Draws which observed cells to hide: points, blocks, or the data's own gaps."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError
from nrtsi.series import SeriesSet

__all__ = ["Hide", "Hiding", "Kind", "blocks", "own", "points", "rows_fail_together"]

Kind = Literal["own", "points", "blocks"]
"""One way of hiding cells."""

Hide = Literal["auto", "own", "points", "blocks"]
"""What a caller may ask for; "auto" decides by how much of the data is missing."""

Rate = float | Float[np.ndarray, " series"]
"""Share of the observed cells to hide, one for all series or one for each."""

FEW = 0.02
"""Share of missing cells below which the data's own gaps say too little to be imitated."""

SCORED = 0.15
"""Share of the observed cells that scoring hides."""

PIECES = 16
"""Scoring hides cells in pieces of a series: a long series is cut into about this many."""

SHORTEST_PIECE = 64
"""Rows below which a series is not cut: the longest holes would no longer fit."""

ROUNDS = 30
"""Clones of the data's own gaps laid over each other, at most, to hide enough for a score."""


def rows_fail_together(series: SeriesSet) -> bool:
    """Whether rows are missing, and every row is either complete or missing in all channels."""
    some = series.observed.any(axis=1)
    every = series.observed.all(axis=1)
    return bool((some == every).all() and not every.all())


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
    wanted = np.rint(share * _count(seen, series))
    return series.observed & _cover(seen, run, wanted)


def own(
    series: SeriesSet, rng: np.random.Generator, donors: SeriesSet
) -> Bool[np.ndarray, "row dim"]:
    """Hides in each series what is missing in a stretch of `donors` of the same length.

    So holes keep their lengths, and channels that fail together are hidden together. A stretch
    begins at a random row, goes round from the end of its donor to the beginning, and is one that
    has missing cells. Hides nothing where `donors` misses nothing.
    """
    if series.dims != donors.dims:
        raise InputError(f"donors must have {series.dims} channels, got {donors.dims}")
    gappy = np.logical_or.reduce(~donors.observed, axis=1)
    if not gappy.any() or series.rows == 0:
        return np.zeros_like(series.observed)
    begin = _stretches(series.length, gappy, donors, rng)
    donor = donors.owner[begin]
    step = np.arange(series.rows) - np.repeat(series.start[:-1], series.length)
    first, size = donors.start[donor], donors.length[donor]
    within = np.repeat(begin - first, series.length) + step
    row = np.repeat(first, series.length) + within % np.repeat(size, series.length)
    return series.observed & ~donors.observed[row]


@dataclass(frozen=True)
class Hiding:
    """How cells are hidden, decided once for a data set; `draw` then hides some."""

    kinds: tuple[Kind, ...]
    """The ways in use."""

    weights: tuple[float, ...]
    """How often each way is used; they sum to 1."""

    whole_rows: bool
    """All channels of a row are hidden together."""

    donors: SeriesSet
    """The data whose gaps are imitated."""

    rates: tuple[float, float] = (0.05, 0.95)
    """Range of the share of cells that points and blocks hide; each series has its own."""

    scoring: bool = False
    """Hides about 15 % of the cells, and never all of a channel of a series."""

    @classmethod
    def choose(
        cls, hide: str, series: SeriesSet, *, whole_rows: bool, scoring: bool = False
    ) -> "Hiding":
        """What `hide` means for these data.

        "auto" imitates the data's own gaps where at least 2 % of the cells are missing, and else
        hides points and blocks. Training mixes points and blocks into the own gaps, since those
        alone would teach nothing about gaps the data happen not to have; a score does not.

        Raises:
            InputError: `hide` is unknown, or is "own" and nothing is missing.
        """
        if hide not in get_args(Hide):
            raise InputError(f"hide must be one of {', '.join(get_args(Hide))}, got {hide!r}")
        missing = float(np.mean(~series.observed)) if series.observed.size else 0.0
        if hide == "own" and missing == 0:
            raise InputError(
                "hide must be 'points' or 'blocks' for data with nothing missing, got 'own'; "
                "there is no gap to imitate"
            )
        shares = _shares(hide, missing >= FEW, scoring)
        rates = (SCORED, SCORED) if scoring else (0.05, 0.95)
        return cls(tuple(shares), tuple(shares.values()), whole_rows, series, rates, scoring)

    def draw(self, series: SeriesSet, rng: np.random.Generator) -> Bool[np.ndarray, "row dim"]:
        """The cells to hide: observed ones, and never all of a series.

        Each series is hidden in a way and at a rate of its own.
        """
        if self.scoring:
            return _spare_channels(self._draw_scored(series, rng), series, self.whole_rows)
        return _spare_a_row(self._draw_mixed(series, rng), series, rng)

    def _draw_mixed(
        self, series: SeriesSet, rng: np.random.Generator
    ) -> Bool[np.ndarray, "row dim"]:
        """One way and one rate for each series."""
        way = rng.choice(len(self.kinds), size=series.series, p=self.weights)
        rate = rng.uniform(*self.rates, size=series.series)
        # A short series would round to nothing hidden, and teach nothing.
        rate = np.clip(rate, 1 / np.maximum(_count(series.observed, series), 1), 1.0)
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
        return own(series, rng, self.donors)

    def _draw_scored(
        self, series: SeriesSet, rng: np.random.Generator
    ) -> Bool[np.ndarray, "row dim"]:
        """About `SCORED` of the cells.

        Where the gaps are many, they are hidden in some pieces of the series only; where they are
        few, several clones of them are laid over each other.
        """
        pieces = _cut(series)
        goal = round(SCORED * int(series.observed.sum()))
        hidden = np.zeros_like(series.observed)
        for _ in range(ROUNDS):
            # Own gaps are cloned from whole series, so that cutting shortens no hole.
            whole = series if self.kinds == ("own",) else pieces
            more = self._draw_mixed(whole, rng) & ~hidden
            hidden |= _some_pieces(more, pieces, rng, goal - int(hidden.sum()))
            if hidden.sum() >= 0.8 * goal:
                break
        return hidden


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
    typical = (longest + 1 - shortest) / np.log(ratio)
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
    length: Int[np.ndarray, " series"],
    gappy: Bool[np.ndarray, " row"],
    donors: SeriesSet,
    rng: np.random.Generator,
) -> Int[np.ndarray, " series"]:
    """First rows of stretches of these lengths, drawn evenly from all that hold a gappy row."""
    gap = np.flatnonzero(gappy)
    owner = donors.owner[gap]
    first, size = donors.start[owner], donors.length[owner]
    apart = _apart(gap, owner, size)
    begin = np.zeros_like(length)
    for rows in np.unique(length[length > 0]):
        asked = np.flatnonzero(length == rows)
        # A stretch whose first gap is this one begins here, or up to so many rows earlier.
        ways = np.cumsum(np.minimum(apart, rows))
        draw = rng.integers(ways[-1], size=asked.size)
        pick = np.searchsorted(ways, draw, side="right")
        early = ways[pick] - 1 - draw
        begin[asked] = first[pick] + (gap[pick] - first[pick] - early) % size[pick]
    return begin


def _apart(
    gap: Int[np.ndarray, " gap"], owner: Int[np.ndarray, " gap"], size: Int[np.ndarray, " gap"]
) -> Int[np.ndarray, " gap"]:
    """Rows from the gap before to each gap, going round from the first to the last of a donor."""
    last = gap[np.searchsorted(owner, owner, side="right") - 1]
    follows = np.concatenate([[False], np.diff(owner) == 0])
    return np.where(follows, gap - np.roll(gap, 1), gap - last + size)


def _shares(hide: str, enough_gaps: bool, scoring: bool) -> dict[Kind, float]:
    """The ways of hiding that `hide` stands for, and how often each is used."""
    if hide == "points":
        return {"points": 1.0}
    if hide == "blocks":
        return {"blocks": 1.0}
    if hide == "auto" and not enough_gaps:
        return {"points": 0.5, "blocks": 0.5}
    return {"own": 1.0} if scoring else {"own": 0.5, "points": 0.25, "blocks": 0.25}


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
    lost = _count(series.observed & ~hidden, series) == 0
    if not lost.any():
        return hidden
    owner = series.owner
    row = rng.permutation(np.flatnonzero(lost[owner] & _rows_with_data(series)))
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
    left = _running(series.observed & ~hidden)
    lost = left[series.start[1:]] == left[series.start[:-1]]
    if whole_rows:
        seen = _running(series.observed)
        lost &= seen[series.start[1:]] > seen[series.start[:-1]]
        lost = np.broadcast_to(lost.any(axis=1, keepdims=True), lost.shape)
    return hidden & ~lost[series.owner]


def _per_series(rate: Rate, series: SeriesSet) -> Float[np.ndarray, " series"]:
    """One rate for each series."""
    share = np.broadcast_to(np.asarray(rate, dtype=np.float64), (series.series,))
    if not ((share >= 0) & (share <= 1)).all():
        raise InputError(f"rate must lie between 0 and 1, got {rate}")
    return share


def _rows_with_data(series: SeriesSet) -> Bool[np.ndarray, " row"]:
    """True where a row has at least one observed cell."""
    return np.logical_or.reduce(series.observed, axis=1)


def _count(cells: Bool[np.ndarray, "row dim"], series: SeriesSet) -> Int[np.ndarray, " series"]:
    """Number of True cells of each series."""
    # Over the flat cells: numpy is slow at summing many rows of few cells.
    total = _running(cells.reshape(-1))[series.start * cells.shape[1]]
    return np.diff(total)


def _running(cells: np.ndarray) -> np.ndarray:
    """Sums along the first axis over all before each place, and last over all."""
    zero = np.zeros((1, *cells.shape[1:]), dtype=np.int64)
    return np.concatenate([zero, np.cumsum(cells, axis=0)])
