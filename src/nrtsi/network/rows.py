"""The paper's set transformer: one token per row. Only `preset="paper"` is exactly the paper's."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import Block, TokenSet, additive_mask, angles_of, attention_mask
from nrtsi.network.base import Network
from nrtsi.network.heads import CellDistribution
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

    def _encode(self, encoded: TokenSet, tokens: Tokens) -> Float[Tensor, "window target width"]:
        n_known, angles = tokens.n_known, angles_of(tokens.time, self.config)
        mask = attention_mask(tokens.valid, n_known).unsqueeze(1)
        bias = additive_mask(mask, encoded.dtype)
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
