"""`NRTSI` and the door every method shares: the contracts a caller relies on."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import nrtsi
from nrtsi import NRTSI, CheckpointError, InputError, NotFittedError
from nrtsi.config import SETTINGS
from nrtsi.core.fingerprint import fingerprint, overlap
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.fitted import FittedModel
from nrtsi.inference import noise
from nrtsi.schedule.plan import plan
from nrtsi.tables import read
from tests.strategies import seeds, some_series

TINY = {"preset": "tiny", "steps": 12}


def hourly(rows=80, seed=0, whole=False):
    """Two channels of an hourly table, some cells missing."""
    rng = np.random.default_rng(seed)
    base = np.sin(np.arange(rows) / 4)[:, None] + rng.normal(size=(rows, 2)) / 10
    gone = rng.random((rows, 1 if whole else 2)) < 0.2
    base[np.broadcast_to(gone, base.shape)] = np.nan
    time = pd.date_range("2024-03-30", periods=rows, freq="h", tz="Europe/Berlin")
    return pd.DataFrame({"time": time, "a": base[:, 0], "b": base[:, 1], "flag": "x"})


@pytest.fixture(scope="module")
def model():
    return NRTSI(**TINY).fit(hourly())


@pytest.mark.parametrize("setting", SETTINGS[1:])
@pytest.mark.parametrize("partial", [False, True])
def test_every_setting_imputes_all_cells_and_changes_no_other(setting, partial):
    frame = hourly(50, whole=not partial)
    filled = NRTSI(**TINY | {"steps": 4}, setting=setting).fit(frame).impute(frame)
    assert not filled.isna().any(axis=None)
    seen = frame.notna()
    pd.testing.assert_frame_equal(filled.where(seen), frame.where(seen), check_exact=True)


@pytest.mark.parametrize(
    "change",
    [
        {"per_level": True},
        {"encode_targets": False},
        {"head": "point"},
        {"relative": False, "neighbours": False, "residual": False, "normalise": False},
        {"window": None},
    ],
    ids=str,
)
def test_every_variant_of_the_network_imputes_all_cells(change):
    frame = hourly(50)
    filled = NRTSI(**TINY | {"steps": 6}, model=change).fit(frame).impute(frame)
    assert not filled.isna().any(axis=None)


def test_the_paper_s_arrangement_has_a_network_for_every_level_and_no_window():
    sizes = {"width": 16, "blocks": 2, "heads": 2, "head_size": 8, "feed_forward": 16}
    frame = hourly(60, whole=True)
    fitted = NRTSI(preset="paper", model=sizes, steps=10, train={"batch": 8}).fit(frame)
    assert len(set(fitted.fitted_.engine.networks)) > 1
    assert fitted.info()["model"]["window"] is None
    assert not fitted.impute(frame).isna().any(axis=None)
    # One network is enough where rows are partly observed.
    partly = NRTSI(preset="paper", model=sizes, steps=4, train={"batch": 8}).fit(hourly(60))
    assert len(partly.fitted_.engine.networks) == 1


@pytest.mark.parametrize(
    "kind", [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f, preserve_index=False)]
)
def test_the_caller_s_kind_comes_back(model, kind):
    frame = kind(hourly())
    filled = model.impute(frame)
    assert type(filled) is type(frame)
    columns = filled.column_names if isinstance(filled, pa.Table) else list(filled.columns)
    assert columns == ["time", "a", "b", "flag"]


def test_one_call_needs_nothing_but_the_frame():
    frame = hourly(60)
    filled = nrtsi.impute(frame, steps=5, preset="tiny")
    assert not filled.isna().any(axis=None)
    again = nrtsi.impute(frame, steps=5, preset="tiny")
    pd.testing.assert_frame_equal(filled, again, check_exact=True)


def test_times_by_row_number_are_warned_of(caplog):
    frame = hourly(40)[["a", "b"]]
    nrtsi.impute(frame, **TINY)
    assert "time: the row number" in caplog.text
    caplog.clear()
    NRTSI(**TINY).fit(hourly(40))
    assert not caplog.text


def test_a_frame_with_nothing_missing_comes_back_as_it_is():
    frame = hourly(30).dropna()
    assert nrtsi.impute(frame, budget="1h") is frame


def test_the_clock_of_a_minute_and_an_array_with_times():
    value = np.random.default_rng(0).normal(size=(3, 20, 2))
    value[:, 5:9] = np.nan
    times = np.sort(np.random.default_rng(1).uniform(0, 50, (3, 20)), axis=1)
    filled = nrtsi.impute(value, times=times, **TINY)
    assert filled.shape == value.shape
    seen = ~np.isnan(value)
    assert np.array_equal(filled[seen], value[seen])
    assert np.isfinite(filled).all()


# Batches, order, draws ------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=15)
def test_a_batch_gives_what_its_series_give_one_by_one(model, seed):
    series = two_channels(seed)
    together = model.impute_series(series)
    for i in range(series.series):
        alone = model.impute_series(series.select(np.array([i])))
        rows = slice(series.start[i], series.start[i + 1])
        np.testing.assert_allclose(together[rows], alone, atol=1e-4)


@given(seeds)
@settings(max_examples=15)
def test_the_order_of_the_series_changes_nothing_not_even_draws(model, seed):
    series = two_channels(seed)
    order = np.random.default_rng(seed).permutation(series.series)
    shuffled = series.select(order)
    predict = model.fitted_.predict
    for fill in (lambda s: predict(s).mean, lambda s: predict(s, draw=(0, 3)).mean):
        straight, changed = fill(series), fill(shuffled)
        back = SeriesSet(shuffled.time, changed, shuffled.observed, shuffled.start, shuffled.keys)
        again = back.select(np.argsort(order)).value
        np.testing.assert_allclose(again, straight, atol=1e-4)


def two_channels(seed):
    """Random series of the fitted model's two channels, each with something observed."""
    made = some_series(seed, some_data=True)
    wide = np.repeat(made.value[:, :1], 2, axis=1), np.repeat(made.observed[:, :1], 2, axis=1)
    return SeriesSet(made.time, *wide, made.start)


