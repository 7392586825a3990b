"""The seasonal profile, the spline and the Kalman smoother, compared with other libraries."""

import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from nrtsi.baselines import BASELINES
from nrtsi.baselines.kalman import best_observed_slots
from nrtsi.baselines.local_level import fit_local_level
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables import Clock
from tests.strategies import seeds

HOUR = 3.6e12
HOURLY = Clock("datetime", 0, HOUR)
few = settings(max_examples=3)


needs_statsmodels = pytest.mark.skipif(
    find_spec("statsmodels") is None, reason="pip install 'nrtsi[kalman]' for statsmodels"
)
every = pytest.mark.parametrize(
    "name", ["seasonal", "spline", pytest.param("kalman", marks=needs_statsmodels)]
)


def panel(seed, series=3, days=3, dims=1, missing=0.3):
    """Hourly sensors of different levels with a daily wave and noise, and random gaps."""
    rng = np.random.default_rng(seed)
    hour = np.arange(24.0 * days)
    wave = np.sin(2 * np.pi * hour / 24)[None, :, None] * rng.uniform(1, 2, (1, 1, dims))
    level = rng.normal(size=(series, 1, dims)) * 10
    value = level + wave + 0.2 * rng.normal(size=(series, hour.size, dims))
    value[rng.random(value.shape) < missing] = np.nan
    return SeriesSet.stack(value)


def fitted(name, series, clock=HOURLY):
    imputer = BASELINES[name]()
    imputer.clock_ = clock
    imputer.fit_series(series)
    return imputer


def imputed(name, series, clock=HOURLY):
    return fitted(name, series, clock).impute_series(series)


def frame_of(series, channel=0):
    """One channel as a table, with the hour of the day and the weekday."""
    time = pd.Timestamp(0) + pd.to_timedelta(np.rint(series.time), unit="h")
    value = np.where(series.observed[:, channel], series.value[:, channel], np.nan)
    table = pd.DataFrame({"series": series.owner, "time": time, "value": value})
    return table.assign(hour=time.hour, weekday=time.day_of_week)


# All three


@every
@few
@given(seed=seeds)
def test_the_values_of_missing_cells_are_ignored(name, seed):
    series = panel(seed)
    other = replace(series, value=np.where(series.observed, series.value, 99.0))
    np.testing.assert_allclose(imputed(name, other), imputed(name, series), atol=1e-9)


@every
@few
@given(seed=seeds)
def test_the_order_of_series_does_not_matter(name, seed):
    series = panel(seed)
    order = np.random.default_rng(seed).permutation(series.series)
    plain = imputed(name, series).reshape(series.series, -1, series.dims)
    other = imputed(name, series.select(order)).reshape(plain.shape)
    # With ties, the segments that the variances are fitted on depend on the order.
    np.testing.assert_allclose(other, plain[order], atol=1e-3)


@every
def test_a_series_without_a_channel_gets_a_typical_value(name):
    series = panel(0)
    cells = np.zeros_like(series.observed)
    cells[: series.start[1], 0] = True
    series = series.hide(cells)
    rows, mean = slice(0, series.start[1]), series.value[series.observed[:, 0], 0].mean()
    assert imputed(name, series)[rows, 0].mean() == pytest.approx(mean, abs=0.2)


@every
def test_a_frame_with_datetimes_is_imputed(name):
    series = panel(1, series=1)
    time = pd.date_range("2024-01-01", periods=series.rows, freq="h", tz="Asia/Tokyo")
    values = np.where(series.observed, series.value, np.nan)
    frame = pd.DataFrame(values, columns=["a"]).assign(time=time)
    result = BASELINES[name]().fit(frame).impute(frame)
    expected = np.where(series.observed, series.value, imputed(name, series))
    np.testing.assert_allclose(result[["a"]], expected, atol=1e-9)


# Seasonal


@few
@given(seed=seeds, days=st.integers(3, 20))
def test_seasonal_reproduces_a_daily_pattern_at_any_level(seed, days):
    rng = np.random.default_rng(seed)
    day = rng.normal(size=24)
    truth = np.tile(day, days)[None, :, None] + 100 * rng.normal(size=(3, 1, 1))
    value = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
    value[0] = truth[0]  # so that every hour is known
    series = SeriesSet.stack(value)
    np.testing.assert_allclose(imputed("seasonal", series), truth.reshape(-1, 1), atol=1e-4)


def test_seasonal_reproduces_a_weekly_pattern():
    rng = np.random.default_rng(0)
    truth = np.tile(rng.normal(size=24 * 7), 6)
    value = truth.copy()
    value[200:260] = np.nan
    series = SeriesSet.stack(value[None, :, None])
    np.testing.assert_allclose(imputed("seasonal", series)[:, 0], truth, atol=1e-9)


