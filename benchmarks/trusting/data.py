"""Tables whose missing cells are known to us, and to nobody who fills them."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from nrtsi.bench.datasets import make
from nrtsi.bench.datasets.weather import weather

HOURS = pd.date_range("2024-01-01", periods=24 * 365, freq="h")


def station(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A year of a simulated weather station, with the gaps of its logger."""
    gappy, truth = weather(seed=1000 + seed, days=365)
    return tuple(pd.DataFrame(each).set_index("time") for each in (gappy, truth))


def drifting(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three channels that follow each other, without any cycle; blocks are lost."""
    rng = np.random.default_rng([7, seed])
    pull = np.array([[1.0, 0.7, 0.2], [0.0, 0.7, 0.3], [0.0, 0.0, 0.9]])
    push = rng.normal(size=(HOURS.size, 3)) @ pull
    value = np.zeros_like(push)
    for row in range(1, HOURS.size):
        value[row] = np.array([0.95, 0.8, 0.99]) * value[row - 1] + push[row]
    return _with_blocks(pd.DataFrame(value, HOURS, ["fast", "faster", "slow"]), rng)


def rain(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two skewed channels that are never below nought and often there; blocks are lost."""
    rng = np.random.default_rng([8, seed])
    wet = np.zeros((HOURS.size, 2))
    for row in range(1, HOURS.size):
        wet[row] = 0.93 * wet[row - 1] + rng.normal(size=2)
    return _with_blocks(pd.DataFrame(np.maximum(wet, 0.0) ** 1.5, HOURS, ["north", "south"]), rng)


def air(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Beijing's stations: what is really missing stays so, and blocks are lost besides."""
    data = make("air")
    value = data.train.value.reshape(-1, data.train.value.shape[-1])[:24000]
    times = pd.date_range("2013-03-01", periods=len(value), freq="h")
    names = [f"c{channel}" for channel in range(value.shape[1])]
    rng = np.random.default_rng([9, seed])
    return _with_blocks(pd.DataFrame(value, times, names), rng)


DATA: dict[str, Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]] = {
    "station": station,
    "drifting": drifting,
    "rain": rain,
    "air": air,
}

BOUNDS = {"rain": {"north": (0, None), "south": (0, None)}}


def _with_blocks(
    truth: pd.DataFrame, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Loses some 15 % of each channel in blocks of 1 to 48 rows."""
    lost = np.zeros(truth.shape, dtype=bool)
    for channel in range(truth.shape[1]):
        while lost[:, channel].mean() < 0.15:
            begin = int(rng.integers(len(truth)))
            lost[begin : begin + int(48 ** rng.random()), channel] = True
    return truth.mask(lost), truth
