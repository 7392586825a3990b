"""What methods are asked, of which part of the data, and by which saved model it is answered."""

import numpy as np
import pytest
from hypothesis import given, settings

from nrtsi import NRTSI
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.methods import Method, Ours
from nrtsi.bench.scores import score
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import pooled, task_of
from tests.strategies import seeds

TABLE = open_table("mujoco")


class Zeros(Method):
    def answer(self, given, draws):
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
    whole = pooled(tasks)
    errors = [score(task.answered(Zeros(), 0), ["mse"])["mse"] for task in tasks]
    cells = [task.hidden.sum() for task in tasks]
    found = score(whole.answered(Zeros(), 0), ["mse"])
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
    assert task.figures(task.answered(None, 0), ["mse"]) == {"mse": 0, "mse_se": 0, "series": 6}


def test_a_model_that_was_fitted_on_arrays_answers_as_it_did(tmp_path):
    made = data(0, steps=20)
    model = NRTSI(preset="tiny", steps=1, seed=3, unit=1.0).fit(made.train.value)
    model.save(tmp_path / "m.nrtsi")
    ours = Ours.load(tmp_path / "m.nrtsi")
    assert ours.seed == 3
    assert ours.parameters > 0
    assert ours.knows(("a", "b", "c"))
    assert not ours.knows(("a", "b"))
    given = Part(made.test.time, np.where(np.arange(20)[:, None] % 3, np.nan, made.test.value))
    filled, draws = ours.answer(given, 0)
    np.testing.assert_array_equal(filled, model.impute(given.value, times=given.time))
    assert draws is None
