"""Windows over the known rows: which of them each target reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int

__all__ = ["WHOLE", "WindowBatch", "Windows", "windows"]

Cost: TypeAlias = Callable[[Int[np.ndarray, " window"]], Int[np.ndarray, " window"]]
"""What windows of so many tokens cost, in whatever is scarce; more tokens cost more."""

# Known rows of the widest window: memory grows with the square of it.
WHOLE = 2048


@dataclass(frozen=True)
class WindowBatch:
    """Some windows as row numbers, padded to one size."""

    known: Int[np.ndarray, "window obs"]
    known_valid: Bool[np.ndarray, "window obs"]
    target: Int[np.ndarray, "window target"]
    target_valid: Bool[np.ndarray, "window target"]
    level: Int[np.ndarray, " window"]


@dataclass(frozen=True)
class Windows:
    """Runs of known rows, each with the targets it owns."""

    sources: Int[np.ndarray, " known"]
    """Known rows, in which those of a window stand together, ascending."""

    targets: Int[np.ndarray, " target"]
    """All target rows, those of a window together."""

    level: Int[np.ndarray, " window"]
    """Level of a window's targets, which is the same for all of them."""

    first_source: Int[np.ndarray, " window"]
    source_count: Int[np.ndarray, " window"]
    first_target: Int[np.ndarray, " window"]
    target_count: Int[np.ndarray, " window"]

    @property
    def count(self) -> int:
        """Number of windows."""
        return self.first_source.size

    def pad(self, chosen: Int[np.ndarray, " window"]) -> WindowBatch:
        """The chosen windows, as wide as the widest of them."""
        known, known_valid = _pad(
            self.sources, self.first_source[chosen], self.source_count[chosen]
        )
        target, target_valid = _pad(
            self.targets, self.first_target[chosen], self.target_count[chosen]
        )
        return WindowBatch(known, known_valid, target, target_valid, self.level[chosen])

    def batches(
        self, most: int, cost: Cost, chosen: Int[np.ndarray, " window"] | None = None
    ) -> Iterator[WindowBatch]:
        """The chosen windows, or all, in batches that cost at most `most` or are of one window.

        Windows of like sizes go together; a batch costs what one as large as it is padded to
        costs, times the number of its windows.
        """
        chosen = np.arange(self.count) if chosen is None else chosen
        order = chosen[np.lexsort([self.target_count[chosen], self.source_count[chosen]])]
        known, target = self.source_count[order], self.target_count[order]
        alone = cost(known + target)
        done = 0
        while done < order.size:
            here = slice(done, done + max(1, int(most // alone[done])))
            padded = np.maximum.accumulate(known[here]) + np.maximum.accumulate(target[here])
            total = cost(padded) * np.arange(1, padded.size + 1)
            fits = max(1, int(np.searchsorted(total, most, side="right")))
            yield self.pad(order[done : done + fits])
            done += fits


def windows(
    sources: Int[np.ndarray, " known"],
    targets: Int[np.ndarray, " target"],
    level: Int[np.ndarray, " target"],
    start: Int[np.ndarray, " bound"],
    size: int | None,
) -> Windows:
    """Divides `targets` among windows of `size` known rows that overlap by half.

    A target belongs to the window in whose central half it lies, so that it has known rows on both
    sides wherever the series has them. Targets of different levels share no window, since its
    times are measured in distances. No window owns more targets than half of `size`: a crowd is
    divided, neighbours in time together. Targets may be known rows too, as partly observed ones
    are: a window then holds those of other windows as known rows, and may own `size` of them, all
    that it holds. With `size=None` a series is one window for each level,
    unless it is longer than attention over all of it can be.
    """
    size = WHOLE if size is None else size
    by_level = np.argsort(level, kind="stable")
    targets, level = targets[by_level], level[by_level]
    series = np.searchsorted(start, targets, side="right") - 1
    bound = np.searchsorted(sources, start)
    count = np.diff(bound)[series]  # known rows of the target's series
    place = np.searchsorted(sources, targets) - bound[series]  # known rows before the target
    half = max(1, size // 2)
    index = np.minimum((place - size // 4).clip(min=0) // half, _last(count, size, half))
    begin = np.minimum(index * half, (count - size).clip(min=0))
    length = np.minimum(count, size)
    new = np.concatenate([[True], (np.diff([level, series, index]) != 0).any(axis=0)])
    both = np.zeros(start.size - 1, dtype=bool)  # series with targets that are known rows too
    both[series[_among(targets, sources)]] = True
    rank = _rank(new)
    new |= rank % np.where(both[series], size, half) == 0
    first = np.flatnonzero(new)
    parts = Windows(
        sources=sources,
        targets=targets,
        level=level[first],
        first_source=(bound[series] + begin)[first],
        source_count=length[first],
        first_target=first,
        target_count=np.diff(np.concatenate([first, [targets.size]])),
    )
    return _without_own(parts) if both.any() else parts


def _without_own(parts: Windows) -> Windows:
    """The same windows, in which no target is among the known rows of its own window."""
    size = parts.source_count
    window = np.repeat(np.arange(parts.count), size)
    inside = np.arange(window.size) - np.repeat(np.cumsum(size) - size, size)
    sources = parts.sources[parts.first_source[window] + inside]
    by_row = np.argsort(parts.targets)
    rows = parts.targets[by_row]
    owner = np.repeat(np.arange(parts.count), parts.target_count)[by_row]
    place = np.searchsorted(rows, sources).clip(max=rows.size - 1)
    kept = (rows[place] != sources) | (owner[place] != window)
    count = np.bincount(window[kept], minlength=parts.count)
    return replace(
        parts, sources=sources[kept], first_source=np.cumsum(count) - count, source_count=count
    )


def _among(
    rows: Int[np.ndarray, " row"], others: Int[np.ndarray, " other"]
) -> Bool[np.ndarray, " row"]:
    """True for the rows that are among ascending `others`."""
    if not others.size:
        return np.zeros(rows.shape, dtype=bool)
    return others[np.searchsorted(others, rows).clip(max=others.size - 1)] == rows


def _last(count: Int[np.ndarray, " target"], size: int, half: int) -> Int[np.ndarray, " target"]:
    """Index of the last window of a series with `count` known rows."""
    return -((size - count).clip(max=0) // half)


def _rank(new: Bool[np.ndarray, " target"]) -> Int[np.ndarray, " target"]:
    """How many of its window come before each target."""
    index = np.arange(new.size)
    return index - np.maximum.accumulate(np.where(new, index, 0))


def _pad(
    rows: Int[np.ndarray, " item"],
    first: Int[np.ndarray, " window"],
    count: Int[np.ndarray, " window"],
) -> tuple[Int[np.ndarray, "window slot"], Bool[np.ndarray, "window slot"]]:
    slot = np.arange(int(count.max(initial=0)))
    valid = slot < count[:, None]
    if not rows.size:
        return np.zeros(valid.shape, dtype=np.int64), valid
    return rows[np.where(valid, first[:, None] + slot, 0)], valid
