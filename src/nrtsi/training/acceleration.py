"""What makes a step faster where the machine and the length of the run allow it."""

import logging
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["autocast", "compiled", "fast_at_bfloat16", "fastest", "faster_compiled"]

log = logging.getLogger(__name__)

# Compiling takes a minute or more; of an hour, little is lost where it saves nothing.
LONG = 3600.0

TRIALS = 5

Loss = Callable[[nn.Module], Tensor]
"""The loss of some batch by a network, to see how long a step takes."""


def fast_at_bfloat16(device: torch.device) -> bool:
    """True where half the precision is also faster: GPUs that have it in hardware.

    Never a CPU: one without such instructions takes some forty times as long as in float32, and
    PyTorch does not say which have them.
    """
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """Computes a network's products in bfloat16 where that is fast; weights stay in float32."""
    if fast_at_bfloat16(device):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def fastest(
    network: nn.Module, loss: Loss, *, compiling: bool | None, seconds: float | None
) -> nn.Module:
    """The network as it trains fastest: compiled where that is asked for, or a long run gains.

    On a CPU it gains nothing: a compiled network is not divided among the threads, which saves more.
    Where the budget is in steps, `seconds` is None: there is no telling how long they take.
    """
    if compiling is None:
        long = seconds is not None and seconds >= LONG
        return faster_compiled(network, loss) if long and _on_gpu(network) else network
    return compiled(network, loss) if compiling else network


def _on_gpu(network: nn.Module) -> bool:
    return any(weight.is_cuda for weight in network.parameters())


def compiled(network: nn.Module, loss: Loss) -> nn.Module:
    """The network compiled, sharing its weights; itself, with a warning, where that fails."""
    try:
        # The compiler works on what it sees happen; its warnings are about what it leaves alone.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fast = cast(nn.Module, torch.compile(network))
            _seconds(fast, loss)
    except Exception as error:
        # A compiler's troubles are of many kinds, and none is a reason not to train.
        reason = str(error).strip().partition("\n")[0]
        log.warning("the network cannot be compiled here (%s); training goes on without", reason)
        return network
    finally:
        network.zero_grad(set_to_none=True)
    return fast


def faster_compiled(network: nn.Module, loss: Loss) -> nn.Module:
    """The network compiled where that turns out to be faster, else itself."""
    fast = compiled(network, loss)
    # By turns, so that what else the machine does slows both.
    trials = [(_seconds(network, loss), _seconds(fast, loss)) for _ in range(TRIALS)]
    network.zero_grad(set_to_none=True)
    plain, quick = (min(times) for times in zip(*trials, strict=True))
    log.info("a step takes %.3g s, and %.3g s compiled", plain, quick)
    return fast if quick < plain else network


def _seconds(network: nn.Module, loss: Loss) -> float:
    """Time that a loss and its gradients take."""
    began = time.perf_counter()
    result = loss(network)
    result.backward()  # type: ignore[no-untyped-call]
    if result.is_cuda:
        torch.cuda.synchronize(result.device)
    return time.perf_counter() - began
