"""Tables of one station or one panel of sensors, and the gaps of a worn-out logger in them."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nrtsi.bench.datasets.weather import lost, weather
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import data_of

HOURS = 24
STATIONS = 12
"""In the air data, one after the other, as many windows of each."""


@dataclass(frozen=True)
class Single:
    """A table with gaps, and what was in them."""

    gappy: pd.DataFrame
    truth: np.ndarray
    """All values, by row and column."""

    asked: np.ndarray
    """True where a cell is missing that is known to this script."""

    @property
    def digest(self) -> str:
        """Tells tables apart."""
        return hashlib.sha256(np.where(self.asked, self.truth, 0.5).tobytes()).hexdigest()[:8]


def simulated(days: int, seed: int) -> Single:
    """The demo's weather station, of another seed."""
    gappy, truth = weather(seed, days=days)
    time = pd.Index(gappy.pop("time"))
    truth.pop("time")
    values = pd.DataFrame(gappy).to_numpy()
    return Single(_table(values, time), pd.DataFrame(truth).to_numpy(), np.isnan(values))


def station(number: int, days: int) -> Single:
    """Hours of one station of Beijing, from the test part of the data."""
    value = _test_part("air")
    share = len(value) // STATIONS
    return _with_gaps(value[number * share : (number + 1) * share], days)


def sensors(days: int, count: int) -> Single:
    """Hours of some road sensors, from the test part of the data."""
    return _with_gaps(_test_part("traffic")[..., :count], days)


DATA: dict[str, Callable[[], Single]] = {
    "simulated weather, 60 days": lambda: simulated(60, seed=21),
    "simulated weather, a year": lambda: simulated(365, seed=22),
    "Beijing station, 60 days": lambda: station(6, 60),
    "Beijing station, 290 days": lambda: station(9, 290),
    "8 road sensors, 60 days": lambda: sensors(60, 8),
}


def _test_part(name: str) -> np.ndarray:
    table = open_table(name)
    return data_of(table, table.data, quick=False).test.value


def _with_gaps(windows: np.ndarray, days: int) -> Single:
    """Windows that follow each other, as one table of which cells were lost."""
    value = windows.reshape(-1, windows.shape[-1])[: days * HOURS].astype(np.float64)
    gone = lost(len(value), value.shape[1], np.random.default_rng(0))
    time = pd.date_range("2024-01-01", periods=len(value), freq="h")
    return Single(_table(np.where(gone, np.nan, value), time), value, gone & np.isfinite(value))


def _table(value: np.ndarray, time: pd.Index) -> pd.DataFrame:
    table = pd.DataFrame(value, columns=[f"c{number}" for number in range(value.shape[1])])
    return table.assign(time=time)
