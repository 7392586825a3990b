"""Experiments of `nrtsi bench run`: the tables of the paper and those of the modules here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path

from nrtsi.bench.tables import table_names
from nrtsi.core.budget_clock import CLOCKS
from nrtsi.core.events import Listener
from nrtsi.errors import InputError

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Notify",
    "RunOptions",
    "choose",
    "experiment_names",
    "open_experiment",
]

EXPERIMENTS = {
    "single": "One table with gaps: nrtsi and simple methods on the table they are fitted to",
    "budgets": "Error against budget: validation error of nrtsi by training time and preset",
    "trust": "Calibration: intervals, back-test, method selection and draws on unseen cells",
    "speed": "Speed: series a second, planning, long series and start-up",
}
"""Experiments that are not a table of the paper; each is a module of this folder."""

Notify = Callable[[str], None]
"""Receives a line for the user."""


@dataclass(frozen=True)
class RunOptions:
    """Options of `nrtsi bench run`; each experiment says which of them it takes."""

    out: Path
    """File of results."""

    data: tuple[str, ...] = ()
    """Data sets, or tables, to use; all by default."""

    methods: tuple[str, ...] | None = None
    budget: str | None = None
    """Training time; `budgets` takes several, separated by commas."""

    steps: int | None = None
    seeds: tuple[int, ...] = (0,)
    quick: bool = False
    models: Path | None = None
    """Folder for the trained models."""

    overwrite: bool = False
    """Replace rows that were made with another budget."""

    clock: str = "wall"
    preset: str | None = None

    def __post_init__(self) -> None:
        if self.clock not in CLOCKS:
            raise InputError(f"--clock must be one of {', '.join(CLOCKS)}, got {self.clock!r}")

    @property
    def given(self) -> set[str]:
        """The fields besides `out` that differ from their defaults."""
        return {f.name for f in fields(self)[1:] if getattr(self, f.name) != f.default}


@dataclass(frozen=True)
class Experiment:
    """A benchmark with a file of results and a page."""

    options: set[str]
    """Fields of `RunOptions` that apply, besides `out`."""

    run: Callable[[RunOptions, Notify, Listener | None], object]
    """Measures and adds to the file of results."""

    markdown: Callable[[Path], str]
    """The results of a file as Markdown; empty if there are none."""

    suffix: str = ".csv"
    """Of the file of results."""


def experiment_names() -> tuple[str, ...]:
    """The names of all tables and experiments."""
    return (*table_names(), *EXPERIMENTS)


def open_experiment(name: str) -> Experiment:
    """Opens an experiment or a table."""
    if name not in experiment_names():
        raise InputError(
            f"the experiment must be one of {', '.join(experiment_names())}, got {name!r}"
        )
    if name in table_names():
        return import_module("nrtsi.bench.runner").experiment_of(name)
    try:
        return import_module(f"nrtsi.bench.experiments.{name}").EXPERIMENT
    except ModuleNotFoundError as error:
        raise InputError(f'{name} needs {error.name}; pip install "nrtsi[bench]"') from error


def choose(given: tuple[str, ...], known: Mapping[str, object], option: str) -> tuple[str, ...]:
    """The names given, all known ones if there are none."""
    for name in given:
        if name not in known:
            raise InputError(f"{option} must be among {'; '.join(known)}, got {name!r}")
    return given or tuple(known)
