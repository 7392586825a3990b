"""Simple ways to fill gaps, each an imputer like any other: what a model has to beat."""

from nrtsi.baselines.mean import Mean
from nrtsi.baselines.neighbour import Backward, Forward, Linear
from nrtsi.baselines.tabular import KNN, MICE
from nrtsi.estimator import Imputer

__all__ = ["BASELINES", "Backward", "Forward", "KNN", "Linear", "MICE", "Mean"]

BASELINES: dict[str, type[Imputer]] = {
    "linear": Linear,
    "forward": Forward,
    "backward": Backward,
    "mean": Mean,
    "knn": KNN,
    "mice": MICE,
}
