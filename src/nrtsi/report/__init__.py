"""Writes the HTML report of an imputation and draws plots."""

from nrtsi.report.content import (
    CellState,
    ChannelReport,
    Coverage,
    GapRange,
    MethodUse,
    RefusalCount,
    Report,
    ReportScore,
    ReportSeries,
)
from nrtsi.report.page import check_report, render, write_report

__all__ = [
    "CellState",
    "ChannelReport",
    "Coverage",
    "GapRange",
    "MethodUse",
    "RefusalCount",
    "Report",
    "ReportScore",
    "ReportSeries",
    "check_report",
    "render",
    "write_report",
]
