"""Draws which observed cells to hide; training, scores and benchmarks share it."""

from nrtsi.core.masking.masking import Hide, Kind, Masking, rows_fail_together
from nrtsi.core.masking.patterns import blocks, own, points

__all__ = ["Hide", "Masking", "Kind", "blocks", "own", "points", "rows_fail_together"]
