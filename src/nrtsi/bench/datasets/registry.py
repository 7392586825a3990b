"""Every data set by name: what it is, what it needs, how to make it, and its cache on disk."""

import json
import logging
import os
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from nrtsi.bench.datasets.dataset import Dataset, Part, train_and_validation
from nrtsi.bench.datasets.readers import (
    read_air,
    read_gas,
    read_nfl,
    read_traffic,
    read_traffic20,
)
from nrtsi.bench.datasets.simulators import BILLIARDS, MUJOCO, billiards, mujoco, sinusoids
from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["DATASETS", "Recipe", "default_cache", "make"]

log = logging.getLogger(__name__)

Simulator = Callable[[int, int], tuple[np.ndarray, np.ndarray]]

SIMULATORS: dict[str, tuple[Simulator, tuple[str, ...]]] = {
    "billiards": (billiards, BILLIARDS),
    "billiards-irregular": (partial(billiards, irregular=True), BILLIARDS),
    "sinusoids": (sinusoids, ("value",)),
    "mujoco": (mujoco, MUJOCO),
}
"""Simulators with their channels."""

READERS: dict[str, Callable[..., Dataset]] = {
    "air": read_air,
    "air-shuffled": read_air,
    "gas": read_gas,
    "traffic": read_traffic,
    "traffic20": read_traffic20,
    "nfl": read_nfl,
}
"""Map a path, and a seed if the data set is seeded, to the data set."""


class Recipe(BaseModel):
    """Description of a data set, which is simulated or read from files of the user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    sizes: str
    series: tuple[int, int] | None = None
    """Series of a simulation."""

    note: str = ""
    extra: str = ""
    """The extra of the package that a simulation needs."""

    url: str = ""
    """Where the files are published."""

    form: str = ""
    """What the path leads to."""

    seeded: bool = False
    """Whether the split of the files is random."""

    version: int = 1
    """Is raised if the same arguments give other values than before; invalidates the cache."""

    @property
    def simulated(self) -> bool:
        """Whether no files are needed."""
        return self.series is not None

    @property
    def needs(self) -> str:
        """What the user must provide."""
        if not self.simulated:
            return f"a path: {self.form} ({self.url})"
        return f"the {self.extra} extra" if self.extra else "nothing"


DATASETS: dict[str, Recipe] = {
    name: Recipe(name=name, **spec)
    for name, spec in tomllib.loads(
        files("nrtsi.bench.datasets").joinpath("datasets.toml").read_text("utf-8")
    ).items()
}


def make(
    name: str,
    *,
    path: str | Path | None = None,
    seed: int = 0,
    series: tuple[int, int] | None = None,
    cache: str | Path | None = None,
) -> Dataset:
    """Returns a data set from the cache, or makes and caches it.

    The same arguments (and the same original) give the same bytes.

    Args:
        name: One of `DATASETS`.
        path: The original, for those that need one; by default the one given last.
        seed: Seed of simulations and random splits.
        series: Number of series for training (a tenth of them for validation) and for the test.
            Of an original they are evenly spaced, or all if it has no more.
        cache: Folder of the cache; by default `$NRTSI_CACHE`, or the user's cache folder.
    """
    recipe = DATASETS.get(name)
    if recipe is None:
        raise InputError(f"name must be one of {', '.join(DATASETS)}, got {name!r}; choose one")
    if series is not None and (series[0] < 2 or series[1] < 1):
        raise InputError(
            f"series must be at least 2 for training and 1 for the test, got {series}; "
            f"ask for more"
        )
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}; choose another")
    folder = default_cache() if cache is None else Path(cache)
    if not recipe.simulated:
        whole = _read(recipe, None if path is None else Path(path), seed, folder)
        return whole if series is None else _fewer(whole, *series)
    if path is not None:
        raise InputError(f"{name} is simulated and needs no path, got {path}; leave it out")
    return _simulate(recipe, seed, series or recipe.series or (0, 0), folder)


def _simulate(recipe: Recipe, seed: int, series: tuple[int, int], folder: Path) -> Dataset:
    file = _entry(folder, f"{recipe.name}-v{recipe.version}", [seed, *series])
    if (cached := _load(file)) is not None:
        return cached
    simulate, channels = SIMULATORS[recipe.name]
    whole = Part(*simulate(sum(series), seed))
    train, validation = train_and_validation(whole.head(series[0]))
    about = (
        f"Simulated with seed {seed}: {series[0]} series for training, the last "
        f"{validation.series} of them for validation, and {series[1]} for the test. {recipe.note}"
    )
    test = whole.take(slice(series[0], None))
    dataset = Dataset(recipe.name, train, validation, test, channels, about.strip())
    _save(file, dataset)
    return dataset


def _read(recipe: Recipe, path: Path | None, seed: int, folder: Path) -> Dataset:
    stem = f"{recipe.name}-v{recipe.version}" + (f"-seed{seed}" if recipe.seeded else "")
    if path is not None:
        read = READERS[recipe.name]
        dataset = read(path, seed) if recipe.seeded else read(path)
        _save(_entry(folder, stem, str(path)), dataset)
        return dataset
    file = _latest(folder, stem)
    cached = _load(file) if file else None
    if cached is None:
        raise InputError(
            f"{recipe.name} must be read from the original files, got no path; get them from "
            f"{recipe.url}, then: nrtsi data make {recipe.name} --path FILE ({recipe.form})"
        )
    return cached


def _fewer(whole: Dataset, train: int, test: int) -> Dataset:
    validation = max(train // 10, 1)
    return replace(
        whole,
        train=whole.train.spread(train - validation),
        validation=whole.validation.spread(validation),
        test=whole.test.spread(test),
        about=f"{whole.about} An evenly spaced choice of at most {train} + {test} series.",
    )


def default_cache() -> Path:
    """`$NRTSI_CACHE`, else `$XDG_CACHE_HOME/nrtsi`, else `~/.cache/nrtsi`."""
    if own := os.environ.get("NRTSI_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nrtsi"


def _entry(folder: Path, stem: str, made_from: object) -> Path:
    """The file of a data set made from `made_from`, which is any JSON value."""
    digest = sha256(json.dumps(made_from).encode()).hexdigest()
    return folder / "datasets" / f"{stem}-{digest[:12]}.npz"


def _latest(folder: Path, stem: str) -> Path | None:
    """The file of this stem that was saved last; None if there is none."""
    found = list((folder / "datasets").glob(f"{stem}-{'?' * 12}.npz"))
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def _save(path: Path, dataset: Dataset) -> None:
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


def _load(path: Path) -> Dataset | None:
    """Loads the data set of this file; None if there is no file or it is damaged."""
    try:
        with path.open("rb") as file:
            kept = np.load(file, allow_pickle=False)
            train, validation, test = (
                Part(kept[f"{part}_time"], kept[f"{part}_value"])
                for part in ("train", "validation", "test")
            )
            channels = tuple(str(channel) for channel in kept["channels"])
            name, about = str(kept["name"]), str(kept["about"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        log.warning("%s is damaged and will be made again: %s", path, error)
        return None
    return Dataset(name, train, validation, test, channels, about)
