"""`AnalogModel`: the series that are remembered, and what they say of a series like them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.network.threads import Threads
from nrtsi.predictors.analogs.fingerprints import SeriesFingerprints
from nrtsi.predictors.analogs.method import AnalogMethod
from nrtsi.predictors.analogs.mixture import SINGLE, AnalogMixture, name_of
from nrtsi.predictors.analogs.points import PointLookup

__all__ = ["AnalogModel", "AnalogPrediction"]


# Known cells of a series that are read, at most.
KNOWN = 1024


@dataclass(frozen=True)
class AnalogPrediction:
    """What series like it say of every cell of a series."""

    value: Float[np.ndarray, "row dim"]

    scale: Float[np.ndarray, "row dim"]
    """How far they are apart about it; 0 at times of which nothing is remembered."""


WAYS = SINGLE | {"joint": AnalogMixture}


@dataclass(frozen=True)
class AnalogModel:
    """Series that are remembered at common points in time."""

    point: Float[np.ndarray, " point"]
    way: AnalogMethod

    marks: SeriesFingerprints
    """What tells which series is itself a remembered one."""

    def recall(
        self,
        series: SeriesSet,
        own: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> AnalogPrediction:
        """What is remembered of series like these, from their observed cells alone.

        A series that is itself remembered is not looked at, for its gaps have been bridged there
        by straight lines: `own` is its number, or -1 where it is none of them; without `own` it is
        recognised. At times of which nothing is remembered interpolation stands in. The `threads`
        share the work.
        """
        own = self.marks.find(series) if own is None else own
        value, scale = interpolate(series), np.zeros(series.value.shape)
        place = PointLookup.of(self.point, series.time)

        def ask(index: int) -> None:
            rows = np.arange(series.start[index], series.start[index + 1])
            rows = rows[place.there[rows]]
            row, channel = np.nonzero(series.observed[rows])
            some = _thinned(row.size)
            row, channel = rows[row[some]], channel[some]
            every = np.indices((rows.size, series.dims)).reshape(2, -1)
            told = self.way.tell(
                place.at(row, channel),
                series.value[row, channel],
                place.at(rows[every[0]], every[1]),
                int(own[index]),
            )
            value[rows], scale[rows] = (each.reshape(rows.size, -1) for each in told)

        (threads or Threads(1)).map(ask, range(series.series))
        return AnalogPrediction(value, scale)

    def lasting(self) -> "AnalogModel":
        """The same as it is in a file, which leaves out what only training needs."""
        return AnalogModel.unpack(*self.pack())

    def __str__(self) -> str:
        """What is remembered, in a few words."""
        return f"{self.way}, at {self.point.size} points in time"

    def pack(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values that `unpack` makes the same of."""
        arrays, record = self.way.pack()
        arrays |= {"marks": self.marks.hash}
        return arrays | {"point": self.point}, record | {"way": name_of(self.way, WAYS)}

    @classmethod
    def unpack(cls, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> "AnalogModel":
        """What `pack` took apart."""
        rest, others = dict(record), dict(arrays)
        point, way = others.pop("point"), WAYS[rest.pop("way")]
        return cls(point, way.unpack(others, rest), SeriesFingerprints(others.pop("marks")))


def _thinned(cells: int) -> slice:
    """Which of so many known cells are read: all, or every other, third, ….

    >>> np.arange(10)[_thinned(10)].size, np.arange(5000)[_thinned(5000)].size
    (10, 1000)
    """
    return slice(None, None, max(1, -(-cells // KNOWN)))
