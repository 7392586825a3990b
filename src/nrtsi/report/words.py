"""Numbers as a reader likes them."""

import math
from collections.abc import Sequence

__all__ = ["joined", "number", "share"]


def number(value: float) -> str:
    """Three significant digits, or what there is to say of a value that has none.

    >>> number(0.01234), number(1234.5), number(3e-9), number(float("nan"))
    ('0.0123', '1,234', '3e-09', '–')
    """
    if not math.isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    whole = abs(value) >= 100
    return f"{value:,.0f}" if whole else f"{float(f'{value:.3g}'):.10g}"


def share(part: float, whole: float) -> str:
    """A part as a percentage that is 0 or 100 only where that is exact.

    >>> share(1, 3), share(1, 10_000), share(9_999, 10_000), share(0, 0)
    ('33 %', 'under 0.1 %', 'over 99.9 %', '0 %')
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "under 0.1 %"
    if 99.9 < percent < 100:
        return "over 99.9 %"
    fine = 0 < percent < 9.95 or 99 < percent < 100
    return f"{percent:.1f} %" if fine else f"{percent:.0f} %"


def joined(words: Sequence[str]) -> str:
    """Words in a row.

    >>> joined(["a"]), joined(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
