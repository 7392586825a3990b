"""Every data set by name: what it is, what it needs, and how to make it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nrtsi.bench.datasets.air import read_air
from nrtsi.bench.datasets.billiards import CHANNELS as BILLIARDS
from nrtsi.bench.datasets.billiards import billiards
from nrtsi.bench.datasets.cache import default_cache, entry, latest, load, save
from nrtsi.bench.datasets.dataset import Dataset, Part, train_and_validation
from nrtsi.bench.datasets.gas import read_gas
from nrtsi.bench.datasets.mujoco import CHANNELS as MUJOCO
from nrtsi.bench.datasets.mujoco import mujoco
from nrtsi.bench.datasets.nfl import read_nfl
from nrtsi.bench.datasets.originals import file_stamp
from nrtsi.bench.datasets.sinusoids import sinusoids
from nrtsi.bench.datasets.traffic import read_traffic, read_traffic20
from nrtsi.errors import InputError

__all__ = ["DATASETS", "Original", "Recipe", "Simulation", "make"]


@dataclass(frozen=True)
class Recipe:
    """Description of a data set."""

    name: str
    description: str
    """One line."""

    sizes: str
    """Numbers of series, steps and channels."""

    version: int = 1
    """Is raised if the same arguments give other values than before; invalidates the cache."""

    @property
    def needs(self) -> str:
        """What the user must provide."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Simulation(Recipe):
    """A data set that is simulated."""

    series: tuple[int, int]
    """Series for training (the last tenth of them for validation) and for the test."""

    channels: tuple[str, ...]
    simulate: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    """Maps a number of series and a seed to times and values."""

    note: str = ""
    """A sentence on how it is made."""

    extra: str | None = None
    """The extra of the package it needs."""

    @property
    def needs(self) -> str:
        """What the user must provide."""
        return f"the {self.extra} extra" if self.extra else "nothing"


@dataclass(frozen=True, kw_only=True)
class Original(Recipe):
    """A data set read from files of the user."""

    url: str
    """Where the files are published."""

    form: str
    """What the path leads to."""

    read: Callable[..., Dataset]
    """Maps a path, and a seed if `seeded`, to the data set."""

    seeded: bool = False

    @property
    def needs(self) -> str:
        """What the user must provide."""
        return f"a path: {self.form} ({self.url})"


_UCI = "https://archive.ics.uci.edu/dataset"
_air = partial(
    Original,
    sizes="7,008 + 1,752 series of 48 steps, 11 channels",
    url=f"{_UCI}/501",
    form="the downloaded zip, or a folder of its PRSA_Data_*.csv",
    read=read_air,
)

DATASETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Simulation(
            "billiards",
            "a ball on a square table, once a second",
            "4,000 + 1,000 series of 200 steps, 2 channels",
            series=(4000, 1000),
            channels=BILLIARDS,
            simulate=billiards,
        ),
        Simulation(
            "billiards-irregular",
            "a ball on a square table, at random times",
            "12,000 + 1,000 series of 200 steps, 2 channels",
            series=(12000, 1000),
            channels=BILLIARDS,
            simulate=partial(billiards, irregular=True),
        ),
        Simulation(
            "sinusoids",
            "sines of random frequency, at random times",
            "1,000 + 1,000 series of 100 steps, 1 channel",
            series=(1000, 1000),
            channels=("value",),
            simulate=sinusoids,
        ),
        Simulation(
            "mujoco",
            "a hopping robot thrown into the air, simulated by MuJoCo",
            "8,000 + 2,000 series of 100 steps, 14 channels",
            series=(8000, 2000),
            channels=MUJOCO,
            simulate=mujoco,
            note="Scaled by (x - min) / max per channel over everything simulated.",
            extra="bench",
        ),
        _air("air", "air quality and weather at 12 stations in Beijing, hourly"),
        _air("air-shuffled", "the windows of air, split at random and not by time", seeded=True),
        Original(
            "gas",
            "14 gas sensors with modulated heaters",
            "about 80,000 series of 48 steps, 19 channels",
            url=f"{_UCI}/487",
            form="the downloaded zip, a folder of its CSV files, or one of them",
            read=read_gas,
        ),
        Original(
            "traffic",
            "occupancy of 963 roads around San Francisco, every ten minutes",
            "267 + 173 series of 144 steps, 963 channels",
            url=f"{_UCI}/204",
            form="the downloaded zip, or the folder with PEMS_train and PEMS_test",
            read=read_traffic,
        ),
        Original(
            "traffic20",
            "occupancy of 20 roads around San Francisco, hourly",
            "584 + 147 series of 24 steps, 20 channels",
            url="https://github.com/laiguokun/multivariate-time-series-data",
            form="a text file, a line an hour, of 20 columns of its traffic.txt",
            read=read_traffic20,
        ),
        Original(
            "nfl",
            "tracks of six football players, ten frames a second",
            "as many series as the file has windows, of 50 steps, 12 channels",
            url="https://www.kaggle.com/c/nfl-big-data-bowl-2021",
            form="a .npy of shape (window, 50, 12) beside a .csv of gameId and playId",
            read=read_nfl,
            seeded=True,
        ),
    )
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

    Raises:
        InputError: There is no such data set, sizes are too small, or an original is missing or
            malformed.
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
    if isinstance(recipe, Original):
        whole = _read(recipe, None if path is None else Path(path), seed, folder)
        return whole if series is None else _fewer(whole, *series)
    if path is not None:
        raise InputError(f"{name} is simulated and needs no path, got {path}; leave it out")
    assert isinstance(recipe, Simulation)
    return _simulate(recipe, seed, series or recipe.series, folder)


def _simulate(recipe: Simulation, seed: int, series: tuple[int, int], folder: Path) -> Dataset:
    file = entry(folder, f"{recipe.name}-v{recipe.version}", [seed, *series])
    if (cached := load(file)) is not None:
        return cached
    whole = Part(*recipe.simulate(sum(series), seed))
    train, validation = train_and_validation(whole.head(series[0]))
    about = (
        f"Simulated with seed {seed}: {series[0]} series for training, the last "
        f"{validation.series} of them for validation, and {series[1]} for the test. {recipe.note}"
    ).strip()
    test = whole.take(slice(series[0], None))
    dataset = Dataset(recipe.name, train, validation, test, recipe.channels, about)
    save(file, dataset)
    return dataset


def _read(recipe: Original, path: Path | None, seed: int, folder: Path) -> Dataset:
    stem = f"{recipe.name}-v{recipe.version}" + (f"-seed{seed}" if recipe.seeded else "")
    file = latest(folder, stem) if path is None else entry(folder, stem, file_stamp(path))
    cached = load(file) if file else None
    if cached is not None:
        return cached
    if path is None or file is None:
        raise InputError(
            f"{recipe.name} must be read from the original files, got no path; get them from "
            f"{recipe.url}, then: nrtsi data make {recipe.name} --path FILE ({recipe.form})"
        )
    dataset = recipe.read(path, seed) if recipe.seeded else recipe.read(path)
    save(file, dataset)
    return dataset


def _fewer(whole: Dataset, train: int, test: int) -> Dataset:
    validation = max(train // 10, 1)
    return replace(
        whole,
        train=whole.train.spread(train - validation),
        validation=whole.validation.spread(validation),
        test=whole.test.spread(test),
        about=f"{whole.about} An evenly spaced choice of at most {train} + {test} series.",
    )
