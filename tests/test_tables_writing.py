"""`Panel.write` and `Panel.stack` change missing cells and nothing else."""

import datetime as dt
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from nrtsi.errors import InputError
from nrtsi.tables import Columns, read

LIBRARIES = ("pandas", "pandas-nullable", "pandas-arrow", "polars", "pyarrow")
KINDS = ("float64", "float32", "int8", "uint8", "int32", "int64", "uint64")
ZONES = (None, "UTC", "Europe/Berlin")


class Table(NamedTuple):
    """A frame of one library, and what is in it."""

    native: object
    missing: np.ndarray
    long: bool
    library: str

    @property
    def names(self):
        return tuple(f"v{i}" for i in range(self.missing.shape[1]))

    def read(self, **settings):
        columns = Columns(time="when", id="who" if self.long else None, values=self.names)
        return read(self.native, columns, **settings)


def arrow_table(draw, kinds, *, long):
    """Rows of distinct times in any order, values of all kinds, text and a flag beside them."""
    rows = draw(st.integers(1, 9))
    owner = draw(st.lists(st.sampled_from("abc"), min_size=rows, max_size=rows)) if long else None
    times = draw(st.lists(st.integers(-(10**6), 10**6), min_size=rows, max_size=rows, unique=True))
    zone = draw(st.sampled_from(ZONES))
    data = {"text": pa.array([f"t{i}" for i in range(rows)])}
    if long:
        data["who"] = pa.array(owner)
    missing = np.array(
        draw(
            st.lists(
                st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)),
                min_size=rows,
                max_size=rows,
            )
        )
    ).reshape(rows, len(kinds))
    missing[draw(st.integers(0, rows - 1))] = False  # every column has something
    for i, kind in enumerate(kinds):
        numbers = np.array(draw(_numbers(kind, rows)), dtype=kind)
        data[f"v{i}"] = pa.array(numbers, mask=missing[:, i])
    data["when"] = pa.array([t * 1_000_000 for t in times], pa.timestamp("us", zone))
    data["flag"] = pa.array([i % 2 == 0 for i in range(rows)])
    return pa.table(data), missing


def _numbers(kind, rows):
    if kind.startswith("float"):
        each = st.floats(allow_nan=False, allow_infinity=False, width=int(kind[5:]))
    else:
        each = st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    return st.lists(each, min_size=rows, max_size=rows)


@st.composite
def tables(draw, kinds=KINDS):
    library = draw(st.sampled_from(LIBRARIES))
    long = draw(st.booleans())
    picked = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    if library == "pandas":  # plain pandas integers cannot be missing
        picked = [kind if kind.startswith("float") else "float64" for kind in picked]
    table, missing = arrow_table(draw, picked, long=long)
    if draw(st.booleans()):
        middle = len(table) // 2
        table = pa.concat_tables([table[:middle], table[middle:]])  # several chunks
    return Table(_as_library(table, library, draw), missing, long, library)


def _as_library(table, library, draw):
    if library == "pyarrow":
        return table
    if library == "polars":
        frame = pl.from_arrow(table)
        # polars knows two kinds of missing floats
        nan = draw(st.booleans())
        return (
            frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_null(float("nan")))
            if nan
            else frame
        )
    if library == "pandas-arrow":
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    elif library == "pandas-nullable":
        frame = table.to_pandas().drop(columns=[c for c in table.column_names if c[0] == "v"])
        for name in table.column_names:
            if name[0] == "v":
                kind = nullable(str(table[name].type.to_pandas_dtype()().dtype))
                frame[name] = pd.array(table[name].to_pylist(), dtype=kind)
    else:
        frame = table.to_pandas()
    frame["text"] = frame["text"].astype("category")
    return frame.set_index(_index(draw, len(frame)))


def nullable(kind):
    """pandas' name of the nullable type: Int8, UInt64, Float32."""
    return kind.capitalize().replace("Uint", "UInt")


def _index(draw, rows):
    return draw(
        st.sampled_from(
            [
                pd.RangeIndex(rows),
                pd.Index([f"r{i % 2}" for i in range(rows)], name="label"),
                pd.MultiIndex.from_arrays([range(rows), [7] * rows], names=["a", None]),
            ]
        )
    )


