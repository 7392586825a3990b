"""Conformal calibration, the correlation of errors, and the hold-out split."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import CalibrationConfig, EvaluationConfig
from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import from_state, to_state
from nrtsi.evaluation.conformal import GRID, MAX_SCORE, Calibration, coverage
from nrtsi.evaluation.error_correlation import ErrorCorrelation
from nrtsi.evaluation.holdout import CalibrationScores, HoldOut
from tests.strategies import seeds, some_series

SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 0.2,
    "heavy": lambda rng, n: rng.standard_t(3, size=n),
}


def scores_of(score, channel=0, gap_bin=0, gap=None):
    """Scores of cells, each in its own gap unless `gap` is given."""
    every = np.arange(score.size)
    channel, gap_bin = (np.broadcast_to(each, score.shape).copy() for each in (channel, gap_bin))
    position = np.zeros(score.size)
    return CalibrationScores(
        channel, gap_bin, every if gap is None else gap, every, position, score
    )


def quantile(calibration, level, channel=0, gap_bin=0):
    normal = np.array([NormalDist().inv_cdf(level)])
    return float(calibration.from_normal(normal, np.array([channel]), np.array([gap_bin]))[0])


# Quantiles


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_new_errors_are_covered_in_every_channel_and_gap_bin(level):
    rng, n = np.random.default_rng(1), 2000
    kinds = [
        (dim, gap_bin, shape, width)
        for dim, shape in enumerate(SHAPES)
        for gap_bin, width in ((0, 0.1), (3, 1.0), (4, 7.0))
    ]
    known = [width * SHAPES[shape](rng, n) for _, _, shape, width in kinds]
    channel, gap_bin = (np.repeat([kind[at] for kind in kinds], n) for at in (0, 1))
    found = Calibration.fit(scores_of(np.concatenate(known), channel, gap_bin), dims=3)
    slack = 0.02 + 2 * np.sqrt(level * (1 - level) / n)
    for dim, at, shape, width in kinds:
        fresh = width * SHAPES[shape](rng, 20_000)
        ends = (quantile(found, (1 + sign * level) / 2, dim, at) for sign in (-1, 1))
        low, high = ends
        assert abs(np.mean((fresh >= low) & (fresh <= high)) - level) < slack


@given(seeds, st.integers(1, 400), st.integers(1, 3), st.floats(0, 0.6))
@settings(max_examples=25)
def test_scores_increase_with_the_level_and_are_never_nan(seed, count, dims, at_bound):
    rng = np.random.default_rng(seed)
    score = rng.standard_t(2, size=count)
    score[rng.random(count) < at_bound] = rng.choice([-np.inf, np.inf])
    scores = scores_of(score, rng.integers(0, dims, count), rng.integers(0, GAP_BINS, count))
    found = Calibration.fit(scores, dims)
    assert np.isfinite(found.table).all()
    assert (np.diff(found.table, axis=-1) >= 0).all()
    assert np.isfinite(found.to_normal(scores)).all()
    normal = np.linspace(-6, 6, 50)
    for dim in range(dims):
        scores = found.from_normal(normal, np.full(50, dim), np.full(50, 7))
        assert (np.diff(scores) >= 0).all()
    np.linalg.cholesky(found.error_correlation.channels)
    assert found.cells.sum() == count


def test_without_held_out_cells_scores_are_standard_normal():
    none = Calibration.none(2)
    assert none.is_empty
    for level in (0.001, 0.05, 0.3, 0.5, 0.9, 0.9999):
        assert quantile(none, level, 1, 5) == pytest.approx(NormalDist().inv_cdf(level), abs=1e-9)
    empty = Calibration.fit(scores_of(np.zeros(0)), 2)
    np.testing.assert_array_equal(empty.table, none.table)


def test_a_channel_with_few_cells_has_the_shape_of_others_at_its_own_size():
    rng = np.random.default_rng(0)
    many, few = 2 * (rng.exponential(size=3000) - 0.2), 0.5 * (rng.exponential(size=80) - 0.2)
    score = np.concatenate([many, few])
    found = Calibration.fit(scores_of(score, np.repeat([0, 1], [3000, 80])), 2)
    for level in (0.05, 0.25, 0.75, 0.95):
        expected = 0.5 * (-np.log(1 - level) - 0.2)
        assert quantile(found, level, channel=1) == pytest.approx(expected, abs=0.3)
    shapes = [quantile(found, 0.95, dim) / quantile(found, 0.05, dim) for dim in (0, 1)]
    assert shapes[0] == pytest.approx(shapes[1], rel=0.01)


def test_an_empty_gap_bin_uses_the_scores_of_its_neighbours():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=1000), 10 * rng.normal(size=1000)])
    found = Calibration.fit(scores_of(score, 0, np.repeat([0, 8], 1000)), 1)
    # The size of a gap bin without cells is that of its channel; its shape is its neighbours'.
    assert quantile(found, 0.95, gap_bin=0) < 2 < 12 < quantile(found, 0.95, gap_bin=8)
    assert 2 < quantile(found, 0.95, gap_bin=4) < 15


def test_cells_of_one_gap_do_not_count_as_independent():
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=1000), 100.0 + np.zeros(1000)  # the far ones are one gap
    gap = np.concatenate([np.arange(1000), np.full(1000, 5000)])
    found = Calibration.fit(
        scores_of(np.concatenate([near, far]), 0, np.repeat([0, 5], 1000), gap), 1
    )
    assert quantile(found, 0.05, gap_bin=5) < 0


def test_the_state_of_a_calibration_is_restored_exactly():
    rng = np.random.default_rng(0)
    scores = scores_of(rng.normal(size=500), rng.integers(0, 2, 500), rng.integers(0, 4, 500))
    found = Calibration.fit(scores, 2)
    back = from_state(Calibration, *to_state(found))
    for name in ("table", "cells"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    for name in ("length_scale", "smooth", "channels"):
        one, other = (getattr(each.error_correlation, name) for each in (back, found))
        np.testing.assert_array_equal(one, other)


def test_a_gap_bin_with_enough_cells_has_its_own_distribution():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=50), 3 + rng.normal(size=50)])
    scores = scores_of(score, 0, np.repeat([0, 1], 50))
    pooled = Calibration.fit(scores, 1)
    own = Calibration.fit(scores, 1, CalibrationConfig(min_cells=40))
    assert quantile(own, 0.5, gap_bin=0) < quantile(pooled, 0.5, gap_bin=0)
    assert quantile(own, 0.5, gap_bin=1) > quantile(pooled, 0.5, gap_bin=1)


# Bounds: a truth on one is an infinite error


def rain_and_heat(rng, heat):
    """Errors of a channel that is often on its lower bound, and a few of one without bounds."""
    rain = np.where(rng.random(2000) < 0.3, -np.inf, rng.normal(size=2000))
    score = np.concatenate([rain, rng.normal(size=heat)])
    return scores_of(score, np.repeat([0, 1], [2000, heat]))


def test_a_bound_of_one_channel_does_not_change_another():
    found = Calibration.fit(rain_and_heat(np.random.default_rng(0), heat=60), 2)
    assert quantile(found, 0.05, channel=0) == -MAX_SCORE
    assert -2.3 < quantile(found, 0.05, channel=1) < -1.1
    assert 1.1 < quantile(found, 0.95, channel=1) < 2.3


def test_an_interval_that_ends_at_a_bound_covers_the_bound():
    scores = rain_and_heat(np.random.default_rng(0), heat=0)
    covered = coverage(scores, 1, 0.9)
    assert covered[np.isinf(scores.score)].all()


def test_errors_on_a_bound_map_to_the_middle_of_their_probability():
    scores = rain_and_heat(np.random.default_rng(0), heat=0)
    normal = Calibration.fit(scores, 1).to_normal(scores)
    beyond = normal[np.isinf(scores.score)]
    assert np.unique(beyond).size == 1
    assert beyond[0] == pytest.approx(NormalDist().inv_cdf(0.15), abs=0.1)
    assert normal[np.isfinite(scores.score)].min() > beyond[0]


@given(seeds)
@settings(max_examples=10)
def test_to_normal_inverts_from_normal(seed):
    rng = np.random.default_rng(seed)
    found = Calibration.fit(scores_of(rng.standard_t(3, size=600)), 1)
    normal = rng.uniform(GRID[0], GRID[-1], 100)
    zeros = np.zeros(100, dtype=np.int64)
    back = found.to_normal(scores_of(found.from_normal(normal, zeros, zeros)))
    np.testing.assert_allclose(back, normal, atol=1e-2)


# Coverage


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_validated_coverage_equals_the_level(shape):
    rng = np.random.default_rng(0)
    score = SHAPES[shape](rng, 3000)
    for level in (0.5, 0.9):
        assert abs(coverage(scores_of(score), 1, level).mean() - level) < 0.03


def test_the_interval_of_a_gap_does_not_use_its_own_errors():
    """A gap that is unlike all others is not covered, though it has most of the cells."""
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=300), 50 + rng.normal(size=600)])
    gap = np.concatenate([np.arange(300), np.full(600, 999)])
    covered = coverage(scores_of(score, gap=gap), 1, 0.9)
    assert not covered[300:].any()


def test_coverage_of_no_scores_and_of_a_single_gap():
    assert coverage(scores_of(np.zeros(0)), 1, 0.9).size == 0
    one = scores_of(np.array([0.0, 9.0]), gap=np.zeros(2, dtype=np.int64))
    assert coverage(one, 1, 0.9).tolist() == [True, False]  # of normal errors: none are left


# ErrorCorrelation


def gaps_of(count, size, rng=None):
    """Series with a gap of `size` cells each, at even times or at random ones."""
    value = np.full((count, size + 2, 1), np.nan)
    value[:, [0, -1]] = 0.0
    time = np.tile(np.arange(size + 2.0), (count, 1))
    if rng is not None:
        time = np.cumsum(rng.uniform(0.05, 3, time.shape), axis=1)
    return SeriesSet.stack(value, time)


def wide(series, dims):
    """The same gaps in several channels."""
    return SeriesSet(
        series.time,
        np.repeat(series.value, dims, axis=1),
        np.repeat(series.observed, dims, axis=1),
        series.start,
    )


def agree(difference, length_scale, smooth):
    s = difference / length_scale
    return (1 + np.sqrt(3) * s) * np.exp(-np.sqrt(3) * s) if smooth else np.exp(-s)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("length_scale", [0.05, 0.4, 5.0])
def test_correlated_values_have_variance_one_and_the_given_correlation(smooth, length_scale):
    rng, count, size = np.random.default_rng(0), 20_000, 6
    # All gaps have the same uneven times, so that they are draws of one field.
    time = np.array([0.0, 1.0, 1.5, 3.0, 3.1, 6.0, 8.0, 10.0])
    value = np.full((count, size + 2, 1), np.nan)
    value[:, [0, -1]] = 0.0
    series = SeriesSet.stack(value, np.tile(time, (count, 1)))
    correlation = ErrorCorrelation(np.array([length_scale]), np.array([smooth]), np.eye(1))
    noise = rng.normal(size=(2, series.rows, 1))
    drawn = correlation.correlate(series, Gaps.of(series), noise).reshape(count, size + 2)
    assert not drawn[:, [0, -1]].any()
    inside = drawn[:, 1:-1]
    difference = np.abs(time[1:-1, None] - time[1:-1]) / 10.0
    np.testing.assert_allclose(
        np.cov(inside.T), agree(difference, length_scale, smooth), atol=0.04
    )
    # Different gaps are independent.
    assert abs(np.mean(inside[1:, 0] * inside[:-1, -1])) < 0.03


@pytest.mark.parametrize("smooth", [False, True])
def test_channels_have_the_given_correlation(smooth):
    rng, count = np.random.default_rng(0), 5000
    channels = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.3], [-0.5, -0.3, 1.0]])
    series = wide(gaps_of(count, 4), 3)
    correlation = ErrorCorrelation(np.full(3, 0.5), np.full(3, smooth), channels)
    drawn = correlation.correlate(series, Gaps.of(series), rng.normal(size=(2, series.rows, 3)))
    cells = drawn[~series.observed[:, 0]]
    np.testing.assert_allclose(np.cov(cells.T), channels, atol=0.05)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("length_scale", [0.1, 0.3, 1.5])
def test_fit_recovers_the_correlation_of_simulated_errors(smooth, length_scale):
    rng = np.random.default_rng(0)
    series = wide(gaps_of(600, 20, rng), 2)
    channels = np.array([[1.0, 0.6], [0.6, 1.0]])
    simulated = ErrorCorrelation(np.full(2, length_scale), np.full(2, smooth), channels)
    drawn = simulated.correlate(series, Gaps.of(series), rng.normal(size=(2, series.rows, 2)))
    hidden = ~series.observed
    scores = CalibrationScores.of(series, hidden, drawn[hidden])
    found = ErrorCorrelation.fit(scores, drawn[hidden], 2)
    # Different parameters can give nearly the same correlation, so the curves are compared.
    difference = np.linspace(0.02, 1, 30)
    for dim in range(2):
        curve = agree(difference, found.length_scale[dim], found.smooth[dim])
        np.testing.assert_allclose(curve, agree(difference, length_scale, smooth), atol=0.12)
    assert found.channels[0, 1] == pytest.approx(0.6, abs=0.1)


@given(seeds, st.integers(1, 200), st.integers(1, 6))
@settings(max_examples=25)
def test_the_channel_correlation_is_always_positive_definite(seed, count, dims):
    rng = np.random.default_rng(seed)
    row = rng.integers(0, max(1, count // 3), count)
    channel = rng.integers(0, dims, count)
    keep = np.unique(row * dims + channel, return_index=True)[1]
    score = np.where(rng.random(count) < 0.2, 0.0, rng.choice([-3.5, 1.0, 3.5], count))[keep]
    scores = CalibrationScores(
        channel[keep], row[keep] * 0, channel[keep], row[keep], 1.0 * row[keep], score
    )
    channels = ErrorCorrelation.fit(scores, score, dims).channels
    assert np.linalg.eigvalsh(channels).min() > 0
    np.testing.assert_array_equal(np.diag(channels), 1.0)
    np.testing.assert_allclose(channels, channels.T)


def test_gaps_of_one_cell_leave_the_default_length_scale():
    scores = scores_of(np.random.default_rng(0).normal(size=200))
    found = ErrorCorrelation.fit(scores, scores.score, 1)
    assert (found.length_scale.tolist(), found.smooth.tolist()) == ([1.0], [False])


@given(seeds)
@settings(max_examples=15)
def test_draws_of_a_series_do_not_depend_on_other_series(seed):
    series = some_series(seed)
    rng = np.random.default_rng(seed)
    dims = series.dims
    correlation = ErrorCorrelation(
        rng.uniform(0.05, 3, dims), rng.random(dims) < 0.5, np.eye(dims)
    )
    noise = rng.normal(size=(2, *series.value.shape))
    drawn = correlation.correlate(series, Gaps.of(series), noise)
    assert np.isfinite(drawn).all()
    assert (drawn[series.observed] == 0).all()
    for each in range(series.series):
        alone, rows = series.select(np.array([each])), slice(*series.start[each : each + 2])
        own = correlation.correlate(alone, Gaps.of(alone), noise[:, rows])
        np.testing.assert_allclose(own, drawn[rows], atol=1e-12)


# Hold-out split


@given(seeds)
@settings(max_examples=15)
def test_held_out_cells_are_observed_and_reproducible(seed):
    rng = np.random.default_rng(seed)
    value = np.where(rng.random((3, 80, 2)) < 0.2, np.nan, rng.normal(size=(3, 80, 2)))
    series = SeriesSet.stack(value)
    how = {"mask": "empirical", "whole_rows": False, "seed": seed % 1000}
    taken = HoldOut.of(series, **how)
    assert taken is not None
    assert not (taken.hidden & ~taken.truth.observed).any()
    np.testing.assert_array_equal(taken.truth.value, series.value[taken.rows])
    np.testing.assert_array_equal(taken.known.observed, taken.truth.observed & ~taken.hidden)
    left = taken.remove_from(series)
    assert series.observed.sum() - left.observed.sum() == taken.hidden.sum()
    np.testing.assert_array_equal(HoldOut.of(series, **how).hidden, taken.hidden)


def test_nothing_is_held_out_from_very_little_data():
    series = SeriesSet.stack(np.ones((1, 30, 1)))
    assert HoldOut.of(series, "points", whole_rows=True, seed=0) is None


def test_cells_of_a_large_data_set_are_held_out_from_segments():
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(2, 5000, 1)))
    config = EvaluationConfig(max_cells=1000, segment_rows=100)
    taken = HoldOut.of(series, "points", whole_rows=True, seed=0, config=config)
    assert taken is not None
    assert 900 <= taken.truth.rows <= 1000
    assert np.unique(taken.rows).size == taken.rows.size
    assert (taken.truth.length <= 100).all()
    assert set(series.owner[taken.rows]) == {0, 1}
    removed = series.observed & ~taken.remove_from(series).observed
    np.testing.assert_array_equal(np.flatnonzero(removed), np.sort(taken.rows[taken.hidden[:, 0]]))


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_the_share_of_held_out_cells_is_configurable(share):
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(2, 2000, 1)))
    config = EvaluationConfig(held_out=share)
    taken = HoldOut.of(series, "points", whole_rows=True, seed=0, config=config)
    assert taken.hidden.mean() == pytest.approx(share, rel=0.25)


def test_scores_record_row_channel_gap_and_position():
    value = np.array([[[0.0, 0.0], [np.nan, 0.0], [np.nan, np.nan], [0.0, np.nan], [0.0, 0.0]]])
    known = SeriesSet.stack(value, 100.0 + 2.0 * np.arange(5.0)[None])
    hidden = ~known.observed
    hidden[1, 0] = False  # missing from the beginning
    scores = CalibrationScores.of(known, hidden, np.array([1.0, 2.0, 3.0]))
    assert scores.row.tolist() == [2, 2, 3]
    assert scores.channel.tolist() == [0, 1, 1]
    assert scores.gap_bin.tolist() == [2, 2, 2]  # six units in both channels
    np.testing.assert_allclose(scores.position, [4 / 6, 4 / 6, 1.0])
    assert scores.gap[1] == scores.gap[2] != scores.gap[0]
    assert scores.select(scores.channel == 1).score.tolist() == [2.0, 3.0]
