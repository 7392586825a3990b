"""Predicted uncertainty, and the values, intervals, draws and provenance derived from it."""

from dataclasses import replace
from itertools import pairwise

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings

import nrtsi
from nrtsi import NRTSI, InputError
from nrtsi.config import PRESETS, ScheduleConfig
from nrtsi.core.bounds import Bounds
from nrtsi.core.gaps import GAP_BINS, Gaps
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.evaluation.conformal import GRID, Calibration
from nrtsi.evaluation.error_correlation import ErrorCorrelation
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.options import ImputeOptions, ImputeTask, Limits
from nrtsi.imputer.result import SOURCES, ImputationResult, PredictiveDistribution
from nrtsi.inference import Engine
from nrtsi.network.heads import Gaussian
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout
from nrtsi.schedule.plan import plan
from nrtsi.tables import Clock, Columns, read
from tests.strategies import seeds, some_series

LEVELS = (0.001, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999)


def some_calibration(seed, dims):
    """Random ascending quantiles for each channel and gap bin, and a random correlation."""
    rng = np.random.default_rng(seed)
    table = GRID * rng.uniform(0.2, 3, (dims, GAP_BINS, 1)) + rng.normal(size=(dims, GAP_BINS, 1))
    channels = np.full((dims, dims), 0.5) + 0.5 * np.eye(dims)
    correlation = ErrorCorrelation(rng.uniform(0.1, 2, dims), rng.random(dims) < 0.5, channels)
    return Calibration(table, np.ones((dims, GAP_BINS), dtype=np.int64), correlation)


def some_distribution(seed, bounds=True):
    """A distribution of random series; half of the seeds have bounds that the data violate."""
    series, rng = some_series(seed), np.random.default_rng(seed)
    missing = ~series.observed
    value = np.where(missing, rng.normal(size=missing.shape), series.value)
    prediction = Prediction(value, missing * rng.uniform(0.1, 2, missing.shape))
    names = [str(dim) for dim in range(series.dims)]
    within = {"0": (-0.5, 0.7)} if bounds and seed % 2 else None
    return PredictiveDistribution(
        series,
        prediction,
        some_calibration(seed, series.dims),
        Bounds.of(within, names, np.ones(series.dims)),
        Gaps.of(series),
    )


@given(seeds)
@settings(max_examples=40)
def test_observed_cells_never_change_and_intervals_contain_the_value(seed):
    distribution = some_distribution(seed)
    series, missing = distribution.series, ~distribution.series.observed
    quantiles = [distribution.quantile(level) for level in LEVELS]
    lower, upper = distribution.interval(0.9)
    drawn = list(distribution.draws(2, seed=3))
    for each in (distribution.value, *quantiles, lower, upper, *drawn):
        np.testing.assert_array_equal(each[~missing], series.value[~missing])
    for below, above in pairwise(quantiles):
        assert (below <= above).all()
    assert (lower <= distribution.value).all()
    assert (distribution.value <= upper).all()
    narrow = distribution.interval(0.5)
    assert (lower <= narrow[0]).all()
    assert (narrow[1] <= upper).all()


@given(seeds.map(lambda seed: seed | 1))
@settings(max_examples=20)
def test_values_intervals_and_draws_are_inside_the_bounds(seed):
    distribution = some_distribution(seed)
    missing = ~distribution.series.observed[:, 0]
    found = [distribution.value, *distribution.interval(0.99), *distribution.draws(2, 0)]
    for each in (*found, *(distribution.quantile(level) for level in LEVELS)):
        assert (each[missing, 0] >= -0.5).all()
        assert (each[missing, 0] <= 0.7).all()


@given(seeds)
@settings(max_examples=20)
def test_draws_depend_on_the_seed_and_the_key_of_the_series_only(seed):
    distribution = some_distribution(seed)
    first, second = distribution.draws(2, seed=5)
    np.testing.assert_array_equal(first, next(distribution.draws(1, seed=5)))
    if not distribution.series.observed.all() and distribution.bounds is None:
        assert (first != second).any()
        assert (first != next(distribution.draws(1, seed=6))).any()
    for each in range(distribution.series.series):
        own = slice(*distribution.series.start[each : each + 2])
        series = distribution.series.select(np.array([each]))
        prediction = Prediction(
            distribution.prediction.mean[own], distribution.prediction.std[own]
        )
        alone = replace(distribution, series=series, prediction=prediction, gaps=Gaps.of(series))
        np.testing.assert_allclose(next(alone.draws(1, seed=5)), first[own], atol=1e-12)


