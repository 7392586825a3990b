"""`Way`: what a way to remember series has to do."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from nrtsi.memory.points import Cells
from nrtsi.memory.stock import Stock

__all__ = ["Way"]


class Way(Protocol):
    """A way to remember series."""

    def tell(
        self, known: Cells, value: Float[np.ndarray, " known"], asked: Cells, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What is remembered of the cells asked for, and how far apart the memories are.

        Without series number `own`, where it is not negative.
        """
        ...

    def anew(self, stock: Stock) -> "Way":
        """Remembers other series in the same way."""
        ...

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values, from which its `unpack` makes the same."""
        ...
