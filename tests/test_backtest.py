"""Laws of the score: honest, in the promised units, and told by every method that can run."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nrtsi import evaluation, metrics
from nrtsi.baselines import BASELINES
from nrtsi.errors import InputError, NotFittedError, TrainingError
from nrtsi.evaluation import Trial, evaluate
from nrtsi.imputer import NRTSI

SIMPLE = ("linear", "forward", "backward", "mean")


def frame(seed=0, rows=120, lost=0.15):
    """Two channels of very different size with a cell lost here and there."""
    rng = np.random.default_rng(seed)
    time = np.arange(rows, dtype=np.float64)
    value = np.column_stack([np.sin(time / 5), 1000 + 50 * np.cos(time / 7)])
    value += 0.01 * rng.normal(size=value.shape)
    value[rng.random(value.shape) < lost] = np.nan
    return pd.DataFrame({"time": time, "a": value[:, 0], "b": value[:, 1]})


def without_seconds(result):
    return {name: replace(score, seconds=0.0) for name, score in result.methods.items()}


@pytest.fixture
def cheap(monkeypatch):
    """Puts linear interpolation in the place of nrtsi, and keeps what each method was shown."""
    shown = []

    def fill(trial, listener=None):
        shown.append(trial.known)
        return trial.fill_simply("linear")

    monkeypatch.setattr(Trial, "fill", fill)
    return shown


@pytest.fixture(scope="module")
def fitted():
    return NRTSI(steps=2, preset="tiny").fit(frame())


def test_all_methods_are_scored_with_a_model_fitted_on_the_spot():
    result = evaluate(frame(), steps=2, preset="tiny")
    assert list(result.methods) == ["nrtsi", *BASELINES]
    assert result.failed == {}
    assert result.seen is None
    assert all(np.isfinite([s.mse, s.mae, s.seconds]).all() for s in result.methods.values())


@pytest.mark.parametrize("seed", range(5))
def test_no_method_sees_a_hidden_cell(cheap, monkeypatch, seed):
    data = frame(seed)
    filled = {}
    score = evaluation._Judge._score

    def keep(judge, values, seconds):
        filled.setdefault(len(judge.methods), []).append(values[judge.hidden])
        keep.hidden = judge.hidden
        return score(judge, values, seconds)

    monkeypatch.setattr(evaluation._Judge, "_score", keep)
    evaluate(data, seed=seed)
    changed = data.copy()
    value = changed[["a", "b"]].to_numpy()
    changed[["a", "b"]] = np.where(keep.hidden, value * 3 + 1, value)
    evaluate(changed, seed=seed)
    assert len(filled) == 1 + len(BASELINES)
    for before, after in filled.values():
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("seed", range(5))
def test_the_hidden_cells_are_known_ones_and_ten_to_twenty_percent(cheap, seed):
    data = frame(seed)
    result = evaluate(data, seed=seed, baselines=SIMPLE)
    known = data[["a", "b"]].notna().to_numpy()
    shown = cheap[0].observed
    assert result.cells == known.sum()
    assert result.hidden == known.sum() - shown.sum()
    assert not (shown & ~known).any()
    assert 0.1 <= result.hidden / result.cells <= 0.2


def test_scores_are_what_the_metrics_say(cheap):
    data = frame()
    result = evaluate(data, baselines=("mean",))
    truth = data[["a", "b"]].to_numpy()
    hidden = ~np.isnan(truth) & ~cheap[0].observed
    seen = np.where(cheap[0].observed, cheap[0].value, np.nan)
    filled = np.broadcast_to(np.nanmean(seen, axis=0), truth.shape)
    spread = np.nanstd(truth, axis=0)
    score = result.methods["mean"]
    assert score.mse == pytest.approx(metrics.mse(truth / spread, filled / spread, hidden))
    assert score.mae == pytest.approx(metrics.mae(truth / spread, filled / spread, hidden))
    for channel, name in enumerate("ab"):
        cells = truth[:, channel], filled[:, channel], hidden[:, channel]
        assert score.channels[name].mse == pytest.approx(metrics.mse(*cells))
        assert score.channels[name].mae == pytest.approx(metrics.mae(*cells))


def test_units_change_the_scores_of_channels_only(cheap):
    data = frame()
    plain = evaluate(data, baselines=SIMPLE)
    other = evaluate(data.assign(a=1000 * data["a"] - 7), baselines=SIMPLE)
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)
        big, small = other.methods[name].channels["a"], score.channels["a"]
        assert big.mse == pytest.approx(1e6 * small.mse)
        assert other.methods[name].channels["b"].mse == pytest.approx(score.channels["b"].mse)


def test_a_seed_gives_the_same_scores_again():
    first = evaluate(frame(), steps=2, preset="tiny", seed=3)
    again = evaluate(frame(), steps=2, preset="tiny", seed=3)
    assert without_seconds(first) == without_seconds(again)


def test_another_seed_hides_other_cells(cheap):
    evaluate(frame(), seed=0, baselines=())
    evaluate(frame(), seed=1, baselines=())
    assert not np.array_equal(cheap[0].observed, cheap[1].observed)


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda f: f[["a", "b"]].to_numpy()])
def test_any_kind_of_data_gives_the_same_scores(cheap, kind):
    plain = evaluate(frame(), baselines=SIMPLE)
    other = evaluate(kind(frame()), baselines=SIMPLE)
    for name, score in plain.methods.items():
        assert other.methods[name].mse == pytest.approx(score.mse)


def test_rows_that_are_lost_whole_are_hidden_whole(cheap):
    data = frame(lost=0.0)
    data.loc[::7, ["a", "b"]] = np.nan
    evaluate(data, baselines=())
    np.testing.assert_array_equal(cheap[0].observed.any(axis=1), cheap[0].observed.all(axis=1))


def test_the_result_says_how_cells_were_hidden(cheap):
    assert evaluate(frame(), baselines=()).hide == "own"
    assert evaluate(frame(lost=0.0), baselines=()).hide == "points+blocks"
    assert evaluate(frame(), hide="blocks", baselines=()).hide == "blocks"


def test_guesses_are_passed_on(cheap):
    assert any("'time'" in guess for guess in evaluate(frame(), baselines=()).guesses)


def test_json_has_the_promised_shape(cheap):
    record = evaluate(frame(), baselines=("linear",)).to_json()
    assert json.loads(json.dumps(record)) == record
    assert set(record) == {
        "methods",
        "failed",
        "hidden",
        "cells",
        "hide",
        "seen",
        "units",
        "channels",
    }
    assert list(record["methods"]) == ["nrtsi", "linear"]
    assert set(record["methods"]["linear"]) == {"mse", "mae", "seconds"}
    assert set(record["channels"]) == {"a", "b"}
    assert set(record["channels"]["a"]["nrtsi"]) == {"mse", "mae"}


def test_a_baseline_that_fails_leaves_the_others_scored(cheap, monkeypatch):
    def fail(self, series):
        raise ValueError("no neighbours\nat all")

    monkeypatch.setattr(BASELINES["knn"], "fit_series", fail)
    monkeypatch.setattr(
        BASELINES["mean"], "fill_series", lambda self, s: np.full(s.value.shape, np.nan)
    )
    result = evaluate(frame(), baselines=("knn", "mean", "linear"))
    assert list(result.methods) == ["nrtsi", "linear"]
    assert result.failed == {
        "knn": "no neighbours",
        "mean": "it gave values that are not finite",
    }


def test_training_that_fails_leaves_the_baselines_scored(monkeypatch):
    def fail(*args, **kwargs):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(Trial, "fill", fail)
    result = evaluate(frame(), baselines=("linear",))
    assert list(result.methods) == ["linear"]
    assert result.failed == {"nrtsi": "the loss is not finite"}


def test_a_setting_that_cannot_be_used_is_an_error():
    with pytest.raises(InputError, match="steps must be a whole number"):
        evaluate(frame(), steps=-1)


def test_a_model_says_whether_it_has_seen_the_data(fitted):
    assert evaluate(frame(), model=fitted, baselines=()).seen is True
    assert evaluate(frame(seed=9), model=fitted, baselines=()).seen is False


def test_a_given_model_is_not_fitted_again(fitted):
    before = fitted.history_
    engine = fitted.fitted_
    evaluate(frame(seed=9), model=fitted, baselines=())
    assert fitted.fitted_ is engine
    assert fitted.history_ is before


def test_a_model_of_whole_rows_is_scored_on_whole_rows():
    data = frame(lost=0.0)
    gappy = data.copy()
    gappy.loc[::7, ["a", "b"]] = np.nan
    model = NRTSI(steps=2, preset="tiny").fit(gappy)
    assert list(evaluate(data, model=model, baselines=()).methods) == ["nrtsi"]


def test_the_listener_is_told_of_the_training():
    events = []
    evaluate(frame(), steps=2, preset="tiny", baselines=(), listener=events.append)
    assert {type(event).__name__ for event in events} == {"TrainStep", "ImputeStep"}


def test_settings_beside_a_model_are_refused(fitted):
    with pytest.raises(InputError, match="budget, time must not be given with a model"):
        evaluate(frame(), model=fitted, budget="10s", time="time")


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
        evaluate(frame(), model=NRTSI())


def test_unknown_baselines_are_refused():
    with pytest.raises(InputError, match="baselines must be among linear, forward"):
        evaluate(frame(), baselines=("linear", "magic"))


def test_an_unknown_way_of_hiding_is_refused():
    with pytest.raises(InputError, match="hide must be one of"):
        evaluate(frame(), hide="magic")


def test_too_little_data_to_hide_any_is_refused():
    data = pd.DataFrame({"time": [0.0, 1.0], "a": [1.0, np.nan]})
    with pytest.raises(InputError, match="enough known cells to hide some, got 1 known"):
        evaluate(data)