def test_draws_have_the_predicted_quantiles():
    distribution = some_distribution(2, bounds=False)
    missing = ~distribution.series.observed
    drawn = np.stack([draw[missing] for draw in distribution.draws(400, seed=0)])
    assert drawn.shape[1] > 100
    for level in (0.05, 0.5, 0.95):
        below = np.mean(drawn <= distribution.quantile(level)[missing], axis=0)
        assert np.abs(below - level).max() < 5 * np.sqrt(level * (1 - level) / 400)
        assert abs(below.mean() - level) < 0.03


def test_unknown_means_give_unknown_intervals_and_draws():
    distribution = some_distribution(4, bounds=False)
    unknown = replace(
        distribution,
        prediction=Prediction(distribution.prediction.mean * np.nan, distribution.prediction.std),
    )
    missing = ~distribution.series.observed
    for each in (unknown.value, *unknown.interval(0.9), next(unknown.draws(1, 0))):
        assert np.isnan(each[missing]).all()
        assert np.isfinite(each[~missing]).all()


# Uncertainty of the networks


def engine(dims):
    """An untrained network, which interpolates and predicts some standard deviation."""
    torch.manual_seed(0)
    layout = TokenLayout(dims, partial=True, levels=4)
    network = RowNetwork(PRESETS["tiny"].model, layout).eval()
    schedule = ScheduleConfig(order="midpoints", max_level=60)
    return Engine([network], PRESETS["tiny"].model, layout, schedule)


@given(seeds)
@settings(max_examples=6)
def test_the_std_is_zero_in_observed_cells_only(seed):
    series = some_series(seed)
    made = engine(series.dims)
    prediction = made.predict(series)
    np.testing.assert_array_equal(prediction.mean, made.predict(series).mean)
    assert (prediction.std[series.observed] == 0).all()
    assert (prediction.std[~series.observed] > 0).all()


def test_the_memory_limit_changes_no_std():
    series = some_series(3)
    assert series.series > 1
    made = engine(series.dims)
    tight = replace(made, memory_limit=200 * series.dims * 20).predict(series)
    np.testing.assert_allclose(tight.std, made.predict(series).std, rtol=2e-4, atol=2e-4)


@given(seeds)
@settings(max_examples=6)
def test_uncertain_inputs_keep_their_std_and_increase_the_others(seed):
    series = some_series(seed, some_data=True)
    std = series.observed * np.random.default_rng(seed).uniform(0, 2, series.value.shape)
    before = std.copy()
    made = engine(series.dims)
    prediction = made.predict(series, std=std)
    np.testing.assert_array_equal(std, before)  # the argument is not changed
    np.testing.assert_array_equal(prediction.std[series.observed], before[series.observed])
    assert (prediction.std >= made.predict(series).std).all()


def bridge(size):
    """A gap of `size` cells between two observations."""
    value = np.full((1, size + 2, 1), np.nan)
    value[0, [0, -1]] = [[1.0], [2.0]]
    return SeriesSet.stack(value)


def test_errors_of_the_first_level_propagate_to_the_second():
    series, made = bridge(3), engine(1)
    whole = made.predict(series).std.ravel()
    middle = series.observed.copy()
    middle[2] = True
    value = made.predict(series).mean
    known = replace(series, value=np.where(middle, value, 0.0), observed=middle)
    own = made.predict(known).std.ravel()
    assert own[2] == 0 < own[1]
    # Half of the standard deviation of one neighbour is added; the other neighbour is known.
    np.testing.assert_allclose(whole[[1, 3]], np.hypot(own[[1, 3]], whole[2] / 2), rtol=1e-6)


class BrownianNetwork(RowNetwork):
    """The exact prediction for a Brownian motion half-way between two known values."""

    def forward(self, tokens):
        distance = 2.0 ** tokens.level.double()[:, None, None]
        log_std = (distance / 2).log() / 2
        return Gaussian(tokens.interpolation, log_std.expand_as(tokens.interpolation))


def test_the_std_of_a_brownian_bridge_is_exact_at_the_first_two_levels():
    series, made = bridge(15), engine(1)
    made = replace(made, networks=[BrownianNetwork(made.model, made.layout)])
    scale, time = made.predict(series).std.ravel(), series.time
    exact = np.sqrt(time * (16 - time) / 16)
    early = [0, 4, 8, 12, 16]
    np.testing.assert_allclose(scale[early], exact[early])
    # At later levels the correlation of neighbouring errors is overestimated.
    assert (scale >= exact - 1e-12).all()
    assert (scale <= 1.25 * exact + 1e-12).all()
    assert [step.rows.tolist() for step in plan(series, made.schedule)][:2] == [[8], [4, 12]]


