"""What is to be corrected at each level, and how wrong it is: in which unit, how often to ask."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nrtsi.model.networks import Network
from nrtsi.training.batches import Batch, Questions

__all__ = ["settle_base", "shares_of"]

WINDOWS = 1024

# Part of the windows that all levels have alike.
ALIKE = 0.2


def settle_base(questions: Questions, network: Network) -> None:
    """Decides what the network is to correct, and in which unit, by level and channel."""
    drawn = questions.draw(0, WINDOWS)
    if drawn is None:
        return
    line = _left(drawn, drawn.tokens.base, network)
    spread = line
    if questions.layout.recall:
        recalled = _left(drawn, drawn.tokens.recalled, network)
        network.recalls.copy_(recalled < line)
        spread = torch.minimum(line, recalled)
    # A channel that interpolation gets exactly right still needs a scale to be wrong on.
    counts = drawn.counts
    middle = (drawn.truth * counts).sum(dim=(0, 1)) / counts.sum(dim=(0, 1)).clamp(min=1)
    deviation = _root_mean((drawn.truth - middle).square() * counts, counts)
    network.spread.copy_(spread.maximum(1e-3 * deviation).clamp(min=1e-9))


def _left(drawn: Batch, base: Tensor, network: Network) -> Float[Tensor, "level dim"]:
    """Root mean square of what `base` leaves over, by level and channel."""
    left = (drawn.truth - base).square() * drawn.counts
    overall = _root_mean(left, drawn.counts)
    spread = torch.ones_like(network.spread)
    for level in range(spread.shape[0]):
        own = drawn.tokens.level == level
        seen = drawn.counts[own].sum(dim=(0, 1)) >= 8
        spread[level] = torch.where(seen, _root_mean(left[own], drawn.counts[own]), overall)
    return spread


def shares_of(spread: Tensor) -> Float[np.ndarray, " level"]:
    """How often each level is asked for: the more, the more interpolation leaves over."""
    left = spread.square().mean(dim=1).sqrt().double().numpy()
    return ALIKE / left.size + (1 - ALIKE) * left / left.sum()


def _root_mean(squares: Tensor, counts: Tensor) -> Tensor:
    return (squares.sum(dim=(0, 1)) / counts.sum(dim=(0, 1)).clamp(min=1)).sqrt()
