"""The clock that budgets of time to train are kept by."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["CLOCKS", "TOLD", "going_by", "now"]

Clock = Callable[[], float]

CLOCKS: dict[str, Clock] = {"wall": time.monotonic, "core": time.process_time}
"""What a second can be: one that passes, or one that this process was worked on, by all cores
together. By the latter, what else a machine has to do makes no training shorter."""

TOLD = {"wall": "", "core": " of cores"}
"""What is told behind a time that was kept by each."""

_CLOCK: ContextVar[Clock] = ContextVar("clock", default=time.monotonic)


def now() -> float:
    """Seconds since some moment: by the clock on the wall, unless another was asked for.

    A thread that was not given its starter's context has the wall's.
    """
    return _CLOCK.get()()


@contextmanager
def going_by(clock: Clock) -> Iterator[None]:
    """Keeps budgets by another clock, such as one of `CLOCKS`.

    >>> with going_by(lambda: 7.0):
    ...     now()
    7.0
    """
    before = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(before)