def test_rows_that_are_days_have_weekdays():
    truth = np.tile(np.arange(7.0), 8)
    value = np.where(np.arange(56) % 11 == 3, np.nan, truth)
    daily = Clock("datetime", 0, 24 * HOUR)
    series = SeriesSet.stack(value[None, :, None])
    np.testing.assert_allclose(imputed("seasonal", series, daily)[:, 0], truth, atol=1e-9)


@few
@given(seed=seeds)
def test_seasonal_agrees_with_pandas_for_one_series(seed):
    series = panel(seed, series=1, days=10)
    table = frame_of(series)
    usual = table.groupby("hour")["value"].transform("mean")
    np.testing.assert_allclose(imputed("seasonal", series)[:, 0], usual, atol=1e-9)


def test_weekdays_differ_only_if_that_lowers_the_error():
    series = panel(0, series=1, days=42, missing=0.1)
    table = frame_of(series)
    by_hour = table.groupby("hour")["value"].transform("mean")
    np.testing.assert_allclose(imputed("seasonal", series)[:, 0], by_hour, atol=1e-9)
    busy = np.where(table["weekday"] < 5, 3.0, 0.0)
    value = np.where(series.observed, series.value + busy[:, None], 0.0)
    series = replace(series, value=value)
    table = frame_of(series)
    groups = table.groupby(["weekday", "hour"])["value"]
    by_weekday = groups.transform("mean")
    assert groups.count().min() > 1
    np.testing.assert_allclose(imputed("seasonal", series)[:, 0], by_weekday, atol=1e-9)


def test_less_than_two_weeks_have_no_weekdays():
    truth = np.tile(np.repeat([0.0, 5.0], [5 * 24, 2 * 24]), 2)[: 13 * 24]
    series = SeriesSet.stack(truth[None, :, None])
    first, second = imputed("seasonal", series)[[0, 5 * 24], 0]
    assert first == second


def test_an_unobserved_hour_gets_the_mean_of_the_series():
    value = np.tile(np.where(np.arange(24) == 5, np.nan, 1.0 * (np.arange(24) < 12)), 6)
    series = SeriesSet.stack(np.stack([value, value + 50])[:, :, None])
    result = imputed("seasonal", series).reshape(2, -1)
    np.testing.assert_allclose(result[:, 5], np.nanmean([value, value + 50], axis=1))


def test_a_jitter_of_seconds_changes_nothing():
    series = panel(0, series=1)
    jitter = np.random.default_rng(0).uniform(-1, 1, series.rows) / 3600
    moved = replace(series, time=series.time + jitter)
    np.testing.assert_array_equal(imputed("seasonal", moved), imputed("seasonal", series))


def test_a_day_has_no_more_than_96_slots():
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(1, 3000, 1)))
    assert fitted("seasonal", series, Clock("datetime", 0, HOUR / 60)).slots_ == 96


@pytest.mark.parametrize("clock", [None, Clock("number", 0, 1.0)])
def test_seasonal_needs_datetimes(clock):
    with pytest.raises(InputError, match=r"seasonal needs times that are datetimes.*time="):
        fitted("seasonal", panel(0), clock)


def test_seasonal_needs_a_unit_of_a_day_or_less():
    with pytest.raises(InputError, match=r"unit of time of a day or less, got 7 days; set unit"):
        fitted("seasonal", panel(0), Clock("datetime", 0, 7 * 24 * HOUR))


# Spline


