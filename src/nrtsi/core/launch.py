"""Which of several processes this one is, when a launcher such as torchrun started them."""

import os
from dataclasses import dataclass

__all__ = ["Launch", "launch"]

# What PyTorch needs to find the other processes; a launcher sets all of them.
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """A place among the processes that were started together."""

    rank: int = 0
    size: int = 1

    local: int = 0
    """Place among those on this machine."""

    @property
    def leads(self) -> bool:
        """True for the one process that writes and speaks."""
        return self.rank == 0


def launch() -> Launch:
    """What the launcher said; alone where there is none."""
    if any(name not in os.environ for name in NAMES):
        return Launch()
    rank = int(os.environ["RANK"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    return Launch(rank, int(os.environ["WORLD_SIZE"]), local)
