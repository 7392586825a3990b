"""Laws of analogs: predictions equal an exact computation and never use the hidden cells."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nrtsi
from nrtsi.config import PRESETS, AnalogConfig, GateConfig, TrainConfig
from nrtsi.core.fingerprint import SeriesFingerprints
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import Segments
from nrtsi.core.series import SeriesSet
from nrtsi.network.threads import Threads
from nrtsi.network.tokens import StepContext, TokenLayout, tokens
from nrtsi.predictors.analogs import AnalogModel
from nrtsi.predictors.analogs.library import SeriesLibrary, locate
from nrtsi.predictors.analogs.methods import (
    AnalogBlend,
    ConditionalGaussian,
    KNNAnalogs,
    LocalLinearAnalogs,
)
from nrtsi.predictors.base import FitContext, HeldOutGate, Sample
from nrtsi.schedule.windows import windows

POINT = np.arange(12.0)
SYMMETRIES = AnalogConfig().symmetries
SEEDS = st.integers(0, 10**6)
NO_SERIES = SeriesFingerprints(np.zeros((0, 8), dtype=np.int64))


def walks(seed, series=40, dims=2, points=POINT.size):
    """Smooth random series: channel × point × series."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((dims, points, series)).cumsum(axis=1).astype(np.float32)


def as_series(value):
    """The series of a library without missing cells."""
    return SeriesSet.stack(value.transpose(2, 1, 0).astype(np.float64))


def library(value, low=-20.0, high=20.0):
    ends = (np.full(value.shape[0], end) for end in (low, high))
    return SeriesLibrary(np.arange(value.shape[-1]), as_series(value), POINT, value, *ends)


def local(value, symmetries=(), k=5, ridge=1e-2):
    return LocalLinearAnalogs.of(library(value), k, ridge).with_symmetries(symmetries)


def gaussian(value, ridge=1e-3):
    return ConditionalGaussian.of(library(value), ridge)


def knn(value, k=5):
    return KNNAnalogs.of(library(value), k)


def model(method, stored=None):
    """A model that recognises the stored series, or none."""
    fingerprints = NO_SERIES if stored is None else SeriesFingerprints.of(stored)
    return AnalogModel(POINT, method, fingerprints)


def masked(value, index, seed, share=0.6):
    """One of the series with cells missing, and the truth."""
    rng = np.random.default_rng(seed)
    truth = value[:, :, index].T.astype(np.float64)
    hidden = rng.random(truth.shape) < share
    return SeriesSet.stack(np.where(hidden, np.nan, truth)[None]), truth


def points(series, rates=(0.5, 0.9)):
    return Masking.choose("points", series, whole_rows=True, rates=rates)


def fit(series, masking=None, validation=None, **config):
    masking = masking or points(series)
    held_out = series if validation is None else validation
    part = Sample(held_out, Segments.whole(held_out), separate=validation is not None)
    return AnalogModel.fit(
        FitContext(
            source=series,
            training=Sample(series, Segments.whole(series)),
            validation=part,
            masking=masking,
            periods=(),
            seed=0,
            config=TrainConfig(analogs=AnalogConfig(**config)),
            gate=HeldOutGate.of(part, masking, 0, GateConfig()),
            budget=lambda share: lambda steps: 1.0,
            has_budget=lambda seconds: False,
            report=lambda loss: None,
            agree=lambda decision: decision,
        )
    )


# Methods against an exact computation -----------------------------------------------------------


@given(SEEDS)
def test_a_gaussian_predicts_the_conditional_mean(seed):
    value = walks(seed)
    series, _ = masked(walks(seed + 1), 0, seed)
    predicted = model(gaussian(value)).predict(series).mean
    flat = value.reshape(-1, value.shape[-1]).astype(np.float64)
    mean, covariance = flat.mean(axis=1), np.cov(flat)
    seen = series.observed.T.reshape(-1)
    noise = 1e-3 * np.diag(covariance)[seen].mean() if seen.any() else 0.0
    known = covariance[np.ix_(seen, seen)] + noise * np.eye(seen.sum())
    difference = series.value.T.reshape(-1)[seen] - mean[seen]
    expected = mean + covariance[:, seen] @ np.linalg.solve(known, difference)
    np.testing.assert_allclose(predicted, expected.reshape(2, -1).T, rtol=1e-4, atol=1e-4)


