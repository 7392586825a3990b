"""Hourly air quality at twelve stations in Beijing, from the original files."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from nrtsi.bench.datasets.dataset import Dataset, cut_windows, regular, split_points, standardise
from nrtsi.bench.datasets.originals import matching_files, read_columns
from nrtsi.errors import InputError

__all__ = ["read_air"]

log = logging.getLogger(__name__)

POLLUTANTS = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3")
CHANNELS = (*POLLUTANTS, "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
"""Pollutants and five weather variables; the wind direction is not numeric."""

CLOCK = ("year", "month", "day", "hour")

STATIONS = 12

HOURS = 48
"""Length of a window."""

Windows: TypeAlias = Float[np.ndarray, "_ 48 dim"]


def read_air(path: Path, seed: int | None = None) -> Dataset:
    """Reads the downloaded zip or a folder of its CSV files.

    Each station is cut into consecutive windows of 48 hours, the same hours for all stations. The
    first 70 % of the time are for training, the next 10 % for validation, the rest for the test;
    with a `seed` the windows are split at random. Windows without observations are dropped.
    """
    hours, readings = [], []
    for name, content in matching_files(path, "PRSA_Data_*.csv"):
        table = read_columns(name, content, (*CLOCK, *CHANNELS))
        hours.append(_hours(name, table[:, :4]))
        readings.append(table[:, 4:])
    if len(readings) != STATIONS:
        log.warning("%s has %d stations; the original has %d", path, len(readings), STATIONS)
    first = min(int(hour.min()) for hour in hours)
    last = max(int(hour.max()) for hour in hours)
    grid = np.full((len(readings), last + 1 - first, len(CHANNELS)), np.nan)
    for station, (hour, reading) in enumerate(zip(hours, readings, strict=True)):
        grid[station, hour - first] = reading
    by_station = [cut_windows(station, HOURS) for station in grid]
    if seed is not None:
        return _split_at_random(by_station, seed)
    return _split_by_time(by_station, np.datetime64(first, "h"))


def _hours(name: str, clock: Float[np.ndarray, "row 4"]) -> Int[np.ndarray, " row"]:
    """The hours since 1970 of each row."""
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


def _split_by_time(by_station: Sequence[Windows], first: np.datetime64) -> Dataset:
    cuts = split_points(len(by_station[0]), f"windows of {HOURS} hours")
    parts = [
        np.concatenate([station[piece] for station in by_station])
        for piece in (slice(cuts[0]), slice(*cuts), slice(cuts[1], None))
    ]
    days = [str((first + cut * HOURS).astype("datetime64[D]")) for cut in (0, *cuts)]
    split = f"Training from {days[0]}, validation from {days[1]}, test from {days[2]}"
    return _dataset("air", parts, f"{len(by_station)} stations", split)


def _split_at_random(by_station: Sequence[Windows], seed: int) -> Dataset:
    value = np.concatenate(by_station)
    cuts = split_points(len(value), f"windows of {HOURS} hours")
    parts = np.split(np.random.default_rng(seed).permutation(value), cuts)
    split = (
        "70 % of the windows, taken at random, for training, 10 % for validation and 20 % for the "
        "test, so that most hours have been seen at other stations"
    )
    return _dataset("air-shuffled", parts, f"{len(by_station)} stations", split)


def _dataset(name: str, parts: Sequence[Windows], stations: str, split: str) -> Dataset:
    full = (regular(part[np.isfinite(part).any(axis=(1, 2))]) for part in parts)
    train, validation, test = standardise(*full)
    about = (
        f"Beijing multi-site air quality, {stations}, windows of {HOURS} hours. {split}; each "
        f"channel standardised by the training part."
    )
    return Dataset(name, train, validation, test, CHANNELS, about)
