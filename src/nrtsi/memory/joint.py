"""Two ways to remember that are wrong in different places, put together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.memory.analogs import Analogs
from nrtsi.memory.likes import Likes
from nrtsi.memory.normal import Normal
from nrtsi.memory.points import Cells
from nrtsi.memory.stock import Stock
from nrtsi.memory.way import Way

__all__ = ["SINGLE", "Joint", "name_of"]

SINGLE: dict[str, type[Analogs] | type[Likes] | type[Normal]] = {
    "analogs": Analogs,
    "likes": Likes,
    "normal": Normal,
}
"""Ways that are made of no others."""


def name_of(way: Way, kinds: Mapping[str, type]) -> str:
    """What a way is called among some kinds."""
    return next(name for name, kind in kinds.items() if isinstance(way, kind))


@dataclass(frozen=True)
class Joint:
    """A sum of what two ways say."""

    first: Way
    second: Way

    share: float
    """Of the second, between none and all; the rest is the first's."""

    def anew(self, stock: Stock) -> "Joint":
        """Remembers other series in the same way."""
        return replace(self, first=self.first.anew(stock), second=self.second.anew(stock))

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"{self.first} and {self.second} ({self.share:.0%} of it)"

    def tell(
        self, known: Cells, value: Float[np.ndarray, " known"], asked: Cells, own: int
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
    ) -> "Joint":
        """What `pack` took apart."""

        def single(place: str) -> Way:
            told, begins = dict(record[place]), f"{place}."
            own = {n.removeprefix(begins): a for n, a in arrays.items() if n.startswith(begins)}
            return SINGLE[told.pop("way")].unpack(own, told)

        return cls(single("first"), single("second"), record["share"])
