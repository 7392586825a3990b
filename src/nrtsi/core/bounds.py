"""`Bounds`: keeps values between a minimum and a maximum of each channel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError

__all__ = ["Bounds"]

SOFTNESS = 0.002  # default softness, as a share of the spread of a channel
MIN_WIDTHS = 20  # softnesses between two bounds, at least: values in the middle do not change
AnyValues = Float[np.ndarray, "*any dim"]


@dataclass(frozen=True)
class Bounds:
    """The minimum and the maximum of each channel.

    `soft_clip` is smooth and monotone, so that the quantiles of clipped values are the clipped
    quantiles. With d the distance to a bound in units of the softness s, a value moves away from
    the bound by s·log(1 + exp(−d)).
    """

    lower: Float[np.ndarray, " dim"]  # minimum; −inf without one
    upper: Float[np.ndarray, " dim"]  # maximum; inf without one
    softness: Float[np.ndarray, " dim"]  # distance from a bound within which values change

    @classmethod
    def of(
        cls,
        bounds: Any,
        names: Sequence[str],
        spread: Float[np.ndarray, " dim"],
        share: float = SOFTNESS,
    ) -> "Bounds | None":
        """Reads bounds by column; None if no channel is bounded.

        Args:
            bounds: A mapping from columns to (lower, upper), either of which may be None; or None.
            names: Names of the channels.
            spread: Standard deviation of each channel.
            share: Softness as a share of the spread; it is smaller if two bounds are close.

        >>> rain = Bounds.of({"rain": (0, None)}, ["rain", "heat"], np.array([5.0, 9.0]))
        >>> rain.soft_clip(np.array([[-40.0, -40.0], [3.0, 3.0]])).round(3)
        array([[  0., -40.],
               [  3.,   3.]])
        """
        pairs = _read(bounds, names)
        lower, upper = np.array([pairs.get(name, (-inf, inf)) for name in names]).reshape(-1, 2).T
        if not (np.isfinite(lower) | np.isfinite(upper)).any():
            return None
        with np.errstate(over="ignore"):
            softness = np.minimum(share * spread, (upper - lower) / MIN_WIDTHS)
        return cls(lower, upper, np.maximum(softness, np.finfo(np.float64).tiny))

    def soft_clip(self, x: AnyValues) -> AnyValues:
        """Moves values between the bounds; infinite values move to a bound.

        >>> unit = Bounds(np.array([0.0]), np.array([1.0]), np.array([0.05]))
        >>> unit.soft_clip(np.array([[-np.inf], [-0.05], [0.0], [0.5], [7.0]])).round(3).ravel()
        array([0.   , 0.016, 0.035, 0.5  , 1.   ])
        """
        # Relative to the nearer bound: the difference of two softplus functions loses digits.
        up, down = (
            np.log1p(np.exp(-self._distance(x, bound))) for bound in (self.lower, self.upper)
        )
        within = np.clip(x, self.lower, self.upper)
        return np.clip(within + self.softness * (up - down), self.lower, self.upper)

    def clip(self, x: AnyValues) -> AnyValues:
        """Soft-clips all values except those exactly on a bound.

        For example, the interpolation between two dry hours is dry.
        """
        return np.where((x == self.lower) | (x == self.upper), x, self.soft_clip(x))

    def unclip(self, y: AnyValues) -> AnyValues:
        """The inverse of `soft_clip`; −inf or inf for values on a bound or beyond it.

        >>> unit = Bounds(np.array([0.0]), np.array([1.0]), np.array([0.05]))
        >>> unit.unclip(np.array([[-3.0], [0.0], [0.035], [0.5], [1.0]])).round(2).ravel()
        array([-inf, -inf,  0. ,  0.5,  inf])
        """
        low = np.where(y <= self.lower, 0.0, self._distance(y, self.lower))
        high = np.where(y >= self.upper, 0.0, self._distance(y, self.upper))
        with np.errstate(divide="ignore"):
            # log(1 − exp(−d)), exact near 0
            up, down = (np.log(-np.expm1(-distance)) for distance in (low, high))
        return y + self.softness * (up - down)

    def take(self, channel: Int[np.ndarray, " cell"]) -> "Bounds":
        """The bounds of cells of these channels."""
        return Bounds(self.lower[channel], self.upper[channel], self.softness[channel])

    def count_outside(
        self, value: Float[np.ndarray, "row dim"], observed: Bool[np.ndarray, "row dim"]
    ) -> Int[np.ndarray, " dim"]:
        """Counts the observed cells of each channel beyond its bounds."""
        beyond = (value < self.lower) | (value > self.upper)
        return np.count_nonzero(beyond & observed, axis=0)

    def _distance(self, x: AnyValues, bound: Float[np.ndarray, " dim"]) -> AnyValues:
        """Distance to a bound in units of the softness; infinite without a bound."""
        finite = np.isfinite(bound)
        with np.errstate(over="ignore"):
            return np.where(finite, np.abs(x - np.where(finite, bound, 0.0)) / self.softness, inf)


def _read(bounds: object, names: Sequence[str]) -> dict[Any, tuple[float, float]]:
    """The pairs by column; a side that is None is infinite."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        raise InputError(
            f"bounds must be a mapping from columns to (lower, upper), got {bounds!r}; "
            f"write bounds={{{[*names, 'column'][0]!r}: (0, None)}}"
        )
    for name in bounds:
        if name not in names:
            raise InputError(
                f"bounds must be of columns that are imputed, got {name!r}; "
                f"there are {list(names)}; rename or leave it out"
            )
    return {name: _read_pair(name, pair) for name, pair in bounds.items()}


def _read_pair(name: object, pair: object) -> tuple[float, float]:
    rule = f"bounds of column {name!r} must be"
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(
            f"{rule} a pair (lower, upper), got {pair!r}; write (0, None) for a lower one alone"
        )
    for side in pair:
        number = isinstance(side, Real) and not isinstance(side, bool) and not isnan(side)
        if side is not None and not number:
            raise InputError(f"{rule} numbers or None, got {side!r}; write None for no bound")
    lower = -inf if pair[0] is None else float(pair[0])
    upper = inf if pair[1] is None else float(pair[1])
    if not lower < upper:
        raise InputError(
            f"{rule} in order, the lower below the upper, got {lower:g} and {upper:g}; "
            f"exchange or widen them, or write None for no bound"
        )
    return lower, upper
