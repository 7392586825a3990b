"""Metrics agree with scikit-learn, scipy and plain loops."""

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
    """Truth, imputed values, draws, and the selected cells (at least one)."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(4, 7, 3))
    where = rng.random(truth.shape) < 0.4
    where[0, 0, 0] = True
    return truth, truth + rng.normal(size=truth.shape), rng.normal(size=(draws, 4, 7, 3)), where


def scores(truth, imputed, draws, where):
    return {
        "mse": metrics.mse(truth, imputed, where),
        "mae": metrics.mae(truth, imputed, where),
        "l2": metrics.l2(truth, imputed, where),
        "crps": metrics.crps(truth, draws, where),
    }


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_other_cells_change_nothing(seed):
    truth, imputed, draws, where = example(seed)
    junk = np.where(where, truth, 1e9)
    assert scores(truth, imputed, draws, where) == scores(junk, imputed, draws, where)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_order_of_the_rows_changes_nothing(seed):
    truth, imputed, draws, where = example(seed)
    order = np.random.default_rng(seed).permutation(7)
    moved = scores(truth[:, order], imputed[:, order], draws[:, :, order], where[:, order])
    assert moved == pytest.approx(scores(truth, imputed, draws, where))


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_errors_agree_with_scikit_learn(seed):
    truth, imputed, _, where = example(seed)
    mse = mean_squared_error(truth[where], imputed[where])
    mae = mean_absolute_error(truth[where], imputed[where])
    assert metrics.mse(truth, imputed, where) == pytest.approx(mse)
    assert metrics.mae(truth, imputed, where) == pytest.approx(mae)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, count=st.integers(2, 9))
def test_crps_equals_its_definition(seed, count):
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
    truth, imputed, _, where = example(0)
    assert metrics.crps(truth, imputed[None], where) == metrics.mae(truth, imputed, where)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_l2_of_whole_rows_is_mse_times_the_channels(seed):
    truth, imputed, _, where = example(seed)
    rows = np.broadcast_to(where.any(axis=-1, keepdims=True), where.shape)
    assert metrics.l2(truth, imputed, rows) == pytest.approx(3 * metrics.mse(truth, imputed, rows))


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_truth_has_no_error(seed):
    truth, _, _, where = example(seed)
    assert metrics.mse(truth, truth, where) == 0
    assert metrics.mae(truth, truth, where) == 0
    assert metrics.l2(truth, truth, where) == 0
    assert metrics.crps(truth, np.stack([truth, truth]), where) == 0


def test_l2_by_hand():
    truth = np.zeros((3, 2))
    imputed = np.array([[1.0, 2.0], [3.0, 9.0], [9.0, 9.0]])
    where = np.array([[True, True], [True, False], [False, False]])
    assert metrics.l2(truth, imputed, where) == (1 + 4 + 9) / 2


def test_nothing_to_score_is_rejected():
    nothing = np.zeros((2, 2), dtype=bool)
    for score in (metrics.mse, metrics.mae, metrics.l2):
        with pytest.raises(InputError, match="where must be True in at least one cell"):
            score(np.zeros((2, 2)), np.zeros((2, 2)), nothing)


def example_of_draws(seed, draws=4):
    """Truth, draws, and the selected cells; one series has none."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(5, 6, 3))
    where = rng.random(truth.shape) < 0.4
    where[0, 0, 0], where[1] = True, False
    return truth, rng.normal(size=(draws, 5, 6, 3)), where


def by_loops(truth, draws, where):
    """`l2` of each series with selected cells and each draw: (series, draw)."""
    table = []
    for series in range(truth.shape[0]):
        if not where[series].any():
            continue
        errors = []
        for draw in draws:
            square, rows = 0.0, 0
            for step in range(truth.shape[1]):
                rows += bool(where[series, step].any())
                for dim in range(truth.shape[2]):
                    if where[series, step, dim]:
                        square += (draw[series, step, dim] - truth[series, step, dim]) ** 2
            errors.append(square / rows)
        table.append(errors)
    return np.array(table)


