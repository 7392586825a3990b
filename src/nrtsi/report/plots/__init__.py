"""Draws series, the steps of their imputation, and errors, with matplotlib.

Each function replaces an existing file and returns the figure (`plot_gaps` returns the errors).
It raises `InputError` if matplotlib is not installed, there is no such series or column, or the
file cannot be written. Series are counted in the sorted order of their ids.
"""

from nrtsi.report.plots.attention import plot_attention
from nrtsi.report.plots.canvas import check_picture
from nrtsi.report.plots.draws import plot_draws
from nrtsi.report.plots.gaps import plot_gaps
from nrtsi.report.plots.procedure import plot_procedure
from nrtsi.report.plots.series import plot_filling, plot_series

__all__ = [
    "check_picture",
    "plot_attention",
    "plot_draws",
    "plot_filling",
    "plot_gaps",
    "plot_procedure",
    "plot_series",
]
