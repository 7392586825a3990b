"""Fits the blend of the base predictors, which the network corrects, and its remaining error."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import BlendConfig
from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.training.sampler import Batch, WindowSampler

__all__ = ["fit_blend"]

# Features below this size are zero.
MIN_SIZE = 1e-6


def fit_blend(
    sampler: WindowSampler, validation: Batch, network: Network, config: BlendConfig
) -> Float[np.ndarray, " level"] | None:
    """Sets the blend weights of the network and the scale of its corrections.

    Both are by distance and channel. Base predictors that were trained on the training part are
    weighted on the validation part.

    Returns:
        How often to sample each level: in proportion to the error of the blend.
    """
    trained = sampler.predictors.from_gradients
    batch = validation if trained else sampler.draw(0, config.windows)
    if batch is None:
        return None
    tokens, counts, layout = batch.tokens, batch.counts, sampler.layout
    if network.scales_features:
        network.feature_scale.copy_(_feature_scale(tokens))
    distance_bin = tokens.distance_bin.expand_as(batch.truth)
    if layout.base_predictors:
        network.blend_weights.copy_(_blend_weights(batch, distance_bin, layout, config))
    error = (batch.truth - network.blend(tokens)).square()
    # A channel that the blend predicts exactly still needs a scale.
    deviation = _deviation(batch)
    scale = _mean(error, counts, distance_bin, layout.distance_bins, config).sqrt()
    network.correction_scale.copy_(scale.maximum(1e-3 * deviation).clamp(min=1e-9))
    level = tokens.level[:, None, None].expand_as(error)
    by_level = _mean(error, counts, level, layout.levels, config).mean(dim=1).sqrt()
    return _level_weights(by_level.clamp(min=1e-9).double().numpy(), config.uniform)


def _mean(
    term: Tensor,
    counts: Tensor,
    index: Int[Tensor, "window target dim"],
    size: int,
    config: BlendConfig,
) -> Float[Tensor, "index dim"]:
    """Mean over the cells of each index and channel; over all indices if there are too few."""
    cells = torch.zeros(size, term.shape[-1])
    total = cells.clone()
    rows = index.flatten(0, 1)
    cells.scatter_add_(0, rows, counts.flatten(0, 1).float())
    total.scatter_add_(0, rows, torch.where(counts, term, 0.0).flatten(0, 1))
    overall = total.sum(dim=0) / cells.sum(dim=0).clamp(min=1)
    return torch.where(cells >= config.min_cells, total / cells.clamp(min=1), overall)


def _feature_scale(tokens: Tokens) -> Float[Tensor, " channel"]:
    """Root mean square of each feature of the tokens; 1 for features that are always zero."""
    mean = tokens.feature[tokens.valid].square().mean(dim=0).sqrt()
    return torch.where(mean > MIN_SIZE, mean, 1.0)


def _blend_weights(
    batch: Batch,
    distance_bin: Int[Tensor, "window target dim"],
    layout: TokenLayout,
    config: BlendConfig,
) -> Float[Tensor, "bin predictor dim"]:
    """Least-squares weights of the base predictors, each between 0 and 1."""
    tokens = batch.tokens
    target = batch.truth - tokens.interpolation
    proposed = (tokens.base_predictions - tokens.interpolation.unsqueeze(2)).unbind(dim=2)

    def weights(index: Int[Tensor, "window target dim"], size: int) -> Tensor:
        def product(one: Tensor, other: Tensor) -> Float[Tensor, "bin dim"]:
            return _mean(one * other, batch.counts, index, size, config)

        cross = torch.stack([product(target, each) for each in proposed], dim=1)
        gram = torch.stack(
            [torch.stack([product(i, j) for j in proposed], dim=1) for i in proposed], dim=1
        )
        return _least_squares(cross, gram, config.iterations)

    # The weights of a distance with few cells are shrunk towards those of all distances.
    cells = torch.zeros(layout.distance_bins, layout.dims)
    cells.scatter_add_(0, distance_bin.flatten(0, 1), batch.counts.flatten(0, 1).float())
    own = (cells / (cells + config.prior_cells)).unsqueeze(1)
    overall = weights(torch.zeros_like(distance_bin), 1)
    return own * weights(distance_bin, layout.distance_bins) + (1 - own) * overall


def _least_squares(
    cross: Float[Tensor, "bin predictor dim"],
    gram: Float[Tensor, "bin predictor predictor dim"],
    iterations: int,
) -> Float[Tensor, "bin predictor dim"]:
    """Coordinate descent on the squared error, each weight between 0 and 1."""
    weight = torch.zeros_like(cross)
    for _ in range(iterations):
        for i in range(cross.shape[1]):
            own = gram[:, i, i]
            others = (gram[:, i] * weight).sum(dim=1) - own * weight[:, i]
            weight[:, i] = ((cross[:, i] - others) / own.clamp(min=1e-30)).clamp(0.0, 1.0)
    return weight


def _deviation(batch: Batch) -> Float[Tensor, " dim"]:
    """Standard deviation of the hidden cells of each channel."""
    counts = batch.counts
    cells = counts.sum(dim=(0, 1)).clamp(min=1)
    mean = (batch.truth * counts).sum(dim=(0, 1)) / cells
    return (((batch.truth - mean).square() * counts).sum(dim=(0, 1)) / cells).sqrt()


def _level_weights(
    error: Float[np.ndarray, " level"], uniform: float
) -> Float[np.ndarray, " level"]:
    """How often each level is sampled, a part of it uniformly.

    >>> _level_weights(np.array([1.0, 3.0]), 0.2)
    array([0.3, 0.7])
    """
    return uniform / error.size + (1 - uniform) * error / error.sum()