@given(SEEDS, st.integers(0, 39))
def test_a_gaussian_leaves_out_the_excluded_series(seed, index):
    value = walks(seed)
    series, _ = masked(value, index, seed)
    others = np.delete(value, index, axis=-1)
    predicted = model(gaussian(value)).predict(series, np.array([index])).mean
    expected = model(gaussian(others)).predict(series).mean
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4)


def local_regression(value, series, k, ridge):
    """The same as `LocalLinearAnalogs`, step by step and in the units of the data."""
    mean = np.empty(series.value.shape)
    for dim in range(series.dims):
        seen = series.observed[:, dim]
        known, stored = series.value[seen, dim], value[dim].T.astype(np.float64)
        order = np.argsort(np.square(stored[:, seen] - known).sum(axis=1), kind="stable")[:k]
        centre = stored[order].mean(axis=0)
        centred = stored[order] - centre
        gram = centred[:, seen] @ centred[:, seen].T
        penalty = ridge * np.trace(gram) / max(1, min(k, seen.sum()))
        right = centred[:, seen] @ (known - centre[seen])
        weight = np.linalg.lstsq(gram + (penalty + 1e-12) * np.eye(k), right, rcond=None)[0]
        mean[:, dim] = centre + weight @ centred
    return mean


@given(SEEDS, st.integers(2, 8))
def test_local_linear_analogs_regress_on_the_nearest(seed, k):
    series, _ = masked(walks(seed + 1), 0, seed)
    method = local(walks(seed), k=k)
    predicted = model(method).predict(series).mean
    seen = series.observed.any(axis=0)  # if nothing is known, no series is nearer than another
    expected = local_regression(20.0 * method.stored.value.astype(np.float64), series, k, 1e-2)
    np.testing.assert_allclose(predicted[:, seen], expected[:, seen], rtol=1e-3, atol=1e-3)


@given(SEEDS, st.integers(0, 39), st.sets(st.sampled_from(SYMMETRIES)))
def test_local_linear_analogs_leave_out_the_excluded_series_and_its_images(
    seed, index, symmetries
):
    value, used = walks(seed), tuple(sorted(symmetries))
    series, _ = masked(value, index, seed, share=0.3)
    predicted = model(local(value, used)).predict(series, np.array([index])).mean
    others = local(np.delete(value, index, axis=-1), used)
    np.testing.assert_allclose(predicted, model(others).predict(series).mean, atol=1e-5)


@given(SEEDS, st.integers(1, 8), st.integers(-1, 39))
def test_knn_analogs_are_the_weighted_mean_of_the_nearest_in_all_channels(seed, k, index):
    value = walks(seed)
    series, _ = masked(value if index >= 0 else walks(seed + 1), max(index, 0), seed, share=0.4)
    method = knn(value, k)
    predicted = model(method).predict(series, np.array([index]))
    stored = method.stored.value.transpose(2, 1, 0).astype(np.float64)
    difference = np.square(stored - series.value)[:, series.observed]
    distance = np.sqrt(difference.mean(axis=1))
    distance[index if index >= 0 else []] = np.inf
    order = np.argsort(distance, kind="stable")[:k]
    weight = 1 / distance[order] / (1 / distance[order]).sum()
    mean = np.einsum("s,srd->rd", weight, stored[order])
    std = np.sqrt(np.einsum("s,srd->rd", weight, np.square(stored[order] - mean)))
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(predicted.std, std, rtol=1e-3, atol=2e-3)


@given(SEEDS, st.floats(0, 1))
def test_a_blend_is_the_weighted_mean_of_two_methods(seed, weight):
    value = walks(seed)
    series, _ = masked(walks(seed + 1), 0, seed)
    methods = gaussian(value), knn(value)
    first, second = (model(method).predict(series) for method in methods)
    both = model(AnalogBlend(*methods, weight)).predict(series)
    for name in ("mean", "std"):
        expected = (1 - weight) * getattr(first, name) + weight * getattr(second, name)
        np.testing.assert_allclose(getattr(both, name), expected, atol=1e-9)


METHODS = [
    gaussian(walks(0)),
    local(walks(0)),
    local(walks(0), ("pooled",)),
    knn(walks(0)),
    AnalogBlend(gaussian(walks(0)), knn(walks(0)), 0.4),
]


