"""What networks share: how they answer, and the layers they are built of."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.model.attention import SetAttention
from nrtsi.model.heads import GaussianHead, PointHead, Prediction
from nrtsi.model.tokens import Layout, Tokens

__all__ = ["Network", "feed_forward", "norm"]


class Network(nn.Module):
    """Answers for the targets of windows; a subclass says how the tokens are encoded.

    Args:
        config: Sizes and inputs.
    """

    recalls: Tensor
    """Share of what is remembered in what is corrected, the rest being the interpolation; by the
    level of a cell's distance from what is known, and by channel."""

    spread: Tensor
    """What that leaves over, likewise: the unit of the corrections."""

    trust: Tensor
    """Share of each correction that is made, likewise; found after training."""

    wider: Tensor
    """What each scale is multiplied by, likewise."""

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

    def _add_head(self, layout: Layout, outputs: int | None) -> None:
        """The last layers: of `outputs` channels a token, or None where a token is a cell."""
        self.norm = norm(self.config)
        head = GaussianHead if self.config.head == "gaussian" else PointHead
        self.head = head(self.config.width, outputs)
        if self.config.residual:
            # The untrained network corrects nothing.
            nn.init.zeros_(self.head.mean.weight)
            nn.init.zeros_(self.head.mean.bias)
            for name in ("spread", "trust", "wider"):
                self.register_buffer(name, torch.ones(layout.levels, layout.dims))
            if layout.recall:
                self.register_buffer("recalls", torch.zeros(layout.levels, layout.dims))

    def _answer(
        self, asked: Float[Tensor, "window target *encoded"], tokens: Tokens
    ) -> Prediction:
        """What the encoded targets say."""
        # What is added to the interpolation is small: in full precision, whatever autocast says.
        with torch.autocast(asked.device.type, enabled=False):
            prediction = self.head(self.norm(asked.to(self.head.mean.weight.dtype)))
        if not self.config.residual:
            return prediction
        buffers = self.trust, self.wider, self.spread
        trust, wider, spread = (_of_cells(by, tokens) for by in buffers)
        return prediction.trusted(trust, wider).moved(self.base(tokens), spread)

    def base(self, tokens: Tokens) -> Float[Tensor, "window target dim"]:
        """What is corrected, where the network predicts corrections."""
        if "recalls" not in self._buffers:
            return tokens.base
        share = _of_cells(self.recalls, tokens)
        return tokens.base + share * (tokens.recalled - tokens.base)

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
    by: Float[Tensor, "level dim"], tokens: Tokens
) -> Float[Tensor, "window target dim"]:
    """What each target has of what is kept by distance and channel."""
    return by[tokens.apart, torch.arange(by.shape[1], device=by.device)]


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
