"""Tokens: the known rows (S) and the target rows (G) of windows as input tensors of a network."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.config import ModelConfig
from nrtsi.core.interpolation import Known, between
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.neighbour_features import NeighbourFeatures
from nrtsi.network.time_encoding import calendar_encoding, time_encoding
from nrtsi.schedule.distances import level_of
from nrtsi.schedule.windows import WindowBatch

__all__ = ["StepContext", "TokenLayout", "Tokens", "tokens"]


@dataclass(frozen=True)
class TokenLayout:
    """Which channels a token has, as far as the data decide; fixed when a model is fitted."""

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
        count = config.time_channels + 2 * len(self.periods) + self.dims + marks
        if config.neighbours:
            count += 2 * self.dims + 2 * marks
        if config.slopes:
            count += 5 * self.dims
        count += 2 * self.base_predictors * self.dims
        return count + 2 * config.relative


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
    """Base predictions at the targets; the interpolation where one is not available."""

    distance_bin: Int[Tensor, "window target #dim"]
    """Level of each target's distance to the known data of its channel, which may differ from the
    window's level if rows are partially observed; plus `TokenLayout.levels` beyond the ends."""

    level: Int[Tensor, " window"]
    """Level of the window's distances, below `TokenLayout.levels`."""

    n_known: int
    """Number of known rows in the set, with padding."""

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of the tensors."""
        return [f.name for f in fields(cls) if f.name != "n_known"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        """Returns a copy with every tensor changed."""
        changed = {name: change(getattr(self, name)) for name in self.names()}
        return Tokens(n_known=self.n_known, **changed)

    def to(self, device: torch.device) -> "Tokens":
        """Returns a copy on `device`."""
        return self.map(lambda tensor: tensor.to(device))

    def resized(
        self,
        n_known: int,
        of_set: Callable[[Tensor], Tensor],
        of_targets: Callable[[Tensor], Tensor],
    ) -> "Tokens":
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
        residuals = tuple(
            replace(series, value=series.value - prediction.mean)
            for prediction in base_predictions
        )
        return cls(series, known, distances, base_predictions, residuals)


def tokens(
    context: StepContext, batch: WindowBatch, layout: TokenLayout, config: ModelConfig
) -> Tokens:
    """Gathers the inputs of a network for a batch of windows."""
    series = context.series
    rows = np.concatenate([batch.known, batch.target], axis=1)
    valid = np.concatenate([batch.known_valid, batch.target_valid], axis=1)
    n_known = batch.known.shape[1]
    unit = _time_unit(context, batch, config)
    time = series.time[rows]
    centre = _centre(series.time[batch.target], batch.target_valid)
    relative_time = (time - centre[:, None]) / unit[:, None]

    cells = _cell_inputs(context, rows, valid, unit, config)
    parts = [
        time_encoding(time, config.time_channels, config.time_scale),
        calendar_encoding(time, layout.periods),
        cells.value,
        layout.mask(series.observed[rows]),
        cells.features,
    ]
    if config.relative:
        log_unit = np.minimum(np.log2(unit), layout.levels - 1)[:, None, None] / 4
        both = np.concatenate([log_unit, np.cos(log_unit)], -1)
        parts.append(np.broadcast_to(both, (*rows.shape, 2)))
    feature = np.concatenate(parts, axis=-1, dtype=np.float32)
    return Tokens(
        feature=torch.from_numpy(feature * valid[..., None]),
        time=torch.from_numpy((relative_time * valid).astype(np.float32)),
        valid=torch.from_numpy(valid),
        interpolation=torch.from_numpy(cells.interpolation[:, n_known:].astype(np.float32)),
        base_predictions=torch.from_numpy(cells.base_predictions[:, n_known:].astype(np.float32)),
        distance_bin=torch.from_numpy(cells.distance_bin(layout.levels)[:, n_known:]),
        level=torch.from_numpy(np.minimum(batch.level, layout.levels - 1)),
        n_known=n_known,
    )


@dataclass(frozen=True)
class _CellInputs:
    """Inputs by cell, for every token."""

    value: Float[np.ndarray, "window set dim"]
    """The known value; the interpolation, or 0, where the cell is missing."""

    features: Float[np.ndarray, "window set feature"]
    """Neighbour features and base predictions."""

    interpolation: Float[np.ndarray, "window set dim"]

    base_predictions: Float[np.ndarray, "window set predictor dim"]
    """Base predictions; the interpolation where one is not available."""

    before: Float[np.ndarray, "window set #dim"]
    """Time since the nearest known value before; ∞ if there is none."""

    after: Float[np.ndarray, "window set #dim"]
    """Time to the nearest known value after; ∞ if there is none."""

    def distance_bin(self, levels: int) -> Int[np.ndarray, "window set #dim"]:
        near, far = np.minimum(self.before, self.after), np.maximum(self.before, self.after)
        return level_of(near, max_level=levels - 1) + levels * np.isinf(far)


def _cell_inputs(
    context: StepContext,
    rows: Int[np.ndarray, "window set"],
    valid: Bool[np.ndarray, "window set"],
    unit: Float[np.ndarray, " window"],
    config: ModelConfig,
) -> _CellInputs:
    series, flat = context.series, rows.reshape(-1)
    predictions = context.base_predictions
    if not (config.neighbours or config.slopes or config.residual or predictions):
        zero = np.zeros((*rows.shape, series.dims))
        none = np.zeros((*rows.shape, 0, series.dims))
        return _CellInputs(
            series.value[rows], zero[..., :0], zero, none, zero[..., :1], zero[..., :1]
        )
    known, time = series.observed[flat], series.time[flat]
    nearest = context.known.around(flat)
    left, right = (np.broadcast_to(rows, known.shape) for rows in nearest)
    interpolation = between(series, time, left, right)
    value = np.where(known, series.value[flat], interpolation if config.residual else 0.0)
    by_token = np.repeat(unit, rows.shape[1])[:, None]
    neighbours = NeighbourFeatures(series, context.known, flat, value, by_token, nearest)
    features = []
    if config.neighbours:
        features.append(neighbours.differences(config.max_neighbour_distance))
    if config.slopes:
        features += [neighbours.slopes(), neighbours.max_slope(valid)]
    base_predictions = np.zeros((flat.size, len(predictions), series.dims))
    for index, (prediction, residual) in enumerate(
        zip(predictions, context.residuals, strict=True)
    ):
        # Shifted so that the prediction passes through the known values.
        shifted = prediction.mean[flat] + between(residual, time, left, right)
        shifted = np.where(prediction.available[flat], shifted, interpolation)
        base_predictions[:, index] = shifted
        difference = np.where(known, residual.value[flat], shifted - value)
        features += [difference, prediction.feature[flat]]
    joined = np.concatenate(features, axis=-1) if features else np.zeros((flat.size, 0))
    return _CellInputs(
        *(
            array.reshape(*rows.shape, *array.shape[1:])
            for array in (value, joined, interpolation, base_predictions, *neighbours.distances())
        )
    )


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


def _centre(
    time: Float[np.ndarray, "window target"], valid: Bool[np.ndarray, "window target"]
) -> Float[np.ndarray, " window"]:
    first = np.where(valid, time, np.inf).min(axis=1)
    last = np.where(valid, time, -np.inf).max(axis=1)
    return (first + last) / 2
