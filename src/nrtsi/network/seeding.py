"""Weights that are drawn from a seed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]

_SEEDING = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's random numbers begin at `seed`, and afterwards go on as if nothing had been.

    The state is PyTorch's and of the whole process; two fits at once must not share it.
    """
    with _SEEDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
