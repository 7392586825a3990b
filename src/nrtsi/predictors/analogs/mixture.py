"""Two ways to select_analogs that are wrong in different places, put together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.predictors.analogs.conditional_gaussian import ConditionalGaussian
from nrtsi.predictors.analogs.knn import KNNAnalogs
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.local_linear import LocalLinearAnalogs
from nrtsi.predictors.analogs.method import AnalogMethod
from nrtsi.predictors.analogs.points import PointIndex

__all__ = ["SINGLE", "AnalogMixture", "name_of"]

SINGLE: dict[str, type[LocalLinearAnalogs] | type[KNNAnalogs] | type[ConditionalGaussian]] = {
    "analogs": LocalLinearAnalogs,
    "likes": KNNAnalogs,
    "normal": ConditionalGaussian,
}
"""Ways that are made of no others."""


def name_of(way: AnalogMethod, kinds: Mapping[str, type]) -> str:
    """What a way is called among some kinds."""
    return next(name for name, kind in kinds.items() if isinstance(way, kind))


@dataclass(frozen=True)
class AnalogMixture:
    """A sum of what two ways say."""

    first: AnalogMethod
    second: AnalogMethod

    share: float
    """Of the second, between none and all; the rest is the first's."""

    def anew(self, stock: SeriesLibrary) -> "AnalogMixture":
        """Remembers other series in the same way."""
        return replace(self, first=self.first.anew(stock), second=self.second.anew(stock))

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"{self.first} and {self.second} ({self.share:.0%} of it)"

    def tell(
        self, known: PointIndex, value: Float[np.ndarray, " known"], asked: PointIndex, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What both say together, and how far apart each takes its memories to be.

        Without series number `own`, where it is not negative.
        """
        one, other = (way.tell(known, value, asked, own) for way in (self.first, self.second))
        told, apart = (
            (1 - self.share) * each + self.share * others
            for each, others in zip(one, other, strict=True)
        )
        return told, apart

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        arrays: dict[str, np.ndarray] = {}
        record: dict[str, Any] = {"share": self.share}
        for place, way in (("first", self.first), ("second", self.second)):
            own, told = way.pack()
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            record[place] = told | {"way": name_of(way, SINGLE)}
        return arrays, record

    @classmethod
    def unpack(
        cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]], record: Mapping[str, Any]
    ) -> "AnalogMixture":
        """What `pack` took apart."""

        def single(place: str) -> AnalogMethod:
            told, begins = dict(record[place]), f"{place}."
            own = {n.removeprefix(begins): a for n, a in arrays.items() if n.startswith(begins)}
            return SINGLE[told.pop("way")].unpack(own, told)

        return cls(single("first"), single("second"), record["share"])
