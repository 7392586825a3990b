"""The registry of base predictors, and the ones that a model keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int
from torch import Tensor

from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import with_prefix
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs import AnalogModel
from nrtsi.predictors.base import BasePredictor, State
from nrtsi.predictors.dynamics import TransitionModel
from nrtsi.predictors.gaussian_process import MultiOutputGP

__all__ = ["PREDICTORS", "BasePredictors", "Exclude"]

PREDICTORS: dict[str, type[BasePredictor]] = {
    "analogs": AnalogModel,
    "gp": MultiOutputGP,
    "dynamics": TransitionModel,
}
"""Base predictors by name, in the order in which they are fitted."""

Exclude: TypeAlias = Mapping[str, Int[np.ndarray, " series"]]
"""By predictor, the number of each series among the stored series that it leaves out, or -1."""


@dataclass(frozen=True)
class BasePredictors:
    """The fitted base predictors of a model, by name."""

    fitted: Mapping[str, BasePredictor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.fitted)

    def __contains__(self, name: str) -> bool:
        return name in self.fitted

    def adding(self, name: str, predictor: BasePredictor) -> "BasePredictors":
        """These predictors and one more."""
        return BasePredictors({**self.fitted, name: predictor})

    def predict(
        self,
        series: SeriesSet,
        exclude: Exclude | None = None,
        threads: Threads | None = None,
    ) -> tuple[BasePrediction, ...]:
        """The prediction of each predictor for every cell of `series`."""
        excluded = exclude or {}
        return tuple(
            predictor.predict(series, excluded.get(name), threads)
            for name, predictor in self.fitted.items()
        )

    def locate(self, source: SeriesSet) -> Exclude:
        """The number of each training series among those that a predictor stores."""
        places = {name: each.locate(source) for name, each in self.fitted.items()}
        return {name: place for name, place in places.items() if place is not None}

    @property
    def from_gradients(self) -> bool:
        """True if one of them is trained by gradient descent on the training part."""
        return any(predictor.from_gradients for predictor in self.fitted.values())

    @property
    def slow(self) -> bool:
        """True if predicting takes longer than sampling windows."""
        return any(predictor.slow for predictor in self.fitted.values())

    @property
    def network(self) -> str | None:
        """The network that suits data these predictors apply to; None: no preference."""
        preferred = (predictor.network for predictor in self.fitted.values())
        return next((name for name in preferred if name is not None), None)

    def trained_by_gradient(self) -> "BasePredictors":
        """Those that are trained by gradient descent."""
        return BasePredictors({n: each for n, each in self.fitted.items() if each.from_gradients})

    def describe(self) -> dict[str, str]:
        """A few words on every base predictor, for `info`."""
        return {name: str(self.fitted.get(name, "not used")) for name in PREDICTORS}

    def reloaded(self) -> "BasePredictors":
        """The predictors as they are after saving and loading."""
        return BasePredictors.from_state(*self.state())

    def state(self) -> State:
        """Tensors by name, and a record that JSON can hold."""
        tensors: dict[str, Tensor] = {}
        record: dict[str, Any] = {}
        for name, predictor in self.fitted.items():
            own, record[name] = predictor.state()
            tensors |= {f"{name}.{key}": tensor for key, tensor in own.items()}
        return tensors, record

    @classmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "BasePredictors":
        """The predictors that `state` describes."""
        return cls(
            {
                name: kind.from_state(with_prefix(tensors, f"{name}."), record[name])
                for name, kind in PREDICTORS.items()
                if name in record
            }
        )
