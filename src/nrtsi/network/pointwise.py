"""A network without attention, for data in which the nearest known rows determine a target."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.config import ModelConfig
from nrtsi.network.base import Network
from nrtsi.network.heads import CellDistribution
from nrtsi.network.layers import Perceptron
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.schedule.plan import Step

__all__ = ["PointwiseNetwork"]


class PointwiseNetwork(Network):
    """A perceptron over the neighbour features and base predictions of a target."""

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config, layout)
        width, blocks = config.pointwise_factor * config.width, -(-config.blocks // 2)
        self.layers = Perceptron(layout.channels(config), width, blocks, config.width)
        # The head starts at 0; if this layer did too, no gradient would reach the weights.
        self.layers.project.reset_parameters()
        self._add_head(layout, layout.dims)

    @classmethod
    def known_rows(cls, step: Step) -> tuple[Bool[np.ndarray, " row"], Int[np.ndarray, " target"]]:
        """Returns no known row: windows hold targets only."""
        return np.zeros_like(step.known), step.level

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        feature = self.inputs(tokens)[:, tokens.n_known :]
        valid = tokens.valid[:, tokens.n_known :]
        encoded = self.layers(feature[valid])  # without padding, which may be most of it
        targets = encoded.new_zeros(*valid.shape, self.config.width)
        targets[valid] = encoded
        return self._predict(targets, tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """Returns True for the target itself."""
        own = torch.eye(tokens.valid.shape[1], dtype=torch.bool, device=tokens.valid.device)
        return own[tokens.n_known :] & tokens.valid.unsqueeze(1)

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """Returns weight 1 for the target itself."""
        return [self.attention_mask(tokens).unsqueeze(1).float()]
