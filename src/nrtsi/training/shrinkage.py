"""Shrinks the corrections of a network as far as held-out cells demand."""

import logging
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import ShrinkageConfig
from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine
from nrtsi.network.registry import Network
from nrtsi.training.sampler import Batch

__all__ = ["best_share", "fit_shrinkage", "shrink_end_to_end"]

log = logging.getLogger(__name__)

ByBin = Float[Tensor, "bin dim"]


def fit_shrinkage(
    network: Network, validation: Batch, batch: int, config: ShrinkageConfig
) -> None:
    """Sets the shrinkage of the corrections and the factor of their standard deviation.

    Corrections that lower the squared error are made in full. A network that had too little time
    or data makes a share of them, down to none. The standard deviation is then scaled to the
    remaining error.

    Args:
        network: The network.
        validation: Windows that it was not trained on.
        batch: Windows to predict at once.
        config: How strongly to shrink.
    """
    network.shrinkage.fill_(1.0)
    network.scale_factor.fill_(1.0)
    sums = _sums(network, validation, batch)
    best = _quotient(sums.cross, sums.square, sums.cells, prior=0.0, config=config)
    # At half the correction, all and none of it are equally good. Validation cells differ from
    # later ones, so only corrections that do harm there are shrunk.
    share = (2 * best).clamp(0.0, 1.0)
    # Squared error in units of the standard deviation: (target - share × correction)².
    error = sums.std_target - 2 * share * sums.std_cross + share.square() * sums.std_square
    factor = _quotient(error, sums.cells, sums.cells, prior=1.0, config=config).sqrt()
    network.shrinkage.copy_(share)
    network.scale_factor.copy_(factor.clamp(1 / config.max_scale_factor, config.max_scale_factor))


def shrink_end_to_end(engine: Engine, truth: SeriesSet, masked: SeriesSet) -> None:
    """Shrinks all corrections by one factor, if whole imputations are better for it.

    Stepwise gains can compound into errors, because imputed values are inputs of later steps.

    Args:
        engine: The networks; they are changed.
        truth: Held-out series.
        masked: The same with cells hidden.
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


@dataclass
class _Sums:
    """Sums over the cells of each distance and channel; the last three in standard deviations."""

    cells: ByBin
    cross: ByBin
    square: ByBin
    std_target: ByBin
    std_cross: ByBin
    std_square: ByBin

    def add(self, batch: Batch, correction: Tensor, target: Tensor, std: Tensor) -> None:
        index = batch.tokens.distance_bin.expand_as(correction).flatten(0, 1)
        variance = std.square().clamp(min=1e-30)
        terms = (
            torch.ones_like(correction),
            correction * target,
            correction.square(),
            target.square() / variance,
            correction * target / variance,
            correction.square() / variance,
        )
        for own, term in zip(fields(self), terms, strict=True):
            counted = torch.where(batch.counts, term, 0.0).double()
            getattr(self, own.name).scatter_add_(0, index, counted.flatten(0, 1))


def _sums(network: Network, validation: Batch, size: int) -> _Sums:
    zeros = [torch.zeros_like(network.shrinkage, dtype=torch.float64) for _ in fields(_Sums)]
    sums = _Sums(*zeros)
    network.eval()
    for first in range(0, validation.size, size):
        some = np.arange(first, min(first + size, validation.size))
        batch = validation.pick(some).to(network.device)
        with torch.inference_mode():
            prediction = network(batch.tokens)
            mean, std = prediction.mean, prediction.std
        blend = network.blend(batch.tokens)
        sums.add(batch, mean - blend, batch.truth - blend, std)
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
