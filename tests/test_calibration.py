"""How sure an imputation is: coverage, pooling, coherence, and what is set aside for them."""

import json
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.core.series import SeriesSet
from nrtsi.evaluation.calibration import (
    Calibration,
    CalibrationScores,
    ErrorCorrelation,
    HoldOut,
    holdout,
)
from nrtsi.evaluation.calibration.conformal import GRID, LARGEST, coverage
from tests.strategies import seeds, some_series

SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) - 0.2,
    "heavy": lambda rng, n: rng.standard_t(3, size=n),
}


def errors_of(score, channel=0, bucket=0, gap=None):
    """Errors of cells that are each a gap of their own."""
    every = np.arange(score.size)
    channel, bucket = (np.broadcast_to(each, score.shape).copy() for each in (channel, bucket))
    place = np.zeros(score.size)
    return CalibrationScores(channel, bucket, every if gap is None else gap, every, place, score)


def quantile(calibration, level, channel=0, bucket=0):
    normal = np.array([NormalDist().inv_cdf(level)])
    return float(calibration.score(normal, np.array([channel]), np.array([bucket]))[0])


# Quantiles


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_fresh_errors_are_covered_in_every_channel_and_bucket(level):
    rng, n = np.random.default_rng(1), 2000
    kinds = [
        (dim, bucket, shape, width)
        for dim, shape in enumerate(SHAPES)
        for bucket, width in ((0, 0.1), (3, 1.0), (4, 7.0))
    ]
    known = [width * SHAPES[shape](rng, n) for _, _, shape, width in kinds]
    channel, bucket = (np.repeat([kind[at] for kind in kinds], n) for at in (0, 1))
    found = Calibration.fit(errors_of(np.concatenate(known), channel, bucket), dims=3)
    slack = 0.02 + 2 * np.sqrt(level * (1 - level) / n)
    for dim, at, shape, width in kinds:
        fresh = width * SHAPES[shape](rng, 20_000)
        ends = (quantile(found, (1 + sign * level) / 2, dim, at) for sign in (-1, 1))
        low, high = ends
        assert abs(np.mean((fresh >= low) & (fresh <= high)) - level) < slack


@given(seeds, st.integers(1, 400), st.integers(1, 3), st.floats(0, 0.6))
@settings(max_examples=25)
def test_errors_ascend_with_the_level_and_are_never_nan(seed, count, dims, at_bound):
    rng = np.random.default_rng(seed)
    score = rng.standard_t(2, size=count)
    score[rng.random(count) < at_bound] = rng.choice([-np.inf, np.inf])
    errors = errors_of(score, rng.integers(0, dims, count), rng.integers(0, GAP_BINS, count))
    found = Calibration.fit(errors, dims)
    assert np.isfinite(found.table).all()
    assert (np.diff(found.table, axis=-1) >= 0).all()
    assert np.isfinite(found.normal(errors)).all()
    normal = np.linspace(-6, 6, 50)
    for dim in range(dims):
        asked = found.score(normal, np.full(50, dim), np.full(50, 7))
        assert (np.diff(asked) >= 0).all()
    np.linalg.cholesky(found.coherence.across)
    assert found.cells.sum() == count


def test_nothing_set_aside_leaves_errors_normal():
    none = Calibration.none(2)
    assert none.is_empty
    for level in (0.001, 0.05, 0.3, 0.5, 0.9, 0.9999):
        assert quantile(none, level, 1, 5) == pytest.approx(NormalDist().inv_cdf(level), abs=1e-9)
    empty = Calibration.fit(errors_of(np.zeros(0)), 2)
    np.testing.assert_array_equal(empty.table, none.table)


def test_a_channel_with_few_cells_takes_the_shape_of_others_at_its_own_size():
    rng = np.random.default_rng(0)
    many, few = 2 * (rng.exponential(size=3000) - 0.2), 0.5 * (rng.exponential(size=80) - 0.2)
    score = np.concatenate([many, few])
    found = Calibration.fit(errors_of(score, np.repeat([0, 1], [3000, 80])), 2)
    for level in (0.05, 0.25, 0.75, 0.95):
        expected = 0.5 * (-np.log(1 - level) - 0.2)
        assert quantile(found, level, channel=1) == pytest.approx(expected, abs=0.3)
    shapes = [quantile(found, 0.95, dim) / quantile(found, 0.05, dim) for dim in (0, 1)]
    assert shapes[0] == pytest.approx(shapes[1], rel=0.01)


