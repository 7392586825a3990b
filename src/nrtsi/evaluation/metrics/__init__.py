"""How good an imputation is: its errors, its draws, and how real its paths look."""

from nrtsi.evaluation.metrics.draws import avg_l2, avg_mse, avg_over_min, min_l2, min_mse
from nrtsi.evaluation.metrics.errors import coverage, crps, l2, mae, mse, nll
from nrtsi.evaluation.metrics.paths import (
    average_length,
    reflection_to_wall,
    sinuosity,
    step_change,
    step_deviation,
)

__all__ = [
    "mse",
    "mae",
    "l2",
    "nll",
    "crps",
    "coverage",
    "min_l2",
    "avg_l2",
    "min_mse",
    "avg_mse",
    "avg_over_min",
    "step_change",
    "step_deviation",
    "average_length",
    "sinuosity",
    "reflection_to_wall",
]
