"""The dynamics model: its rollouts, training, and part in a model."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import DynamicsConfig, TrainConfig, TransitionConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.segments import Segments
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.predictors.base import Sample
from nrtsi.predictors.dynamics import (
    Runs,
    Transition,
    TransitionModel,
    TransitionTrainer,
    has_next,
)
from tests.fit_context import fitting
from tests.resuming import check_resuming
from tests.strategies import seeds, some_series

ANGLE = np.deg2rad(20)
ROTATION = torch.tensor(
    [[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]], dtype=torch.float32
)
MAX_STEPS = TransitionConfig().max_steps


class Rotation(torch.nn.Module):
    """The change of a row that rotates about the origin."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def forward(self, row):
        return row @ (self.matrix - torch.eye(2)).T


def some_model(dims, error=1.0, low=-torch.inf, high=torch.inf, std=0.0):
    """A model of known error; random weights if `std` is above 0."""
    transition = Transition(dims)
    transition.error[:], transition.low[:], transition.high[:] = error, low, high
    torch.manual_seed(0)
    for network in transition.networks:
        torch.nn.init.normal_(network.project.weight, std=std)
    return TransitionModel(transition.eval())


def rotation(forward_error=1.0, backward_error=1.0, **limits):
    """The exact model of rotating rows."""
    model = some_model(2, **limits)
    model.module.networks = torch.nn.ModuleList([Rotation(ROTATION), Rotation(ROTATION.T)])
    model.module.error[0], model.module.error[1] = forward_error, backward_error
    return model