@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_model_predicts_exactly_the_same(method):
    fitted = model(method, as_series(walks(0)))
    loaded = AnalogModel.from_state(*fitted.state())
    assert str(loaded) == str(fitted)
    for value in (walks(0), walks(1)):  # a stored series, and another
        series, _ = masked(value, 0, 0)
        for name in ("mean", "std", "available"):
            expected, found = (getattr(each.predict(series), name) for each in (fitted, loaded))
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
def test_threads_and_other_series_do_not_change_a_prediction(method):
    series = as_series(walks(1))
    hidden = np.random.default_rng(0).random(series.value.shape) < 0.5
    series = series.hide(hidden)
    together = model(method).predict(series, threads=Threads(2)).mean
    for index in (0, 17):
        alone = model(method).predict(series.select(np.array([index]))).mean
        rows = slice(series.start[index], series.start[index + 1])
        np.testing.assert_array_equal(together[rows], alone)


@pytest.mark.parametrize("method", METHODS)
def test_a_series_without_observations_is_predicted_by_the_mean(method):
    value = walks(0)
    predicted = model(method).predict(SeriesSet.stack(np.full((1, POINT.size, 2), np.nan)))
    np.testing.assert_allclose(predicted.mean, value.mean(axis=-1).T, atol=0.01)
    np.testing.assert_allclose(predicted.std, value.std(axis=-1).T, rtol=0.1)


@pytest.mark.parametrize("symmetries", [(), ("pooled",)])
def test_local_linear_analogs_predict_an_unobserved_channel_by_its_mean(symmetries):
    value = walks(0)
    partly = value[:, :, 3].T.astype(float)
    partly[:, 1] = np.nan
    predicted = model(local(value, symmetries)).predict(SeriesSet.stack(partly[None])).mean
    np.testing.assert_allclose(predicted[:, 1], value[1].mean(axis=-1), atol=0.01)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_symmetries_add_images_to_the_library(symmetry):
    value = walks(0, series=200)
    image = {"pooled": value[::-1], "negated": -value, "reversed": value[:, ::-1]}[symmetry]
    series, truth = masked(image, 7, 3, share=0.3)
    plain, augmented = (
        np.abs(model(local(value, used)).predict(series).mean - truth).mean()
        for used in ((), (symmetry,))
    )
    assert augmented < plain / 2


# Times ------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=8), st.lists(st.floats(-3, 30)))
def test_a_time_is_located_between_its_neighbours_on_the_grid(steps, times):
    point, time = np.concatenate([[0.0], np.cumsum(steps)]), np.array(times)
    at, fraction, inside = locate(point, time)
    clipped = time.clip(point[0], point[-1])
    left, right = point[at], point[at + 1]
    np.testing.assert_allclose(left + fraction * (right - left), clipped, atol=1e-9)
    off_grid = np.abs(time - clipped) > 1e-4
    assert not inside[off_grid].any()
    assert inside[time == clipped].all()


def test_times_between_the_points_are_predicted():
    value = np.outer(POINT, np.linspace(-1, 1, 30))[None]
    series = SeriesSet(
        np.array([0.5, 3.25, 8.0]),
        np.array([[0.5], [0.0], [8.0]]) / 4,
        np.array([[True], [False], [True]]),
        np.array([0, 3]),
    )
    for method in (local(value.astype(np.float32), ridge=1e-6), gaussian(value, 1e-6)):
        predicted = model(method).predict(series).mean
        np.testing.assert_allclose(predicted[:, 0], series.time / 4, atol=1e-3)


def test_times_outside_the_grid_are_interpolated_and_not_available():
    series = SeriesSet(
        np.array([3.0, 20.0, 25.0, 30.0]),
        np.array([[0.0], [1.0], [0.0], [3.0]]),
        np.array([[True], [True], [False], [True]]),
        np.array([0, 4]),
    )
    predicted = model(gaussian(walks(0, dims=1))).predict(series)
    assert (predicted.mean[2, 0], predicted.std[2, 0]) == (2.0, 0.0)
    np.testing.assert_array_equal(predicted.available[:, 0], [True, False, False, False])


