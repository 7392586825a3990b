"""Analogs: predicts the missing cells of a series from similar training series."""

from nrtsi.predictors.analogs.model import AnalogModel

__all__ = ["AnalogModel"]
