"""Pooling follows Rubin's rules, and its intervals have the promised coverage."""

import subprocess
import sys
from collections import namedtuple
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nrtsi.errors import InputError
from nrtsi.evaluation.pooling import Pooled, pool

FIELDS = ("estimate", "standard_error", "lower", "upper", "df", "within", "between")
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(2, 30)
levels = st.floats(0.01, 0.99)
quick = settings(max_examples=20)


def itself(one):
    return one


def numbers(seed, count, size=3):
    return np.random.default_rng(seed).normal(size=(count, size))


def pairs(seed, count, size=3):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=size), rng.gamma(1.0, size=size)) for _ in range(count)]


def textbook(estimates, variances, level, complete_df=None):
    """One quantity, computed as the books write it down."""
    m = len(estimates)
    mean, b = np.mean(estimates), np.var(estimates, ddof=1)
    u = np.mean(variances) if variances else 0.0
    total = u + b + b / m
    df = m - 1
    gamma = 1.0
    if variances:
        r = (b + b / m) / u
        df = (m - 1) * (1 + 1 / r) ** 2
        if complete_df is not None:
            share = (b + b / m) / total
            seen = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
            df = df * seen / (df + seen)
        gamma = (r + 2 / (df + 3)) / (r + 1)
    low, high = stats.t.interval(level, df, loc=mean, scale=np.sqrt(total))
    return (mean, np.sqrt(total), low, high, df, u, b), gamma


def values(pooled, fields=FIELDS):
    return np.array([np.broadcast_to(getattr(pooled, name), (3,)) for name in fields])


@quick
@given(seed=seeds, count=counts, level=levels)
def test_without_variances_it_is_the_t_interval_of_one_more_draw(seed, count, level):
    draws = numbers(seed, count)
    pooled = pool(itself, draws, level=level)
    for entry in range(3):
        expected, gamma = textbook(draws[:, entry], [], level)
        np.testing.assert_allclose(values(pooled)[:, entry], expected, rtol=1e-9, atol=1e-12)
        assert pooled.missing_information[entry] == gamma


@quick
@given(seed=seeds, count=counts, level=levels, complete=st.none() | st.floats(1, 1e4))
def test_with_variances_it_is_rubins_rule(seed, count, level, complete):
    drawn = pairs(seed, count)
    pooled = pool(itself, drawn, level=level, complete_df=complete)
    for entry in range(3):
        estimates = [estimate[entry] for estimate, _ in drawn]
        variances = [variance[entry] for _, variance in drawn]
        expected, gamma = textbook(estimates, variances, level, complete)
        np.testing.assert_allclose(values(pooled)[:, entry], expected, rtol=1e-8, atol=1e-9)
        assert pooled.missing_information[entry] == pytest.approx(gamma)


@quick
@given(seed=seeds, count=counts)
def test_the_order_of_draws_does_not_matter(seed, count):
    drawn = pairs(seed, count)
    mixed = [drawn[i] for i in np.random.default_rng(seed).permutation(count)]
    np.testing.assert_allclose(
        values(pool(itself, mixed)), values(pool(itself, drawn)), rtol=1e-8, atol=1e-12
    )


