"""Speed: series a second, planning, training, long series and start-up.

Both sides of a ratio are measured in turns, so that other work on the machine matters little.
`OMP_NUM_THREADS` sets the number of threads of all of them.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

from nrtsi.bench.competitors import TRAINING, Competitor
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.simulators import BILLIARDS, billiards
from nrtsi.bench.experiments import Experiment, Notify, RunOptions
from nrtsi.bench.experiments.arithmetic import training_figures
from nrtsi.bench.experiments.long_series import long_series_figures
from nrtsi.bench.markdown import NONE, grid
from nrtsi.bench.meter import take_turns
from nrtsi.bench.methods import NRTSIMethod, TrainingTask
from nrtsi.bench.results import code_revision, code_versions
from nrtsi.bench.tables import open_table
from nrtsi.config import ScheduleConfig
from nrtsi.core.atomic import atomic, check_writable
from nrtsi.core.events import Listener
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.fitted import FittedModel
from nrtsi.schedule.plan import plan
from nrtsi.training.settings import Budget

__all__ = ["EXPERIMENT", "GOALS", "markdown", "ratios"]

SHARED = 64
"""Series of a batch that share a mask, in the favourable form of the paper's arrangement."""

PLANNED_POINTS, PLANNED_OBSERVED = 1000, (25, 100)
"""Length of the series that are planned, and the range of their observed points."""

MASKS = open_table("billiards").settings[0].masks
_TRAIN, _VALIDATION, _TEST = (Part(*billiards(n, seed)) for seed, n in enumerate((256, 32, 1)))
DATA = Dataset("billiards", _TRAIN, _VALIDATION, _TEST, BILLIARDS, "")
"""Few series, enough to train for a few steps."""


class Sizes(BaseModel, frozen=True, extra="forbid"):
    """How much is measured; `speed.toml` says what each field is."""

    quick: bool = False
    steps: int
    repeats: int
    series: int
    alone: int
    shared: int
    competitors: dict[str, int]
    planned: int
    draws: int
    trainings: int
    timings: int
    points: tuple[int, ...]
    kinds: tuple[str, ...]
    starts: int


class Goal(BaseModel, frozen=True, extra="forbid"):
    """What a figure means, and the bound it must meet."""

    what: str
    unit: str = "×"
    minimum: float | None = None
    maximum: float | None = None

    @property
    def bound(self) -> str:
        """The bound in words; a dash if there is none."""
        if self.minimum is not None:
            return f"at least {self.format(self.minimum)}"
        return NONE if self.maximum is None else f"at most {self.format(self.maximum)}"

    def format(self, figure: float | None) -> str:
        """A figure with three digits and its unit; a dash if nothing was measured."""
        if figure is None:
            return NONE
        if self.unit == "%":
            return f"{100 * figure:.3g} %"
        return f"{figure:.3g}{'' if self.unit == '×' else ' '}{self.unit}"

    def met(self, figure: float | None) -> str:
        """Yes, no, or a dash if there is no figure or no bound."""
        if figure is None or (self.minimum is None and self.maximum is None):
            return NONE
        low = self.minimum is None or figure >= self.minimum
        return "yes" if low and (self.maximum is None or figure <= self.maximum) else "**no**"


_SPEC = tomllib.loads(files(__package__ or "").joinpath("speed.toml").read_text("utf-8"))
FULL, QUICK = Sizes(**_SPEC["full"]), Sizes(**_SPEC["quick"])
GOALS = {name: Goal(**goal) for name, goal in _SPEC["goals"].items()}
BATCHES: dict[str, list[int]] = _SPEC["batches"]


_Entry = tuple[int, Callable[[], object]]
"""Number of series, and one way to impute them."""


def throughput(sizes: Sizes) -> dict[str, Any]:
    """The ratios of series a second, and the figures they are made of."""
    truth, hidden = _billiards(sizes.series)
    given, model = _mask(truth, hidden), _fitted_model(sizes.steps)
    entries = {
        "nrtsi": _in_turn(model, [given]),
        **_paper(model, truth, hidden, sizes),
        **_competitors(given, sizes),
    }
    model.predict(given.head(SHARED).to_set())
    meters = take_turns({name: impute for name, (_, impute) in entries.items()}, sizes.repeats)
    table = {}
    for name, (series, _) in entries.items():
        # The fastest round counts: other work on the machine can only add to the time.
        seconds = min(meter.seconds for meter in meters[name])
        peaks = [meter.peak_mib for meter in meters[name] if meter.peak_mib is not None]
        table[name] = {
            "series": series,
            "seconds": seconds,
            "series_per_second": series / seconds,
            "peak_mib": max(peaks, default=None),
        }
    return ratios(table) | {"billiards": table}


