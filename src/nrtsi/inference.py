"""Carries out a plan: gather what is known, ask the network, fill in what it says."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int

from nrtsi.config import ModelConfig, ScheduleConfig
from nrtsi.core.events import ImputeStep, Listener
from nrtsi.core.interpolation import Known, between
from nrtsi.core.prediction import BasePrediction, Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.network.registry import Network, window_bytes, windows_of
from nrtsi.network.threads import Threads
from nrtsi.network.tokens import StepContext, TokenLayout, Tokens, tokens
from nrtsi.predictors.registry import BasePredictors
from nrtsi.schedule.plan import Step, plan
from nrtsi.schedule.windows import WindowBatch

__all__ = ["Prediction", "Engine", "AttentionRecord", "noise", "part_of"]

# Bytes of the windows that a core works on at once: what its caches hold, or nearly.
ENOUGH = 2**25


@dataclass(frozen=True)
class AttentionRecord:
    """What the network reads to fill one row."""

    rows: Int[np.ndarray, " read"]
    """The rows it may read: known ones near it, and itself."""

    weight: Float[np.ndarray, "block head read"]
    """How much each head of each block reads of them; sums to 1 over the rows."""


Answer: TypeAlias = tuple[
    Int[np.ndarray, " target"], Float[np.ndarray, "target dim"], Float[np.ndarray, "target dim"]
]
"""Rows, the values for them, and the scales of their errors given what was known."""


@dataclass(frozen=True)
class Engine:
    """Trained networks with the order they are asked in."""

    networks: Sequence[Network]
    """One for each level, the finest first; or a single one for all levels."""

    model: ModelConfig
    layout: TokenLayout
    schedule: ScheduleConfig

    predictors: BasePredictors = field(default_factory=BasePredictors)
    """What is said of series before the networks are asked."""

    memory_limit: int = 2**30
    """Bytes that the work may take beside the data; a series is never divided for it."""

    def predict(
        self,
        series: SeriesSet,
        *,
        scale: Float[np.ndarray, "row dim"] | None = None,
        draw: Float[np.ndarray, "row dim"] | None = None,
        listener: Listener | None = None,
    ) -> Prediction:
        """Predicts every value of `series` and the expected size of its error.

        Args:
            series: The series, scaled.
            scale: Standard deviations of the known values; 0 without it.
            draw: Noise that turns means into draws.
            listener: Is called at every step.
        """
        scale = np.zeros_like(series.value) if scale is None else scale.copy()
        return Prediction(self._fill_all(series, listener, draw=draw, scale=scale), scale)

    def _fill_all(
        self,
        series: SeriesSet,
        listener: Listener | None,
        *,
        draw: np.ndarray | None = None,
        scale: np.ndarray | None = None,
    ) -> Float[np.ndarray, "row dim"]:
        values, done = [], 0
        for batch in series.batches(
            self.memory_limit // _row_bytes(series.dims, self.layout.base_predictors)
        ):
            rows = slice(done, done + batch.rows)
            told = part_of(listener, done / series.rows, batch.rows / series.rows)
            noise = None if draw is None else draw[rows]
            unsure = None if scale is None else scale[rows]
            values.append(self._fill(batch, noise, unsure, told))
            done += batch.rows
        return np.concatenate(values) if values else series.value

    def _fill(
        self,
        series: SeriesSet,
        draw: np.ndarray | None,
        scale: np.ndarray | None,
        listener: Listener | None,
    ) -> Float[np.ndarray, "row dim"]:
        left = total = int((~series.observed.all(axis=1)).sum())
        value = series.value
        for step, state in self.walk(series, draw=draw, scale=scale):
            value = state.value
            left -= step.rows.size
            if listener is not None:
                listener(ImputeStep(int(step.level.max()), 1 - left / total))
        return value

    def walk(
        self,
        series: SeriesSet,
        *,
        draw: Float[np.ndarray, "row dim"] | None = None,
        scale: Float[np.ndarray, "row dim"] | None = None,
    ) -> Iterator[tuple[Step, SeriesSet]]:
        """Carries out the plan: each step, and the series as they are after it.

        The next step changes the series that were yielded: copy what is to be kept. Where `scale`
        is given, the scale of every imputed cell is written into it.
        """
        state = replace(series, value=series.value.copy(), observed=series.observed.copy())
        with closing(Threads.of(self.networks[0].device)) as threads:
            base_predictions = self.predictors.predict(series, threads=threads)
            for step in plan(series, self.schedule):
                answers = self._ask(state, step, base_predictions, draw, threads)
                if scale is not None:
                    _carry(state, scale, step.rows)
                for rows, values, scales in answers:
                    unknown = ~state.observed[rows]
                    state.value[rows] = np.where(unknown, values, state.value[rows])
                    if scale is not None:
                        scale[rows] = np.hypot(scale[rows], np.where(unknown, scales, 0.0))
                state.observed[step.rows] = True
                yield step, state

    def attention(
        self, series: SeriesSet, state: SeriesSet, step: Step, row: int
    ) -> AttentionRecord:
        """What is read to fill `row`, a target of `step`; `state` is what is known before it."""
        context = StepContext.of(
            state, step.rows, step.distance, self.layout, self.predictors.predict(series)
        )
        for network, padded in self._questions(state, step, threads=1):
            for window, target in np.argwhere(padded.target_valid & (padded.target == row)):
                asked = tokens(context, padded, self.layout, self.model)
                return _reading(network, padded, asked, window, target)
        raise InputError(f"row must be a target of the step, got {row}; take one of step.rows")

    def _ask(
        self,
        state: SeriesSet,
        step: Step,
        base_predictions: tuple[BasePrediction, ...],
        draw: np.ndarray | None,
        threads: Threads,
    ) -> list[Answer]:
        """The answers to one step; a list, because nothing is filled in before all are known."""
        context = StepContext.of(state, step.rows, step.distance, self.layout, base_predictions)

        def answer(question: tuple[Network, WindowBatch]) -> Answer:
            network, padded = question
            asked = tokens(context, padded, self.layout, self.model)
            with torch.inference_mode():
                prediction = network(asked.map(lambda t: t.to(network.device)))
            if draw is None:
                values = prediction.mean
            else:
                own = torch.from_numpy(draw[padded.target].astype(np.float32))
                values = prediction.draw(own.to(network.device))
            valid = padded.target_valid
            numbers = (
                t.cpu().numpy()[valid].astype(np.float64) for t in (values, prediction.scale)
            )
            return padded.target[valid], *numbers

        return threads.map(answer, list(self._questions(state, step, threads.count)))

    def _questions(
        self, state: SeriesSet, step: Step, threads: int
    ) -> Iterator[tuple[Network, WindowBatch]]:
        """The windows of a step in batches, and the network that each is put to."""
        parts = windows_of(step, state.start, self.model)
        served = np.minimum(parts.level, len(self.networks) - 1)
        for index, network in enumerate(self.networks):
            own = np.flatnonzero(served == index)
            for padded in parts.batches(self._share(threads), self._window_bytes, own):
                yield network, padded

    def _share(self, threads: int) -> int:
        """Bytes that one core's windows may take."""
        own = self.memory_limit // threads
        return min(own, ENOUGH) if self.networks[0].device.type == "cpu" else own

    def _window_bytes(self, size: Int[np.ndarray, " window"]) -> Int[np.ndarray, " window"]:
        """About what a window of so many rows takes."""
        return window_bytes(size, self.model, self.layout)


