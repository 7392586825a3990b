"""How sure an imputation is: found on cells that were set aside, and right for their gaps."""

from nrtsi.calibration.aside import Aside
from nrtsi.calibration.errors import Errors
from nrtsi.calibration.noise import Coherence
from nrtsi.calibration.quantiles import Calibration

__all__ = ["Aside", "Calibration", "Coherence", "Errors"]
