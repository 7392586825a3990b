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

    size: Tensor
    """What each channel of a token is divided by: differences may be a thousandth of values."""

    shares: Tensor
    """Share of each hint in what is corrected, the rest being the interpolation; by a cell's
    distance from what is known, and by channel."""

    spread: Tensor
    """What that leaves over, likewise: the unit of the corrections."""

    trust: Tensor
    """Share of each correction that is made, likewise; found after training."""

    wider: Tensor
    """What each scale is multiplied by, likewise."""

    one_size = True
    """Whether its inputs are brought to one size."""

    windows_a_core = 32
    """Windows that are worth a core of their own."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def may_read(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """True where something of the token can reach the target in a single block."""
        raise NotImplementedError

    def reading(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
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
            for name in ("spread", "trust", "wider"):
                self.register_buffer(name, torch.ones(layout.bands, layout.dims))
            if self.one_size:
                self.register_buffer("size", torch.ones(layout.channels(self.config)))
            if layout.hints:
                self.register_buffer(
                    "shares", torch.zeros(layout.bands, layout.hints, layout.dims)
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
        buffers = self.trust, self.wider, self.spread
        trust, wider, spread = (_of_cells(by, tokens.band) for by in buffers)
        return prediction.trusted(trust, wider).moved(self.base(tokens), spread)

    def read(self, tokens: Tokens) -> Float[Tensor, "window set channel"]:
        """What the tokens carry, all channels of a like size."""
        if "size" not in self._buffers:
            return tokens.feature
        return (tokens.feature / self.size).clamp(-FARTHEST, FARTHEST)

    def base(self, tokens: Tokens) -> Float[Tensor, "window target dim"]:
        """What is corrected, where the network predicts corrections."""
        if "shares" not in self._buffers:
            return tokens.base
        line = tokens.base.unsqueeze(2)
        share = _of_cells(self.shares, tokens.band.unsqueeze(2))
        return tokens.base + (share * (tokens.hinted - line)).sum(dim=2)

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
    by: Float[Tensor, "band *hint dim"], band: Int[Tensor, "window target *#hint #dim"]
) -> Float[Tensor, "window target *hint dim"]:
    """What each target has of what is kept by distance and channel."""
    others = torch.meshgrid(
        *(torch.arange(size, device=by.device) for size in by.shape[1:]), indexing="ij"
    )
    return by[(band, *others)]


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
