"""Threads and prefetching: the same results in the same order, and no lasting side effects."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.network.threads import Prefetch, Threads


@given(st.lists(st.integers(), max_size=20), st.integers(1, 3))
@settings(max_examples=20)
def test_map_equals_a_loop(items, count):
    assert Threads(count).map(lambda item: item * 2, items) == [item * 2 for item in items]


def test_each_thread_uses_one_core_and_the_caller_keeps_its_number():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert set(Threads(2).map(lambda _: torch.get_num_threads(), range(4))) == {1}
        assert torch.get_num_threads() == 3
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert later == [3]
    finally:
        torch.set_num_threads(before)


def test_threads_inherit_numpy_errstate():
    with np.errstate(over="ignore"):
        assert Threads(2).map(lambda _: float(np.float32(1e30) ** 2), [1, 2]) == [np.inf, np.inf]


def test_an_exception_in_a_thread_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        Threads(2).map(lambda item: 1 / item, [1, 0, 2])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
@settings(max_examples=20)
def test_prefetched_results_equal_direct_calls(calls):
    square = Prefetch(lambda number: number**2)
    for number, following in calls:
        assert square(number, following=following) == number**2


def test_the_next_result_is_computed_ahead():
    begun = threading.Event()
    ahead = Prefetch(lambda number: begun.set() if number == 1 else None)
    ahead(0, following=1)
    assert begun.wait(5)
