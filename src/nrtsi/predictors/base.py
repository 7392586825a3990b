"""What can be said of a series before a network is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.names import with_prefix
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs import AnalogModel
from nrtsi.predictors.dynamics import TransitionModel
from nrtsi.predictors.gaussian_process import MultiOutputGP

__all__ = ["BasePredictors"]

# How far off a hint may usually be, at least and at most, for it to make a difference.
SURE = (1e-4, 4.0)


@dataclass(frozen=True)
class BasePredictors:
    """Where hints come from."""

    memory: AnalogModel | None = None
    """What is remembered of other series."""

    flow: TransitionModel | None = None
    """How rows go on."""

    field: MultiOutputGP | None = None
    """How cells go with each other."""

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(each is not None for each in (self.memory, self.flow, self.field))

    def predict(
        self,
        series: SeriesSet,
        own: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> tuple[BasePrediction, ...]:
        """What is to be said of `series`, from its observed cells alone.

        `own` says which of them are themselves remembered; without, they are recognised.
        """
        given = []
        if self.memory is not None:
            recalled = self.memory.recall(series, own, threads)
            there = recalled.scale > 0
            given.append(BasePrediction(recalled.value, there, _unsure(recalled.scale, there)))
        if self.flow is not None:
            carried = self.flow.carry(series)
            given.append(BasePrediction(carried.value, carried.there[:, None], carried.apart))
        if self.field is not None:
            kriged = self.field.krige(series, threads)
            there = np.ones_like(series.observed)
            given.append(BasePrediction(kriged.value, there, _unsure(kriged.scale, there)))
        return tuple(given)

    def words(self) -> dict[str, str]:
        """What they are."""
        return {
            "remembered": "nothing" if self.memory is None else str(self.memory),
            "carried": "nothing" if self.flow is None else str(self.flow),
            "kriged": "nothing" if self.field is None else str(self.field),
        }

    def lasting(self) -> "BasePredictors":
        """The same as they are in a file, which leaves out what only training needs."""
        return replace(self, memory=None if self.memory is None else self.memory.lasting())

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that `unpack` makes the same of."""
        tensors: dict[str, Tensor] = {}
        record: dict[str, Any] = {"memory": None}
        if self.memory is not None:
            arrays, record["memory"] = self.memory.pack()
            tensors |= {f"memory.{name}": torch.from_numpy(a) for name, a in arrays.items()}
        for kind, learnt in (("flow", self.flow), ("field", self.field)):
            weights, record[kind] = ({}, None) if learnt is None else learnt.pack()
            tensors |= {f"{kind}.{name}": t for name, t in weights.items()}
        return tensors, record

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> "BasePredictors":
        """What `pack` took apart."""
        memory = flow = field = None
        if record.get("memory"):
            arrays = {name: t.numpy() for name, t in with_prefix(tensors, "memory.").items()}
            memory = AnalogModel.unpack(arrays, record["memory"])
        if record.get("flow"):
            flow = TransitionModel.unpack(with_prefix(tensors, "flow."), record["flow"])
        if record.get("field"):
            field = MultiOutputGP.unpack(with_prefix(tensors, "field."), record["field"])
        return cls(memory, flow, field)


def _unsure(
    scale: Float[np.ndarray, "row dim"], there: Bool[np.ndarray, "row dim"]
) -> Float[np.ndarray, "row dim"]:
    """How far off a hint usually is, on a scale of ratios."""
    return np.log2(np.where(there, scale.clip(*SURE), SURE[1])) / 4