def test_the_network_corrects_interpolation_where_no_prediction_is_available():
    layout = TokenLayout(1, partial=False, base_predictors=1)
    series = SeriesSet(
        np.array([0.0, 49.0, 55.0]),
        np.array([[0.1], [0.8], [0.0]]),
        np.array([[True], [True], [False]]),
        np.array([0, 3]),
    )
    available = np.array([[True], [True], [False]])
    mean = np.array([[0.1], [0.35], [0.8]])
    prediction = BasePrediction(mean, np.zeros((3, 1)), available)
    rows = np.array([2])
    context = StepContext.of(series, rows, np.array([6.0]), layout, (prediction,))
    parts = windows(np.array([0, 1]), rows, np.array([0]), series.start, 16)
    made = tokens(context, parts.pad(np.arange(1)), layout, PRESETS["tiny"].model)
    assert made.base_predictions.item() == pytest.approx(0.8)


def test_many_observed_cells_are_thinned():
    time = np.linspace(0, 11, 5000)
    series = SeriesSet.stack(np.sin(time)[None, :, None], time[None])
    assert np.isfinite(model(gaussian(walks(0, dims=1), 1e-2)).predict(series).mean).all()


# Hidden cells and outliers ----------------------------------------------------------------------


def waves(count, seed=0, steps=50):
    rng = np.random.default_rng(seed)
    phase, speed = rng.uniform(0, 6, (count, 1)), rng.uniform(0.1, 0.3, (count, 1))
    return np.sin(phase + speed * np.arange(steps))[..., None]


@pytest.mark.parametrize("method", [gaussian, lambda value: local(value, ("negated",))])
def test_a_prediction_does_not_depend_on_the_hidden_cells_of_an_excluded_series(method):
    """Otherwise, training would see the target."""
    value = waves(200, steps=POINT.size)
    series = SeriesSet.stack(value)
    cells = points(series).draw(series, np.random.default_rng(1)).reshape(value.shape)
    changed = value.copy()
    changed[7] += 5 * cells[7]
    query = SeriesSet.stack(np.where(cells, np.nan, value)[7:8])
    one, other = (
        model(method(each.transpose(2, 1, 0))).predict(query, np.array([7])).mean
        for each in (value, changed)
    )
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_an_outlier_does_not_dominate_the_prediction():
    value = waves(300, steps=POINT.size).transpose(2, 1, 0).astype(np.float32)
    truth = waves(1, seed=3, steps=POINT.size)
    wrong = truth.copy()
    wrong[0, 0] = 50.0
    for method in (local(value, ("negated",)), gaussian(value, 1e-2)):
        predicted = model(method).predict(SeriesSet.stack(wrong)).mean
        assert np.abs(predicted[6:] - truth[0, 6:]).mean() < 0.5


def with_gaps(value, seed=0):
    """The series with a gap in each, and the missing cells."""
    rng = np.random.default_rng(seed)
    missing = np.zeros(value.shape, dtype=bool)
    for number, begin in enumerate(rng.integers(5, 25, len(value))):
        missing[number, begin : begin + 15] = True
    return np.where(missing, np.nan, value), missing


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_a_stored_series_is_recognised(hidden):
    value, _ = with_gaps(waves(100))
    fingerprints = SeriesFingerprints.of(SeriesSet.stack(value))
    more = np.random.default_rng(0).random(value.shape) < hidden
    found = fingerprints.find(SeriesSet.stack(np.where(more, np.nan, value)))
    assert (found == np.arange(100)).mean() > 0.95
    np.testing.assert_array_equal(fingerprints.find(SeriesSet.stack(waves(20, seed=5))), -1)


# The library ------------------------------------------------------------------------------------


def test_series_without_data_are_not_stored():
    """Neither a series of three unobserved rows nor one of two observed rows."""
    value = waves(200)
    rows = [np.column_stack([np.arange(50.0), value[k, :, 0]]) for k in range(200)]
    rows.insert(100, np.column_stack([[0.0, 24.5, 49.0], np.full(3, np.nan)]))
    rows.insert(101, np.column_stack([[0.0, 49.0], [1.0, 1.0]]))
    table = np.concatenate(rows)
    start = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    seen = ~np.isnan(table[:, 1:])
    series = SeriesSet(table[:, 0], np.where(seen, table[:, 1:], 0.0), seen, start)
    stored = np.setdiff1d(np.arange(202), [100, 101])
    np.testing.assert_array_equal(fit(series).positions, stored)


