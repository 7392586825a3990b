"""Fits the blend of the base predictors before training, and shrinks its corrections after."""

import logging

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import BlendConfig, ShrinkageConfig
from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine
from nrtsi.network.registry import Network
from nrtsi.network.tokens import TokenLayout
from nrtsi.training.sampler import Batch, WindowSampler

__all__ = ["best_share", "fit_blend", "fit_shrinkage", "shrink_end_to_end"]

log = logging.getLogger(__name__)

ByBin = Float[Tensor, "bin dim"]
WindowCells = Float[Tensor, "window target dim"]
Index = Int[Tensor, "window target dim"]

# Features below this size are always zero, and are not scaled.
MIN_SIZE = 1e-6


def fit_blend(
    sampler: WindowSampler, validation: Batch, network: Network, config: BlendConfig
) -> Float[np.ndarray, " level"] | None:
    """Sets the blend weights of the network and the scale of its corrections.

    Both are by distance and channel. Base predictors that were trained on the training part are
    weighted on the validation part. Returns how often to sample each level: in proportion to the
    error of the blend.
    """
    batch = validation if sampler.predictors.from_gradients else sampler.draw(0, config.windows)
    if batch is None:
        return None
    tokens, counts, layout = batch.tokens, batch.counts, sampler.plan.layout
    if network.scales_features:
        mean = tokens.feature[tokens.valid].square().mean(dim=0).sqrt()
        network.feature_scale.copy_(torch.where(mean > MIN_SIZE, mean, 1.0))
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
    level_error = by_level.clamp(min=1e-9).double().numpy()
    # A part of the windows is sampled uniformly.
    uniform = config.uniform / level_error.size
    return uniform + (1 - config.uniform) * level_error / level_error.sum()


def _sum(term: WindowCells, index: Index, size: int) -> ByBin:
    """Sum over the cells of each index and channel."""
    total = torch.zeros(size, term.shape[-1])
    return total.scatter_add_(0, index.flatten(0, 1), term.flatten(0, 1))


def _mean(
    term: WindowCells, counts: Tensor, index: Index, size: int, config: BlendConfig
) -> ByBin:
    """Mean over the cells of each index and channel; over all indices if there are too few."""
    cells = _sum(counts.float(), index, size)
    total = _sum(torch.where(counts, term, 0.0), index, size)
    overall = total.sum(dim=0) / cells.sum(dim=0).clamp(min=1)
    return torch.where(cells >= config.min_cells, total / cells.clamp(min=1), overall)


def _blend_weights(
    batch: Batch, distance_bin: Index, layout: TokenLayout, config: BlendConfig
) -> Float[Tensor, "bin predictor dim"]:
    """Least-squares weights of the base predictors, each between 0 and 1."""
    tokens = batch.tokens
    target = batch.truth - tokens.interpolation
    proposed = (tokens.base_predictions - tokens.interpolation.unsqueeze(2)).unbind(dim=2)

    def weights(index: Index, size: int) -> Float[Tensor, "bin predictor dim"]:
        def product(one: WindowCells, other: WindowCells) -> ByBin:
            return _mean(one * other, batch.counts, index, size, config)

        cross = torch.stack([product(target, each) for each in proposed], dim=1)
        rows = [torch.stack([product(i, j) for j in proposed], dim=1) for i in proposed]
        gram = torch.stack(rows, dim=1)
        return _least_squares(cross, gram, config.iterations)

    # The weights of a distance with few cells are shrunk towards those of all distances.
    cells = _sum(batch.counts.float(), distance_bin, layout.distance_bins)
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


