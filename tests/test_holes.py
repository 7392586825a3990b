"""Gaps as users see them: against a search cell by cell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.gaps import GAP_BINS, Gaps, gap_bin, gap_bin_range
from nrtsi.core.series import SeriesSet
from tests.strategies import seeds, some_series


def searched(series):
    """Length, whether it is open, and first cell of the gap of every cell, found by walking."""
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
def test_gaps_are_those_found_by_walking(seed):
    series = some_series(seed)
    gaps = Gaps.of(series)
    length, is_open, first = searched(series)
    np.testing.assert_array_equal(gaps.length, length)
    np.testing.assert_array_equal(gaps.open, is_open)
    # Two cells have one number where they are of one channel and their gap begins at one row.
    row, dim = np.nonzero(first >= 0)
    numbers = {}
    for key, number in zip(
        zip(dim, first[row, dim], strict=True), gaps.number[row, dim], strict=True
    ):
        assert numbers.setdefault(key, number) == number
    assert len(set(numbers.values())) == len(numbers)
    np.testing.assert_array_equal(gaps.number == -1, series.observed)


@given(seeds)
def test_every_channel_has_gaps_of_its_own(seed):
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
def test_the_series_beside_it_changes_no_gap(seed):
    series = some_series(seed)
    gaps = Gaps.of(series)
    for each in range(series.series):
        alone = Gaps.of(series.select(np.array([each])))
        rows = slice(series.start[each], series.start[each + 1])
        np.testing.assert_array_equal(alone.length, gaps.length[rows])
        np.testing.assert_array_equal(alone.open, gaps.open[rows])


def test_series_that_miss_their_ends_share_no_gap():
    gone = np.array([[[1.0], [np.nan]], [[np.nan], [1.0]], [[np.nan], [np.nan]]])
    gaps = Gaps.of(SeriesSet.stack(gone))
    assert np.unique(gaps.number[gaps.number >= 0]).size == 3
    assert gaps.length.ravel().tolist() == [0, 1, 1, 0, np.inf, np.inf]
    assert gaps.gap_bin.ravel().tolist() == [-1, 0, 0, -1, GAP_BINS - 1, GAP_BINS - 1]


def test_series_without_rows_and_no_series_at_all_have_no_gaps():
    nothing = SeriesSet.stack(np.zeros((0, 3, 2)))
    assert Gaps.of(nothing).gap_bin.shape == (0, 2)
    value = np.array([[[np.nan], [2.0]]])
    with_empty = SeriesSet(
        np.arange(2.0), np.nan_to_num(value[0]), ~np.isnan(value[0]), np.array([0, 0, 2, 2])
    )
    assert Gaps.of(with_empty).length.ravel().tolist() == [1, 0]


def test_a_gap_at_an_end_counts_as_one_twice_as_long():
    value = np.full((1, 8, 1), np.nan)
    value[0, :2] = 1.0  # six cells follow, six steps from the last observation
    gaps = Gaps.of(SeriesSet.stack(value))
    assert gaps.length[-1, 0] == 6
    assert gaps.gap_bin[-1, 0] == gap_bin(np.array(12.0)) == 3


@given(st.floats(min_value=1e-9, max_value=1e12), st.floats(min_value=1.0, max_value=1e3))
def test_a_bucket_holds_what_its_range_says_and_longer_gaps_are_in_no_lower_one(length, times):
    bucket = int(gap_bin(np.array(length)))
    low, high = gap_bin_range(bucket)
    assert low * (1 - 1e-8) < length <= high * (1 + 1e-8)
    assert gap_bin(np.array(length * times)) >= bucket


@given(st.integers(1, GAP_BINS + 5))
def test_powers_of_two_belong_below_even_where_times_are_not_quite_even(power):
    length = 2.0**power
    around = np.array([length * (1 - 1e-12), length, length * (1 + 1e-12)])
    assert (gap_bin(around) == min(power - 1, GAP_BINS - 1)).all()