def columns_of(native):
    """Each column as Python values, in any library; NaN and null are None."""
    if isinstance(native, pa.Table):
        columns = {name: native[name].to_pylist() for name in native.column_names}
    elif isinstance(native, pl.DataFrame):
        columns = {name: native[name].to_list() for name in native.columns}
    else:
        columns = {name: native[name].tolist() for name in native.columns}
    return {
        name: [None if _is_missing(v) else v for v in cells] for name, cells in columns.items()
    }


def _is_missing(value):
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def schema_of(native):
    if isinstance(native, pa.Table):
        return native.schema
    return native.schema if isinstance(native, pl.DataFrame) else dict(native.dtypes)


def equal(one, other):
    if isinstance(one, pd.DataFrame):
        assert_frame_equal(one, other, check_exact=True, check_freq=True)
        return True
    return one.equals(other)


def copied(native):
    return native.copy(deep=True) if isinstance(native, pd.DataFrame) else native


VALUES = st.floats(-1e6, 1e6)


@given(tables(), VALUES)
@settings(max_examples=60, deadline=None)
def test_writing_changes_exactly_the_missing_cells(table, value):
    before = copied(table.native)
    panel = table.read()
    filled = panel.write(np.full(panel.series.value.shape, value))
    assert type(filled) is type(table.native)
    assert schema_of(filled) == schema_of(table.native)
    assert equal(table.native, before)  # the caller's frame is never touched
    was, now = columns_of(table.native), columns_of(filled)
    assert list(was) == list(now)
    for name in was:
        dim = table.names.index(name) if name in table.names else None
        for row, (old, new) in enumerate(zip(was[name], now[name], strict=True)):
            if dim is not None and table.missing[row, dim]:
                assert old is None
                assert new is not None
            else:
                assert old == new
    if isinstance(filled, pd.DataFrame):
        assert filled.index.equals(table.native.index)
        assert filled.index.names == table.native.index.names


@given(tables())
@settings(max_examples=50, deadline=None)
def test_writing_only_nan_returns_an_equal_frame(table):
    panel = table.read()
    filled = panel.write(np.full(panel.series.value.shape, np.nan))
    assert equal(filled, table.native) or columns_of(filled) == columns_of(table.native)
    assert schema_of(filled) == schema_of(table.native)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_values_are_written_to_their_own_row_and_column(table, random):
    panel = table.read()
    series = panel.series
    # A small number that names its row's (series, time) and channel, found again by brute force.
    code = np.array([random.randint(0, 100) for _ in range(series.value.size)], float)
    code = code.reshape(series.value.shape)
    filled = columns_of(panel.write(code))
    who = [str(w) for w in filled["who"]] if table.long else ["0"] * len(filled["when"])
    lines = {key: i for i, key in enumerate(zip(who, filled["when"], strict=True))}
    moments = sorted(set(filled["when"]))
    for s, key in enumerate(series.keys):
        mine = [m for m in moments if (key, m) in lines]
        for place, moment in enumerate(mine):
            row, line = series.start[s] + place, lines[key, moment]
            for dim, name in enumerate(table.names):
                if table.missing[line, dim]:
                    assert float(filled[name][line]) == code[row, dim]
                else:
                    assert series.value[row, dim] == float(filled[name][line])


@given(tables())
@settings(max_examples=50, deadline=None)
def test_the_series_are_sorted_and_unknown_cells_are_zero(table):
    series = table.read().series
    same = np.diff(series.owner) == 0
    assert (np.diff(series.time)[same] > 0).all()
    assert (series.value[~series.observed] == 0).all()
    assert np.isfinite(series.value).all()
    assert (~series.observed).sum() == table.missing.sum()


