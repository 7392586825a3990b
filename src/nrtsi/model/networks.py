"""Which network a model has, what it is shown and what it takes: all in which they differ."""

import numpy as np
from jaxtyping import Bool, Int

from nrtsi.config import ModelConfig
from nrtsi.model.base import Network
from nrtsi.model.cells import MANY, CellNetwork
from nrtsi.model.rows import RowNetwork
from nrtsi.model.tokens import Layout
from nrtsi.schedule.plan import Step
from nrtsi.windows import Windows, windows

__all__ = ["Network", "network_of", "window_bytes", "windows_of"]


def network_of(config: ModelConfig, layout: Layout) -> Network:
    """An untrained network of the kind that `config` names."""
    kind = CellNetwork if config.network == "cells" else RowNetwork
    return kind(config, layout)


def windows_of(
    step: Step,
    start: Int[np.ndarray, " bound"],
    config: ModelConfig,
    asked: Bool[np.ndarray, " target"] | None = None,
) -> Windows:
    """The windows of a step's targets, or of those asked.

    For cells a row that is partly known is a source of other windows even where it is a target;
    and it is at no distance from itself, so that its level is the finest.
    """
    rows, level, known = step.rows, step.level, step.sources
    if config.network == "cells":
        known, level = step.known, np.where(step.known[rows], 0, level)
    if asked is not None:
        rows, level = rows[asked], level[asked]
    return windows(np.flatnonzero(known), rows, level, start, config.window)


def window_bytes(
    size: Int[np.ndarray, " window"], config: ModelConfig, layout: Layout
) -> Int[np.ndarray, " window"]:
    """About what a window of so many rows takes, gathered and inside the network."""
    inside = 6 * config.width + 2 * config.feed_forward + 8 * config.heads * config.head_size
    gathered = 4 * layout.channels(config) + 24 * layout.dims
    if config.network == "cells":
        pairs = config.heads * layout.dims * size * (size + min(layout.dims, MANY))
        return size * 4 * (layout.dims * inside + gathered) + 4 * pairs
    return size * 4 * (inside + gathered) + 12 * size**2
