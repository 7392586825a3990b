"""What the network is to correct, and how wrong that is: in which unit, how often to ask."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.model.networks import Network
from nrtsi.training.batches import Batch, Questions

__all__ = ["settle_base"]

WINDOWS = 1024

# Part of the windows that all levels have alike.
ALIKE = 0.2

# Cells from which a level and channel speaks for itself.
FEWEST = 8


def settle_base(questions: Questions, network: Network) -> Float[np.ndarray, " level"] | None:
    """Decides what the network is to correct, and in which unit, by distance and channel.

    Returns how often each level is to be asked for: the more, the more there is to correct.
    """
    drawn = questions.draw(0, WINDOWS)
    if drawn is None:
        return None
    tokens, counts = drawn.tokens, drawn.counts
    apart = tokens.apart.expand_as(drawn.truth)
    levels = questions.layout.levels
    if questions.layout.recall:
        # The blend of the two that leaves the least over.
        wanted, offered = drawn.truth - tokens.base, tokens.recalled - tokens.base
        agree = _mean(wanted * offered, counts, apart, levels)
        size = _mean(offered.square(), counts, apart, levels)
        network.recalls.copy_((agree / size.clamp(min=1e-30)).clamp(0.0, 1.0))
    left = (drawn.truth - network.base(tokens)).square()
    # A channel that its base gets exactly right still needs a scale to be wrong on.
    deviation = _deviation(drawn)
    spread = _mean(left, counts, apart, levels).sqrt()
    network.spread.copy_(spread.maximum(1e-3 * deviation).clamp(min=1e-9))
    of_window = tokens.level[:, None, None].expand_as(left)
    return _shares(_mean(left, counts, of_window, levels).mean(dim=1).sqrt().double().numpy())


def _mean(
    term: Tensor, counts: Tensor, level: Int[Tensor, "window target dim"], levels: int
) -> Float[Tensor, "level dim"]:
    """Mean over the cells of each level and channel; of all levels where there are too few."""
    cells = torch.zeros(levels, term.shape[-1])
    total = cells.clone()
    rows = level.flatten(0, 1)
    cells.scatter_add_(0, rows, counts.flatten(0, 1).float())
    total.scatter_add_(0, rows, torch.where(counts, term, 0.0).flatten(0, 1))
    overall = total.sum(dim=0) / cells.sum(dim=0).clamp(min=1)
    return torch.where(cells >= FEWEST, total / cells.clamp(min=1), overall)


def _deviation(drawn: Batch) -> Float[Tensor, " dim"]:
    counts = drawn.counts
    cells = counts.sum(dim=(0, 1)).clamp(min=1)
    middle = (drawn.truth * counts).sum(dim=(0, 1)) / cells
    return (((drawn.truth - middle).square() * counts).sum(dim=(0, 1)) / cells).sqrt()


def _shares(left: Float[np.ndarray, " level"]) -> Float[np.ndarray, " level"]:
    """How often each level is asked for, some of it alike.

    >>> _shares(np.array([1.0, 3.0]))
    array([0.3, 0.7])
    """
    return ALIKE / left.size + (1 - ALIKE) * left / left.sum()
