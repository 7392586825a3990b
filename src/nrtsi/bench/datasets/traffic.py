"""Road traffic around San Francisco: the original PEMS-SF files, and a smaller hourly data set."""

import io
import logging
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import Float

from nrtsi.bench.datasets.dataset import (
    Dataset,
    cut_windows,
    regular,
    split_points,
    train_and_validation,
)
from nrtsi.bench.datasets.originals import one_file
from nrtsi.errors import InputError

__all__ = ["read_traffic", "read_traffic20"]

log = logging.getLogger(__name__)

ORIGINALS = {
    "PEMS_train": "3df5ec7c593713bc9f1a0b9961b68003c3419b4e56f24dd5ebe0542091eb5ab8",
    "PEMS_test": "d272cb35be204dd702a239f2c6ed7ede0b9fe01b79e794b08243bc38adb21409",
}
"""SHA-256 of the two files as their source hands them out."""

SENSORS = 20
HOURS = 24


def read_traffic(path: Path) -> Dataset:
    """Reads days of 144 steps by 963 sensors from a folder or zip of PEMS_train and PEMS_test.

    The last tenth of `PEMS_train` is for validation (its days are in random order), `PEMS_test`
    for the test. Values are occupancies from 0 to 1, unscaled. Files with another checksum than
    the original ones are read with a warning.
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
    channels = tuple(f"sensor{i + 1}" for i in range(train.shape[2]))
    parts = train_and_validation(regular(train))
    return Dataset("traffic", *parts, regular(test), channels, about)


def _days(path: Path, name: str) -> Float[np.ndarray, "day step sensor"]:
    if path.is_file() and path.suffix.lower() != ".zip":
        raise InputError(
            f"{path} must be the folder with PEMS_train and PEMS_test, got a file; give the folder"
        )
    days = list(_matrices(name, one_file(path, name)[1]))
    shapes = sorted({day.shape for day in days})
    if len(shapes) != 1:
        raise InputError(
            f"{name} must have a matrix of one shape in every line, got {shapes or 'no line'}; "
            f"give the original file"
        )
    # The file has a row for each sensor; a series has one for each step.
    return np.stack(days).transpose(0, 2, 1)


def _matrices(name: str, content: bytes) -> Iterator[Float[np.ndarray, "sensor step"]]:
    """One matrix `[a b c; d e f; …]` a line."""
    if sha256(content).hexdigest() != ORIGINALS[name]:
        log.warning("%s is not the original file (its checksum differs); reading it anyway", name)
    for number, line in enumerate(io.BytesIO(content), start=1):
        text = line.strip()
        if not text:
            continue
        rows = [row.split() for row in text.strip(b"[]").split(b";")]
        try:
            # Half the memory: the two files together have 61 million cells.
            yield np.array(rows, dtype=np.float32)
        except ValueError as error:
            raise InputError(
                f"{name} must have a matrix [a b c; d e f; …] of numbers in every line, got "
                f"another line {number}; give the original file"
            ) from error


def read_traffic20(path: Path) -> Dataset:
    """Reads days of 24 hours by 20 sensors from a text file with a line an hour.

    Numbers are separated by blanks or commas, and the first line is the hour from midnight. The
    first 70 % of the days are for training, the next 10 % for validation, the rest for the test.
    Values are occupancies from 0 to 1, unscaled.
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
    cuts = split_points(len(days), "days")
    train, validation, test = (regular(part) for part in np.split(days, cuts))
    about = (
        f"Hourly occupancy of {SENSORS} road sensors, {len(days)} days in order of time: 70 % "
        f"training, 10 % validation, 20 % test; values unscaled."
    )
    channels = tuple(f"sensor{i + 1}" for i in range(SENSORS))
    return Dataset("traffic20", train, validation, test, channels, about)
