"""The arithmetic of a training step, over what the machine can do at the same matrix products."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch

from nrtsi.config import TrainConfig
from nrtsi.core.events import Listener
from nrtsi.network.threads import Threads

__all__ = ["FlopCounter", "fastest_steps", "peak_rate", "training_figures"]

# Modules of torch without types.
aten: Any = torch.ops.aten
flop_counter: Any = import_module("torch.utils.flop_counter")
dispatch: Any = import_module("torch.utils._python_dispatch")

Product = tuple[int, int, int]
"""Rows, inner size and columns of a matrix product."""

IN_A_ROW = 16
"""Products of a thread between two readings of the clock, so that its start matters little."""

LARGEST = 24
"""Products that are timed: those with the most work."""

Train = Callable[[int, Listener], None]
"""Trains for a number of steps and calls a listener after each."""

# torch counts the attention of a GPU only; that of a CPU does the same work.
ATTENTION: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda *args, **_: flop_counter.sdpa_flop_count(*args[:3])
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda *args, **_: flop_counter.sdpa_backward_flop_count(*args[:4])
    ),
}


def training_figures(train: Train, *, draws: int, trainings: int, timings: int) -> dict[str, Any]:
    """The share of the peak arithmetic, and the figures it is made of.

    The same steps are repeated, and each counts with its fastest time, as each product does for
    the peak; the two take turns. A step includes drawing windows.
    """
    steps = draws * TrainConfig().steps_per_draw
    work = _count(train, steps)
    peaks, seconds = [], []
    for _ in range(trainings):
        peaks.append(peak_rate(work.products, timings))
        seconds.append(_step_seconds(train, steps))
    rate, peak = work.operations / fastest_steps(seconds), max(peaks)
    return {
        "matmul_share": rate / peak,
        "training": {
            "steps_per_second": steps / fastest_steps(seconds),
            "gflop_per_step": work.operations / steps / 1e9,
            "gflop_per_second": rate / 1e9,
            "peak_gflop_per_second": peak / 1e9,
            "attention_share": work.attention / work.operations,
        },
    }


class FlopCounter(dispatch.TorchDispatchMode):
    """Counts the operations of matrix products and attention between `begin` and `end`.

    Element-wise operations are not counted, as is usual.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products: Counter[Product] = Counter()
        self._counter = flop_counter.FlopCounterMode(display=False, custom_mapping=ATTENTION)
        self._counting = False

    def begin(self) -> None:
        """Starts counting."""
        self._counting = True
        self._before = self._totals()

    def end(self) -> None:
        """Stops counting."""
        self._counting = False
        both = zip(self._totals(), self._before, strict=True)
        self.operations, self.attention = (after - before for after, before in both)

    def __enter__(self) -> "FlopCounter":
        self._counter.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._counter.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if self._counting and func in (aten.mm.default, aten.addmm.default):
            left, right = args[-2:]
            self.products[left.shape[0], left.shape[1], right.shape[1]] += 1
        return func(*args, **(kwargs or {}))

    def _totals(self) -> tuple[int, int]:
        counts = self._counter.get_flop_counts().get("Global", {})
        return sum(counts.values()), sum(counts.get(each, 0) for each in ATTENTION)


def peak_rate(
    products: Counter[Product], timings: int, rate: Callable[[Product, int], float] | None = None
) -> float:
    """Operations a second of `torch.mm` that makes these products and nothing else.

    Each product counts with the fastest of `timings` tries.
    """
    work = Counter({size: 2 * math.prod(size) * count for size, count in products.items()})
    large = dict(work.most_common(LARGEST))
    return sum(large.values()) / sum(n / (rate or _rate)(s, timings) for s, n in large.items())


def _rate(size: Product, timings: int) -> float:
    """The faster of two ways: all threads at one product, or a product for each thread."""
    rows, inner, columns = size
    left, right = torch.rand(rows, inner), torch.rand(inner, columns)
    threads = Threads(torch.get_num_threads())

    def multiply(outs: list[torch.Tensor]) -> None:
        for out in outs:
            torch.mm(left, right, out=out)

    one = [torch.empty(rows, columns)]
    each = [[torch.empty(rows, columns)] * IN_A_ROW for _ in range(threads.count)]
    together = min(_seconds(lambda: multiply(one)) for _ in range(timings))
    separate = min(_seconds(lambda: threads.map(multiply, each)) for _ in range(timings))
    return 2 * math.prod(size) * max(1 / together, threads.count * IN_A_ROW / separate)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest_steps(seconds: Sequence[Sequence[float]]) -> float:
    """Seconds of all steps of a training, each as fast as in its fastest repetition."""
    return sum(min(times) for times in zip(*seconds, strict=True))


def _step_seconds(train: Train, steps: int) -> list[float]:
    """Seconds of each step after the first, which initialises; a validation follows the last."""
    ticks: list[float] = []
    train(steps + 2, lambda _: ticks.append(time.perf_counter()))
    return [end - begin for begin, end in pairwise(ticks[: steps + 1])]


def _count(train: Train, steps: int) -> FlopCounter:
    """Counts the operations of these steps."""
    made, work = [0], FlopCounter()

    def count(event: object) -> None:
        made[0] += 1
        if made[0] == 1:
            work.begin()
        elif made[0] == 1 + steps:
            work.end()

    # The same pieces of work, but in the thread that counts.
    in_this_thread = patch.object(
        Threads, "map", lambda self, function, items: [*map(function, items)]
    )
    with in_this_thread, work:
        train(steps + 2, count)
    return work