@given(seeds, st.integers(0, 5))
def test_noise_depends_on_the_series_own_name_only(seed, draw):
    series = some_series(seed)
    whole = noise(series, 7, draw)
    for i in range(series.series):
        own = noise(series.select(np.array([i])), 7, draw)
        assert np.array_equal(whole[series.start[i] : series.start[i + 1]], own)


def test_draws_differ_at_missing_cells_only_and_a_seed_repeats_them(model):
    frame = hourly()
    drawn = model.sample(frame, draws=3)
    assert drawn["draw"].tolist() == [0] * 80 + [1] * 80 + [2] * 80
    paths = drawn["a"].to_numpy().reshape(3, 80)
    gone = frame["a"].isna().to_numpy()
    assert (paths[0] == paths[1])[~gone].all()
    assert (paths[0] != paths[1])[gone].all()
    pd.testing.assert_frame_equal(drawn, model.sample(frame, draws=3), check_exact=True)
    more = model.sample(frame, draws=5)
    pd.testing.assert_frame_equal(more.iloc[:240], drawn, check_exact=True)


def test_quantiles_ascend_and_meet_at_observed_cells(model):
    frame = hourly()
    bands = model.quantiles(frame, levels=(0.1, 0.5, 0.9))
    assert sorted(set(bands["quantile"])) == [0.1, 0.5, 0.9]
    low, middle, high = bands["b"].to_numpy().reshape(3, 80)
    gone = frame["b"].isna().to_numpy()
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert (low < high)[gone].all()
    assert (low == high)[~gone].all()


# Values at other times ------------------------------------------------------------------------


def test_queried_times_on_the_grid_have_the_imputed_values(model):
    frame = hourly()
    filled = model.impute(frame)
    queried = model.impute(frame, at=frame["time"].iloc[10:50])
    pd.testing.assert_frame_equal(
        queried.reset_index(drop=True),
        filled[["time", "a", "b"]].iloc[10:50].reset_index(drop=True),
        check_exact=True,
    )