# Provenance

PANEL = read(np.array([[1.0], [np.nan]]), Columns())


def some_result(seed, clock):
    """A result of two methods, selected by gap length, with some refused cells."""
    distribution = some_distribution(seed)
    series, gaps = distribution.series, distribution.gaps
    names = tuple(f"c{dim}" for dim in range(series.dims))
    table = np.tile(np.arange(GAP_BINS) % 2, (series.dims, 1))
    ends = distribution.interval(0.9)
    refused = Limits(30.0, np.full(series.dims, 4.0)).refused(gaps, ends[1] - ends[0])
    selection = MethodSelection(("nrtsi", "linear"), table)
    panel = replace(PANEL, clock=clock, columns=Columns(values=names))
    task = ImputeTask(panel, panel, ImputeOptions(provenance=True), Limits(30.0, np.zeros(0)))
    return series, ImputationResult(task, distribution.value, ends, gaps, refused, selection)


@given(seeds)
@settings(max_examples=25)
def test_provenance_columns_describe_each_cell(seed):
    clock = Clock("number", 0, 2.0)
    series, result = some_result(seed, clock)
    columns = result.columns()
    for dim, name in enumerate(result.names):
        for row in range(series.rows):
            found = [columns[f"{name}_{each}"][row] for each in ("source", "method", "gap")]
            ends = [columns[f"{name}_{each}"][row] for each in ("lower", "upper")]
            if series.observed[row, dim]:
                assert found[:2] == ["observed", None]
                assert np.isnan([found[2], *ends]).all()
                continue
            length = result.gaps.length[row, dim]
            wide = result.interval[1][row, dim] - result.interval[0][row, dim] > 4.0
            refused = length > 30.0 or wide
            assert found[0] == ("refused" if refused else "imputed")
            assert found[1] == ("nrtsi", "linear")[result.gaps.gap_bin[row, dim] % 2]
            assert found[2] == 2.0 * length
            assert ends == [each[row, dim] for each in result.interval]
            assert np.isnan(result.kept[row, dim]) == refused
    options = ImputeOptions(interval=0.9)
    plain = replace(result, task=replace(result.task, options=options))
    assert list(plain.columns()) == [
        f"{name}_{end}" for name in result.names for end in ("lower", "upper")
    ]


def test_cells_without_a_value_are_not_imputed():
    series, result = some_result(8, Clock("number", 0, 1.0))
    unknown = replace(result, value=np.where(series.observed, result.value, np.nan))
    source = np.array(SOURCES)[unknown.source]
    assert set(source[~series.observed]) <= {"missing", "refused"}
    assert (source[series.observed] == "observed").all()


# The estimator

SETTINGS = {
    "preset": "tiny",
    "steps": 6,
    "predictors": (),
    "bounds": {"b": (-0.8, None)},
    "on_empty": "skip",
}


