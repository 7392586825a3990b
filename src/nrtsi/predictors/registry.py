"""The registry of base predictors, and the ones that a model keeps."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import with_prefix
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs import AnalogModel
from nrtsi.predictors.base import BasePredictor, Numbers, State
from nrtsi.predictors.dynamics import TransitionModel
from nrtsi.predictors.gaussian_process import MultiOutputGP

__all__ = ["PREDICTORS", "BasePredictors"]

PREDICTORS: dict[str, type[BasePredictor]] = {
    "analogs": AnalogModel,
    "gp": MultiOutputGP,
    "dynamics": TransitionModel,
}
"""Base predictors by name, in the order in which they are fitted."""


class BasePredictors(dict[str, BasePredictor]):
    """The fitted base predictors of a model, by name."""

    def predict(
        self, series: SeriesSet, exclude: Numbers | None = None, threads: Threads | None = None
    ) -> tuple[BasePrediction, ...]:
        """The prediction of each predictor for every cell of `series`."""
        return tuple(each.predict(series, exclude, threads) for each in self.values())

    @property
    def from_gradients(self) -> "BasePredictors":
        """Those that are trained by gradient descent on the training part."""
        return BasePredictors({n: each for n, each in self.items() if each.from_gradients})

    def describe(self) -> dict[str, str]:
        """A few words on every base predictor, for `info`."""
        return {name: str(self.get(name, "not used")) for name in PREDICTORS}

    def reloaded(self) -> "BasePredictors":
        """The predictors as they are after saving and loading."""
        return BasePredictors.from_state(*self.state())

    def state(self) -> State:
        """Tensors by name, and a record that JSON can hold."""
        tensors: dict[str, Tensor] = {}
        record: dict[str, Any] = {}
        for name, predictor in self.items():
            own, record[name] = predictor.state()
            tensors |= {f"{name}.{key}": tensor for key, tensor in own.items()}
        return tensors, record

    @classmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "BasePredictors":
        """The predictors that `state` describes."""
        restored = {
            name: kind.from_state(with_prefix(tensors, f"{name}."), record[name])
            for name, kind in PREDICTORS.items()
            if name in record
        }
        return cls(restored)
