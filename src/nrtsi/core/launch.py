"""The rank of this process among those that a launcher such as torchrun started."""

import os
from dataclasses import dataclass

__all__ = ["Launch", "launch"]

# PyTorch needs these to find the other processes; a launcher sets all of them.
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """The rank of a process among those started together."""

    rank: int = 0
    size: int = 1

    local: int = 0
    """Rank on this machine."""

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and prints."""
        return self.rank == 0


def launch() -> Launch:
    """The place that the launcher gave this process; alone without a launcher."""
    if any(name not in os.environ for name in NAMES):
        return Launch()
    rank = int(os.environ["RANK"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    return Launch(rank, int(os.environ["WORLD_SIZE"]), local)