def fit_shrinkage(
    network: Network, validation: Batch, batch: int, config: ShrinkageConfig
) -> None:
    """Sets the shrinkage of the corrections and the factor of their standard deviation.

    Corrections that lower the squared error are made in full. A network that had too little time
    or data makes a share of them, down to none. The standard deviation is then scaled to the
    remaining error. `batch` windows are predicted at once.
    """
    network.shrinkage.fill_(1.0)
    network.scale_factor.fill_(1.0)
    cells, cross, square, std_target, std_cross, std_square = _sums(network, validation, batch)
    best = _quotient(cross, square, cells, prior=0.0, config=config)
    # At half the correction, all and none of it are equally good. Validation cells differ from
    # later ones, so only corrections that do harm there are shrunk.
    share = (2 * best).clamp(0.0, 1.0)
    # Squared error in units of the standard deviation: (target - share × correction)².
    error = std_target - 2 * share * std_cross + share.square() * std_square
    factor = _quotient(error, cells, cells, prior=1.0, config=config).sqrt()
    network.shrinkage.copy_(share)
    network.scale_factor.copy_(factor.clamp(1 / config.max_scale_factor, config.max_scale_factor))


def shrink_end_to_end(engine: Engine, truth: SeriesSet, masked: SeriesSet) -> None:
    """Shrinks all corrections by one factor, if whole imputations are better for it.

    Stepwise gains can compound into errors, because imputed values are inputs of later steps.
    `masked` is `truth` with cells hidden.
    """
    networks = list(dict.fromkeys(engine.networks))  # one may serve several levels
    hidden = truth.observed & ~masked.observed
    corrected = engine.predict(masked).mean[hidden]
    before = [network.shrinkage.clone() for network in networks]
    for network in networks:
        network.shrinkage.fill_(0.0)
    blend = engine.predict(masked).mean[hidden]
    segment = np.broadcast_to(truth.owner[:, None], hidden.shape)[hidden]
    share = best_share(corrected - blend, truth.value[hidden] - blend, segment)
    log.info("shrinkage: %.2f of the corrections", share)
    for network, shrinkage in zip(networks, before, strict=True):
        network.shrinkage.copy_(share * shrinkage)


def best_share(
    correction: Float[np.ndarray, " cell"],
    target: Float[np.ndarray, " cell"],
    segment: Int[np.ndarray, " cell"],
) -> float:
    """The share of the correction with the lowest squared error, plus one standard error."""
    cross, square = (np.bincount(segment, correction * each) for each in (target, correction))
    if not (np.isfinite(cross).all() and square.sum() > 0):
        return 1.0
    best = cross.sum() / square.sum()
    error = np.sqrt(np.square(cross - best * square).sum()) / square.sum()
    return float(np.clip(best + error, 0.0, 1.0))


def _sums(network: Network, validation: Batch, size: int) -> Float[Tensor, "term bin dim"]:
    """Sums over the cells of each distance and channel; the last three in standard deviations."""
    shape = 6, *network.shrinkage.shape
    sums = torch.zeros(shape, dtype=torch.float64, device=network.device)
    network.eval()
    for first in range(0, validation.size, size):
        some = np.arange(first, min(first + size, validation.size))
        batch = validation.pick(some).to(network.device)
        with torch.inference_mode():
            prediction = network(batch.tokens)
            mean, variance = prediction.mean, prediction.std.square().clamp(min=1e-30)
        blend = network.blend(batch.tokens)
        correction, target = mean - blend, batch.truth - blend
        cross, square = correction * target, correction.square()
        scaled = (each / variance for each in (target.square(), cross, square))
        terms = (torch.ones_like(cross), cross, square, *scaled)
        index = batch.tokens.distance_bin.expand_as(correction).flatten(0, 1)
        for own, term in zip(sums, terms, strict=True):
            counted = torch.where(batch.counts, term, 0.0).double()
            own.scatter_add_(0, index, counted.flatten(0, 1))
    return sums


def _quotient(
    above: ByBin, below: ByBin, cells: ByBin, prior: float, config: ShrinkageConfig
) -> ByBin:
    """A quotient for each distance and channel, shrunk as far as cells are few.

    It is shrunk towards that of all distances of the channel, of all channels, and `prior`.
    """
    result = torch.full_like(above[:1, :1], prior)
    for axes in ((0, 1), (0,), ()):
        top, bottom, count = (
            each.sum(dim=axes, keepdim=True) if axes else each for each in (above, below, cells)
        )
        quotient = torch.where(bottom > 0, top / bottom.clamp(min=1e-30), result)
        weight = count / (count + config.prior_cells)
        result = weight * quotient + (1 - weight) * result
    return result