def weather(rows=280):
    """Two channels of an hourly table: single cells, and gaps of four hours, missing."""
    rng = np.random.default_rng(0)
    base = np.sin(np.arange(rows) / 4)[:, None] + rng.normal(size=(rows, 2)) / 10
    base[rng.random((rows, 2)) < 0.1] = np.nan
    for begin in range(20, rows - 10, 40):
        base[begin : begin + 4, (begin // 40) % 2] = np.nan
    base[[19, 24], 0] = 0.5  # a gap of four cells and five hours
    base[20:24, 0] = np.nan
    time = pd.date_range("2024-03-30", periods=rows, freq="h")
    return pd.DataFrame({"time": time, "a": base[:, 0], "b": np.maximum(base[:, 1], -0.8)})


@pytest.fixture(scope="module")
def model():
    return NRTSI(**SETTINGS).fit(weather())


def test_options_change_no_value(model):
    frame = weather()
    plain = model.impute(frame)
    more = model.impute(frame, interval=0.8, provenance=True)
    pd.testing.assert_frame_equal(more[["time", "a", "b"]], plain)
    at = model.impute(frame, every="20min")
    more_at = model.impute(frame, every="20min", interval=0.8)
    pd.testing.assert_frame_equal(more_at[["time", "a", "b"]], at)
    assert list(more_at) == ["time", "a", "b", "a_lower", "a_upper", "b_lower", "b_upper"]
    off = ~at["time"].isin(frame["time"])
    assert more_at.loc[off, ["a_lower", "b_upper"]].notna().all(axis=None)


def test_provenance_of_a_table(model):
    frame = weather()
    result = model.impute(frame, provenance=True, max_gap="4h")
    for name in ("a", "b"):
        missing = frame[name].isna()
        assert (result[f"{name}_source"] == "observed").equals(~missing)
        for each in ("method", "gap", "lower", "upper"):
            assert result[f"{name}_{each}"].notna().equals(missing)
        assert set(result.loc[missing, f"{name}_method"]) == {"nrtsi"}
        refused = result[f"{name}_source"] == "refused"
        assert refused.equals(missing & (result[f"{name}_gap"] > pd.Timedelta("4h")))
        assert result[name].isna().equals(refused)
        kept = result[missing & ~refused]
        assert kept[name].between(kept[f"{name}_lower"], kept[f"{name}_upper"]).all()
    assert (result.loc[20:23, "a_gap"] == pd.Timedelta("5h")).all()
    assert (result.loc[20:23, "a_source"] == "refused").all()
    assert result["b"].dropna().min() >= -0.8
    assert result["b_lower"].min() >= -0.8


@pytest.mark.parametrize("max_gap", ["5h", "300min", 5, "5"])
def test_a_gap_of_exactly_max_gap_is_imputed(model, max_gap):
    assert model.impute(weather(), max_gap=max_gap).loc[20:23, "a"].notna().all()
    assert model.impute(weather(), max_gap="4.9h").loc[20:23, "a"].isna().all()


def test_cells_with_wide_intervals_stay_missing_by_column(model):
    frame = weather()
    ends = model.impute(frame, interval=0.9)
    width = ends["a_upper"] - ends["a_lower"]
    limit = float(width.median())
    result = model.impute(frame, max_width={"a": limit})
    assert result["a"].isna().equals(width > limit)
    assert result["b"].notna().all()
    # The limit applies to the requested interval.
    narrow = model.impute(frame, max_width={"a": limit}, interval=0.5)
    assert narrow["a"].isna().sum() < result["a"].isna().sum()
    assert model.impute(frame, max_width=1e-9)[["a", "b"]].isna().equals(frame[["a", "b"]].isna())


INDEXES = {
    "shuffled": lambda n: np.random.default_rng(0).permutation(n),
    "repeated": lambda n: np.zeros(n, dtype=int),
    "words": lambda n: [f"row {i}" for i in range(n)],
    "two levels": lambda n: pd.MultiIndex.from_arrays([np.arange(n) % 7, np.arange(n)]),
}


@pytest.mark.parametrize("index", INDEXES)
def test_a_pandas_index_is_kept(model, index):
    frame = weather().sample(frac=1, random_state=0)
    frame.index = INDEXES[index](len(frame))
    result = model.impute(frame, provenance=True)
    assert result.index.equals(frame.index)
    sorted_result = result.sort_values("time", ignore_index=True)
    pd.testing.assert_frame_equal(sorted_result, model.impute(weather(), provenance=True))


@pytest.mark.parametrize(
    "kind", [pl.from_pandas, lambda frame: pa.Table.from_pandas(frame)], ids=["polars", "arrow"]
)
def test_other_kinds_of_tables_get_the_same_columns(model, kind):
    expected = model.impute(weather(), provenance=True, max_gap=3)
    table = kind(weather())
    result = model.impute(table, provenance=True, max_gap=3)
    assert type(result) is type(table)
    read = nw.from_native(result, eager_only=True)
    assert read.columns == list(expected)
    assert read.schema["a_gap"] == nw.Duration("ns")
    assert read.schema["a_source"] == nw.String()
    for name in ("a", "a_lower", "b_upper"):
        found = read[name].to_arrow().to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(found, expected[name].to_numpy())
    for name in ("a_source", "b_method", "a_gap"):
        missing = expected[name].isna().tolist()
        assert read[name].is_null().to_list() == missing
        own = [each for each, none in zip(read[name].to_list(), missing, strict=True) if not none]
        assert own == expected[name].dropna().tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": 1.5}, r"interval must be a probability between 0 and 1, got 1\.5"),
        ({"max_gap": "6 moons"}, r"a duration must be .* got '6 moons'"),
        ({"max_gap": 0}, r"max_gap must be a positive number of steps"),
        ({"max_width": {"c": 1}}, r"max_width must name imputed columns.* got 'c'"),
        ({"method": "magic"}, r"method must be nrtsi, auto or one of .*got 'magic'"),
    ],
)
def test_invalid_options_are_rejected(model, options, message):
    with pytest.raises(InputError, match=message):
        model.impute(weather(), **options)


