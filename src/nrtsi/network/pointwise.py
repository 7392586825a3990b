"""The network for rows that go on by themselves: what is next to a target says it all."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nrtsi.config import ModelConfig
from nrtsi.network.base import Network
from nrtsi.network.heads import CellDistribution
from nrtsi.network.perceptron import Perceptron
from nrtsi.network.tokens import TokenLayout, Tokens

__all__ = ["PointwiseNetwork"]

# Without attention there is room for scale_factor layers.
WIDER = 3


class PointwiseNetwork(Network):
    """Reads the token of a target alone: its neighbours, and the hints about it.

    Where a row decides the next, rows behind the nearest known ones add nothing to them.

    Args:
        config: Sizes and inputs.
        layout: What the tokens carry.
    """

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config)
        width, blocks = WIDER * config.width, -(-config.blocks // 2)
        self.layers = Perceptron(layout.channels(config), width, blocks, config.width)
        # The head starts with nothing: were this 0 as well, nothing would ever be learnt.
        self.layers.project.reset_parameters()
        self._add_head(layout, layout.dims)

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        feature, valid = (each[:, tokens.n_known :] for each in (self.read(tokens), tokens.valid))
        # Without padding, which may be most of it.
        answers = self.layers(feature[valid])
        said = answers.new_zeros(*valid.shape, self.config.width)
        said[valid] = answers
        return self._answer(said, tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """True for the target itself."""
        targets = tokens.interpolation.shape[1]
        own = torch.eye(tokens.n_known + targets, dtype=torch.bool, device=tokens.valid.device)[
            tokens.n_known :
        ]
        return own & tokens.valid.unsqueeze(1)

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """All of it is read of the target itself."""
        return [self.attention_mask(tokens).unsqueeze(1).float()]
