"""`ImputationResult`: the values of all cells, how sure they are, and where they come from."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.gaps import Gaps
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.limits import RefusedCells
from nrtsi.tables import Clock

__all__ = ["SOURCES", "ImputationResult"]

SOURCES = ("observed", "imputed", "refused", "missing")
"""Missing is what could not be filled: nothing is known of its series."""


@dataclass(frozen=True)
class ImputationResult:
    """What was made of every cell of some data."""

    names: tuple[str, ...]
    """The channels."""

    clock: Clock
    value: Float[np.ndarray, "row dim"]
    interval: tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]
    """The lower and the upper end."""

    gaps: Gaps
    refused: RefusedCells
    choice: MethodSelection
    """Which method fills which cells."""

    @property
    def kept(self) -> Float[np.ndarray, "row dim"]:
        """The values, but NaN where they are refused."""
        return np.where(self.refused.cells, np.nan, self.value)

    @property
    def source(self) -> Int[np.ndarray, "row dim"]:
        """The place in `SOURCES` of each cell."""
        filled = np.where(np.isnan(self.value), 3, 1)
        source = np.where(self.gaps.number >= 0, filled, 0)
        return np.where(self.refused.cells, 2, source)

    @property
    def method(self) -> Int[np.ndarray, "row dim"]:
        """The method of each missing cell, as `choice` numbers them; -1 where it is observed."""
        gap_bin, channel = self.gaps.gap_bin, np.arange(len(self.names))
        return np.where(gap_bin >= 0, self.choice.table[channel, gap_bin], -1)

    def columns(self, *, about: bool) -> dict[str, np.ndarray]:
        """Columns to stand beside the values, with an entry a row; empty where it is observed.

        The interval, and with `about` the source, the method and the length of the gap too.
        """
        columns: dict[str, np.ndarray] = {}
        missing = self.gaps.number >= 0
        source = np.array(SOURCES, dtype=object)[self.source]
        method = np.array([*self.choice.methods, None], dtype=object)[self.method]
        length = np.where(missing, self.gaps.length, np.nan)
        for dim, name in enumerate(self.names):
            if about:
                columns[f"{name}_source"] = source[:, dim]
                columns[f"{name}_method"] = method[:, dim]
                columns[f"{name}_gap"] = self.clock.lengths(length[:, dim])
            for end, each in zip(("lower", "upper"), self.interval, strict=True):
                columns[f"{name}_{end}"] = np.where(missing[:, dim], each[:, dim], np.nan)
        return columns