def ratios(table: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Series a second of nrtsi over those of others; None if another was not measured."""
    others = {"over_paper_arrangement": ["paper"], "over_paper_shared_masks": ["paper, shared"]}
    for name, batches in BATCHES.items():
        own = [entry for entry in table if entry.split(",")[0] == name]
        others[f"over_{name}"] = own[:1]
        if len(batches) > 1:
            others[f"over_{name}_fastest"] = own
    rate = {name: row["series_per_second"] for name, row in table.items()}
    return {
        key: rate["nrtsi"] / max(rate[name] for name in names) if names else None
        for key, names in others.items()
    }


def _billiards(series: int) -> tuple[Part, np.ndarray]:
    """Series to impute and their hidden cells: 5 to 20 of 200 points are observed."""
    truth = Part(*billiards(series, seed=2))
    return truth, MASKS.draw(truth, np.random.default_rng(0))


def _mask(truth: Part, hidden: np.ndarray) -> Part:
    return Part(truth.time, np.where(hidden, np.nan, truth.value))


def _fitted_model(steps: int) -> FittedModel:
    method = NRTSIMethod(seed=0, preset="base")
    method.fit(TrainingTask(DATA, MASKS, Budget(steps=steps)))
    return method.model.fitted_


def _in_turn(model: FittedModel, batches: list[Part]) -> _Entry:
    sets = [batch.to_set() for batch in batches]
    return sum(batch.series for batch in batches), lambda: [model.predict(s) for s in sets]


def _paper(model: FittedModel, truth: Part, hidden: np.ndarray, sizes: Sizes) -> dict[str, _Entry]:
    """The same weights: one mask a batch, the paper's order, attention over whole series."""
    engine = replace(
        model.engine,
        model=model.engine.model.model_copy(update={"window": None}),
        schedule=ScheduleConfig(order="widest", max_level=4),
    )
    paper = replace(model, engine=engine)
    some = _mask(truth, hidden).spread(sizes.alone)
    alone = [some.take(slice(i, i + 1)) for i in range(some.series)]
    first = truth.head(SHARED)
    shared = [_mask(first, hidden[i : i + 1]) for i in range(sizes.shared // SHARED)]
    return {"paper": _in_turn(paper, alone), "paper, shared": _in_turn(paper, shared)}


def _competitors(given: Part, sizes: Sizes) -> dict[str, _Entry]:
    """Untrained networks of the recommended sizes; none if PyPOTS is not installed."""
    if find_spec("pypots") is None:
        return {}
    return {
        f"{name}, {batch} at once": _competitor(name, given.spread(series), batch)
        for name, series in sizes.competitors.items()
        for batch in BATCHES[name]
        if batch == min(BATCHES[name]) or batch <= series
    }


def _competitor(name: str, given: Part, batch: int) -> _Entry:
    competitor = Competitor(name, training=TRAINING.model_copy(update={"batch": batch}))
    # One validation is made, which warms the network up.
    competitor.fit(DATA.train, DATA.validation.head(1), MASKS.draw, Budget(steps=0))
    if competitor.draws:
        return given.series, partial(competitor.sample, given, 1)
    return given.series, partial(competitor.impute, given)


def planning(sizes: Sizes) -> dict[str, Any]:
    """Seconds to plan over seconds to impute, which include planning."""
    rng = np.random.default_rng(0)
    value = billiards(sizes.planned, seed=2, steps=PLANNED_POINTS)[1].copy()
    observed = rng.integers(*PLANNED_OBSERVED, size=(sizes.planned, 1))
    value[rng.random((sizes.planned, PLANNED_POINTS)).argsort(axis=1) >= observed] = np.nan
    series, model = SeriesSet.stack(value), _fitted_model(sizes.steps)
    model.predict(series.select(np.arange(8)))
    steps: list[int] = []
    works: dict[str, Callable[[], object]] = {
        "plan": lambda: steps.append(sum(1 for _ in plan(series, model.engine.schedule))),
        "fill": lambda: model.predict(series),
    }
    meters = take_turns(works, sizes.repeats)
    seconds = {name: min(meter.seconds for meter in own) for name, own in meters.items()}
    share = seconds["plan"] / seconds["fill"]
    return {"planning_share": share, "planning": {"steps": steps[0], **seconds}}


def training(sizes: Sizes) -> dict[str, Any]:
    """The arithmetic of training steps over the peak."""

    def train(steps: int, listener: Listener) -> None:
        method = NRTSIMethod(seed=0, preset="base", train={"validate_every": 10**9})
        method.fit(TrainingTask(DATA, MASKS, Budget(steps=steps), listener=listener))

    return training_figures(
        train, draws=sizes.draws, trainings=sizes.trainings, timings=sizes.timings
    )


def growth(sizes: Sizes) -> dict[str, Any]:
    """How the time and memory to impute one series grow with its length."""
    return long_series_figures(sizes.points, sizes.kinds, steps=sizes.steps, repeats=sizes.repeats)


def startup(sizes: Sizes) -> dict[str, Any]:
    """Seconds of `nrtsi impute` of a small file over those of a program that imports torch."""

    def python(*arguments: object) -> None:
        command = [sys.executable, *map(str, arguments)]
        subprocess.run(command, capture_output=True, check=True)

    times = np.datetime64("2024-01-01T00:00:00") + np.arange(100) * np.timedelta64(1, "h")
    rows = [
        f"{time},{'' if hour % 10 in (4, 5, 6) else f'{np.sin(hour / 5):.4f}'}"
        for hour, time in enumerate(times)
    ]
    with TemporaryDirectory() as folder:
        data, model, out = (Path(folder) / n for n in ("small.csv", "m.nrtsi", "out.csv"))
        data.write_text("\n".join(["time,x", *rows, ""]), encoding="utf-8")
        # This also reads the programs from disk and compiles them.
        fit = ["--preset", "base", "--steps", "2", "--quiet", "--out"]
        python("-m", "nrtsi", "fit", data, *fit, model)
        impute = ["--model", model, "--out", out, "--overwrite", "--quiet"]
        works: dict[str, Callable[[], object]] = {
            "import torch": lambda: python("-c", "import torch"),
            "nrtsi impute": lambda: python("-m", "nrtsi", "impute", data, *impute),
        }
        meters = take_turns(works, sizes.starts)
    seconds = {name: median(meter.seconds for meter in each) for name, each in meters.items()}
    ratio = seconds["nrtsi impute"] / seconds["import torch"]
    return {"startup_over_torch": ratio, "startup": seconds}


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    """Writes the figures first, then the circumstances, then the details."""
    check_writable(options.out, overwrite=True)
    sizes = QUICK if options.quick else FULL
    data = replace(DATA, test=_mask(*_billiards(sizes.series)))
    about = {
        "quick": sizes.quick,
        "threads": torch.get_num_threads(),
        "versions": code_versions(data.digest, "quick" if sizes.quick else ""),
        "revision": code_revision(),
    }
    found: dict[str, Any] = {}
    for measurement in (throughput, planning, training, growth, startup):
        notify(f"measuring {measurement.__name__}")
        found |= measurement(sizes)
    record = {key: found.pop(key, None) for key in GOALS} | about | found
    with atomic(options.out) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _markdown(path: Path) -> str:
    if not path.exists():
        return ""
    try:
        return markdown(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} must be a file of nrtsi bench run speed, got another; choose another file"
        ) from error


def markdown(record: dict[str, Any]) -> str:
    """The figures with their bounds, then the details, as far as they were measured."""
    rows = [
        [goal.what, goal.format(record[key]), goal.bound, goal.met(record[key])]
        for key, goal in GOALS.items()
    ]
    sections = [grid(["what", "measured", "must be", "met"], rows)]
    if record["quick"]:
        remark = "Those of 10⁶ and 10⁵ points were measured with 10⁵ and 10⁴."
        sections.insert(0, f"**A quick run: its figures mean little. {remark}**")
    if table := record.get("billiards"):
        columns = ("seconds", "series_per_second", "peak_mib")
        rows = [
            [name, f"{row['series']:,}", *(_short(row[column]) for column in columns)]
            for name, row in table.items()
        ]
        header = ["method", "series", "seconds", "series a second", "peak MiB"]
        sections.append(f"## Billiards\n\n{grid(header, rows)}")
    if figures := record.get("planning"):
        sections.append(
            f"## Planning\n\nThe plan of {figures['steps']} steps takes {_short(figures['plan'])} "
            f"s of the {_short(figures['fill'])} s in which the series are imputed."
        )
    if figures := record.get("training"):
        rows = [
            ["steps a second", _short(figures["steps_per_second"])],
            ["GFLOP a step", _short(figures["gflop_per_step"])],
            ["of which attention", f"{figures['attention_share']:.1%}"],
            ["GFLOP a second", _short(figures["gflop_per_second"])],
            ["peak at the same products", _short(figures["peak_gflop_per_second"])],
        ]
        sections.append(f"## Training\n\n{grid(['figure', 'value'], rows)}")
    if kinds := record.get("growth"):
        rows = [
            [f"{row['points']:,}", kind, _short(row["seconds"]), _short(row["peak_gib"])]
            for kind, table in kinds.items()
            for row in table["lengths"]
        ]
        header = ["points", "gaps in", "seconds", "peak GiB of the process"]
        sections.append(f"## One long series\n\n{grid(header, rows)}")
    if seconds := record.get("startup"):
        rows = [[f"`{name}`", _short(each)] for name, each in seconds.items()]
        sections.append(f"## Start\n\n{grid(['program', 'seconds'], rows)}")
    made = f"Made with {record['versions']}, at {record['revision']}."
    return "\n\n".join([*sections, f"Threads: {record['threads']}. {made}"]) + "\n"


def _short(figure: float | None) -> str:
    """Three significant digits; a dash if nothing was measured.

    >>> _short(1234.5), _short(0.01234), _short(None)
    ('1,234', '0.0123', '–')
    """
    if figure is None:
        return NONE
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


EXPERIMENT = Experiment({"quick"}, _run, _markdown, suffix=".json")
