"""Windows: which known rows each target attends to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from nrtsi.core.ragged import place_in_group

__all__ = ["WindowBatch", "Windows", "windows"]

PerWindow: TypeAlias = Int[np.ndarray, " window"]
PerTarget: TypeAlias = Int[np.ndarray, " target"]
Cost: TypeAlias = Callable[[PerWindow], PerWindow]
"""Cost of windows by their number of tokens; more tokens cost more."""


@dataclass(frozen=True)
class WindowBatch:
    """Row numbers of some windows, padded to one size."""

    known: Int[np.ndarray, "window known"]
    known_valid: Bool[np.ndarray, "window known"]
    target: Int[np.ndarray, "window target"]
    target_valid: Bool[np.ndarray, "window target"]
    level: PerWindow


@dataclass(frozen=True)
class Windows:
    """Windows of consecutive known rows, each with its targets."""

    sources: Int[np.ndarray, " known"]
    """Known rows; those of a window are consecutive and ascending."""
    targets: PerTarget
    """Target rows; those of a window are consecutive."""
    level: PerWindow
    """Level of a window's targets, the same for all of them."""
    first_source: PerWindow
    source_count: PerWindow
    first_target: PerWindow
    target_count: PerWindow

    @property
    def count(self) -> int:
        """Number of windows."""
        return self.first_source.size

    def pad(self, chosen: PerWindow) -> WindowBatch:
        """Returns the chosen windows, padded to the largest of them."""
        known = _pad(self.sources, self.first_source[chosen], self.source_count[chosen])
        target = _pad(self.targets, self.first_target[chosen], self.target_count[chosen])
        return WindowBatch(*known, *target, self.level[chosen])

    def batches(
        self, most: int, cost: Cost, chosen: PerWindow | None = None
    ) -> Iterator[WindowBatch]:
        """Yields the chosen windows, or all, in batches that cost at most `most` each.

        Windows of similar sizes share a batch and are padded to one size. One may cost more.
        """
        chosen = np.arange(self.count) if chosen is None else chosen
        order = chosen[np.lexsort([self.target_count[chosen], self.source_count[chosen]])]
        known, target = self.source_count[order], self.target_count[order]
        single = cost(known + target)
        done = 0
        while done < order.size:
            here = slice(done, done + max(1, int(most // single[done])))
            padded = np.maximum.accumulate(known[here]) + np.maximum.accumulate(target[here])
            total = cost(padded) * np.arange(1, padded.size + 1)
            fits = max(1, int(np.searchsorted(total, most, side="right")))
            yield self.pad(order[done : done + fits])
            done += fits


def windows(
    sources: Int[np.ndarray, " known"],
    targets: PerTarget,
    level: PerTarget,
    start: Int[np.ndarray, " bound"],
    size: int,
) -> Windows:
    """Divides `targets` among windows of `size` known rows that overlap by half.

    A target belongs to the window in whose central half it lies, so that it has known rows on both
    sides if the series has them. Targets of different levels share no window, because the largest
    distance of a window is its unit of time. A window has at most `size // 2` targets, or `size`
    if targets are known rows of other windows, as partially observed ones are.
    """
    by_level = np.argsort(level, kind="stable")
    targets, level = targets[by_level], level[by_level]
    series = np.searchsorted(start, targets, side="right") - 1
    bound = np.searchsorted(sources, start)
    count = np.diff(bound)[series]  # known rows of the target's series
    rank = np.searchsorted(sources, targets) - bound[series]  # known rows before the target
    half = max(1, size // 2)
    last = -((size - count).clip(max=0) // half)  # the last window of the series
    index = np.minimum((rank - size // 4).clip(min=0) // half, last)
    begin = np.minimum(index * half, (count - size).clip(min=0))
    length = np.minimum(count, size)
    new = np.concatenate([[True], (np.diff([level, series, index]) != 0).any(axis=0)])
    shared = np.zeros(start.size - 1, dtype=bool)  # series with targets that are known rows too
    shared[series[np.isin(targets, sources)]] = True
    order = np.arange(new.size)
    in_window = order - np.maximum.accumulate(np.where(new, order, 0))  # targets before it
    new |= in_window % np.where(shared[series], size, half) == 0
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
    return _without_own(parts) if shared.any() else parts


def _without_own(parts: Windows) -> Windows:
    """Removes targets from the known rows of their own window."""
    size = parts.source_count
    window = np.repeat(np.arange(parts.count), size)
    sources = parts.sources[parts.first_source[window] + place_in_group(size)]
    by_row = np.argsort(parts.targets)
    rows = parts.targets[by_row]
    owner = np.repeat(np.arange(parts.count), parts.target_count)[by_row]
    index = np.searchsorted(rows, sources).clip(max=rows.size - 1)
    kept = (rows[index] != sources) | (owner[index] != window)
    count = np.bincount(window[kept], minlength=parts.count)
    return replace(
        parts, sources=sources[kept], first_source=np.cumsum(count) - count, source_count=count
    )


def _pad(
    rows: Int[np.ndarray, " item"], first: PerWindow, count: PerWindow
) -> tuple[Int[np.ndarray, "window slot"], Bool[np.ndarray, "window slot"]]:
    slot = np.arange(int(count.max(initial=0)))
    valid = slot < count[:, None]
    if not rows.size:
        return np.zeros(valid.shape, dtype=np.int64), valid
    return rows[np.where(valid, first[:, None] + slot, 0)], valid
