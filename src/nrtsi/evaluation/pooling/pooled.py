"""`Pooled`: what pooling gives, and how it reads."""

from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

from nrtsi.evaluation.pooling.layout import read

__all__ = ["Pooled"]

_LINES = 12  # estimates that are shown before the rest is counted


@dataclass(frozen=True, repr=False)
class Pooled:
    """A statistic over draws, by Rubin's rules.

    All but `level` and `draws` look like what the statistic returned: a number, an array, a Series
    or a dict. An entry that is NaN in any draw is NaN here.
    """

    estimate: Any
    """Mean of the statistic over the draws."""

    standard_error: Any
    """Square root of `within + (1 + 1/draws) * between`."""

    lower: Any
    """Lower end of the interval."""

    upper: Any
    """Upper end of the interval."""

    df: Any
    """Degrees of freedom of the interval's t distribution."""

    within: Any
    """Mean over the draws of the sampling variance inside one; 0 where none was given."""

    between: Any
    """Variance of the statistic from draw to draw."""

    missing_information: Any
    """Fraction of the information about the estimate that is missing with the values (Rubin's γ).

    Without sampling variances it is 1, since nothing else is uncertain; 0 where no draw differs.
    """

    level: float
    """How often such an interval should hold the true value."""

    draws: int
    """How many draws were pooled."""

    def __repr__(self) -> str:
        layout = read(self.estimate)
        rows = [read(each).values.ravel() for each in (self.estimate, self.lower, self.upper)]
        ends = list(zip(*(row.tolist() for row in rows), strict=True))
        level = f"{100 * self.level:g} %"
        if layout.kind == "number":
            estimate, lower, upper = _shown(*ends[0])
            return f"{estimate} ({level}: {lower} to {upper}) from {self.draws} draws"
        lines = [f"{len(ends)} estimates ({level} intervals) from {self.draws} draws"]
        for name, each in zip(layout.names(_LINES), ends, strict=False):
            lines.append("  {}: {} ({} to {})".format(name, *_shown(*each)))
        more = [f"  and {len(ends) - _LINES} more"] if len(ends) > _LINES else []
        return "\n".join([*lines, *more])


def _shown(estimate: float, lower: float, upper: float) -> tuple[str, ...]:
    """The three with as many digits as the width of the interval gives a meaning to.

    >>> _shown(12.345, 11.02, 13.67)
    ('12.3', '11.0', '13.7')
    """
    half = (upper - lower) / 2
    if not (isfinite(half) and 1e-9 < half < 1e15):
        return tuple(f"{each:.6g}" for each in (estimate, lower, upper))
    digits = max(0, 1 - floor(log10(half)))
    # Adding 0 turns −0.0 into 0.0.
    return tuple(f"{round(each, digits) + 0.0:.{digits}f}" for each in (estimate, lower, upper))
