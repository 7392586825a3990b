"""The clock that budgets of time to train are kept by."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["going_by", "now"]

Clock = Callable[[], float]

_CLOCK: ContextVar[Clock] = ContextVar("clock", default=time.monotonic)


def now() -> float:
    """Seconds since some moment: by the clock on the wall, unless another was asked for."""
    return _CLOCK.get()()


@contextmanager
def going_by(clock: Clock) -> Iterator[None]:
    """Keeps budgets by another clock.

    `time.process_time` counts the seconds that this process was worked on, by all cores together,
    so that what else a machine has to do makes no training shorter: benchmarks compare by it.

    >>> with going_by(lambda: 7.0):
    ...     now()
    7.0
    """
    before = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(before)
