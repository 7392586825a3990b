"""The scaler is invertible, ignores missing cells, and accepts degenerate channels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet
from tests.strategies import seeds


def gappy(seed, missing=0.3, offset=0.0, size=1.0):
    rng = np.random.default_rng(seed)
    value = offset + size * rng.normal(size=(3, 17, 2))
    value[rng.random(value.shape) < missing] = np.nan
    return SeriesSet.stack(value)


@settings(max_examples=50)
@given(
    seed=seeds,
    missing=st.floats(0, 1),
    offset=st.floats(-1e12, 1e12),
    size=st.floats(1e-6, 1e6),
)
def test_unscaling_undoes_scaling(seed, missing, offset, size):
    series = gappy(seed, missing, offset, size)
    scaler = Scaler.fit(series)
    back = scaler.unscale(scaler.scale(series).value)
    tolerance = 1e-14 * (abs(offset) + 10 * size)
    np.testing.assert_allclose(
        back[series.observed], series.value[series.observed], rtol=0, atol=tolerance
    )


@settings(max_examples=50)
@given(seed=seeds)
def test_observed_cells_get_mean_zero_and_deviation_one(seed):
    series = gappy(seed, offset=50.0, size=7.0)
    scaled = Scaler.fit(series).scale(series)
    for channel in range(series.dims):
        seen = scaled.value[scaled.observed[:, channel], channel]
        assert np.mean(seen) == pytest.approx(0, abs=1e-12)
        assert np.std(seen) == pytest.approx(1, abs=1e-12)


@settings(max_examples=50)
@given(seed=seeds)
def test_scaling_agrees_with_scikit_learn(seed):
    series = gappy(seed, offset=-3.0, size=2.0)
    theirs = StandardScaler().fit(np.where(series.observed, series.value, np.nan))
    ours = Scaler.fit(series)
    np.testing.assert_allclose(ours.offset, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(ours.spread, theirs.scale_, rtol=1e-12)


@settings(max_examples=20)
@given(seed=seeds, junk=st.floats(-1e9, 1e9))
def test_missing_cells_are_ignored(seed, junk):
    series = gappy(seed)
    other = SeriesSet(
        series.time,
        np.where(series.observed, series.value, junk),
        series.observed,
        series.start,
    )
    plain, junked = Scaler.fit(series), Scaler.fit(other)
    np.testing.assert_allclose(junked.offset, plain.offset, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(junked.spread, plain.spread, rtol=1e-9)
    assert not plain.scale(other).value[~series.observed].any()


@pytest.mark.parametrize("constant", [0.0, 0.1, -273.15, 1e15, 1e-300])
def test_a_constant_channel_has_spread_one(constant):
    scaler = Scaler.fit(SeriesSet.stack(np.full((1, 1001, 1), constant)))
    assert scaler.spread[0] == 1.0
    assert scaler.offset[0] == pytest.approx(constant, rel=1e-15)


def test_a_channel_without_observations_has_offset_zero_and_spread_one():
    scaler = Scaler.fit(SeriesSet.stack(np.full((2, 5, 1), np.nan)))
    assert (scaler.offset.tolist(), scaler.spread.tolist()) == ([0.0], [1.0])


def test_scaler_of_an_empty_set():
    scaler = Scaler.fit(SeriesSet.stack(np.zeros((0, 5, 2))))
    assert (scaler.offset.tolist(), scaler.spread.tolist()) == ([0.0, 0.0], [1.0, 1.0])


def test_small_changes_on_a_huge_offset_are_not_lost():
    wave = np.sin(np.arange(1000.0))
    scaler = Scaler.fit(SeriesSet.stack((1e12 + wave)[None, :, None]))
    assert scaler.spread[0] == pytest.approx(np.std(wave), rel=1e-3)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_values_whose_squares_overflow(size):
    wave = np.sin(np.arange(1000.0))
    scaler = Scaler.fit(SeriesSet.stack((size * wave)[None, :, None]))
    assert scaler.spread[0] / size == pytest.approx(np.std(wave), rel=1e-12)


@settings(max_examples=50)
@given(seed=seeds, sizes=st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9)))
def test_shared_scaling_keeps_the_proportions_of_channels(seed, sizes):
    series = gappy(seed, size=np.array(sizes))
    scaler = Scaler.fit(series).shared()
    separate = Scaler.fit(series).spread
    assert (scaler.spread == scaler.spread[0]).all()
    np.testing.assert_allclose(scaler.spread[0], np.sqrt(np.mean(separate**2)))
    back = scaler.unscale(scaler.scale(series).value)
    seen = series.observed
    np.testing.assert_allclose(back[seen], series.value[seen], atol=1e-13 * max(sizes))