@quick
@given(seed=seeds, count=counts, scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_the_result_scales_with_the_units_of_the_statistic(seed, count, scale, shift):
    drawn = pairs(seed, count)
    plain = pool(itself, drawn)
    moved = pool(lambda pair: (scale * pair[0] + shift, scale**2 * pair[1]), drawn)
    fields = ("estimate", "lower", "upper")
    expected = scale * values(plain, fields) + shift
    np.testing.assert_allclose(values(moved, fields), expected, rtol=1e-8, atol=1e-7 * scale)
    np.testing.assert_allclose(moved.df, plain.df, rtol=1e-6)
    np.testing.assert_allclose(moved.missing_information, plain.missing_information, rtol=1e-6)


@quick
@given(seed=seeds, count=counts)
def test_a_higher_level_gives_a_wider_interval(seed, count):
    drawn = pairs(seed, count)
    narrow, wide = pool(itself, drawn, level=0.5), pool(itself, drawn, level=0.95)
    assert (wide.lower < narrow.lower).all()
    assert (wide.upper > narrow.upper).all()


@quick
@given(number=st.floats(-1e9, 1e9), count=counts)
def test_equal_draws_have_an_interval_of_width_zero(number, count):
    pooled = pool(itself, [number] * count)
    assert pooled.estimate == pooled.lower == pooled.upper == number
    assert pooled.between == pooled.standard_error == pooled.missing_information == 0


@quick
@given(number=st.floats(-1e3, 1e3), variance=st.floats(0.01, 1e3), count=counts)
def test_equal_draws_have_the_interval_of_complete_data(number, variance, count):
    pooled = pool(itself, [(number, variance)] * count)
    low, high = stats.norm.interval(0.9, number, np.sqrt(variance))
    assert (pooled.lower, pooled.upper) == pytest.approx((low, high))
    assert pooled.df == np.inf
    assert pooled.missing_information == 0


def test_few_degrees_of_freedom_of_complete_data_stay_few():
    pooled = pool(itself, [(1.0, 4.0)] * 5, complete_df=10)
    assert pooled.df == pytest.approx(11 / 13 * 10)  # the rule's own, somewhat below 10


def test_zero_variance_with_few_degrees_of_freedom_gives_an_infinite_interval():
    pooled = pool(itself, [(1.0, 0.0), (2.0, 0.0)], complete_df=10)
    assert (pooled.lower, pooled.upper) == (-np.inf, np.inf)


def missing_at_random(size, seen, count, repeats, seed=0):
    """Normal data of mean 0, and proper draws of what is missing: of mean, variance, values."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(repeats, size))
    known = data[:, :seen]
    squares = known.var(axis=1, ddof=1) * (seen - 1)
    scale = np.sqrt(squares / rng.chisquare(seen - 1, size=(count, repeats)))
    mean = known.mean(axis=1) + scale / np.sqrt(seen) * rng.normal(size=(count, repeats))
    drawn = rng.normal(size=(count, repeats, size - seen)) * scale[..., None] + mean[..., None]
    whole = np.broadcast_to(known, (count, *known.shape))
    return data, np.concatenate([whole, drawn], axis=2)


@pytest.mark.parametrize("count", [3, 20])
def test_nine_of_ten_intervals_contain_the_mean_of_the_complete_data(count):
    data, draws = missing_at_random(30, 18, count, repeats=2000)
    pooled = pool(lambda one: one.mean(axis=1), draws)
    truth = data.mean(axis=1)
    assert 0.87 < np.mean((pooled.lower <= truth) & (truth <= pooled.upper)) < 0.93


@pytest.mark.parametrize("count", [3, 20])
def test_nine_of_ten_intervals_contain_the_mean_of_the_population(count):
    _, draws = missing_at_random(30, 18, count, repeats=2000)
    pooled = pool(
        lambda one: (one.mean(axis=1), one.var(axis=1, ddof=1) / 30), draws, complete_df=29
    )
    assert 0.87 < np.mean((pooled.lower <= 0) & (pooled.upper >= 0)) < 0.93
    assert np.median(pooled.missing_information) == pytest.approx(0.4, abs=0.15)


DATA = {"draw": [0, 0, 1, 1, 2, 2], "x": [1.0, 4.0, 1.0, 6.0, 1.0, 5.0], "s": list("ababab")}
MAKERS = pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)


@MAKERS
def test_a_table_is_split_by_its_labels(make):
    seen = []

    def mean(table):
        seen.append(table)
        return float(np.mean(np.asarray(table["x"])))

    assert pool(mean, make(DATA)).estimate == pytest.approx(3.0)
    assert [type(table) for table in seen] == [type(make(DATA))] * 3
    assert [list(np.asarray(table["x"])) for table in seen] == [[1, 4], [1, 6], [1, 5]]
    names = seen[0].column_names if make is pa.table else list(seen[0].columns)
    assert names == ["x", "s"]


@MAKERS
@quick
@given(seed=seeds)
def test_rows_of_draws_may_be_mixed_and_keep_their_order(make, seed):
    rng = np.random.default_rng(seed)
    draw, x = rng.integers(0, 4, 40), rng.normal(size=40)
    seen = []

    def keep(table):
        seen.append(np.asarray(table["x"]))
        return 0.0

    pool(keep, make({"draw": draw, "x": x}))
    for label, rows in zip(np.unique(draw), seen, strict=True):
        assert np.array_equal(rows, x[draw == label])


def test_labels_may_be_text_and_stand_in_any_column():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0], "draw": ["b", "a", "b"]})
    seen = []
    pool(lambda one: seen.append(one["x"].to_list()) or 0.0, table)
    assert seen == [[2.0], [1.0, 3.0]]


def test_a_pandas_index_is_kept():
    table = pd.DataFrame(DATA, index=pd.Index([7, 8] * 3, name="row"))
    pooled = pool(lambda one: one["x"], table)
    assert pooled.estimate.index.equals(pd.Index([7, 8], name="row"))
    assert pooled.estimate.tolist() == pytest.approx([1.0, 5.0])


def test_a_slice_of_a_table_is_not_copied():
    table = pa.table({"draw": np.repeat(np.arange(4), 1000), "x": np.zeros(4000)})
    before = pa.total_allocated_bytes()
    grown = []
    pool(lambda one: grown.append(pa.total_allocated_bytes()) or 0.0, table)
    assert max(grown) - before < 8000  # a draw's x


def test_a_statistic_that_changes_its_draw_changes_nothing_else():
    def spoil(one):
        one[:] = 0
        return 1.0

    array, frame = np.ones((2, 3)), pd.DataFrame(DATA)
    pool(spoil, array)
    pool(lambda one: one.__setitem__("x", 0.0) or 1.0, frame)
    assert (array == 1).all()
    assert frame.equals(pd.DataFrame(DATA))


def test_draws_may_come_one_by_one():
    pooled = pool(np.mean, (np.full(5, float(number)) for number in range(4)))
    assert (pooled.estimate, pooled.draws) == (1.5, 4)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.array(2), True, Decimal(2)])
def test_a_number_comes_back_as_a_float(number):
    pooled = pool(lambda one: number, [0, 1])
    for name in (*FIELDS, "missing_information"):
        assert type(getattr(pooled, name)) is float
    assert pooled.estimate == float(number)


def test_an_array_comes_back_as_an_array():
    pooled = pool(lambda one: [[1, 2, one]], [0, 1])
    assert pooled.upper.shape == (1, 3)
    assert pooled.estimate.tolist() == [[1, 2, 0.5]]


def test_a_mapping_comes_back_as_a_dict_in_the_order_of_the_first():
    pooled = pool(lambda one: {"a": one, "b": 1} if one else {"b": 3, "a": 0}, [0.0, 1.0])
    assert pooled.estimate == {"b": 2.0, "a": 0.5}
    assert list(pooled.lower) == ["b", "a"]


def test_a_mapping_of_variances_goes_by_its_keys():
    pooled = pool(lambda one: ({"a": one, "b": 1}, {"b": 4, "a": 9}), [0.0, 1.0])
    assert pooled.within == {"a": 9.0, "b": 4.0}


def test_a_pandas_series_keeps_index_and_name():
    table = pd.DataFrame(DATA)
    pooled = pool(lambda one: one.groupby("s")["x"].mean(), table)
    expected = pd.Series([1.0, 5.0], index=pd.Index(["a", "b"], name="s"), name="x")
    pd.testing.assert_series_equal(pooled.estimate, expected, check_index_type=False)
    assert pooled.upper["b"] > pooled.estimate["b"]


def test_a_polars_series_keeps_its_name():
    pooled = pool(lambda one: one["x"], pl.DataFrame(DATA))
    assert pooled.estimate.name == "x"
    assert pooled.estimate.to_list() == pytest.approx([1.0, 5.0])


def test_a_column_of_arrow_comes_back_as_one():
    pooled = pool(lambda one: pc.round(one["x"]), pa.table(DATA))
    assert isinstance(pooled.lower, pa.ChunkedArray)


@pytest.mark.parametrize("nothing", [np.nan, np.inf])
def test_an_undefined_entry_stays_undefined_and_alone(nothing):
    pooled = pool(itself, [np.array([1.0, nothing]), np.array([2.0, 1.0])])
    assert pooled.estimate[0] == 1.5
    assert np.isfinite(pooled.upper[0])
    assert np.isnan([pooled.standard_error[1], pooled.lower[1], pooled.upper[1]]).all()


def test_an_unknown_entry_of_a_series_is_undefined():
    pooled = pool(itself, [pl.Series([1, None]), pl.Series([2, 3])])
    assert pooled.estimate[0] == 1.5
    assert np.isnan(pooled.estimate[1])


def test_an_undefined_variance_is_an_undefined_interval():
    pooled = pool(itself, [(1.0, np.nan), (2.0, 1.0)])
    assert pooled.estimate == 1.5
    assert np.isnan(pooled.upper)


def record(estimate, lower, upper, draws=50, level=0.9):
    return Pooled(estimate, 0.0, lower, upper, 1.0, 0.0, 0.0, 1.0, level, draws)


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((12.345, 11.02, 13.61), "12.3 (90 %: 11.0 to 13.6) from 50 draws"),
        ((0.00123, 0.00111, 0.00135), "0.00123 (90 %: 0.00111 to 0.00135) from 50 draws"),
        ((123456.7, 23456.7, 223456.7), "123457 (90 %: 23457 to 223457) from 50 draws"),
        ((-0.01, -1.0, 1.0), "0.0 (90 %: -1.0 to 1.0) from 50 draws"),
        ((2.5, 2.5, 2.5), "2.5 (90 %: 2.5 to 2.5) from 50 draws"),
        ((np.nan, np.nan, np.nan), "nan (90 %: nan to nan) from 50 draws"),
    ],
)
def test_repr_of_a_number(ends, text):
    assert repr(record(*ends)) == text


def test_repr_of_several_numbers_has_one_line_each():
    shown = repr(record({"a": 1.5, "b": 20.0}, {"a": 1.0, "b": 10.0}, {"a": 2.0, "b": 30.0}))
    assert shown.splitlines() == [
        "2 estimates (90 % intervals) from 50 draws",
        "  a: 1.50 (1.00 to 2.00)",
        "  b: 20 (10 to 30)",
    ]


def test_repr_of_many_numbers_is_truncated():
    shown = repr(record(np.ones((5, 3)), np.zeros((5, 3)), np.full((5, 3), 2.0), level=0.975))
    assert shown.splitlines()[0] == "15 estimates (97.5 % intervals) from 50 draws"
    assert shown.splitlines()[4] == "  [1, 0]: 1.0 (0.0 to 2.0)"
    assert shown.splitlines()[-1] == "  and 3 more"


Named = namedtuple("Named", "statistic pvalue")


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (None, "the NoneType None; return an array or a dict"),
        ("3", "the str '3'"),
        (1j, "the complex 1j"),
        ({1, 2}, r"the set \{1, 2\}"),
        ([[1], [1, 2]], r"the list \[\[1\], \[1, 2\]\]"),
        ((1, 2, 3), "a tuple"),
        (Named(1, 2), "a Named"),
        ({"a": [1, 2]}, "a mapping to something else"),
        (np.array(["2024-01-01"], "M8[s]"), "the ndarray "),
        (pl.Series(["a"]), "a Series of String"),
        (pd.DataFrame({"a": [1.0]}), "a DataFrame"),
        (pl.DataFrame({"a": [1.0]}), "a DataFrame"),
    ],
)
def test_a_result_that_is_not_numeric_is_rejected(result, found):
    with pytest.raises(InputError, match=f"statistic must return a number, .* got {found}"):
        pool(lambda one: result, [0, 1])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 2], [1], r"\(2,\) from the first draw and an array of shape \(1,\) from"),
        (1, [1], r"number from the first draw and an array of shape \(1,\) from draw 2; add"),
        ({"a": 1}, {"b": 1}, r"got a mapping of 'a' from the first draw and a mapping of 'b'"),
        (
            pd.Series({"a": 1}),
            pd.Series({"b": 1}),
            r"a Series of 'a' from the first draw and a Series of",
        ),
        (pl.Series([1]), pl.Series([1, 2]), r"a Series of shape \(1,\) from the first"),
        ((1, 2), 1, r"a pair \(estimate, variance\) for every draw or for none, got both; always"),
        (1, (1, 2), r"a pair \(estimate, variance\) for every draw or for none, got both"),
    ],
)
def test_different_entries_between_draws_are_rejected(first, second, message):
    with pytest.raises(InputError, match=f"statistic must return .*{message}"):
        pool(itself, [first, second])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (([1, 2], 3), r"the form of the estimate, an array of shape \(2,\), got a number; ret"),
        ((1, -2), r"must not be negative, got -2; return an array or a dict"),
    ],
)
def test_an_invalid_variance_is_rejected(pair, message):
    with pytest.raises(InputError, match=rf"variance of a pair \(estimate, variance\).*{message}"):
        pool(itself, [pair, pair])


@pytest.mark.parametrize("draws", [[], [1.0], np.ones((1, 4)), pd.DataFrame({"draw": [0, 0]})])
def test_a_single_draw_is_rejected(draws):
    with pytest.raises(InputError, match=r"draws must be at least 2 .* got [01]; draw more, as"):
        pool(lambda one: 1.0, draws)


@pytest.mark.parametrize("draws", [{"a": 1}, "draws.csv", 3, np.array(3.0)])
def test_other_types_of_draws_are_rejected(draws):
    with pytest.raises(InputError, match=r"draws must be the result of sample, .*; convert it"):
        pool(itself, draws)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"quantile": [0.1], "x": [1.0]}, r"column 'draw', got 'quantile', 'x'; pass the result"),
        ({"draw": [0, None], "x": [1.0, 2.0]}, r"'draw' must have a label in every row, .*; drop"),
    ],
)
@MAKERS
def test_a_table_without_labels_is_rejected(make, table, message):
    with pytest.raises(InputError, match=message):
        pool(itself, make(table))


def test_labels_of_several_types_are_rejected():
    table = pd.DataFrame({"draw": pd.Series([0, "a"], dtype=object), "x": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"labels of one type, got int and str; convert it"):
        pool(itself, table)


def test_a_lazy_table_is_rejected():
    with pytest.raises(InputError, match="collect it first"):
        pool(itself, pl.LazyFrame(DATA))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"statistic": [1]}, r"statistic must be a function of one draw, got list; write pool"),
        ({"level": 90}, r"level: Input should be less than 1, got 90"),
        ({"level": "0.9"}, r"level: Input should be a valid number, got '0.9'"),
        ({"complete_df": 0}, r"complete_df: Input should be greater than 0, got 0"),
        ({"complete_df": 9}, r"complete_df must come with sampling variances, got none; return a"),
    ],
)
def test_invalid_settings_are_rejected(change, message):
    with pytest.raises(InputError, match=message):
        pool(**({"statistic": itself, "draws": [1.0, 2.0]} | change))


CODE = """
import sys, numpy as np, nrtsi.evaluation.pooling
assert not {"scipy", "pandas", "polars", "torch"} & set(sys.modules)
nrtsi.evaluation.pooling.pool(np.mean, np.ones((2, 3)))
assert not {"pandas", "polars", "torch"} & set(sys.modules)
"""


def test_pooling_imports_no_heavy_library():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
