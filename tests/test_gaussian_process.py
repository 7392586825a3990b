"""The Gaussian process: its covariance function, predictions, training, and part in a model."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import CovarianceConfig, GPConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.segments import Segments
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import Sample
from nrtsi.predictors.gaussian_process import (
    CellLocations,
    Covariance,
    CovarianceTable,
    GPTrainer,
    MultiOutputGP,
)
from nrtsi.scale import impute_files
from tests.fit_context import fitting
from tests.resuming import check_resuming
from tests.strategies import seeds, some_series

DISTANCE, CLIP = CovarianceConfig().max_distance, CovarianceConfig().max_deviation


def some_gp(dims, seed=0, periods=(12.0,), config=None):
    """A process whose kernels and noise have about the same variance."""
    torch.manual_seed(seed)
    covariance = Covariance(dims, periods, config)
    for name, parameter in covariance.named_parameters():
        if name not in ("log_lengthscales", "log_decay_times"):
            torch.nn.init.normal_(parameter, std=0.5)
    return MultiOutputGP(covariance.eval())


def exact(gp, series):
    """Mean and standard deviation of every cell of one series, from the full matrix."""
    rows, channels = (each.ravel() for each in np.indices(series.value.shape))
    known = series.observed.ravel()
    with torch.inference_mode():
        lag = torch.from_numpy(np.subtract.outer(series.time[rows], series.time[rows]).ravel())
        by_lag = gp.module(lag).numpy().reshape(rows.size, rows.size, *[series.dims] * 2)
        noise = (2 * gp.module.log_noise_std).exp().numpy()[channels]
    both = by_lag[np.arange(rows.size)[:, None], np.arange(rows.size), channels[:, None], channels]
    seen = both[np.ix_(known, known)] + np.diag(noise[known] + 1e-6)
    weight = np.linalg.solve(seen, both[known]).T
    left = np.diag(both) + noise - np.einsum("ak,ka->a", weight, both[known])
    value = series.value.ravel()[known].clip(-CLIP, CLIP)
    mean = np.where(known, series.value.ravel(), weight @ value)
    std = np.where(known, 0.0, np.sqrt(np.maximum(left, 1e-6)))
    return mean.reshape(series.value.shape), std.reshape(series.value.shape)


# Covariance and prediction -----------------------------------------------------------------------


@given(seed=seeds, regular=st.booleans())
@settings(max_examples=40, deadline=None)
def test_predictions_equal_those_of_the_full_matrix(seed, regular):
    series = some_series(seed, regular=regular, some_data=True).select(np.array([0]))
    gp = some_gp(series.dims, seed)
    predicted = gp.predict(series)
    mean, std = exact(gp, series)
    np.testing.assert_allclose(predicted.mean, mean, atol=1e-6)
    np.testing.assert_allclose(predicted.std, std, atol=1e-5)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_covariance_matrices_are_symmetric_and_positive_semidefinite(seed):
    rng = np.random.default_rng(seed)
    dims, size = int(rng.integers(1, 5)), 30
    covariance = some_gp(dims, seed).module
    cells = CellLocations(rng.uniform(0, 30, size), rng.integers(0, dims, size))
    with torch.inference_mode():
        matrix = covariance.between(cells, cells).numpy()
        lag = torch.from_numpy(rng.uniform(-50, 50, 9))
        later, earlier = covariance(lag), covariance(-lag)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    torch.testing.assert_close(later, earlier.mT)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_table_of_a_grid_equals_the_covariance_function(seed):
    rng = np.random.default_rng(seed)
    dims, begin = int(rng.integers(1, 5)), 10.0 ** rng.integers(0, 12)
    covariance = some_gp(dims, seed).module
    cells, others = (
        CellLocations(begin + rng.integers(0, 50, size), rng.integers(0, dims, size))
        for size in (20, 30)
    )
    with torch.inference_mode():
        found = covariance.between(cells, others, CovarianceTable(covariance, 49.0))
        torch.testing.assert_close(found, covariance.between(cells, others))


@given(seed=seeds, threads=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_series_do_not_affect_each_other_and_observed_cells_are_kept(seed, threads):
    series = some_series(seed)
    gp = some_gp(series.dims, seed)
    batch = gp.predict(series, threads=Threads(threads))
    single = [gp.predict(series.select(np.array([i]))) for i in range(series.series)]
    np.testing.assert_allclose(batch.mean, np.concatenate([p.mean for p in single]), atol=1e-9)
    np.testing.assert_allclose(batch.std, np.concatenate([p.std for p in single]), atol=1e-9)
    np.testing.assert_array_equal(batch.mean[series.observed], series.value[series.observed])
    assert ((batch.std > 0) == ~series.observed).all()
    assert batch.available.all()


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_restored_process_predicts_the_same_whatever_the_defaults(seed):
    series = some_series(seed)
    config = CovarianceConfig(
        lengthscales=(3.0, 30.0),
        harmonics=(1,),
        sources=2,
        context_cells=24,
        neighbours=(1, 2),
        max_distance=40.0,
        max_deviation=1.0,
    )
    gp = some_gp(series.dims, seed, config=config)
    restored = MultiOutputGP.from_state(*gp.state())
    before, after = gp.predict(series), restored.predict(series)
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.std, after.std)
    assert restored.module.config == config
    assert str(restored) == str(gp) == "reads 2 observed cells per column on each side"


def test_distant_cells_are_not_read():
    time = np.array([0.0, 1.0, 2.0, 10 * DISTANCE, 10 * DISTANCE + 1, 1e12])
    observed = np.array([True, True, False, False, True, False])[:, None]
    series = SeriesSet(time, np.where(observed, 2.0, 0.0), observed, np.array([0, 6]))
    gp = some_gp(1)
    predicted = gp.predict(series)
    near = gp.predict(SeriesSet(time[:3], series.value[:3], observed[:3], np.array([0, 3])))
    np.testing.assert_allclose(predicted.mean[:3], near.mean, atol=1e-9)
    assert predicted.mean[5] == interpolate(series)[5]
    assert predicted.std[5] > predicted.std[3]


def test_blocks_of_a_long_series_agree_with_the_full_matrix():
    rng = np.random.default_rng(0)
    known = rng.random((300, 2)) < 0.7
    gp = some_gp(2)
    gp.module.log_lengthscales.data.fill_(np.log(2.0))
    gp.module.log_decay_times.data.fill_(np.log(4.0))
    value = rng.normal(size=(300, 2))
    series = SeriesSet.stack(np.where(known, value, np.nan)[None])
    np.testing.assert_allclose(gp.predict(series).mean, exact(gp, series)[0], atol=1e-3)


def test_an_outlier_is_clipped_before_it_is_read():
    rng = np.random.default_rng(0)
    value = rng.normal(size=(60, 2))
    value[30, 0], value[30, 1] = 1e6, np.nan
    clipped = value.copy()
    clipped[30, 0] = CLIP
    gp = some_gp(2)
    outlier, usual = (gp.predict(SeriesSet.stack(each[None])) for each in (value, clipped))
    assert outlier.mean[30, 1] == usual.mean[30, 1]
    assert outlier.mean[30, 0] == 1e6


# Training ----------------------------------------------------------------------------------------


def tides(rows, seed=0):
    """Two channels with a cycle of 24 steps, one later than the other, and a common drift."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(rows) / 24
    drift = np.cumsum(rng.normal(size=rows)) * 0.1
    both = np.stack([np.sin(angle) + drift, np.sin(angle - 2.0) - drift], axis=1)
    return both + 0.05 * rng.normal(size=both.shape)


