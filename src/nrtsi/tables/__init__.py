"""The one door between the caller's data (frames, arrays) and `SeriesSet`."""

from nrtsi.tables.clock import Clock, duration, format_duration
from nrtsi.tables.columns import Columns, fitted_columns_must_match
from nrtsi.tables.detection import BY_ROW_NUMBER
from nrtsi.tables.panel import Panel, read

__all__ = [
    "BY_ROW_NUMBER",
    "Clock",
    "Columns",
    "Panel",
    "duration",
    "fitted_columns_must_match",
    "format_duration",
    "read",
]
