"""What a method predicts for every cell."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["BasePrediction", "Prediction"]


@dataclass(frozen=True)
class Prediction:
    """A mean and a standard deviation for every cell."""

    mean: Float[np.ndarray, "row dim"]
    """The predicted value; the observed value where the cell is observed."""

    std: Float[np.ndarray, "row dim"]
    """The expected size of the error; 0 where the cell is observed."""


@dataclass(frozen=True)
class BasePrediction:
    """What one base predictor proposes for every cell."""

    mean: Float[np.ndarray, "row dim"]
    available: Bool[np.ndarray, " row #dim"]
    """False where the predictor does not apply."""

    uncertainty: Float[np.ndarray, "row dim"]
    """How uncertain the proposal is, as an input of the network; the unit is the predictor's."""
