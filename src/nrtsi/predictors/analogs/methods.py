"""Analog methods: local linear, nearest neighbours, a conditional Gaussian, and a blend."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Float16, Float32, Int

from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs.library import GridCells, SeriesLibrary, locate

__all__ = [
    "AnalogBlend",
    "AnalogMethod",
    "ConditionalGaussian",
    "KNNAnalogs",
    "LocalLinearAnalogs",
]

# Observed cells of a series that are used, at most; more would make the linear systems slow.
MAX_OBSERVED = 1024

# Smallest distance of a neighbour, so that weights stay finite.
MIN_DISTANCE = 1e-6

# Observed values are clipped, so that one outlier does not dominate the others: to this multiple
# of a channel's range, or to this many standard deviations.
MAX_RANGE, MAX_DEVIATIONS = 1.5, 8.0

Moments: TypeAlias = tuple[Float[np.ndarray, " target"], Float[np.ndarray, " target"]]
"""Mean and standard deviation of each target cell."""


@dataclass(frozen=True)
class Query:
    """The cells of one series: the known ones, and those to predict."""

    known: GridCells
    value: Float[np.ndarray, " known"]
    target: GridCells
    exclude: int  # number of a stored series that is left out, or -1


class AnalogMethod(ABC):
    """Predicts the cells of a series from a library of others."""

    @abstractmethod
    def predict(self, query: Query) -> Moments:
        """Predicts the target cells of one series from its known cells."""

    @abstractmethod
    def refit(self, library: SeriesLibrary) -> "AnalogMethod":
        """The same method with the same hyper-parameters on another library."""

    def predict_series(
        self,
        point: Float[np.ndarray, " point"],
        series: SeriesSet,
        exclude: Int[np.ndarray, " series"],
        threads: Threads | None = None,
    ) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]:
        """Mean and standard deviation of every cell; interpolation and 0 off the grid `point`."""
        mean, std = interpolate(series), np.zeros(series.value.shape)
        left, fraction, inside = locate(point, series.time)

        def predict_one(index: int) -> None:
            rows = np.arange(series.start[index], series.start[index + 1])
            rows = rows[inside[rows]]
            row, channel = np.nonzero(series.observed[rows])
            used = slice(None, None, max(1, -(-row.size // MAX_OBSERVED)))
            row, channel = rows[row[used]], channel[used]
            known = GridCells(channel, left[row], fraction[row])
            target, channels = rows.repeat(series.dims), np.tile(np.arange(series.dims), rows.size)
            every = GridCells(channels, left[target], fraction[target])
            query = Query(known, series.value[row, channel], every, int(exclude[index]))
            mean[rows], std[rows] = (each.reshape(rows.size, -1) for each in self.predict(query))

        (threads or Threads(1)).map(predict_one, range(series.series))
        return mean, std


@dataclass(frozen=True)
class StoredSeries:
    """The series of a library, and their images under symmetries of the data.

    These are "pooled" (a channel may be like any other channel), "negated" (values mirrored about
    0) and "reversed" (in time).
    """

    value: Float16[np.ndarray, "channel point series"]
    symmetries: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of series."""
        return self.value.shape[-1]

    @property
    def work(self) -> int:
        """Number of cells that a series is compared with, over all channels."""
        pooled = self.value.shape[0] if "pooled" in self.symmetries else 1
        return self.value.size * pooled * 2 ** len(set(self.symmetries) - {"pooled"})

    @cached_property
    def single(self) -> Float32[np.ndarray, "channel point series"]:
        """The values in single precision."""
        return self.value.astype(np.float32)

    @cached_property
    def images(self) -> list[Float32[np.ndarray, "point image"]]:
        """All that a channel is compared with; each image has all series in their order."""
        images = list(self.single)
        if "pooled" in self.symmetries:
            images = [np.concatenate(images, axis=-1)]
        if "negated" in self.symmetries:
            images = [np.concatenate([each, -each], axis=-1) for each in images]
        if "reversed" in self.symmetries:
            images = [np.concatenate([each, each[::-1]], axis=-1) for each in images]
        return images * (len(self.value) // len(images))  # one for all channels if pooled


@dataclass(frozen=True)
class LocalLinearAnalogs(AnalogMethod):
    """Ridge regression on the k nearest series, channel by channel.

    Similar series lie close to a plane: a weighted sum is closer than the nearest one alone.
    """

    stored: StoredSeries  # each channel is scaled to its range, from -1 to 1
    middle: Float[np.ndarray, " channel"]  # the middle of each channel's range
    reach: Float[np.ndarray, " channel"]  # half the width of each channel's range
    k: int
    ridge: float  # penalty of weights that differ from the mean, as a share of the variance

    @classmethod
    def of(cls, library: SeriesLibrary, k: int, ridge: float) -> "LocalLinearAnalogs":
        """Stores the series of the library."""
        middle = (library.low + library.high) / 2
        reach = np.maximum((library.high - library.low) / 2, 1e-9)
        unit = (library.value - middle[:, None, None]) / reach[:, None, None]
        return cls(StoredSeries(unit.astype(np.float16)), middle, reach, k, ridge)

    def refit(self, library: SeriesLibrary) -> "LocalLinearAnalogs":
        """The same method on another library."""
        return self.of(library, self.k, self.ridge).with_symmetries(self.stored.symmetries)

    def with_symmetries(self, symmetries: tuple[str, ...]) -> "LocalLinearAnalogs":
        """The same method with these symmetries."""
        return replace(self, stored=replace(self.stored, symmetries=symmetries))

    def __str__(self) -> str:
        used = self.stored.symmetries
        symmetries = f" ({', '.join(used)})" if used else ""
        return f"{self.k} nearest of {self.stored.count:,} series{symmetries}"

    def predict(self, query: Query) -> Moments:
        """Predicts each channel from its own observed cells."""
        known, target = query.known, query.target
        mean, std = np.zeros(target.channel.size), np.zeros(target.channel.size)
        for channel, (middle, reach) in enumerate(zip(self.middle, self.reach, strict=True)):
            given, sought = known.channel == channel, target.channel == channel
            unit = ((query.value[given] - middle) / reach).clip(-MAX_RANGE, MAX_RANGE)
            part = Query(known.pick(given), unit, target.pick(sought), query.exclude)
            unit_mean, unit_std = self._predict_channel(channel, part)
            mean[sought], std[sought] = middle + reach * unit_mean, reach * unit_std
        return mean, std

    def _predict_channel(self, channel: int, query: Query) -> Moments:
        if not query.value.size:
            every = query.target.sample_one(self.stored.single[channel])
            return every.mean(axis=1), every.std(axis=1)
        images = self.stored.images[channel]
        candidates = query.known.sample_one(images)
        distance = np.square(candidates - query.value[:, None].astype(np.float32)).sum(axis=0)
        if query.exclude >= 0:
            distance[query.exclude :: self.stored.count] = np.inf  # and its images
        nearest = np.argpartition(distance, self.k - 1)[: self.k]
        target = query.target.sample_one(images[:, nearest]).T.astype(np.float64)
        known = candidates[:, nearest].T.astype(np.float64)
        centre = known.mean(axis=0)
        weight = _ridge_weights(known - centre, query.value - centre, self.ridge)
        mean = target.mean(axis=0) + weight @ (target - target.mean(axis=0))
        return mean, np.sqrt(np.square(target - mean).mean(axis=0))


def _ridge_weights(
    inputs: Float[np.ndarray, "k known"], target: Float[np.ndarray, " known"], ridge: float
) -> Float[np.ndarray, " k"]:
    """Ridge regression of the target on the inputs, in the smaller of the two dimensions."""
    size = min(inputs.shape)
    penalty = ridge * np.square(inputs).sum() / size + 1e-12
    if inputs.shape[0] <= inputs.shape[1]:
        return np.linalg.solve(inputs @ inputs.T + penalty * np.eye(size), inputs @ target)
    return inputs @ np.linalg.solve(inputs.T @ inputs + penalty * np.eye(size), target)


@dataclass(frozen=True)
class KNNAnalogs(AnalogMethod):
    """Weighted mean of the k series nearest in all channels together.

    If series are few and noisy, its errors differ from those of a Gaussian: a blend is better.
    """

    stored: StoredSeries
    k: int

    @classmethod
    def of(cls, library: SeriesLibrary, k: int) -> "KNNAnalogs":
        """Stores the series of the library."""
        return cls(StoredSeries(library.value.astype(np.float16)), k)

    def refit(self, library: SeriesLibrary) -> "KNNAnalogs":
        """The same method on another library."""
        return KNNAnalogs.of(library, self.k)

    def __str__(self) -> str:
        return f"mean of the {self.k} most similar of {self.stored.count:,} series"

    def predict(self, query: Query) -> Moments:
        """Weights neighbours by the inverse of their distance; all equally if nothing is known."""
        stored, is_excluded = self.stored.single, query.exclude >= 0
        squares = np.square(query.known.sample(stored) - query.value[:, None].astype(np.float32))
        square = squares.mean(axis=0) if query.value.size else np.ones(self.stored.count)
        distance = np.sqrt(square)
        if is_excluded:
            distance[query.exclude] = np.inf
        k = self.k if query.value.size else self.stored.count - is_excluded
        nearest = np.argpartition(distance, k - 1)[:k]
        weight = 1 / np.maximum(distance[nearest], MIN_DISTANCE).astype(np.float64)
        weight /= weight.sum()
        target = query.target.sample(stored[..., nearest]).astype(np.float64)
        mean = target @ weight
        return mean, np.sqrt(np.square(target - mean[:, None]) @ weight)


@dataclass(frozen=True)
class ConditionalGaussian(AnalogMethod):
    """Conditional mean under one normal distribution of all cells of a series."""

    mean: Float[np.ndarray, "channel point"]
    covariance_triangle: Float32[np.ndarray, " pair"]  # upper triangle, of all cells
    ridge: float  # share of the variance that is noise
    centred: Float32[np.ndarray, "channel point series"] | None = None
    """The stored series minus the mean, which leaving one out needs; None: none is left out."""

    @classmethod
    def of(cls, library: SeriesLibrary, ridge: float) -> "ConditionalGaussian":
        """Estimates the mean and the covariance of the library."""
        mean = library.value.mean(axis=-1, dtype=np.float64)
        centred = library.value - mean[..., None]
        flat = centred.reshape(mean.size, -1)
        covariance = flat @ flat.T / (library.value.shape[-1] - 1)
        triangle = covariance[np.triu_indices(mean.size)].astype(np.float32)
        return cls(mean, triangle, ridge, centred.astype(np.float32))

    def refit(self, library: SeriesLibrary) -> "ConditionalGaussian":
        """The same method on another library."""
        return ConditionalGaussian.of(library, self.ridge)

    def __str__(self) -> str:
        return f"mean and covariance of {len(self.mean)} channels"

    def predict(self, query: Query) -> Moments:
        """Conditional mean; the standard deviation is the unconditional one."""
        known, left_out, count = query.known, np.zeros_like(self.mean), 2
        if query.exclude >= 0 and self.centred is not None:
            left_out = self.centred[..., query.exclude].astype(np.float64)
            count = self.centred.shape[-1]
        expected = self.mean - left_out / (count - 1)
        margin = MAX_DEVIATIONS * known.sample(self._deviation)
        centre = known.sample(self.mean)
        value = query.value.clip(centre - margin, centre + margin)
        if value.size:
            rows, left_out_known = known.sample(self._covariance), known.sample(left_out)
            downdate = left_out_known * count / (count - 1) ** 2
            among = known.sample(rows.transpose(1, 2, 0)).T
            if left_out_known.any():
                among -= np.multiply.outer(downdate, left_out_known)
            among[np.diag_indices_from(among)] += self.ridge * np.trace(among) / value.size + 1e-12
            weight = np.linalg.solve(among, value - known.sample(expected))
            expected += np.tensordot(weight, rows, axes=1) - weight @ downdate * left_out
        return query.target.sample(expected), query.target.sample(self._deviation)

    @cached_property
    def _covariance(self) -> Float[np.ndarray, "channel point channel point"]:
        size = self.mean.size
        covariance = np.zeros((size, size))
        covariance[np.triu_indices(size)] = self.covariance_triangle
        covariance += np.triu(covariance, 1).T
        return covariance.reshape(*self.mean.shape, *self.mean.shape)

    @cached_property
    def _deviation(self) -> Float[np.ndarray, "channel point"]:
        size, shape = self.mean.size, self.mean.shape
        return np.sqrt(np.diagonal(self._covariance.reshape(size, size))).reshape(shape)


@dataclass(frozen=True)
class AnalogBlend(AnalogMethod):
    """Weighted mean of two methods."""

    first: AnalogMethod
    second: AnalogMethod
    weight: float  # of the second method, from 0 to 1

    def refit(self, library: SeriesLibrary) -> "AnalogBlend":
        """The same methods with the same hyper-parameters on another library."""
        return replace(self, first=self.first.refit(library), second=self.second.refit(library))

    def __str__(self) -> str:
        return f"{self.first} and {self.second} ({self.weight:.0%})"

    def predict(self, query: Query) -> Moments:
        """The weighted mean of both means and of both standard deviations."""
        both = zip(self.first.predict(query), self.second.predict(query), strict=True)
        mean, std = ((1 - self.weight) * one + self.weight * other for one, other in both)
        return mean, std
