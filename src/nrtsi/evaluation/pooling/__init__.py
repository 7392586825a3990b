"""Many draws, one result: a statistic with an interval that knows how much was missing."""

from nrtsi.evaluation.pooling.combination import pool
from nrtsi.evaluation.pooling.pooled import Pooled

__all__ = ["Pooled", "pool"]
