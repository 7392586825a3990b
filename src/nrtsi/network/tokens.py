"""Tokens: the known rows (S) and the target rows (G) of windows as input tensors of a network."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from nrtsi.config import ModelConfig
from nrtsi.core.interpolation import Known, between
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.features import NeighbourFeatures, calendar_encoding, time_encoding
from nrtsi.schedule.distances import level_of
from nrtsi.schedule.windows import WindowBatch

__all__ = ["StepContext", "TokenLayout", "Tokens", "tokens"]

Change: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class TokenLayout:
    """The channels of tokens that depend on the data; fixed when a model is fitted."""

    dims: int
    """Channels of the data."""
    partial: bool
    """Rows may be partially observed: a token has a mask of every channel, not a single flag."""
    periods: tuple[float, ...] = ()
    """Calendar periods, in units of time."""
    levels: int = 5
    """Levels in training; coarser distances count as the coarsest level."""
    base_predictors: int = 0
    """Number of base predictors, whose predictions are inputs."""

    @property
    def distance_bins(self) -> int:
        """Bins of the distance to known data: by level, and by known data on one or both sides."""
        return 2 * self.levels

    def mask(self, observed: Bool[np.ndarray, "*shape dim"]) -> Bool[np.ndarray, "*shape mark"]:
        """Returns the observation mask that tokens carry: m of the paper, or its flag 0/1."""
        return observed if self.partial else observed[..., :1]

    def channels(self, config: ModelConfig) -> int:
        """Returns the input channels of a token: τ + d + 1 in the paper."""
        marks = self.dims if self.partial else 1
        of_row = config.time_channels + 2 * len(self.periods) + 2 * config.relative
        of_cells = 1 + 2 * config.neighbours + 5 * config.slopes + 2 * self.base_predictors
        return of_row + of_cells * self.dims + (1 + 2 * config.neighbours) * marks


@dataclass(frozen=True)
class Tokens:
    """Windows as tensors: in each, the known rows (S) first and then the targets (G)."""

    feature: Float[Tensor, "window set channel"]
    """Input of the first layer: [φ(t), x, 1] or [φ(t), 0, 0] in the paper (eq. 2)."""
    time: Float[Tensor, "window set"]
    """Time relative to the centre of the window's targets, in units of their largest distance."""
    valid: Bool[Tensor, "window set"]
    """False for padding."""
    interpolation: Float[Tensor, "window target dim"]
    """Linear interpolation at the targets."""
    base_predictions: Float[Tensor, "window target predictor dim"]
    """Base predictions at the targets; the interpolation if one is not available."""
    distance_bin: Int[Tensor, "window target #dim"]
    """Level of the distance to known data of the channel, plus `levels` beyond their ends."""
    level: Int[Tensor, " window"]
    """Level of the window's distances, below `TokenLayout.levels`."""
    n_known: int
    """Number of known rows in the set, with padding."""

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of the tensors."""
        return [f.name for f in fields(cls) if f.name != "n_known"]

    def map(self, change: Change) -> "Tokens":
        """Returns a copy with every tensor changed."""
        changed = {name: change(getattr(self, name)) for name in self.names()}
        return Tokens(n_known=self.n_known, **changed)

    def to(self, device: torch.device) -> "Tokens":
        """Returns a copy on `device`."""
        return self.map(lambda tensor: tensor.to(device))

    def resized(self, n_known: int, of_set: Change, of_targets: Change) -> "Tokens":
        """Returns a copy with `n_known` known rows, and its tensors changed accordingly."""
        return Tokens(
            feature=of_set(self.feature),
            time=of_set(self.time),
            valid=of_set(self.valid),
            interpolation=of_targets(self.interpolation),
            base_predictions=of_targets(self.base_predictions),
            distance_bin=of_targets(self.distance_bin),
            level=self.level,
            n_known=n_known,
        )


@dataclass(frozen=True)
class StepContext:
    """The known data before a step, and the distances of the step's targets."""

    series: SeriesSet
    known: Known
    distance: Float[np.ndarray, " row"]
    """Distances of the targets; 0 for other rows."""
    base_predictions: tuple[BasePrediction, ...] = ()
    """Base predictions of every cell."""
    residuals: tuple[SeriesSet, ...] = ()
    """Known values minus each base prediction."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        rows: Int[np.ndarray, " target"],
        distance: Float[np.ndarray, " target"],
        layout: TokenLayout,
        base_predictions: tuple[BasePrediction, ...] = (),
    ) -> "StepContext":
        """Computes once what all windows of a step need."""
        assert len(base_predictions) == layout.base_predictors, "the layout has another number"
        distances = np.zeros(series.rows)
        distances[rows] = distance
        known = Known.of(layout.mask(series.observed), series.start)
        residuals = (replace(series, value=series.value - p.mean) for p in base_predictions)
        return cls(series, known, distances, base_predictions, tuple(residuals))


def tokens(
    context: StepContext, batch: WindowBatch, layout: TokenLayout, config: ModelConfig
) -> Tokens:
    """Gathers the inputs of a network for a batch of windows."""
    series = context.series
    rows = np.concatenate([batch.known, batch.target], axis=1)
    valid = np.concatenate([batch.known_valid, batch.target_valid], axis=1)
    unit, time = _time_unit(context, batch, config), series.time[rows]
    first = np.where(batch.target_valid, series.time[batch.target], np.inf).min(axis=1)
    last = np.where(batch.target_valid, series.time[batch.target], -np.inf).max(axis=1)
    relative_time = (time - ((first + last) / 2)[:, None]) / unit[:, None]

    value, features, *by_target = _cell_inputs(context, rows, valid, unit, layout, config)
    parts = [
        time_encoding(time, config.time_channels, config.time_scale),
        calendar_encoding(time, layout.periods),
        value,
        layout.mask(series.observed[rows]),
        features,
    ]
    if config.relative:
        log_unit = np.minimum(np.log2(unit), layout.levels - 1)[:, None, None] / 4
        both = np.concatenate([log_unit, np.cos(log_unit)], -1)
        parts.append(np.broadcast_to(both, (*rows.shape, 2)))
    feature = np.concatenate(parts, axis=-1, dtype=np.float32)
    n_known = batch.known.shape[1]
    interpolation, base_predictions, distance_bin = (each[:, n_known:] for each in by_target)
    return Tokens(
        feature=torch.from_numpy(feature * valid[..., None]),
        time=torch.from_numpy((relative_time * valid).astype(np.float32)),
        valid=torch.from_numpy(valid),
        interpolation=torch.from_numpy(interpolation.astype(np.float32)),
        base_predictions=torch.from_numpy(base_predictions.astype(np.float32)),
        distance_bin=torch.from_numpy(distance_bin),
        level=torch.from_numpy(np.minimum(batch.level, layout.levels - 1)),
        n_known=n_known,
    )


def _cell_inputs(
    context: StepContext,
    rows: Int[np.ndarray, "window set"],
    valid: Bool[np.ndarray, "window set"],
    unit: Float[np.ndarray, " window"],
    layout: TokenLayout,
    config: ModelConfig,
) -> list[Shaped[np.ndarray, "window set ..."]]:
    """Returns values, features, interpolation, base predictions and distance bins by token.

    The value of a missing cell is its interpolation, or 0 if the network predicts values.
    """
    series, flat = context.series, rows.reshape(-1)
    predictions = context.base_predictions
    if not (config.neighbours or config.slopes or config.residual or predictions):
        zero, no_bin = np.zeros((*rows.shape, series.dims)), np.zeros((*rows.shape, 1), np.int64)
        no_predictions = np.zeros((*rows.shape, 0, series.dims))
        return [series.value[rows], zero[..., :0], zero, no_predictions, no_bin]
    known, time = series.observed[flat], series.time[flat]
    nearest = context.known.around(flat)
    left, right = (np.broadcast_to(rows, known.shape) for rows in nearest)
    interpolation = between(series, time, left, right)
    value = np.where(known, series.value[flat], interpolation if config.residual else 0.0)
    by_token = np.repeat(unit, rows.shape[1])[:, None]
    neighbours = NeighbourFeatures(series, context.known, flat, value, by_token, nearest)
    features = [np.zeros((flat.size, 0))]
    if config.neighbours:
        features.append(neighbours.differences(config.max_neighbour_distance))
    if config.slopes:
        features += [neighbours.slopes(), neighbours.max_slope(valid)]
    base_predictions = np.zeros((flat.size, len(predictions), series.dims))
    for index, prediction in enumerate(predictions):
        residual = context.residuals[index]
        # Shifted so that the prediction passes through the known values.
        shifted = prediction.mean[flat] + between(residual, time, left, right)
        shifted = np.where(prediction.available[flat], shifted, interpolation)
        base_predictions[:, index] = shifted
        difference = np.where(known, residual.value[flat], shifted - value)
        features += [difference, prediction.feature[flat]]
    near, far = np.sort(neighbours.distances(), axis=0)
    distance_bin = level_of(near, max_level=layout.levels - 1) + layout.levels * np.isinf(far)
    arrays = (
        value,
        np.concatenate(features, axis=-1),
        interpolation,
        base_predictions,
        distance_bin,
    )
    return [array.reshape(*rows.shape, *array.shape[1:]) for array in arrays]


def _time_unit(
    context: StepContext, batch: WindowBatch, config: ModelConfig
) -> Float[np.ndarray, " window"]:
    """Returns the largest distance of a window's targets; 1 if none is finite and positive."""
    counts = batch.target_valid
    if config.cell_tokens:
        # A partially observed row is itself a known row, at distance 0.
        counts = counts & ~context.series.observed[batch.target].any(axis=-1)
    largest = np.where(counts, context.distance[batch.target], 0.0).max(axis=1)
    return np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
