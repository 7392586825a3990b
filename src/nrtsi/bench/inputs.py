"""What the networks of PyPOTS are fed: each its own form of the same series and masks."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["Batch", "Inputs", "both_ways", "decayed", "diffused", "plain"]

Inputs = dict[str, Any]
"""What a network of PyPOTS takes: tensors by name."""


@dataclass(frozen=True)
class Batch:
    """Some series as tensors, scaled; masks are 1 where true, as PyPOTS has them."""

    time: Float[Tensor, "series step"]
    """In mean steps; 0, 1, 2 … where times are equally spaced."""

    value: Float[Tensor, "series step feature"]
    """The truth; 0 where the original has none."""

    known: Float[Tensor, "series step feature"]
    """What the method is shown."""

    asked: Float[Tensor, "series step feature"]
    """What was hidden from it."""

    @property
    def shown(self) -> Float[Tensor, "series step feature"]:
        """The truth where the method is shown it, else 0."""
        return self.value * self.known


def plain(batch: Batch) -> Inputs:
    """Of SAITS, ImputeFormer and HELIX.

    They learn to repeat what they are shown and to tell what is hidden from them, half and half.
    """
    return {
        "X": batch.shown,
        "missing_mask": batch.known,
        "X_ori": batch.value,
        "indicating_mask": batch.asked,
    }


def both_ways(batch: Batch) -> Inputs:
    """Of BRITS and M-RNN, which read a series forwards and backwards.

    They learn from what they are shown alone: each cell is foretold from the cells before it (and
    after it), and their losses have no place for the truth of a hidden one. As their authors did,
    they are therefore shown series that miss as much as those to be filled.
    """
    shown, known = batch.shown.flip(1), batch.known.flip(1)
    end = batch.time[:, -1:]
    return {
        "forward": {
            "X": batch.shown,
            "missing_mask": batch.known,
            "deltas": _since(batch.time, batch.known),
        },
        "backward": {
            "X": shown,
            "missing_mask": known,
            "deltas": _since((end - batch.time).flip(1), known),
        },
        "X_ori": batch.value,
        "indicating_mask": batch.asked,
    }


def decayed(batch: Batch) -> Inputs:
    """Of GRU-D, which learns as BRITS does, but forwards only.

    PyPOTS would put zeros for the last observation, as it fills the gaps before it carries the
    values on, and the mean of whatever is to be filled for the mean of the training part. Here
    both are what the paper says; the mean of scaled values is 0.
    """
    return {
        "X": batch.shown,
        "X_filledLOCF": _carried(batch.shown, batch.known),
        "missing_mask": batch.known,
        "deltas": _since(batch.time, batch.known),
        "empirical_mean": torch.zeros(batch.value.shape[-1]),
        "X_ori": batch.value,
        "indicating_mask": batch.asked,
    }


def diffused(batch: Batch) -> Inputs:
    """Of CSDI, which learns to take the noise off hidden cells; channels come before steps."""
    return {
        "X": batch.shown.transpose(1, 2),
        "X_ori": batch.value.transpose(1, 2),
        "cond_mask": batch.known.transpose(1, 2),
        "indicating_mask": batch.asked.transpose(1, 2),
        "observed_tp": batch.time,
    }


def _last(known: Float[Tensor, "series step feature"]) -> Tensor:
    """Step of the last observation up to each step; -1 before the first."""
    step = torch.arange(known.shape[1])[None, :, None]
    return torch.where(known > 0, step, -1).cummax(dim=1).values


def _since(
    moment: Float[Tensor, "series step"], known: Float[Tensor, "series step feature"]
) -> Float[Tensor, "series step feature"]:
    """Time since the last earlier observation, or since the first step where there is none."""
    last = _last(known).clamp(min=0)
    earlier = torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)
    each = moment[:, :, None].expand_as(known)
    return each - each.gather(1, earlier)


def _carried(
    shown: Float[Tensor, "series step feature"], known: Float[Tensor, "series step feature"]
) -> Float[Tensor, "series step feature"]:
    """The last observation carried forward, and the first one backward to the start."""
    last = _last(known)
    first = known.argmax(dim=1, keepdim=True).expand_as(last)
    return shown.gather(1, torch.where(last < 0, first, last))
