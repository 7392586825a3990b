"""`Bounds`: keeps numbers between what a channel can be at least and at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError

__all__ = ["Bounds"]

SHARE = 0.002
"""Softness as a share of a channel's spread: what lies farther inside is left as it is."""

_WIDTHS = 20  # softnesses between two bounds, at least, so that a middle stays that does not bend


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of each channel.

    `inside` bends numbers smoothly and never reverses their order, so that the quantiles of what
    was bent are the bent quantiles (up to rounding). With d the distance to a bound in units of
    the softness s, a number moves away from it by s·log(1 + exp(−d)).
    """

    lower: Float[np.ndarray, " dim"]
    """−inf where there is none."""

    upper: Float[np.ndarray, " dim"]
    """inf where there is none."""

    softness: Float[np.ndarray, " dim"]
    """Width, in the units of the channel, of the strip at a bound in which numbers bend."""

    @classmethod
    def of(
        cls,
        bounds: Any,
        names: Sequence[str],
        spread: Float[np.ndarray, " dim"],
        share: float = SHARE,
    ) -> "Bounds | None":
        """The caller's bounds, by the name of a column; None where nothing is bounded.

        Args:
            bounds: A mapping from columns to (lower, upper), None on either side where there is
                none; or None.
            names: The channels in their order.
            spread: How far the values of each channel spread, in its units.
            share: Softness as a share of the spread; less of it where two bounds are close.

        Raises:
            InputError: A column is unknown, or its bounds are no two numbers in order.

        >>> import numpy as np
        >>> rain = Bounds.of({"rain": (0, None)}, ["rain", "heat"], np.array([5.0, 9.0]))
        >>> rain.inside(np.array([[-40.0, -40.0], [3.0, 3.0]])).round(3)
        array([[  0., -40.],
               [  3.,   3.]])
        """
        pairs = _checked(bounds, names)
        lower = np.array([pairs.get(name, (-inf, inf))[0] for name in names])
        upper = np.array([pairs.get(name, (-inf, inf))[1] for name in names])
        if not (np.isfinite(lower) | np.isfinite(upper)).any():
            return None
        with np.errstate(over="ignore"):
            softness = np.minimum(share * spread, (upper - lower) / _WIDTHS)
        return cls(lower, upper, np.maximum(softness, np.finfo(np.float64).tiny))

    def inside(self, x: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
        """Numbers bent to lie between the bounds, or on one; infinite ones lie on it.

        >>> import numpy as np
        >>> unit = Bounds(np.array([0.0]), np.array([1.0]), np.array([0.05]))
        >>> unit.inside(np.array([[-np.inf], [-0.05], [0.0], [0.5], [7.0]])).round(3).ravel()
        array([0.   , 0.016, 0.035, 0.5  , 1.   ])
        """
        # Both softplus functions written from the nearer bound: far beyond the bounds their
        # difference would be one of huge numbers, and between them nothing but x is left.
        up, down = _push(self._apart(x, self.lower)), _push(self._apart(x, self.upper))
        within = np.clip(x, self.lower, self.upper)
        return np.clip(within + self.softness * (up - down), self.lower, self.upper)

    def kept(self, x: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
        """Numbers bent as by `inside`, but for those at a bound, which stay there.

        A line between two dry hours is dry.
        """
        return np.where((x == self.lower) | (x == self.upper), x, self.inside(x))

    def at(self, channel: Int[np.ndarray, " cell"]) -> "Bounds":
        """The bounds of cells of these channels, each a channel by itself."""
        return Bounds(self.lower[channel], self.upper[channel], self.softness[channel])

    def outside(self, y: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
        """The numbers that `inside` bends to `y`: −inf or inf at a bound and beyond it.

        >>> import numpy as np
        >>> unit = Bounds(np.array([0.0]), np.array([1.0]), np.array([0.05]))
        >>> unit.outside(np.array([[-3.0], [0.0], [0.035], [0.5], [1.0]])).round(2).ravel()
        array([-inf, -inf,  0. ,  0.5,  inf])
        """
        up = _pull(np.where(y <= self.lower, 0.0, self._apart(y, self.lower)))
        down = _pull(np.where(y >= self.upper, 0.0, self._apart(y, self.upper)))
        return y + self.softness * (up - down)

    def _apart(
        self, x: Float[np.ndarray, "*any dim"], bound: Float[np.ndarray, " dim"]
    ) -> Float[np.ndarray, "*any dim"]:
        """Distance to a bound in units of the softness; inf to a bound that is not there."""
        there = np.isfinite(bound)
        with np.errstate(over="ignore"):  # farther than the largest float is far
            return np.where(there, np.abs(x - np.where(there, bound, 0.0)) / self.softness, inf)

    def outside_count(
        self, value: Float[np.ndarray, "row dim"], observed: Bool[np.ndarray, "row dim"]
    ) -> Int[np.ndarray, " dim"]:
        """How many observed cells of each channel lie beyond its bounds."""
        beyond = (value < self.lower) | (value > self.upper)
        return np.count_nonzero(beyond & observed, axis=0)


def _push(apart: np.ndarray) -> np.ndarray:
    """log(1 + exp(−apart)): how far a bound pushes what is so far away."""
    return np.log1p(np.exp(-apart))


def _pull(apart: np.ndarray) -> np.ndarray:
    """log(1 − exp(−apart)), with no digit lost near 0, where it is −inf."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-apart))


def _checked(bounds: object, names: Sequence[str]) -> dict[Any, tuple[float, float]]:
    """The pairs by column, infinite where a side is None.

    Raises:
        InputError: As for `Bounds.of`.
    """
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        raise InputError(
            f"bounds must be a mapping from columns to (lower, upper), got {bounds!r}; "
            f"write bounds={{{_first(names)!r}: (0, None)}}"
        )
    for name in bounds:
        if name not in names:
            raise InputError(
                f"bounds must be of columns that are imputed, got {name!r}; "
                f"there are {list(names)}; rename or leave it out"
            )
    return {name: _pair(name, bounds[name]) for name in bounds}


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) else "column"


def _pair(name: object, pair: object) -> tuple[float, float]:
    what = f"bounds of column {name!r} must be"
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(
            f"{what} a pair (lower, upper), got {pair!r}; write (0, None) for a lower one alone"
        )
    lower, upper = (
        _number(what, side, none) for side, none in zip(pair, (-inf, inf), strict=True)
    )
    if not lower < upper:
        raise InputError(
            f"{what} in order, the lower below the upper, got {lower:g} and {upper:g}; "
            f"exchange or widen them, or write None for no bound"
        )
    return lower, upper


def _number(what: str, side: object, none: float) -> float:
    if side is None:
        return none
    if not isinstance(side, Real) or isinstance(side, bool) or isnan(side):
        raise InputError(f"{what} numbers or None, got {side!r}; write None for no bound")
    return float(side)
