"""`Engine`: carries out a plan; at each step it gathers tokens, predicts and fills in."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int

from nrtsi.config import ModelConfig, ScheduleConfig
from nrtsi.core.events import ImputeStep, Listener
from nrtsi.core.interpolation import Known, between
from nrtsi.core.prediction import BasePrediction, Prediction
from nrtsi.core.series import SeriesSet, Values
from nrtsi.errors import InputError
from nrtsi.network.registry import Network
from nrtsi.network.threads import Threads
from nrtsi.network.tokens import StepContext, TokenLayout, tokens
from nrtsi.predictors.registry import BasePredictors
from nrtsi.schedule.plan import Step, plan
from nrtsi.schedule.windows import WindowBatch

__all__ = ["AttentionRecord", "Engine", "Prediction", "noise", "sub_listener"]

# Bytes of the windows that a core predicts at once: about what its caches hold.
BYTES_PER_CORE = 2**25

Targets: TypeAlias = Int[np.ndarray, " target"]


@dataclass(frozen=True)
class AttentionRecord:
    """The attention weights with which one row was imputed."""

    rows: Int[np.ndarray, " attended"]
    """The rows it attends to: known ones near it, and itself."""
    weight: Float[np.ndarray, "block head attended"]
    """Weights of each head of each block; they sum to 1 over the rows."""


@dataclass(frozen=True)
class Engine:
    """Trained networks with their base predictors and their schedule."""

    networks: Sequence[Network]
    """One for each level, the finest first; or a single one for all levels."""
    model: ModelConfig
    layout: TokenLayout
    schedule: ScheduleConfig
    predictors: BasePredictors = field(default_factory=BasePredictors)
    memory_limit: int = 2**30
    """Bytes of working memory beside the data; a single series may exceed it."""

    def predict(
        self,
        series: SeriesSet,
        *,
        std: Values | None = None,
        draw: Values | None = None,
        listener: Listener | None = None,
    ) -> Prediction:
        """Predicts every value of scaled `series` and the expected size of its error.

        `std` are standard deviations of the known values (default: 0); `draw` is standard normal
        noise that turns means into samples.
        """
        mean, first = series.value.copy(), 0
        std = np.zeros_like(mean) if std is None else std.copy()
        row_bytes = 64 + 40 * series.dims * (1 + 2 * self.layout.base_predictors)  # estimate
        for batch in series.batches(self.memory_limit // row_bytes):
            rows = slice(first, first + batch.rows)
            part = sub_listener(listener, first / series.rows, batch.rows / series.rows)
            remaining = total = int((~batch.observed.all(axis=1)).sum())
            noise, value = None if draw is None else draw[rows], batch.value
            for step, state in self.steps(batch, draw=noise, std=std[rows]):
                value, remaining = state.value, remaining - step.rows.size
                if part is not None:
                    part(ImputeStep(int(step.level.max()), 1 - remaining / total))
            mean[rows] = value
            first += batch.rows
        return Prediction(mean, std)

    def steps(
        self, series: SeriesSet, *, draw: Values | None = None, std: Values | None = None
    ) -> Iterator[tuple[Step, SeriesSet]]:
        """Carries out the plan and yields each step with the series after it.

        The next step overwrites the yielded series. If `std` is given, the standard deviation of
        every imputed cell is written into it.
        """
        state = replace(series, value=series.value.copy(), observed=series.observed.copy())
        with closing(Threads.of(self.networks[0].device)) as threads:
            base_predictions = self.predictors.predict(series, threads=threads)
            for step in plan(series, self.schedule):
                predictions = self._predict_step(state, step, base_predictions, draw, threads)
                if std is not None:
                    _propagate_std(state, std, step.rows)
                for rows, found in predictions:
                    missing = ~state.observed[rows]
                    state.value[rows] = np.where(missing, found.mean, state.value[rows])
                    if std is not None:
                        std[rows] = np.hypot(std[rows], np.where(missing, found.std, 0.0))
                state.observed[step.rows] = True
                yield step, state

    def attention(
        self, series: SeriesSet, state: SeriesSet, step: Step, row: int
    ) -> AttentionRecord:
        """Returns the attention weights of `row`, a target of `step`; `state` precedes it."""
        base_predictions = self.predictors.predict(series)
        context = StepContext.of(state, step.rows, step.distance, self.layout, base_predictions)
        for network, batch in self._batches(state, step, threads=1):
            for window, target in np.argwhere(batch.target_valid & (batch.target == row)):
                inputs = tokens(context, batch, self.layout, self.model)
                with torch.inference_mode():
                    blocks = network.attention_weights(inputs.to(network.device))
                weight = torch.stack([block[window, :, target] for block in blocks])
                attended = network.attention_mask(inputs)[window, target].numpy()
                rows = np.concatenate([batch.known[window], batch.target[window]])
                weights = weight.cpu().double().numpy()[..., attended]
                return AttentionRecord(rows[attended], weights)
        raise InputError(f"row must be a target of the step, got {row}; take one of step.rows")

    def _predict_step(
        self,
        state: SeriesSet,
        step: Step,
        base_predictions: tuple[BasePrediction, ...],
        draw: Values | None,
        threads: Threads,
    ) -> list[tuple[Targets, Prediction]]:
        """Predicts all targets of a step; none of them is an input of another."""
        context = StepContext.of(state, step.rows, step.distance, self.layout, base_predictions)
        batches = list(self._batches(state, step, threads.count))
        return threads.map(partial(self._predict_batch, context, draw), batches)

    def _predict_batch(
        self, context: StepContext, draw: Values | None, work: tuple[Network, WindowBatch]
    ) -> tuple[Targets, Prediction]:
        network, batch = work
        inputs = tokens(context, batch, self.layout, self.model)
        with torch.inference_mode():
            prediction = network(inputs.to(network.device))
        mean = prediction.mean
        if draw is not None:
            noise = torch.from_numpy(draw[batch.target].astype(np.float32))
            mean = prediction.sample(noise.to(network.device))
        valid = batch.target_valid
        mean, std = (t.cpu().numpy()[valid].astype(np.float64) for t in (mean, prediction.std))
        return batch.target[valid], Prediction(mean, std)

    def _batches(
        self, state: SeriesSet, step: Step, threads: int
    ) -> Iterator[tuple[Network, WindowBatch]]:
        """Yields the windows of a step in batches, each with the network of its level."""
        kind = type(self.networks[0])
        windows = kind.windows(step, state.start, self.model)
        most = self.memory_limit // threads
        if self.networks[0].device.type == "cpu":
            most = min(most, BYTES_PER_CORE)
        cost = partial(kind.window_bytes, config=self.model, layout=self.layout)
        level = np.minimum(windows.level, len(self.networks) - 1)
        for index, network in enumerate(self.networks):
            for batch in windows.batches(most, cost, np.flatnonzero(level == index)):
                yield network, batch


def _propagate_std(state: SeriesSet, std: Values, rows: Targets) -> None:
    """Writes into `std` what targets inherit from the known values around them.

    A correction is added to an interpolation, so the std of the known values is interpolated too.
    """
    left, right = Known.of(state.observed, state.start).around(rows)
    inherited = between(replace(state, value=std), state.time[rows], left, right)
    std[rows] = np.where(state.observed[rows], std[rows], inherited)


def noise(series: SeriesSet, seed: int, draw: int) -> Values:
    """Returns standard normal numbers that do not depend on the other series of a set."""
    parts = [
        np.random.default_rng([seed, draw, *key.encode()]).standard_normal((length, series.dims))
        for key, length in zip(series.keys, series.length, strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, series.dims))


def sub_listener(listener: Listener | None, done: float, share: float) -> Listener | None:
    """Returns a listener for a part of the work: fractions from `done` to `done + share`."""
    if listener is None:
        return None
    return lambda event: listener(replace(event, fraction=done + share * event.fraction))
