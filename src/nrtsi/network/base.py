"""What networks share: how they answer, and the layers they are built of."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention
from nrtsi.network.heads import CellDistribution, GaussianHead, PointHead
from nrtsi.network.perceptron import FARTHEST
from nrtsi.network.tokens import TokenLayout, Tokens

__all__ = ["Network", "feed_forward", "norm"]


class Network(nn.Module):
    """Answers for the targets of windows; a subclass says how the tokens are encoded.

    Args:
        config: Sizes and inputs.
    """

    feature_scale: Tensor
    """What each channel of a token is divided by: differences may be a thousandth of values."""

    blend_weights: Tensor
    """Share of each hint in what is corrected, the rest being the interpolation; by a cell's
    distance from what is known, and by channel."""

    correction_scale: Tensor
    """What that leaves over, likewise: the unit of the corrections."""

    shrinkage: Tensor
    """Share of each correction that is made, likewise; found after training."""

    scale_factor: Tensor
    """What each scale is multiplied by, likewise."""

    scales_features = True
    """Whether its inputs are brought to one size."""

    windows_per_core = 32
    """Windows that are worth a core of their own."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """True where something of the token can reach the target in a single block."""
        raise NotImplementedError

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """How much each target reads of each token, for every block in which targets read."""
        raise NotImplementedError

    def _add_head(self, layout: TokenLayout, outputs: int | None) -> None:
        """The last layers: of `outputs` channels a token, or None where a token is a cell."""
        self.norm = norm(self.config)
        head = GaussianHead if self.config.head == "gaussian" else PointHead
        self.head = head(self.config.width, outputs)
        if self.config.residual:
            # The untrained network corrects nothing.
            nn.init.zeros_(self.head.mean.weight)
            nn.init.zeros_(self.head.mean.bias)
            for name in ("correction_scale", "shrinkage", "scale_factor"):
                self.register_buffer(name, torch.ones(layout.distance_bins, layout.dims))
            if self.scales_features:
                self.register_buffer("feature_scale", torch.ones(layout.channels(self.config)))
            if layout.base_predictors:
                self.register_buffer(
                    "blend_weights",
                    torch.zeros(layout.distance_bins, layout.base_predictors, layout.dims),
                )

    def _answer(
        self, asked: Float[Tensor, "window target *encoded"], tokens: Tokens
    ) -> CellDistribution:
        """What the encoded targets say."""
        # What is added to the interpolation is small: in full precision, whatever autocast says.
        with torch.autocast(asked.device.type, enabled=False):
            prediction = self.head(self.norm(asked.to(self.head.mean.weight.dtype)))
        if not self.config.residual:
            return prediction
        buffers = self.shrinkage, self.scale_factor, self.correction_scale
        shrinkage, scale_factor, correction_scale = (
            _of_cells(by, tokens.distance_bin) for by in buffers
        )
        return prediction.shrunk(shrinkage, scale_factor).shifted(
            self.blend(tokens), correction_scale
        )

    def read(self, tokens: Tokens) -> Float[Tensor, "window set channel"]:
        """What the tokens carry, all channels of a like size."""
        if "feature_scale" not in self._buffers:
            return tokens.feature
        return (tokens.feature / self.feature_scale).clamp(-FARTHEST, FARTHEST)

    def blend(self, tokens: Tokens) -> Float[Tensor, "window target dim"]:
        """What is corrected, where the network predicts corrections."""
        if "blend_weights" not in self._buffers:
            return tokens.interpolation
        line = tokens.interpolation.unsqueeze(2)
        share = _of_cells(self.blend_weights, tokens.distance_bin.unsqueeze(2))
        return tokens.interpolation + (share * (tokens.base_predictions - line)).sum(dim=2)

    def _weights(self, readers: nn.Module, tokens: Tokens) -> list[Tensor]:
        """The weights of every plain attention among `readers`, in the order of their use."""
        weights: list[Tensor] = []

        def keep(attention: SetAttention, arguments: tuple[Any, ...]) -> None:
            weights.append(attention.weights(*arguments))

        hooks = [
            module.register_forward_pre_hook(keep)
            for module in readers.modules()
            if isinstance(module, SetAttention)
        ]
        try:
            self(tokens)
        finally:
            for hook in hooks:
                hook.remove()
        return weights


def _of_cells(
    by: Float[Tensor, "distance_bin *hint dim"],
    distance_bin: Int[Tensor, "window target *#hint #dim"],
) -> Float[Tensor, "window target *hint dim"]:
    """What each target has of what is kept by distance and channel."""
    others = torch.meshgrid(
        *(torch.arange(size, device=by.device) for size in by.shape[1:]), indexing="ij"
    )
    return by[(distance_bin, *others)]


def feed_forward(config: ModelConfig) -> nn.Sequential:
    """Two linear layers, token by token."""
    return nn.Sequential(
        nn.Linear(config.width, config.feed_forward),
        nn.GELU() if config.normalise else nn.ReLU(),
        nn.Linear(config.feed_forward, config.width),
    )


def norm(config: ModelConfig) -> nn.Module:
    """Layer norm, where it is wanted."""
    # Layer norm and not RMS norm: a CPU has it as one fused operation, and a step is faster.
    return nn.LayerNorm(config.width, bias=False) if config.normalise else nn.Identity()
