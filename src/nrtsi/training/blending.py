"""What the network is to correct, and how wrong that is: in which unit, how often to ask."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.training.sampler import Batch, WindowSampler

__all__ = ["fit_blend"]

WINDOWS = 1024

# Part of the windows that all levels have alike.
ALIKE = 0.2

# Rounds in which each share is made the best, the others being what they are.
ROUNDS = 50

# A channel of a token that is smaller is nothing.
SMALLEST = 1e-6

# Cells from which a level and channel speaks for itself; and from which its shares of hints count
# as much as those of all levels together.
FEWEST, BELIEVED = 8, 30.0


def fit_blend(
    questions: WindowSampler, validation: Batch, network: Network
) -> Float[np.ndarray, " level"] | None:
    """Decides what the network is to correct, and in which unit, by distance and channel.

    Returns how often each level is to be asked for: the more, the more there is to correct.
    """
    # What has learnt from the rows that are asked about: how good it is, others must tell.
    learnt = questions.predictors.flow is not None or questions.predictors.field is not None
    drawn = validation if learnt else questions.draw(0, WINDOWS)
    if drawn is None:
        return None
    tokens, counts = drawn.tokens, drawn.counts
    if network.scales_features:
        network.feature_scale.copy_(_size(tokens))
    distance_bin = tokens.distance_bin.expand_as(drawn.truth)
    layout = questions.layout
    if layout.base_predictors:
        network.blend_weights.copy_(_blend(drawn, distance_bin, layout))
    left = (drawn.truth - network.blend(tokens)).square()
    # A channel that its base gets exactly right still needs a scale to be wrong on.
    deviation = _deviation(drawn)
    spread = _mean(left, counts, distance_bin, layout.distance_bins).sqrt()
    network.correction_scale.copy_(spread.maximum(1e-3 * deviation).clamp(min=1e-9))
    of_window = tokens.level[:, None, None].expand_as(left)
    wrong = _mean(left, counts, of_window, layout.levels).mean(dim=1).sqrt()
    return _shares(wrong.clamp(min=1e-9).double().numpy())


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


def _size(tokens: Tokens) -> Float[Tensor, " channel"]:
    """Root mean square of each channel of the tokens; 1 where there is never anything."""
    mean = tokens.feature[tokens.valid].square().mean(dim=0).sqrt()
    return torch.where(mean > SMALLEST, mean, 1.0)


def _blend(
    drawn: Batch, distance_bin: Int[Tensor, "window target dim"], layout: TokenLayout
) -> Float[Tensor, "distance_bin hint dim"]:
    """Shares of the hints, each between none and all, with which the least is left over."""
    tokens = drawn.tokens
    wanted = drawn.truth - tokens.interpolation
    said = (tokens.base_predictions - tokens.interpolation.unsqueeze(2)).unbind(dim=2)

    def best(
        distance_bin: Int[Tensor, "window target dim"], distance_bins: int
    ) -> Float[Tensor, "distance_bin hint dim"]:
        def both(one: Tensor, other: Tensor) -> Float[Tensor, "distance_bin dim"]:
            return _mean(one * other, drawn.counts, distance_bin, distance_bins)

        agree = torch.stack([both(wanted, each) for each in said], dim=1)
        alike = torch.stack([torch.stack([both(i, j) for j in said], dim=1) for i in said], dim=1)
        return _shares_of(agree, alike)

    # A few gaps say little of their own distance: the more of them, the more they are believed.
    cells = torch.zeros(layout.distance_bins, layout.dims)
    cells.scatter_add_(0, distance_bin.flatten(0, 1), drawn.counts.flatten(0, 1).float())
    weight = (cells / (cells + BELIEVED)).unsqueeze(1)
    return weight * best(distance_bin, layout.distance_bins) + (1 - weight) * best(
        torch.zeros_like(distance_bin), 1
    )


def _shares_of(
    agree: Float[Tensor, "distance_bin hint dim"],
    alike: Float[Tensor, "distance_bin hint hint dim"],
) -> Float[Tensor, "distance_bin hint dim"]:
    """The least squares, each share between none and all."""
    share = torch.zeros_like(agree)
    for _ in range(ROUNDS):
        for i in range(agree.shape[1]):
            own = alike[:, i, i]
            others = (alike[:, i] * share).sum(dim=1) - own * share[:, i]
            share[:, i] = ((agree[:, i] - others) / own.clamp(min=1e-30)).clamp(0.0, 1.0)
    return share


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
