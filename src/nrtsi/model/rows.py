"""The paper's network, one token a row, with the changes that make a small one learn fast."""

from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.model.attention import SetAttention, reading_bias, turns
from nrtsi.model.heads import GaussianHead, PointHead, Prediction
from nrtsi.model.tokens import Layout, Tokens

__all__ = ["RowNetwork"]


class RowNetwork(nn.Module):
    """f_in, an encoder of self-attention blocks, f_out.

    Args:
        config: Sizes and inputs.
        layout: What the tokens carry.
    """

    spread: Tensor

    def __init__(self, config: ModelConfig, layout: Layout) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(layout.channels(config), config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.cross = None if config.encode_targets else Block(config)
        self.norm = _norm(config)
        head = GaussianHead if config.head == "gaussian" else PointHead
        self.head = head(config.width, layout.dims)
        if config.residual:
            # The untrained network is linear interpolation.
            nn.init.zeros_(self.head.mean.weight)
            nn.init.zeros_(self.head.mean.bias)
            self.register_buffer("spread", torch.ones(layout.levels, layout.dims))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.enter.weight.device

    def forward(self, tokens: Tokens) -> Prediction:
        """Predicts the targets of every window."""
        asked = self._encode(self.enter(tokens.feature), tokens)
        # What is added to the interpolation is small: in full precision, whatever autocast says.
        with torch.autocast(asked.device.type, enabled=False):
            prediction = self.head(self.norm(asked.to(self.enter.weight.dtype)))
        if not self.config.residual:
            return prediction
        return prediction.moved(tokens.base, self.spread[tokens.level].unsqueeze(1))

    def reading(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """How much each target reads of each token, for every block in which targets read."""
        readers = self.blocks if self.cross is None else self.cross
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
        targets = tokens.base.shape[1]
        return [each[:, :, -targets:] for each in weights]

    def _encode(
        self,
        encoded: Float[Tensor, "window set width"],
        tokens: Tokens,
    ) -> Float[Tensor, "window target width"]:
        obs = tokens.obs
        bias = reading_bias(tokens.valid, obs, encoded.dtype)
        turn = turns(tokens.time, self.config.head_size // 2) if self.config.relative else None
        if self.cross is None:
            *blocks, last = self.blocks
            for block in blocks:
                encoded = block(encoded, 0, bias, turn)
        else:
            known, last = encoded[:, :obs], self.cross
            known_turn = None if turn is None else turn[:, :obs]
            for block in self.blocks:
                known = block(known, 0, bias[:, :, :obs, :obs], known_turn)
            encoded = torch.cat([known, encoded[:, obs:]], dim=1)
        # What the last block would say of the known tokens nobody reads.
        return last(encoded, obs, bias[:, :, obs:], turn)


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what it read."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SetAttention(config.width, config.heads, config.head_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.width, config.feed_forward),
            nn.GELU() if config.normalise else nn.ReLU(),
            nn.Linear(config.feed_forward, config.width),
        )
        self.before_attention = _norm(config)
        self.before_feed_forward = _norm(config)

    def forward(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        bias: Float[Tensor, "window 1 asking set"],
        turn: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> Float[Tensor, "window asking width"]:
        """Lets the tokens from `first` on read all that `bias` lets them."""
        read = self.attention(self.before_attention(tokens), first, bias, turn)
        asking = tokens[:, first:] + read
        return asking + self.feed_forward(self.before_feed_forward(asking))


def _norm(config: ModelConfig) -> nn.Module:
    # Layer norm and not RMS norm: a CPU has it as one fused operation, and a step is faster.
    return nn.LayerNorm(config.width, bias=False) if config.normalise else nn.Identity()
