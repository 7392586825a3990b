"""How much of what the machine can multiply a training step does multiply."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from nrtsi.bench.methods import Ours
from nrtsi.network.rows import RowNetwork
from nrtsi.network.threads import Threads
from nrtsi.training.trainer import STEPS_A_DRAW
from speeds.arithmetic import Arithmetic, peak
from speeds.billiards import lesson
from speeds.sizes import Sizes

NEVER = 10**9


def training(sizes: Sizes) -> dict[str, object]:
    """The share of the peak, and what it is made of.

    The same steps are made again and again, and each counts with its fastest time, as each product
    does for the peak; the two take turns. Steps are whole ones, drawing of questions included.
    """
    steps = sizes.draws * STEPS_A_DRAW
    work, tokens = _counted(steps)
    peaks, seconds = [], []
    for _ in range(sizes.trainings):
        peaks.append(peak(work.products, sizes.timings))
        seconds.append(_seconds(steps))
    done, best = work.operations / fastest_steps(seconds), max(peaks)
    return {
        "matmul_share": done / best,
        "training": {
            "steps_per_second": steps / fastest_steps(seconds),
            "gflop_per_step": work.operations / steps / 1e9,
            "gflop_per_second": done / 1e9,
            "peak_gflop_per_second": best / 1e9,
            "attention_share": work.attention / work.operations,
            "tokens_not_padding": tokens,
            "products": [[*size, count / steps] for size, count in work.products.most_common(8)],
        },
    }


def fastest_steps(seconds: Sequence[Sequence[float]]) -> float:
    """Seconds of all steps of a training, each as fast as in its fastest repetition."""
    return sum(min(times) for times in zip(*seconds, strict=True))


def _seconds(steps: int) -> list[float]:
    """Of each step after the first, in which everything is new."""
    ticks: list[float] = []
    _train(steps, lambda: ticks.append(time.perf_counter()))
    return [end - begin for begin, end in pairwise(ticks[: steps + 1])]


def _counted(steps: int) -> tuple[Arithmetic, float]:
    """What these steps compute, and which share of the tokens they compute on is no padding."""
    made, work = [0], Arithmetic()
    shares: list[float] = []

    def count() -> None:
        made[0] += 1
        if made[0] == 1:
            work.begin()
            shares.clear()
        elif made[0] == 1 + steps:
            work.end()

    with _tokens(shares.append), _one_after_another(), work:
        _train(steps, count)
    return work, sum(shares) / len(shares)


@contextmanager
def _one_after_another() -> Iterator[None]:
    """The same pieces of work, in the thread that counts."""
    each = Threads.each
    Threads.each = lambda self, function, items: [function(item) for item in items]
    try:
        yield
    finally:
        Threads.each = each


def _train(steps: int, after_a_step: Callable[[], None]) -> None:
    """Makes so many steps after a first one, and then a last, which a validation follows."""
    ours = Ours(seed=0, preset="base", train={"validate_every": NEVER})
    ours.fit(lesson(steps + 2, lambda _: after_a_step()))


@contextmanager
def _tokens(tell: Callable[[float], None]) -> Iterator[None]:
    """Tells, for every batch a network reads, which share of its tokens is no padding."""

    def look(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if isinstance(module, RowNetwork):
            tell(float(arguments[0].valid.float().mean()))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        yield
    finally:
        hook.remove()
