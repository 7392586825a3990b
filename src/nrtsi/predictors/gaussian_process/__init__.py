"""Multi-output Gaussian process: predicts cells from observed cells of all channels nearby."""

from nrtsi.predictors.gaussian_process.covariance import Covariance
from nrtsi.predictors.gaussian_process.model import MultiOutputGP
from nrtsi.predictors.gaussian_process.trainer import GPTrainer

__all__ = ["Covariance", "GPTrainer", "MultiOutputGP"]