@given(seed=seeds)
def test_metrics_of_draws_agree_with_plain_loops(seed):
    truth, draws, where = example_of_draws(seed)
    rows = by_loops(truth, draws, where)
    assert metrics.min_l2(truth, draws, where) == pytest.approx(rows.min(axis=1).mean())
    assert metrics.avg_l2(truth, draws, where) == pytest.approx(rows.mean())
    ratio = rows.mean() / rows.min(axis=1).mean()
    assert metrics.avg_over_min(truth, draws, where) == pytest.approx(ratio)


@given(seed=seeds)
def test_the_best_draw_is_at_least_as_good_as_the_average_and_improves_with_more_draws(seed):
    truth, draws, where = example_of_draws(seed)
    assert metrics.min_l2(truth, draws, where) <= metrics.avg_l2(truth, draws, where)
    assert metrics.avg_over_min(truth, draws, where) >= 1
    assert metrics.min_l2(truth, draws, where) <= metrics.min_l2(truth, draws[:-1], where)


@given(seed=seeds)
def test_equal_draws_have_a_ratio_of_one(seed):
    truth, draws, where = example_of_draws(seed, draws=1)
    assert metrics.avg_over_min(truth, draws, where) == 1
    alike = np.concatenate([draws, draws])
    assert metrics.avg_over_min(truth, alike, where) == pytest.approx(1)


@given(seed=seeds)
def test_one_draw_of_one_series_has_the_l2_of_an_imputation(seed):
    truth, draws, where = (array[..., :1, :, :] for array in example_of_draws(seed, draws=1))
    assert metrics.min_l2(truth, draws, where) == pytest.approx(metrics.l2(truth, draws[0], where))


@given(seed=seeds)
def test_neither_the_order_of_the_draws_nor_other_cells_matter(seed):
    truth, draws, where = example_of_draws(seed)
    order = np.random.default_rng(seed).permutation(len(draws))
    unknown = np.where(where, truth, np.nan)
    for score in (metrics.min_l2, metrics.avg_l2):
        assert score(unknown, draws[order], where) == pytest.approx(score(truth, draws, where))


@given(seed=seeds, factor=st.floats(0.1, 10))
def test_errors_scale_with_the_square_of_the_units_and_the_ratio_does_not(seed, factor):
    truth, draws, where = example_of_draws(seed)
    small, large = (truth, draws, where), (factor * truth, factor * draws, where)
    assert metrics.min_l2(*large) == pytest.approx(factor**2 * metrics.min_l2(*small))
    assert metrics.avg_over_min(*large) == pytest.approx(metrics.avg_over_min(*small))


def test_each_series_has_its_own_best_draw():
    truth = np.zeros((2, 1, 2))
    draws = np.array([[[[1.0, 1.0]], [[3.0, 0.0]]], [[[2.0, 0.0]], [[1.0, 0.0]]]])
    where = np.ones((2, 1, 2), dtype=bool)
    # Squares summed over the channels: the first series 2 and 4, the second 9 and 1.
    assert metrics.min_l2(truth, draws, where) == (2 + 1) / 2
    assert metrics.avg_l2(truth, draws, where) == (2 + 4 + 9 + 1) / 4
    assert metrics.avg_over_min(truth, draws, where) == pytest.approx(8 / 3)


@pytest.mark.parametrize("name", ["min_l2", "avg_l2", "avg_over_min"])
def test_no_selected_cell_and_no_draw_are_rejected(name):
    truth, draws, where = example_of_draws(0)
    score = getattr(metrics, name)
    with pytest.raises(InputError, match="where must be True in at least one cell, got none"):
        score(truth, draws, np.zeros_like(where))
    with pytest.raises(InputError, match="draws must contain at least one draw, got none"):
        score(truth, draws[:0], where)


def test_a_ratio_to_perfect_draws_is_rejected():
    truth, draws, where = example_of_draws(0)
    with pytest.raises(InputError, match="avg_l2 to min_l2 is undefined, got draws that equal"):
        metrics.avg_over_min(truth, np.stack([truth, draws[0]]), where)
