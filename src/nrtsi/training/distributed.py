"""The processes that train one network together, and what they must agree on."""

import atexit
import hashlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import torch
from torch import Tensor, distributed, nn

from nrtsi.core.launch import launch
from nrtsi.errors import InputError

__all__ = ["ProcessGroup", "join"]


@dataclass
class ProcessGroup:
    """One process among those that train together; alone where there is no other.

    Every method that needs the others must be called by all of them, and gives all of them the
    same answer to the last bit: what they decide by it, they decide alike.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where numbers are put to be exchanged."""

    interrupted: bool = False
    """True once this process was asked to stop, which it does when all of them do."""

    @property
    def leads(self) -> bool:
        """True for the one process that writes files and tells the listener."""
        return self.rank == 0

    def all(self, *numbers: float) -> Tensor:
        """The numbers of every process, by rank and number, in double precision on the CPU."""
        own = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        if self.size == 1:
            return own.cpu().unsqueeze(0)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(gathered, own)
        return torch.stack(gathered).cpu()

    def total(self, *numbers: float) -> list[float]:
        """The sum of each number over the processes, added in the order of their ranks."""
        return self.all(*numbers).sum(dim=0).tolist()

    def clock(self, seconds: float) -> float:
        """The leader's seconds, by which all of them go.

        Raises:
            KeyboardInterrupt: One of the processes was interrupted.
        """
        if self.size == 1:
            return seconds
        everyone = self.all(seconds, float(self.interrupted))
        if everyone[:, 1].any():
            raise KeyboardInterrupt
        return float(everyone[0, 0])

    def must_match(self, what: str, text: str) -> None:
        """Refuses processes that were given different things.

        Raises:
            InputError: What `text` says of them differs.
        """
        everyone = self.all(*map(float, hashlib.sha256(text.encode()).digest()))
        if not torch.equal(everyone, everyone[:1].expand_as(everyone)):
            raise InputError(
                f"processes that train together must have the same {what}, got different ones; "
                f"give all of them the same, or start each without torchrun and process group"
            )

    def exchange(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """The tensors of every process, by rank, on the CPU; only their sizes may differ."""
        if self.size == 1:
            return [tensors]
        sizes = self.all(*(float(n) for tensor in tensors.values() for n in tensor.shape))
        return [self._broadcast(tensors, rank, sizes[rank].tolist()) for rank in range(self.size)]

    def _broadcast(
        self, tensors: dict[str, Tensor], rank: int, sizes: list[float]
    ) -> dict[str, Tensor]:
        left, theirs = iter(sizes), {}
        for name, own in tensors.items():
            shape = [int(next(left)) for _ in own.shape]
            sent = own if rank == self.rank else own.new_empty(shape)
            there = sent.contiguous().to(self.device)
            distributed.broadcast(there, rank)
            theirs[name] = there.cpu()
        return theirs

    def averaging(self, network: nn.Module) -> nn.Module:
        """The network with gradients that are the mean over the processes."""
        if self.size == 1:
            return network
        return nn.parallel.DistributedDataParallel(network)

    @contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Ctrl-C in any process stops all of them at the next `clock`, at the same step.

        Raised at once, as it is where a process is alone, it would leave the others waiting.
        """
        if self.size == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def interrupt(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Asks all processes to stop; one that is alone stops here.

        Raises:
            KeyboardInterrupt: There is no other process.
        """
        if self.size == 1:
            raise KeyboardInterrupt
        self.interrupted = True


def join(device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Meets the other processes, if any; returns this one's place and the device to train on.

    A process group that exists is used. Otherwise a launcher's processes form one, which lasts
    until they end, since a group cannot be formed twice.
    """
    if not _grouped(device):
        return ProcessGroup(), device
    rank, size = distributed.get_rank(), distributed.get_world_size()
    own = _own_device(device)
    exchange = own if distributed.get_backend() == "nccl" else torch.device("cpu")
    return ProcessGroup(rank, size, exchange), own


def _grouped(device: torch.device) -> bool:
    """True where this process is in a group of several, formed now if a launcher wants one."""
    if not distributed.is_available():
        return False
    if not distributed.is_initialized():
        if launch().size == 1:
            return False
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend)
        atexit.register(_part)
    return distributed.get_world_size() > 1


def _part() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _own_device(device: torch.device) -> torch.device:
    """A GPU for each process of a machine, where none is named."""
    if device.type != "cuda" or device.index is not None:
        return device
    place = launch().local if launch().size > 1 else distributed.get_rank()
    own = torch.device("cuda", place % torch.cuda.device_count())
    torch.cuda.set_device(own)
    return own
