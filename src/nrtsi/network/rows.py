"""The paper's set transformer: one token per row.

With `preset="paper"` it is exactly the network of the paper. The other presets add layer norms,
rotary time differences and neighbour features, and let it correct a blend of base predictions.
"""

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention, additive_mask, attention_mask, rotary_angles
from nrtsi.network.base import Network
from nrtsi.network.heads import CellDistribution
from nrtsi.network.layers import feed_forward, norm
from nrtsi.network.tokens import TokenLayout, Tokens

__all__ = ["RowNetwork"]


class RowNetwork(Network):
    """f_θ of the paper, H = f_out(f_enc(f_in(S ∪ G))) (eq. 3).

    f_in (`embed`) is linear, f_enc a stack of self-attention blocks and f_out (`head`) linear. It
    is equivariant to permutations of the targets G and invariant to those of the known rows S.
    With `encode_targets=False`, S is encoded alone and G cross-attends to it (paper's ablation).
    """

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config, layout)
        self.embed = nn.Linear(layout.channels(config), config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.cross = None if config.encode_targets else Block(config)
        self._add_head(layout, layout.dims)

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        return self._predict(self._encode(self.embed(self.inputs(tokens)), tokens), tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """Returns True for the known tokens and the target itself."""
        return attention_mask(tokens.valid, tokens.n_known)[:, tokens.n_known :]

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """Returns the attention weights of the targets, for every block in which they attend."""
        layers = self.blocks if self.cross is None else self.cross
        targets = tokens.interpolation.shape[1]
        return [each[:, :, -targets:] for each in self._recorded_weights(layers, tokens)]

    def _encode(
        self, encoded: Float[Tensor, "window set width"], tokens: Tokens
    ) -> Float[Tensor, "window target width"]:
        config, n_known = self.config, tokens.n_known
        mask = attention_mask(tokens.valid, n_known).unsqueeze(1)
        bias = additive_mask(mask, encoded.dtype)
        angles = None
        if config.relative:
            angles = rotary_angles(tokens.time, config.head_size // 2, config.rotary_periods)
        if self.cross is None:
            *blocks, last = self.blocks
            for block in blocks:
                encoded = block(encoded, 0, bias, angles)
        else:
            known, last = encoded[:, :n_known], self.cross
            known_angles = None if angles is None else angles[:, :n_known]
            for block in self.blocks:
                known = block(known, 0, bias[:, :, :n_known, :n_known], known_angles)
            encoded = torch.cat([known, encoded[:, n_known:]], dim=1)
        # The last block encodes only the targets; nothing uses the known tokens after it.
        return last(encoded, n_known, bias[:, :, n_known:], angles)


class Block(nn.Module):
    """Self-attention and a feed-forward layer, each with a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SetAttention(config.width, config.heads, config.head_size)
        self.feed_forward = feed_forward(config)
        self.attention_norm = norm(config)
        self.feed_forward_norm = norm(config)

    def forward(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        bias: Float[Tensor, "window 1 query set"],
        angles: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> Float[Tensor, "window query width"]:
        """Encodes the tokens from index `first` on, which attend to all tokens."""
        attended = self.attention(self.attention_norm(tokens), first, bias, angles)
        encoded = tokens[:, first:] + attended
        return encoded + self.feed_forward(self.feed_forward_norm(encoded))
