"""Which cells a benchmark hides: the same for every method, and the same each time."""

from typing import Annotated

import numpy as np
from jaxtyping import Bool
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nrtsi.bench.datasets.dataset import Part

__all__ = ["Masks"]

Share = Annotated[float, Field(gt=0, lt=1)]


class Masks(BaseModel):
    """How much of each series is hidden: a number of rows, or a share of the cells.

    Each series has its own number or share, uniform between the two that are given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    rows: tuple[int, int] | None = None
    """Minimum and maximum number of rows, hidden in all channels."""

    cells: tuple[Share, Share] | None = None
    """Minimum and maximum share of cells, hidden independently."""

    @model_validator(mode="after")
    def _check(self) -> "Masks":
        if (self.rows is None) == (self.cells is None):
            raise ValueError("masks must have either rows or cells")
        ends: tuple[float, float] = self.rows or self.cells or (0, 0)
        if not 0 < ends[0] <= ends[1]:
            raise ValueError(f"masks must be (minimum, maximum) and positive, got {ends}")
        return self

    def draw(self, part: Part, rng: np.random.Generator) -> Bool[np.ndarray, "series step dim"]:
        """Draws the observed cells to hide; at least one row of every series stays.

        Cells that the original does not have are never hidden, so they are never scored.
        """
        observed = ~np.isnan(part.value)
        series, steps, dims = part.value.shape
        if self.rows is not None:
            least, most = (min(end, steps - 1) for end in self.rows)
            count = rng.integers(least, most + 1, size=series)
            rank = rng.permuted(np.tile(np.arange(steps), (series, 1)), axis=1)
            hidden = np.repeat((rank < count[:, None])[:, :, None], dims, axis=2)
        else:
            assert self.cells is not None
            share = rng.uniform(*self.cells, size=(series, 1, 1))
            hidden = rng.random(part.value.shape) < share
        hidden &= observed
        for index in np.flatnonzero(~(observed & ~hidden).any(axis=(1, 2))):
            rows = np.flatnonzero(observed[index].any(axis=1))
            if rows.size:
                hidden[index, rng.choice(rows)] = False
        return hidden

    def shares(self, steps: int) -> tuple[float, float]:
        """Minimum and maximum hidden share of series of `steps` rows."""
        if self.cells is not None:
            return self.cells
        assert self.rows is not None
        return self.rows[0] / steps, self.rows[1] / steps
