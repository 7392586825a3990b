"""`pool`: takes a statistic of every draw and combines what it gives."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from nrtsi.errors import InputError
from nrtsi.evaluation.pooling.draws import each_draw
from nrtsi.evaluation.pooling.layout import DrawTable, read
from nrtsi.evaluation.pooling.pooled import Pooled
from nrtsi.evaluation.pooling.rules import combined

__all__ = ["pool"]


def pool(
    statistic: Callable[[Any], Any],
    draws: Any,
    *,
    level: float = 0.9,
    complete_df: float | None = None,
) -> Pooled:
    """Combines a statistic of every draw into one estimate with an interval, by Rubin's rules.

    A statistic that is undefined (NaN) in one draw is undefined in the result: to leave out the
    draw would favour the draws in which it happens to exist. Other entries are not touched by it.

    Args:
        statistic: Called with one draw after the other. Returns a number, an array, a Series or a
            mapping of numbers; the interval is then that of the statistic of the complete data,
            had nothing been missing. Or a pair (estimate, variance) of these, with the sampling
            variance that the estimate would have if the draw were the data; the interval is then
            that of the quantity which the statistic estimates.
        draws: What `sample` returns: a table with a column `draw`, or an array whose first axis
            is draws; or tables or arrays, one a draw.
        level: How often the interval should hold the true value.
        complete_df: Degrees of freedom of the statistic in complete data, for small samples
            (Barnard and Rubin 1999); for pairs only.

    Raises:
        InputError: Fewer than two draws, or draws whose statistics cannot be combined.

    >>> import numpy as np
    >>> draws = np.array([[[1.0], [4.0]], [[1.0], [6.0]], [[1.0], [5.0]]])
    >>> pool(np.mean, draws)
    3.0 (90 %: 1.3 to 4.7) from 3 draws
    """
    _must_be_usable(statistic, level, complete_df)
    tally = _Tally()
    for one in each_draw(draws):
        tally.add(statistic(one))
    return tally.pooled(level, complete_df)


def _must_be_usable(statistic: object, level: Any, complete_df: Any) -> None:
    if not callable(statistic):
        raise InputError(
            f"statistic must be a function of one draw, got {type(statistic).__name__}; "
            f"write pool(lambda table: ..., draws)"
        )
    if not (_is_number(level) and 0 < level < 1):
        raise InputError(f"level must be between 0 and 1, got {level!r}; write 0.9 for 90 %")
    if complete_df is not None and not (_is_number(complete_df) and 0 < complete_df < np.inf):
        raise InputError(
            f"complete_df must be a positive number, got {complete_df!r}; "
            f"leave it out for a large sample"
        )


def _is_number(thing: object) -> bool:
    return isinstance(thing, Real) and not isinstance(thing, bool)


class _Tally:
    """Running mean and variance of a statistic, so that no draw's result need be kept."""

    def __init__(self) -> None:
        self.count = 0
        self.first: DrawTable | None = None
        self.mean: Any = 0.0
        self.squares: Any = 0.0
        self.within: Any = 0.0
        self.paired = False

    def add(self, result: Any) -> None:
        """Counts the statistic of one more draw in."""
        paired = type(result) is tuple and len(result) == 2  # a named tuple is something else
        estimate, variance = result if paired else (result, None)
        values = self._estimate(estimate)
        self._must_be_alike(paired)
        self.count += 1
        with np.errstate(invalid="ignore"):  # an infinite statistic has no variance
            apart = values - self.mean
            self.mean = self.mean + apart / self.count
            self.squares = self.squares + apart * (values - self.mean)
            if paired:
                self.within = self.within + (self._variance(variance) - self.within) / self.count

    def _estimate(self, result: Any) -> np.ndarray:
        layout = read(result, self.first)
        self.first = layout if self.first is None else self.first
        if not layout.fits(self.first):
            raise InputError(
                f"statistic must return the same numbers for every draw, got {self.first} at "
                f"first and {layout} from draw number {self.count + 1}; "
                f"fill in or sort what it returns"
            )
        return layout.values

    def _must_be_alike(self, paired: bool) -> None:
        if self.count and paired != self.paired:
            raise InputError(
                "statistic must return a pair (estimate, variance) for every draw or for none, "
                "got both; return the variance always"
            )
        self.paired = paired

    def _variance(self, result: Any) -> np.ndarray:
        what = "the variance of a pair (estimate, variance)"
        layout = read(result, self.first)
        if self.first is None or not layout.fits(self.first):
            raise InputError(
                f"{what} must be laid out like the estimate, {self.first}, got {layout}; "
                f"return an array or a dict for several estimates"
            )
        if (layout.values < 0).any():
            raise InputError(
                f"{what} must not be negative, got {np.nanmin(layout.values):g}; "
                f"return an array or a dict for several estimates"
            )
        return layout.values

    def pooled(self, level: float, complete_df: float | None) -> Pooled:
        """What the rules make of all draws."""
        if self.first is None or self.count < 2:
            raise InputError(
                f"draws must be at least 2, or nothing tells how far they differ, "
                f"got {self.count}; draw more, as in sample(table, draws=20)"
            )
        if complete_df is not None and not self.paired:
            raise InputError(
                "complete_df must come with sampling variances, got none; return a pair "
                "(estimate, variance) from the statistic, or leave it out"
            )
        between = self.squares / (self.count - 1)
        within = self.within + np.zeros_like(self.mean)
        numbers = combined(self.count, self.mean, within, between, level, complete_df)
        made = {name: self.first.like(each) for name, each in numbers.items()}
        return Pooled(**made, level=float(level), draws=self.count)
