"""Properties of every baseline, and comparisons with pandas and closed forms."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from nrtsi.baselines import (
    BASELINES,
    KNN,
    MICE,
    Backward,
    Forward,
    Kalman,
    Linear,
    Mean,
    Seasonal,
    Spline,
)
from nrtsi.core.series import SeriesSet
from nrtsi.errors import NotFittedError
from nrtsi.tables import Clock
from tests.strategies import seeds

needs_statsmodels = pytest.mark.skipif(
    find_spec("statsmodels") is None, reason="pip install 'nrtsi[kalman]' for statsmodels"
)
marks = {"kalman": needs_statsmodels}
every = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks.get(name, ())) for name in BASELINES]
)


def ragged(seed, missing=0.4, series=5, longest=25, dims=3):
    """Series of random lengths and times, with random gaps; every channel observed somewhere."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, longest, size=series)
    rows = int(length.sum())
    start = np.concatenate([[0], np.cumsum(length)])
    time = np.concatenate([np.sort(rng.uniform(0, 50, size=n)) for n in length])
    observed = rng.random((rows, dims)) >= missing
    observed[0] = True
    value = np.where(observed, rng.normal(size=(rows, dims)), 0.0)
    return SeriesSet(time, value, observed, start)


def fitted(name, series):
    imputer = BASELINES[name]()
    imputer.clock_ = Clock("datetime", 0, 3.6e12)  # hours
    imputer.fit_series(series)
    return imputer


def by_series(series):
    for a, b in zip(series.start, series.start[1:], strict=False):
        yield slice(a, b)


@every
@settings(max_examples=5)
@given(seed=seeds, missing=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_every_cell_gets_a_finite_value(name, seed, missing):
    series = ragged(seed, missing)
    imputed = fitted(name, series).impute_series(series)
    assert imputed.shape == series.value.shape
    assert np.isfinite(imputed).all()


@every
@settings(max_examples=5)
@given(seed=seeds)
def test_imputing_changes_neither_the_data_nor_the_imputer(name, seed):
    series = ragged(seed)
    value = series.value.copy()
    imputer = fitted(name, series)
    first = imputer.impute_series(series)
    np.testing.assert_array_equal(series.value, value)
    np.testing.assert_array_equal(imputer.impute_series(series), first)


@every
@settings(max_examples=5)
@given(seed=seeds)
def test_a_series_is_imputed_independently_of_the_others(name, seed):
    series = ragged(seed)
    imputer = fitted(name, series)
    together = imputer.impute_series(series)
    for index, rows in enumerate(by_series(series)):
        alone = imputer.impute_series(series.select(np.array([index])))
        np.testing.assert_allclose(alone, together[rows], atol=1e-6)


@every
@settings(max_examples=5)
@given(seed=seeds, factor=st.sampled_from([-2.0, 1e-3, 1e4]), offset=st.sampled_from([-7.0, 1e3]))
def test_results_scale_with_the_units_of_the_data(name, seed, factor, offset):
    series = ragged(seed)
    changed = SeriesSet(
        series.time,
        np.where(series.observed, factor * series.value + offset, 0.0),
        series.observed,
        series.start,
    )
    plain = fitted(name, series).impute_series(series)
    other = fitted(name, changed).impute_series(changed)
    gap = ~series.observed
    back = (other - offset) / factor
    np.testing.assert_allclose(back[gap], plain[gap], atol=1e-3)


@every
def test_a_constant_channel_is_imputed_with_its_constant(name):
    value = np.full((1, 40, 2), 7.5)
    value[0, :, 1] = np.sin(np.arange(40))
    value[0, 5:9] = np.nan
    value[0, 20:22, 0] = np.nan
    series = SeriesSet.stack(value)
    imputed = fitted(name, series).impute_series(series)
    np.testing.assert_allclose(imputed[:, 0][~series.observed[:, 0]], 7.5, atol=1e-6)


@every
def test_a_single_observed_cell_is_enough(name):
    value = np.full((1, 3, 1), np.nan)
    value[0, 1, 0] = 4.0
    series = SeriesSet.stack(value)
    imputed = fitted(name, series).impute_series(series)
    np.testing.assert_allclose(imputed[[0, 2], 0], 4.0)


@every
def test_new_data_are_imputed_by_the_fitted_method(name):
    imputer = fitted(name, ragged(0))
    fresh = ragged(1)
    assert np.isfinite(imputer.impute_series(fresh)).all()


@every
def test_frames_are_imputed_with_observed_cells_unchanged(name):
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=60, freq="h")
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"], index=hours)
    frame = frame.mask(rng.random((60, 2)) < 0.3)
    imputed = BASELINES[name]().fit(frame).impute(frame)
    assert imputed.notna().all(axis=None)
    pd.testing.assert_frame_equal(imputed.where(frame.notna()), frame, check_exact=True)


