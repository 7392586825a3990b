"""Work done by another thread before it is asked for."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Ahead", "ahead"]

Item = TypeVar("Item")

_END = object()


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each made by another thread while the one before it is used.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(max_workers=1) as worker:
        following = worker.submit(next, items, _END)
        while (item := following.result()) is not _END:
            following = worker.submit(next, items, _END)
            yield item  # type: ignore[misc]  # the end was told apart above


class Ahead(Generic[Item]):
    """Calls a function of a number, and the one that will be asked for next in the meantime.

    >>> square = Ahead(lambda number: number**2)
    >>> square(3, following=4), square(4, following=5)
    (9, 16)
    """

    def __init__(self, function: Callable[[int], Item]) -> None:
        self._function = function
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._begun: dict[int, Future[Item]] = {}

    def __call__(self, number: int, *, following: int) -> Item:
        """The function of `number`; that of `following` is begun."""
        begun = self._begun.pop(number, None)
        result = self._function(number) if begun is None else begun.result()
        self._begun = {following: self._worker.submit(self._function, following)}
        return result
