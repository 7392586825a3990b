"""The measures of the tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.scores import SCORES, Answer, score, standard_error
from nrtsi.errors import InputError
from tests.strategies import seeds


def answer(seed, series=6, steps=12, dims=2, draws=None):
    rng = np.random.default_rng(seed)
    shape = (series, steps, dims)
    truth = rng.normal(size=shape)
    hidden = np.repeat(rng.random((series, steps, 1)) < 0.6, dims, axis=2)
    hidden[:, 0] = True
    drawn = None if draws is None else truth + rng.normal(size=(draws, *shape))
    return Answer(truth, hidden, truth + rng.normal(size=shape), drawn)


def test_every_measure_of_the_truth_by_the_truth_is_without_error():
    given = answer(0)
    perfect = score(Answer(given.truth, given.hidden, given.truth), ["l2", "mse", "mae", "crps"])
    assert set(perfect.values()) == {0.0}


def test_draws_are_used_where_there_are_draws():
    some = answer(1, draws=5)
    assert SCORES["avg_over_min"](some) > 1
    assert SCORES["avg_over_min"](Answer(some.truth, some.hidden, some.filled)) == 1
    assert some.paths.shape == (30, 12, 2)
    np.testing.assert_array_equal(some.paths[6:12], some.draws[1])
    np.testing.assert_array_equal(some.truths[6:12], some.truth)


@given(seeds, st.sampled_from(["l2", "mse", "mae"]))
def test_the_standard_error_is_that_of_resampled_series(seed, name):
    # The delta method against the jackknife, which leaves out one series after another.
    whole = answer(seed, series=200)
    without = []
    for index in range(200):
        keep = np.arange(200) != index
        part = Answer(whole.truth[keep], whole.hidden[keep], whole.filled[keep])
        without.append(SCORES[name](part))
    jackknife = np.sqrt(199 / 200 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert standard_error(whole, name) == pytest.approx(jackknife, rel=0.02)


@given(seeds)
def test_copies_of_a_series_are_no_further_series(seed):
    once = answer(seed, series=50)
    twice = Answer(
        *(np.concatenate([each, each]) for each in (once.truth, once.hidden, once.filled)),
        copies=2,
    )
    assert standard_error(twice, "mse") == pytest.approx(standard_error(once, "mse"))


def test_the_standard_error_of_one_series_is_unknown():
    assert np.isnan(standard_error(answer(0, series=1), "mse"))


def test_values_that_are_not_finite_are_refused_where_they_count():
    some = answer(2)
    some.filled[~some.hidden] = np.nan
    score(some, ["mse"])
    some.filled[some.hidden] = np.inf
    with pytest.raises(InputError, match="values that are not finite"):
        score(some, ["mse"])


def test_a_measure_without_meaning_is_not_a_number():
    some = answer(3)
    still = Answer(some.truth, some.hidden, np.zeros_like(some.truth))
    found = score(still, ["l2", "sinuosity"])
    assert np.isnan(found["sinuosity"])
    assert found["l2"] > 0
