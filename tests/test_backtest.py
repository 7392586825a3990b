"""Laws of the back-test: honest, in the promised units, and told by every method that can run."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.baselines import BASELINES
from nrtsi.core.events import TrainStep
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError, TrainingError
from nrtsi.evaluation import metrics
from nrtsi.evaluation.backtest import BacktestRun, MethodSelection
from nrtsi.evaluation.calibration import HoldOut
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables import Clock

SIMPLE = ("linear", "forward", "backward", "mean")


def frame(seed=0, rows=240, lost=0.15):
    """Two channels of very different size with a cell lost here and there."""
    rng = np.random.default_rng(seed)
    time = np.arange(rows, dtype=np.float64)
    value = np.column_stack([np.sin(time / 5), 1000 + 50 * np.cos(time / 7)])
    value += 0.01 * rng.normal(size=value.shape)
    value[rng.random(value.shape) < lost] = np.nan
    return pd.DataFrame({"time": time, "a": value[:, 0], "b": value[:, 1]})


def model(**settings):
    return NRTSI(**{"steps": 2, "preset": "tiny"} | settings)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(frame())


@pytest.fixture(scope="module")
def trial(fitted):
    return fitted.backtest(frame())


def simple(data, seed=0, names=SIMPLE, mask="auto"):
    """The back-test of simple methods, with no network to wait for."""
    series = model().read(data).series
    trial = BacktestRun(
        HoldOut.of(series, mask, whole_rows=False, seed=seed), Clock("number", 0, 1.0)
    )
    for name in names:
        trial.run_baseline(name)
    return trial.result(("a", "b"), int(series.observed.sum()), None)


def without_seconds(result):
    return {name: replace(score, seconds=0.0) for name, score in result.methods.items()}


# Honest ---------------------------------------------------------------------------------------


def test_a_model_is_tried_on_what_it_was_not_trained_on(fitted, trial, monkeypatch):
    """The fingerprint of the data leads to the cells that were set aside, and to no others."""
    series = fitted.read_fitted(frame()).series
    aside = fitted.fitted_.held_out(series)
    np.testing.assert_array_equal(trial.aside.hidden, aside.hidden)
    changed = frame()
    cells = np.zeros(series.observed.shape, dtype=bool)
    cells[aside.rows] = aside.hidden
    value = changed[["a", "b"]].to_numpy()
    changed[["a", "b"]] = np.where(cells, 3 * value + 1, value)
    scaler, again = fitted.fitted_.scaler, model()
    # Only the scaler sees all cells.
    monkeypatch.setattr("nrtsi.core.scaling.Scaler.fit", lambda series: scaler)
    again.fit(changed)
    for one, other in zip(
        fitted.fitted_.pack()[0].values(), again.fitted_.pack()[0].values(), strict=True
    ):
        if one.dtype.is_floating_point:
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("seed", range(3))
def test_no_method_sees_a_hidden_cell(seed):
    data, names = frame(seed), (*SIMPLE, "spline", "knn", "mice")
    before = simple(data, seed, names)
    cells = np.zeros((len(data), 2), dtype=bool)
    cells[before.aside.rows] = before.aside.hidden
    value = data[["a", "b"]].to_numpy()
    changed = data.assign(**dict(zip("ab", np.where(cells, 3 * value + 1, value).T, strict=True)))
    after = simple(changed, seed, names)
    for name in names:
        np.testing.assert_array_equal(before.guesses[name], after.guesses[name])


@pytest.mark.parametrize("seed", range(5))
def test_the_hidden_cells_are_known_ones_and_ten_to_twenty_percent(seed):
    result = simple(frame(seed), seed)
    assert not (result.aside.hidden & ~result.aside.truth.observed).any()
    assert result.hidden == result.aside.hidden.sum()
    assert 0.1 <= result.hidden / result.cells <= 0.2


def test_data_that_were_not_fitted_on_are_tried_with_the_model_as_it_is(fitted):
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


def test_a_model_that_is_not_fitted_stays_so():
    unfitted = model()
    assert list(unfitted.backtest(frame(), baselines=("linear",)).methods) == ["nrtsi", "linear"]
    assert not hasattr(unfitted, "fitted_")


def test_a_model_of_whole_rows_is_tried_on_whole_rows():
    data = frame(lost=0.0)
    gappy = data.copy()
    gappy.loc[::7, ["a", "b"]] = np.nan
    result = model().fit(gappy).backtest(gappy, baselines=())
    assert (result.aside.hidden.any(axis=1) == result.aside.hidden.all(axis=1)).all()


def test_a_loaded_model_finds_the_cells_that_were_set_aside(fitted, trial, tmp_path):
    from nrtsi import load

    fitted.save(tmp_path / "m.nrtsi")
    again = load(tmp_path / "m.nrtsi").backtest(frame(), baselines=())
    np.testing.assert_array_equal(again.guesses["nrtsi"], trial.guesses["nrtsi"])


def test_validation_data_are_what_cells_are_set_aside_from():
    trained = model().fit(frame(), validation=frame(seed=5))
    assert trained.fitted_.holdout is None
    assert not trained.fitted_.calibration.is_empty


def test_little_data_are_all_trained_on_and_intervals_are_said_to_be_a_guess(caplog):
    trained = model().fit(frame(rows=12))
    assert trained.fitted_.calibration.is_empty
    trained.impute(frame(rows=12), interval=0.9)
    assert "intervals are not calibrated: too few cells could be held out" in caplog.text


# Scores ---------------------------------------------------------------------------------------


def test_scores_are_what_the_metrics_say():
    data = frame()
    result = simple(data, names=("mean",))
    truth, hidden = data[["a", "b"]].to_numpy(), np.zeros((len(data), 2), dtype=bool)
    hidden[result.aside.rows] = result.aside.hidden
    filled = np.broadcast_to(np.nanmean(np.where(hidden, np.nan, truth), axis=0), truth.shape)
    spread = np.nanstd(truth, axis=0)
    score = result.methods["mean"]
    assert score.mse == pytest.approx(metrics.mse(truth / spread, filled / spread, hidden))
    assert score.mae == pytest.approx(metrics.mae(truth / spread, filled / spread, hidden))
    for channel, name in enumerate("ab"):
        cells = truth[:, channel], filled[:, channel], hidden[:, channel]
        assert score.channels[name].mse == pytest.approx(metrics.mse(*cells))
        assert score.channels[name].mae == pytest.approx(metrics.mae(*cells))


def test_units_change_the_scores_of_channels_only():
    data = frame()
    plain, other = simple(data), simple(data.assign(a=1000 * data["a"] - 7))
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)
        big, small = other.methods[name].channels["a"], score.channels["a"]
        assert big.mse == pytest.approx(1e6 * small.mse)
        assert other.methods[name].channels["b"].mse == pytest.approx(score.channels["b"].mse)


def test_all_methods_are_scored(trial):
    able = [name for name in BASELINES if name not in trial.failed]
    assert list(trial.methods) == ["nrtsi", *able]
    assert set(trial.failed) <= {"kalman", "seasonal"}
    assert all(np.isfinite([s.mse, s.mae, s.seconds]).all() for s in trial.methods.values())
    assert trial.best == min(trial.methods, key=lambda name: trial.methods[name].mse)


def test_the_frame_has_every_hidden_cell_once_for_each_method(trial):
    table = trial.to_frame()
    assert list(table.columns) == ["channel", "gap_from", "gap_to", "method", "n", "mse", "mae"]
    for method, score in trial.methods.items():
        own = table[table["method"] == method]
        assert own["n"].sum() == trial.hidden
        for channel, errors in score.channels.items():
            rows = own[own["channel"] == channel]
            assert np.average(rows["mse"], weights=rows["n"]) == pytest.approx(errors.mse)
    assert (table["gap_from"] < table["gap_to"]).all()


def test_lengths_of_gaps_are_those_the_user_sees():
    """Gaps of 1, 2 and 7 rows are 2, 3 and 8 steps long, from observation to observation."""
    value = np.arange(40.0)[None, :, None]
    hidden = np.zeros((40, 1), dtype=bool)
    hidden[[3, 10, 11, *range(20, 27)]] = True
    aside = HoldOut(SeriesSet.stack(value), hidden, np.arange(40), ("empirical",))
    trial = BacktestRun(aside, Clock("datetime", 0, 3600e9))
    trial.run_baseline("linear")
    table = replace(trial.result(("x",), 40, None), backend="pandas").to_frame()
    hours = [each.total_seconds() / 3600 for each in table["gap_to"]]
    assert list(zip(hours, table["n"], strict=True)) == [(2, 1), (4, 2), (8, 7)]
    assert table["mse"].max() == pytest.approx(0.0)


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda f: f[["a", "b"]].to_numpy()])
def test_any_kind_of_data_gives_the_same_scores(kind):
    plain, other = simple(frame()), simple(kind(frame()))
    assert without_seconds(other).keys() == without_seconds(plain).keys()
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)


def test_the_frame_is_of_the_caller_s_kind(fitted):
    result = fitted.backtest(pl.from_pandas(frame(seed=9)), baselines=())
    assert isinstance(result.to_frame(), pl.DataFrame)


def test_json_has_the_promised_shape(trial):
    record = trial.to_json()
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        *("methods", "best", "failed", "hidden", "cells", "mask", "units", "channels", "gaps")
    }
    assert set(record["methods"]["linear"]) == {"mse", "mae", "seconds"}
    assert set(record["channels"]["a"]["nrtsi"]) == {"mse", "mae"}
    assert len(record["gaps"]) == len(trial.rows())


def test_the_result_says_how_cells_were_hidden_and_what_was_guessed(trial):
    assert trial.mask == "empirical"
    assert simple(frame(lost=0.0)).mask == "points+blocks"
    assert simple(frame(), mask="blocks").mask == "blocks"
    assert any("'time'" in each for each in model().backtest(frame(), baselines=()).remarks)


def test_a_seed_hides_the_same_cells_again_and_another_others():
    first, again, other = (simple(frame(), seed).aside.hidden for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# Methods that fail ------------------------------------------------------------------------------


def test_a_baseline_that_fails_leaves_the_others_scored(monkeypatch):
    def fail(self, series):
        raise ValueError("no neighbours\nat all")

    monkeypatch.setattr(BASELINES["knn"], "fit_series", fail)
    monkeypatch.setattr(
        BASELINES["mean"], "fill_series", lambda self, s: np.full(s.value.shape, np.nan)
    )
    result = simple(frame(), names=("knn", "mean", "linear"))
    assert list(result.methods) == ["linear"]
    assert result.failed == {
        "knn": "no neighbours",
        "mean": "it gave values that are not finite",
    }


def test_training_that_fails_leaves_the_baselines_scored(monkeypatch):
    def fail(*args, **kwargs):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(NRTSI, "fit_panel", fail)
    result = model().backtest(frame(), baselines=("linear",))
    assert list(result.methods) == ["linear"]
    assert result.failed == {"nrtsi": "the loss is not finite"}


# The choice -------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), methods=st.integers(1, 4), gaps=st.integers(1, 60))
def test_the_choice_is_never_worse_on_the_back_test_than_any_single_method(seed, methods, gaps):
    rng = np.random.default_rng(seed)
    gap = np.sort(rng.integers(gaps, size=200))
    channel, bucket = rng.integers(3, size=gaps)[gap], rng.integers(5, size=gaps)[gap]
    squared = rng.gamma(1.0, rng.uniform(0.5, 2, size=(methods, 3, 5))[:, channel, bucket])
    names = tuple(f"m{i}" for i in range(methods))
    choice = MethodSelection.of(names, squared, channel, bucket, gap, 3)
    chosen = squared[choice.table[channel, bucket], np.arange(200)].sum()
    assert chosen <= squared.sum(axis=1).min() * (1 + 1e-12)
    assert set(choice.used) <= set(names)
    again = MethodSelection.from_dict(json.loads(json.dumps(choice.to_dict())))
    np.testing.assert_array_equal(again.table, choice.table)


def test_a_method_that_is_clearly_better_in_a_channel_or_for_a_length_is_chosen_there():
    gap = np.arange(400)
    channel, bucket = gap % 2, (gap // 2) % 2
    rng = np.random.default_rng(0)
    squared = rng.gamma(4.0, 0.25, size=(3, 400))
    squared[0] *= 0.5
    squared[1, channel == 1] *= 0.1
    squared[2, (channel == 0) & (bucket == 1)] *= 0.1
    choice = MethodSelection.of(("all", "one", "long"), squared, channel, bucket, gap, 2)
    assert [choice.methods[choice.table[0, b]] for b in (0, 1, 2)] == ["all", "long", "all"]
    assert [choice.methods[choice.table[1, b]] for b in (0, 1)] == ["one", "one"]


def test_auto_fills_with_what_was_best_and_says_so(fitted):
    filled = fitted.impute(frame(), method="auto", provenance=True)
    choice = fitted.fitted_.auto[0]
    assert set(filled["a_method"].dropna()) <= set(choice.used)
    for name in choice.used:
        own = filled["a_method"] == name
        one = fitted.impute(frame(), method=name)
        np.testing.assert_allclose(filled["a"][own], one["a"][own])


def test_auto_is_kept_in_the_file(fitted, tmp_path):
    from nrtsi import load

    filled = fitted.impute(frame(), method="auto", interval=0.8)
    fitted.save(tmp_path / "m.nrtsi")
    again = load(tmp_path / "m.nrtsi").impute(frame(), method="auto", interval=0.8)
    # Quantiles are kept to five digits.
    pd.testing.assert_frame_equal(filled, again, rtol=1e-3)


# What is refused --------------------------------------------------------------------------------


def test_a_setting_that_cannot_be_used_is_an_error():
    with pytest.raises(InputError, match="steps must be a whole number"):
        model(steps=-1).backtest(frame())


def test_unknown_baselines_and_methods_are_refused(fitted):
    with pytest.raises(InputError, match="baselines must be among linear, forward"):
        fitted.backtest(frame(), baselines=("linear", "magic"))
    with pytest.raises(InputError, match="method must be nrtsi, auto or one of linear"):
        fitted.impute(frame(), method="magic")


def test_a_method_that_cannot_fill_these_data_is_named(fitted):
    with pytest.raises(InputError, match="seasonal cannot impute these data: seasonal needs"):
        fitted.impute(frame(), method="seasonal")


def test_an_unknown_way_of_hiding_is_refused():
    with pytest.raises(InputError, match="mask must be one of"):
        model(mask="magic").backtest(frame())


def test_too_little_data_to_hide_any_is_refused():
    data = pd.DataFrame({"time": [0.0, 1.0, 2.0], "a": [1.0, np.nan, 3.0]})
    with pytest.raises(InputError, match="enough observed cells to hide some, got 2 observed"):
        model().backtest(data)


def test_the_listener_is_told_of_the_training():
    events = []
    model().backtest(frame(), baselines=(), listener=events.append)
    assert {type(event).__name__ for event in events} == {"TrainStep", "ImputeStep"}


def test_gaps_of_the_data_are_laid_over_validation_data_that_have_none():
    trained = model(mask="empirical").fit(frame(), validation=frame(seed=5, lost=0.0))
    assert not trained.fitted_.calibration.is_empty


def test_data_that_differ_in_a_row_are_not_those_that_were_fitted_on(fitted):
    """Rows without data are nowhere in a fingerprint, but they would shift what is set aside."""
    series = fitted.read_fitted(frame()).series
    longer = fitted.read_fitted(frame(rows=245)).series
    assert fitted.fitted_.held_out(series) is not None
    assert fitted.fitted_.held_out(longer) is None
    empty = pd.concat([frame(), pd.DataFrame({"time": [240.0, 241.0]})], ignore_index=True)
    assert fitted.fitted_.held_out(fitted.read_fitted(empty).series) is None


def test_validation_cells_that_are_set_aside_choose_no_weights(monkeypatch):
    held = []
    from nrtsi.imputer import fitting as imputer

    train = imputer.train
    monkeypatch.setattr(
        imputer, "train", lambda *a, **k: held.append(k["validation"]) or train(*a, **k)
    )
    trained = model().fit(frame(), validation=frame(seed=5))
    whole = trained.read_fitted(frame(seed=5)).series
    assert held[0].observed.sum() < whole.observed.sum()


def test_a_baseline_is_not_tried_where_only_its_values_are_wanted(fitted, monkeypatch):
    monkeypatch.setattr("nrtsi.imputer.selection.backtest_panel", None)
    filled = fitted.impute(frame().head(8), method="linear", max_gap=5)
    assert filled["a"].notna().all()


def test_scores_are_of_values_inside_the_bounds():
    data = frame()
    bounds = {"a": (0.0, None)}
    trial = model(bounds=bounds).fit(data).backtest(data, baselines=("linear",))
    assert min(guess[trial.channel == 0].min() for guess in trial.filled.values()) >= 0
    assert trial.guesses["linear"][trial.channel == 0].min() < 0


def test_observed_cells_beyond_the_bounds_are_warned_of(caplog):
    model(bounds={"a": (0.0, None)}).fit(frame())
    assert "observed cells of 'a' lie beyond its bounds and stay" in caplog.text
