"""Caches data sets on disk."""

import json
import logging
import os
import zipfile
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["default_cache", "entry", "latest", "load", "save"]

log = logging.getLogger(__name__)

PARTS = ("train", "validation", "test")


def default_cache() -> Path:
    """`$NRTSI_CACHE`, else `$XDG_CACHE_HOME/nrtsi`, else `~/.cache/nrtsi`."""
    if own := os.environ.get("NRTSI_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nrtsi"


def entry(folder: Path, stem: str, made_from: object) -> Path:
    """The file of a data set made from `made_from`, which is any JSON value."""
    digest = sha256(json.dumps(made_from).encode()).hexdigest()
    return folder / "datasets" / f"{stem}-{digest[:12]}.npz"


def latest(folder: Path, stem: str) -> Path | None:
    """The file of this stem that was saved or loaded last; None if there is none."""
    found = list((folder / "datasets").glob(f"{stem}-{'?' * 12}.npz"))
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def save(path: Path, dataset: Dataset) -> None:
    """Writes the data set atomically; logs a warning if it cannot be written."""
    arrays: dict[str, Any] = {
        "name": np.array(dataset.name),
        "about": np.array(dataset.about),
        "channels": np.array(dataset.channels),
    }
    for name, part in dataset.parts.items():
        arrays[f"{name}_time"], arrays[f"{name}_value"] = part.time, part.value
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    except (OSError, InputError) as error:
        log.warning("the data set %s is not cached: %s", dataset.name, error)


def load(path: Path) -> Dataset | None:
    """Loads the data set of this file; None if there is no file or it is damaged."""
    try:
        with path.open("rb") as file:
            kept = np.load(file, allow_pickle=False)
            train, validation, test = (
                Part(kept[f"{part}_time"], kept[f"{part}_value"]) for part in PARTS
            )
            channels = tuple(str(channel) for channel in kept["channels"])
            name, about = str(kept["name"]), str(kept["about"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        log.warning("%s is damaged and will be made again: %s", path, error)
        return None
    with suppress(OSError):  # the cache may be read-only
        path.touch()  # loaded last, see `latest`
    return Dataset(name, train, validation, test, channels, about)
