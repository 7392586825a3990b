"""Which network a model has, what it is shown and what it takes: all in which they differ."""

import numpy as np
from jaxtyping import Bool, Int

from nrtsi.config import ModelConfig
from nrtsi.network.base import Network
from nrtsi.network.cells import MANY, CellNetwork
from nrtsi.network.pointwise import PointwiseNetwork
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout
from nrtsi.schedule.plan import Step
from nrtsi.schedule.windows import Windows, windows

__all__ = ["Network", "network_of", "window_bytes", "windows_of"]


KINDS: dict[str, type[CellNetwork] | type[PointwiseNetwork] | type[RowNetwork]] = {
    "cells": CellNetwork,
    "pointwise": PointwiseNetwork,
    "rows": RowNetwork,
}


def network_of(config: ModelConfig, layout: TokenLayout) -> Network:
    """An untrained network of the kind that `config` names."""
    return KINDS[config.network](config, layout)


def windows_of(
    step: Step,
    start: Int[np.ndarray, " bound"],
    config: ModelConfig,
    asked: Bool[np.ndarray, " target"] | None = None,
) -> Windows:
    """The windows of a step's targets, or of those asked.

    For cells a row that is partly known is a source of other windows even where it is a target;
    and it is at no distance from itself, so that its level is the finest. What reads a target's
    own token alone has windows of targets only.
    """
    rows, level, known = step.rows, step.level, step.sources
    if config.network == "cells":
        known, level = step.known, np.where(step.known[rows], 0, level)
    if config.network == "pointwise":
        known = np.zeros_like(known)
    if asked is not None:
        rows, level = rows[asked], level[asked]
    return windows(np.flatnonzero(known), rows, level, start, config.window)


def window_bytes(
    size: Int[np.ndarray, " window"], config: ModelConfig, layout: TokenLayout
) -> Int[np.ndarray, " window"]:
    """About what a window of so many rows takes, gathered and inside the network."""
    inside = 6 * config.width + 2 * config.feed_forward + 8 * config.heads * config.head_size
    gathered = 4 * layout.channels(config) + 24 * layout.dims
    if config.network == "cells":
        pairs = config.heads * layout.dims * size * (size + min(layout.dims, MANY))
        return size * 4 * (layout.dims * inside + gathered) + 4 * pairs
    return size * 4 * (inside + gathered) + 12 * size**2
