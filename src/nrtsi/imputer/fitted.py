"""`FittedModel`: the result of fitting. It imputes, draws and is saved to a file."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nrtsi import __version__
from nrtsi.config import PRESETS, ModelConfig, ScheduleConfig
from nrtsi.core.events import Listener
from nrtsi.core.fingerprint import overlap, series_digest
from nrtsi.core.prediction import Prediction, predict_rows
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet, Values
from nrtsi.core.state import from_state, to_state, with_prefix
from nrtsi.errors import InputError
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.inference import AttentionRecord, Engine, noise
from nrtsi.network.registry import network_of
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.base import State
from nrtsi.predictors.registry import BasePredictors
from nrtsi.schedule.plan import Step, plan
from nrtsi.tables import Panel

__all__ = ["FittedModel"]


@dataclass(frozen=True)
class FittedModel:
    """Trained networks with scaler, calibration and schedule, for data in the caller's units."""

    engine: Engine
    scaler: Scaler
    fingerprint: Int[np.ndarray, " kept"]
    """Fingerprint of the data it was fitted on."""
    setting: str
    preset: str
    steps: int
    history: list[dict[str, Any]]
    calibration: Calibration
    """The distribution of its errors on held-out cells."""
    holdout: dict[str, Any] | None = None
    """Digest of the data and arguments of `HoldOut.of`; None with separate validation data."""
    auto: tuple[MethodSelection, Calibration] | None = None
    """The best methods of a back-test and the distribution of their errors, once it is made."""
    version: str = __version__
    """Version of the library that fitted it."""

    def with_memory_limit(self, limit: int) -> "FittedModel":
        """Returns the same model with a limit of working memory, in bytes."""
        return replace(self, engine=replace(self.engine, memory_limit=limit))

    def predict(
        self,
        series: SeriesSet,
        query: Panel | None = None,
        *,
        draw: tuple[int, int] | None = None,
        listener: Listener | None = None,
    ) -> Prediction:
        """Predicts every cell of `series`, or of `query`, in the units of the data.

        `query` has the rows of `series` and others. With `draw`, the seed and number of a draw,
        each step draws values instead of their mean.

        Raises:
            InputError: The data differ from the fitted data, or a point head is to draw.
        """
        if draw is not None and self.engine.model.head == "point":
            raise InputError(
                "this model has a point head and knows no uncertainty; "
                "fit one with model={'head': 'gaussian'} to draw"
            )
        scaler = self.scaler

        def predict_scaled(given: SeriesSet, std: Values | None) -> Prediction:
            self._refuse_partial(given)
            found = self.engine.predict(
                scaler.scale(given),
                std=None if std is None else std / scaler.spread,
                draw=None if draw is None else noise(given, *draw),
                listener=listener,
            )
            mean = scaler.unscale(found.mean)
            _check_finite(given, mean)
            return Prediction(mean, found.std * scaler.spread)

        if query is None or query.series is series:
            return predict_scaled(series, None)
        return predict_rows(predict_scaled, series, query.series, query.original_rows)

    def walk(self, series: SeriesSet) -> Iterator[tuple[Step, Values]]:
        """Imputes step by step: yields each step and the values after it."""
        self._refuse_partial(series)
        for step, state in self.engine.steps(self.scaler.scale(series)):
            yield step, self.scaler.unscale(state.value)

    def attention(self, series: SeriesSet, row: int) -> tuple[SeriesSet, AttentionRecord]:
        """Returns the known values before a missing row is imputed, and its attention weights."""
        self._refuse_partial(series)
        scaled = state = self.scaler.scale(series)
        walk = self.engine.steps(scaled)
        for step in plan(series, self.engine.schedule):
            if row in step.rows:
                value = np.where(state.observed, self.scaler.unscale(state.value), 0.0)
                return replace(state, value=value), self.engine.attention(scaled, state, step, row)
            _, state = next(walk)
        raise InputError(f"row must be one that misses something, got {row}; choose another")

    def has_seen(self, series: SeriesSet) -> bool:
        """True if the model was fitted on rows of `series`."""
        return overlap(self.fingerprint, series) > 0.01

    def held_out(self, series: SeriesSet) -> HoldOut | None:
        """Returns the cells of `series` that were held out; None if it saw other data."""
        if self.holdout is None or self.holdout["data"] != series_digest(series):
            return None
        return HoldOut.of(series, **self.holdout["spec"])

    @property
    def reason(self) -> str:
        """Why this network was chosen."""
        layout, network = self.engine.layout, self.engine.model.network
        if network == "pointwise":
            found = "dynamics" in self.engine.predictors
            return "each row determines the next" if found else "as requested"
        if layout.dims == 1:
            return "one column"
        if not layout.partial:
            return "rows are complete or missing as a whole"
        usual = PRESETS[self.preset].cells is None or network == "cells"
        return "rows may be partly observed" if usual else "as requested"

    def info(self) -> dict[str, Any]:
        """Returns a description of the model that JSON can hold."""
        engine = self.engine
        return {
            "version": self.version,
            "preset": self.preset,
            "setting": self.setting,
            "network": f"{engine.model.network}: {self.reason}",
            "predictors": engine.predictors.describe(),
            "steps": self.steps,
            "levels": engine.layout.levels,
            "parameters": sum(p.numel() for p in engine.networks[0].parameters()),
            "model": engine.model.model_dump(),
            "schedule": engine.schedule.model_dump(),
            "layout": asdict(engine.layout),
            "scaler": {key: each.tolist() for key, each in asdict(self.scaler).items()},
            "calibrated": f"on {int(self.calibration.cells.sum()):,} held-out cells",
        }

    def state(self) -> State:
        """Returns tensors by name, and a record that JSON can hold, for a file."""
        # Levels that share a network share its weights in the file.
        unique = list(dict.fromkeys(self.engine.networks))
        tensors = {
            f"network.{index}.{name}": tensor
            for index, network in enumerate(unique)
            for name, tensor in network.state_dict().items()
        }
        own, predictors = self.engine.predictors.state()
        tensors |= {f"predictors.{name}": tensor for name, tensor in own.items()}
        saved = {f.name: getattr(self, f.name) for f in fields(_Saved) if f.name != "layout"}
        arrays, fitted = to_state(_Saved(layout=self.engine.layout, **saved))
        tensors |= {f"fitted.{name}": torch.from_numpy(each) for name, each in arrays.items()}
        return tensors, self.info() | {
            "networks": [unique.index(network) for network in self.engine.networks],
            "predictor_states": predictors,
            "fitted": fitted,
        }

    @classmethod
    def from_state(
        cls, tensors: dict[str, Tensor], record: dict[str, Any], device: torch.device
    ) -> "FittedModel":
        """Returns the model that `state` describes, on `device`."""
        model, schedule = ModelConfig(**record["model"]), ScheduleConfig(**record["schedule"])
        saved = from_state(_Saved, with_prefix(tensors, "fitted."), record["fitted"])
        unique = []
        for index in range(max(record["networks"]) + 1):
            network = network_of(model, saved.layout)
            network.load_state_dict(with_prefix(tensors, f"network.{index}."))
            unique.append(network.to(device).eval())
        networks = [unique[index] for index in record["networks"]]
        of_predictors = with_prefix(tensors, "predictors.")
        predictors = BasePredictors.from_state(of_predictors, record["predictor_states"])
        engine = Engine(networks, model, saved.layout, schedule, predictors)
        own = {f.name: getattr(saved, f.name) for f in fields(saved) if f.name != "layout"}
        described = {name: record[name] for name in ("setting", "preset", "steps", "version")}
        return cls(engine=engine, **own, **described)

    def _refuse_partial(self, series: SeriesSet) -> None:
        partly = np.flatnonzero(series.partly)
        if not self.engine.layout.partial and partly.size:
            key = series.keys[int(series.owner[partly[0]])]
            raise InputError(
                f"rows must be observed in all columns or in none, as in the data this model was "
                f"fitted on, got {partly.size} partly observed rows, the first in series {key!r}; "
                f"fit with setting='partial'"
            )


def _check_finite(series: SeriesSet, value: Values) -> None:
    finite = np.isfinite(value).all(axis=1)
    if not finite.all():
        raise InputError(
            f"series {series.keys[int(series.owner[finite.argmin()])]!r} must lie near the data "
            f"the model was fitted on, got values so far off that the result is not finite; "
            f"fit again"
        )


@dataclass(frozen=True)
class _Saved:
    """The fields of a `FittedModel` that `to_state` saves."""

    layout: TokenLayout
    scaler: Scaler
    fingerprint: Int[np.ndarray, " kept"]
    calibration: Calibration
    history: list[dict[str, Any]]
    holdout: dict[str, Any] | None
    auto: tuple[MethodSelection, Calibration] | None