def _reading(
    network: Network, padded: WindowBatch, asked: Tokens, window: np.integer, target: np.integer
) -> AttentionRecord:
    with torch.inference_mode():
        blocks = network.attention_weights(asked.map(lambda t: t.to(network.device)))
    weight = torch.stack([block[window, :, target] for block in blocks]).cpu().double().numpy()
    may = network.attention_mask(asked)[window, target].numpy()
    rows = np.concatenate([padded.known[window], padded.target[window]])
    return AttentionRecord(rows[may], weight[..., may])


def _carry(
    state: SeriesSet, scale: Float[np.ndarray, "row dim"], rows: Int[np.ndarray, " target"]
) -> None:
    """Writes into `scale` what cells inherit of the unsureness of those they are between.

    A correction is made to the straight line between two known values, and errors of these move
    the line: half-way, half of each. For a Brownian bridge filled midpoint by midpoint the first
    levels come out exactly.
    """
    left, right = Known.of(state.observed, state.start).around(rows)
    line = between(replace(state, value=scale), state.time[rows], left, right)
    scale[rows] = np.where(state.observed[rows], scale[rows], line)


def _row_bytes(dims: int, base_predictions: int) -> int:
    """About what a row takes while its series are planned and filled."""
    return 64 + 40 * dims * (1 + 2 * base_predictions)


def noise(series: SeriesSet, seed: int, draw: int) -> Float[np.ndarray, "row dim"]:
    """Standard normal numbers for every cell, from a generator of each series' own.

    They depend on the seed, the number of the draw and the series' key; not on the other series.
    """
    parts = [
        np.random.default_rng([seed, draw, *key.encode()]).standard_normal((length, series.dims))
        for key, length in zip(series.keys, series.length, strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, series.dims))


def part_of(listener: Listener | None, done: float, share: float) -> Listener | None:
    """A listener to which a part of the work is the whole."""
    if listener is None:
        return None
    return lambda event: listener(replace(event, fraction=done + share * event.fraction))
