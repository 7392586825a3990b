"""Simple ways to fill gaps, each an imputer like any other: what a model has to beat."""

from nrtsi.baselines.base import Imputer
from nrtsi.baselines.kalman import Kalman
from nrtsi.baselines.mean import Mean
from nrtsi.baselines.neighbour import Backward, Forward, Linear
from nrtsi.baselines.seasonal import Seasonal
from nrtsi.baselines.spline import Spline
from nrtsi.baselines.tabular import KNN, MICE

__all__ = [
    "BASELINES",
    "Backward",
    "Forward",
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
