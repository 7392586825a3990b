"""`FittedModel`: the result of fitting. It imputes, draws and is saved to a file."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi import __version__
from nrtsi.config import PRESETS, ModelConfig, ScheduleConfig
from nrtsi.core.events import Listener
from nrtsi.core.fingerprint import digest, overlap
from nrtsi.core.prediction import Prediction
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import from_state, to_state
from nrtsi.errors import InputError
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.inference import Engine, Reading, noise
from nrtsi.network.names import with_prefix
from nrtsi.network.registry import network_of
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.base import BasePredictors
from nrtsi.schedule.plan import Step, plan

__all__ = ["FittedModel"]


@dataclass(frozen=True)
class FittedModel:
    """Trained networks with all that is needed to use them on data in the caller's units."""

    engine: Engine
    scaler: Scaler

    fingerprint: Int[np.ndarray, " kept"]
    """Of the data it was fitted on."""

    setting: str
    preset: str
    steps: int
    history: list[dict[str, Any]]

    calibration: Calibration
    """How its errors are distributed, on cells that were set aside."""

    aside: dict[str, Any] | None = None
    """Which data they were set aside from, and how; None where they were validation data's."""

    auto: tuple[MethodSelection, Calibration] | None = None
    """The methods that were best in a back-test, where one was made, and their errors."""

    version: str = __version__
    """Of the library that fitted it."""

    def within(self, memory: int) -> "FittedModel":
        """The same, taking so many bytes for its work."""
        return replace(self, engine=replace(self.engine, memory=memory))

    def fill(
        self, series: SeriesSet, listener: Listener | None = None
    ) -> Float[np.ndarray, "row dim"]:
        """The mean of every cell."""
        return self._fill(series, self.engine, None, listener)

    def predict(
        self,
        series: SeriesSet,
        scale: Float[np.ndarray, "row dim"] | None = None,
        listener: Listener | None = None,
    ) -> Prediction:
        """The mean of every cell, and how far off it usually is, as `scale` says of known ones."""
        self._refuse_partial(series)
        spread = self.scaler.spread
        own = None if scale is None else scale / spread
        found = self.engine.predict(self.scaler.scale(series), scale=own, listener=listener)
        value = self._finite(series, self.scaler.unscale(found.mean))
        return Prediction(value, found.std * spread)

    def draw(
        self, series: SeriesSet, seed: int, draw: int, listener: Listener | None = None
    ) -> Float[np.ndarray, "row dim"]:
        """One draw of all cells, point after point as the schedule has it.

        Raises:
            InputError: The model has a point head.
        """
        engine = self.engine
        if engine.model.head == "point":
            raise InputError(
                "this model has a point head and knows no uncertainty; "
                "fit one with model={'head': 'gaussian'} to draw"
            )
        return self._fill(series, engine, noise(series, seed, draw), listener)

    def walk(self, series: SeriesSet) -> Iterator[tuple[Step, Float[np.ndarray, "row dim"]]]:
        """Fills as `fill` does, step by step: each step, and the values as they are after it."""
        self._refuse_partial(series)
        for step, state in self.engine.walk(self.scaler.scale(series)):
            yield step, self.scaler.unscale(state.value)

    def reading(self, series: SeriesSet, row: int) -> tuple[SeriesSet, Reading]:
        """What is known when the turn of a missing row comes, and what is read of it.

        Raises:
            InputError: Nothing is missing in the row.
        """
        self._refuse_partial(series)
        scaled = state = self.scaler.scale(series)
        walk = self.engine.walk(scaled)
        for step in plan(series, self.engine.schedule):
            if row in step.rows:
                value = np.where(state.observed, self.scaler.unscale(state.value), 0.0)
                return replace(state, value=value), self.engine.reading(scaled, state, step, row)
            _, state = next(walk)
        raise InputError(f"row must be one that misses something, got {row}; choose another")

    def has_seen(self, series: SeriesSet) -> bool:
        """True where it was fitted on rows of `series`."""
        return overlap(self.fingerprint, series) > 0.01

    def set_aside(self, series: SeriesSet) -> HoldOut | None:
        """The cells of `series` that were kept from training; None where it is not that data."""
        if self.aside is None or self.aside["data"] != digest(series):
            return None
        return HoldOut.of(series, **self.aside["how"])

    @property
    def reason(self) -> str:
        """Why it has the network that it has, in a few words."""
        layout = self.engine.layout
        if self.engine.model.network == "near":
            return "as asked for" if self.engine.hints.flow is None else "rows go on by themselves"
        if layout.dims == 1:
            return "one column"
        if not layout.partial:
            return "rows are complete or missing as a whole"
        usual = PRESETS[self.preset].cells is None or self.engine.model.network == "cells"
        return "rows may be partly observed" if usual else "as asked for"

    def info(self) -> dict[str, Any]:
        """What it is, as plain JSON."""
        engine = self.engine
        return {
            "version": self.version,
            "preset": self.preset,
            "setting": self.setting,
            "network": f"{engine.model.network}: {self.reason}",
            **engine.hints.words(),
            "steps": self.steps,
            "levels": engine.layout.levels,
            "parameters": sum(p.numel() for p in engine.networks[0].parameters()),
            "model": engine.model.model_dump(),
            "schedule": engine.schedule.model_dump(),
            "layout": engine.layout.to_dict(),
            "scaler": self.scaler.to_dict(),
            "calibrated": f"on {int(self.calibration.cells.sum()):,} cells set aside",
        }

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain JSON that `unpack` makes the same of."""
        # Levels that share a network share its place in the file.
        unique = list(dict.fromkeys(self.engine.networks))
        tensors = {
            f"network.{index}.{name}": tensor
            for index, network in enumerate(unique)
            for name, tensor in network.state_dict().items()
        }
        tensors["fingerprint"] = torch.from_numpy(self.fingerprint)
        given, hints = self.engine.hints.pack()
        tensors |= {f"hints.{name}": tensor for name, tensor in given.items()}
        arrays, evaluation = to_state((self.calibration, self.auto))
        tensors |= {f"evaluation.{name}": torch.tensor(each) for name, each in arrays.items()}
        places = [unique.index(network) for network in self.engine.networks]
        return tensors, self.info() | {
            "networks": places,
            "hints": hints,
            "history": self.history,
            "evaluation": evaluation,
            "aside": self.aside,
        }

    @classmethod
    def unpack(
        cls, tensors: dict[str, Tensor], record: dict[str, Any], device: torch.device
    ) -> "FittedModel":
        """What `pack` took apart, on `device`."""
        model, schedule = ModelConfig(**record["model"]), ScheduleConfig(**record["schedule"])
        layout = TokenLayout.from_dict(record["layout"])
        unique = []
        for index in range(max(record["networks"]) + 1):
            network = network_of(model, layout)
            network.load_state_dict(with_prefix(tensors, f"network.{index}."))
            unique.append(network.to(device).eval())
        networks = [unique[index] for index in record["networks"]]
        hints = BasePredictors.unpack(with_prefix(tensors, "hints."), record["hints"])
        arrays = with_prefix(tensors, "evaluation.")
        kind: Any = tuple[Calibration, tuple[MethodSelection, Calibration] | None]
        calibration, auto = from_state(kind, arrays, record["evaluation"])
        return cls(
            engine=Engine(networks, model, layout, schedule, hints),
            scaler=Scaler.from_dict(record["scaler"]),
            fingerprint=tensors["fingerprint"].numpy(),
            calibration=calibration,
            aside=record["aside"],
            auto=auto,
            **{
                name: record[name] for name in ("setting", "preset", "steps", "history", "version")
            },
        )

    def _fill(
        self,
        series: SeriesSet,
        engine: Engine,
        draw: Float[np.ndarray, "row dim"] | None,
        listener: Listener | None,
    ) -> Float[np.ndarray, "row dim"]:
        self._refuse_partial(series)
        scaled = self.scaler.scale(series)
        filled = engine.fill(scaled, draw=draw, listener=listener)
        return self._finite(series, self.scaler.unscale(filled))

    def _finite(
        self, series: SeriesSet, filled: Float[np.ndarray, "row dim"]
    ) -> Float[np.ndarray, "row dim"]:
        if not np.isfinite(filled).all():
            row = int(np.argmin(np.isfinite(filled).all(axis=1)))
            raise InputError(
                f"series {series.keys[int(series.owner[row])]!r} must lie near the data the model "
                f"was fitted on, got values so far off that the result is not finite; fit again"
            )
        return filled

    def _refuse_partial(self, series: SeriesSet) -> None:
        partly = np.flatnonzero(series.partly)
        if not self.engine.layout.partial and partly.size:
            key = series.keys[int(series.owner[partly[0]])]
            raise InputError(
                f"rows must be observed in all columns or in none, as in the data this model was "
                f"fitted on, got {partly.size} partly observed rows, the first in series {key!r}; "
                f"fit with setting='partial'"
            )
