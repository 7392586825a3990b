"""Many draws, one result: a statistic with an interval that knows how much was missing."""

from nrtsi.pooling.combination import pool
from nrtsi.pooling.pooled import Pooled

__all__ = ["Pooled", "pool"]