def with_gaps(value, seed=1):
    """Gaps of 3 to 19 rows in either channel, and where they are."""
    rng = np.random.default_rng(seed)
    gaps = np.zeros(value.shape, dtype=bool)
    for _ in range(len(value) // 40):
        begin, channel = rng.integers(len(value)), rng.integers(value.shape[1])
        gaps[begin : begin + rng.integers(3, 20), channel] = True
    return np.where(gaps, np.nan, value), gaps


def random_walk(rows=900):
    return np.cumsum(np.random.default_rng(0).standard_normal((rows, 2)), axis=0)


QUICK = {"gp": {"cells": 120}, "min_base_steps": 50}


def trainer_of(series, periods=(), **settings):
    return GPTrainer.of(Sample(series, Segments.whole(series)), periods, GPConfig(**settings), 0)


def test_training_finds_the_cycle_and_the_uncertainty():
    truth = tides(600)
    values, gaps = with_gaps(truth)
    series = SeriesSet.stack(values[None])
    trainer = trainer_of(series, (24.0,), cells=120)
    losses = [trainer.advance(step / 150) for step in range(150)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.3
    predicted = MultiOutputGP(trainer.covariance).predict(series)

    def error(value):
        return np.square(value - truth)[gaps].mean()

    assert error(predicted.mean) < error(interpolate(series)) / 5
    assert 0.3 < np.square((predicted.mean - truth)[gaps] / predicted.std[gaps]).mean() < 3.0


@pytest.mark.parametrize(("series", "rows", "dims"), [(1, 1500, 9), (40, 200, 4), (300, 24, 2)])
def test_steps_draw_cells_from_all_times(series, rows, dims):
    trainer = trainer_of(SeriesSet.stack(np.zeros((series, rows, dims))))
    drawn = np.zeros(rows)
    for trainer.step in range(400):
        cells, _ = trainer.draw(np.random.default_rng(trainer.step))
        np.add.at(drawn, cells.time.astype(int), 1 / cells.time.size)
    # Rows near the ends are in fewer segments.
    middle = drawn[rows // 5 : rows - rows // 5].mean()
    assert drawn[: rows // 10].mean() > middle / 4
    assert drawn[-(rows // 10) :].mean() > middle / 4


def test_a_loss_that_is_not_finite_changes_nothing():
    data = SeriesSet.stack(tides(300)[None])
    trainer = trainer_of(data, (24.0,))
    torch.nn.init.constant_(trainer.covariance.log_noise_std, float("nan"))
    before = {name: weight.clone() for name, weight in trainer.covariance.named_parameters()}
    assert np.isnan(trainer.advance(0.0))
    for name, weight in trainer.covariance.named_parameters():
        torch.testing.assert_close(weight, before[name], equal_nan=True)
    context = fitting(data, 1, {}, mask="points").context
    assert not context.gate.improves(MultiOutputGP(trainer.covariance), max_ratio=1.0)


# Fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "dims"), [(100, 1), (400, 17)])
def test_few_cells_or_many_channels_fit_nothing(rows, dims):
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(1, rows, dims)))
    fit = fitting(series, 100, QUICK, mask="points")
    assert MultiOutputGP.fit(fit.context) is None
    assert not fit.losses


def test_a_short_budget_fits_nothing():
    fit = fitting(SeriesSet.stack(tides(300)[None]), 100, QUICK, mask="points", seconds=9.9)
    assert MultiOutputGP.fit(fit.context) is None
    assert not fit.losses


def test_a_closed_gate_fits_nothing():
    fit = fitting(SeriesSet.stack(tides(300)[None]), 100, QUICK, mask="points")
    solved = replace(fit.context.gate, means=(fit.context.gate.truth.value,))
    assert MultiOutputGP.fit(replace(fit.context, gate=solved)) is None
    assert not fit.losses


def test_a_process_that_helps_is_trained_to_the_end(caplog):
    caplog.set_level(logging.INFO)
    fit = fitting(SeriesSet.stack(with_gaps(tides(900))[0][None]), 70, QUICK, periods=(24.0,))
    gp = MultiOutputGP.fit(fit.context)
    assert len(fit.losses) == 70
    assert fit.context.gate.improves(gp, 0.9)
    assert "gp: trained for 70 steps" in caplog.text


def test_a_random_walk_is_given_up_after_the_first_test(caplog):
    caplog.set_level(logging.INFO)
    fit = fitting(SeriesSet.stack(random_walk()[None]), 400, QUICK, mask="points")
    assert MultiOutputGP.fit(fit.context) is None
    assert len(fit.losses) == 50
    assert "gp: does not lower the error after 50 steps" in caplog.text


# In a model --------------------------------------------------------------------------------------


def model(steps=100, train=None, **params):
    return NRTSI(steps=steps, preset="tiny", seed=0, train=train or QUICK, **params)


def hourly(value):
    """A table of two columns."""
    time = pd.date_range("2024-01-01", periods=len(value), freq="h")
    return pd.DataFrame(value, columns=["sea", "river"]).assign(time=time)


@pytest.fixture(scope="module")
def tidal():
    """A table with gaps, the table without, where the gaps are, and a fitted model."""
    truth = tides(900)
    values, gaps = with_gaps(truth)
    table = hourly(values)
    return table, truth, gaps, model(train={"gp": {"cells": 120}}).fit(table)


def imputed(imputer, table):
    return imputer.impute(table)[["sea", "river"]].to_numpy()


def test_it_halves_the_error_on_a_table_with_daily_cycles(tidal):
    table, truth, gaps, with_gp = tidal
    assert with_gp.info()["predictors"]["gp"].startswith("reads ")
    without = model(predictors=()).fit(table)
    assert without.info()["predictors"]["gp"] == "not used"

    def error(imputer):
        return np.square(imputed(imputer, table) - truth)[gaps].mean()

    assert error(with_gp) < error(without) / 2
    np.testing.assert_array_equal(imputed(with_gp, table)[~gaps], truth[~gaps])


def test_a_saved_model_has_the_process(tidal, tmp_path):
    table, _, _, with_gp = tidal
    with_gp.save(tmp_path / "model.nrtsi")
    again = load(tmp_path / "model.nrtsi")
    assert again.info()["predictors"] == with_gp.info()["predictors"]
    np.testing.assert_array_equal(imputed(again, table), imputed(with_gp, table))


def test_a_table_read_in_parts_is_imputed_almost_equally(tidal, tmp_path):
    table, truth, gaps, with_gp = tidal
    (tmp_path / "in").mkdir()
    for number, rows in enumerate((slice(0, 450), slice(450, 900))):
        table[rows].to_parquet(tmp_path / "in" / f"{number}.parquet")
    impute_files(with_gp, tmp_path / "in", tmp_path / "out")
    parts = [pd.read_parquet(tmp_path / "out" / f"{number}.parquet") for number in (0, 1)]
    result = pd.concat(parts)[["sea", "river"]].to_numpy()
    whole = imputed(with_gp, table)
    np.testing.assert_array_equal(result[~gaps], whole[~gaps])
    difference = np.square(result - whole)[gaps].mean()
    assert difference < np.square(whole - truth)[gaps].mean()


def test_a_training_with_a_process_resumes(tmp_path):
    table = hourly(with_gaps(tides(300))[0])
    fitted = check_resuming(lambda: model(steps=60), table, tmp_path, stops=(35,))
    assert fitted.info()["predictors"]["gp"] != "not used"


def test_a_model_of_a_random_walk_has_no_process():
    about = model(steps=60).fit(random_walk()).info()
    assert about["predictors"]["gp"] == "not used"


def test_it_is_not_trained_if_analogs_leave_no_error(monkeypatch):
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, (100, 1))
    cycles = np.sin(phase + 2 * np.pi * np.arange(24) / 24)[..., None]

    def never(trainer, fraction):
        raise AssertionError("the gate is closed")

    monkeypatch.setattr(GPTrainer, "advance", never)
    about = model().fit(cycles).info()
    assert about["predictors"]["analogs"] != "not used"
    assert about["predictors"]["gp"] == "not used"
