"""How series become the parts of a data set."""

import numpy as np
from jaxtyping import Float

from nrtsi.bench.datasets.dataset import Part
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

__all__ = ["bounds", "regular", "standardise", "train_and_validation", "windows"]

LEAST = 10
"""Pieces that a split needs, so that a tenth of them is one."""


def train_and_validation(part: Part) -> tuple[Part, Part]:
    """The first nine tenths, and the last tenth (at least one series).

    >>> part = Part(np.zeros((40, 1)), np.zeros((40, 1, 1)))
    >>> [piece.series for piece in train_and_validation(part)]
    [36, 4]
    """
    cut = part.series - max(part.series // 10, 1)
    return part.head(cut), Part(part.time[cut:], part.value[cut:])


def bounds(pieces: int, what: str) -> tuple[int, int]:
    """Where validation and test begin when pieces are split 70 / 10 / 20.

    Args:
        pieces: How many there are.
        what: Their name, for the error, as in "days".

    Raises:
        InputError: There are so few that a part would be empty.

    >>> bounds(730, "windows of 48 hours")
    (511, 584)
    """
    if pieces < LEAST:
        raise InputError(
            f"a split needs at least {LEAST} {what}, got {pieces}; give a longer file"
        )
    return pieces * 7 // 10, pieces * 8 // 10


def windows(
    value: Float[np.ndarray, "row dim"], steps: int
) -> Float[np.ndarray, "series {steps} dim"]:
    """Pieces of `steps` rows, one after the other; what is left over at the end is dropped."""
    count = value.shape[0] // steps
    return value[: count * steps].reshape(count, steps, value.shape[1])


def regular(value: Float[np.ndarray, "series step dim"]) -> Part:
    """Series whose times are 0, 1, 2, …."""
    series, steps, _ = value.shape
    return Part(np.tile(np.arange(steps, dtype=np.float64), (series, 1)), value)


def standardise(train: Part, *others: Part) -> tuple[Part, ...]:
    """All parts with the mean of the first taken off and divided by its standard deviation.

    Per channel, over the cells the first part has; a channel that does not vary there keeps its
    spread.
    """
    parts = (train, *others)
    values = [part.value.copy() for part in parts]
    # Channel by channel, so that the work needs little memory beside the data.
    for channel in range(train.value.shape[2]):
        scaler = Scaler.fit(SeriesSet.stack(train.value[:, :, channel : channel + 1]))
        for value in values:
            value[:, :, channel] = (value[:, :, channel] - scaler.offset) / scaler.spread
    return tuple(Part(part.time, value) for part, value in zip(parts, values, strict=True))