def test_an_empty_bucket_takes_the_errors_of_its_neighbours():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=1000), 10 * rng.normal(size=1000)])
    found = Calibration.fit(errors_of(score, 0, np.repeat([0, 8], 1000)), 1)
    # The size of a bucket without cells is that of its channel; its shape is its neighbours'.
    assert quantile(found, 0.95, bucket=0) < 2 < 12 < quantile(found, 0.95, bucket=8)
    assert 2 < quantile(found, 0.95, bucket=4) < 15


def test_cells_of_few_gaps_are_not_taken_for_many():
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=1000), 100.0 + np.zeros(1000)  # the far ones are one gap
    gap = np.concatenate([np.arange(1000), np.full(1000, 5000)])
    found = Calibration.fit(
        errors_of(np.concatenate([near, far]), 0, np.repeat([0, 5], 1000), gap), 1
    )
    assert quantile(found, 0.05, bucket=5) < 0


def test_a_file_keeps_a_calibration_exactly():
    rng = np.random.default_rng(0)
    errors = errors_of(rng.normal(size=500), rng.integers(0, 2, 500), rng.integers(0, 4, 500))
    found = Calibration.fit(errors, 2)
    back = Calibration.from_dict(json.loads(json.dumps(found.to_dict())))
    for name in ("table", "cells"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    for name in ("reach", "smooth", "across"):
        np.testing.assert_array_equal(
            getattr(back.coherence, name), getattr(found.coherence, name)
        )


# Bounds: a truth on one is an infinite error


def rain_and_heat(rng, heat):
    """Errors of a channel that is often on its lower bound, and a few of one without bounds."""
    rain = np.where(rng.random(2000) < 0.3, -np.inf, rng.normal(size=2000))
    score = np.concatenate([rain, rng.normal(size=heat)])
    return errors_of(score, np.repeat([0, 1], [2000, heat]))


def test_a_bound_of_one_channel_does_no_harm_to_another():
    found = Calibration.fit(rain_and_heat(np.random.default_rng(0), heat=60), 2)
    assert quantile(found, 0.05, channel=0) == -LARGEST
    assert -2.3 < quantile(found, 0.05, channel=1) < -1.1
    assert 1.1 < quantile(found, 0.95, channel=1) < 2.3


def test_an_interval_that_ends_at_a_bound_covers_what_is_there():
    errors = rain_and_heat(np.random.default_rng(0), heat=0)
    covered = coverage(errors, 1, 0.9)
    assert covered[np.isinf(errors.score)].all()


def test_errors_beyond_a_bound_stand_for_the_middle_of_what_lies_there():
    errors = rain_and_heat(np.random.default_rng(0), heat=0)
    normal = Calibration.fit(errors, 1).normal(errors)
    beyond = normal[np.isinf(errors.score)]
    assert np.unique(beyond).size == 1
    assert beyond[0] == pytest.approx(NormalDist().inv_cdf(0.15), abs=0.1)
    assert normal[np.isfinite(errors.score)].min() > beyond[0]


@given(seeds)
@settings(max_examples=10)
def test_normal_undoes_score(seed):
    rng = np.random.default_rng(seed)
    found = Calibration.fit(errors_of(rng.standard_t(3, size=600)), 1)
    normal = rng.uniform(GRID[0], GRID[-1], 100)
    zeros = np.zeros(100, dtype=np.int64)
    back = found.normal(errors_of(found.score(normal, zeros, zeros)))
    np.testing.assert_allclose(back, normal, atol=1e-2)


# Coverage


@pytest.mark.parametrize("shape", SHAPES)
def test_the_errors_of_other_gaps_cover_as_many_as_they_say(shape):
    rng = np.random.default_rng(0)
    score = SHAPES[shape](rng, 3000)
    for level in (0.5, 0.9):
        assert abs(coverage(errors_of(score), 1, level).mean() - level) < 0.03


def test_the_errors_of_a_gap_do_not_speak_for_themselves():
    """A gap that is unlike all others is not covered, though it has most of the cells."""
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=300), 50 + rng.normal(size=600)])
    gap = np.concatenate([np.arange(300), np.full(600, 999)])
    covered = coverage(errors_of(score, gap=gap), 1, 0.9)
    assert not covered[300:].any()


