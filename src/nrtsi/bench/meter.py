"""Seconds and memory that a piece of work took."""

from pathlib import Path
from types import TracebackType

from nrtsi.core.budget_clock import now

__all__ = ["Meter"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Meter:
    """Measures the block it is around.

    >>> with Meter() as meter:
    ...     numbers = list(range(10))
    >>> meter.seconds >= 0
    True
    """

    seconds: float = 0.0

    peak_mib: float | None = None
    """Most memory in use above what was in use before; None where the system does not tell."""

    def __enter__(self) -> "Meter":
        self._before = self._resident()
        self._begun = now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = now() - self._begun
        peak = _status("VmHWM")
        if self._before is not None and peak is not None:
            self.peak_mib = max(0.0, peak - self._before)

    @staticmethod
    def _resident() -> float | None:
        """Memory in use now, in MiB, after the system has been told to forget its peak."""
        try:
            CLEAR.write_text("5")  # Linux: the peak becomes what is in use now
        except OSError:
            return None
        return _status("VmRSS")


def _status(name: str) -> float | None:
    """A size from the system's record of this process, in MiB."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) / 1024 if found else None
