"""The clock that measures training budgets."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["CLOCKS", "CLOCK_LABELS", "now", "use_clock"]

TimeSource = Callable[[], float]

# Wall time, or processor time of this process, which other processes do not shorten.
CLOCKS: dict[str, TimeSource] = {"wall": time.monotonic, "core": time.process_time}
CLOCK_LABELS = {"wall": "", "core": " of cores"}  # follow a time measured by each clock

_CLOCK: ContextVar[TimeSource] = ContextVar("clock", default=time.monotonic)


def now() -> float:
    """Seconds of the current clock; wall time by default, and in threads without a context."""
    return _CLOCK.get()()


@contextmanager
def use_clock(clock: TimeSource) -> Iterator[None]:
    """Measures budgets by another clock, such as one of `CLOCKS`.

    >>> with use_clock(lambda: 7.0):
    ...     now()
    7.0
    """
    before = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(before)
