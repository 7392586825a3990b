"""`Network`: the base class of all networks, with the blend, the shrinkage and the head."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention
from nrtsi.network.heads import HEADS, CellDistribution
from nrtsi.network.layers import norm
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.schedule.plan import Step
from nrtsi.schedule.windows import Windows, windows

__all__ = ["Network"]

Starts: TypeAlias = Int[np.ndarray, " bound"]
TargetMask: TypeAlias = Bool[np.ndarray, " target"]


class Network(nn.Module, ABC):
    """Predicts the targets of windows; a subclass encodes the tokens.

    With `config.residual` the prediction of a cell is `blend + correction_scale × shrinkage × h`:
    h is the output of the head, the blend a weighted mean of linear interpolation and the base
    predictions. The buffers have one entry per distance bin and channel.
    """

    feature_scale: Tensor
    """Root mean square of each input channel, by which it is divided."""
    blend_weights: Tensor
    """Weight of each base prediction in the blend; the rest is the weight of interpolation."""
    correction_scale: Tensor
    """Root mean squared error of the blend: the unit of the corrections."""
    shrinkage: Tensor
    """Factor of the corrections, fitted after training."""
    scale_factor: Tensor
    """Factor of the predicted std, fitted after training."""
    scales_features: ClassVar[bool] = True
    """Whether the input channels are divided by their root mean square."""
    windows_per_core: ClassVar[int] = 32
    """Windows of a training step from which another core makes the step faster."""

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""

    @abstractmethod
    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """Returns True if the target attends to the token in a single block."""

    @abstractmethod
    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """Returns the attention weights of the targets, for every block in which they attend."""

    @classmethod
    def windows(
        cls, step: Step, start: Starts, config: ModelConfig, chosen: TargetMask | None = None
    ) -> Windows:
        """Divides the targets of a step, or the chosen ones, among windows of known rows."""
        (known, level), rows = cls.known_rows(step), step.rows
        if chosen is not None:
            rows, level = rows[chosen], level[chosen]
        return windows(np.flatnonzero(known), rows, level, start, config.window_rows)

    @classmethod
    def known_rows(cls, step: Step) -> tuple[Bool[np.ndarray, " row"], Int[np.ndarray, " target"]]:
        """Returns the mask of the rows that windows may hold as known, and the targets' levels."""
        return step.sources, step.level

    @classmethod
    def window_bytes(
        cls, size: Int[np.ndarray, " window"], config: ModelConfig, layout: TokenLayout
    ) -> Int[np.ndarray, " window"]:
        """Estimates the memory of a window of `size` rows, its inputs and activations."""
        return size * 4 * (token_floats(config) + row_floats(config, layout)) + 12 * size**2

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def _add_head(self, layout: TokenLayout, outputs: int | None) -> None:
        """Adds the head of `outputs` values per token, None if a token is a cell, and buffers."""
        self.norm = norm(self.config)
        self.head = HEADS[self.config.head](self.config, outputs)
        if not self.config.residual:
            return
        # The correction of an untrained network is 0.
        for parameter in self.head.mean.parameters():
            nn.init.zeros_(parameter)
        bins, dims, predictors = layout.distance_bins, layout.dims, layout.base_predictors
        for name in ("correction_scale", "shrinkage", "scale_factor"):
            self.register_buffer(name, torch.ones(bins, dims))
        if self.scales_features:
            self.register_buffer("feature_scale", torch.ones(layout.channels(self.config)))
        if predictors:
            self.register_buffer("blend_weights", torch.zeros(bins, predictors, dims))

    def _predict(
        self, targets: Float[Tensor, "window target *encoded"], tokens: Tokens
    ) -> CellDistribution:
        """Applies the head to the encoded targets and corrects the blend."""
        # In full precision even under autocast, because corrections are small.
        with torch.autocast(targets.device.type, enabled=False):
            prediction = self.head(self.norm(targets.to(self.head.mean.weight.dtype)))
        if not self.config.residual:
            return prediction
        shrinkage, scale_factor, correction_scale = (
            _by_cell(buffer, tokens.distance_bin)
            for buffer in (self.shrinkage, self.scale_factor, self.correction_scale)
        )
        shrunk = prediction.shrunk(shrinkage, scale_factor)
        return shrunk.shifted(self.blend(tokens), correction_scale)

    def inputs(self, tokens: Tokens) -> Float[Tensor, "window set channel"]:
        """Returns the features of the tokens, scaled and clipped."""
        if "feature_scale" not in self._buffers:
            return tokens.feature
        clip = self.config.input_clip
        return (tokens.feature / self.feature_scale).clamp(-clip, clip)

    def blend(self, tokens: Tokens) -> Float[Tensor, "window target dim"]:
        """Returns the weighted mean of interpolation and base predictions."""
        if "blend_weights" not in self._buffers:
            return tokens.interpolation
        weights = _by_cell(self.blend_weights, tokens.distance_bin.unsqueeze(2))
        difference = tokens.base_predictions - tokens.interpolation.unsqueeze(2)
        return tokens.interpolation + (weights * difference).sum(dim=2)

    def _recorded_weights(self, layers: nn.Module, tokens: Tokens) -> list[Tensor]:
        """Returns the weights of every `SetAttention` in `layers`, in the order of the calls."""
        weights: list[Tensor] = []

        def record(attention: SetAttention, arguments: tuple[Any, ...]) -> None:
            weights.append(attention.weights(*arguments))

        with ExitStack() as hooks:
            for module in layers.modules():
                if isinstance(module, SetAttention):
                    hooks.enter_context(module.register_forward_pre_hook(record))
            self(tokens)
        return weights


def token_floats(config: ModelConfig) -> int:
    """Estimates the activations of a token inside a network."""
    return 6 * config.width + 2 * config.feed_forward + 8 * config.heads * config.head_size


def row_floats(config: ModelConfig, layout: TokenLayout) -> int:
    """Estimates the inputs of a row while they are gathered."""
    return 4 * layout.channels(config) + 24 * layout.dims


def _by_cell(
    buffer: Float[Tensor, "distance_bin *predictor dim"],
    distance_bin: Int[Tensor, "window target *#predictor #dim"],
) -> Float[Tensor, "window target *predictor dim"]:
    """Looks up the entry of each target's distance bin and channel."""
    sizes = (torch.arange(size, device=buffer.device) for size in buffer.shape[1:])
    return buffer[(distance_bin, *torch.meshgrid(*sizes, indexing="ij"))]
