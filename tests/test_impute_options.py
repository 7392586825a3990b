"""Options and limits of `NRTSI.impute`, and every message about them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi import InputError
from nrtsi.core.gaps import Gaps
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.options import DEFAULT_INTERVAL, ImputeOptions, ImputeTask, Limits
from nrtsi.tables import Clock, Columns, read
from tests.strategies import seeds, some_series

HOURLY = Clock("datetime", 0, 3600e9)
NUMBERS = Clock("number", 0, 2.0)
NAMES = ["a", "b"]


@given(seeds, st.floats(0.1, 100), st.floats(0.1, 3))
@settings(max_examples=25)
def test_cells_of_long_gaps_and_wide_intervals_are_refused_and_no_others(seed, longest, widest):
    series = some_series(seed)
    gaps = Gaps.of(series)
    width = np.abs(np.random.default_rng(seed).normal(size=series.value.shape))
    refused = Limits(longest, np.full(series.dims, widest)).refused(gaps, width)
    long = ~series.observed & (gaps.length > longest)
    np.testing.assert_array_equal(refused.too_long, long)
    np.testing.assert_array_equal(refused.too_wide, ~series.observed & ~long & (width > widest))
    np.testing.assert_array_equal(refused.cells, refused.too_long | refused.too_wide)
    assert not (refused.too_long & refused.too_wide).any()


@given(seeds)
@settings(max_examples=10)
def test_without_limits_nothing_is_refused(seed):
    series = some_series(seed)
    names = [str(each) for each in range(series.dims)]
    limits = Limits.of(ImputeOptions(), NUMBERS, names)
    assert not limits.refused(Gaps.of(series), np.full(series.value.shape, 1e300)).cells.any()
    assert not limits.refused(Gaps.of(series), None).cells.any()


@pytest.mark.parametrize(
    ("clock", "max_gap", "units"),
    [
        (HOURLY, "6h", 6.0),
        (HOURLY, "90min", 1.5),
        (HOURLY, 6, 6.0),
        (HOURLY, "6", 6.0),
        (HOURLY, np.int64(6), 6.0),
        (NUMBERS, 2.5, 2.5),
        (NUMBERS, " 2.5 ", 2.5),
    ],
)
def test_the_longest_gap_is_a_duration_or_a_number_of_steps(clock, max_gap, units):
    assert Limits.of(ImputeOptions(max_gap=max_gap), clock, NAMES).longest == units


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_a_gap_of_just_the_longest_is_imputed_despite_rounded_times(steps):
    time = np.arange(9.0) * 0.1 / 0.1 * (1 + 1e-12)
    value = np.full((1, 9, 1), np.nan)
    value[0, [0, steps, 8]] = 1.0
    gaps = Gaps.of(SeriesSet.stack(value, time[None]))
    at = Limits.of(ImputeOptions(max_gap=steps), NUMBERS, ["a"]).refused(gaps, None).too_long
    below = (
        Limits.of(ImputeOptions(max_gap=steps - 0.01), NUMBERS, ["a"]).refused(gaps, None).too_long
    )
    assert not at[1:steps].any()
    assert below[1:steps].all()


def test_a_channel_without_observations_has_an_infinite_gap():
    gaps = Gaps.of(SeriesSet.stack(np.full((1, 3, 1), np.nan)))
    assert (
        Limits.of(ImputeOptions(max_gap="1000d"), HOURLY, ["a"]).refused(gaps, None).too_long.all()
    )


def test_widths_are_one_for_all_or_one_by_column():
    assert Limits.of(ImputeOptions(max_width=2), HOURLY, NAMES).widest.tolist() == [2, 2]
    by_name = Limits.of(ImputeOptions(max_width={"b": np.float64(0.5)}), HOURLY, NAMES)
    assert by_name.widest.tolist() == [np.inf, 0.5]
    assert Limits.of(ImputeOptions(max_width={}), HOURLY, NAMES).widest.tolist() == [np.inf] * 2


@pytest.mark.parametrize("wrong", [0, -1, "0", np.inf, np.nan, True, [6]])
@pytest.mark.parametrize("clock", [HOURLY, NUMBERS])
def test_an_invalid_length_is_refused(clock, wrong):
    message = r"max_gap must be a positive number of steps, or a duration such as '6h' .*got .*;"
    with pytest.raises(InputError, match=message):
        Limits.of(ImputeOptions(max_gap=wrong), clock, NAMES)


def test_a_text_that_is_no_duration_is_refused():
    with pytest.raises(InputError, match=r"a duration must be .* got '6 moons'"):
        Limits.of(ImputeOptions(max_gap="6 moons"), HOURLY, NAMES)


def test_a_duration_is_refused_if_times_are_plain_numbers():
    message = r"max_gap must be a number of steps where times are plain numbers, got '6h'; write"
    with pytest.raises(InputError, match=message):
        Limits.of(ImputeOptions(max_gap="6h"), NUMBERS, NAMES)


@pytest.mark.parametrize("wrong", [0, -1.0, np.inf, np.nan, True, "2", {"a": 0}, {"a": None}])
def test_an_invalid_width_is_refused(wrong):
    message = r"max_width must be a positive number in the units of the column.*; give a number"
    with pytest.raises(InputError, match=message):
        Limits.of(ImputeOptions(max_width=wrong), HOURLY, NAMES)


def test_a_width_of_an_unknown_column_is_refused():
    message = r"max_width must name imputed columns, which are a, b, got 'c'; leave"
    with pytest.raises(InputError, match=message):
        Limits.of(ImputeOptions(max_width={"a": 1, "c": 2}), HOURLY, NAMES)


# ImputeOptions


def panel(**more):
    time = pd.date_range("2024", periods=3, freq="h")
    return read(pd.DataFrame({"time": time, "a": [1.0, np.nan, 3.0]} | more), Columns())


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 90, np.nan, True, "0.9"])
def test_an_interval_that_is_no_probability_is_refused(wrong):
    with pytest.raises(InputError, match=r"interval must be a probability between 0 and 1, got"):
        ImputeOptions(interval=wrong)


def test_an_unknown_method_is_refused():
    message = r"method must be nrtsi, auto or one of linear.*, got 'magic'; correct it"
    with pytest.raises(InputError, match=message):
        ImputeOptions(method="magic")


@pytest.mark.parametrize("options", [ImputeOptions(max_gap=-1), ImputeOptions(max_width={"z": 1})])
def test_limits_are_checked_with_the_rest(options):
    with pytest.raises(InputError, match=r"max_(gap|width) must"):
        ImputeTask.of(panel(), options)


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        (ImputeOptions(interval=0.5), "a_lower"),
        (ImputeOptions(interval=0.5), "a_upper"),
        *(
            (ImputeOptions(provenance=True), f"a_{each}")
            for each in ("source", "method", "gap", "upper")
        ),
    ],
)
def test_an_existing_column_is_refused(options, taken):
    message = rf"data must have no column '{taken}', which the result adds; rename the column"
    with pytest.raises(InputError, match=message):
        ImputeTask.of(panel(**{taken: ["x", "y", "z"]}), options)


def test_an_existing_column_matters_only_if_it_would_be_added():
    ImputeTask.of(panel(a_source=["x", "y", "z"]), ImputeOptions(interval=0.5))
    ImputeTask.of(panel(a_lower=["x", "y", "z"]), ImputeOptions(max_width=2))


@pytest.mark.parametrize("options", [ImputeOptions(interval=0.9), ImputeOptions(provenance=True)])
def test_an_array_has_no_names_for_more_columns(options):
    message = r"interval and provenance need a table, got an array.*use quantiles"
    with pytest.raises(InputError, match=message):
        ImputeTask.of(read(np.array([[1.0], [np.nan]]), Columns()), options)


def test_options_state_the_columns_they_add():
    assert ImputeOptions().level == DEFAULT_INTERVAL
    assert ImputeOptions(interval=0.5).level == 0.5
    assert not ImputeOptions(max_gap=2, max_width=3).adds_columns
    assert not ImputeOptions(max_gap=2).needs_intervals
    assert ImputeOptions(max_width=3).needs_intervals
    assert ImputeOptions(provenance=True).columns("x") == [
        "x_source", "x_method", "x_gap", "x_lower", "x_upper",
    ]  # fmt: skip
