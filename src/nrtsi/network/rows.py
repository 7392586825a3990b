"""The paper's network, one token a row, with the changes that make a small one learn fast."""

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention, attention_bias, attention_mask, turns
from nrtsi.network.base import Network, feed_forward, norm
from nrtsi.network.heads import CellDistribution
from nrtsi.network.tokens import TokenLayout, Tokens

__all__ = ["RowNetwork"]


class RowNetwork(Network):
    """f_in, an encoder of self-attention blocks, f_out.

    Args:
        config: Sizes and inputs.
        layout: What the tokens carry.
    """

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config)
        self.embed = nn.Linear(layout.channels(config), config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.cross = None if config.encode_targets else Block(config)
        self._add_head(layout, layout.dims)

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        return self._answer(self._encode(self.embed(self.read(tokens)), tokens), tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """True where the target may read the token."""
        return attention_mask(tokens.valid, tokens.n_known)[:, tokens.n_known :]

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """How much each target reads of each token, for every block in which targets read."""
        weights = self._weights(self.blocks if self.cross is None else self.cross, tokens)
        targets = tokens.interpolation.shape[1]
        return [each[:, :, -targets:] for each in weights]

    def _encode(
        self,
        encoded: Float[Tensor, "window set width"],
        tokens: Tokens,
    ) -> Float[Tensor, "window target width"]:
        obs = tokens.n_known
        bias = attention_bias(tokens.valid, obs, encoded.dtype)
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
        self.feed_forward = feed_forward(config)
        self.before_attention = norm(config)
        self.before_feed_forward = norm(config)

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
