"""The few series that agree best with what is known, put together so that they agree better."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.points import PointIndex

__all__ = ["SYMMETRIES", "LocalLinearAnalogs", "Images"]

SYMMETRIES = ("alike", "mirrored", "reversed")
"""A channel may go as another does, upside down, or backwards."""

# How far a value counts that is beyond all that has been, from -1 to 1.
BEYOND = 1.5


@dataclass(frozen=True)
class Images:
    """Series, and those that would be there as well if a symmetry holds."""

    value: Float[np.ndarray, "channel point series"]
    """From -1 to 1, the least and the greatest that each channel has had."""

    symmetries: tuple[str, ...] = ()
    """Some of `SYMMETRIES`."""

    def of(self, channel: int) -> Float[np.ndarray, "point image"]:
        """All that a channel may be like; each image has all series, in their order."""
        return self._all[0 if "alike" in self.symmetries else channel]

    @property
    def work(self) -> int:
        """PointIndex of all series that all channels may be like."""
        many = self.value.shape[0] if "alike" in self.symmetries else 1
        return self.value.size * many * 2 ** len(set(self.symmetries) - {"alike"})

    @cached_property
    def _all(self) -> list[Float[np.ndarray, "point image"]]:
        """For every channel, or once for all of them."""
        images = list(self.value)
        if "alike" in self.symmetries:
            images = [np.concatenate(images, axis=-1)]
        if "mirrored" in self.symmetries:
            images = [np.concatenate([each, -each], axis=-1) for each in images]
        if "reversed" in self.symmetries:
            images = [np.concatenate([each, each[::-1]], axis=-1) for each in images]
        return images


@dataclass(frozen=True)
class LocalLinearAnalogs:
    """All remembered series, of which those nearby are asked, channel by channel.

    Near a series that is known in part its like lie in a plane, or nearly: a sum of few of them
    with weights that add up to one follows it, where the nearest alone would be a little off.
    """

    images: Images

    middle: Float[np.ndarray, " channel"]
    reach: Float[np.ndarray, " channel"]
    """Half way between the least and the greatest, and from there to either."""

    near: int
    """How many are put together."""

    ridge: float
    """How much their sum is held to their mean."""

    @classmethod
    def of(cls, stock: SeriesLibrary, near: int, ridge: float) -> "LocalLinearAnalogs":
        """Remembers the series in stock."""
        middle = (stock.low + stock.high) / 2
        reach = np.maximum((stock.high - stock.low) / 2, 1e-9)
        unit = (stock.value - middle[:, None, None]) / reach[:, None, None]
        # As a file has it, so that a model that was saved says the same.
        rounded = unit.astype(np.float16).astype(np.float32)
        return cls(Images(rounded), middle, reach, near, ridge)

    def anew(self, stock: SeriesLibrary) -> "LocalLinearAnalogs":
        """Remembers other series in the same way."""
        made = LocalLinearAnalogs.of(stock, self.near, self.ridge)
        return replace(made, images=Images(made.images.value, self.images.symmetries))

    def __str__(self) -> str:
        """What it is, in a few words."""
        held = self.images.symmetries
        symmetries = f" ({', '.join(held)})" if held else ""
        return f"{self.near} nearest of {self.images.value.shape[-1]:,} series{symmetries}"

    def tell(
        self, known: PointIndex, value: Float[np.ndarray, " known"], asked: PointIndex, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What the series like one say of the cells asked for, and how far apart they are there.

        Series number `own`, where it is not negative, is not looked at.
        """
        answer, apart = np.zeros(asked.channel.size), np.zeros(asked.channel.size)
        for channel, (middle, reach) in enumerate(zip(self.middle, self.reach, strict=True)):
            ours, wanted = known.channel == channel, asked.channel == channel
            # One value far off all that has been would drown the others.
            there = ((value[ours] - middle) / reach).clip(-BEYOND, BEYOND)
            told, spread = self._tell(channel, known.pick(ours), there, asked.pick(wanted), own)
            answer[wanted], apart[wanted] = middle + reach * told, reach * spread
        return answer, apart

    def _tell(
        self, channel: int, known: PointIndex, value: np.ndarray, asked: PointIndex, own: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if not value.size:
            everyone = asked.along(self.images.value[channel])
            return everyone.mean(axis=1), everyone.std(axis=1)
        images = self.images.of(channel)
        theirs = known.along(images)
        distance = np.square(theirs - value[:, None].astype(np.float32)).sum(axis=0)
        if own >= 0:
            distance[own :: self.images.value.shape[-1]] = np.inf
        near = np.argpartition(distance, self.near - 1)[: self.near]
        told = asked.along(images[:, near]).T.astype(np.float64)
        seen = theirs[:, near].T.astype(np.float64)
        share = _shares(seen - seen.mean(axis=0), value - seen.mean(axis=0), self.ridge)
        middle = told.mean(axis=0)
        answer = middle + share @ (told - middle)
        return answer, np.sqrt(np.square(told - answer).mean(axis=0))

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        value = self.images.value.astype(np.float16)
        arrays = {"value": value, "middle": self.middle, "reach": self.reach}
        held = list(self.images.symmetries)
        return arrays, {"near": self.near, "ridge": self.ridge, "symmetries": held}

    @classmethod
    def unpack(
        cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]], record: Mapping[str, Any]
    ) -> "LocalLinearAnalogs":
        """What `pack` took apart."""
        value = arrays["value"].astype(np.float32)
        images = Images(value, tuple(record["symmetries"]))
        return cls(images, arrays["middle"], arrays["reach"], record["near"], record["ridge"])


def _shares(
    seen: Float[np.ndarray, "near known"], wanted: Float[np.ndarray, " known"], ridge: float
) -> Float[np.ndarray, " near"]:
    """How much of each makes their sum come near what is wanted: ridge regression."""
    fewer = min(seen.shape)
    level = ridge * np.square(seen).sum() / fewer + 1e-12
    if seen.shape[0] <= seen.shape[1]:
        return np.linalg.solve(seen @ seen.T + level * np.eye(fewer), seen @ wanted)
    return seen @ np.linalg.solve(seen.T @ seen + level * np.eye(fewer), wanted)
