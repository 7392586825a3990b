"""`ImputationResult`: the values, their intervals and where each comes from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.gaps import Gaps
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.options import ImputeTask, RefusedCells

__all__ = ["SOURCES", "ImputationResult"]

SOURCES = ("observed", "imputed", "refused", "missing")
"""A cell is missing if nothing is observed in its series."""


@dataclass(frozen=True)
class ImputationResult:
    """The imputed data of a task."""

    task: ImputeTask
    value: Float[np.ndarray, "row dim"]
    interval: tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]] | None
    """The lower and the upper end; None if the task needs no intervals."""

    gaps: Gaps
    refused: RefusedCells
    selection: MethodSelection
    """Which method imputes which cells."""

    @property
    def names(self) -> tuple[str, ...]:
        """The channels."""
        return tuple(str(name) for name in self.task.panel.columns.values or ())

    @property
    def kept(self) -> Float[np.ndarray, "row dim"]:
        """The values, with NaN where they are refused."""
        return np.where(self.refused.cells, np.nan, self.value)

    @property
    def source(self) -> Int[np.ndarray, "row dim"]:
        """The index in `SOURCES` of each cell."""
        imputed = np.where(np.isnan(self.value), 3, 1)
        source = np.where(self.gaps.number >= 0, imputed, 0)
        return np.where(self.refused.cells, 2, source)

    @property
    def method(self) -> Int[np.ndarray, "row dim"]:
        """The index in `selection.methods` of each missing cell; -1 where it is observed."""
        return self.selection.index(self.gaps)

    def frame(self) -> Any:
        """The caller's data with missing cells imputed, and the columns that were requested."""
        query = self.task.query
        return query.write(self.kept, self.columns() if self.task.options.adds_columns else {})

    def columns(self) -> dict[str, np.ndarray]:
        """Further columns with one entry per row: intervals, and the provenance if requested."""
        assert self.interval is not None
        columns: dict[str, np.ndarray] = {}
        missing = self.gaps.number >= 0
        source = np.array(SOURCES, dtype=object)[self.source]
        method = np.array([*self.selection.methods, None], dtype=object)[self.method]
        length = np.where(missing, self.gaps.length, np.nan)
        for dim, name in enumerate(self.names):
            if self.task.options.provenance:
                columns[f"{name}_source"] = source[:, dim]
                columns[f"{name}_method"] = method[:, dim]
                columns[f"{name}_gap"] = self.task.panel.clock.to_durations(length[:, dim])
            for end, each in zip(("lower", "upper"), self.interval, strict=True):
                columns[f"{name}_{end}"] = np.where(missing[:, dim], each[:, dim], np.nan)
        return columns
