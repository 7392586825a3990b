"""`AnalogMethod`: what a way to select_analogs series has to do."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.points import PointIndex

__all__ = ["AnalogMethod"]


class AnalogMethod(Protocol):
    """A way to select_analogs series."""

    def tell(
        self, known: PointIndex, value: Float[np.ndarray, " known"], asked: PointIndex, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What is remembered of the cells asked for, and how far apart the memories are.

        Without series number `own`, where it is not negative.
        """
        ...

    def anew(self, stock: SeriesLibrary) -> "AnalogMethod":
        """Remembers other series in the same way."""
        ...

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values, from which its `unpack` makes the same."""
        ...
