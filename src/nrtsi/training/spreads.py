"""How wrong interpolation is at each level: the unit of corrections, and where to learn most."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nrtsi.training.batches import Questions

__all__ = ["shares_of", "spread_of"]

WINDOWS = 1024

# Part of the windows that all levels have alike.
ALIKE = 0.2


def spread_of(questions: Questions, like: Tensor) -> Tensor:
    """Root mean square of what interpolation leaves over, by level and channel."""
    drawn = questions.draw(0, WINDOWS)
    spread = torch.ones_like(like)
    if drawn is None:
        return spread
    left = (drawn.truth - drawn.tokens.base).square() * drawn.counts
    overall = _root_mean(left, drawn.counts)
    for level in range(like.shape[0]):
        own = drawn.tokens.level == level
        seen = drawn.counts[own].sum(dim=(0, 1)) >= 8
        spread[level] = torch.where(seen, _root_mean(left[own], drawn.counts[own]), overall)
    # A channel that interpolation gets exactly right still needs a scale to be wrong on.
    counts = drawn.counts
    middle = (drawn.truth * counts).sum(dim=(0, 1)) / counts.sum(dim=(0, 1)).clamp(min=1)
    deviation = _root_mean((drawn.truth - middle).square() * counts, counts)
    return spread.maximum(1e-3 * deviation).clamp(min=1e-9)


def shares_of(spread: Tensor) -> Float[np.ndarray, " level"]:
    """How often each level is asked for: the more, the more interpolation leaves over."""
    left = spread.square().mean(dim=1).sqrt().double().numpy()
    return ALIKE / left.size + (1 - ALIKE) * left / left.sum()


def _root_mean(squares: Tensor, counts: Tensor) -> Tensor:
    return (squares.sum(dim=(0, 1)) / counts.sum(dim=(0, 1)).clamp(min=1)).sqrt()
