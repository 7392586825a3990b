"""Ragged helpers agree with loops over the groups."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.ragged import (
    concat_ranges,
    count_in_groups,
    cumulative,
    place_in_group,
    split_equally,
)
from tests.strategies import seeds, some_series

sizes = st.lists(st.integers(0, 6), max_size=8).map(lambda size: np.array(size, dtype=np.int64))


@given(sizes, seeds)
def test_ranges_are_concatenated(size, seed):
    begin = np.random.default_rng(seed).integers(0, 50, size.size)
    rows = [row for b, n in zip(begin, size, strict=True) for row in range(b, b + n)]
    assert concat_ranges(begin, begin + size).tolist() == rows
    assert place_in_group(size).tolist() == [place for n in size for place in range(n)]


@given(sizes, st.integers(1, 5))
def test_pieces_cover_every_group_and_differ_by_at_most_one_entry(size, longest):
    start, pieces = cumulative(size), -(-size // longest)
    begin, end = split_equally(start, pieces)
    assert concat_ranges(begin, end).tolist() == list(range(size.sum()))
    group = np.repeat(np.arange(size.size), pieces)
    for index in range(size.size):
        length = (end - begin)[group == index]
        assert length.max(initial=0) <= longest
        assert np.ptp(length) <= 1 if length.size else size[index] == 0


@given(seeds)
def test_cells_are_counted_by_series(seed):
    series = some_series(seed)
    rows = zip(series.start[:-1], series.start[1:], strict=True)
    expected = [series.observed[begin:end].sum() for begin, end in rows]
    assert count_in_groups(series.observed, series.start).tolist() == expected
