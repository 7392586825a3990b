"""Simple imputation methods, each an `Imputer`, as references for a model."""

from nrtsi.baselines.base import Imputer
from nrtsi.baselines.kalman import Kalman
from nrtsi.baselines.seasonal import Seasonal
from nrtsi.baselines.simple import Backward, Forward, Linear, Mean, Spline
from nrtsi.baselines.tabular import KNN, MICE

__all__ = [
    "BASELINES",
    "Backward",
    "Forward",
    "Imputer",
    "KNN",
    "Kalman",
    "Linear",
    "MICE",
    "Mean",
    "Seasonal",
    "Spline",
]

BASELINES: dict[str, type[Imputer]] = {
    "linear": Linear,
    "forward": Forward,
    "backward": Backward,
    "mean": Mean,
    "seasonal": Seasonal,
    "spline": Spline,
    "kalman": Kalman,
    "knn": KNN,
    "mice": MICE,
}
