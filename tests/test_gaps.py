"""Gaps agree with a search cell by cell; bins are powers of two."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.gaps import GAP_BINS, Gaps, gap_bin, gap_bin_range
from nrtsi.core.series import SeriesSet
from tests.strategies import seeds, some_series


def searched(series):
    """Length, openness and first row of the gap of every cell, by a search in both directions."""
    length, is_open = np.zeros(series.value.shape), np.zeros(series.value.shape, dtype=bool)
    first = np.full(series.value.shape, -1)
    for begin, end in zip(series.start[:-1], series.start[1:], strict=True):
        for row in range(begin, end):
            for dim in range(series.dims):
                seen = series.observed[:, dim]
                if seen[row]:
                    continue
                before = [each for each in range(begin, row) if seen[each]]
                after = [each for each in range(row, end) if seen[each]]
                low, high = (before or [begin])[-1], (after or [end - 1])[0]
                length[row, dim] = series.time[high] - series.time[low]
                is_open[row, dim] = not (before and after)
                first[row, dim] = before[-1] + 1 if before else begin
                if not before and not after:
                    length[row, dim] = np.inf
    return length, is_open, first


@given(seeds)
def test_gaps_agree_with_a_search(seed):
    series = some_series(seed)
    gaps = Gaps.of(series)
    length, is_open, first = searched(series)
    np.testing.assert_array_equal(gaps.length, length)
    np.testing.assert_array_equal(gaps.open, is_open)
    # Cells have the same number if they are in the same channel and their gap has the same start.
    row, dim = np.nonzero(first >= 0)
    numbers = {}
    for key, number in zip(
        zip(dim, first[row, dim], strict=True), gaps.number[row, dim], strict=True
    ):
        assert numbers.setdefault(key, number) == number
    assert len(set(numbers.values())) == len(numbers)
    np.testing.assert_array_equal(gaps.number == -1, series.observed)


@given(seeds)
def test_gaps_of_a_channel_do_not_depend_on_the_others(seed):
    series = some_series(seed)
    gaps = Gaps.of(series)
    for dim in range(series.dims):
        own = slice(dim, dim + 1)
        alone = Gaps.of(
            SeriesSet(series.time, series.value[:, own], series.observed[:, own], series.start)
        )
        np.testing.assert_array_equal(alone.length, gaps.length[:, own])
        np.testing.assert_array_equal(alone.open, gaps.open[:, own])
        np.testing.assert_array_equal(alone.gap_bin, gaps.gap_bin[:, own])


@given(seeds)
def test_gaps_of_a_series_do_not_depend_on_the_others(seed):
    series = some_series(seed)
    gaps = Gaps.of(series)
    for each in range(series.series):
        alone = Gaps.of(series.select(np.array([each])))
        rows = slice(series.start[each], series.start[each + 1])
        np.testing.assert_array_equal(alone.length, gaps.length[rows])
        np.testing.assert_array_equal(alone.open, gaps.open[rows])


def test_gaps_at_the_ends_of_adjacent_series_differ():
    value = np.array([[[1.0], [np.nan]], [[np.nan], [1.0]], [[np.nan], [np.nan]]])
    gaps = Gaps.of(SeriesSet.stack(value))
    assert np.unique(gaps.number[gaps.number >= 0]).size == 3
    assert gaps.length.ravel().tolist() == [0, 1, 1, 0, np.inf, np.inf]
    assert gaps.gap_bin.ravel().tolist() == [-1, 0, 0, -1, GAP_BINS - 1, GAP_BINS - 1]


def test_empty_series_and_empty_sets_have_no_gaps():
    nothing = SeriesSet.stack(np.zeros((0, 3, 2)))
    assert Gaps.of(nothing).gap_bin.shape == (0, 2)
    value = np.array([[[np.nan], [2.0]]])
    with_empty = SeriesSet(
        np.arange(2.0), np.nan_to_num(value[0]), ~np.isnan(value[0]), np.array([0, 0, 2, 2])
    )
    assert Gaps.of(with_empty).length.ravel().tolist() == [1, 0]


def test_a_gap_at_an_end_counts_as_twice_as_long():
    value = np.full((1, 8, 1), np.nan)
    value[0, :2] = 1.0  # the last of six missing cells is six steps from an observation
    gaps = Gaps.of(SeriesSet.stack(value))
    assert gaps.length[-1, 0] == 6
    assert gaps.gap_bin[-1, 0] == gap_bin(np.array(12.0)) == 3


@given(st.floats(min_value=1e-9, max_value=1e12), st.floats(min_value=1.0, max_value=1e3))
def test_bins_contain_their_range_and_are_monotone(length, times):
    index = int(gap_bin(np.array(length)))
    low, high = gap_bin_range(index)
    assert low * (1 - 1e-8) < length <= high * (1 + 1e-8)
    assert gap_bin(np.array(length * times)) >= index


@given(st.integers(1, GAP_BINS + 5))
def test_powers_of_two_are_in_the_lower_bin_up_to_rounding(power):
    length = 2.0**power
    around = np.array([length * (1 - 1e-12), length, length * (1 + 1e-12)])
    assert (gap_bin(around) == min(power - 1, GAP_BINS - 1)).all()
