"""The metrics of the tables, and the tasks that are scored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi import NRTSI
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.methods import Method, NRTSIMethod
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import SCORES, Imputation, pool_tasks, score, standard_error, task_of
from nrtsi.errors import InputError
from tests.strategies import seeds

TABLE = open_table("mujoco")


def imputation(seed, series=6, steps=12, dims=2, draws=None):
    rng = np.random.default_rng(seed)
    shape = (series, steps, dims)
    truth = rng.normal(size=shape)
    hidden = np.repeat(rng.random((series, steps, 1)) < 0.6, dims, axis=2)
    hidden[:, 0] = True
    drawn = None if draws is None else truth + rng.normal(size=(draws, *shape))
    return Imputation(truth, hidden, truth + rng.normal(size=shape), drawn)


def test_every_measure_of_the_truth_by_the_truth_is_without_error():
    given = imputation(0)
    perfect = score(
        Imputation(given.truth, given.hidden, given.truth), ["l2", "mse", "mae", "crps"]
    )
    assert set(perfect.values()) == {0.0}


def test_draws_are_used_where_there_are_draws():
    some = imputation(1, draws=5)
    assert SCORES["avg_over_min"](some) > 1
    assert SCORES["avg_over_min"](Imputation(some.truth, some.hidden, some.mean)) == 1
    assert some.paths.shape == (30, 12, 2)
    np.testing.assert_array_equal(some.paths[6:12], some.draws[1])
    np.testing.assert_array_equal(some.true_paths[6:12], some.truth)


@given(seeds, st.sampled_from(["l2", "mse", "mae"]))
def test_the_standard_error_is_that_of_resampled_series(seed, name):
    # The delta method against the jackknife, which leaves out one series after another.
    whole = imputation(seed, series=200)
    without = []
    for index in range(200):
        keep = np.arange(200) != index
        part = Imputation(whole.truth[keep], whole.hidden[keep], whole.mean[keep])
        without.append(SCORES[name](part))
    jackknife = np.sqrt(199 / 200 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert standard_error(whole, name) == pytest.approx(jackknife, rel=0.02)


@given(seeds)
def test_copies_of_a_series_are_no_further_series(seed):
    once = imputation(seed, series=50)
    twice = Imputation(
        *(np.concatenate([each, each]) for each in (once.truth, once.hidden, once.mean)),
        copies=2,
    )
    assert standard_error(twice, "mse") == pytest.approx(standard_error(once, "mse"))


def test_the_standard_error_of_one_series_is_unknown():
    assert np.isnan(standard_error(imputation(0, series=1), "mse"))


def test_values_that_are_not_finite_are_refused_where_they_count():
    some = imputation(2)
    some.mean[~some.hidden] = np.nan
    score(some, ["mse"])
    some.mean[some.hidden] = np.inf
    with pytest.raises(InputError, match="values that are not finite"):
        score(some, ["mse"])


def test_a_measure_without_meaning_is_not_a_number():
    some = imputation(3)
    still = Imputation(some.truth, some.hidden, np.zeros_like(some.truth))
    found = score(still, ["l2", "sinuosity"])
    assert np.isnan(found["sinuosity"])
    assert found["l2"] > 0


class Zeros(Method):
    def impute(self, given, draws):
        return np.zeros_like(given.value), None


def data(seed, steps=100, dims=3):
    rng = np.random.default_rng(seed)

    def some(series):
        time = np.tile(np.arange(float(steps)), (series, 1))
        return Part(time, rng.normal(size=(series, steps, dims)))

    return Dataset("mujoco", some(4), some(5), some(6), ("a", "b", "c"), "")


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_the_error_of_pooled_tasks_is_the_mean_over_all_their_cells(seed):
    made = data(seed)
    tasks = [task_of(TABLE, setting, made, part=made.validation) for setting in TABLE.settings]
    whole = pool_tasks(tasks)
    errors = [score(task.impute(Zeros(), 0), ["mse"])["mse"] for task in tasks]
    cells = [task.hidden.sum() for task in tasks]
    found = score(whole.impute(Zeros(), 0), ["mse"])
    assert found["mse"] == pytest.approx(np.average(errors, weights=cells))
    assert whole.copies == len(tasks)
    assert whole.truth.series == 5 * len(tasks)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_a_part_that_is_named_is_asked_and_no_other(seed):
    made = data(seed)
    test, held = (
        task_of(TABLE, TABLE.settings[0], made, part) for part in (None, made.validation)
    )
    np.testing.assert_array_equal(test.truth.value, made.test.value)
    np.testing.assert_array_equal(held.truth.value, made.validation.value)
    assert (held.hidden.any(axis=2).sum(axis=1) == 90).all()


def test_the_truth_answers_without_error_and_the_series_are_counted():
    made = data(0)
    task = task_of(TABLE, TABLE.settings[0], made)
    assert task.figures(task.impute(None, 0), ["mse"]) == {"mse": 0, "mse_se": 0, "series": 6}


def test_a_model_that_was_fitted_on_arrays_answers_as_it_did(tmp_path):
    made = data(0, steps=20)
    model = NRTSI(preset="tiny", steps=1, seed=3, unit=1.0).fit(made.train.value)
    model.save(tmp_path / "m.nrtsi")
    method = NRTSIMethod.load(tmp_path / "m.nrtsi")
    assert method.seed == 3
    assert method.parameters > 0
    assert method.has_channels(("a", "b", "c"))
    assert not method.has_channels(("a", "b"))
    given = Part(made.test.time, np.where(np.arange(20)[:, None] % 3, np.nan, made.test.value))
    filled, draws = method.impute(given, 0)
    np.testing.assert_array_equal(filled, model.impute(given.value, times=given.time))
    assert draws is None
