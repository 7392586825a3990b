"""How sure an imputation is: found on cells that were set aside, and right for their gaps."""

from nrtsi.evaluation.calibration.conformal import Calibration
from nrtsi.evaluation.calibration.error_correlation import ErrorCorrelation
from nrtsi.evaluation.calibration.holdout import HoldOut
from nrtsi.evaluation.calibration.scores import CalibrationScores

__all__ = ["HoldOut", "Calibration", "ErrorCorrelation", "CalibrationScores"]
