"""MultiOutputGP: cells kriged from known ones, how that is learnt, and when it is kept."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.core.interpolation import interpolate
from nrtsi.core.masking import Masking
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import BasePredictors
from nrtsi.predictors.gaussian_process import (
    FAR,
    FARTHEST,
    CellIndex,
    CovarianceTable,
    MultiOutputGP,
)
from nrtsi.scale import impute_files
from nrtsi.training import base_predictors as opening
from nrtsi.training import gaussian_process as fields
from nrtsi.training.gaussian_process import GPTrainer
from nrtsi.training.held_out import HeldOutTest
from nrtsi.training.sampler import Segments
from tests.strategies import seeds, some_series


def some_field(dims, seed=0, periods=(12.0,)):
    """One whose sources, waves and noise are all of a size."""
    torch.manual_seed(seed)
    field = MultiOutputGP(dims, periods)
    for name, parameter in field.named_parameters():
        if name not in ("fades", "changes"):
            torch.nn.init.normal_(parameter, std=0.5)
    return field.eval()


def by_hand(field, series):
    """Mean and deviation of every cell of one series, given all that is known of it."""
    rows, channels = (each.ravel() for each in np.indices(series.value.shape))
    known = series.observed.ravel()
    with torch.inference_mode():
        lag = torch.from_numpy(np.subtract.outer(series.time[rows], series.time[rows]).ravel())
        by_lag = field.covariance(lag).numpy().reshape(rows.size, rows.size, *[series.dims] * 2)
        noise = (2 * field.noise).exp().numpy()[channels]
    both = by_lag[np.arange(rows.size)[:, None], np.arange(rows.size), channels[:, None], channels]
    seen = both[np.ix_(known, known)] + np.diag(noise[known] + 1e-6)
    weight = np.linalg.solve(seen, both[known]).T
    left = np.diag(both) + noise - np.einsum("ak,ka->a", weight, both[known])
    told = series.value.ravel()[known].clip(-FARTHEST, FARTHEST)
    value = np.where(known, series.value.ravel(), weight @ told)
    scale = np.where(known, 0.0, np.sqrt(np.maximum(left, 1e-6)))
    return value.reshape(series.value.shape), scale.reshape(series.value.shape)


# Kriging -----------------------------------------------------------------------------------------


@given(seed=seeds, regular=st.booleans())
@settings(max_examples=40, deadline=None)
def test_cells_are_what_the_whole_matrix_says_of_them(seed, regular):
    series = some_series(seed, regular=regular, some_data=True).select(np.array([0]))
    field = some_field(series.dims, seed)
    kriged = field.krige(series)
    value, scale = by_hand(field, series)
    np.testing.assert_allclose(kriged.value, value, atol=1e-6)
    np.testing.assert_allclose(kriged.scale, scale, atol=1e-5)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_a_covariance_is_one(seed):
    rng = np.random.default_rng(seed)
    dims, size = int(rng.integers(1, 5)), 30
    field = some_field(dims, seed)
    cells = CellIndex(rng.uniform(0, 30, size), rng.integers(0, dims, size))
    with torch.inference_mode():
        both = field.between(cells, cells).numpy()
        lag = torch.from_numpy(rng.uniform(-50, 50, 9))
        there, back = field.covariance(lag), field.covariance(-lag)
    np.testing.assert_allclose(both, both.T, atol=1e-12)
    assert np.linalg.eigvalsh(both).min() > -1e-9
    torch.testing.assert_close(there, back.mT)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_on_the_grid_it_can_be_looked_up(seed):
    rng = np.random.default_rng(seed)
    dims, begin = int(rng.integers(1, 5)), 10.0 ** rng.integers(0, 12)
    field = some_field(dims, seed)
    some, others = (
        CellIndex(begin + rng.integers(0, 50, size), rng.integers(0, dims, size))
        for size in (20, 30)
    )
    with torch.inference_mode():
        found = field.between(some, others, CovarianceTable(field, 49.0))
        torch.testing.assert_close(found, field.between(some, others))


@given(seed=seeds, threads=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_series_are_kriged_each_by_itself_and_what_is_known_stays(seed, threads):
    series = some_series(seed)
    field = some_field(series.dims, seed)
    together = field.krige(series, Threads(threads))
    alone = [field.krige(series.select(np.array([i]))) for i in range(series.series)]
    np.testing.assert_allclose(together.value, np.concatenate([k.value for k in alone]), atol=1e-9)
    np.testing.assert_allclose(together.scale, np.concatenate([k.scale for k in alone]), atol=1e-9)
    np.testing.assert_array_equal(together.value[series.observed], series.value[series.observed])
    assert ((together.scale > 0) == ~series.observed).all()


def test_what_is_far_says_nothing():
    time = np.array([0.0, 1.0, 2.0, 10 * FAR, 10 * FAR + 1, 1e12])
    observed = np.array([True, True, False, False, True, False])[:, None]
    series = SeriesSet(time, np.where(observed, 2.0, 0.0), observed, np.array([0, 6]))
    field = some_field(1)
    kriged = field.krige(series)
    near = field.krige(SeriesSet(time[:3], series.value[:3], observed[:3], np.array([0, 3])))
    np.testing.assert_allclose(kriged.value[:3], near.value, atol=1e-9)
    assert kriged.value[5] == interpolate(series)[5]
    assert kriged.scale[5] > kriged.scale[3]


def test_long_series_are_read_in_parts_that_agree_with_the_whole():
    rng = np.random.default_rng(0)
    known = rng.random((300, 2)) < 0.7
    field = some_field(2)
    for fade in field.fades:
        fade.data.fill_(np.log(2.0))
    field.changes.data.fill_(np.log(4.0))
    value = rng.normal(size=(300, 2))
    series = SeriesSet.stack(np.where(known, value, np.nan)[None])
    np.testing.assert_allclose(field.krige(series).value, by_hand(field, series)[0], atol=1e-3)


def test_a_burst_does_not_flood_the_other_channels():
    rng = np.random.default_rng(0)
    value = rng.normal(size=(60, 2))
    value[30, 0], value[30, 1] = 1e6, np.nan
    mild = value.copy()
    mild[30, 0] = FARTHEST
    field = some_field(2)
    burst, usual = (field.krige(SeriesSet.stack(each[None])) for each in (value, mild))
    assert burst.value[30, 1] == usual.value[30, 1]
    assert burst.value[30, 0] == 1e6


# Learning ----------------------------------------------------------------------------------------


def tides(rows, seed=0):
    """Two channels that follow the clock of 24 steps, one later than the other, and drift."""
    rng = np.random.default_rng(seed)
    turn = 2 * np.pi * np.arange(rows) / 24
    drift = np.cumsum(rng.normal(size=rows)) * 0.1
    both = np.stack([np.sin(turn) + drift, np.sin(turn - 2.0) - drift], axis=1)
    return both + 0.05 * rng.normal(size=both.shape)


def with_gaps(value, seed=1):
    """Gaps of a few to twenty rows in either channel."""
    rng = np.random.default_rng(seed)
    gaps = np.zeros(value.shape, dtype=bool)
    for _ in range(len(value) // 40):
        begin, channel = rng.integers(len(value)), rng.integers(value.shape[1])
        gaps[begin : begin + rng.integers(3, 20), channel] = True
    return np.where(gaps, np.nan, value), gaps


@pytest.fixture
def quick(monkeypatch):
    """Fewer cells a step, and fewer steps than are asked for otherwise."""
    monkeypatch.setattr(fields, "CELLS", 120)
    monkeypatch.setattr(opening, "LEAST_STEPS", 50)


@pytest.mark.usefixtures("quick")
def test_it_learns_what_makes_the_data_likely():
    truth = tides(600)
    gappy, gaps = with_gaps(truth)
    series = SeriesSet.stack(gappy[None])
    survey = GPTrainer.of(series, Segments.whole(series), (24.0,), seed=0)
    losses = [survey.advance(step / 150) for step in range(150)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.3
    kriged = survey.field.krige(series)

    def error(value):
        return np.square(value - truth)[gaps].mean()

    assert error(kriged.value) < error(interpolate(series)) / 5
    # And it knows how far off it is.
    off = np.square((kriged.value - truth)[gaps] / kriged.scale[gaps]).mean()
    assert 0.3 < off < 3.0


@pytest.mark.parametrize(("series", "rows", "dims"), [(1, 1500, 9), (40, 200, 4), (300, 24, 2)])
def test_it_looks_at_all_times_alike(series, rows, dims):
    data = SeriesSet.stack(np.zeros((series, rows, dims)))
    survey = GPTrainer.of(data, Segments.whole(data), (), seed=0)
    seen = np.zeros(rows)
    for survey.step in range(400):
        cells, _ = survey._look(np.random.default_rng(survey.step))
        np.add.at(seen, cells.time.astype(int), 1 / cells.time.size)
    # Rows near the ends are in fewer stretches, as they are in all that is drawn of a series.
    middle = seen[rows // 5 : rows - rows // 5].mean()
    assert seen[: rows // 10].mean() > middle / 4
    assert seen[-(rows // 10) :].mean() > middle / 4


def test_a_loss_that_is_not_finite_teaches_nothing():
    data = SeriesSet.stack(tides(300)[None])
    survey = GPTrainer.of(data, Segments.whole(data), (24.0,), seed=0)
    torch.nn.init.constant_(survey.field.noise, float("nan"))
    before = {name: weight.clone() for name, weight in survey.field.named_parameters()}
    assert np.isnan(survey.advance(0.0))
    for name, weight in survey.field.named_parameters():
        torch.testing.assert_close(weight, before[name], equal_nan=True)
    hiding = Masking.choose("points", data, whole_rows=False)
    trial = HeldOutTest.of(data, Segments.whole(data), hiding, 0, BasePredictors())
    assert not trial.helps(BasePredictors(field=survey.field), worth=1.0)


@pytest.mark.parametrize(("rows", "dims"), [(100, 1), (400, 17)])
def test_few_cells_and_many_channels_teach_nothing(rows, dims):
    series = SeriesSet.stack(np.random.default_rng(0).normal(size=(1, rows, dims)))
    assert GPTrainer.of(series, Segments.whole(series), (), seed=0) is None


# As a part of the model --------------------------------------------------------------------------


def model(steps=100, **words):
    """A small one."""
    return NRTSI(steps=steps, preset="tiny", seed=0, **words)


def hourly(value):
    """As a table."""
    time = pd.date_range("2024-01-01", periods=len(value), freq="h")
    return pd.DataFrame(value, columns=["sea", "river"]).assign(time=time)


@pytest.fixture(scope="module")
def tidal():
    """A table, what is hidden of it, where, and a model of it with a field."""
    truth = tides(900)
    gappy, gaps = with_gaps(truth)
    table = hourly(gappy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "CELLS", 120)
        return table, truth, gaps, model().fit(table)


def filled(imputer, table):
    return imputer.impute(table)[["sea", "river"]].to_numpy()


def test_a_table_that_follows_the_day_is_filled_far_better(tidal):
    table, truth, gaps, with_field = tidal
    assert with_field.info()["kriged"].startswith("cells by the ")
    without = model(model={"field": False}).fit(table)
    assert without.info()["kriged"] == "nothing"

    def error(imputer):
        return np.square(filled(imputer, table) - truth)[gaps].mean()

    assert error(with_field) < error(without) / 2
    np.testing.assert_array_equal(filled(with_field, table)[~gaps], truth[~gaps])


def test_a_file_has_the_field(tidal, tmp_path):
    table, _, _, with_field = tidal
    with_field.save(tmp_path / "model.nrtsi")
    again = load(tmp_path / "model.nrtsi")
    assert again.info()["kriged"] == with_field.info()["kriged"]
    np.testing.assert_array_equal(filled(again, table), filled(with_field, table))


def test_a_table_that_is_read_in_parts_is_filled_nearly_alike(tidal, tmp_path):
    table, truth, gaps, with_field = tidal
    for number, rows in enumerate((slice(0, 450), slice(450, 900))):
        (tmp_path / "in").mkdir(exist_ok=True)
        table[rows].to_parquet(tmp_path / "in" / f"{number}.parquet")
    impute_files(with_field, tmp_path / "in", tmp_path / "out")
    parts = [pd.read_parquet(tmp_path / "out" / f"{number}.parquet") for number in (0, 1)]
    got = pd.concat(parts)[["sea", "river"]].to_numpy()
    whole = filled(with_field, table)
    np.testing.assert_array_equal(got[~gaps], whole[~gaps])
    apart = np.square(got - whole)[gaps].mean()
    assert apart < np.square(whole - truth)[gaps].mean()


def test_hints_that_a_file_does_not_tell_of_are_none():
    assert BasePredictors.unpack({}, {"memory": None}) == BasePredictors()


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_stopped_goes_on_with_its_field(tmp_path):
    table = hourly(with_gaps(tides(300))[0])
    whole = model(steps=60).fit(table, checkpoint=tmp_path / "whole")
    part = model(steps=60)

    def stop(event):
        if event.valid_loss is not None and event.step >= 30:
            raise KeyboardInterrupt

    part.fit(table, checkpoint=tmp_path / "part", listener=stop)
    assert part.interrupted_
    again = model(steps=60).fit(table, checkpoint=tmp_path / "part", resume=True)
    assert again.info()["kriged"] != "nothing"
    pd.testing.assert_frame_equal(whole.impute(table), again.impute(table))


@pytest.mark.usefixtures("quick")
def test_a_random_walk_is_left_to_lines():
    walk = np.cumsum(np.random.default_rng(0).standard_normal((900, 2)), axis=0)
    made = []

    def count(survey, fraction, advance=GPTrainer.advance):
        made.append(survey.step)
        return advance(survey, fraction)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GPTrainer, "advance", count)
        assert model(steps=400).fit(walk).info()["kriged"] == "nothing"
    assert len(made) == opening.LEAST_STEPS  # a first look is enough to see that


def test_what_is_remembered_is_not_learnt_again(monkeypatch):
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, (100, 1))
    waves = np.sin(phase + 2 * np.pi * np.arange(24) / 24)[..., None]

    def never(survey, fraction):
        raise AssertionError("there is nothing left to learn")

    monkeypatch.setattr(GPTrainer, "advance", never)
    about = model().fit(waves).info()
    assert about["remembered"] != "nothing"
    assert about["kriged"] == "nothing"
