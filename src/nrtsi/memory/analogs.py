"""The few series that agree best with what is known, put together so that they agree better."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from nrtsi.memory.points import Cells
from nrtsi.memory.stock import Stock

__all__ = ["SYMMETRIES", "Analogs"]

SYMMETRIES = ("alike", "mirrored", "reversed")
"""A channel may go as another does, upside down, or backwards."""


@dataclass(frozen=True)
class Analogs:
    """All remembered series, of which those nearby are asked, channel by channel.

    Near a series that is known in part its like lie in a plane, or nearly: a sum of few of them
    with weights that add up to one follows it, where the nearest alone would be a little off.
    """

    value: Float[np.ndarray, "channel point series"]
    """From -1 to 1, the least and the greatest that each channel has had."""

    middle: Float[np.ndarray, " channel"]
    reach: Float[np.ndarray, " channel"]
    """Half way between the least and the greatest, and from there to either."""

    near: int
    """How many are put together."""

    ridge: float
    """How much their sum is held to their mean."""

    symmetries: tuple[str, ...] = ()
    """In which ways series are also remembered that have never been: some of `SYMMETRIES`."""

    @classmethod
    def of(cls, stock: Stock, near: int, ridge: float) -> "Analogs":
        """Remembers the series in stock."""
        middle = (stock.low + stock.high) / 2
        reach = np.maximum((stock.high - stock.low) / 2, 1e-9)
        unit = (stock.value - middle[:, None, None]) / reach[:, None, None]
        # As a file has it, so that a model that was saved says the same.
        return cls(unit.astype(np.float16).astype(np.float32), middle, reach, near, ridge)

    def __str__(self) -> str:
        """What it is, in a few words."""
        images = f" ({', '.join(self.symmetries)})" if self.symmetries else ""
        return f"{self.near} nearest of {self.value.shape[-1]:,} series{images}"

    def tell(
        self, known: Cells, value: Float[np.ndarray, " known"], asked: Cells, own: int
    ) -> tuple[Float[np.ndarray, " asked"], Float[np.ndarray, " asked"]]:
        """What the series like one say of the cells asked for, and how far apart they are there.

        Series number `own`, where it is not negative, is not looked at.
        """
        answer, apart = np.zeros(asked.channel.size), np.zeros(asked.channel.size)
        for channel, (middle, reach) in enumerate(zip(self.middle, self.reach, strict=True)):
            ours, wanted = known.channel == channel, asked.channel == channel
            there = (value[ours] - middle) / reach
            told, spread = self._tell(channel, known.pick(ours), there, asked.pick(wanted), own)
            answer[wanted], apart[wanted] = middle + reach * told, reach * spread
        return answer, apart

    def _tell(
        self, channel: int, known: Cells, value: np.ndarray, asked: Cells, own: int
    ) -> tuple[np.ndarray, np.ndarray]:
        everyone = self._copies[0 if "alike" in self.symmetries else channel]
        theirs = known.along(everyone)
        distance = np.square(theirs - value[:, None].astype(np.float32)).sum(axis=0)
        if own >= 0:
            distance[own :: self.value.shape[-1]] = np.inf
        near = np.argpartition(distance, self.near - 1)[: self.near]
        told = asked.along(everyone[:, near]).T.astype(np.float64)
        seen = theirs[:, near].T.astype(np.float64)
        share = _shares(seen - seen.mean(axis=0), value - seen.mean(axis=0), self.ridge)
        middle = told.mean(axis=0)
        answer = middle + share @ (told - middle)
        return answer, np.sqrt(np.square(told - answer).mean(axis=0))

    @cached_property
    def _copies(self) -> list[Float[np.ndarray, "point copy"]]:
        """For every channel, or for all of them, the series and their mirror images."""
        copies = [np.concatenate(list(self.value), axis=-1)]
        if "alike" not in self.symmetries:
            copies = list(self.value)
        if "mirrored" in self.symmetries:
            copies = [np.concatenate([each, -each], axis=-1) for each in copies]
        if "reversed" in self.symmetries:
            copies = [np.concatenate([each, each[::-1]], axis=-1) for each in copies]
        return [np.ascontiguousarray(each) for each in copies]

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        value = self.value.astype(np.float16)
        arrays = {"value": value, "middle": self.middle, "reach": self.reach}
        record = {"near": self.near, "ridge": self.ridge, "symmetries": list(self.symmetries)}
        return arrays, record

    @classmethod
    def unpack(
        cls, arrays: Mapping[str, Shaped[np.ndarray, "..."]], record: Mapping[str, Any]
    ) -> "Analogs":
        """What `pack` took apart."""
        value = arrays["value"].astype(np.float32)
        symmetries = tuple(record["symmetries"])
        fields = dict(record) | dict(arrays) | {"value": value, "symmetries": symmetries}
        return cls(**fields)


def _shares(
    seen: Float[np.ndarray, "near known"], wanted: Float[np.ndarray, " known"], ridge: float
) -> Float[np.ndarray, " near"]:
    """How much of each makes their sum come near what is wanted: ridge regression."""
    fewer = min(seen.shape)
    if not fewer:
        return np.zeros(seen.shape[0])
    level = ridge * np.square(seen).sum() / fewer + 1e-12
    if seen.shape[0] <= seen.shape[1]:
        return np.linalg.solve(seen @ seen.T + level * np.eye(fewer), seen @ wanted)
    return seen @ np.linalg.solve(seen.T @ seen + level * np.eye(fewer), wanted)
