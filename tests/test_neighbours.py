"""What tokens carry of their surroundings, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.core.interpolation import Known, interpolate
from nrtsi.network.neighbour_features import FAR, NeighbourFeatures
from tests.strategies import seeds, some_series


def around(series, rows, gap):
    value = interpolate(series)[rows]
    known = Known.of(series.observed, series.start)
    unit = np.full((rows.size, 1), gap)
    return NeighbourFeatures(series, known, rows, value, unit, known.around(rows)), value


def seen_of(series, row, channel):
    i = series.owner[row]
    own = np.arange(series.start[i], series.start[i + 1])
    seen = own[series.observed[own, channel]].tolist()
    return [s for s in reversed(seen) if s < row], [s for s in seen if s > row]


@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(0.1, 100.0))
def test_slopes_are_those_of_the_straight_lines_between_neighbours(seed, gap):
    series = some_series(seed)
    rows = np.arange(series.rows)
    surroundings, value = around(series, rows, gap)
    got = np.sinh(surroundings.slopes()).reshape(rows.size, 4, series.dims) / gap

    def slope(first, second):
        if first is None or second is None or second[0] <= first[0]:
            return 0.0
        return (second[1] - first[1]) / (second[0] - first[0])

    for row in rows:
        for channel in range(series.dims):
            before, after = (
                [(series.time[s], series.value[s, channel]) for s in side[:2]] + [None, None]
                for side in seen_of(series, row, channel)
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
def test_steps_lead_to_the_neighbours_and_are_nothing_where_there_is_none(seed):
    series = some_series(seed)
    rows = np.arange(series.rows)
    surroundings, value = around(series, rows, 1.0)
    dims = series.dims
    before, after = surroundings.steps()[:, :dims], surroundings.steps()[:, dims : 2 * dims]
    for row in rows:
        for channel in range(dims):
            left, right = seen_of(series, row, channel)
            for step, side in ((before, left), (after, right)):
                expected = series.value[side[0], channel] - value[row, channel] if side else 0.0
                assert step[row, channel] == pytest.approx(expected)


def test_far_and_never_are_the_same_distance():
    series = some_series(0)
    surroundings, _ = around(series, np.arange(series.rows), 1e-6)
    distances = surroundings.steps()[:, 2 * series.dims :]
    assert distances.max() == np.log2(FAR) / 2


def test_the_steepest_slope_of_a_window_is_every_token_s_and_padding_has_no_part_in_it():
    series = some_series(3)
    rows = np.arange(series.rows - series.rows % 2)
    surroundings, _ = around(series, rows, 1.0)
    valid = np.ones((2, rows.size // 2), dtype=bool)
    valid[1, -2:] = False
    got = surroundings.steepest(valid).reshape(*valid.shape, series.dims)
    onwards = np.abs(surroundings.slopes()[:, series.dims : 2 * series.dims])
    by_window = onwards.reshape(*valid.shape, series.dims)
    np.testing.assert_allclose(got[0], np.broadcast_to(by_window[0].max(axis=0), got[0].shape))
    np.testing.assert_allclose(
        got[1], np.broadcast_to(by_window[1, :-2].max(axis=0), got[1].shape)
    )
