"""From the caller's words and the data at hand to the settings of a training run."""

from collections.abc import Mapping
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
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.network.tokens import TokenLayout
from nrtsi.schedule.distances import level_of
from nrtsi.schedule.policies import SAME
from nrtsi.schedule.windows import WHOLE
from nrtsi.tables import Clock, parse_duration
from nrtsi.training.plan import Budget, TrainingPlan
from nrtsi.training.sampler import longest_gap, segment_length_for

__all__ = ["a_row_a_unit", "budget_of", "choose_setting", "resolve", "device_of", "is_partial"]

# Levels of data without long gaps, as in the paper; and the coarsest that are learnt: a stretch
# in which a longer gap could be hidden would be too long to plan.
LEAST, FARTHEST = 4, 12

# Cells in a step of the optimizer, and windows at least, where cells are read one by one.
CELLS_A_STEP, FEWEST_WINDOWS = 2**12, 4


def budget_of(budget: str | float, steps: Any) -> Budget:
    """How long to train: so many steps where they are given, else a time."""
    if steps is None:
        return Budget(seconds=parse_duration(budget))
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise InputError(f"steps must be a whole number, 0 or more, got {steps!r}")
    return Budget(steps=int(steps))


def choose_setting(setting: str, series: SeriesSet) -> str:
    """The setting, or where it is "auto" the one that fits the data.

    Data with nothing missing do not say what will be missing: with several channels, anything may.
    """
    if setting != "auto":
        return setting
    if series.dims > 1 and not rows_fail_together(series):
        return "partial"
    return "regular" if _on_grid(series) else "irregular"


def is_partial(setting: str, series: SeriesSet) -> bool:
    """Whether rows may be observed in part, in these data or in those to come."""
    return choose_setting(setting, series) == "partial" or bool(series.partly.any())


def resolve(
    words: Mapping[str, Any], series: SeriesSet, clock: Clock
) -> tuple[TrainingPlan, str, str]:
    """The plan of training, the setting and the preset that `words` mean for scaled `series`.

    `words` are the arguments of `NRTSI`.

    Raises:
        InputError: A word is unknown or out of range; the message names it.
    """
    budget = budget_of(words["budget"], words["steps"])
    setting = choose_setting(words["setting"], series)
    partial = is_partial(setting, series)
    name = preset_for(words["preset"], budget.seconds, partial=partial)
    preset = PRESETS[name]
    model = _model(preset, words["model"], series.dims, partial=partial)
    gap = longest_gap(series)
    coarsest = _coarsest(words["max_level"], gap)
    usual = schedule_for(setting, regular=_on_grid(series), max_level=coarsest).model_dump()
    usual["together"] = _together(setting, model)
    if setting != "stochastic" and (name == "paper" or "order" in (words["schedule"] or {})):
        usual["one_by_one_above"] = None  # the order is that of the paper, or the caller's own
    schedule = _changed(ScheduleConfig, usual, words["schedule"])
    periods = () if name == "paper" else _cycles(clock, series)
    batch = _batch(preset.train, model, series.dims)
    train = _changed(TrainConfig, preset.train.model_dump() | batch, words["train"])
    by_channel = partial or model.network == "cells"
    plan = TrainingPlan(
        model=model,
        layout=TokenLayout(series.dims, by_channel, periods, schedule.max_level + 1),
        schedule=schedule,
        train=train,
        hiding=Masking.choose(words["mask"], series, whole_rows=not partial, rates=train.hidden),
        budget=budget,
        seed=_seed(words["seed"]),
        device=device_of(words["device"]),
        stretch=segment_length_for(min(gap, 2 * schedule.reach)),
        free=not {"network", "per_level", "encode_targets"} & set(words["model"] or ()),
    )
    return plan, setting, name


def device_of(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here; use 'auto' or 'cpu'") from error
    return device


def _model(
    preset: Preset, words: Mapping[str, Any] | None, dims: int, *, partial: bool
) -> ModelConfig:
    """The preset's network for such data, or the one that the caller names, as the words say."""
    given = words if isinstance(words, Mapping) else {}
    whole = given.get("encode_targets", True) and not given.get("per_level")
    suits = partial and dims > 1 and whole
    network = given.get("network", "cells" if suits and preset.cells else "rows")
    usual = preset.cells if network == "cells" and preset.cells else preset.model
    # The paper: one network is enough where rows are partly observed.
    levels = {"per_level": usual.per_level and not partial}
    model: ModelConfig = _changed(ModelConfig, usual.model_dump() | levels, words)
    if model.network == "cells" and dims == 1:
        raise InputError(
            "network must be 'rows' for data of one column, got 'cells'; leave it out"
        )
    return model


def _together(setting: str, model: ModelConfig) -> float | None:
    """How near to data rows are filled with the partly observed ones in one step, if at all.

    Cells do not gain from being asked for with wholly missing rows: those come first.
    """
    return None if model.network != "cells" or setting in ("stochastic", "smallest") else 0.0


def _batch(train: TrainConfig, model: ModelConfig, dims: int) -> dict[str, int]:
    """Fewer windows a step where each of them has many cells to read one by one."""
    if model.network != "cells":
        return {}
    cells = (model.window or WHOLE) * dims
    batch = min(train.batch, max(FEWEST_WINDOWS, CELLS_A_STEP // cells))
    # Steps are quick, and validation is no smaller.
    return {"batch": batch, "validate_every": 2 * train.validate_every}


def _coarsest(max_level: object, gap: float) -> Any:
    """The coarsest level: the caller's; or the one that reaches the middle of the longest gap."""
    if isinstance(max_level, str) and max_level != "auto":
        raise InputError(f"max_level must be a whole number or 'auto', got {max_level!r}")
    if max_level != "auto":
        return max_level
    return max(LEAST, int(level_of(np.array([gap / 2 - SAME]), max_level=FARTHEST)[0]))


def _changed(kind: type[Any], fields: dict[str, Any], changes: Any) -> Any:
    if not isinstance(changes or {}, Mapping):
        name = kind.__name__.removesuffix("Config").lower()
        raise InputError(f"{name} must be fields of {kind.__name__} as a dict, got {changes!r}")
    return validated(kind, fields | dict(changes or {}))


def _seed(seed: object) -> int:
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and 0 <= seed < 2**63:
        return int(seed)
    raise InputError(f"seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")


def _on_grid(series: SeriesSet) -> bool:
    """True where all rows are whole units from the first of their series.

    So nearly whole that the plan takes equal gaps for equal; jittered times are irregular.
    """
    first = np.minimum(series.start[:-1], series.rows - 1)
    offset = series.time - np.repeat(series.time[first], series.length)
    return bool((np.abs(offset - np.rint(offset)) <= SAME / 4).all())


def a_row_a_unit(series: SeriesSet) -> bool:
    """True where every row is one unit after the one before, so that rows tell the time."""
    steps = np.diff(series.time)[np.diff(series.owner) == 0]
    return bool((np.abs(steps - 1) <= SAME / 4).all())


def _cycles(clock: Clock, series: SeriesSet) -> tuple[float, ...]:
    """Periods of the calendar that the data go through at least twice."""
    span = float(np.ptp(series.time)) if series.rows else 0.0
    return tuple(period for period in clock.periods() if 2 * period <= span)