def test_off_the_grid_only_the_queried_times_are_returned(model):
    frame = hourly()
    times = frame["time"].iloc[:5] + pd.Timedelta("20min")
    queried = model.impute(frame, at=times)
    assert queried["time"].tolist() == times.tolist()
    assert np.isfinite(queried[["a", "b"]]).all(axis=None)


def test_every_quarter_of_an_hour(model):
    frame = hourly()
    queried = model.impute(frame, every="15min")
    assert len(queried) == 79 * 4 + 1
    filled = model.impute(frame)
    pd.testing.assert_series_equal(
        queried["a"].iloc[::4].reset_index(drop=True), filled["a"], check_exact=True
    )


def test_at_and_every_together_are_refused(model):
    with pytest.raises(InputError, match="at and every must not be given together"):
        model.impute(hourly(), at=[1], every="1h")


# scikit-learn's rules -------------------------------------------------------------------------


def test_a_clone_keeps_every_setting_and_nothing_learnt(model):
    first = NRTSI(**TINY, time="time", columns=["a"], model={"window": 4})
    copy = clone(first.fit(hourly()))
    assert copy.get_params() == first.get_params()
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(copy)
    check_is_fitted(first)


def test_the_message_of_an_unfitted_model_names_the_remedy():
    for error in (NotFittedError, SklearnNotFittedError):
        with pytest.raises(error, match=r"this NRTSI is not fitted; call fit\(frame\) first"):
            NRTSI().impute(hourly())
    with pytest.raises(NotFittedError):
        NRTSI().save("nowhere")


def test_it_stands_in_a_pipeline():
    value = np.random.default_rng(0).normal(size=(40, 3))
    value[::5, 1] = np.nan
    pipeline = make_pipeline(NRTSI(**TINY), FunctionTransformer(lambda x: x * 2))
    out = pipeline.fit_transform(value)
    assert out.shape == (40, 3)
    assert np.array_equal(out[:, 0], value[:, 0] * 2)
    assert np.array_equal(pipeline.transform(value), out)


# Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_level", [False, True])
def test_a_loaded_model_imputes_and_draws_exactly_the_same(tmp_path, per_level):
    frame = hourly()
    first = NRTSI(**TINY, model={"per_level": per_level}, max_level=3).fit(frame)
    first.save(tmp_path / "model")
    second = nrtsi.load(tmp_path / "model")
    pd.testing.assert_frame_equal(first.impute(frame), second.impute(frame), check_exact=True)
    draws = (m.sample(frame, draws=2) for m in (first, second))
    pd.testing.assert_frame_equal(*draws, check_exact=True)
    assert first.info() == second.info()
    second.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()


def test_numbers_of_numpy_and_an_index_of_names_can_be_saved(tmp_path):
    frame = hourly(30)
    params = {"seed": np.int64(3), "columns": frame.columns[1:3], "steps": np.int32(2)}
    params |= {"model": {"width": np.int64(16)}}
    fitted = NRTSI(preset="tiny", **params).fit(frame)
    fitted.save(tmp_path / "model")
    again = nrtsi.load(tmp_path / "model").impute(frame)
    pd.testing.assert_frame_equal(fitted.impute(frame), again, check_exact=True)