def circles(count, length, seed=0):
    """Series of points that rotate by the same angle in every step."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, (count, 1)) + ANGLE * np.arange(length)
    radius = rng.uniform(0.5, 2.0, (count, 1))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


# Prediction --------------------------------------------------------------------------------------


@given(seed=seeds, share=st.floats(0.05, 0.9))
@settings(max_examples=30, deadline=None)
def test_an_exact_transition_fills_every_gap_exactly(seed, share):
    truth = circles(3, 40, seed)
    rng = np.random.default_rng(seed)
    known = rng.random(truth.shape[:2]) < share
    known[:, rng.integers(40)] = True
    series = SeriesSet.stack(np.where(known[..., None], truth, np.nan))
    predicted = rotation().predict(series)
    assert predicted.available.all()
    np.testing.assert_allclose(predicted.mean, truth.reshape(-1, 2), atol=1e-4)
    np.testing.assert_allclose(predicted.disagreement, 0.0, atol=1e-4)


@given(seeds)
@settings(deadline=None)
def test_complete_rows_are_kept_and_rows_out_of_reach_are_interpolated(seed):
    series = some_series(seed, regular=True)
    predicted = some_model(series.dims).predict(series)
    available, line = predicted.available[:, 0], interpolate(series)
    np.testing.assert_array_equal(predicted.mean[~available], line[~available])
    complete = series.observed.all(axis=1)
    np.testing.assert_array_equal(predicted.mean[complete], series.value[complete])
    has_source = [complete[series.owner == owner].any() for owner in series.owner]
    assert available.tolist() == has_source
    assert ((predicted.std > 0) == (available[:, None] & ~series.observed)).all()


@given(seeds)
@settings(deadline=None)
def test_series_do_not_affect_each_other(seed):
    series = some_series(seed, regular=True)
    model = some_model(series.dims, low=-3.0, high=3.0, std=0.1)
    batch = model.predict(series).mean
    single = [model.predict(series.select(np.array([i]))).mean for i in range(series.series)]
    np.testing.assert_allclose(batch, np.concatenate(single), rtol=1e-4, atol=1e-4)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_restored_model_predicts_the_same_whatever_the_defaults(seed):
    series = some_series(seed, regular=True)
    transition = Transition(series.dims, TransitionConfig(width=8, blocks=1, max_steps=5))
    transition.error[:] = 1.0
    for network in transition.networks:
        torch.nn.init.normal_(network.project.weight, std=0.1)
    model = TransitionModel(transition.eval())
    restored = TransitionModel.from_state(*model.state())
    before, after = model.predict(series), restored.predict(series)
    for name in ("mean", "std", "available", "disagreement"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert restored.module.config == transition.config
    assert str(restored) == str(model) == "rollouts of up to 5 steps"


def test_both_sides_are_weighted_by_inverse_squared_error():
    value = np.full((1, 5, 2), np.nan)
    value[0, 1], value[0, 4] = [1.0, 0.0], [0.0, 0.0]  # the backward rollout is 0
    predicted = rotation(forward_error=1.0, backward_error=3.0).predict(SeriesSet.stack(value))
    step = ROTATION @ torch.tensor([1.0, 0.0])
    np.testing.assert_allclose(predicted.mean[2], 0.75 * step.numpy(), atol=1e-6)
    np.testing.assert_allclose(predicted.disagreement[2], step.numpy(), atol=1e-6)
    np.testing.assert_allclose(predicted.std[2], np.sqrt(0.75))
    back = (ROTATION.T @ torch.tensor([1.0, 0.0])).numpy()
    np.testing.assert_allclose(predicted.mean[0], back, atol=1e-6)
    np.testing.assert_array_equal(predicted.disagreement[0], 0.0)
    np.testing.assert_allclose(predicted.std[0], np.sqrt(3.0))


def test_rows_off_the_grid_or_too_far_away_are_not_predicted():
    time = np.array([0.0, 1.0, 1.5, MAX_STEPS, MAX_STEPS + 1.0])
    observed = np.array([[True], [False], [False], [False], [False]])
    series = SeriesSet(time, np.where(observed, 1.0, 0.0), observed, np.array([0, 5]))
    available = some_model(1).predict(series).available[:, 0]
    assert available.tolist() == [True, True, False, True, False]


def test_rollouts_stay_within_the_limits():
    model = some_model(2)
    rows = torch.tensor([[0.0, -1.0], [1.0, 1.0]])
    model.module.standardise(rows, rows)
    for network in model.module.networks:
        network.project.bias.data.fill_(100.0)
    value = np.full((1, 3, 2), np.nan)
    value[0, 0] = 0.5
    predicted = model.predict(SeriesSet.stack(value)).mean
    np.testing.assert_allclose(predicted[1:], [[1.1, 1.2]] * 2, atol=1e-6)


def test_rollouts_do_not_start_from_rows_outside_the_limits():
    model = rotation(low=-3.0, high=3.0)
    value = np.full((1, 5, 2), np.nan)
    value[0, 0], value[0, 4] = [9.0, 0.0], [1.0, 1.0]
    predicted = model.predict(SeriesSet.stack(value))
    np.testing.assert_array_equal(predicted.disagreement, 0.0)
    back = np.array([1.0, 1.0]) @ np.linalg.matrix_power(ROTATION.numpy(), 2)
    np.testing.assert_allclose(predicted.mean[2], back, atol=1e-5)
    value[0, 4] = np.nan
    available = model.predict(SeriesSet.stack(value)).available[:, 0]
    assert available.tolist() == [True, *[False] * 4]


def test_a_constant_channel_that_changes_does_not_dominate_the_others():
    transition = some_model(2, std=0.1).module
    rows = torch.stack([torch.linspace(-1, 1, 50), torch.full((50,), 0.5)], dim=1)
    transition.standardise(rows, rows)
    usual, changed = transition(torch.tensor([[0.2, 0.5], [0.2, 0.51]]), back=False).detach()
    torch.testing.assert_close(usual[0], changed[0], atol=0.05, rtol=0)


# Training ----------------------------------------------------------------------------------------


def trainer_of(series, **settings):
    sample = Sample(series, Segments.whole(series))
    config = TrainConfig(dynamics=DynamicsConfig(**settings))
    return TransitionTrainer.of(sample, sample, config, seed=0)


@given(seed=seeds, regular=st.booleans(), partial=st.booleans())
@settings(deadline=None)
def test_run_lengths_equal_those_of_counting(seed, regular, partial):
    series = some_series(seed, regular=regular)
    segments = Segments.whole(series)
    if partial:
        segments = segments.sample(1, np.random.default_rng(seed), max_rows=5)
    runs = Runs.of(Sample(series, segments))
    follows = np.zeros(series.rows, dtype=bool)
    for begin, end in zip(segments.begin, segments.end, strict=True):
        follows[begin : end - 1] = has_next(series)[begin : end - 1]
    for row in range(series.rows):
        last = row
        while follows[last]:
            last += 1
        assert runs.after[row] == last - row
        first = row
        while first > 0 and follows[first - 1]:
            first -= 1
        assert runs.before[row] == row - first


def test_training_learns_the_transition_and_measures_its_error():
    trainer = trainer_of(SeriesSet.stack(circles(150, 20)), rows=1024)
    trainer.measure_errors()
    before = trainer.transition.error.clone()
    for step in range(150):
        trainer.advance(step / 150)
    trainer.measure_errors()
    after = trainer.transition.error
    assert trainer.beats_persistence()
    assert (after[:, :16] < before[:, :16] / 100).all()
    # No run is longer than 19 steps; up to 38, errors grow in proportion to the steps.
    torch.testing.assert_close(after[:, 37], 2 * after[:, 18])
    assert after[:, 38:].isinf().all()


# Fit ---------------------------------------------------------------------------------------------

QUICK = {"rows": 512, "rollout": 4}
TRAIN = {"dynamics": QUICK, "hidden": (0.7, 0.9)}


def lorenz(rows, seed=0):
    """A chaotic path whose every row determines the next."""
    row = np.random.default_rng(seed).normal(size=3) + np.array([0, 0, 25])
    path = []
    for step in range(10 * rows + 1000):
        x, y, z = row
        row = row + 0.004 * np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        if step >= 1000 and step % 10 == 0:
            path.append(row)
    return np.array(path)


def random_walk():
    return np.cumsum(np.random.default_rng(0).standard_normal((4000, 2)), axis=0)


@pytest.fixture(scope="module")
def attractor():
    return lorenz(4000)


def dynamics_fit(series, **params):
    return fitting(series, 120, TRAIN, mask="points", whole_rows=True, **params)


def test_few_successive_rows_or_many_channels_fit_nothing():
    series = SeriesSet.stack(circles(120, 50))
    even = (np.arange(series.rows) % 2 == 0)[:, None]
    wide = SeriesSet.stack(np.zeros((120, 50, 65)))
    for each in (series.hide(~even), series.select(np.arange(40)), wide):
        fit = dynamics_fit(each)
        assert TransitionModel.fit(fit.context) is None
        assert not fit.losses


def test_a_short_budget_or_a_closed_gate_fits_nothing():
    series = SeriesSet.stack(circles(120, 50))
    short, fit = dynamics_fit(series, seconds=29.9), dynamics_fit(series)
    assert TransitionModel.fit(short.context) is None
    solved = replace(fit.context.gate, means=(fit.context.gate.truth.value,))
    assert TransitionModel.fit(replace(fit.context, gate=solved)) is None
    assert not short.losses
    assert not fit.losses


def test_a_transition_that_helps_is_trained_to_the_end(caplog, attractor):
    caplog.set_level(logging.INFO)
    scaled = (attractor - attractor.mean(axis=0)) / attractor.std(axis=0)
    fit = dynamics_fit(SeriesSet.stack(scaled[None]))
    model = TransitionModel.fit(fit.context)
    assert len(fit.losses) == 120
    assert fit.context.gate.improves(model, 0.9)
    assert "dynamics: trained for 120 steps" in caplog.text


def test_a_random_walk_is_given_up_after_the_first_test(caplog):
    caplog.set_level(logging.INFO)
    fit = dynamics_fit(SeriesSet.stack(random_walk()[None]))
    assert TransitionModel.fit(fit.context) is None
    assert "dynamics: does not beat persistence after 100 steps" in caplog.text


# In a model --------------------------------------------------------------------------------------


def model(steps=100, **params):
    """A small model for complete rows of which most are missing."""
    return NRTSI(
        steps=steps,
        preset="tiny",
        seed=0,
        unit=1.0,
        setting="regular",
        mask="points",
        train=TRAIN,
        **params,
    )


def with_gaps(rows=400):
    """A path, the rows that are observed, and the path without the others."""
    truth = lorenz(rows, seed=5)
    known = np.random.default_rng(0).random(rows) < 0.2
    return truth, known, np.where(known[:, None], truth, np.nan)


def test_it_cuts_the_error_on_deterministic_dynamics(attractor, tmp_path):
    truth, known, gaps = with_gaps()
    with_dynamics = model().fit(attractor)
    about = with_dynamics.info()
    assert about["predictors"]["dynamics"].startswith("rollouts of up to ")
    assert about["network"] == "pointwise: each row determines the next"
    without = model(predictors=("analogs", "gp")).fit(attractor)
    assert without.info()["predictors"]["dynamics"] == "not used"
    imputed = with_dynamics.impute(gaps)

    def error(values):
        return np.square(values - truth)[~known].mean()

    assert error(imputed) < error(without.impute(gaps)) / 5
    np.testing.assert_array_equal(imputed[known], truth[known])
    with_dynamics.save(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(load(tmp_path / "model.nrtsi").impute(gaps), imputed)


def test_a_requested_network_is_used(attractor):
    about = model(model={"network": "rows"}).fit(attractor).info()
    assert about["network"].startswith("rows: ")
    assert about["predictors"]["dynamics"].startswith("rollouts of up to ")
    requested = model(steps=2, model={"network": "pointwise"}).fit(attractor).info()
    assert requested["network"] == "pointwise: as requested"


def test_a_training_with_dynamics_resumes(attractor, tmp_path):
    check_resuming(lambda: model(steps=110), attractor[:3000], tmp_path, stops=(60,))


def test_a_model_of_a_random_walk_has_no_dynamics():
    about = model().fit(random_walk()).info()
    assert about["predictors"]["dynamics"] == "not used"
    assert about["network"].startswith("rows: ")
