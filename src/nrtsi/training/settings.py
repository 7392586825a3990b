"""`resolve`: from the parameters of `NRTSI` and the data to the settings of a training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nrtsi.config import PRESETS, ScheduleConfig, TrainConfig, preset_for, schedule_for, validated
from nrtsi.core.masking import Masking, rows_fail_together
from nrtsi.core.segments import longest_gap, segment_length_for
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.predictors.registry import PREDICTORS
from nrtsi.schedule.distances import TIME_TOLERANCE, level_of
from nrtsi.tables import Clock, parse_duration
from nrtsi.training.plan import Budget, TrainingSettings, override

__all__ = [
    "budget_of",
    "choose_setting",
    "device_of",
    "has_one_row_per_unit",
    "is_partial",
    "resolve",
]

# Coarsest level of data without long gaps, as in the paper; and of any data: a segment in which a
# longer gap could be hidden would take too long to plan.
USUAL_LEVEL, MAX_LEVEL = 4, 12


def resolve(params: Mapping[str, Any], series: SeriesSet, clock: Clock) -> TrainingSettings:
    """What the parameters of `NRTSI` mean for scaled `series`.

    Raises:
        InputError: A parameter is unknown or out of range; the message names it.
    """
    budget = budget_of(params["budget"], params["steps"])
    setting = choose_setting(params["setting"], series)
    partial = is_partial(setting, series)
    preset = preset_for(params["preset"], budget.seconds, partial=partial)
    gap = longest_gap(series)
    regular = _is_on_grid(series)
    max_level = _max_level(params["max_level"], gap)
    usual = schedule_for(setting, regular=regular, max_level=max_level)
    fields = usual.model_dump(exclude={"together"})
    if setting != "stochastic" and (preset == "paper" or "order" in (params["schedule"] or {})):
        fields["one_by_one_above"] = None  # the order is that of the paper, or the caller's
    override(ScheduleConfig, fields, params["schedule"])
    fields |= dict(params["schedule"] or {})
    schedule = validated(ScheduleConfig, fields)
    train = override(TrainConfig, PRESETS[preset].train.model_dump(), params["train"])
    masking = Masking.choose(params["mask"], series, whole_rows=not partial, rates=train.hidden)
    settings = TrainingSettings(
        setting=setting,
        preset=preset,
        partial=partial,
        dims=series.dims,
        model=_mapping(params["model"], "model", "ModelConfig"),
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


def _mapping(value: Any, name: str, kind: str) -> Mapping[str, Any]:
    if not isinstance(value or {}, Mapping):
        raise InputError(f"{name} must be fields of {kind} as a dict, got {value!r}")
    return value or {}


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
