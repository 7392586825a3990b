"""The inputs of the networks of PyPOTS, each in its own form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["INPUTS", "InputBatch", "Inputs"]

Inputs = dict[str, Any]
"""Tensors by name, as a network of PyPOTS takes them."""


@dataclass(frozen=True)
class InputBatch:
    """Scaled series as tensors; masks are 1 where true, as in PyPOTS."""

    time: Float[Tensor, "series step"]
    """In mean steps; 0, 1, 2 … if times are equally spaced."""

    value: Float[Tensor, "series step feature"]
    """The truth; 0 where the original has none."""

    known: Float[Tensor, "series step feature"]
    """What the method sees."""

    target: Float[Tensor, "series step feature"]
    """What is hidden from it."""

    @property
    def visible(self) -> Float[Tensor, "series step feature"]:
        """The truth where the method sees it, else 0."""
        return self.value * self.known

    def split(self, size: int) -> "Iterator[InputBatch]":
        """Yields batches of at most `size` series."""
        tensors = (self.time, self.value, self.known, self.target)
        for piece in zip(*(torch.split(tensor, size) for tensor in tensors), strict=True):
            yield InputBatch(*piece)


def _masked(batch: InputBatch) -> Inputs:
    """SAITS, ImputeFormer and HELIX: they learn to reconstruct visible and hidden cells alike."""
    return {
        "X": batch.visible,
        "missing_mask": batch.known,
        "X_ori": batch.value,
        "indicating_mask": batch.target,
    }


def _bidirectional(batch: InputBatch) -> Inputs:
    """BRITS and M-RNN, which read a series forwards and backwards.

    Their losses use visible cells only: each is predicted from the cells before it (and after it).
    As their authors did, they are trained on series that miss as much as those to be imputed.
    """

    def one_way(time: Tensor, visible: Tensor, known: Tensor) -> Inputs:
        deltas = time_since_observed(time, known)
        return {"X": visible, "missing_mask": known, "deltas": deltas}

    reversed_time = (batch.time[:, -1:] - batch.time).flip(1)
    return {
        "forward": one_way(batch.time, batch.visible, batch.known),
        "backward": one_way(reversed_time, batch.visible.flip(1), batch.known.flip(1)),
        "X_ori": batch.value,
        "indicating_mask": batch.target,
    }


def _decay(batch: InputBatch) -> Inputs:
    """GRU-D, which is trained as BRITS is, but reads forwards only.

    PyPOTS passes zeros as the last observation, because it fills gaps before it carries values
    forward, and the mean of the data to impute as the training mean. Here both are as in the
    paper; the mean of scaled values is 0.
    """
    return {
        "X": batch.visible,
        "X_filledLOCF": carry_forward(batch.visible, batch.known),
        "missing_mask": batch.known,
        "deltas": time_since_observed(batch.time, batch.known),
        "empirical_mean": torch.zeros(batch.value.shape[-1]),
        "X_ori": batch.value,
        "indicating_mask": batch.target,
    }


def _diffusion(batch: InputBatch) -> Inputs:
    """CSDI, which learns to denoise hidden cells; channels come before steps."""
    return {
        "X": batch.visible.transpose(1, 2),
        "X_ori": batch.value.transpose(1, 2),
        "cond_mask": batch.known.transpose(1, 2),
        "indicating_mask": batch.target.transpose(1, 2),
        "observed_tp": batch.time,
    }


INPUTS: dict[str, Callable[[InputBatch], Inputs]] = {
    "masked": _masked,
    "bidirectional": _bidirectional,
    "decay": _decay,
    "diffusion": _diffusion,
}


def _last_observed(known: Float[Tensor, "series step feature"]) -> Tensor:
    """Step of the last observation up to each step; -1 before the first."""
    step = torch.arange(known.shape[1])[None, :, None]
    return torch.where(known > 0, step, -1).cummax(dim=1).values


def time_since_observed(
    time: Float[Tensor, "series step"], known: Float[Tensor, "series step feature"]
) -> Float[Tensor, "series step feature"]:
    """Time since the last earlier observation, or since the first step if there is none."""
    last = _last_observed(known).clamp(min=0)
    earlier = torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)
    each = time[:, :, None].expand_as(known)
    return each - each.gather(1, earlier)


def carry_forward(
    visible: Float[Tensor, "series step feature"], known: Float[Tensor, "series step feature"]
) -> Float[Tensor, "series step feature"]:
    """Carries the last observation forward, and the first one backward to the start."""
    last = _last_observed(known)
    first = known.argmax(dim=1, keepdim=True).expand_as(last)
    return visible.gather(1, torch.where(last < 0, first, last))
