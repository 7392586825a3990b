"""Draws series, the steps of their imputation, and errors, with matplotlib.

Each function replaces an existing file and returns the figure (`plot_gaps` returns the errors).
The arguments that they share:

- `path`: the file to write, .png, .svg or .pdf.
- `model`: a fitted model.
- `frame`: data with missing cells.
- `series`: which series, counted from 0 in the sorted order of the ids.
- `columns`: names of the value columns to draw; by default all, or the first if the plot has room
  for one.
- `plane`: draw two columns against each other instead of over time.
- `listener`: is called at every step of the imputation.

They raise `InputError` if matplotlib is not installed, there is no such series or column, or the
file cannot be written.
"""

from nrtsi.report.plots.canvas import check_picture
from nrtsi.report.plots.gaps import plot_gaps
from nrtsi.report.plots.series import (
    plot_attention,
    plot_draws,
    plot_filling,
    plot_procedure,
    plot_series,
)

__all__ = ["check_picture", "plot_attention", "plot_draws", "plot_filling", "plot_gaps"]
__all__ += ["plot_procedure", "plot_series"]
