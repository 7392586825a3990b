"""Draws which observed cells to hide; training, scores and benchmarks share it."""

from nrtsi.core.masking.masking import Kind, Mask, Masking, rows_fail_together
from nrtsi.core.masking.patterns import blocks, empirical, points

__all__ = ["Mask", "Masking", "Kind", "blocks", "empirical", "points", "rows_fail_together"]
