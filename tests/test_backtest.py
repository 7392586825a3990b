"""The back-test leaks no held-out cell, and scores every method in documented units."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi import load
from nrtsi.baselines import BASELINES, Mean
from nrtsi.core.events import TrainStep
from nrtsi.core.series import SeriesSet
from nrtsi.core.state import from_state, to_state
from nrtsi.errors import InputError, TrainingError
from nrtsi.evaluation import metrics
from nrtsi.evaluation.backtest import run_backtest
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer import fitting
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables import Clock

SIMPLE = ("linear", "forward", "backward", "mean")


def frame(seed=0, rows=240, missing=0.15):
    """Two channels of very different scale with randomly missing cells."""
    rng = np.random.default_rng(seed)
    time = np.arange(rows, dtype=np.float64)
    value = np.column_stack([np.sin(time / 5), 1000 + 50 * np.cos(time / 7)])
    value += 0.01 * rng.normal(size=value.shape)
    value[rng.random(value.shape) < missing] = np.nan
    return pd.DataFrame({"time": time, "a": value[:, 0], "b": value[:, 1]})


def model(**settings):
    """A small network without base predictors, which trains fast."""
    return NRTSI(**{"steps": 2, "preset": "tiny", "predictors": ()} | settings)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(frame())


@pytest.fixture(scope="module")
def result(fitted):
    return fitted.backtest(frame())


def backtest_baselines(data, seed=0, names=SIMPLE, mask="auto"):
    """A back-test of baselines, without a network."""
    series = model().read(data).series
    holdout = HoldOut.of(series, mask, whole_rows=False, seed=seed)
    clock, cells = Clock("number", 0, 1.0), int(series.observed.sum())
    return run_backtest(holdout, None, names, clock=clock, names=("a", "b"), cells=cells)


def without_seconds(result):
    return {name: replace(score, seconds=0.0) for name, score in result.methods.items()}


# No leakage --------------------------------------------------------------------------------


def test_training_does_not_see_the_held_out_cells(fitted, result, monkeypatch):
    series = fitted.read_fitted(frame()).series
    holdout = fitted.fitted_.held_out(series)
    np.testing.assert_array_equal(result.holdout.hidden, holdout.hidden)
    changed = frame()
    cells = np.zeros(series.observed.shape, dtype=bool)
    cells[holdout.rows] = holdout.hidden
    value = changed[["a", "b"]].to_numpy()
    changed[["a", "b"]] = np.where(cells, 3 * value + 1, value)
    scaler, again = fitted.fitted_.scaler, model()
    # Only the scaler sees all cells.
    monkeypatch.setattr("nrtsi.core.scaling.Scaler.fit", lambda series: scaler)
    again.fit(changed)
    before, after = (each.fitted_.state()[0] for each in (fitted, again))
    weights = [name for name in before if not name.startswith("fitted.")]
    assert weights
    for name in weights:
        np.testing.assert_array_equal(before[name].numpy(), after[name].numpy())


@pytest.mark.parametrize("seed", range(3))
def test_no_method_sees_a_hidden_cell(seed):
    data, names = frame(seed), (*SIMPLE, "spline", "knn", "mice")
    before = backtest_baselines(data, seed, names)
    cells = np.zeros((len(data), 2), dtype=bool)
    cells[before.holdout.rows] = before.holdout.hidden
    value = data[["a", "b"]].to_numpy()
    changed = data.assign(**dict(zip("ab", np.where(cells, 3 * value + 1, value).T, strict=True)))
    after = backtest_baselines(changed, seed, names)
    for name in names:
        np.testing.assert_array_equal(before.predictions[name], after.predictions[name])


@pytest.mark.parametrize("seed", range(5))
def test_hidden_cells_are_observed_and_ten_to_twenty_percent(seed):
    result = backtest_baselines(frame(seed), seed)
    assert not (result.holdout.hidden & ~result.holdout.truth.observed).any()
    assert result.hidden == result.holdout.hidden.sum()
    assert 0.1 <= result.hidden / result.cells <= 0.2


def test_new_data_are_scored_without_fitting_again(fitted):
    before = fitted.fitted_.engine
    result = fitted.backtest(frame(seed=9), baselines=())
    assert fitted.fitted_.engine is before
    assert list(result.methods) == ["nrtsi"]


def test_a_copy_is_trained_if_the_model_has_seen_a_part_of_the_data(fitted):
    def trains(data):
        events = []
        fitted.backtest(data, baselines=(), listener=events.append)
        return any(isinstance(event, TrainStep) for event in events)

    assert trains(frame().iloc[:150])
    assert not trains(frame())


def test_an_unfitted_model_is_trained_for_the_back_test_and_stays_unfitted():
    unfitted, events = model(), []
    result = unfitted.backtest(frame(), baselines=("linear",), listener=events.append)
    assert list(result.methods) == ["nrtsi", "linear"]
    assert any("'time'" in each for each in result.remarks)
    assert {type(event).__name__ for event in events} == {"TrainStep", "ImputeStep"}
    assert not hasattr(unfitted, "fitted_")


def test_a_model_of_whole_rows_is_scored_on_whole_rows():
    data = frame(missing=0.0)
    gappy = data.copy()
    gappy.loc[::7, ["a", "b"]] = np.nan
    result = model().fit(gappy).backtest(gappy, baselines=())
    assert (result.holdout.hidden.any(axis=1) == result.holdout.hidden.all(axis=1)).all()


def test_a_loaded_model_finds_its_held_out_cells(fitted, result, tmp_path):
    fitted.save(tmp_path / "m.nrtsi")
    again = load(tmp_path / "m.nrtsi").backtest(frame(), baselines=())
    np.testing.assert_array_equal(again.predictions["nrtsi"], result.predictions["nrtsi"])


def test_cells_are_held_out_from_validation_data_and_do_not_select_weights(monkeypatch):
    used, train = [], fitting.train
    monkeypatch.setattr(
        fitting, "train", lambda *a, **k: used.append(k["validation"]) or train(*a, **k)
    )
    trained = model().fit(frame(), validation=frame(seed=5))
    assert trained.fitted_.holdout is None
    assert not trained.fitted_.calibration.is_empty
    whole = trained.read_fitted(frame(seed=5)).series
    assert used[0].observed.sum() < whole.observed.sum()


def test_very_little_data_are_all_used_for_training_with_a_warning(caplog):
    trained = model().fit(frame(rows=12))
    assert trained.fitted_.calibration.is_empty
    trained.impute(frame(rows=12), interval=0.9)
    assert "intervals are not calibrated: too few cells could be held out" in caplog.text


# Scores ---------------------------------------------------------------------------------------


def test_scores_equal_the_metrics():
    data = frame()
    result = backtest_baselines(data, names=("mean",))
    truth, hidden = data[["a", "b"]].to_numpy(), np.zeros((len(data), 2), dtype=bool)
    hidden[result.holdout.rows] = result.holdout.hidden
    imputed = np.broadcast_to(np.nanmean(np.where(hidden, np.nan, truth), axis=0), truth.shape)
    std = np.nanstd(truth, axis=0)
    score = result.methods["mean"]
    assert score.mse == pytest.approx(metrics.mse(truth / std, imputed / std, hidden))
    assert score.mae == pytest.approx(metrics.mae(truth / std, imputed / std, hidden))
    for channel, name in enumerate("ab"):
        cells = truth[:, channel], imputed[:, channel], hidden[:, channel]
        assert score.channels[name].mse == pytest.approx(metrics.mse(*cells))
        assert score.channels[name].mae == pytest.approx(metrics.mae(*cells))


def test_units_change_only_the_scores_by_channel():
    data = frame()
    plain, other = (
        backtest_baselines(data),
        backtest_baselines(data.assign(a=1000 * data["a"] - 7)),
    )
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)
        big, small = other.methods[name].channels["a"], score.channels["a"]
        assert big.mse == pytest.approx(1e6 * small.mse)
        assert other.methods[name].channels["b"].mse == pytest.approx(score.channels["b"].mse)


def test_all_methods_are_scored(result):
    able = [name for name in BASELINES if name not in result.failed]
    assert list(result.methods) == ["nrtsi", *able]
    assert set(result.failed) <= {"kalman", "seasonal"}
    assert all(np.isfinite([s.mse, s.mae, s.seconds]).all() for s in result.methods.values())
    assert result.best == min(result.methods, key=lambda name: result.methods[name].mse)


def test_the_frame_has_every_hidden_cell_once_for_each_method(result):
    table = result.to_frame()
    assert list(table.columns) == ["channel", "gap_from", "gap_to", "method", "n", "mse", "mae"]
    for method, score in result.methods.items():
        own = table[table["method"] == method]
        assert own["n"].sum() == result.hidden
        for channel, errors in score.channels.items():
            rows = own[own["channel"] == channel]
            assert np.average(rows["mse"], weights=rows["n"]) == pytest.approx(errors.mse)
    assert (table["gap_from"] < table["gap_to"]).all()


def test_gap_lengths_are_measured_from_observation_to_observation():
    """Gaps of 1, 2 and 7 missing rows have lengths of 2, 3 and 8 steps."""
    value = np.arange(40.0)[None, :, None]
    hidden = np.zeros((40, 1), dtype=bool)
    hidden[[3, 10, 11, *range(20, 27)]] = True
    holdout = HoldOut(SeriesSet.stack(value), hidden, np.arange(40), ("empirical",))
    clock = Clock("datetime", 0, 3600e9)
    result = run_backtest(holdout, None, ("linear",), clock=clock, names=("x",))
    table = replace(result, backend="pandas").to_frame()
    hours = [each.total_seconds() / 3600 for each in table["gap_to"]]
    assert list(zip(hours, table["n"], strict=True)) == [(2, 1), (4, 2), (8, 7)]
    assert table["mse"].max() == pytest.approx(0.0)


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda f: f[["a", "b"]].to_numpy()])
def test_any_kind_of_data_gives_the_same_scores(kind):
    plain, other = backtest_baselines(frame()), backtest_baselines(kind(frame()))
    assert without_seconds(other).keys() == without_seconds(plain).keys()
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)


def test_the_frame_is_of_the_callers_kind(fitted):
    result = fitted.backtest(pl.from_pandas(frame(seed=9)), baselines=())
    assert isinstance(result.to_frame(), pl.DataFrame)


def test_json_has_the_documented_structure(result):
    record = result.to_json()
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        *("methods", "best", "failed", "hidden", "cells", "mask", "units", "channels", "gaps")
    }
    assert set(record["methods"]["linear"]) == {"mse", "mae", "seconds"}
    assert set(record["channels"]["a"]["nrtsi"]) == {"mse", "mae"}
    assert len(record["gaps"]) == len(result.rows())


def test_the_result_records_the_mask(result):
    assert result.mask == "empirical"
    assert backtest_baselines(frame(missing=0.0)).mask == "points+blocks"
    assert backtest_baselines(frame(), mask="blocks").mask == "blocks"


def test_the_seed_determines_the_hidden_cells():
    first, again, other = (backtest_baselines(frame(), seed).holdout.hidden for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# Methods that fail ------------------------------------------------------------------------------


def test_a_failing_baseline_does_not_stop_the_others(monkeypatch):
    class Failing(Mean):
        def fit_series(self, series):
            raise ValueError("no neighbours\nat all")

    class Unknown(Mean):
        def impute_series(self, series):
            return np.full(series.value.shape, np.nan)

    monkeypatch.setitem(BASELINES, "knn", Failing)
    monkeypatch.setitem(BASELINES, "mean", Unknown)
    result = backtest_baselines(frame(), names=("knn", "mean", "linear"))
    assert list(result.methods) == ["linear"]
    assert result.failed == {
        "knn": "no neighbours",
        "mean": "the imputed values are not finite",
    }


def test_failed_training_does_not_stop_the_baselines(monkeypatch):
    def fail(*args, **kwargs):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(NRTSI, "fit_panel", fail)
    result = model().backtest(frame(), baselines=("linear",))
    assert list(result.methods) == ["linear"]
    assert result.failed == {"nrtsi": "the loss is not finite"}


# Method selection ----------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), methods=st.integers(1, 4), gaps=st.integers(1, 60))
def test_the_selection_is_never_worse_in_the_back_test_than_a_single_method(seed, methods, gaps):
    rng = np.random.default_rng(seed)
    gap = np.sort(rng.integers(gaps, size=200))
    channel, gap_bin = rng.integers(3, size=gaps)[gap], rng.integers(5, size=gaps)[gap]
    squared = rng.gamma(1.0, rng.uniform(0.5, 2, size=(methods, 3, 5))[:, channel, gap_bin])
    names = tuple(f"m{i}" for i in range(methods))
    selection = MethodSelection.fit(names, squared, channel, gap_bin, gap, 3)
    chosen = squared[selection.table[channel, gap_bin], np.arange(200)].sum()
    assert chosen <= squared.sum(axis=1).min() * (1 + 1e-12)
    assert set(selection.used) <= set(names)
    again = from_state(MethodSelection, *to_state(selection))
    np.testing.assert_array_equal(again.table, selection.table)
    assert again.methods == selection.methods


def test_a_significantly_better_method_is_selected_by_channel_and_gap_length():
    gap = np.arange(400)
    channel, gap_bin = gap % 2, (gap // 2) % 2
    rng = np.random.default_rng(0)
    squared = rng.gamma(4.0, 0.25, size=(3, 400))
    squared[0] *= 0.5
    squared[1, channel == 1] *= 0.1
    squared[2, (channel == 0) & (gap_bin == 1)] *= 0.1
    selection = MethodSelection.fit(("all", "one", "long"), squared, channel, gap_bin, gap, 2)
    assert [selection.methods[selection.table[0, b]] for b in (0, 1, 2)] == ["all", "long", "all"]
    assert [selection.methods[selection.table[1, b]] for b in (0, 1)] == ["one", "one"]


def test_auto_imputes_with_the_selected_methods_and_records_them(fitted):
    imputed = fitted.impute(frame(), method="auto", provenance=True)
    selection = fitted.fitted_.auto[0]
    assert set(imputed["a_method"].dropna()) <= set(selection.used)
    for name in selection.used:
        own = imputed["a_method"] == name
        one = fitted.impute(frame(), method=name)
        np.testing.assert_allclose(imputed["a"][own], one["a"][own])


def test_the_selection_is_saved_with_the_model(fitted, tmp_path):
    imputed = fitted.impute(frame(), method="auto", interval=0.8)
    fitted.save(tmp_path / "m.nrtsi")
    again = load(tmp_path / "m.nrtsi").impute(frame(), method="auto", interval=0.8)
    pd.testing.assert_frame_equal(imputed, again)


# Invalid input --------------------------------------------------------------------------------


def test_an_invalid_setting_is_an_error():
    with pytest.raises(InputError, match="steps must be a whole number"):
        model(steps=-1).backtest(frame())


def test_unknown_baselines_and_methods_are_rejected(fitted):
    with pytest.raises(InputError, match="baselines must be among linear, forward"):
        fitted.backtest(frame(), baselines=("linear", "magic"))
    with pytest.raises(InputError, match="method must be nrtsi, auto or one of linear"):
        fitted.impute(frame(), method="magic")


def test_a_method_that_cannot_impute_the_data_is_rejected(fitted):
    with pytest.raises(InputError, match="seasonal cannot impute these data: seasonal needs"):
        fitted.impute(frame(), method="seasonal")


def test_an_unknown_mask_is_rejected():
    with pytest.raises(InputError, match="mask must be one of"):
        model(mask="magic").backtest(frame())


def test_too_little_data_for_a_hold_out_is_rejected():
    data = pd.DataFrame({"time": [0.0, 1.0, 2.0], "a": [1.0, np.nan, 3.0]})
    with pytest.raises(InputError, match="enough observed cells to hide some, got 2 observed"):
        model().backtest(data)


def test_complete_validation_data_are_masked_with_the_gaps_of_the_training_data():
    trained = model(mask="empirical").fit(frame(), validation=frame(seed=5, missing=0.0))
    assert not trained.fitted_.calibration.is_empty


def test_data_with_other_rows_are_not_the_fitted_data(fitted):
    """Rows without data are not in the fingerprint, but change which cells are held out."""
    series = fitted.read_fitted(frame()).series
    longer = fitted.read_fitted(frame(rows=245)).series
    assert fitted.fitted_.held_out(series) is not None
    assert fitted.fitted_.held_out(longer) is None
    empty = pd.concat([frame(), pd.DataFrame({"time": [240.0, 241.0]})], ignore_index=True)
    assert fitted.fitted_.held_out(fitted.read_fitted(empty).series) is None


def test_a_baseline_is_not_back_tested_if_only_values_are_requested(fitted, monkeypatch):
    monkeypatch.setattr("nrtsi.imputer.selection.backtest_panel", None)
    imputed = fitted.impute(frame().head(8), method="linear", max_gap=5)
    assert imputed["a"].notna().all()


def test_scores_use_values_inside_the_bounds(caplog):
    data = frame()
    bounds = {"a": (0.0, None)}
    result = model(bounds=bounds).fit(data).backtest(data, baselines=("linear",))
    assert min(values[result.channel == 0].min() for values in result.imputed.values()) >= 0
    assert result.predictions["linear"][result.channel == 0].min() < 0
    assert "observed cells of 'a' lie beyond its bounds and stay" in caplog.text
