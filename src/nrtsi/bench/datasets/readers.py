"""Readers of the data sets that are made from original files: one function each."""

import io
import logging
from collections.abc import Sequence
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from nrtsi.bench.datasets.dataset import (
    Dataset,
    cut_windows,
    regular,
    split_points,
    standardise,
    train_and_validation,
)
from nrtsi.bench.datasets.files import matching_files, one_file, read_columns
from nrtsi.errors import InputError

__all__ = ["AIR", "GAS", "read_air", "read_gas", "read_nfl", "read_traffic", "read_traffic20"]

log = logging.getLogger(__name__)

AIR = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM")
"""Pollutants and five weather variables; the wind direction is not numeric."""

AIR_STATIONS = 12
WINDOW = 48
"""Rows of a window of air and of gas."""

GAS = (
    "CO (ppm)",
    "Humidity (%r.h.)",
    "Temperature (C)",
    "Flow rate (mL/min)",
    "Heater voltage (V)",
    *(f"R{sensor} (MOhm)" for sensor in range(1, 15)),
)
"""All columns but the time."""

TRAFFIC_CHECKSUMS = {
    "PEMS_train": "3df5ec7c593713bc9f1a0b9961b68003c3419b4e56f24dd5ebe0542091eb5ab8",
    "PEMS_test": "d272cb35be204dd702a239f2c6ed7ede0b9fe01b79e794b08243bc38adb21409",
}
"""SHA-256 of the two files as their source publishes them."""

SENSORS, HOURS = 20, 24
"""Sensors and length of a day of traffic20."""

PLAYERS, FRAMES = 6, 50
ORDERS = np.array(list(permutations(range(PLAYERS))))
"""All 720 orders of six players."""


def read_air(path: Path, seed: int | None = None) -> Dataset:
    """Reads the downloaded zip or a folder of its CSV files.

    Each station is cut into consecutive windows of 48 hours, the same hours for all stations. The
    first 70 % of the time are for training, the next 10 % for validation, the rest for the test;
    with a `seed` the windows are split at random. Windows without observations are dropped.
    """
    hours, readings = [], []
    for name, content in matching_files(path, "PRSA_Data_*.csv"):
        table = read_columns(name, content, ("year", "month", "day", "hour", *AIR))
        hours.append(_hours(name, table[:, :4]))
        readings.append(table[:, 4:])
    stations = len(readings)
    if stations != AIR_STATIONS:
        log.warning("%s has %d stations; the original has %d", path, stations, AIR_STATIONS)
    first, last = min(int(h.min()) for h in hours), max(int(h.max()) for h in hours)
    grid = np.full((stations, last + 1 - first, len(AIR)), np.nan)
    for station, (hour, reading) in enumerate(zip(hours, readings, strict=True)):
        grid[station, hour - first] = reading
    by_station = [cut_windows(station, WINDOW) for station in grid]
    what = f"windows of {WINDOW} hours"
    if seed is None:
        cuts = split_points(len(by_station[0]), what)
        pieces = zip(*(np.split(station, cuts) for station in by_station), strict=True)
        parts = [np.concatenate(piece) for piece in pieces]
        start = np.datetime64(first, "h")
        days = [str((start + cut * WINDOW).astype("datetime64[D]")) for cut in (0, *cuts)]
        split = f"Training from {days[0]}, validation from {days[1]}, test from {days[2]}"
    else:
        value = np.concatenate(by_station)
        cuts = split_points(len(value), what)
        parts = np.split(np.random.default_rng(seed).permutation(value), cuts)
        split = (
            "70 % of the windows, taken at random, for training, 10 % for validation and 20 % for "
            "the test, so that most hours have been seen at other stations"
        )
    observed = [part[np.isfinite(part).any(axis=(1, 2))] for part in parts]
    about = (
        f"Beijing multi-site air quality, {stations} stations, {what}. {split}; each channel "
        f"standardised by the training part."
    )
    return _dataset("air" if seed is None else "air-shuffled", observed, AIR, about, scale=True)


def _hours(name: str, clock: Float[np.ndarray, "row 4"]) -> Int[np.ndarray, " row"]:
    """The hours since 1970 of each row."""
    if not (clock.size and np.isfinite(clock).all()):
        raise InputError(
            f"{name} must have a year, month, day and hour in every row, got empty cells; "
            f"give the original file"
        )
    year, month, day, hour = clock.astype(np.int64).T
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    hours = (months.astype("datetime64[D]").astype(np.int64) + day - 1) * 24 + hour
    repeats = hours.size - np.unique(hours).size
    if repeats:
        raise InputError(
            f"{name} must have every hour once, got {repeats} repeats; give the original file"
        )
    return hours


