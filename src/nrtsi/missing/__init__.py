"""Draws which observed cells to hide; training, scores and benchmarks share it."""

from nrtsi.missing.hiding import Hide, Hiding, Kind, rows_fail_together
from nrtsi.missing.patterns import blocks, own, points

__all__ = ["Hide", "Hiding", "Kind", "blocks", "own", "points", "rows_fail_together"]
