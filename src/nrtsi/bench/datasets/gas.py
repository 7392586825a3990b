"""Fourteen gas sensors with modulated heaters, from the original files."""

from pathlib import Path

import numpy as np

from nrtsi.bench.datasets.dataset import Dataset, cut_windows, regular, split_points, standardise
from nrtsi.bench.datasets.originals import matching_files, read_columns

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
    """Reads one of its CSV files, a folder of them, or the downloaded zip.

    Each file is cut into consecutive windows of 48 rows. Files are named by their date, so all
    windows are in order of time: the first 70 % are for training, the next 10 % for validation,
    the rest for the test. A unit of time is a row (about 0.3 seconds).
    """
    pieces, files = [], 0
    for name, content in matching_files(path, "*.csv"):
        # Half the memory: the thirteen files together have four million rows.
        table = read_columns(name, content, CHANNELS).astype(np.float32)
        pieces.append(cut_windows(table, ROWS))
        files += 1
    value = np.concatenate(pieces)
    cuts = split_points(value.shape[0], f"windows of {ROWS} rows")
    train, validation, test = standardise(*(regular(part) for part in np.split(value, cuts)))
    about = (
        f"Gas sensor array under temperature modulation, {files} of the 13 files, windows of "
        f"{ROWS} rows in order of time: 70 % training, 10 % validation, 20 % test; each channel "
        f"standardised by the training part."
    )
    return Dataset("gas", train, validation, test, CHANNELS, about)
