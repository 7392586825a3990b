"""`Dataset`: series of one length in training, validation and test parts, and splits."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = [
    "Dataset",
    "Part",
    "cut_windows",
    "regular",
    "split_points",
    "standardise",
    "train_and_validation",
]

MIN_PIECES = 10
"""Pieces that a split needs, so that a tenth of them is one."""


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
        """Whether all steps of all series have the same length."""
        steps = np.diff(self.time, axis=1)
        return bool(np.allclose(steps, steps[:1, :1], rtol=1e-6, atol=0.0))

    def take(self, at: Integer[np.ndarray, " taken"] | slice) -> "Part":
        """The series at these places."""
        return Part(self.time[at], self.value[at])

    def head(self, series: int) -> "Part":
        """The first series."""
        return self.take(slice(series))

    def spread(self, series: int) -> "Part":
        """This many series, evenly spaced; all of them if there are no more."""
        if series >= self.series:
            return self
        # The middle of each of equal segments: neither end is favoured.
        return self.take(((2 * np.arange(series) + 1) * self.series) // (2 * series))

    def to_set(self) -> SeriesSet:
        """The same series as a `SeriesSet`."""
        return SeriesSet.stack(self.value, self.time)


@dataclass(frozen=True)
class Dataset:
    """A data set of the benchmarks."""

    name: str
    train: Part
    validation: Part
    """For early stopping and the selection of weights."""

    test: Part
    channels: tuple[str, ...]
    about: str
    """How it was made and split, in a sentence or two."""

    @cached_property
    def digest(self) -> str:
        """Eight digits that identify the series."""
        digest = sha256()
        for part in self.parts.values():
            digest.update(np.ascontiguousarray(part.time).tobytes())
            digest.update(np.ascontiguousarray(part.value).tobytes())
        return digest.hexdigest()[:8]

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def to_table(self) -> Any:
        """A long pyarrow table: `part`, `series`, `time` and the channels; null for no value.

        Series are numbered through all parts.
        """
        import pyarrow as pa  # takes a while to import

        parts = self.parts.values()
        value = np.concatenate([p.value.reshape(-1, len(self.channels)) for p in parts])
        length = np.concatenate([np.full(part.series, part.time.shape[1]) for part in parts])
        columns = {
            "part": np.repeat(list(self.parts), [part.time.size for part in parts]),
            "series": np.repeat(np.arange(length.size), length),
            "time": np.concatenate([part.time.ravel() for part in parts]),
        }
        for channel, name in enumerate(self.channels):
            columns[name] = pa.array(value[:, channel], from_pandas=True)  # NaN becomes null
        return pa.table(columns)


def train_and_validation(part: Part) -> tuple[Part, Part]:
    """The first nine tenths, and the last tenth (at least one series)."""
    cut = part.series - max(part.series // 10, 1)
    return part.head(cut), part.take(slice(cut, None))


def split_points(pieces: int, what: str) -> tuple[int, int]:
    """Where validation and test begin if pieces, such as "days", are split 70 / 10 / 20."""
    if pieces < MIN_PIECES:
        raise InputError(
            f"a split needs at least {MIN_PIECES} {what}, got {pieces}; give a longer file"
        )
    return pieces * 7 // 10, pieces * 8 // 10


def cut_windows(
    value: Float[np.ndarray, "row dim"], steps: int
) -> Float[np.ndarray, "series {steps} dim"]:
    """Cuts rows into consecutive windows of `steps` rows; an incomplete last one is dropped."""
    count = value.shape[0] // steps
    return value[: count * steps].reshape(count, steps, value.shape[1])


def regular(value: Float[np.ndarray, "series step dim"]) -> Part:
    """Series with the times 0, 1, 2, …."""
    series, steps, _ = value.shape
    return Part(np.tile(np.arange(steps, dtype=np.float64), (series, 1)), value)


def standardise(train: Part, *others: Part) -> tuple[Part, ...]:
    """Scales all parts by mean and standard deviation of each channel of the first.

    A channel that does not vary there is only centred.
    """
    parts = (train, *others)
    values = [part.value.copy() for part in parts]
    # Channel by channel, which needs little memory beside the data.
    for channel in range(train.value.shape[2]):
        scaler = Scaler.fit(SeriesSet.stack(train.value[:, :, channel : channel + 1]))
        for value in values:
            value[:, :, channel] = (value[:, :, channel] - scaler.offset) / scaler.spread
    return tuple(Part(part.time, value) for part, value in zip(parts, values, strict=True))
