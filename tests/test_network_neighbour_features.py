"""Neighbour features of tokens, compared with plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.core.interpolation import Known, interpolate
from nrtsi.network.features import NeighbourFeatures
from tests.strategies import seeds, some_series


def features_of(series, rows, unit):
    value = interpolate(series)[rows]
    known = Known.of(series.observed, series.start)
    units = np.full((rows.size, 1), unit)
    return NeighbourFeatures(series, known, rows, value, units, known.around(rows)), value


def known_around(series, row, channel):
    i = series.owner[row]
    own = np.arange(series.start[i], series.start[i + 1])
    seen = own[series.observed[own, channel]].tolist()
    return [s for s in reversed(seen) if s < row], [s for s in seen if s > row]


@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(0.1, 100.0))
def test_slopes_are_those_of_the_straight_lines_between_neighbours(seed, unit):
    series = some_series(seed)
    rows = np.arange(series.rows)
    features, value = features_of(series, rows, unit)
    got = np.sinh(features.slopes()).reshape(rows.size, 4, series.dims) / unit

    def slope(first, second):
        if first is None or second is None or second[0] <= first[0]:
            return 0.0
        return (second[1] - first[1]) / (second[0] - first[0])

    for row in rows:
        for channel in range(series.dims):
            before, after = (
                [(series.time[s], series.value[s, channel]) for s in side[:2]] + [None, None]
                for side in known_around(series, row, channel)
            )
            own = series.time[row], value[row, channel]
            expected = [
                slope(before[0], own),
                slope(own, after[0]),
                slope(before[1], before[0]),
                slope(after[0], after[1]),
            ]
            np.testing.assert_allclose(got[row, :, channel], expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_differences_to_neighbours_are_0_if_there_is_none(seed):
    series = some_series(seed)
    rows = np.arange(series.rows)
    features, value = features_of(series, rows, 1.0)
    dims = series.dims
    before, after = (
        features.differences(64.0)[:, :dims],
        features.differences(64.0)[:, dims : 2 * dims],
    )
    for row in rows:
        for channel in range(dims):
            left, right = known_around(series, row, channel)
            for step, side in ((before, left), (after, right)):
                expected = series.value[side[0], channel] - value[row, channel] if side else 0.0
                assert step[row, channel] == pytest.approx(expected)


def test_a_far_neighbour_and_no_neighbour_have_the_same_distance():
    series = some_series(0)
    features, _ = features_of(series, np.arange(series.rows), 1e-6)
    distances = features.differences(64.0)[:, 2 * series.dims :]
    assert distances.max() == np.log2(64.0) / 2


def test_all_tokens_of_a_window_have_its_steepest_slope_without_padding():
    series = some_series(3)
    rows = np.arange(series.rows - series.rows % 2)
    features, _ = features_of(series, rows, 1.0)
    valid = np.ones((2, rows.size // 2), dtype=bool)
    valid[1, -2:] = False
    got = features.max_slope(valid).reshape(*valid.shape, series.dims)
    onwards = np.abs(features.slopes()[:, series.dims : 2 * series.dims])
    by_window = onwards.reshape(*valid.shape, series.dims)
    np.testing.assert_allclose(got[0], np.broadcast_to(by_window[0].max(axis=0), got[0].shape))
    np.testing.assert_allclose(
        got[1], np.broadcast_to(by_window[1, :-2].max(axis=0), got[1].shape)
    )
