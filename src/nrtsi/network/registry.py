"""The table of networks: a new one is a file with a `Network` class, and a line here."""

from nrtsi.config import ModelConfig
from nrtsi.network.base import Network
from nrtsi.network.cells import CellNetwork
from nrtsi.network.pointwise import PointwiseNetwork
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout

__all__ = ["NETWORKS", "Network", "network_of"]

NETWORKS: dict[str, type[Network]] = {
    "rows": RowNetwork,
    "cells": CellNetwork,
    "pointwise": PointwiseNetwork,
}
"""Networks by `ModelConfig.network`."""


def network_of(config: ModelConfig, layout: TokenLayout) -> Network:
    """Returns an untrained network of the kind that `config` names."""
    return NETWORKS[config.network](config, layout)
