"""`Limits`: gaps too long, and intervals too wide, to be filled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.gaps import Gaps
from nrtsi.errors import InputError
from nrtsi.tables import Clock

__all__ = ["Limits", "RefusedCells"]


@dataclass(frozen=True)
class RefusedCells:
    """The cells that are left missing, and why."""

    too_long: Bool[np.ndarray, "row dim"]
    """The gap is longer than is allowed."""

    too_wide: Bool[np.ndarray, "row dim"]
    """The interval is wider than is allowed, though the gap is not too long."""

    @property
    def cells(self) -> Bool[np.ndarray, "row dim"]:
        """All of them."""
        return self.too_long | self.too_wide


@dataclass(frozen=True)
class Limits:
    """What is too much to be filled."""

    longest: float
    """Gap that is still filled, in units, from the observation before to the one after."""

    widest: Float[np.ndarray, " dim"]
    """Interval with which a cell is still filled, by channel, in the caller's units."""

    @classmethod
    def of(
        cls,
        max_gap: float | str | None,
        max_width: float | Mapping[str, float] | None,
        clock: Clock,
        names: Sequence[str],
    ) -> "Limits":
        """What the caller asks for.

        Raises:
            InputError: One of them is no length, or no width, or of a column there is not.
        """
        longest = inf if max_gap is None else clock.parse_length(max_gap, "max_gap")
        return cls(longest, _widths(max_width, names))

    @property
    def of_widths(self) -> bool:
        """Whether it takes intervals to decide."""
        return bool(np.isfinite(self.widest).any())

    def refused(self, gaps: Gaps, width: Float[np.ndarray, "row dim"] | None) -> RefusedCells:
        """The missing cells that are not to be filled."""
        missing = gaps.number >= 0
        # Times that are not quite even must not decide about a gap of just this length.
        too_long = missing & (gaps.length > self.longest * (1 + 1e-9))
        too_wide = np.zeros_like(too_long)
        if width is not None:
            too_wide = missing & ~too_long & (width > self.widest)
        return RefusedCells(too_long, too_wide)


def _widths(
    max_width: float | Mapping[str, float] | None, names: Sequence[str]
) -> Float[np.ndarray, " dim"]:
    if max_width is None:
        return np.full(len(names), inf)
    if not isinstance(max_width, Mapping):
        return np.full(len(names), _width(max_width))
    unknown = [name for name in max_width if name not in names]
    if unknown:
        raise InputError(
            f"max_width must name columns that are filled, which are {', '.join(names)}, "
            f"got {unknown[0]!r}; leave it out or correct it"
        )
    return np.array([_width(max_width[name]) if name in max_width else inf for name in names])


def _width(width: Any) -> float:
    is_number = isinstance(width, Real) and not isinstance(width, bool)
    if not is_number or not (isfinite(width) and width > 0):
        raise InputError(
            f"max_width must be a positive number in the units of the column, or one for each "
            f"column, got {width!r}; give a number"
        )
    return float(width)
