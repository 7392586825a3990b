"""Work done by several threads: at once, or before it is asked for."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch

__all__ = ["Ahead", "Cores", "cores"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Cores:
    """Threads that share pieces of work, each piece done by one of them."""

    count: int
    pool: ThreadPoolExecutor

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The function of every item, in the order of the items."""
        if self.count == 1 or len(items) == 1:
            return [function(item) for item in items]
        return list(self.pool.map(function, items))


@contextmanager
def cores(device: torch.device) -> Iterator[Cores]:
    """As many threads as PyTorch would use for one piece of work; none of them uses others.

    Small networks are faster so: a core that has its own piece need not wait for another after
    every operation, and what it works on stays in its cache. Beside a GPU one thread prepares what
    comes next while another waits.

    >>> with cores(torch.device("cpu")) as some:
    ...     some.each(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    before = torch.get_num_threads()
    count = before if device.type == "cpu" else 2
    try:
        with ThreadPoolExecutor(count, initializer=partial(torch.set_num_threads, 1)) as pool:
            yield Cores(count, pool)
    finally:
        # A thread sets its own number, and also that of threads yet to come.
        torch.set_num_threads(before)


class Ahead(Generic[Result]):
    """Calls a function of a number, and the one that will be asked for next in the meantime.

    >>> square = Ahead(lambda number: number**2)
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
