"""Linear interpolation on sets against numpy's."""

import numpy as np
from hypothesis import given

from nrtsi.interpolation import interpolate, neighbours
from tests.strategies import seeds, some_series


@given(seeds)
def test_interpolation_is_numpy_s_in_every_series_and_channel(seed):
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
def test_neighbours_are_the_nearest_observed_cells_of_the_series(seed):
    series = some_series(seed)
    left, right = neighbours(series)
    for row in range(series.rows):
        i = series.owner[row]
        own = np.arange(series.start[i], series.start[i + 1])
        for channel in range(series.dims):
            seen = own[series.observed[own, channel]]
            assert left[row, channel] == max(seen[seen <= row], default=-1)
            assert right[row, channel] == min(seen[seen >= row], default=-1)