@every
def test_a_baseline_follows_the_scikit_learn_api(name):
    imputer = BASELINES[name](columns=["a"])
    assert clone(imputer).get_params() == imputer.get_params()
    with pytest.raises(NotFittedError, match="not fitted; call fit"):
        imputer.impute(pd.DataFrame({"a": [1.0, np.nan]}))


@settings(max_examples=15)
@given(seed=seeds)
def test_linear_forward_and_backward_agree_with_pandas(seed):
    series = ragged(seed)
    mean = np.array([series.value[o, c].mean() for c, o in enumerate(series.observed.T)])
    linear, forward, backward = (
        fitted(name, series).impute_series(series) for name in ("linear", "forward", "backward")
    )
    for rows in by_series(series):
        frame = pd.DataFrame(
            np.where(series.observed[rows], series.value[rows], np.nan), index=series.time[rows]
        )
        fallback = dict(enumerate(mean))
        np.testing.assert_allclose(forward[rows], frame.ffill().bfill().fillna(fallback))
        np.testing.assert_allclose(backward[rows], frame.bfill().ffill().fillna(fallback))
        joined = frame.interpolate(method="index").ffill().bfill().fillna(fallback)
        np.testing.assert_allclose(linear[rows], joined, atol=1e-9)


def test_a_straight_line_is_reproduced_at_any_times():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 10, size=(1, 50)), axis=1)
    truth = np.stack([3 * time - 1, -time], axis=-1)
    value = truth.copy()
    value[:, 1:-1][rng.random((1, 48, 2)) < 0.6] = np.nan
    series = SeriesSet.stack(value, time)
    imputed = fitted("linear", series).impute_series(series)
    np.testing.assert_allclose(imputed, truth.reshape(-1, 2), atol=1e-12)


def test_the_mean_is_that_of_the_data_it_was_fitted_on():
    imputer = fitted("mean", SeriesSet.stack(np.array([[[1.0], [np.nan], [3.0]]])))
    other = SeriesSet.stack(np.array([[[100.0], [np.nan]]]))
    np.testing.assert_array_equal(imputer.impute_series(other), [[2.0], [2.0]])


def test_knn_imputes_a_missing_row_from_its_neighbours_in_time():
    value = np.arange(101.0)[None, :, None].repeat(2, axis=2)
    value[0, 50] = np.nan
    series = SeriesSet.stack(value)
    imputed = fitted("knn", series).impute_series(series)
    np.testing.assert_allclose(imputed[50], 50, atol=1)


def test_mice_finds_linear_relations_of_channels():
    rng = np.random.default_rng(0)
    first = rng.normal(size=(1, 300, 1))
    truth = np.concatenate([first, 2 * first + 1], axis=-1)
    value = truth.copy()
    value[0, ::3, 1] = np.nan
    series = SeriesSet.stack(value)
    imputed = fitted("mice", series).impute_series(series)
    np.testing.assert_allclose(imputed, truth[0], atol=0.02)


class CountRows:
    """Stands for an imputer of scikit-learn, and records how many rows it is fitted on."""

    def fit(self, table):
        self.rows = len(table)


@pytest.mark.parametrize("imputer", [KNN, MICE])
def test_tables_are_fitted_on_a_bounded_number_of_rows(imputer):
    class Small(imputer):
        max_rows = 30

        def sklearn_imputer(self):
            return CountRows()

    small = Small()
    small.fit_series(SeriesSet.stack(np.random.default_rng(0).normal(size=(1, 500, 2))))
    assert small.table_.rows == 30


def test_names_of_the_baselines():
    expected = {
        "linear": Linear,
        "forward": Forward,
        "backward": Backward,
        "mean": Mean,
        "seasonal": Seasonal,
        "spline": Spline,
        "kalman": Kalman,
        "knn": KNN,
        "mice": MICE,
    }
    assert list(BASELINES.items()) == list(expected.items())