def read_gas(path: Path) -> Dataset:
    """Reads one of its CSV files, a folder of them, or the downloaded zip.

    Each file is cut into consecutive windows of 48 rows. Files are named by their date, so all
    windows are in order of time. A unit of time is a row (about 0.3 seconds).
    """
    # Half the memory: the thirteen files together have four million rows.
    pieces = [
        cut_windows(read_columns(name, content, GAS).astype(np.float32), WINDOW)
        for name, content in matching_files(path, "*.csv")
    ]
    value = np.concatenate(pieces)
    parts = np.split(value, split_points(len(value), f"windows of {WINDOW} rows"))
    about = (
        f"Gas sensor array under temperature modulation, {len(pieces)} of the 13 files, windows "
        f"of {WINDOW} rows in order of time: 70 % training, 10 % validation, 20 % test; each "
        f"channel standardised by the training part."
    )
    return _dataset("gas", parts, GAS, about, scale=True)


def read_traffic(path: Path) -> Dataset:
    """Reads days of 144 steps by 963 sensors from a folder or zip of PEMS_train and PEMS_test.

    The last tenth of `PEMS_train` is for validation (its days are in random order). Files with
    another checksum than the original ones are read with a warning.
    """
    train, test = _days(path, "PEMS_train"), _days(path, "PEMS_test")
    if train.shape[1:] != test.shape[1:]:
        raise InputError(
            f"PEMS_train and PEMS_test must have days of one shape, got {train.shape[1:]} and "
            f"{test.shape[1:]}; give the original files"
        )
    if len(train) < 2:
        raise InputError(
            f"PEMS_train must have at least 2 days, got {len(train)}; give the original file"
        )
    about = (
        "PEMS-SF, occupancy of road sensors every ten minutes of a day. The last tenth of "
        "PEMS_train is for validation, PEMS_test for the test; values unscaled."
    )
    parts = train_and_validation(regular(train))
    return Dataset("traffic", *parts, regular(test), _sensors(train.shape[2]), about)


def _days(path: Path, name: str) -> Float[np.ndarray, "day step sensor"]:
    """Reads a file with one matrix `[a b c; d e f; …]` a line."""
    if path.is_file() and path.suffix.lower() != ".zip":
        raise InputError(
            f"{path} must be the folder with PEMS_train and PEMS_test, got a file; give the folder"
        )
    _, content = one_file(path, name)
    if sha256(content).hexdigest() != TRAFFIC_CHECKSUMS[name]:
        log.warning("%s is not the original file (its checksum differs); reading it anyway", name)
    days = []
    for number, line in enumerate(io.BytesIO(content), start=1):
        if not line.strip():
            continue
        rows = [row.split() for row in line.strip().strip(b"[]").split(b";")]
        try:
            # Half the memory: the two files together have 61 million cells.
            days.append(np.array(rows, dtype=np.float32))
        except ValueError as error:
            raise InputError(
                f"{name} must have a matrix [a b c; d e f; …] of numbers in every line, got "
                f"another line {number}; give the original file"
            ) from error
    shapes = sorted({day.shape for day in days})
    if len(shapes) != 1:
        raise InputError(
            f"{name} must have a matrix of one shape in every line, got {shapes or 'no line'}; "
            f"give the original file"
        )
    # The file has a row for each sensor; a series has one for each step.
    return np.stack(days).transpose(0, 2, 1)


def read_traffic20(path: Path) -> Dataset:
    """Reads days of 24 hours by 20 sensors from a text file with a line an hour.

    Numbers are separated by blanks or commas, and the first line is the hour from midnight.
    """
    name, content = one_file(path, "traffic*.txt")
    rows = [line.replace(b",", b" ").split() for line in content.splitlines() if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) != SENSORS:
            raise InputError(
                f"{name} must have {SENSORS} numbers in every line, got {len(row)} in line "
                f"{number}; give the file of {SENSORS} sensors"
            )
    try:
        value = np.array(rows, dtype=np.float64).reshape(-1, SENSORS)
    except ValueError as error:
        raise InputError(f"{name} must hold numbers only, got: {error}; check it") from error
    days = cut_windows(value, HOURS)
    about = (
        f"Hourly occupancy of {SENSORS} road sensors, {len(days)} days in order of time: 70 % "
        f"training, 10 % validation, 20 % test; values unscaled."
    )
    parts = np.split(days, split_points(len(days), "days"))
    return _dataset("traffic20", parts, _sensors(SENSORS), about)