def test_splines_stay_within_the_range_of_the_data():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 50, (200, 50)), axis=1)
    value = np.sin(0.2 * time)
    time[40, 20], value[40, 20] = time[40, 19] + 1e-7, value[40, 19] + 0.5
    found = SeriesLibrary.of(SeriesSet.stack(value[..., None], time), rng, AnalogConfig())
    assert np.abs(found.value).max() <= 1.5


def test_one_long_series_does_not_prevent_the_others_from_being_stored():
    value = waves(301, steps=2000)
    time = np.concatenate([np.arange(50.0)] * 300 + [np.arange(2000.0)])
    flat = np.concatenate([*value[:300, :50], value[300]])
    start = np.append(50 * np.arange(301), 300 * 50 + 2000)
    series = SeriesSet(time, flat, np.ones(flat.shape, dtype=bool), start)
    assert SeriesLibrary.of(series, np.random.default_rng(0), AnalogConfig()).point.max() <= 52


def test_a_large_library_is_a_sample_of_the_series():
    series = SeriesSet.stack(waves(300))
    for limit in ({"max_series": 100}, {"max_cells": 100 * 50}):
        fitted = fit(series, **limit)
        assert fitted.positions.size == 100
        # A loaded model recognises the series that a training numbers.
        loaded = AnalogModel.from_state(*fitted.state())
        numbered = fitted.predict(series, np.arange(300))
        np.testing.assert_array_equal(loaded.predict(series).mean, numbered.mean)


# Selection of the method ------------------------------------------------------------------------


def test_local_linear_analogs_and_symmetries_are_selected_for_waves():
    series = SeriesSet.stack(waves(300))
    fitted = fit(series)
    assert isinstance(fitted.method, LocalLinearAnalogs)
    assert "negated" in fitted.method.stored.symmetries
    np.testing.assert_array_equal(fitted.positions, np.arange(300))


def test_a_gaussian_is_selected_for_draws_of_one_distribution():
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((6, 40))
    value = (rng.standard_normal((400, 6)) @ loadings).reshape(400, 20, 2)
    assert isinstance(fit(SeriesSet.stack(value)).method, ConditionalGaussian)


def days(count, seed=0):
    """Few noisy days of two kinds, on eight roads."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24)[:, None]
    kinds = np.sin(rng.uniform(0, 6, (2, 1, 8)) + rng.uniform(0.2, 0.6, (2, 1, 8)) * hours)
    busy = rng.gamma(4.0, 0.25, (count, 1, 1))
    return busy * kinds[rng.integers(0, 2, count)] + 0.5 * rng.standard_normal((count, 24, 8))


def test_a_blend_is_selected_for_few_noisy_days_of_two_kinds():
    series = SeriesSet.stack(days(120))
    fitted = fit(series)
    method = fitted.method
    assert isinstance(method, AnalogBlend)
    assert 0 < method.weight < 1
    words = r"covariance of 8 channels and mean of the \d+ most similar of 120 series \(\d+%\)"
    assert re.search(words, str(fitted))
    index = np.arange(30, 60)
    truth = series.select(index)
    hidden = points(series).draw(truth, np.random.default_rng(1))

    def error(method):
        predicted = replace(fitted, method=method).predict(truth.hide(hidden), index).mean
        return np.square(predicted - truth.value)[hidden].mean()

    assert error(method) < 0.9 * error(method.first)
    assert error(method) < error(method.second)


def test_methods_are_compared_on_separate_validation_series():
    """Every training day occurs at four stations, nearly the same; no new day does."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((12, 24 * 4))
    every = (rng.standard_normal((160, 12)) @ loadings).reshape(160, 24, 4)
    every = every + 0.5 * rng.standard_normal(every.shape)
    stations = np.repeat(every[:80], 4, axis=0)
    series = SeriesSet.stack(stations + 0.01 * rng.standard_normal(stations.shape))
    new = SeriesSet.stack(every[80:])
    hidden = points(series).draw(new, np.random.default_rng(1))

    def error(fitted):
        predicted = fitted.predict(new.hide(hidden)).mean
        return np.square(predicted - new.value)[hidden].mean()

    on_training, on_validation = fit(series), fit(series, validation=new)
    assert error(on_validation) < 0.9 * error(on_training)
    too_few = new.select(np.arange(3))
    assert str(fit(series, validation=too_few)) == str(on_training)