@given(tables(), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_stack_repeats_the_data_once_per_label_as_floats(table, draws):
    panel = table.read()
    shape = panel.series.value.shape
    values = [np.full(shape, i + 0.25) for i in range(draws + 1)]
    stacked = panel.stack(values, "draw", range(draws + 1))
    assert type(stacked) is type(table.native)
    columns, before = columns_of(stacked), columns_of(table.native)
    assert list(columns) == ["draw", *before]
    rows = len(before["when"])
    for i in range(draws + 1):
        part = slice(i * rows, (i + 1) * rows)
        assert columns["draw"][part] == [i] * rows
        assert columns["text"][part] == before["text"]
        for dim, name in enumerate(table.names):
            assert [float(v) for v in columns[name][part]] == [
                i + 0.25 if table.missing[row, dim] else float(old)
                for row, old in enumerate(before[name])
            ]
    if isinstance(stacked, pd.DataFrame):
        assert list(stacked.index) == list(table.native.index) * (draws + 1)


def test_quantiles_are_labelled_with_floats_and_float32_stays():
    frame = pl.DataFrame({"x": pl.Series([1.0, None], dtype=pl.Float32), "n": [1, None]})
    panel = read(frame)
    stacked = panel.stack([np.full((2, 2), 2.5)] * 2, "quantile", [0.05, 0.95])
    assert stacked["quantile"].to_list() == [0.05, 0.05, 0.95, 0.95]
    assert stacked.dtypes == [pl.Float64, pl.Float32, pl.Float64]


def test_stack_rejects_a_name_that_is_taken():
    panel = read(pl.DataFrame({"draw": [1.0, None]}))
    with pytest.raises(InputError, match="must have no column 'draw', which the result adds"):
        panel.stack([np.zeros((2, 1))], "draw", [0])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas-nullable", "pandas-arrow"])
def test_integers_are_rounded_and_clipped_to_their_type(library, kind):
    info = np.iinfo(kind)
    table = pa.table(
        {"x": pa.array([1, None, None, None, 7], pa.from_numpy_dtype(np.dtype(kind)))}
    )
    native = {
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
        "pandas-arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas-nullable": lambda: pd.DataFrame(
            {"x": pd.array([1, None, None, None, 7], dtype=nullable(kind))}
        ),
    }[library]()
    filled = read(native).write(np.array([[0.0], [2.6], [1e30], [-1e30], [0.0]]))
    assert columns_of(filled)["x"] == [1, 3, int(info.max), int(info.min), 7]


def test_large_integers_keep_their_last_digit():
    big = 2**63 - 3
    frame = pl.DataFrame({"x": [big, None, -big]})
    assert read(frame).write(np.zeros((3, 1)))["x"].to_list() == [big, 0, -big]


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas-arrow"])
def test_large_integers_are_stacked_as_the_nearest_floats(library):
    table = pa.table({"x": pa.array([2**64 - 1, None, 2**53 + 1], pa.uint64())})
    native = {
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
        "pandas-arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
    }[library]()
    stacked = read(native).stack([np.full((3, 1), 0.5)], "draw", [0])
    assert columns_of(stacked)["x"] == [2.0**64, 0.5, 2.0**53]


def test_float32_values_are_clipped_to_their_range():
    frame = pl.DataFrame({"x": pl.Series([1.0, None], dtype=pl.Float32)})
    filled = read(frame).write(np.full((2, 1), 1e300))
    assert filled["x"][1] == np.finfo(np.float32).max


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas"])
def test_decimals_are_read_as_numbers_and_written_as_decimals(library):
    kind = pa.decimal128(6, 2)
    table = pa.table({"x": pa.array([Decimal("1.25"), None, None], kind)})
    native = {
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
        "pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
    }[library]()
    panel = read(native)
    assert panel.series.value[0, 0] == 1.25
    filled = panel.write(np.array([[0.0], [2.501], [1e9]]))
    assert schema_of(filled) == schema_of(native)
    first, second, third = columns_of(filled)["x"]
    assert (first, second) == (Decimal("1.25"), Decimal("2.50"))
    assert Decimal("9999") < third <= Decimal("9999.99")


def test_a_polars_column_may_hold_both_nan_and_null():
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), 4.0]})
    panel = read(frame)
    assert panel.series.observed[:, 0].tolist() == [True, False, False, True]
    assert panel.write(np.full((4, 1), 9.0))["x"].to_list() == [1.0, 9.0, 9.0, 4.0]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_datetime_index_is_the_time_and_stays(zone):
    index = pd.date_range("2024-10-26", periods=60, freq="h", tz=zone, name="when")
    frame = pd.DataFrame({"x": np.where(np.arange(60) % 7 == 0, np.nan, 1.0)}, index=index)
    panel = read(frame)
    assert panel.columns == Columns(values=("x",))
    assert panel.notes[0] == "time: the index (detected)"
    filled = panel.write(np.full((60, 1), 5.0))
    assert_frame_equal(filled, frame.fillna(5.0))
    assert (np.diff(panel.series.time) == 1).all()
    assert read(frame, Columns(time="when")).columns == panel.columns


