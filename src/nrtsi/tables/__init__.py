"""Reads any frame, array or file into series, and writes results in the user's own kind."""

from nrtsi.tables.clock import Clock, format_duration, parse_duration
from nrtsi.tables.detection import BY_ROW_NUMBER, Columns, quote
from nrtsi.tables.panel import Panel, read
from nrtsi.tables.reading import open_frame

__all__ = [
    "BY_ROW_NUMBER",
    "Clock",
    "Columns",
    "Panel",
    "format_duration",
    "open_frame",
    "parse_duration",
    "quote",
    "read",
]
