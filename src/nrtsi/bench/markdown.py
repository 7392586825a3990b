"""Tables and numbers in Markdown."""

import math
from collections.abc import Iterable, Sequence

__all__ = ["NONE", "bold", "grid", "number"]

NONE = "–"
"""A cell without a figure."""


def grid(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in plain text too."""
    table = [header, *lines]
    width = [max(len(line[column]) for line in table) for column in range(len(header))]

    def text(line: Sequence[str]) -> str:
        first, *rest = zip(line, width, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(size) for cell, size in rest)]
        return f"| {' | '.join(cells)} |"

    rule = ["-" * width[0], *("-" * (size - 1) + ":" for size in width[1:])]
    return "\n".join([text(header), text(rule), *(text(line) for line in table[1:])])


def bold(text: str, condition: bool) -> str:
    """The text, bold on a condition."""
    return f"**{text}**" if condition else text


def number(value: float | None, digits: int = 3) -> str:
    """A number with this many significant digits, without an exponent if it is not tiny.

    >>> number(0.020346), number(12345.6), number(0.0000123), number(21.04), number(None)
    ('0.0203', '12346', '1.23e-05', '21.0', '–')
    """
    if value is None:
        return NONE
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    power = math.floor(math.log10(abs(value)))
    if power < -4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - power)}f}"
