"""One page, in one file, that shows what was missing, what was filled in and how well."""

from nrtsi.report.content import (
    Coverage,
    Gap,
    MethodUse,
    RefusalCount,
    Report,
    ReportScore,
    SeriesShown,
    State,
    Tally,
)
from nrtsi.report.page import check_report, render, write_report
from nrtsi.report.selection import most_missing

__all__ = [
    "MethodUse",
    "Coverage",
    "Gap",
    "RefusalCount",
    "Report",
    "ReportScore",
    "SeriesShown",
    "State",
    "Tally",
    "check_report",
    "most_missing",
    "render",
    "write_report",
]
