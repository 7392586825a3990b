"""The input and the result of training: parameters → `TrainingSettings` → `TrainingPlan`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nrtsi.config import (
    PRESETS,
    ModelConfig,
    Preset,
    ScheduleConfig,
    TrainConfig,
    preset_for,
    schedule_for,
    validated,
)
from nrtsi.core.masking import Masking, rows_fail_together
from nrtsi.core.segments import longest_gap, segment_length_for
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError, TrainingError
from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.registry import PREDICTORS, BasePredictors
from nrtsi.schedule.distances import TIME_TOLERANCE, level_of
from nrtsi.tables import Clock, parse_duration

__all__ = [
    "Budget",
    "Record",
    "Trained",
    "TrainingPlan",
    "TrainingSettings",
    "budget_of",
    "choose_setting",
    "device_of",
    "has_one_row_per_unit",
    "is_partial",
    "resolve",
]

Record = dict[str, float | int | None]
"""One validation: level, step, loss of the last batch, validation loss."""

NETWORK_FIELDS = {"network", "per_level", "encode_targets"}
"""Fields of `ModelConfig` that decide on the kind of network; if given, it is not chosen."""

# Coarsest level of data without long gaps, as in the paper; and of any data: a segment in which a
# longer gap could be hidden would take too long to plan.
USUAL_LEVEL, MAX_LEVEL = 4, 12


@dataclass(frozen=True)
class Budget:
    """How long to train: a number of seconds, or of steps over all levels."""

    seconds: float | None = None
    steps: int | None = None

    def fraction(self, steps: int, seconds: float) -> float:
        """The fraction of the budget that is used."""
        if self.steps is not None:
            return steps / self.steps if self.steps else 1.0
        assert self.seconds is not None
        return seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True)
class TrainingPlan:
    """The network, the order of imputation and the training of a model."""

    model: ModelConfig
    layout: TokenLayout
    schedule: ScheduleConfig
    train: TrainConfig


@dataclass(frozen=True)
class TrainingSettings:
    """What the parameters of `NRTSI` mean for the data, before base predictors are fitted."""

    setting: str
    preset: str
    partial: bool  # True if rows may be partly observed
    dims: int
    model: Mapping[str, Any]  # fields of `ModelConfig` that override the preset
    schedule: Mapping[str, Any]  # the same of `ScheduleConfig`; without `together` unless given
    train: Mapping[str, Any]  # fields of `TrainConfig` that override the preset
    predictors: tuple[str, ...]  # names of the base predictors to fit
    periods: tuple[float, ...]  # cycles of the calendar, in units of time
    masking: Masking
    budget: Budget
    seed: int
    device: torch.device
    segment_rows: int  # largest number of rows that are masked and planned together

    def plan(self, predictors: BasePredictors | None = None) -> TrainingPlan:
        """Chooses the network for the data and the base predictors, and what depends on it."""
        predictors = predictors or BasePredictors()
        preset = PRESETS[self.preset]
        model = self._model(preset, predictors)
        cells = model.cell_tokens
        schedule = dict(self.schedule)
        if cells and self.setting not in ("stochastic", "smallest"):
            # Cells do not gain from rows that are missing as a whole: these come first.
            schedule.setdefault("together", 0.0)
        train = preset.train.model_dump()
        if cells:
            # Fewer windows per step if each has many cells; steps are quick then.
            tokens = model.window_rows * self.dims
            batch = max(preset.train.min_windows, preset.train.tokens_per_step // tokens)
            train["batch"] = min(preset.train.batch, batch)
            train["validate_every"] = 2 * preset.train.validate_every
        chosen = _override(TrainConfig, train, self.train)
        if model.network == "pointwise" and not NETWORK_FIELDS & set(self.model):
            chosen = chosen.model_copy(update={"batch": 2 * chosen.batch})
        order = validated(ScheduleConfig, schedule)
        partial, levels, count = self.partial or cells, order.max_level + 1, len(predictors)
        layout = TokenLayout(self.dims, partial, self.periods, levels, base_predictors=count)
        return TrainingPlan(model, layout, order, chosen)

    def _model(self, preset: Preset, predictors: BasePredictors) -> ModelConfig:
        """The network that the caller names, or that suits the data and the base predictors."""
        free = not NETWORK_FIELDS & set(self.model)
        whole = self.model.get("encode_targets", True) and not self.model.get("per_level")
        network = "rows"
        if self.partial and self.dims > 1 and whole and preset.cells:
            network = "cells"
        elif free:
            preferred = (each.network for each in predictors.values() if each.network)
            network = next(preferred, network)
        network = self.model.get("network", network)
        usual = preset.cells if network == "cells" and preset.cells else preset.model
        fields = usual.model_dump() | {"network": network}
        # The paper uses one network for all levels if rows are partly observed.
        fields["per_level"] &= not self.partial and network != "pointwise"
        model: ModelConfig = _override(ModelConfig, fields, self.model)
        if model.cell_tokens and self.dims == 1:
            raise InputError(
                "network must be 'rows' for data of one column, got 'cells'; leave it out"
            )
        return model


@dataclass(frozen=True)
class Trained:
    """The result of training."""

    networks: list[Network]  # one per level, finest first, or a single one
    plan: TrainingPlan
    predictors: BasePredictors
    history: list[Record]
    steps: int
    seconds: float  # training time over all resumed runs
    interrupted: bool = False
    failure: TrainingError | None = None  # why training stopped early


def _override(kind: type[Any], fields: Mapping[str, Any], changes: Any) -> Any:
    """A config of these fields with some changes."""
    return validated(kind, {**fields, **_fields(kind, changes)})


def _fields(kind: type[Any], given: Any) -> dict[str, Any]:
    """The fields of a config that a caller gives, as a dict."""
    if not isinstance(given or {}, Mapping):
        name = kind.__name__.removesuffix("Config").lower()
        raise InputError(f"{name} must be fields of {kind.__name__} as a dict, got {given!r}")
    return dict(given or {})


def resolve(params: Mapping[str, Any], series: SeriesSet, clock: Clock) -> TrainingSettings:
    """What the parameters of `NRTSI` mean for scaled `series`.

    Raises:
        InputError: A parameter is unknown or out of range; the message names it.
    """
    budget = budget_of(params["budget"], params["steps"])
    setting = choose_setting(params["setting"], series)
    partial = is_partial(setting, series)
    preset = preset_for(params["preset"], budget.seconds, partial=partial)
    gap, regular = longest_gap(series), _is_on_grid(series)
    max_level = _max_level(params["max_level"], gap)
    usual = schedule_for(setting, regular=regular, max_level=max_level)
    fields, given = usual.model_dump(exclude={"together"}), params["schedule"]
    if setting != "stochastic" and (preset == "paper" or "order" in (given or {})):
        fields["one_by_one_above"] = None  # the order is that of the paper, or the caller's
    fields |= _fields(ScheduleConfig, given)
    schedule = validated(ScheduleConfig, fields)
    train = _override(TrainConfig, PRESETS[preset].train.model_dump(), params["train"])
    masking = Masking.choose(params["mask"], series, whole_rows=not partial, rates=train.hidden)
    settings = TrainingSettings(
        setting=setting,
        preset=preset,
        partial=partial,
        dims=series.dims,
        model=_fields(ModelConfig, params["model"]),
        schedule=fields,
        train=params["train"] or {},
        predictors=_predictors(params["predictors"], PRESETS[preset].predictors),
        periods=() if preset == "paper" else _cycles(clock, series),
        masking=masking,
        budget=budget,
        seed=_seed(params["seed"]),
        device=device_of(params["device"]),
        segment_rows=segment_length_for(min(gap, 2 * schedule.reach)),
    )
    settings.plan()  # a wrong field is an error before anything is fitted
    return settings


def budget_of(budget: str | float, steps: Any) -> Budget:
    """The training budget: the number of steps if it is given, else a time."""
    if steps is None:
        return Budget(seconds=parse_duration(budget))
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise InputError(f"steps must be a whole number, 0 or more, got {steps!r}")
    return Budget(steps=int(steps))


def choose_setting(setting: str, series: SeriesSet) -> str:
    """The setting; for "auto", the one that fits the data.

    Complete data do not show what will be missing: with several channels, any cell may be.
    """
    if setting != "auto":
        return setting
    if series.dims > 1 and not rows_fail_together(series):
        return "partial"
    return "regular" if _is_on_grid(series) else "irregular"


def is_partial(setting: str, series: SeriesSet) -> bool:
    """True if rows may be partly observed, in these data or in later ones."""
    return choose_setting(setting, series) == "partial" or bool(series.partly.any())


def device_of(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here; use 'auto' or 'cpu'") from error
    return device


def has_one_row_per_unit(series: SeriesSet) -> bool:
    """True if every row is one unit after the row before it."""
    steps = np.diff(series.time)[np.diff(series.owner) == 0]
    return bool((np.abs(steps - 1) <= TIME_TOLERANCE / 4).all())


def _predictors(names: Any, default: Sequence[str]) -> tuple[str, ...]:
    if names is None:
        return tuple(default)
    known = ", ".join(repr(name) for name in PREDICTORS)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"predictors must be a list of names out of {known}, got {names!r}")
    for name in names:
        if name not in PREDICTORS:
            raise InputError(f"predictors must be out of {known}, got {name!r}; correct the name")
    return tuple(name for name in PREDICTORS if name in names)


def _max_level(max_level: object, gap: float) -> Any:
    """The coarsest level: the caller's, or one that reaches the middle of the longest gap."""
    if isinstance(max_level, str) and max_level != "auto":
        raise InputError(f"max_level must be a whole number or 'auto', got {max_level!r}")
    if max_level != "auto":
        return max_level
    middle = np.array([gap / 2 - TIME_TOLERANCE])
    return max(USUAL_LEVEL, int(level_of(middle, max_level=MAX_LEVEL)[0]))


def _seed(seed: object) -> int:
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and 0 <= seed < 2**63:
        return int(seed)
    raise InputError(f"seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")


def _is_on_grid(series: SeriesSet) -> bool:
    """True if all rows are whole units from the first of their series.

    The tolerance is that of the plan for equal distances; jittered times are irregular.
    """
    first = np.minimum(series.start[:-1], series.rows - 1)
    offset = series.time - np.repeat(series.time[first], series.length)
    return bool((np.abs(offset - np.rint(offset)) <= TIME_TOLERANCE / 4).all())


def _cycles(clock: Clock, series: SeriesSet) -> tuple[float, ...]:
    """Periods of the calendar that the data span at least twice."""
    span = float(np.ptp(series.time)) if series.rows else 0.0
    return tuple(period for period in clock.periods() if 2 * period <= span)
