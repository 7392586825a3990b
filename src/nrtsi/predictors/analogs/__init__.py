"""Series that were learnt from, remembered: what those like a gappy one say about its gaps."""

from nrtsi.predictors.analogs.model import AnalogModel, AnalogPrediction
from nrtsi.predictors.analogs.selection import AnalogFit, select_analogs

__all__ = ["AnalogFit", "AnalogModel", "AnalogPrediction", "select_analogs"]
