"""Air of twelve stations in Beijing, hourly, from the original files."""

import logging
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from nrtsi.datasets.dataset import Dataset
from nrtsi.datasets.originals import columns, members
from nrtsi.datasets.splits import bounds, regular, standardise, windows
from nrtsi.errors import InputError

__all__ = ["read_air"]

log = logging.getLogger(__name__)

CHANNELS = (
    "PM2.5",
    "PM10",
    "SO2",
    "NO2",
    "CO",
    "O3",
    "TEMP",
    "PRES",
    "DEWP",
    "RAIN",
    "WSPM",
)
"""Six pollutants and five readings of the weather; the direction of the wind is no number."""

CLOCK = ("year", "month", "day", "hour")

STATIONS = 12

HOURS = 48
"""Length of a window."""


def read_air(path: Path) -> Dataset:
    """The data set, from the downloaded zip or from a folder of its CSV files.

    Each station is cut into windows of 48 hours, one after the other and at the same hours for
    all stations. The first 70 % of the time are for training, the next 10 % for validation, the
    rest for the test. Windows without a single reading are left out.

    Raises:
        InputError: A file cannot be read, lacks a column, or has an hour twice.
    """
    hours, readings = [], []
    for name, content in members(path, "PRSA_Data_*.csv"):
        table = columns(name, content, (*CLOCK, *CHANNELS))
        hours.append(_hours(name, table[:, :4]))
        readings.append(table[:, 4:])
    if len(readings) != STATIONS:
        log.warning("%s has %d stations; the original has %d", path, len(readings), STATIONS)
    first = min(int(hour.min()) for hour in hours)
    last = max(int(hour.max()) for hour in hours)
    grid = np.full((len(readings), last + 1 - first, len(CHANNELS)), np.nan)
    for station, (hour, reading) in enumerate(zip(hours, readings, strict=True)):
        grid[station, hour - first] = reading
    return _split(grid, np.datetime64(first, "h"))


def _hours(name: str, clock: Float[np.ndarray, "row 4"]) -> Int[np.ndarray, " row"]:
    """Hours since 1970 of each row."""
    if not (clock.size and np.isfinite(clock).all()):
        raise InputError(
            f"{name} must have a year, month, day and hour in every row, got empty cells; "
            f"give the original file"
        )
    year, month, day, hour = clock.astype(np.int64).T
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    hours = days * 24 + hour
    if np.unique(hours).size != hours.size:
        raise InputError(
            f"{name} must have every hour once, got {hours.size - np.unique(hours).size} repeats; "
            f"give the original file"
        )
    return hours


def _split(grid: Float[np.ndarray, "station hour dim"], first: np.datetime64) -> Dataset:
    cuts = bounds(grid.shape[1] // HOURS, f"windows of {HOURS} hours")
    by_station = [windows(station, HOURS) for station in grid]
    parts = []
    for piece in (slice(cuts[0]), slice(*cuts), slice(cuts[1], None)):
        value = np.concatenate([station[piece] for station in by_station])
        parts.append(regular(value[np.isfinite(value).any(axis=(1, 2))]))
    train, validation, test = standardise(*parts)
    days = [str((first + cut * HOURS).astype("datetime64[D]")) for cut in (0, *cuts)]
    about = (
        f"Beijing multi-site air quality, {grid.shape[0]} stations, windows of {HOURS} hours. "
        f"Training from {days[0]}, validation from {days[1]}, test from {days[2]}; each channel "
        f"standardised by the training part."
    )
    return Dataset("air", train, validation, test, CHANNELS, about)
