"""Threads that map a function over items, and a thread that prefetches the next result."""

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
    """A pool of threads, each of which computes an item on one core.

    Small networks are faster this way than with several cores per operation, because cores do not
    wait for each other. With a GPU, one thread prepares an item while another waits for the GPU.

    >>> Threads(2).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    @classmethod
    def of(cls, device: torch.device) -> "Threads":
        """Returns as many threads as PyTorch uses for one operation, or 2 with a GPU."""
        with _STARTING:
            return cls(torch.get_num_threads() if device.type == "cpu" else 2)

    def close(self) -> None:
        """Ends the threads; a later `map` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Returns the function of every item, in the order of the items."""
        if self.count == 1 or len(items) == 1:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = _single_threads(self.count)
        # Threads inherit context variables of the caller, such as numpy.errstate.
        contexts = [copy_context() for _ in items]
        return list(self._pool.map(lambda here, item: here.run(function, item), contexts, items))


# torch.set_num_threads also sets the initial number of all later threads: no other thread may read
# or set it while some are started.
_STARTING = Lock()


def _single_threads(count: int) -> ThreadPoolExecutor:
    """Starts threads whose tensor operations use a single core."""
    started = Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # the first call in a thread resets its number
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
            started.abort()  # threads that did start must not wait for ever
            raise
        finally:
            torch.set_num_threads(before)
    return pool


class Prefetch(Generic[Result]):
    """Calls a function of a number, and computes the next result in a background thread.

    >>> square = Prefetch(lambda number: number**2)
    >>> square(3, following=4), square(4, following=5)
    (9, 16)
    """

    def __init__(self, function: Callable[[int], Result]) -> None:
        self._function = function
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._started: dict[int, Future[Result]] = {}

    def __call__(self, number: int, *, following: int) -> Result:
        """Returns the function of `number` and starts that of `following`."""
        started = self._started.pop(number, None)
        result = self._function(number) if started is None else started.result()
        self._started = {following: self._worker.submit(self._function, following)}
        return result

    def close(self) -> None:
        """Ends the thread; no call may follow."""
        self._worker.shutdown(cancel_futures=True)