def test_no_errors_and_a_single_gap_can_be_asked():
    assert coverage(errors_of(np.zeros(0)), 1, 0.9).size == 0
    one = errors_of(np.array([0.0, 9.0]), gap=np.zeros(2, dtype=np.int64))
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


def agree(apart, reach, smooth):
    s = apart / reach
    return (1 + np.sqrt(3) * s) * np.exp(-np.sqrt(3) * s) if smooth else np.exp(-s)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("reach", [0.05, 0.4, 5.0])
def test_normal_numbers_have_variance_one_and_the_correlation_that_is_meant(smooth, reach):
    rng, count, size = np.random.default_rng(0), 20_000, 6
    # All gaps have the same uneven times, so that they are draws of one field.
    time = np.array([0.0, 1.0, 1.5, 3.0, 3.1, 6.0, 8.0, 10.0])
    value = np.full((count, size + 2, 1), np.nan)
    value[:, [0, -1]] = 0.0
    series = SeriesSet.stack(value, np.tile(time, (count, 1)))
    coherence = ErrorCorrelation(np.array([reach]), np.array([smooth]), np.eye(1))
    noise = rng.normal(size=(2, series.rows, 1))
    drawn = coherence.normal(series, Gaps.of(series), noise).reshape(count, size + 2)
    assert not drawn[:, [0, -1]].any()
    inside = drawn[:, 1:-1]
    apart = np.abs(time[1:-1, None] - time[1:-1]) / 10.0
    np.testing.assert_allclose(np.cov(inside.T), agree(apart, reach, smooth), atol=0.04)
    # Another gap knows nothing of this one.
    assert abs(np.mean(inside[1:, 0] * inside[:-1, -1])) < 0.03


@pytest.mark.parametrize("smooth", [False, True])
def test_channels_agree_as_much_as_is_meant(smooth):
    rng, count = np.random.default_rng(0), 5000
    across = np.array([[1.0, 0.8, -0.5], [0.8, 1.0, -0.3], [-0.5, -0.3, 1.0]])
    series = wide(gaps_of(count, 4), 3)
    coherence = ErrorCorrelation(np.full(3, 0.5), np.full(3, smooth), across)
    drawn = coherence.normal(series, Gaps.of(series), rng.normal(size=(2, series.rows, 3)))
    cells = drawn[~series.observed[:, 0]]
    np.testing.assert_allclose(np.cov(cells.T), across, atol=0.05)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("reach", [0.1, 0.3, 1.5])
def test_a_field_gives_back_what_it_was_made_of(smooth, reach):
    rng = np.random.default_rng(0)
    series = wide(gaps_of(600, 20, rng), 2)
    across = np.array([[1.0, 0.6], [0.6, 1.0]])
    made = ErrorCorrelation(np.full(2, reach), np.full(2, smooth), across)
    drawn = made.normal(series, Gaps.of(series), rng.normal(size=(2, series.rows, 2)))
    hidden = ~series.observed
    errors = CalibrationScores.of(series, hidden, drawn[hidden])
    found = ErrorCorrelation.fit(errors, drawn[hidden], 2)
    # Reach and kind are told apart by pairs alone: what counts is how much cells agree.
    apart = np.linspace(0.02, 1, 30)
    for dim in range(2):
        curve = agree(apart, found.reach[dim], found.smooth[dim])
        np.testing.assert_allclose(curve, agree(apart, reach, smooth), atol=0.12)
    assert found.across[0, 1] == pytest.approx(0.6, abs=0.1)


