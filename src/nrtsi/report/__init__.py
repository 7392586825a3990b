"""Writes the HTML report of an imputation and draws plots."""

from nrtsi.report.page import check_report, render, write_report

__all__ = ["check_report", "render", "write_report"]
