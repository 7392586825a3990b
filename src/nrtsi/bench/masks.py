"""Which cells a benchmark hides: the same for every method, and the same each time."""

from typing import Annotated

import numpy as np
from jaxtyping import Bool, Int
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nrtsi.bench.datasets.dataset import Part

__all__ = ["Masks"]

Share = Annotated[float, Field(gt=0, lt=1)]


class Masks(BaseModel):
    """How much is hidden of each series: whole rows by number, or single cells by share.

    Each series has a number, or a share, of its own, uniform between the two that are given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    rows: tuple[int, int] | None = None
    """Least and most rows hidden of a series, in all channels."""

    cells: tuple[Share, Share] | None = None
    """Least and most of the share of cells hidden, each cell by itself."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "Masks":
        if (self.rows is None) == (self.cells is None):
            raise ValueError("masks must have either rows or cells")
        least, most = self.rows or self.cells or (0, 0)
        if not 0 < least <= most:
            raise ValueError(f"masks must be (least, most) and positive, got {(least, most)}")
        return self

    def draw(self, part: Part, rng: np.random.Generator) -> Bool[np.ndarray, "series step dim"]:
        """The observed cells to hide; something of every series stays.

        Cells that the original does not have are never hidden, so they are never scored.
        """
        observed = ~np.isnan(part.value)
        hidden = self._rows(part, rng) if self.rows else self._cells(part, rng)
        hidden &= observed
        _spare_a_row(hidden, observed, rng)
        return hidden

    def shares(self, steps: int) -> tuple[float, float]:
        """Least and most of the share hidden, of series of so many steps."""
        if self.cells is not None:
            return self.cells
        assert self.rows is not None
        return self.rows[0] / steps, self.rows[1] / steps

    def _rows(self, part: Part, rng: np.random.Generator) -> Bool[np.ndarray, "series step dim"]:
        assert self.rows is not None
        series, steps, dims = part.value.shape
        most = steps - 1
        count = rng.integers(min(self.rows[0], most), min(self.rows[1], most) + 1, size=series)
        gone = _random_ranks(rng, series, steps) < count[:, None]
        return np.repeat(gone[:, :, None], dims, axis=2)

    def _cells(self, part: Part, rng: np.random.Generator) -> Bool[np.ndarray, "series step dim"]:
        assert self.cells is not None
        share = rng.uniform(*self.cells, size=part.series)
        return rng.random(part.value.shape) < share[:, None, None]


def _random_ranks(
    rng: np.random.Generator, series: int, steps: int
) -> Int[np.ndarray, "series step"]:
    """The numbers from 0 to `steps` in random order, for each series."""
    return rng.permuted(np.tile(np.arange(steps), (series, 1)), axis=1)


def _spare_a_row(
    hidden: Bool[np.ndarray, "series step dim"],
    observed: Bool[np.ndarray, "series step dim"],
    rng: np.random.Generator,
) -> None:
    """Gives back one random row to each series that lost everything."""
    for index in np.flatnonzero(~(observed & ~hidden).any(axis=(1, 2))):
        rows = np.flatnonzero(observed[index].any(axis=1))
        if rows.size:
            hidden[index, rng.choice(rows)] = False