def test_a_taken_column_name_is_rejected_before_imputation(model, monkeypatch):
    monkeypatch.setattr(NRTSI, "predict", lambda *_: pytest.fail("called"))
    frame = weather().assign(b_gap="x")
    with pytest.raises(InputError, match=r"data must have no column 'b_gap', which the result"):
        model.impute(frame, provenance=True)


def test_an_array_supports_limits_but_no_extra_columns():
    values = weather(120)[["a", "b"]].to_numpy()
    model = NRTSI(preset="tiny", steps=0, predictors=()).fit(values)
    for options in ({"interval": 0.9}, {"provenance": True}):
        with pytest.raises(InputError, match="need a table, got an array"):
            model.impute(values, **options)
    assert np.isnan(model.impute(values, max_gap=1, max_width=50.0)).any()
    assert model.quantiles(values, levels=[0.1, 0.9]).shape == (2, 120, 2)


def test_quantiles_are_the_ends_of_intervals(model):
    frame = weather()
    ends = model.impute(frame, interval=0.9)
    low, middle, high = (each for _, each in model.quantiles(frame).groupby("quantile", sort=True))
    missing = frame["a"].isna().to_numpy()
    below, value, above = (each["a"].to_numpy()[missing] for each in (low, middle, high))
    assert (below <= value).all()
    assert (value <= above).all()
    best = model.impute(frame)["a"].to_numpy()[missing]
    np.testing.assert_array_equal(np.minimum(below, best), ends["a_lower"][missing])
    np.testing.assert_array_equal(np.maximum(above, best), ends["a_upper"][missing])


def test_draws_keep_observed_cells_and_bounds(model):
    frame = weather()
    drawn = model.sample(frame, draws=3)
    pd.testing.assert_frame_equal(drawn, model.sample(frame, draws=3))
    assert drawn["b"].min() >= -0.8
    for _, each in drawn.groupby("draw"):
        own = each.drop(columns="draw").reset_index(drop=True)
        seen = frame.notna()
        pd.testing.assert_frame_equal(own.where(seen), frame.where(seen), check_exact=True)
        assert own.notna().all(axis=None)
    spread = drawn.groupby("time")["a"].std().to_numpy()
    assert (spread[frame["a"].isna()] > 0).all()
    assert (spread[frame["a"].notna()] == 0).all()


def test_sequential_draws_keep_the_bounds(model):
    in_turn = nrtsi.NRTSI(**SETTINGS)
    in_turn.__dict__.update(model.__dict__)
    in_turn.fitted_ = replace(model.fitted_, setting="stochastic")
    in_turn.bounds = {"b": (0.5, 0.6)}
    frame = weather(60)
    drawn = in_turn.sample(frame, draws=2)
    imputed = drawn.loc[np.tile(frame["b"].isna(), 2), "b"]
    assert imputed.between(0.5, 0.6).all()


def test_a_loaded_model_gives_the_same_results(model, tmp_path):
    model.save(tmp_path / "model")
    loaded, frame = nrtsi.load(tmp_path / "model"), weather()
    for options in ({"interval": 0.9}, {"provenance": True, "max_gap": 2}):
        pd.testing.assert_frame_equal(
            loaded.impute(frame, **options), model.impute(frame, **options)
        )
    pd.testing.assert_frame_equal(loaded.sample(frame, draws=2), model.sample(frame, draws=2))


def test_a_baseline_has_its_own_intervals(model):
    frame = weather()
    result = model.impute(frame, method="linear", provenance=True)
    np.testing.assert_allclose(result["a"], frame["a"].interpolate(limit_direction="both"))
    assert set(result["a_method"].dropna()) == {"linear"}
    kept = result[frame["a"].isna()]
    assert kept["a"].between(kept["a_lower"], kept["a_upper"]).all()


def test_a_series_without_observations_stays_missing(model):
    nothing = weather(30).assign(a=np.nan, b=np.nan)
    result = model.impute(nothing, provenance=True)
    assert (result["a_source"] == "missing").all()
    assert result[["a", "b", "a_lower", "a_upper", "a_gap"]].isna().all(axis=None)
    assert (model.impute(nothing, provenance=True, max_gap=5)["a_source"] == "refused").all()
