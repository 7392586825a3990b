"""Saves a model to a file, loads it, and describes it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nrtsi.imputer.fitted import FittedModel
from nrtsi.tables import Clock, Columns
from nrtsi.training import checkpoint
from nrtsi.training.settings import device_of

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["describe", "load_model", "save_model"]


def save_model(model: "NRTSI", path: Path) -> None:
    """Does what `NRTSI.save` describes."""
    model.must_be_fitted()
    tensors, record = model.fitted_.state()
    checkpoint.save(path, "model", tensors, record | _about(model))


def load_model(kind: "type[NRTSI]", path: Path, device: str) -> "NRTSI":
    """Does what `nrtsi.load` describes."""
    tensors, record = checkpoint.load(path, "model")
    model = kind(**record["params"] | {"device": device})
    model.clock_ = Clock(**record["clock"])
    model.columns_ = Columns(**record["columns"])
    model.detected_ = ()
    model.fitted_ = FittedModel.from_state(tensors, record, device_of(device))
    return model


def describe(model: "NRTSI") -> dict[str, Any]:
    """Does what `NRTSI.info` describes."""
    model.must_be_fitted()
    return model.fitted_.info() | _about(model)


def _about(model: "NRTSI") -> dict[str, Any]:
    columns = model.columns_

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        return dict(value) if isinstance(value, Mapping) else list(value)

    params = json.dumps(model.get_params(deep=False), default=plain)
    return {
        "columns": {"time": columns.time, "id": columns.id, "values": columns.values},
        "clock": asdict(model.clock_),
        "params": json.loads(params),
    }
