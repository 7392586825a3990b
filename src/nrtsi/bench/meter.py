"""Measures the seconds and the memory of a block of code."""

import re
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nrtsi.core.budget_clock import now

__all__ = ["Meter", "peak_memory", "take_turns"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Meter:
    """Measures the block it surrounds."""

    seconds: float = 0.0

    peak_mib: float | None = None
    """Peak memory above the memory in use before; None if the system does not report it."""

    def __enter__(self) -> "Meter":
        try:
            CLEAR.write_text("5")  # Linux: resets the peak to the memory in use now
            self._before = _status("VmRSS")
        except OSError:
            self._before = None
        self._start = now()
        return self

    def __exit__(self, *error: Any) -> None:
        self.seconds = now() - self._start
        peak = peak_memory()
        if self._before is not None and peak is not None:
            self.peak_mib = max(0.0, peak - self._before)


def take_turns(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[Meter]]:
    """Measures each function once a round, so that a slow minute is slow for all of them."""
    meters: dict[str, list[Meter]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            with Meter() as meter:
                work()
            meters[name].append(meter)
    return meters


def peak_memory() -> float | None:
    """The peak memory of this process in MiB; None if the system does not report it."""
    if STATUS.exists():
        return _status("VmHWM")  # not ru_maxrss, which a process inherits on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def _status(name: str) -> float | None:
    """A size in MiB that Linux reports of this process."""
    found = re.search(rf"^{name}:\s+(\d+)", STATUS.read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else None
