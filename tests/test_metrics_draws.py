"""Laws of the measures over draws, and plain loops as their oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.errors import InputError
from nrtsi.evaluation import metrics

seeds = st.integers(0, 2**32 - 1)


def example(seed, draws=4):
    """Truth, draws, and the cells that count; one series has none."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(5, 6, 3))
    where = rng.random(truth.shape) < 0.4
    where[0, 0, 0], where[1] = True, False
    return truth, rng.normal(size=(draws, 5, 6, 3)), where


def by_loops(truth, draws, where, per):
    """Error of each series and draw that counts, the slow way: (series, draw)."""
    table = []
    for series in range(truth.shape[0]):
        if not where[series].any():
            continue
        scores = []
        for draw in draws:
            square, rows, cells = 0.0, 0, 0
            for step in range(truth.shape[1]):
                rows += bool(where[series, step].any())
                for dim in range(truth.shape[2]):
                    if where[series, step, dim]:
                        square += (draw[series, step, dim] - truth[series, step, dim]) ** 2
                        cells += 1
            scores.append(square / (rows if per == "row" else cells))
        table.append(scores)
    return np.array(table)


@given(seed=seeds)
def test_they_agree_with_plain_loops(seed):
    truth, draws, where = example(seed)
    rows, cells = by_loops(truth, draws, where, "row"), by_loops(truth, draws, where, "cell")
    assert metrics.min_l2(truth, draws, where) == pytest.approx(rows.min(axis=1).mean())
    assert metrics.avg_l2(truth, draws, where) == pytest.approx(rows.mean())
    assert metrics.min_mse(truth, draws, where) == pytest.approx(cells.min(axis=1).mean())
    assert metrics.avg_mse(truth, draws, where) == pytest.approx(cells.mean())
    ratio = rows.mean() / rows.min(axis=1).mean()
    assert metrics.avg_over_min(truth, draws, where) == pytest.approx(ratio)


@given(seed=seeds)
def test_the_best_is_no_worse_than_the_average_and_one_more_draw_no_worse_than_before(seed):
    truth, draws, where = example(seed)
    assert metrics.min_l2(truth, draws, where) <= metrics.avg_l2(truth, draws, where)
    assert metrics.min_mse(truth, draws, where) <= metrics.avg_mse(truth, draws, where)
    assert metrics.avg_over_min(truth, draws, where) >= 1
    assert metrics.min_l2(truth, draws, where) <= metrics.min_l2(truth, draws[:-1], where)


@given(seed=seeds)
def test_of_one_draw_the_best_is_the_average(seed):
    truth, draws, where = example(seed, draws=1)
    assert metrics.avg_over_min(truth, draws, where) == 1
    alike = np.concatenate([draws, draws])
    assert metrics.avg_over_min(truth, alike, where) == pytest.approx(1)


@given(seed=seeds)
def test_one_draw_of_one_series_is_scored_as_a_filling_is(seed):
    truth, draws, where = (array[..., :1, :, :] for array in example(seed, draws=1))
    assert metrics.min_l2(truth, draws, where) == pytest.approx(metrics.l2(truth, draws[0], where))
    assert metrics.min_mse(truth, draws, where) == pytest.approx(
        metrics.mse(truth, draws[0], where)
    )


@given(seed=seeds)
def test_neither_the_order_of_the_draws_nor_cells_that_do_not_count_matter(seed):
    truth, draws, where = example(seed)
    order = np.random.default_rng(seed).permutation(len(draws))
    unknown = np.where(where, truth, np.nan)
    for score in (metrics.min_l2, metrics.avg_l2, metrics.min_mse, metrics.avg_mse):
        assert score(unknown, draws[order], where) == pytest.approx(score(truth, draws, where))


@given(seed=seeds, factor=st.floats(0.1, 10))
def test_errors_grow_with_the_square_of_the_units_and_the_ratio_not_at_all(seed, factor):
    truth, draws, where = example(seed)
    small, large = (truth, draws, where), (factor * truth, factor * draws, where)
    assert metrics.min_l2(*large) == pytest.approx(factor**2 * metrics.min_l2(*small))
    assert metrics.avg_mse(*large) == pytest.approx(factor**2 * metrics.avg_mse(*small))
    assert metrics.avg_over_min(*large) == pytest.approx(metrics.avg_over_min(*small))


def test_every_series_has_a_best_draw_of_its_own_by_hand():
    truth = np.zeros((2, 1, 2))
    draws = np.array([[[[1.0, 1.0]], [[3.0, 0.0]]], [[[2.0, 0.0]], [[1.0, 0.0]]]])
    where = np.ones((2, 1, 2), dtype=bool)
    # Squares summed over the channels: the first series 2 and 4, the second 9 and 1.
    assert metrics.min_l2(truth, draws, where) == (2 + 1) / 2
    assert metrics.avg_l2(truth, draws, where) == (2 + 4 + 9 + 1) / 4
    assert metrics.min_mse(truth, draws, where) == (2 + 1) / 4
    assert metrics.avg_mse(truth, draws, where) == (2 + 4 + 9 + 1) / 8
    assert metrics.avg_over_min(truth, draws, where) == pytest.approx(8 / 3)


@pytest.mark.parametrize("name", ["min_l2", "avg_l2", "min_mse", "avg_mse", "avg_over_min"])
def test_nothing_to_score_is_refused(name):
    truth, draws, where = example(0)
    score = getattr(metrics, name)
    with pytest.raises(InputError, match="where must be True in at least one cell, got none"):
        score(truth, draws, np.zeros_like(where))
    with pytest.raises(InputError, match="draws must hold at least one draw, got none"):
        score(truth, draws[:0], where)


def test_a_ratio_to_perfect_draws_is_refused():
    truth, draws, where = example(0)
    with pytest.raises(InputError, match="best draws must miss the truth somewhere, got none"):
        metrics.avg_over_min(truth, np.stack([truth, draws[0]]), where)
