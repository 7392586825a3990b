"""`ProcessGroup`: the processes that train one network together, started by torchrun."""

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import torch
from torch import Tensor, distributed, nn

from nrtsi.core.launch import launch
from nrtsi.core.state import digest
from nrtsi.errors import InputError

__all__ = ["ProcessGroup", "join", "own_device"]


@dataclass
class ProcessGroup:
    """One process among those that train together; there may be no other.

    A method that communicates must be called by all processes. It returns the same bits to all,
    so that they make the same decisions.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of the tensors that are communicated."""

    interrupted: bool = False
    """True once this process was interrupted; it stops when all of them do."""

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and calls the listener."""
        return self.rank == 0

    def all(self, *numbers: float) -> Tensor:
        """The numbers of every process, (rank, number), in double precision on the CPU."""
        own = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        if self.size == 1:
            return own.cpu().unsqueeze(0)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(gathered, own)
        return torch.stack(gathered).cpu()

    def total(self, *numbers: float) -> list[float]:
        """The sum of each number over the processes, in the order of their ranks."""
        return self.all(*numbers).sum(dim=0).tolist()

    def clock(self, seconds: float) -> float:
        """The time of the first process; `KeyboardInterrupt` if any process was interrupted."""
        if self.size == 1:
            return seconds
        everyone = self.all(seconds, float(self.interrupted))
        if everyone[:, 1].any():
            raise KeyboardInterrupt
        return float(everyone[0, 0])

    def check_equal(self, what: str, text: str) -> None:
        """Raises an `InputError` unless all processes have the same `text`."""
        everyone = self.all(*map(float, bytes.fromhex(digest(text))))
        if not torch.equal(everyone, everyone[:1].expand_as(everyone)):
            raise InputError(
                f"processes that train together must have the same {what}, got different ones; "
                f"give all of them the same, or start each without torchrun and process group"
            )

    def decide(self, decision: bool) -> bool:
        """The decision of the first process."""
        return bool(self.all(float(decision))[0, 0])

    def broadcast(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the first process, on the CPU; all processes have the same shapes."""
        if self.size == 1:
            return tensors
        sent = {name: tensor.contiguous().to(self.device) for name, tensor in tensors.items()}
        for tensor in sent.values():
            distributed.broadcast(tensor, 0)
        return {name: tensor.cpu() for name, tensor in sent.items()}

    def averaging(self, network: nn.Module) -> nn.Module:
        """The network with gradients that are the mean over the processes."""
        return network if self.size == 1 else nn.parallel.DistributedDataParallel(network)

    @contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Ctrl-C in any process stops all of them at the next `clock`, at the same step."""
        if self.size == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def interrupt(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Stops all processes at the next `clock`; a single process at once."""
        if self.size == 1:
            raise KeyboardInterrupt
        self.interrupted = True


def join(device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Joins the group of processes, if any; returns it and the device to train on.

    The processes of a launcher form a group that lasts until they end: it cannot be formed twice.
    """
    if distributed.is_available() and not distributed.is_initialized() and launch().size > 1:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    grouped = distributed.is_available() and distributed.is_initialized()
    if not grouped or distributed.get_world_size() == 1:
        return ProcessGroup(), device
    rank, size = distributed.get_rank(), distributed.get_world_size()
    own = own_device(device)
    exchange = own if distributed.get_backend() == "nccl" else torch.device("cpu")
    return ProcessGroup(rank, size, exchange), own


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def own_device(device: torch.device) -> torch.device:
    """Another GPU for each process of a machine, unless one is named."""
    if device.type != "cuda" or device.index is not None:
        return device
    place = launch().local if launch().size > 1 else distributed.get_rank()
    own = torch.device("cuda", place % torch.cuda.device_count())
    torch.cuda.set_device(own)
    return own