def test_a_model_file_holds_no_pickle(model, tmp_path):
    model.save(tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    assert int.from_bytes(data[:8], "little") < len(data)  # the header of a safetensors file
    assert data[8:9] == b"{"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a readable nrtsi model file"),
        (b"time,x\n1,2\n", "is not a readable nrtsi model file"),
        (b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ", "but not one that nrtsi wrote"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path, content, message):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        nrtsi.load(tmp_path / "model")


def test_a_truncated_file_another_kind_another_format_and_none_have_different_messages(
    model, tmp_path, monkeypatch
):
    path = tmp_path / "model"
    with pytest.raises(CheckpointError, match="does not exist; give the path"):
        nrtsi.load(path)
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="is not a readable nrtsi model file"):
        nrtsi.load(path)
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 64]) + whole[-8:])
    with pytest.raises(CheckpointError, match="is damaged: its checksum does not match"):
        nrtsi.load(path)
    # Another type of the same bytes changes the meaning of a tensor.
    path.write_bytes(whole.replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    with pytest.raises(CheckpointError, match="is damaged: its checksum does not match"):
        nrtsi.load(path)
    NRTSI(**TINY).fit(hourly(), checkpoint=path)
    with pytest.raises(CheckpointError, match="is a training file, not a model file"):
        nrtsi.load(path)
    monkeypatch.setattr("nrtsi.training.checkpoint.FORMAT", 9)
    model.save(path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has format 9, this version reads 4"):
        nrtsi.load(path)


def test_a_path_that_cannot_be_written_is_named(model, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        model.save(tmp_path / "no" / "such" / "folder")


def test_a_model_knows_the_data_it_was_fitted_on(model):
    series = read(hourly(), clock=model.clock_).series
    assert model.fitted_.has_seen(series)
    other = read(hourly(seed=5), clock=model.clock_).series
    assert not model.fitted_.has_seen(other)


@given(seeds)
def test_a_fingerprint_is_found_in_its_own_data_and_in_part_in_a_part(seed):
    series = some_series(seed, some_data=True)
    kept = fingerprint(series)
    assert overlap(kept, series) == 1.0
    first = series.select(np.array([0]))
    if first.observed.any(axis=1).sum() > 1:
        assert overlap(kept, first) == 1.0


def test_a_part_of_the_fitted_data_is_recognised_and_other_data_are_not():
    rng = np.random.default_rng(0)
    kept = fingerprint(SeriesSet.stack(rng.integers(0, 4, (1, 50_000, 2)).astype(float)))
    rng = np.random.default_rng(0)
    data = SeriesSet.stack(rng.integers(0, 4, (1, 50_000, 2)).astype(float))
    part = data.slices(np.array([1000]), np.array([3000]))
    assert overlap(kept, part) > 0.9
    other = SeriesSet.stack(rng.integers(0, 4, (1, 3000, 2)).astype(float))
    assert overlap(kept, other) < 0.2


# Invalid data and parameters ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"preset": "huge"}, "preset must be one of tiny, small, base, large, paper, got 'huge'"),
        ({"setting": "weekly"}, "setting must be one of auto, regular"),
        ({"mask": "none"}, "mask must be one of auto, empirical, points, blocks, got 'none'"),
        ({"steps": -1}, "steps must be a whole number, 0 or more, got -1"),
        ({"steps": 1.5}, r"steps must be a whole number, 0 or more, got 1\.5"),
        ({"steps": None, "budget": "soon"}, "soon"),
        ({"seed": -1}, r"seed must be a whole number from 0 to 2\*\*63 - 1, got -1"),
        ({"seed": 2**70}, r"seed must be a whole number from 0 to 2\*\*63 - 1"),
        ({"train": {"validation": 0.9}}, r"validation: .* less than or equal to 0\.5, got 0\.9"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here; use 'auto' or 'cpu'"),
        ({"model": {"width": 0}}, "width: Input should be greater than 0, got 0"),
        ({"model": {"colour": 1}}, "colour: Extra inputs are not permitted"),
        ({"max_level": -1}, "max_level: Input should be greater than or equal to 0, got -1"),
        ({"max_level": "big"}, "max_level must be a whole number or 'auto', got 'big'"),
        ({"scaling": "none"}, "scaling must be 'channel' or 'shared', got 'none'"),
        ({"max_level": True}, "max_level: Input should be a valid integer, got True"),
        ({"schedule": {"one_by_one_above": 99}}, "one_by_one_above must not exceed"),
        (
            {"schedule": "local"},
            "schedule must be fields of ScheduleConfig as a dict, got 'local'",
        ),
        ({"on_empty": "ignore"}, "on_empty must be 'error' or 'skip', got 'ignore'"),
        ({"columns": "a"}, r"columns must be a list of names, got .*'a'"),
    ],
)
def test_a_setting_out_of_range_is_named(params, message):
    with pytest.raises(InputError, match=message):
        NRTSI(**TINY | params).fit(hourly(30))


@pytest.mark.parametrize(("gap", "coarsest"), [(1, 4), (30, 4), (40, 5), (600, 9)])
def test_levels_reach_the_middle_of_the_longest_gap(gap, coarsest):
    value = np.sin(np.arange(1500.0) / 9)[:, None]
    value[400 : 400 + gap] = np.nan
    model = NRTSI(**TINY | {"steps": 1}).fit(value)
    assert model.fitted_.engine.schedule.max_level == coarsest
    assert np.isfinite(model.impute(value)).all()


@pytest.mark.parametrize("memory", [None, True, "much", 0, [1]])
def test_memory_that_is_no_size_is_refused(model, memory):
    other = NRTSI(memory_limit=memory)
    other.fitted_, other.clock_, other.columns_ = model.fitted_, model.clock_, model.columns_
    with pytest.raises(InputError, match="memory_limit must be a positive number of bytes"):
        other.impute(hourly())


def test_a_file_of_before_levels_were_part_of_the_layout_is_read(model):
    tensors, record = model.fitted_.state()
    del record["layout"]["levels"]
    again = FittedModel.from_state(tensors, record, torch.device("cpu"))
    series = model.read_fitted(hourly()).series
    np.testing.assert_array_equal(again.predict(series).mean, model.fitted_.predict(series).mean)


def test_a_series_with_nothing_observed_is_named_or_skipped():
    value = np.random.default_rng(0).normal(size=(3, 20, 1))
    value[0, 3:6] = np.nan
    value[1] = np.nan
    with pytest.raises(InputError, match=r"series 1 must have observed values, got none"):
        nrtsi.impute(value, **TINY)
    filled = nrtsi.impute(value, **TINY, on_empty="skip")
    assert np.isnan(filled[1]).all()
    assert np.isfinite(filled[[0, 2]]).all()


def test_one_row_is_too_little():
    with pytest.raises(InputError, match="at least 2 rows with observed values, got 1"):
        NRTSI(**TINY).fit(np.array([[1.0, 2.0]]))


def test_sparse_data_on_a_fine_grid_can_be_learnt_from():
    value = np.full((5000, 1), np.nan)
    value[::250] = np.sin(np.arange(20))[:, None]
    assert np.isfinite(NRTSI(**TINY).fit(value).impute(value)).all()


def test_values_far_off_the_fitted_ones_are_refused_rather_than_left_missing(model):
    frame = hourly()
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(InputError, match="not finite"),
    ):
        model.impute(frame.assign(a=frame["a"] * 1e300))


def test_rows_that_are_all_partially_observed_are_imputed():
    value = np.random.default_rng(0).normal(size=(30, 2))
    value[np.arange(30), np.arange(30) % 2] = np.nan
    for change in ({}, {"encode_targets": False}):
        assert np.isfinite(nrtsi.impute(value, **TINY, model=change)).all()


def test_two_rows_are_enough():
    filled = nrtsi.impute(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]), **TINY)
    assert np.isfinite(filled).all()


