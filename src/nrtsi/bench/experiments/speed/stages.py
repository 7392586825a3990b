"""Where the time of imputing goes."""

import inspect
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from nrtsi.inference import Engine
from nrtsi.network import tokens
from nrtsi.network.rows import RowNetwork
from nrtsi.schedule import plan

# The one place that knows how the library divides the work; none of them calls another.
STAGES = {
    "schedule": [(plan, "plan")],
    "gather": [(Engine, "_batches"), (tokens, "tokens")],
    "network": [(RowNetwork, "forward")],
}


def stages(work: Callable[[], object]) -> dict[str, float]:
    """Seconds of each stage, over those of `work` by one thread; what is left is `scatter`."""
    watch = Stopwatch()
    with ExitStack() as timed:
        timed.enter_context(_one_thread())
        for name, functions in STAGES.items():
            for owner, function in functions:
                timed.enter_context(_replaced(getattr(owner, function), watch.around, name))
        begun = time.perf_counter()
        work()
        total = time.perf_counter() - begun
    shares = {name: watch.seconds[name] / total for name in STAGES}
    return shares | {"scatter": 1 - sum(shares.values())}


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Stopwatch:
    """Seconds inside functions, by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Adds the seconds of the block."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begun

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, timed; of a generator the time between items is not its own."""

        def timed(*arguments: Any, **words: Any) -> Any:
            with self.running(name):
                return function(*arguments, **words)

        def timed_items(*arguments: Any, **words: Any) -> Iterator[Any]:
            items, end = function(*arguments, **words), object()
            while True:
                with self.running(name):
                    item = next(items, end)
                if item is end:
                    return
                yield item

        return timed_items if inspect.isgeneratorfunction(function) else timed


@contextmanager
def _replaced(
    function: Callable[..., Any], change: Callable[..., Callable[..., Any]], name: str
) -> Iterator[None]:
    """Puts a changed function wherever nrtsi has the original, under whatever name."""
    new = change(function, name)
    with ExitStack() as patches:
        for place, attribute in _places(function):
            patches.enter_context(patch.object(place, attribute, new))
        yield


def _places(function: Callable[..., Any]) -> list[tuple[Any, str]]:
    modules = [m for name, m in list(sys.modules.items()) if name.partition(".")[0] == "nrtsi"]
    classes = [c for m in modules for c in vars(m).values() if inspect.isclass(c)]
    return [
        (place, attribute)
        for place in dict.fromkeys([*modules, *classes])
        for attribute, value in list(vars(place).items())
        if value is function
    ]
