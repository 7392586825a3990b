"""What a network reads: known rows and targets of many windows as tensors."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

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

__all__ = ["TokenLayout", "StepContext", "Tokens", "tokens"]


@dataclass(frozen=True)
class TokenLayout:
    """What tokens carry, apart from the sizes of the network: fixed when a model is fitted."""

    dims: int
    """Channels of the data."""

    partial: bool
    """Rows may be partly observed: the token says which channels are known, not just whether."""

    periods: tuple[float, ...] = ()
    """Cycles of the calendar, in units."""

    levels: int = 5
    """Levels that are learnt from; coarser distances count as the coarsest."""

    base_predictors: int = 0
    """How many base_predictions tokens carry, such as what is remembered of series like theirs."""

    @property
    def distance_bins(self) -> int:
        """Kinds of targets by their distance from what is known, on both sides or on one."""
        return 2 * self.levels

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"periods": list(self.periods)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "TokenLayout":
        """The layout that `to_dict` described."""
        return cls(**dict(record) | {"periods": tuple(record["periods"])})

    def seen(self, known: Bool[np.ndarray, "row dim"]) -> Bool[np.ndarray, "row mark"]:
        """What tells the known cells: one channel where rows are all or nothing."""
        return known if self.partial else known[:, :1]

    def channels(self, config: ModelConfig) -> int:
        """Channels of a token before the first layer."""
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
    """What the first layer reads."""

    time: Float[Tensor, "window set"]
    """Time from the middle of the window's targets, in units of their widest distance."""

    valid: Bool[Tensor, "window set"]
    """False where the window is padded."""

    interpolation: Float[Tensor, "window target dim"]
    """Linear interpolation at the targets."""

    base_predictions: Float[Tensor, "window target hint dim"]
    """What each hint says of them; the interpolation where it says nothing."""

    distance_bin: Int[Tensor, "window target #dim"]
    """Level of each target's own distance from what is known of its channel, which may be another
    than the window's where rows are partly known; `TokenLayout.levels` higher beyond the ends."""

    level: Int[Tensor, " window"]
    """Level of the window's distances, counted from 0 and below `TokenLayout.levels`."""

    n_known: int
    """How many of the set are known rows."""

    @classmethod
    def names(cls) -> list[str]:
        """Names of the tensors."""
        return [f.name for f in fields(cls) if f.name != "n_known"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        """The same with every tensor changed."""
        return self._changed(self.n_known, change, change, change)

    def resized(
        self, obs: int, of_set: Callable[[Tensor], Tensor], of_targets: Callable[[Tensor], Tensor]
    ) -> "Tokens":
        """The same with `obs` known rows, once the tensors of the set and the targets are so."""
        return self._changed(obs, of_set, of_targets, lambda tensor: tensor)

    def _changed(self, obs: int, *changes: Callable[[Tensor], Tensor]) -> "Tokens":
        of_set, of_targets, of_window = changes
        changed = {
            **{name: of_set(getattr(self, name)) for name in ("feature", "time", "valid")},
            **{
                name: of_targets(getattr(self, name))
                for name in ("interpolation", "base_predictions", "distance_bin")
            },
            "level": of_window(self.level),
        }
        return Tokens(n_known=obs, **changed)


@dataclass(frozen=True)
class StepContext:
    """What is known before a step, and how far each target is from it."""

    series: SeriesSet
    known: Known
    distance: Float[np.ndarray, " row"]
    """Gaps of the targets; nothing where a row is none."""

    base_predictions: tuple[BasePrediction, ...] = ()
    """What is said of every cell without a network."""

    off: tuple[SeriesSet, ...] = ()
    """How far what is known is from each hint."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        rows: Int[np.ndarray, " target"],
        distance: Float[np.ndarray, " target"],
        layout: TokenLayout,
        base_predictions: tuple[BasePrediction, ...] = (),
    ) -> "StepContext":
        """Looks once for all that the windows of a step ask for."""
        distances = np.zeros(series.rows)
        distances[rows] = distance
        known = Known.of(layout.seen(series.observed), series.start)
        assert len(base_predictions) == layout.base_predictors, (
            "a layout with base_predictions needs them"
        )
        off = tuple(replace(series, value=series.value - hint.mean) for hint in base_predictions)
        return cls(series, known, distances, base_predictions, off)


def tokens(
    context: StepContext, padded: WindowBatch, layout: TokenLayout, config: ModelConfig
) -> Tokens:
    """Turns row numbers into what the network reads."""
    series = context.series
    rows = np.concatenate([padded.known, padded.target], axis=1)
    valid = np.concatenate([padded.known_valid, padded.target_valid], axis=1)
    obs = padded.known.shape[1]
    scale = _widest(context, padded, config)
    time = series.time[rows]
    middle = _middle(series.time[padded.target], padded.target_valid)
    offset = (time - middle[:, None]) / scale[:, None]

    said = _said(context, rows, valid, scale, config)
    known = series.observed[rows]
    parts = [
        time_encoding(time, config.time_channels, config.time_scale),
        calendar_encoding(time, layout.periods),
        said.value,
        known if layout.partial else known[..., :1],
        said.near,
    ]
    if config.relative:
        width = np.minimum(np.log2(scale), layout.levels - 1)[:, None, None] / 4
        parts.append(np.broadcast_to(np.concatenate([width, np.cos(width)], -1), (*rows.shape, 2)))
    feature = np.concatenate(parts, axis=-1, dtype=np.float32)
    return Tokens(
        feature=torch.from_numpy(feature * valid[..., None]),
        time=torch.from_numpy((offset * valid).astype(np.float32)),
        valid=torch.from_numpy(valid),
        interpolation=torch.from_numpy(said.base[:, obs:].astype(np.float32)),
        base_predictions=torch.from_numpy(said.base_predictions[:, obs:].astype(np.float32)),
        distance_bin=torch.from_numpy(said.distance_bin(layout.levels)[:, obs:]),
        level=torch.from_numpy(np.minimum(padded.level, layout.levels - 1)),
        n_known=obs,
    )


@dataclass(frozen=True)
class _Said:
    """What is known, or can be said without a network, of every token."""

    value: Float[np.ndarray, "window set dim"]
    """What is known of it, or the interpolation."""

    near: Float[np.ndarray, "window set feature"]
    """What is around it, and what the base_predictions say of it."""

    base: Float[np.ndarray, "window set dim"]
    """Interpolation."""

    base_predictions: Float[np.ndarray, "window set hint dim"]
    """What each hint says; the interpolation where it says nothing."""

    before: Float[np.ndarray, "window set #dim"]
    """Time to the nearest that is known before it; infinite where nothing is."""

    after: Float[np.ndarray, "window set #dim"]
    """The same behind it."""

    def distance_bin(self, levels: int) -> Int[np.ndarray, "window set #dim"]:
        """Level of the distance, by sides."""
        near, far = np.minimum(self.before, self.after), np.maximum(self.before, self.after)
        return level_of(near, max_level=levels - 1) + levels * np.isinf(far)


def _said(
    context: StepContext,
    rows: Int[np.ndarray, "window set"],
    valid: Bool[np.ndarray, "window set"],
    scale: Float[np.ndarray, " window"],
    config: ModelConfig,
) -> _Said:
    series, flat = context.series, rows.reshape(-1)
    shape = (*rows.shape, series.dims)
    known = series.observed[flat]
    if not (config.neighbours or config.slopes or config.residual or context.base_predictions):
        nothing, zero = np.zeros((*rows.shape, 0)), np.zeros(shape)
        none, here = np.zeros((*rows.shape, 0, series.dims)), zero[..., :1]
        return _Said(series.value[flat].reshape(shape), nothing, zero, none, here, here)
    # Where rows are all or nothing one channel's neighbours are everybody's.
    left, right = context.known.around(flat)
    wide_left, wide_right = (np.broadcast_to(n, known.shape) for n in (left, right))
    base = between(series, series.time[flat], wide_left, wide_right)
    value = np.where(known, series.value[flat], base if config.residual else 0.0)
    unit = np.repeat(scale, rows.shape[1])[:, None]
    around = NeighbourFeatures(series, context.known, flat, value, unit, (left, right))
    near = [around.steps()] if config.neighbours else []
    if config.slopes:
        near += [around.slopes(), around.steepest(valid)]
    base_predictions = np.zeros((flat.size, len(context.base_predictions), series.dims))
    for index, (hint, off) in enumerate(zip(context.base_predictions, context.off, strict=True)):
        # Moved so that it passes through what is known by now, be it filled in.
        moved = between(off, series.time[flat], wide_left, wide_right)
        base_predictions[:, index] = np.where(hint.available[flat], hint.mean[flat] + moved, base)
        gained = np.where(known, off.value[flat], base_predictions[:, index] - value)
        near += [gained, hint.feature[flat]]
    return _Said(
        value.reshape(shape),
        _joined(near, rows.shape),
        base.reshape(shape),
        base_predictions.reshape(*rows.shape, len(context.base_predictions), series.dims),
        *(each.reshape(*rows.shape, -1) for each in around.distances()),
    )


def _joined(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    joined = np.concatenate(parts, axis=-1) if parts else np.zeros((np.prod(shape), 0))
    return joined.reshape(*shape, -1)


def _widest(
    context: StepContext, padded: WindowBatch, config: ModelConfig
) -> Float[np.ndarray, " window"]:
    """The widest distance among a window's targets; 1 where nothing is known or all is near."""
    counts = padded.target_valid
    if config.network == "cells":
        # Cells are where their row is: one that is partly known is at no distance from itself.
        counts = counts & ~context.series.observed[padded.target].any(axis=-1)
    widest = np.where(counts, context.distance[padded.target], 0.0).max(axis=1)
    return np.where(np.isfinite(widest) & (widest > 0), widest, 1.0)


def _middle(
    time: Float[np.ndarray, "window target"], valid: Bool[np.ndarray, "window target"]
) -> Float[np.ndarray, " window"]:
    low = np.where(valid, time, np.inf).min(axis=1)
    high = np.where(valid, time, -np.inf).max(axis=1)
    return (low + high) / 2
