"""The one door between the caller's data (frames, arrays) and `SeriesSet`."""

from nrtsi.frames.clock import Clock, duration, in_words
from nrtsi.frames.columns import Columns, fitted_columns_must_match
from nrtsi.frames.guesses import BY_ROW_NUMBER
from nrtsi.frames.panel import Panel, read

__all__ = [
    "BY_ROW_NUMBER",
    "Clock",
    "Columns",
    "Panel",
    "duration",
    "fitted_columns_must_match",
    "in_words",
    "read",
]
