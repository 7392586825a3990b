"""A data set as one long table."""

import numpy as np
import pyarrow as pa

from nrtsi.bench.datasets.dataset import Dataset

__all__ = ["to_table"]


def to_table(dataset: Dataset) -> pa.Table:
    """One row a step: `part`, `series`, `time` and the channels; null where there is no value.

    `part` is train, validation or test; series are numbered through all parts.
    """
    parts = dataset.parts
    steps = [part.time.shape[1] for part in parts.values()]
    rows = [part.time.size for part in parts.values()]
    series = sum(part.series for part in parts.values())
    value = np.concatenate([p.value.reshape(-1, len(dataset.channels)) for p in parts.values()])
    columns = {
        "part": pa.concat_arrays([pa.repeat(n, c) for n, c in zip(parts, rows, strict=True)]),
        "series": np.repeat(
            np.arange(series), np.repeat(steps, [part.series for part in parts.values()])
        ),
        "time": np.concatenate([part.time.ravel() for part in parts.values()]),
    }
    for channel, name in enumerate(dataset.channels):
        columns[name] = pa.array(value[:, channel], from_pandas=True)  # NaN becomes null
    return pa.table(columns)
