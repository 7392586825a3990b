"""Work done by several threads: at once, or before it is asked for."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier, Lock
from typing import Generic, TypeVar

import torch

__all__ = ["Prefetch", "Threads"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Threads:
    """Threads that share pieces of work, each piece done by one core.

    Small networks are faster so: a core that has its own piece need not wait for another after
    every operation, and what it works on stays in its cache. Beside a GPU one thread prepares what
    comes next while another waits.

    >>> Threads(2).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    @classmethod
    def of(cls, device: torch.device) -> "Threads":
        """As many as PyTorch would use for one piece of work."""
        with _STARTING:
            return cls(torch.get_num_threads() if device.type == "cpu" else 2)

    def close(self) -> None:
        """Ends the threads; what is asked later starts others."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The function of every item, in the order of the items."""
        if self.count == 1 or len(items) == 1:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = _single_threads(self.count)
        # What holds for the caller, such as what numpy warns of, holds for the threads.
        contexts = [copy_context() for _ in items]
        return list(self._pool.map(lambda here, item: here.run(function, item), contexts, items))


# A thread sets its own number of threads and, for all threads yet to come, the number they begin
# with: while some are started, nobody else may look.
_STARTING = Lock()


def _single_threads(count: int) -> ThreadPoolExecutor:
    """Threads whose tensor operations use no other threads."""
    started = Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # a thread that never asked takes the common number when it does
        torch.set_num_threads(1)
        started.wait()

    with _STARTING:
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(count, initializer=begin)
        try:
            for _ in range(count):
                pool.submit(int)
            started.wait()
        except BaseException:
            started.abort()  # or those that did start would wait for ever
            raise
        finally:
            torch.set_num_threads(before)
    return pool


class Prefetch(Generic[Result]):
    """Calls a function of a number, and the one that will be asked for next in the meantime.

    >>> square = Prefetch(lambda number: number**2)
    >>> square(3, following=4), square(4, following=5)
    (9, 16)
    """

    def __init__(self, function: Callable[[int], Result]) -> None:
        self._function = function
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._begun: dict[int, Future[Result]] = {}

    def __call__(self, number: int, *, following: int) -> Result:
        """The function of `number`; that of `following` is begun."""
        begun = self._begun.pop(number, None)
        result = self._function(number) if begun is None else begun.result()
        self._begun = {following: self._worker.submit(self._function, following)}
        return result

    def close(self) -> None:
        """Ends the thread; nothing may be asked any more."""
        self._worker.shutdown(cancel_futures=True)
