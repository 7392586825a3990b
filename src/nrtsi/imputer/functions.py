"""`impute` and `load`: impute in one call, and read a saved model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nrtsi.baselines.base import warn_of_row_numbers
from nrtsi.core.events import Listener
from nrtsi.imputer.fitted import FittedModel
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions, ImputeTask
from nrtsi.tables import Clock, Columns
from nrtsi.training import checkpoint
from nrtsi.training.settings import device_of

__all__ = ["impute", "load"]


def load(path: str | Path, *, device: str = "auto") -> NRTSI:
    """Reads a model that `NRTSI.save` or `nrtsi fit` wrote; it imputes exactly as that one does.

    Raises:
        CheckpointError: The file is absent, damaged, or not a model of this library.
    """
    tensors, record = checkpoint.load(Path(path), "model")
    model = NRTSI(**record["params"] | {"device": device})
    model.clock_, model.detected_ = Clock(**record["clock"]), ()
    model.columns_ = Columns(**record["columns"])
    model.fitted_ = FittedModel.from_state(tensors, record, device_of(device))
    return model


def impute(  # noqa: PLR0913
    frame: Any,
    *,
    time: str | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    budget: str | float = "60s",
    steps: int | None = None,
    seed: int = 0,
    at: Any = None,
    every: str | float | None = None,
    times: np.ndarray | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Any:
    """Returns `frame` with every missing cell imputed by a model that is trained on it.

    Args:
        frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
            (series, step, dim). NaN and null are missing.
        time: Column of times. Default: detected.
        id: Column that identifies the series. Default: detected.
        columns: Columns to impute. Default: all numeric columns.
        budget: Training time, such as "60s", "10m", or a number of seconds.
        steps: Number of training steps instead of a time.
        seed: Seed of every random choice.
        at: Return the values at these times only; see `NRTSI.impute`.
        every: Return the values at regular times only; see `NRTSI.impute`.
        times: Times of the steps of an array.
        listener: Is called at every step of training and imputation.
        settings: Further parameters of `NRTSI` and options of `NRTSI.impute`, such as
            `interval=0.9`, `method="auto"` or `max_gap="6h"`.

    Raises:
        InputError: The data or a parameter cannot be used; the message says what to change.
    """
    options = ImputeOptions.pop(settings)
    model = NRTSI(
        time=time, id=id, columns=columns, budget=budget, steps=steps, seed=seed, **settings
    )
    panel = model.read(frame, times=times)
    task = ImputeTask.of(panel, options, at=at, every=every)
    if panel.series.observed.all() and task.query is panel and options == ImputeOptions():
        return frame
    warn_of_row_numbers(panel)
    return model.fit_panel(panel, listener=listener).run(task, listener).frame()
