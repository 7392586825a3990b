"""All series at once, as one normal distribution of all their cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.points import PointIndex

__all__ = ["ConditionalGaussian"]

# PointIndex of all series, up to which each of them makes a difference.
FEW = 2**21

# How far a value counts that is far from the mean, in standard deviations.
BEYOND = 8.0


@dataclass(frozen=True)
class ConditionalGaussian:
    """Mean and covariance of the cells of all channels, each channel and time on its own."""

    mean: Float[np.ndarray, "channel point"]
    covariance: Float[np.ndarray, "channel point channel point"]

    ridge: float
    """Share of the variance that is taken for noise."""

    centred: Float[np.ndarray, "channel point series"] | None = None
    """What each series has beyond the mean, so that it can be left out when it is asked about
    itself; None where they are so many that this makes no difference."""

    @classmethod
    def of(cls, stock: SeriesLibrary, ridge: float) -> "ConditionalGaussian":
        """The distribution that the series in stock were drawn from."""
        value = stock.value
        mean = value.mean(axis=-1, dtype=np.float64)
        centred = value - mean[..., None]
        flat = centred.reshape(mean.size, -1)
        covariance = flat @ flat.T / (value.shape[-1] - 1)
        # As a file has it, so that a model that was saved says the same.
        upper = covariance[np.triu_indices(mean.size)].astype(np.float32)
        return cls(mean, _mirrored(upper, mean), ridge, centred.astype(np.float32))

    def anew(self, stock: SeriesLibrary) -> "ConditionalGaussian":
        """Remembers other series in the same way."""
        return ConditionalGaussian.of(stock, self.ridge)

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"mean and covariance of {len(self.mean)} channels"

    def tell(
        self, known: PointIndex, value: Float[np.ndarray, " known"], asked: PointIndex, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What is to be expected of the cells asked for, and how much they deviate among all.

        Without series number `own`, where it is not negative.
        """
        without, count = np.zeros_like(self.mean), 2
        if own >= 0 and self.centred is not None:
            without = self.centred[..., own].astype(np.float64)
            count = self.centred.shape[-1]
        expected = self.mean - without / (count - 1)
        # One value far off all that has been would drown the others.
        far = BEYOND * known.of(self._deviation)
        value = value.clip(known.of(self.mean) - far, known.of(self.mean) + far)
        if value.size:
            theirs, apart = known.of(self.covariance), known.of(without)
            less = apart * count / (count - 1) ** 2
            among = known.across(theirs)
            if apart.any():
                among -= np.multiply.outer(less, apart)
            among[np.diag_indices_from(among)] += self.ridge * np.trace(among) / value.size + 1e-12
            weight = np.linalg.solve(among, value - known.of(expected))
            expected += np.tensordot(weight, theirs, axes=1) - weight @ less * without
        return asked.of(expected), asked.of(self._deviation)

    @cached_property
    def _deviation(self) -> Float[np.ndarray, "channel point"]:
        size = self.mean.size
        variance = np.diagonal(self.covariance.reshape(size, size))
        return np.sqrt(variance).reshape(self.mean.shape)

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        size = self.mean.size
        upper = self.covariance.reshape(size, size)[np.triu_indices(size)]
        arrays = {"mean": self.mean, "upper": upper.astype(np.float32)}
        if self.centred is not None and self.centred.size <= FEW:
            arrays["centred"] = self.centred
        return arrays, {"ridge": self.ridge}

    @classmethod
    def unpack(
        cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]], record: Mapping[str, Any]
    ) -> "ConditionalGaussian":
        """What `pack` took apart."""
        mean = arrays["mean"]
        return cls(mean, _mirrored(arrays["upper"], mean), record["ridge"], arrays.get("centred"))


def _mirrored(
    upper: Float[np.ndarray, " pair"], mean: Float[np.ndarray, "channel point"]
) -> Float[np.ndarray, "channel point channel point"]:
    """A covariance of which only one side is given."""
    covariance = np.zeros((mean.size, mean.size))
    covariance[np.triu_indices(mean.size)] = upper
    covariance += np.triu(covariance, 1).T
    return covariance.reshape(*mean.shape, *mean.shape)
