"""How far a trained network's corrections of interpolation can be trusted."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nrtsi.model.networks import Network
from nrtsi.training.batches import Batch

__all__ = ["trust_in"]

# Validation cells of a channel that tell its trust from that of the others.
ENOUGH = 100


def trust_in(network: Network, validation: Batch, windows: int) -> Float[Tensor, "level dim"]:
    """The share of its corrections that leaves the least squared error, by level and channel.

    One is all that a network which has learnt enough is given; one that was trained for too short
    a time, or on noise, is held back, down to plain interpolation. `windows` are asked at once.
    """
    agree, size, cells = (torch.zeros_like(network.spread) for _ in range(3))
    network.eval()
    for first in range(0, validation.size, windows):
        some = np.arange(first, min(first + windows, validation.size))
        batch = validation.pick(some).to(network.device)
        level, counts = batch.tokens.level, batch.counts
        with torch.inference_mode():
            made = (network(batch.tokens).mean - batch.tokens.base) * counts
        wanted = (batch.truth - batch.tokens.base) * counts
        agree.index_add_(0, level, (made * wanted).sum(dim=1))
        size.index_add_(0, level, made.square().sum(dim=1))
        cells.index_add_(0, level, counts.sum(dim=1).to(cells.dtype))
    few = cells < ENOUGH
    agree = torch.where(few, agree.sum(dim=1, keepdim=True), agree)
    size = torch.where(few, size.sum(dim=1, keepdim=True), size)
    return torch.where(size > 0, agree / size.clamp(min=1e-30), 1.0).clamp(0.0, 1.0)