def uneven(seed, series=5, longest=25, missing=0.5, dims=2):
    """Series of random lengths and times, with random gaps."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, longest, series)
    start = np.concatenate([[0], np.cumsum(length)])
    time = np.concatenate([np.cumsum(rng.uniform(0.01, 5, size)) for size in length])
    observed = rng.random((time.size, dims)) >= missing
    observed[0] = True
    value = np.where(observed, rng.normal(size=observed.shape).round(1), 0.0)
    return SeriesSet(time, value, observed, start)


@settings(max_examples=25)
@given(seed=seeds)
def test_the_spline_agrees_with_scipy(seed):
    series = uneven(seed)
    result, line = imputed("spline", series), imputed("linear", series)
    for begin, end in zip(series.start[:-1], series.start[1:], strict=True):
        for channel in range(series.dims):
            time, seen = series.time[begin:end], series.observed[begin:end, channel]
            expected = line[begin:end, channel].copy()
            if seen.sum() > 1:
                known = time[seen]
                inside = (time >= known[0]) & (time <= known[-1])
                curve = PchipInterpolator(known, series.value[begin:end, channel][seen])
                expected[inside] = curve(time[inside])
            np.testing.assert_allclose(result[begin:end, channel], expected, atol=1e-9)


@settings(max_examples=25)
@given(seed=seeds)
def test_the_spline_stays_between_the_known_cells_around_it(seed):
    series = uneven(seed)
    result = imputed("spline", series)
    low = np.minimum(imputed("forward", series), imputed("backward", series))
    high = np.maximum(imputed("forward", series), imputed("backward", series))
    assert ((result >= low - 1e-9) & (result <= high + 1e-9)).all()


def test_the_spline_reproduces_a_straight_line():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 10, (2, 50)), axis=1)
    truth = (3 * time - 1)[:, :, None]
    value = truth.copy()
    value[:, 1:-1][rng.random((2, 48, 1)) < 0.6] = np.nan
    series = SeriesSet.stack(value, time)
    np.testing.assert_allclose(imputed("spline", series), truth.reshape(-1, 1), atol=1e-9)


def test_the_spline_is_closer_to_a_smooth_curve_than_linear_interpolation():
    truth = np.sin(np.arange(200) / 5)
    value = np.where(np.arange(200) % 4, np.nan, truth)
    series = SeriesSet.stack(value[None, :, None])
    curve, line = (imputed(name, series)[:, 0] - truth for name in ("spline", "linear"))
    assert np.mean(curve**2) < 0.5 * np.mean(line**2)


# Kalman


def seasonal_walk(seed, rows=400):
    """A daily wave on a level that wanders, with noise and a long gap."""
    rng = np.random.default_rng(seed)
    hour = np.arange(rows)
    truth = np.sin(2 * np.pi * hour / 24) + np.cumsum(0.05 * rng.normal(size=rows))
    value = truth + 0.1 * rng.normal(size=rows)
    value[rng.random(rows) < 0.1] = np.nan
    value[150:180] = np.nan
    return SeriesSet.stack(value[None, :, None]), truth


@needs_statsmodels
@pytest.mark.parametrize("period", [None, 24.0])
@pytest.mark.filterwarnings("ignore")
def test_kalman_agrees_with_statsmodels(period):
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    series, _ = seasonal_walk(0)
    imputer = fitted("kalman", series, HOURLY if period else None)
    season = [{"period": period, "harmonics": 2}] if period else None
    centre = series.value[series.observed].mean()
    spread = imputer.scaler_.spread[0]
    value = np.where(series.observed, (series.value - centre) / spread, np.nan)
    theirs = UnobservedComponents(value[:, 0], "local level", freq_seasonal=season)
    found = theirs.fit(disp=False, maxiter=200)
    expected = found.smoother_results.smoothed_forecasts[0] * spread + centre
    structure = imputer.models_[0]
    assert structure.period == period
    ours = [structure.noise, structure.level, structure.season][: len(found.params)]
    np.testing.assert_allclose(ours, found.params, rtol=0.3, atol=1e-3)
    gap = ~series.observed[:, 0]
    result = imputer.impute_series(series)[gap, 0]
    np.testing.assert_allclose(result, expected[gap], atol=0.05)
    given = theirs.smooth(ours).smoother_results.smoothed_forecasts[0] * spread + centre
    np.testing.assert_allclose(result, given[gap], atol=0.01)


@needs_statsmodels
def test_kalman_continues_the_daily_season_in_a_gap():
    series, truth = seasonal_walk(1)
    gap = slice(150, 180)
    kalman_error, line_error = (
        np.mean((imputed(name, series)[gap, 0] - truth[gap]) ** 2) for name in ("kalman", "linear")
    )
    assert kalman_error < 0.3 * line_error


@needs_statsmodels
def test_kalman_averages_noise_better_than_linear_interpolation():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    value = np.where(rng.random(400) < 0.3, np.nan, noise)
    series = SeriesSet.stack(value[None, :, None])
    gap = ~series.observed
    plain = Clock("number", 0, 1.0)
    smooth, line = (np.var(imputed(name, series, plain)[gap]) for name in ("kalman", "linear"))
    assert smooth < 0.2 * line


@needs_statsmodels
def test_kalman_reproduces_constants():
    value = np.stack([np.full((60, 1), 7.1), np.full((60, 1), -1e6)])
    value[:, 20:30] = np.nan
    series = SeriesSet.stack(value)
    np.testing.assert_allclose(imputed("kalman", series)[[25, 85], 0], [7.1, -1e6], rtol=1e-12)


@needs_statsmodels
def test_absent_rows_are_empty_slots():
    series, _ = seasonal_walk(2)
    whole = imputed("kalman", series)
    kept = series.observed[:, 0] | (np.arange(series.rows) % 7 == 0)
    np.testing.assert_allclose(imputed("kalman", series.keep(kept)), whole[kept], atol=1e-9)


@needs_statsmodels
def test_rows_off_the_grid_are_taken_in_order():
    series, _ = seasonal_walk(3)
    rng = np.random.default_rng(0)
    uneven = replace(series, time=np.cumsum(rng.uniform(0.5, 1.5, series.rows)))
    plain = imputed("kalman", series, None)
    np.testing.assert_allclose(imputed("kalman", uneven), plain, atol=1e-9)
    sparse = replace(series, time=10 * series.time)
    np.testing.assert_allclose(imputed("kalman", sparse), plain, atol=1e-9)
    # A constant shift keeps the rows on a grid.
    late = replace(series, time=series.time + 0.5)
    np.testing.assert_allclose(imputed("kalman", late), imputed("kalman", series), atol=1e-9)


@needs_statsmodels
def test_a_model_of_regular_rows_imputes_irregular_ones():
    series, _ = seasonal_walk(4)
    imputer = fitted("kalman", series)
    assert imputer.models_[0].period == 24
    time = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, series.rows))
    mixed = SeriesSet(
        np.concatenate([series.time, time]),
        np.tile(series.value, (2, 1)),
        np.tile(series.observed, (2, 1)),
        np.array([0, series.rows, 2 * series.rows]),
    )
    together = imputer.impute_series(mixed)
    for index, rows in enumerate((slice(0, series.rows), slice(series.rows, None))):
        alone = imputer.impute_series(mixed.select(np.array([index])))
        np.testing.assert_allclose(together[rows], alone, atol=1e-9)


@needs_statsmodels
def test_chunks_agree_with_smoothing_at_once():
    series, _ = seasonal_walk(5, rows=1500)
    imputer = fitted("kalman", series)
    whole = imputer.impute_series(series)
    imputer.chunk, imputer.context = 200, 600
    np.testing.assert_allclose(imputer.impute_series(series), whole, atol=0.05)


@needs_statsmodels
def test_long_gaps_are_interpolated_linearly():
    series, _ = seasonal_walk(6)
    imputer = fitted("kalman", series)
    smooth, line = imputer.impute_series(series), imputed("linear", series)
    imputer.max_gap = 20
    result = imputer.impute_series(series)
    np.testing.assert_array_equal(result[150:180], line[150:180])
    gap = ~series.observed[:, 0] & ((np.arange(400) < 140) | (np.arange(400) > 190))
    np.testing.assert_array_equal(result[gap], smooth[gap])


def test_variances_are_fitted_on_the_segments_with_most_observations():
    last = np.zeros(29, dtype=bool)
    last[[2, 24, 28]] = True  # series of 3, 22 and 4 slots
    known = np.ones(29, dtype=bool)
    known[3:13:2] = False
    np.testing.assert_array_equal(best_observed_slots(known, last, 10), np.arange(13, 23))
    known[3:23] = False
    np.testing.assert_array_equal(
        best_observed_slots(known, last, 10), [*range(0, 3), *range(23, 25), *range(25, 29)]
    )


@needs_statsmodels
@pytest.mark.parametrize("clock", [None, Clock("number", 0, 1.0), Clock("datetime", 0, 1e9)])
def test_without_a_visible_day_the_model_has_no_season(clock):
    series, _ = seasonal_walk(7)
    assert fitted("kalman", series, clock).models_[0].period is None


@needs_statsmodels
def test_noise_has_no_season():
    noise = np.random.default_rng(0).normal(size=(1, 400, 1))
    assert fitted("kalman", SeriesSet.stack(noise)).models_[0].period is None


def test_without_statsmodels_the_error_states_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace", None)
    with pytest.raises(
        InputError, match=r"kalman needs statsmodels.*pip install 'nrtsi\[kalman\]'"
    ):
        fitted("kalman", panel(0))


@needs_statsmodels
def test_a_failing_smoother_raises_an_error():
    series, _ = seasonal_walk(8)
    imputer = fitted("kalman", series)
    imputer.models_ = [replace(imputer.models_[0], noise=np.nan)]
    with pytest.raises(ArithmeticError, match="smoother returned values that are not finite"):
        imputer.impute_series(series)
    last = np.arange(series.rows) == series.rows - 1
    with pytest.raises(ArithmeticError, match="found no finite likelihood"):
        fit_local_level(series.value[:, 0], last, None, start=(np.nan, 0.1, 0.1))