def read_nfl(path: Path, seed: int, *, orders: int = 4) -> Dataset:
    """Reads windows of 50 frames by six players, from a `.npy` and the `.csv` of the same stem.

    The array is (window, 50, 12) with columns x1, y1, x2, y2, … in yards; the CSV has the
    columns `gameId` and `playId`, one row a window. Plays, never windows, are split 70 / 10 / 20
    at random. Players have no natural order: each window has a random one, and each training
    window occurs `orders` times, each time in another order.
    """
    value = _tracks(path)
    play = _plays(path.with_suffix(".csv"), value.shape[0])
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(int(play.max()) + 1)
    pieces = np.split(drawn, split_points(drawn.size, "plays"))
    parts = [
        _reordered(value[np.isin(play, piece)], repeat, rng)
        for piece, repeat in zip(pieces, (orders, 1, 1), strict=True)
    ]
    about = (
        f"Tracks of {PLAYERS} football players in yards, windows of {FRAMES} frames at 10 Hz. "
        f"Plays split at random: 70 % training, 10 % validation, 20 % test; players in random "
        f"order, training windows in {orders} orders each."
    )
    channels = tuple(f"{axis}{player + 1}" for player in range(PLAYERS) for axis in "xy")
    return _dataset("nfl", parts, channels, about)


def _tracks(path: Path) -> Float[np.ndarray, "window 50 12"]:
    try:
        with path.open("rb") as file:
            value = np.load(file, allow_pickle=False)
    except OSError as error:
        raise InputError(
            f"{path} must be readable, got {error.strerror or error}; check the path"
        ) from error
    except (ValueError, EOFError) as error:
        raise InputError(
            f"{path} must be a .npy file of numbers, got another; save the array with numpy.save"
        ) from error
    found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else "files"
    if found == "files" or value.shape[1:] != (FRAMES, 2 * PLAYERS) or value.dtype.kind != "f":
        raise InputError(
            f"{path} must hold floats of shape (window, {FRAMES}, {2 * PLAYERS}), got {found}; "
            f"cut the tracks into such windows"
        )
    return value.astype(np.float64)


def _plays(path: Path, windows: int) -> Int[np.ndarray, " window"]:
    """A number for each window that is the same for the windows of one play: 0, 1, 2, …."""
    keys = read_columns(*one_file(path, path.name), ("gameId", "playId"))
    if np.isnan(keys).any():
        raise InputError(
            f"{path} must have a gameId and a playId in every row, got empty cells; fill them in"
        )
    if len(keys) != windows:
        raise InputError(
            f"{path} must have a row for each of the {windows} windows, got {len(keys)}; give the "
            f"file that belongs to the array"
        )
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _reordered(
    value: Float[np.ndarray, "window frame column"], repeat: int, rng: np.random.Generator
) -> Float[np.ndarray, "series frame column"]:
    """Each window `repeat` times, its players in a different random order each time."""
    window, frame, column = value.shape
    # The places of the smallest of 720 random numbers: no order is drawn twice.
    chosen = rng.random((window, len(ORDERS))).argsort(axis=1)[:, :repeat]
    order = ORDERS[chosen].reshape(window * repeat, 1, PLAYERS, 1)
    players = np.repeat(value.reshape(window, frame, PLAYERS, 2), repeat, axis=0)
    return np.take_along_axis(players, order, axis=2).reshape(-1, frame, column)


def _sensors(count: int) -> tuple[str, ...]:
    return tuple(f"sensor{number + 1}" for number in range(count))


def _dataset(
    name: str,
    parts: Sequence[Float[np.ndarray, "_ step dim"]],
    channels: tuple[str, ...],
    about: str,
    *,
    scale: bool = False,
) -> Dataset:
    """A data set of equally spaced series, standardised on request."""
    regular_parts = tuple(regular(part) for part in parts)
    train, validation, test = standardise(*regular_parts) if scale else regular_parts
    return Dataset(name, train, validation, test, channels, about)