def test_splines_are_selected_for_smooth_irregular_series():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 50, (200, 50)), axis=1)
    speed = rng.uniform(0.1, 0.3, (200, 1))
    series = SeriesSet.stack(np.sin(speed * time)[..., None], time)
    truth = SeriesSet.stack(np.sin(0.2 * time[:1])[..., None], time[:1])
    hidden = points(series).draw(truth, rng)
    predicted = fit(series).predict(truth.hide(hidden)).mean
    assert np.median(np.abs(predicted - truth.value)) < 2e-3  # lines alone have .02


def bumps(count, seed=0):
    """Sums of six fixed curves, and a little noise."""
    curves = np.sin(np.outer(np.arange(1, 7), np.arange(50) / 8))
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, 6)) @ curves + rng.normal(0, 0.05, (count, 50)))[..., None]


@pytest.mark.parametrize(("data", "count"), [(waves, 300), (bumps, 80)])
def test_gaps_of_the_stored_series_are_predicted_from_the_others(data, count):
    series, truth = SeriesSet.stack(with_gaps(data(count))[0]), data(200, seed=1)
    others, missing = with_gaps(truth, seed=1)
    masking = Masking.choose("auto", series, whole_rows=True, rates=(0.05, 0.95))

    def error(rounds):
        fitted = fit(series, masking, completion_rounds=rounds)
        predicted = fitted.predict(SeriesSet.stack(others)).mean.reshape(truth.shape)
        return np.square(predicted - truth)[missing].mean()

    assert error(6) < error(0) / 2


def few():
    return waves(20), None


def no_common_span():
    return waves(200), np.arange(50.0) + 100 * np.arange(200)[:, None]


def too_long():
    return np.zeros((70, 2000, 1)), None


def mostly_missing():
    value = waves(200)
    value[:, ::2], value[:, 1::4] = np.nan, np.nan
    return value, None


def too_wide():
    return np.tile(waves(200), 65), None


def random_walks():
    rng = np.random.default_rng(0)
    start = rng.normal(0, 100, (200, 1, 1))
    return start + rng.standard_normal((200, 50, 1)).cumsum(axis=1), None


@pytest.mark.parametrize(
    "data", [few, no_common_span, too_long, too_wide, mostly_missing, random_walks]
)
def test_no_model_is_fitted_where_analogs_do_not_help(data):
    series = SeriesSet.stack(*data())
    assert fit(series, points(series, rates=(0.1, 0.3))) is None


def test_more_neighbours_than_series_are_refused():
    with pytest.raises(
        ValueError, match="min_series must exceed local_k and knn_k, got 30 and 32"
    ):
        AnalogConfig(min_series=30)


# The whole imputer ------------------------------------------------------------------------------


def imputer(predictors=("analogs",)):
    return nrtsi.NRTSI(steps=0, seed=0, preset="tiny", predictors=predictors)


def test_analogs_lower_the_error_before_the_first_training_step():
    truth = waves(20, seed=2)
    value = truth.copy()
    value[:, np.arange(50) % 8 != 0] = np.nan

    def error(predictors):
        fitted = imputer(predictors).fit(waves(300), validation=waves(50, seed=1))
        return np.square(fitted.impute(value) - truth).mean()

    assert error(("analogs",)) < error(()) / 50


def test_a_saved_imputer_keeps_its_analogs(tmp_path):
    fitted = imputer().fit(waves(300), validation=waves(50, seed=1))
    value = waves(5, seed=2)
    value[:, 3:30] = np.nan
    fitted.save(tmp_path / "model.nrtsi")
    loaded = nrtsi.load(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(loaded.impute(value), fitted.impute(value))


@pytest.mark.parametrize(
    ("data", "count", "method"),
    [(waves, 300, LocalLinearAnalogs), (bumps, 150, ConditionalGaussian)],
)
def test_training_series_are_imputed_as_well_as_others(data, count, method):
    """Their gaps are filled in the library; without exclusion they would be nearest."""
    value, missing = with_gaps(data(count))
    others, missing_there = with_gaps(data(300, seed=1), seed=1)
    fitted = imputer().fit(value)
    assert isinstance(fitted.fitted_.engine.predictors["analogs"].method, method)
    own = np.square(fitted.impute(value) - data(count))[missing].mean()
    new = np.square(fitted.impute(others) - data(300, seed=1))[missing_there].mean()
    assert own < 1.3 * new
