"""Laws of the metrics, and scikit-learn and scipy as oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import mean_absolute_error, mean_squared_error

from nrtsi.errors import InputError
from nrtsi.evaluation import metrics

seeds = st.integers(0, 2**32 - 1)


def example(seed, draws=5):
    """Truth, a filling, draws, and the cells that count (at least one)."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(4, 7, 3))
    where = rng.random(truth.shape) < 0.4
    where[0, 0, 0] = True
    return truth, truth + rng.normal(size=truth.shape), rng.normal(size=(draws, 4, 7, 3)), where


def scores(truth, filled, draws, where):
    deviation = np.exp(0.3 * filled)
    return {
        "mse": metrics.mse(truth, filled, where),
        "mae": metrics.mae(truth, filled, where),
        "l2": metrics.l2(truth, filled, where),
        "nll": metrics.nll(truth, filled, deviation, where),
        "crps": metrics.crps(truth, draws, where),
        "coverage": metrics.coverage(truth, filled - deviation, filled + deviation, where),
    }


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_cells_that_do_not_count_change_nothing(seed):
    truth, filled, draws, where = example(seed)
    junk = np.where(where, truth, 1e9)
    assert scores(truth, filled, draws, where) == scores(junk, filled, draws, where)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_order_of_the_rows_changes_nothing(seed):
    truth, filled, draws, where = example(seed)
    order = np.random.default_rng(seed).permutation(7)
    moved = scores(truth[:, order], filled[:, order], draws[:, :, order], where[:, order])
    assert moved == pytest.approx(scores(truth, filled, draws, where))


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_errors_agree_with_scikit_learn(seed):
    truth, filled, _, where = example(seed)
    mse = mean_squared_error(truth[where], filled[where])
    mae = mean_absolute_error(truth[where], filled[where])
    assert metrics.mse(truth, filled, where) == pytest.approx(mse)
    assert metrics.mae(truth, filled, where) == pytest.approx(mae)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_likelihood_agrees_with_scipy(seed):
    truth, mean, _, where = example(seed)
    deviation = np.exp(mean)
    theirs = -norm.logpdf(truth[where], mean[where], deviation[where]).mean()
    assert metrics.nll(truth, mean, deviation, where) == pytest.approx(theirs)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, count=st.integers(2, 9))
def test_crps_is_what_its_definition_says(seed, count):
    truth, _, draws, where = example(seed, count)
    off = np.abs(draws - truth).mean(axis=0)
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (count * (count - 1))
    assert metrics.crps(truth, draws, where) == pytest.approx(np.mean((off - pairs / 2)[where]))


def test_crps_of_many_draws_is_that_of_their_distribution():
    rng = np.random.default_rng(0)
    truth = np.array([0.7])
    draws = rng.normal(size=(200_000, 1))
    z = 0.7
    exact = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    assert metrics.crps(truth, draws, np.array([True])) == pytest.approx(exact, abs=5e-3)


def test_crps_of_one_draw_is_its_absolute_error():
    truth, filled, _, where = example(0)
    assert metrics.crps(truth, filled[None], where) == metrics.mae(truth, filled, where)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_l2_of_whole_rows_is_mse_times_the_channels(seed):
    truth, filled, _, where = example(seed)
    rows = np.broadcast_to(where.any(axis=-1, keepdims=True), where.shape)
    assert metrics.l2(truth, filled, rows) == pytest.approx(3 * metrics.mse(truth, filled, rows))


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_a_perfect_filling_has_no_error(seed):
    truth, _, _, where = example(seed)
    assert metrics.mse(truth, truth, where) == 0
    assert metrics.mae(truth, truth, where) == 0
    assert metrics.l2(truth, truth, where) == 0
    assert metrics.crps(truth, np.stack([truth, truth]), where) == 0
    assert metrics.coverage(truth, truth, truth, where) == 1


def test_l2_by_hand():
    truth = np.zeros((3, 2))
    filled = np.array([[1.0, 2.0], [3.0, 9.0], [9.0, 9.0]])
    where = np.array([[True, True], [True, False], [False, False]])
    assert metrics.l2(truth, filled, where) == (1 + 4 + 9) / 2


def test_coverage_counts_the_ends():
    truth = np.array([0.0, 1.0, 2.0, 3.0])
    where = np.array([True, True, True, False])
    assert metrics.coverage(truth, np.ones(4), np.full(4, 2.0), where) == pytest.approx(2 / 3)


def test_nothing_to_score_is_refused():
    nothing = np.zeros((2, 2), dtype=bool)
    for score in (metrics.mse, metrics.mae, metrics.l2):
        with pytest.raises(InputError, match="where must be True in at least one cell"):
            score(np.zeros((2, 2)), np.zeros((2, 2)), nothing)


def test_a_deviation_of_zero_is_refused():
    with pytest.raises(InputError, match=r"deviation must be positive, got 0\.0"):
        metrics.nll(np.zeros(1), np.zeros(1), np.zeros(1), np.ones(1, dtype=bool))
