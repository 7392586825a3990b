"""Pictures of series, of how they are filled, and of how well."""

from nrtsi.plotting.attention import plot_attention
from nrtsi.plotting.canvas import check_picture
from nrtsi.plotting.draws import plot_draws
from nrtsi.plotting.gaps import plot_gaps
from nrtsi.plotting.procedure import plot_procedure
from nrtsi.plotting.series import plot_filling, plot_series

__all__ = [
    "check_picture",
    "plot_attention",
    "plot_draws",
    "plot_filling",
    "plot_gaps",
    "plot_procedure",
    "plot_series",
]
