"""Fourteen gas sensors whose heaters are switched on and off, from the original files."""

from pathlib import Path

import numpy as np

from nrtsi.bench.datasets.dataset import Dataset
from nrtsi.bench.datasets.originals import columns, members
from nrtsi.bench.datasets.splits import bounds, regular, standardise, windows

__all__ = ["read_gas"]

CHANNELS = (
    "CO (ppm)",
    "Humidity (%r.h.)",
    "Temperature (C)",
    "Flow rate (mL/min)",
    "Heater voltage (V)",
    *(f"R{sensor} (MOhm)" for sensor in range(1, 15)),
)
"""All columns but the time."""

ROWS = 48
"""Length of a window."""


def read_gas(path: Path) -> Dataset:
    """The data set, from one of its CSV files, a folder of them, or the downloaded zip.

    Each file is cut into windows of 48 rows, one after the other. Files are named by their date,
    so all windows stand in order of time: the first 70 % are for training, the next 10 % for
    validation, the rest for the test. A unit of time is a row (about 0.3 seconds).

    Raises:
        InputError: A file cannot be read or lacks a column.
    """
    pieces, files = [], 0
    for name, content in members(path, "*.csv"):
        # Half the memory: the thirteen files together have four million rows.
        table = columns(name, content, CHANNELS).astype(np.float32)
        pieces.append(windows(table, ROWS))
        files += 1
    value = np.concatenate(pieces)
    cuts = bounds(value.shape[0], f"windows of {ROWS} rows")
    train, validation, test = standardise(*(regular(part) for part in np.split(value, cuts)))
    about = (
        f"Gas sensor array under temperature modulation, {files} of the 13 files, windows of "
        f"{ROWS} rows in order of time: 70 % training, 10 % validation, 20 % test; each channel "
        f"standardised by the training part."
    )
    return Dataset("gas", train, validation, test, CHANNELS, about)
