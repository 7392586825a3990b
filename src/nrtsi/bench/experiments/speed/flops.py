"""Floating point operations: how many were done, and how many a second there could be."""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from nrtsi.network.threads import Threads

aten = torch.ops.aten

Product = tuple[int, int, int]
"""Rows, inner size and columns of a product of matrices."""

IN_A_ROW = 16
"""Products that a core makes between two looks at the clock: waking it counts for little."""

LARGEST = 24
"""Products that are tried: those with the most work."""


def _forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _backward(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_backward_flop_count(grad, query, key, value)


# torch knows how to count the attention of a GPU only; that of a CPU does the same work.
ATTENTION = {
    aten._scaled_dot_product_flash_attention_for_cpu: _forward,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _backward,
}


class Arithmetic(TorchDispatchMode):
    """Counts the operations of products and attention, forward and backward, between two calls.

    Element-wise work is not counted, as is usual; it takes its time all the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products: Counter[Product] = Counter()
        self._counter = FlopCounterMode(display=False, custom_mapping=ATTENTION)
        self._counting = False

    def begin(self) -> None:
        """From here on."""
        self._counting = True
        self._before = self._totals()

    def end(self) -> None:
        """Up to here."""
        self._counting = False
        both = zip(self._totals(), self._before, strict=True)
        self.operations, self.attention = (after - before for after, before in both)

    def __enter__(self) -> "Arithmetic":
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


def peak(products: Counter[Product], timings: int) -> float:
    """Operations a second of `torch.mm` doing these very products and nothing else.

    Each takes the time of the fastest of `timings` tries. Only those that make up most of the work
    are tried.
    """
    work = Counter({size: 2 * math.prod(size) * count for size, count in products.items()})
    large = dict(work.most_common(LARGEST))
    return sum(large.values()) / sum(n / _rate(size, timings) for size, n in large.items())


def _rate(size: Product, timings: int) -> float:
    """The faster of two ways: all threads at one product, or each core at one of its own."""
    rows, inner, columns = size
    left, right = torch.rand(rows, inner), torch.rand(inner, columns)
    threads = Threads(torch.get_num_threads())

    def multiply(out: torch.Tensor) -> None:
        torch.mm(left, right, out=out)

    def several(outs: list[torch.Tensor]) -> None:
        for out in outs:
            torch.mm(left, right, out=out)

    one = torch.empty(rows, columns)
    each = [[torch.empty(rows, columns)] * IN_A_ROW for _ in range(threads.count)]
    together = min(_seconds(lambda: multiply(one)) for _ in range(timings))
    apart = min(_seconds(lambda: threads.each(several, each)) for _ in range(timings))
    return 2 * math.prod(size) * max(1 / together, threads.count * IN_A_ROW / apart)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
