"""`ImputeOptions` and `ImputeTask`: what to impute, which rows to return and what to refuse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.baselines import BASELINES
from nrtsi.config import CalibrationConfig
from nrtsi.core.gaps import Gaps
from nrtsi.errors import InputError
from nrtsi.tables import Clock, Panel

__all__ = ["ImputeOptions", "ImputeTask", "Limits", "RefusedCells", "check_levels", "check_method"]

DEFAULT_INTERVAL = CalibrationConfig().level


@dataclass(frozen=True)
class ImputeOptions:
    """Options of `NRTSI.impute`; its docstring explains each."""

    method: str = "nrtsi"
    interval: float | None = None
    max_gap: float | str | None = None
    max_width: float | Mapping[str, float] | None = None
    provenance: bool = False

    def __post_init__(self) -> None:
        check_method(self.method)
        interval = self.interval
        if interval is not None and not _is_probability(interval, most=1 - 1e-6):
            raise InputError(
                f"interval must be a probability between 0 and 1, got {interval!r}; write 0.9"
            )

    @classmethod
    def pop(cls, arguments: dict[str, Any]) -> "ImputeOptions":
        """Removes the options from `arguments` and returns them."""
        names = [field.name for field in fields(cls) if field.name in arguments]
        return cls(**{name: arguments.pop(name) for name in names})

    @property
    def level(self) -> float:
        """Probability of the interval."""
        return DEFAULT_INTERVAL if self.interval is None else float(self.interval)

    @property
    def adds_columns(self) -> bool:
        """True if the result has columns beside the values."""
        return self.interval is not None or self.provenance

    @property
    def needs_intervals(self) -> bool:
        """True if the result depends on intervals."""
        return self.adds_columns or self.max_width is not None

    def columns(self, name: str) -> list[str]:
        """Returns the columns that are added for the value column `name`.

        >>> ImputeOptions(interval=0.9).columns("no2")
        ['no2_lower', 'no2_upper']
        """
        about = ("source", "method", "gap") if self.provenance else ()
        return [f"{name}_{each}" for each in (*about, "lower", "upper")]


@dataclass(frozen=True)
class RefusedCells:
    """The cells that are left missing, and why."""

    too_long: Bool[np.ndarray, "row dim"]
    """The gap is longer than allowed."""
    too_wide: Bool[np.ndarray, "row dim"]
    """The interval is wider than allowed, though the gap is not too long."""

    @property
    def cells(self) -> Bool[np.ndarray, "row dim"]:
        """All refused cells."""
        return self.too_long | self.too_wide


@dataclass(frozen=True)
class Limits:
    """The longest gap and the widest interval that are imputed."""

    longest: float
    """Length of a gap, in units, from the observation before to the one after."""
    widest: Float[np.ndarray, " dim"]
    """Width of an interval by channel, in the units of the data."""

    @classmethod
    def of(cls, options: ImputeOptions, clock: Clock, names: Sequence[str]) -> "Limits":
        """Returns the limits that `options` set for columns `names`, and checks them."""
        gap, width = options.max_gap, options.max_width
        if isinstance(width, Mapping):
            unknown = [name for name in width if name not in names]
            if unknown:
                raise InputError(
                    f"max_width must name imputed columns, which are {', '.join(names)}, "
                    f"got {unknown[0]!r}; leave it out or correct it"
                )
            widest = [_width(width[name]) if name in width else inf for name in names]
        else:
            widest = [inf if width is None else _width(width)] * len(names)
        longest = inf if gap is None else clock.parse_length(gap, "max_gap")
        return cls(longest, np.array(widest))

    def refused(self, gaps: Gaps, width: Float[np.ndarray, "row dim"] | None) -> RefusedCells:
        """Returns the missing cells that exceed a limit."""
        missing = gaps.number >= 0
        # Rounding in uneven times must not decide about a gap of exactly this length.
        too_long = missing & (gaps.length > self.longest * (1 + 1e-9))
        wide = np.zeros_like(too_long) if width is None else width > self.widest
        return RefusedCells(too_long, missing & ~too_long & wide)


@dataclass(frozen=True)
class ImputeTask:
    """Data, the rows to return and the options, checked once."""

    panel: Panel
    """The data as they were read."""
    query: Panel
    """The rows to return: `panel` itself, or those of `at` or `every`."""
    options: ImputeOptions
    limits: Limits

    @classmethod
    def of(
        cls,
        panel: Panel,
        options: ImputeOptions | None = None,
        *,
        at: Any = None,
        every: Any = None,
    ) -> "ImputeTask":
        """Checks the options against the data, and raises InputError if one does not suit them."""
        options = options or ImputeOptions()
        query, names = panel.query(at, every), [str(name) for name in panel.columns.values or ()]
        if options.adds_columns:
            query.writer.check_new_columns([c for name in names for c in options.columns(name)])
        return cls(panel, query, options, Limits.of(options, panel.clock, names))


def check_method(method: str) -> None:
    """Refuses the name of an unknown method."""
    if method not in ("nrtsi", "auto", *BASELINES):
        known = ", ".join(BASELINES)
        raise InputError(
            f"method must be nrtsi, auto or one of {known}, got {method!r}; correct it"
        )


def check_levels(levels: Any) -> None:
    """Refuses levels that are not probabilities."""
    is_list = isinstance(levels, list | tuple | np.ndarray) and len(levels) > 0
    if not is_list or not all(_is_probability(level) for level in levels):
        raise InputError(
            f"levels must be a list of numbers between 0 and 1, got {levels!r}; "
            f"write (0.05, 0.5, 0.95)"
        )


def _is_probability(value: Any, most: float = 1.0) -> bool:
    return isinstance(value, int | float | np.number) and bool(0 < value < most)


def _width(width: Any) -> float:
    is_number = isinstance(width, Real) and not isinstance(width, bool)
    if not is_number or not (isfinite(width) and width > 0):
        raise InputError(
            f"max_width must be a positive number in the units of the column, or one for each "
            f"column, got {width!r}; give a number"
        )
    return float(width)
