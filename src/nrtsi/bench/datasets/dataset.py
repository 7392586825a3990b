"""`Dataset`: series of one length, in parts to learn from, to choose by and to test on."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from jaxtyping import Float

from nrtsi.core.series import SeriesSet

__all__ = ["Dataset", "Part"]


@dataclass(frozen=True)
class Part:
    """Series of one length."""

    time: Float[np.ndarray, "series step"]
    """Times in units, ascending in each series."""

    value: Float[np.ndarray, "series step dim"]
    """Values; NaN where the original has none."""

    @property
    def series(self) -> int:
        """Number of series."""
        return self.value.shape[0]

    @property
    def even(self) -> bool:
        """True where all steps of all series are of one length."""
        steps = np.diff(self.time, axis=1)
        return bool(np.allclose(steps, steps[:1, :1], rtol=1e-6, atol=0.0))

    def head(self, series: int) -> "Part":
        """The first so many series."""
        return Part(self.time[:series], self.value[:series])

    def spread(self, series: int) -> "Part":
        """So many series, evenly spaced over all; all of them where there are no more.

        >>> part = Part(np.zeros((9, 1)), np.arange(9.0).reshape(9, 1, 1))
        >>> part.spread(3).value.ravel()
        array([1., 4., 7.])
        """
        if series >= self.series:
            return self
        # The middle of each of so many equal stretches: neither end is favoured.
        picked = ((2 * np.arange(series) + 1) * self.series) // (2 * series)
        return Part(self.time[picked], self.value[picked])

    def to_set(self) -> SeriesSet:
        """The same as a set of series."""
        return SeriesSet.stack(self.value, self.time)


@dataclass(frozen=True)
class Dataset:
    """A data set as the benchmarks use it."""

    name: str
    train: Part
    """To learn from."""

    validation: Part
    """To choose by: when to stop, which weights to keep."""

    test: Part
    """To score on, and nothing else."""

    channels: tuple[str, ...]
    about: str
    """How it was made and split, in a sentence or two."""

    @property
    def digest(self) -> str:
        """Eight digits that other series would not have."""
        digest = sha256()
        for part in self.parts.values():
            digest.update(np.ascontiguousarray(part.time).tobytes())
            digest.update(np.ascontiguousarray(part.value).tobytes())
        return digest.hexdigest()[:8]

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by name, in the order of their use."""
        return {"train": self.train, "validation": self.validation, "test": self.test}
