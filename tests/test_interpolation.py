"""Interpolation agrees with numpy; neighbours agree with a search."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.interpolation import Known, interpolate, neighbours
from tests.strategies import seeds, some_series


@given(seeds)
def test_interpolation_agrees_with_numpy(seed):
    series = some_series(seed)
    got = interpolate(series)
    for i in range(series.series):
        own = slice(series.start[i], series.start[i + 1])
        for channel in range(series.dims):
            seen = series.observed[own, channel]
            time, value = series.time[own], series.value[own, channel]
            expected = np.interp(time, time[seen], value[seen]) if seen.any() else 0.0
            np.testing.assert_allclose(got[own, channel], expected, atol=1e-12)


@given(seeds)
def test_neighbours_are_the_nearest_observed_cells(seed):
    series = some_series(seed)
    left, right = neighbours(series)
    for row in range(series.rows):
        i = series.owner[row]
        own = np.arange(series.start[i], series.start[i + 1])
        for channel in range(series.dims):
            seen = own[series.observed[own, channel]]
            assert left[row, channel] == max(seen[seen <= row], default=-1)
            assert right[row, channel] == min(seen[seen >= row], default=-1)


@given(seeds, st.integers(1, 3))
def test_the_nth_neighbours_are_strictly_before_and_after(seed, nth):
    series = some_series(seed)
    rows = np.arange(series.rows)
    left, right = Known.of(series.observed, series.start).around(rows, nth)
    for row in rows:
        i = series.owner[row]
        own = np.arange(series.start[i], series.start[i + 1])
        for channel in range(series.dims):
            seen = own[series.observed[own, channel]].tolist()
            before, after = [s for s in seen if s < row], [s for s in seen if s > row]
            assert left[row, channel] == (before[-nth] if len(before) >= nth else -1)
            assert right[row, channel] == (after[nth - 1] if len(after) >= nth else -1)
