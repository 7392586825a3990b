"""Lower precision and compilation of a network in training."""

import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["autocast", "compiled", "fast_at_bfloat16"]

log = logging.getLogger(__name__)


def fast_at_bfloat16(device: torch.device) -> bool:
    """True for GPUs with bfloat16 in hardware.

    Never for a CPU: without such instructions it is some forty times slower than float32, and
    PyTorch does not tell which CPUs have them.
    """
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """Multiplies matrices in bfloat16 if that is fast; weights stay in float32."""
    if fast_at_bfloat16(device):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def compiled(network: nn.Module, loss: Callable[[nn.Module], Tensor]) -> nn.Module:
    """The compiled network, which shares the weights; the network itself if that fails.

    Args:
        network: The network.
        loss: The loss of some batch; its backward pass is compiled too.
    """
    try:
        # The compiler warns of what it leaves alone.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fast = cast(nn.Module, torch.compile(network))
            loss(fast).backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        # Compilers fail in many ways, and training works without one.
        reason = str(error).strip().partition("\n")[0]
        log.warning("the network cannot be compiled here (%s); training goes on without", reason)
        return network
    finally:
        network.zero_grad(set_to_none=True)
    return fast