def test_other_columns_than_the_fitted_ones_are_named(model):
    with pytest.raises(InputError, match=r"the columns the model was fitted on.*lacks.*'b'"):
        model.impute(hourly().drop(columns="b"))


def test_times_of_another_kind_than_the_fitted_are_named(model):
    with pytest.raises(InputError, match="time"):
        model.impute(hourly().assign(time=np.arange(80.0)))


def test_partly_observed_rows_are_refused_by_a_model_of_whole_rows():
    fitted = NRTSI(**TINY).fit(hourly(whole=True))
    with pytest.raises(
        InputError, match=r"rows must be observed in all columns or in none.*partial"
    ):
        fitted.impute(hourly())


def test_a_point_head_cannot_draw_point_after_point():
    fitted = NRTSI(**TINY, model={"head": "point"}, setting="stochastic").fit(hourly(whole=True))
    with pytest.raises(InputError, match="this model has a point head"):
        fitted.sample(hourly(whole=True))


def test_a_point_head_draws_by_its_errors_on_held_out_cells():
    drawn = NRTSI(**TINY, model={"head": "point"}).fit(hourly()).sample(hourly(), draws=2)
    gone = hourly()["a"].isna().to_numpy()
    first, second = drawn["a"].to_numpy().reshape(2, -1)
    assert (first[gone] != second[gone]).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"draws": 0}, "draws must be a whole number and at least 1, got 0"),
        ({"draws": 2.0}, "draws must be a whole number and at least 1, got 2.0"),
    ],
)
def test_draws_must_be_some(model, params, message):
    with pytest.raises(InputError, match=message):
        model.sample(hourly(), **params)