@given(seeds, st.integers(1, 200), st.integers(1, 6))
@settings(max_examples=25)
def test_channels_can_be_drawn_together_whatever_the_errors(seed, count, dims):
    rng = np.random.default_rng(seed)
    row = rng.integers(0, max(1, count // 3), count)
    channel = rng.integers(0, dims, count)
    keep = np.unique(row * dims + channel, return_index=True)[1]
    score = np.where(rng.random(count) < 0.2, 0.0, rng.choice([-3.5, 1.0, 3.5], count))[keep]
    errors = CalibrationScores(
        channel[keep], row[keep] * 0, channel[keep], row[keep], 1.0 * row[keep], score
    )
    across = ErrorCorrelation.fit(errors, score, dims).across
    assert np.linalg.eigvalsh(across).min() > 0
    np.testing.assert_array_equal(np.diag(across), 1.0)
    np.testing.assert_allclose(across, across.T)


def test_gaps_of_one_cell_say_nothing_of_how_far_errors_reach():
    errors = errors_of(np.random.default_rng(0).normal(size=200))
    found = ErrorCorrelation.fit(errors, errors.score, 1)
    assert (found.reach.tolist(), found.smooth.tolist()) == ([1.0], [False])


@given(seeds)
@settings(max_examples=15)
def test_what_a_series_is_drawn_does_not_depend_on_its_neighbours(seed):
    series = some_series(seed)
    rng = np.random.default_rng(seed)
    dims = series.dims
    coherence = ErrorCorrelation(rng.uniform(0.05, 3, dims), rng.random(dims) < 0.5, np.eye(dims))
    noise = rng.normal(size=(2, *series.value.shape))
    drawn = coherence.normal(series, Gaps.of(series), noise)
    assert np.isfinite(drawn).all()
    assert (drawn[series.observed] == 0).all()
    for each in range(series.series):
        alone, rows = series.select(np.array([each])), slice(*series.start[each : each + 2])
        own = coherence.normal(alone, Gaps.of(alone), noise[:, rows])
        np.testing.assert_allclose(own, drawn[rows], atol=1e-12)


# What is set aside


@given(seeds)
@settings(max_examples=15)
def test_cells_set_aside_are_known_ones_and_are_found_again(seed):
    rng = np.random.default_rng(seed)
    value = np.where(rng.random((3, 80, 2)) < 0.2, np.nan, rng.normal(size=(3, 80, 2)))
    series = SeriesSet.stack(value)
    how = {"mask": "empirical", "whole_rows": False, "seed": seed % 1000}
    taken = HoldOut.of(series, **how)
    assert taken is not None
    assert not (taken.hidden & ~taken.truth.observed).any()
    np.testing.assert_array_equal(taken.truth.value, series.value[taken.rows])
    np.testing.assert_array_equal(taken.known.observed, taken.truth.observed & ~taken.hidden)
    left = taken.leave(series)
    assert series.observed.sum() - left.observed.sum() == taken.hidden.sum()
    np.testing.assert_array_equal(HoldOut.of(series, **how).hidden, taken.hidden)


def test_too_little_data_are_left_whole():
    series = SeriesSet.stack(np.ones((1, 30, 1)))
    assert HoldOut.of(series, "points", whole_rows=True, seed=0) is None


def test_of_much_data_stretches_are_taken(monkeypatch):
    monkeypatch.setattr(holdout, "MOST_CELLS", 1000)
    monkeypatch.setattr(holdout, "STRETCH", 100)
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(2, 5000, 1)))
    taken = HoldOut.of(series, "points", whole_rows=True, seed=0)
    assert taken is not None
    assert 900 <= taken.truth.rows <= 1000
    assert np.unique(taken.rows).size == taken.rows.size
    assert (taken.truth.length <= 100).all()
    assert set(series.owner[taken.rows]) == {0, 1}
    gone = series.observed & ~taken.leave(series).observed
    np.testing.assert_array_equal(np.flatnonzero(gone), np.sort(taken.rows[taken.hidden[:, 0]]))


def test_errors_know_where_their_cells_lie():
    value = np.array([[[0.0, 0.0], [np.nan, 0.0], [np.nan, np.nan], [0.0, np.nan], [0.0, 0.0]]])
    known = SeriesSet.stack(value, 100.0 + 2.0 * np.arange(5.0)[None])
    hidden = ~known.observed
    hidden[1, 0] = False  # missing from the beginning
    errors = CalibrationScores.of(known, hidden, np.array([1.0, 2.0, 3.0]))
    assert errors.row.tolist() == [2, 2, 3]
    assert errors.channel.tolist() == [0, 1, 1]
    assert errors.bucket.tolist() == [2, 2, 2]  # six units in both channels
    np.testing.assert_allclose(errors.place, [4 / 6, 4 / 6, 1.0])
    assert errors.gap[1] == errors.gap[2] != errors.gap[0]
    assert errors.pick(errors.channel == 1).score.tolist() == [2.0, 3.0]
