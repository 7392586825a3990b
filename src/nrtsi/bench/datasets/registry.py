"""Every data set by name: what it is, what it needs, and how to get it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from nrtsi.bench.datasets.air import read_air
from nrtsi.bench.datasets.billiards import CHANNELS as BILLIARDS
from nrtsi.bench.datasets.billiards import billiards
from nrtsi.bench.datasets.cache import default_cache, entry, keep, latest, recall
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.gas import read_gas
from nrtsi.bench.datasets.mujoco import CHANNELS as MUJOCO
from nrtsi.bench.datasets.mujoco import mujoco
from nrtsi.bench.datasets.nfl import read_nfl
from nrtsi.bench.datasets.originals import stamp
from nrtsi.bench.datasets.sinusoids import sinusoids
from nrtsi.bench.datasets.splits import train_and_validation
from nrtsi.bench.datasets.traffic import read_traffic, read_traffic20
from nrtsi.errors import InputError

__all__ = ["DATASETS", "Original", "Recipe", "Simulation", "make"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What there is to say of a data set before it is made."""

    name: str
    description: str
    """One line."""

    sizes: str
    """Numbers of series, steps and channels, in words."""

    version: int = 1
    """Raised whenever the same wish gives other values than before; older caches then lapse."""

    @property
    def needs(self) -> str:
        """What the user must have."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Simulation(Recipe):
    """A data set made from nothing but sizes and a seed."""

    series: tuple[int, int]
    """How many to learn from (the last tenth of them for validation), and to test on."""

    channels: tuple[str, ...]
    simulate: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    """From a number of series and a seed to times and values."""

    note: str = ""
    """What else is to be known of how it was made; a sentence."""

    extra: str | None = None
    """The optional part of the package it needs."""

    @property
    def needs(self) -> str:
        """What the user must have."""
        return f"the {self.extra} extra" if self.extra else "nothing"


@dataclass(frozen=True, kw_only=True)
class Original(Recipe):
    """A data set read from files the user has."""

    url: str
    """Where they are to be had."""

    form: str
    """What the path leads to."""

    read: Callable[[Path, int], Dataset]
    """From a path and a seed to the data set."""

    seeded: bool = field(default=False)
    """Whether the seed matters."""

    @property
    def needs(self) -> str:
        """What the user must have."""
        return f"a path: {self.form} ({self.url})"


def _unseeded(read: Callable[[Path], Dataset]) -> Callable[[Path, int], Dataset]:
    return lambda path, _: read(path)


DATASETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Simulation(
            name="billiards",
            description="a ball on a square table, once a second",
            sizes="4,000 + 1,000 series of 200 steps, 2 channels",
            series=(4000, 1000),
            channels=BILLIARDS,
            simulate=billiards,
        ),
        Simulation(
            name="billiards-irregular",
            description="a ball on a square table, at random times",
            sizes="12,000 + 1,000 series of 200 steps, 2 channels",
            series=(12000, 1000),
            channels=BILLIARDS,
            simulate=lambda series, seed: billiards(series, seed, irregular=True),
        ),
        Simulation(
            name="sinusoids",
            description="sines of random frequency, at random times",
            sizes="1,000 + 1,000 series of 100 steps, 1 channel",
            series=(1000, 1000),
            channels=("value",),
            simulate=sinusoids,
        ),
        Simulation(
            name="mujoco",
            description="a hopping robot thrown into the air, simulated by MuJoCo",
            sizes="8,000 + 2,000 series of 100 steps, 14 channels",
            series=(8000, 2000),
            channels=MUJOCO,
            simulate=mujoco,
            note="Scaled by (x - min) / max per channel over everything simulated.",
            extra="bench",
        ),
        Original(
            name="air",
            description="air quality and weather at 12 stations in Beijing, hourly",
            sizes="7,008 + 1,752 series of 48 steps, 11 channels",
            url="https://archive.ics.uci.edu/dataset/501",
            form="the downloaded zip, or a folder of its PRSA_Data_*.csv",
            read=_unseeded(read_air),
        ),
        Original(
            name="air-shuffled",
            description="the windows of air, split by chance and not by time",
            sizes="7,008 + 1,752 series of 48 steps, 11 channels",
            url="https://archive.ics.uci.edu/dataset/501",
            form="the downloaded zip, or a folder of its PRSA_Data_*.csv",
            read=read_air,
            seeded=True,
        ),
        Original(
            name="gas",
            description="14 gas sensors with modulated heaters",
            sizes="about 80,000 series of 48 steps, 19 channels",
            url="https://archive.ics.uci.edu/dataset/487",
            form="the downloaded zip, a folder of its CSV files, or one of them",
            read=_unseeded(read_gas),
        ),
        Original(
            name="traffic",
            description="occupancy of 963 roads around San Francisco, every ten minutes",
            sizes="267 + 173 series of 144 steps, 963 channels",
            url="https://archive.ics.uci.edu/dataset/204",
            form="the downloaded zip, or the folder with PEMS_train and PEMS_test",
            read=_unseeded(read_traffic),
        ),
        Original(
            name="traffic20",
            description="occupancy of 20 roads around San Francisco, hourly",
            sizes="584 + 147 series of 24 steps, 20 channels",
            url="https://github.com/laiguokun/multivariate-time-series-data",
            form="a text file, a line an hour, of 20 columns of its traffic.txt",
            read=_unseeded(read_traffic20),
        ),
        Original(
            name="nfl",
            description="tracks of six football players, ten frames a second",
            sizes="as many series as the file has windows, of 50 steps, 12 channels",
            url="https://www.kaggle.com/c/nfl-big-data-bowl-2021",
            form="a .npy of shape (window, 50, 12) beside a .csv of gameId and playId",
            read=read_nfl,
            seeded=True,
        ),
    )
}
"""What `make` can make."""


def make(
    name: str,
    *,
    path: str | Path | None = None,
    seed: int = 0,
    series: tuple[int, int] | None = None,
    cache: str | Path | None = None,
) -> Dataset:
    """The data set of this name: from the cache if it was made before, else made and kept.

    The same arguments (and the same original) give the same bytes.

    Args:
        name: One of `DATASETS`.
        path: The original, for those that need one. Without it, the original given last.
        seed: Of everything random. Data sets that are only read do not depend on it.
        series: How many to learn from (a tenth of them for validation) and to test on. A
            simulation makes so many; of an original they are chosen evenly, or all are taken
            where it has no more.
        cache: Folder to keep data sets in; by default `$NRTSI_CACHE`, or the user's cache folder.

    Raises:
        InputError: No such name, sizes too small, or an original that is needed, absent or not
            in its form.
    """
    recipe = DATASETS.get(name)
    if recipe is None:
        raise InputError(f"name must be one of {', '.join(DATASETS)}, got {name!r}; choose one")
    if series is not None and (series[0] < 2 or series[1] < 1):
        raise InputError(
            f"series must be at least 2 to learn from and 1 to test on, got {series}; ask for more"
        )
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}; choose another")
    folder = default_cache() if cache is None else Path(cache)
    if isinstance(recipe, Original):
        whole = _from_original(recipe, None if path is None else Path(path), seed, folder)
        return whole if series is None else _fewer(whole, *series)
    if path is not None:
        raise InputError(f"{name} is simulated and needs no path, got {path}; leave it out")
    assert isinstance(recipe, Simulation)
    return _simulated(recipe, seed, series or recipe.series, folder)


def _simulated(recipe: Simulation, seed: int, series: tuple[int, int], folder: Path) -> Dataset:
    file = entry(folder, f"{recipe.name}-v{recipe.version}", [seed, *series])
    if (kept := recall(file)) is not None:
        return kept
    time, value = recipe.simulate(sum(series), seed)
    learn, test = (Part(time[rows], value[rows]) for rows in _halves(series[0]))
    train, validation = train_and_validation(learn)
    about = (
        f"Simulated with seed {seed}: {series[0]} series to learn from, of which the last "
        f"{validation.series} are for validation, and {series[1]} to test on. "
        f"{recipe.note}"
    ).strip()
    dataset = Dataset(recipe.name, train, validation, test, recipe.channels, about)
    keep(file, dataset)
    return dataset


def _halves(cut: int) -> tuple[slice, slice]:
    return slice(cut), slice(cut, None)


def _from_original(recipe: Original, path: Path | None, seed: int, folder: Path) -> Dataset:
    stem = f"{recipe.name}-v{recipe.version}" + (f"-seed{seed}" if recipe.seeded else "")
    if path is None:
        file = latest(folder, stem)
        kept = recall(file) if file else None
        if kept is None:
            raise InputError(
                f"{recipe.name} must be read from an original, got no path; it is to be had at "
                f"{recipe.url}: nrtsi data make {recipe.name} --path FILE ({recipe.form})"
            )
        return kept
    file = entry(folder, stem, stamp(path))
    if (kept := recall(file)) is not None:
        return kept
    dataset = recipe.read(path, seed)
    keep(file, dataset)
    return dataset


def _fewer(whole: Dataset, learn: int, test: int) -> Dataset:
    validation = max(learn // 10, 1)
    return replace(
        whole,
        train=whole.train.spread(learn - validation),
        validation=whole.validation.spread(validation),
        test=whole.test.spread(test),
        about=f"{whole.about} An evenly spaced choice of at most {learn} + {test} series.",
    )