@pytest.mark.parametrize("levels", [(), (0.0,), (0.5, 1.0), 0.5, ["a"], "0.5"])
def test_levels_of_quantiles_lie_between_0_and_1(model, levels):
    with pytest.raises(InputError, match="levels must be a list of numbers between 0 and 1"):
        model.quantiles(hourly(), levels=levels)


# Automatic settings ---------------------------------------------------------------------------


def test_the_setting_follows_the_data():
    assert NRTSI(**TINY).fit(hourly(30)).setting_ == "partial"
    assert NRTSI(**TINY).fit(hourly(30, whole=True)).setting_ == "regular"
    single = hourly(30)[["time", "a"]]
    assert NRTSI(**TINY).fit(single).setting_ == "regular"
    irregular = single.assign(time=single["time"] + pd.to_timedelta(np.arange(30) ** 2, unit="s"))
    assert NRTSI(**TINY).fit(irregular).setting_ == "irregular"


def test_times_that_nearly_lie_on_a_grid_are_irregular_and_need_few_passes():
    rng = np.random.default_rng(0)
    time = np.arange(2000) + rng.uniform(-2e-4, 2e-4, 2000)
    value = np.where(rng.random(2000) < 0.3, np.nan, np.sin(time / 9))
    fitted = NRTSI(**TINY).fit(pd.DataFrame({"time": time, "x": value}))
    assert fitted.setting_ == "irregular"
    steps = plan(read_series(fitted, time, value), fitted.fitted_.engine.schedule)
    assert len(list(steps)) < 12


def read_series(fitted, time, value):
    return read(pd.DataFrame({"time": time, "x": value}), clock=fitted.clock_).series


def test_a_fit_that_fails_leaves_no_old_model_behind():
    fitted = NRTSI(**TINY).fit(hourly(30))
    fitted.set_params(setting="weekly")
    with pytest.raises(InputError):
        fitted.fit(hourly(30)[["time", "a"]])
    with pytest.raises(NotFittedError):
        fitted.impute(hourly(30))


def test_an_explicit_preset_beats_what_the_budget_would_choose():
    assert NRTSI(preset="tiny", budget="1s").fit(hourly(30)).preset_ == "tiny"
    assert NRTSI(budget="1s").fit(hourly(30)).preset_ == "small"


@pytest.mark.slow
def test_a_million_rows():
    rng = np.random.default_rng(0)
    value = np.cumsum(rng.normal(size=(1_000_000, 3)), axis=0).astype(np.float32)
    frame = pl.DataFrame(
        {"time": np.arange(1_000_000), **{f"x{i}": value[:, i] for i in range(3)}}
    )
    gone = rng.random(value.shape) < 0.1
    gappy = frame.with_columns(
        pl.Series(f"x{i}", np.where(gone[:, i], np.nan, value[:, i])) for i in range(3)
    )
    filled = nrtsi.impute(gappy, budget="10s")
    assert filled.schema == gappy.schema
    got = filled.select("x0", "x1", "x2").to_numpy()
    assert np.array_equal(got[~gone], value[~gone])
    assert np.isfinite(got).all()


@pytest.mark.parametrize("options", [{}, {"interval": 0.8, "max_gap": 5}, {"method": "auto"}])
def test_impute_reads_the_table_once(options, monkeypatch):
    reads = []
    for module in ("nrtsi.baselines.base", "nrtsi.imputer.nrtsi"):
        monkeypatch.setattr(f"{module}.read", lambda *a, **k: reads.append(1) or read(*a, **k))
    nrtsi.impute(hourly(), steps=2, preset="tiny", **options)
    assert len(reads) == 1
