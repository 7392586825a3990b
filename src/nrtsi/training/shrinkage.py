"""How far a trained network can be shrunk, found on cells that it did not learn from."""

import logging
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine
from nrtsi.network.registry import Network
from nrtsi.training.sampler import Batch

__all__ = ["fit_shrinkage", "shrink_end_to_end"]

log = logging.getLogger(__name__)

# Cells from which a level and channel is believed as much as what is known of all levels; and all
# together as much as interpolation.
FEW = 30.0

# A scale is widened or narrowed by this factor at most.
WIDEST = 4.0

ByLevel = Float[Tensor, "level dim"]


def fit_shrinkage(network: Network, validation: Batch, windows: int) -> None:
    """Lets the network correct its base as far as that helps, as surely as it may.

    Corrections that lower the squared error are made in full; where a network had too little time
    or data, or noise to learn, a share of them is made, down to none. Scales are then made to fit
    what is left over. `windows` are asked at once.
    """
    network.shrinkage.fill_(1.0)
    network.scale_factor.fill_(1.0)
    found = _found(network, validation, windows)
    cells = found.cells
    best = _shrunk(found.agree, found.size, cells, prior=0.0)
    # Half the correction is best where all of it and none of it are as good. Validation cells are
    # not quite like those that will be asked for: only what does harm there is taken back.
    share = (2 * best).clamp(0.0, 1.0)
    # What is left over in units of the scale: (wanted - share × made)², term by term.
    left = found.wanted - 2 * share * found.both + share.square() * found.made
    scale = _shrunk(left, cells, cells, prior=1.0).sqrt()
    network.shrinkage.copy_(share)
    network.scale_factor.copy_(scale.clamp(1 / WIDEST, WIDEST))


def shrink_end_to_end(engine: Engine, truth: SeriesSet, gappy: SeriesSet) -> None:
    """Takes back a share of all corrections, where whole fillings are surely better for it.

    Each correction may be right given the truth of what is filled before it, and the filling still
    suffer: errors are read again. `gappy` is `truth` with cells hidden.
    """
    networks = list(dict.fromkeys(engine.networks))  # one may serve several levels
    hidden = truth.observed & ~gappy.observed
    corrected = engine.predict(gappy).mean[hidden]
    shrinkages = [network.shrinkage.clone() for network in networks]
    for network in networks:
        network.shrinkage.fill_(0.0)
    plain = engine.predict(gappy).mean[hidden]
    stretch = np.broadcast_to(truth.owner[:, None], hidden.shape)[hidden]
    share = _kept(corrected - plain, truth.value[hidden] - plain, stretch)
    log.info("shrinkage: %.2f of the corrections", share)
    for network, shrinkage in zip(networks, shrinkages, strict=True):
        network.shrinkage.copy_(share * shrinkage)


def _kept(
    made: Float[np.ndarray, " cell"],
    wanted: Float[np.ndarray, " cell"],
    stretch: Int[np.ndarray, " cell"],
) -> float:
    """The share of what was made that leaves the least over, and a standard error more.

    All, where it makes no difference: a few bursts must not decide.
    """
    agree, size = (np.bincount(stretch, made * each) for each in (wanted, made))
    if not (np.isfinite(agree).all() and size.sum() > 0):
        return 1.0
    best = agree.sum() / size.sum()
    error = np.sqrt(np.square(agree - best * size).sum()) / size.sum()
    return float(np.clip(best + error, 0.0, 1.0))


@dataclass
class _Sums:
    """Sums over the cells of each level and channel; the last three in units of the scale."""

    like: ByLevel
    cells: ByLevel = field(init=False)
    agree: ByLevel = field(init=False)
    size: ByLevel = field(init=False)
    wanted: ByLevel = field(init=False)
    both: ByLevel = field(init=False)
    made: ByLevel = field(init=False)

    def __post_init__(self) -> None:
        for name in ("cells", "agree", "size", "wanted", "both", "made"):
            setattr(self, name, torch.zeros_like(self.like, dtype=torch.float64))

    def add(self, batch: Batch, made: Tensor, wanted: Tensor, scale: Tensor) -> None:
        counts = batch.counts
        level = batch.tokens.distance_bin.expand_as(made).flatten(0, 1)
        sure = scale.square().clamp(min=1e-30)
        terms = {
            "cells": torch.ones_like(made),
            "agree": made * wanted,
            "size": made.square(),
            "wanted": wanted.square() / sure,
            "both": made * wanted / sure,
            "made": made.square() / sure,
        }
        for name, term in terms.items():
            counted = torch.where(counts, term, 0.0).double()
            getattr(self, name).scatter_add_(0, level, counted.flatten(0, 1))


def _found(network: Network, validation: Batch, windows: int) -> _Sums:
    sums = _Sums(network.shrinkage)
    network.eval()
    for first in range(0, validation.size, windows):
        some = np.arange(first, min(first + windows, validation.size))
        batch = validation.pick(some).to(network.device)
        with torch.inference_mode():
            prediction = network(batch.tokens)
            mean = prediction.mean
            scale = prediction.scale
        base = network.blend(batch.tokens)
        sums.add(batch, mean - base, batch.truth - base, scale)
    return sums


def _shrunk(above: ByLevel, below: ByLevel, cells: ByLevel, prior: float) -> ByLevel:
    """A quotient for each level and channel, taken from more of them where cells are few.

    From all levels of the channel, from all channels, and at last from `prior`.
    """
    result = torch.full_like(above[:1, :1], prior)
    for axes in ((0, 1), (0,), ()):
        own, under, count = (
            each.sum(dim=axes, keepdim=True) if axes else each for each in (above, below, cells)
        )
        quotient = torch.where(under > 0, own / under.clamp(min=1e-30), result)
        weight = count / (count + FEW)
        result = weight * quotient + (1 - weight) * result
    return result