def test_columns_named_by_numbers_are_kept():
    frame = pd.DataFrame(np.array([[1.0, 5.0], [np.nan, 2.0]]))
    filled = read(frame).write(np.full((2, 2), 3.0))
    assert_frame_equal(filled, frame.fillna(3.0))


def test_attributes_of_a_pandas_frame_are_kept():
    frame = pd.DataFrame({"x": [1.0, np.nan]})
    frame.columns.name = "channel"
    frame.attrs["source"] = "roof"
    filled = read(frame).write(np.zeros((2, 1)))
    assert filled.columns.name == "channel"
    assert filled.attrs == {"source": "roof"}


def test_the_metadata_of_an_arrow_table_is_kept():
    field = pa.field("x", pa.float64(), metadata={"unit": "K"})
    table = pa.table({"x": [1.0, None]}, schema=pa.schema([field], metadata={"source": "roof"}))
    filled = read(table).write(np.zeros((2, 1)))
    assert filled.schema.equals(table.schema, check_metadata=True)


def test_values_of_another_shape_are_rejected():
    panel = read(pl.DataFrame({"x": [1.0, None]}))
    with pytest.raises(
        InputError, match=r"\(2, 1\), got \(3, 1\); pass one row per row of panel.series"
    ):
        panel.write(np.zeros((3, 1)))


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3)),
    st.sampled_from([np.float32, np.float64, np.int16]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@settings(max_examples=50, deadline=None)
def test_arrays_come_back_in_shape_and_type(shape, kind, flat, random):
    rng = np.random.default_rng(random.randint(0, 2**32))
    array = rng.integers(-9, 9, shape).astype(kind)
    if kind != np.int16:
        array[rng.random(shape) < 0.4] = np.nan
        array[0, 0] = 1.0
    array = array[0] if flat else array
    times = rng.permuted(np.broadcast_to(np.arange(shape[1]), array.shape[:-1]), axis=-1)
    before = array.copy()
    panel = read(array, times=times)
    assert panel.series.series == (1 if flat else shape[0])
    filled = panel.write(np.full(panel.series.value.shape, 2.5))
    np.testing.assert_array_equal(filled, np.where(np.isnan(array), 2.5, array).astype(kind))
    np.testing.assert_array_equal(array, before)
    assert filled.dtype == array.dtype
    stacked = panel.stack([np.full(panel.series.value.shape, 2.5)] * 3, "draw", range(3))
    assert stacked.shape == (3, *array.shape)
    assert stacked.dtype == (np.float64 if kind == np.int16 else kind)


def test_object_columns_of_dates_are_read_as_times():
    days = [dt.date(2024, 1, d) for d in (1, 2, 4)]
    frame = pd.DataFrame({"date": pd.Series(days, dtype=object), "x": [1.0, np.nan, 2.0]})
    panel = read(frame)
    assert panel.series.time.tolist() == [0.0, pytest.approx(2 / 3), 2.0]
    assert panel.write(np.full((3, 1), 8.0))["date"].tolist() == days


@pytest.mark.slow
@pytest.mark.parametrize("series", [1, 100_000])
def test_a_million_rows_take_seconds(series):
    rng = np.random.default_rng(0)
    rows = 1_000_000
    value = rng.normal(size=(rows, 8))
    value[rng.random(value.shape) < 0.1] = np.nan
    columns = {f"c{i}": value[:, i] for i in range(8)}
    owner = np.arange(rows) % series
    frame = pl.DataFrame({"id": owner, "time": np.arange(rows), **columns})
    began = dt.datetime.now()
    panel = read(frame, Columns(time="time", id="id"))
    panel.write(np.zeros((rows, 8)))
    assert panel.series.series == series
    assert (dt.datetime.now() - began).total_seconds() < 10
