"""The mean of the series most like one, in all channels together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.points import PointIndex

__all__ = ["KNNAnalogs"]

# A distance below which a series is as near as can be.
SAME = 1e-6


@dataclass(frozen=True)
class KNNAnalogs:
    """All remembered series, of which a few are like the one at hand: days of one kind, say.

    That a day is a Sunday shows in all channels. Where series are few and noisy, the mean of such
    days is wrong in other places than what a covariance of all of them expects.
    """

    value: Float[np.ndarray, "channel point series"]

    near: int
    """How many are put together."""

    @classmethod
    def of(cls, stock: SeriesLibrary, near: int) -> "KNNAnalogs":
        """Remembers the series in stock."""
        # As a file has it, so that a model that was saved says the same.
        return cls(stock.value.astype(np.float16).astype(np.float32), near)

    def anew(self, stock: SeriesLibrary) -> "KNNAnalogs":
        """Remembers other series in the same way."""
        return KNNAnalogs.of(stock, self.near)

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"the {self.near} of {self.value.shape[-1]:,} series most like one"

    def tell(
        self, known: PointIndex, value: Float[np.ndarray, " known"], asked: PointIndex, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """The mean of those like it, nearer ones counting more, and how far apart they are.

        Without series number `own`, where it is not negative.
        """
        apart = np.square(known.of(self.value) - value[:, None].astype(np.float32))
        distance = np.sqrt(apart.mean(axis=0) if value.size else np.ones(self.value.shape[-1]))
        if own >= 0:
            distance[own] = np.inf
        # Without anything known all are alike.
        count = self.near if value.size else distance.size - (own >= 0)
        near = np.argpartition(distance, count - 1)[:count]
        weight = 1 / np.maximum(distance[near], SAME).astype(np.float64)
        weight /= weight.sum()
        told = asked.of(self.value[..., near]).astype(np.float64)
        answer = told @ weight
        return answer, np.sqrt(np.square(told - answer[:, None]) @ weight)

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        return {"value": self.value.astype(np.float16)}, {"near": self.near}

    @classmethod
    def unpack(
        cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]], record: Mapping[str, Any]
    ) -> "KNNAnalogs":
        """What `pack` took apart."""
        return cls(arrays["value"].astype(np.float32), record["near"])
