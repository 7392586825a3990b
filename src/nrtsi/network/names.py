"""Tensors of several owners in one dict: each owner's have names that begin with its own."""

from collections.abc import Mapping

from torch import Tensor

__all__ = ["with_prefix"]


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, named by what follows it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
