"""`TrainingSettings`, `TrainingPlan` and `Trained`: the input and the result of training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nrtsi.config import PRESETS, ModelConfig, Preset, ScheduleConfig, TrainConfig, validated
from nrtsi.core.masking import Masking
from nrtsi.errors import InputError, TrainingError
from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.registry import BasePredictors

__all__ = ["Budget", "Record", "Trained", "TrainingPlan", "TrainingSettings", "override"]

Record = dict[str, float | int | None]
"""One validation: level, step, loss of the last batch, validation loss."""

NETWORK_FIELDS = {"network", "per_level", "encode_targets"}
"""Fields of `ModelConfig` that decide on the kind of network; if given, it is not chosen."""


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

    partial: bool
    """True if rows may be partly observed."""

    dims: int
    model: Mapping[str, Any]
    """Fields of `ModelConfig` that override the preset."""

    schedule: Mapping[str, Any]
    """Fields of `ScheduleConfig`; `together` is missing unless the caller gives it."""

    train: Mapping[str, Any]
    """Fields of `TrainConfig` that override the preset."""

    predictors: tuple[str, ...]
    """Names of the base predictors to fit."""

    periods: tuple[float, ...]
    """Cycles of the calendar, in units of time."""

    masking: Masking
    budget: Budget
    seed: int
    device: torch.device

    segment_rows: int
    """Largest number of rows that are masked and planned together."""

    def plan(self, predictors: BasePredictors | None = None) -> TrainingPlan:
        """Chooses the network for the data and the base predictors, and what depends on it.

        Raises:
            InputError: A field is unknown or out of range.
        """
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
        chosen = override(TrainConfig, train, self.train)
        if model.network == "pointwise" and not NETWORK_FIELDS & set(self.model):
            chosen = chosen.model_copy(update={"batch": 2 * chosen.batch})
        order = validated(ScheduleConfig, schedule)
        layout = TokenLayout(
            self.dims,
            self.partial or cells,
            self.periods,
            order.max_level + 1,
            base_predictors=len(predictors),
        )
        return TrainingPlan(model, layout, order, chosen)

    def _model(self, preset: Preset, predictors: BasePredictors) -> ModelConfig:
        """The network that the caller names, or that suits the data and the base predictors."""
        free = not NETWORK_FIELDS & set(self.model)
        whole = self.model.get("encode_targets", True) and not self.model.get("per_level")
        network = "rows"
        if self.partial and self.dims > 1 and whole and preset.cells:
            network = "cells"
        elif free and predictors.network is not None:
            network = predictors.network
        network = self.model.get("network", network)
        usual = preset.cells if network == "cells" and preset.cells else preset.model
        fields = usual.model_dump() | {"network": network}
        # The paper uses one network for all levels if rows are partly observed.
        fields["per_level"] &= not self.partial and network != "pointwise"
        model: ModelConfig = override(ModelConfig, fields, self.model)
        if model.cell_tokens and self.dims == 1:
            raise InputError(
                "network must be 'rows' for data of one column, got 'cells'; leave it out"
            )
        return model


@dataclass(frozen=True)
class Trained:
    """The result of training."""

    networks: list[Network]
    """One per level, finest first, or a single one."""

    plan: TrainingPlan
    predictors: BasePredictors
    history: list[Record]
    steps: int
    seconds: float
    """Training time over all resumed runs."""

    interrupted: bool = False

    failure: TrainingError | None = None
    """Why training stopped early; the networks have the best weights until then."""


def override(kind: type[Any], fields: Mapping[str, Any], changes: Any) -> Any:
    """A config of these fields with some changes.

    Raises:
        InputError: The changes are not a mapping of fields, or a value is out of range.
    """
    if not isinstance(changes or {}, Mapping):
        name = kind.__name__.removesuffix("Config").lower()
        raise InputError(f"{name} must be fields of {kind.__name__} as a dict, got {changes!r}")
    return validated(kind, {**fields, **dict(changes or {})})
