"""Time queries: values at given times, of the data or between them, and on a regular grid."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.errors import InputError
from nrtsi.tables import Columns, read

START = dt.datetime(2024, 3, 31)


def after(hours, zone=None):
    moment = START + dt.timedelta(hours=hours)
    return moment.replace(tzinfo=zone)


def as_library(table, library):
    return {
        "pandas": lambda: table.to_pandas(),
        "pandas-arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
    }[library]()


def rows_of(native):
    if isinstance(native, pd.DataFrame):
        native = pa.Table.from_pandas(native)
    return (native if isinstance(native, pa.Table) else native.to_arrow()).to_pylist()


LIBRARIES = ("pandas", "pandas-arrow", "polars", "pyarrow")


@pytest.fixture(params=LIBRARIES)
def long(request):
    """Series b (hours 2, 0) and a (hours 0, 1), shuffled; an integer column; text beside."""
    table = pa.table(
        {
            "note": ["p", "q", "r", "s"],
            "n": pa.array([1, None, 3, 4], pa.int16()),
            "station": ["b", "a", "b", "a"],
            "time": pa.array([after(2), after(0), after(0), after(1)], pa.timestamp("us")),
            "x": pa.array([0.1, 0.2, None, 0.4], pa.float64()),
        }
    )
    native = as_library(table, request.param)
    return native.astype({"n": "Int16"}) if request.param == "pandas" else native


def numbered(panel):
    """Values that name their row: row + 0.25 for every channel."""
    return np.repeat(np.arange(panel.series.rows) + 100.25, panel.series.dims).reshape(
        -1, panel.series.dims
    )


def test_queried_rows_are_returned_by_series_in_the_queried_order(long):
    panel = read(long).query([after(1), after(0)])
    filled = panel.write(numbered(panel))
    assert type(filled) is type(long)
    assert rows_of(filled) == [
        {"n": 101, "station": "b", "time": after(1), "x": 101.25},
        {"n": 3, "station": "b", "time": after(0), "x": 100.25},
        {"n": 4, "station": "a", "time": after(1), "x": 0.4},
        {"n": 103, "station": "a", "time": after(0), "x": 0.2},
    ]


def test_the_types_do_not_change(long):
    panel = read(long).query([after(1), after(0.5)])
    filled = panel.write(numbered(panel))
    kinds = (
        filled.schema if isinstance(filled, pa.Table) else filled[["n", "station", "time", "x"]]
    )
    if isinstance(filled, pa.Table):
        assert all(kinds.field(name).type == long.schema.field(name).type for name in kinds.names)
    elif isinstance(filled, pd.DataFrame):
        assert kinds.dtypes.to_dict() == long[["n", "station", "time", "x"]].dtypes.to_dict()
    else:
        assert kinds.schema == long[["n", "station", "time", "x"]].schema


def test_a_frame_of_times_and_ids_queries_these_rows(long):
    queried = pl.DataFrame({"time": [after(5), after(2), after(2)], "station": ["a", "b", "a"]})
    panel = read(long).query(queried)
    rows = rows_of(panel.write(numbered(panel)))
    assert [(row["station"], row["time"]) for row in rows] == [
        ("a", after(5)), ("b", after(2)), ("a", after(2)),
    ]  # fmt: skip
    assert rows[1]["x"] == 0.1


def test_draws_at_queried_times_are_stacked(long):
    panel = read(long).query([after(0)])
    values = numbered(panel)
    rows = rows_of(panel.stack([values, values + 1], "draw", [0, 1]))
    assert [(row["draw"], row["station"], row["x"], row["n"]) for row in rows] == [
        (0, "b", 100.25, 3.0), (0, "a", 0.2, 102.25), (1, "b", 101.25, 3.0), (1, "a", 0.2, 103.25),
    ]  # fmt: skip


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 48), min_size=1, max_size=8),
    st.sampled_from(LIBRARIES),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_the_original_rows_stay_and_the_queried_ones_are_returned(hours, quarters, library, zoned):
    zone = "Europe/Berlin" if zoned else None
    tz = dt.UTC if zoned else None
    stamps = pa.array([after(h, tz) for h in hours], pa.timestamp("s", zone))
    values = [h + 0.125 if h % 3 else None for h in hours]
    values[0] = 0.5
    table = pa.table({"time": stamps, "x": pa.array(values, pa.float64())})
    before = read(as_library(table, library))
    queried = [after(q / 4, tz) for q in quarters]
    panel = before.query(queried)
    original = panel.original_rows
    np.testing.assert_array_equal(panel.series.time[original], before.series.time)
    np.testing.assert_array_equal(panel.series.value[original], before.series.value)
    np.testing.assert_array_equal(panel.series.observed[original], before.series.observed)
    added = np.ones(panel.series.rows, bool)
    added[original] = False
    assert not panel.series.observed[added].any()
    assert panel.series.rows == len(set(hours) | {q / 4 for q in quarters})
    assert set(np.flatnonzero(added)) <= set(panel.query_rows)
    rows = rows_of(panel.write(numbered(panel)))
    assert [row["time"] for row in rows] == queried
    truth = dict(zip(hours, values, strict=True))
    for row, quarter, place in zip(rows, quarters, panel.query_rows, strict=True):
        known = truth.get(quarter / 4)
        assert row["x"] == (place + 100.25 if known is None else known)


def test_a_query_of_a_datetime_index_returns_a_datetime_index():
    index = pd.date_range("2024-10-27", periods=4, freq="h", tz="Europe/Berlin", name="when")
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0]}, index=index)
    queried = pd.date_range("2024-10-27 00:30", periods=3, freq="h", tz="Europe/Berlin")
    for times in (queried, queried.to_series(), pd.DataFrame(index=queried)):
        panel = read(frame).query(times)
        filled = panel.write(np.full(panel.series.value.shape, 7.0))
        assert filled.index.dtype == frame.index.dtype
        assert filled.index.name == "when"
        assert list(filled.index) == list(queried)
        assert filled["x"].tolist() == [7.0] * 3


def test_naive_times_are_taken_in_the_zone_of_the_data():
    stamps = pa.array([after(h, dt.UTC) for h in range(3)], pa.timestamp("us", "Europe/Berlin"))
    panel = read(pa.table({"time": stamps, "x": [1.0, None, 3.0]}))
    query = panel.query("2024-03-31 01:00")
    assert query.write(np.full(query.series.value.shape, 9.0))["x"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("data", "queried", "expected"),
    [
        (["2024-01-01", "2024-01-03"], ["2024-01-02"], ["2024-01-02"]),
        (["2024-01-01", "2024-01-03"], ["2024-01-02T06:00"], ["2024-01-02 06:00:00"]),
        (["2024-01-01T00:00Z", "2024-01-03T00:00Z"], ["2024-01-01T12:00Z"],
         ["2024-01-01T12:00:00Z"]),
        (["31.12.2023", "2.1.2024"], [dt.date(2024, 1, 1), dt.date(2024, 1, 2)],
         ["01.01.2024", "2.1.2024"]),
        (["12/31/2023 1:00 PM", "1/2/2024 1:00 PM"], ["2024-01-01 15:30"],
         ["01/01/2024 03:30:00 PM"]),
    ],
)  # fmt: skip
def test_text_times_are_written_in_the_format_of_the_column(data, queried, expected):
    panel = read(pl.DataFrame({"time": data, "x": [1.0, 2.0]})).query(queried)
    assert panel.write(np.zeros(panel.series.value.shape))["time"].to_list() == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_integer_times_become_floats_only_if_necessary(library):
    native = as_library(pa.table({"time": [0, 2, 4], "x": [1.0, None, 3.0]}), library)
    panel = read(native)
    on = panel.query([1, 2.0])
    assert [row["time"] for row in rows_of(on.write(np.zeros((4, 1))))] == [1, 2]
    off = panel.query([0.5, 2])
    assert [row["time"] for row in rows_of(off.write(np.zeros((4, 1))))] == [0.5, 2.0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_dates_become_datetimes_only_if_necessary(library):
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 3)]
    panel = read(as_library(pa.table({"date": days, "x": [1.0, 2.0]}), library))
    on = panel.query([dt.date(2024, 1, 2)])
    assert rows_of(on.write(np.zeros((3, 1))))[0]["date"] == dt.date(2024, 1, 2)
    off = panel.query([dt.datetime(2024, 1, 2, 6)])
    assert rows_of(off.write(np.zeros((3, 1))))[0]["date"] == dt.datetime(2024, 1, 2, 6)


def test_times_between_row_numbers_can_be_queried():
    panel = read(pl.DataFrame({"x": [1.0, None, 3.0]})).query([0.5, 2])
    assert panel.write(np.full((4, 1), 9.0)).to_dict(as_series=False) == {"x": [9.0, 3.0]}


@pytest.mark.parametrize("kind", [np.float32, np.int16])
def test_a_query_of_an_array_returns_an_array(kind):
    array = np.arange(12, dtype=kind).reshape(2, 3, 2)
    panel = read(array).query([2, 0.5])
    filled = panel.write(np.full(panel.series.value.shape, 7.75))
    assert filled.dtype == kind
    between = np.array(7.75 if kind == np.float32 else 8, kind)
    np.testing.assert_array_equal(filled[:, 0], array[:, 2])
    np.testing.assert_array_equal(filled[:, 1], np.full((2, 2), between))
    assert panel.stack([numbered(panel)] * 3, "draw", range(3)).shape == (3, 2, 2, 2)
    flat = read(array[0]).query([0.5])
    assert flat.write(np.zeros(flat.series.value.shape)).shape == (1, 2)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int16(), pa.decimal128(5, 2)])
@pytest.mark.parametrize("library", ["pandas-arrow", "polars", "pyarrow"])
def test_a_nan_stays_missing_at_a_new_time(library, kind):
    table = pa.table({"time": [0, 1, 2], "x": pa.array([5.0, 2.0, 3.0]).cast(kind)})
    panel = read(as_library(table, library), Columns("time", None, ("x",))).query([0.5, 1])
    filled = panel.write(np.full((4, 1), np.nan))
    assert [row["x"] for row in rows_of(filled)] == [None, 2]
    stacked = panel.stack([np.full((4, 1), np.nan)], "draw", [0])
    assert [row["x"] for row in rows_of(stacked)] == [None, 2]


def test_a_nan_stays_missing_at_a_new_time_of_an_array():
    panel = read(np.array([[1.0], [2.0]])).query([0.5])
    assert np.isnan(panel.write(np.full((3, 1), np.nan))).all()


def test_a_query_takes_at_or_every_and_without_both_returns_the_panel():
    panel = read(np.zeros((3, 1)))
    assert panel.query() is panel
    np.testing.assert_array_equal(panel.query([0.5]).series.time, [0.0, 0.5, 1.0, 2.0])
    every = panel.query(every=0.5)
    np.testing.assert_array_equal(every.series.time, [0.0, 0.5, 1.0, 1.5, 2.0])
    with pytest.raises(InputError, match="at and every must not be given together; choose one"):
        panel.query([0.5], every=0.5)


def test_finer_queried_times_leave_the_old_ones_bit_for_bit():
    ticks = np.cumsum(np.random.default_rng(0).integers(1, 10**13, 500))
    table = pa.table({"time": pa.array(ticks, pa.timestamp("us")), "x": [1.0] * 500})
    before = read(table, unit="3.7s")
    panel = before.query(np.array([10**18 + 1], "M8[ns]"))
    np.testing.assert_array_equal(panel.series.time[panel.original_rows], before.series.time)


@pytest.mark.parametrize(
    "queried",
    [
        pa.array([1, 7], pa.timestamp("ns")),
        pl.Series([1, 7], dtype=pl.Datetime("ns")),
        pd.DatetimeIndex(np.array([1, 7], "M8[ns]")),
        pd.Series(np.array([1, 7], "M8[ns]")),
        np.array([1, 7], "M8[ns]"),
        [pd.Timestamp(1), pd.Timestamp(7)],
    ],
    ids=lambda queried: f"{type(queried).__module__}.{type(queried).__name__}",
)
def test_lists_of_times_of_every_kind_keep_their_nanoseconds(queried):
    table = pa.table({"time": pa.array([0, 1, 9], pa.timestamp("ns")), "x": [1.0, 2.0, 3.0]})
    filled = (panel := read(table).query(queried)).write(np.full(panel.series.value.shape, 5.0))
    assert filled["time"].cast(pa.int64()).to_pylist() == [1, 7]
    assert filled["x"].to_pylist() == [2.0, 5.0]


def test_zones_that_are_an_offset_are_read():
    stamps = pa.array([0, 3600], pa.timestamp("s", "+02:00"))
    panel = read(pa.table({"time": stamps, "x": [1.0, 2.0]})).query(["1970-01-01 02:00"])
    assert panel.write(np.zeros(panel.series.value.shape))["x"].to_pylist() == [1.0]


# Grids


def test_a_grid_runs_from_the_first_to_the_last_row_of_each_series(long):
    panel = read(long)
    query = panel.query(every="30min")
    rows = rows_of(query.write(numbered(query)))
    assert [(row["station"], row["time"]) for row in rows] == [
        *(("b", after(i / 2)) for i in range(5)), *(("a", after(i / 2)) for i in range(3)),
    ]  # fmt: skip


@given(
    st.lists(st.integers(-100, 100), min_size=1, max_size=8, unique=True),
    st.integers(1, 40),
    st.sampled_from([1, 4]),
)
@settings(max_examples=50, deadline=None)
def test_a_grid_of_numbers_is_regular_and_covers_the_series(times, step, parts):
    panel = read(pl.DataFrame({"time": times, "x": [1.0] * len(times)}))
    every = step / parts
    query = panel.query(every=every)
    ticks = query.times.take(query.query_rows).ticks
    count = int((max(times) - min(times)) // every) + 1
    np.testing.assert_allclose(ticks, min(times) + every * np.arange(count))


def test_a_grid_may_be_finer_than_the_precision_of_the_times():
    stamps = pa.array([0, 1], pa.timestamp("s"))
    panel = read(pa.table({"time": stamps, "x": [1.0, 2.0]}))
    query = panel.query(every="250ms")
    times = query.write(np.zeros((5, 1)))["time"]
    assert times.type == pa.timestamp("ms")
    assert times.cast(pa.int64()).to_pylist() == [0, 250, 500, 750, 1000]


def test_a_grid_of_tenths_ends_at_the_last_row():
    panel = read(np.zeros((4, 1)), times=np.array([0.0, 0.1, 0.2, 0.3]))
    assert panel.query(every=0.1).query_rows.size == 4
    assert panel.query(every="0.1").query_rows.size == 4


@pytest.mark.parametrize(
    ("every", "message"),
    [
        (15, "every must be a duration such as '15min' for datetimes, got 15; add a unit"),
        ("15", "every must be a duration such as '15min' for datetimes, got 15; add a unit"),
        ("1M", r"a duration must be .* got '1M'; .* could mean months"),
        ("often", "a duration must be"),
        ("1ns", r"every must give at most 100,000,000 rows, got [\d,]+; use a longer step"),
    ],
)
def test_a_wrong_grid_is_rejected(long, every, message):
    with pytest.raises(InputError, match=message):
        read(long).query(every=every)


def test_a_grid_of_numbers_needs_a_number():
    with pytest.raises(InputError, match="every must be a positive number where times are plain"):
        read(np.zeros((3, 1))).query(every="1h")


# Errors


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1, 2], r"queried times must be datetimes as in the data, got int64; convert"),
        ([], "at must hold at least one time, got none"),
        ([after(0), None], "at must be known and finite in every row, got a missing time"),
        (["never"], "at must hold timestamps in one format, got 'never' at row 0"),
        (
            pl.DataFrame({"time": [after(0)], "station": ["z"]}),
            r"queried series must be in the data, got 'z'; the data have 'b', 'a'",
        ),
        ([after(0, dt.UTC)], "no zone, as in the data, got zone 'UTC'; remove the zone"),
        (np.zeros((2, 2)), r"at must have one dimension, got the shape \(2, 2\)"),
        (pl.DataFrame({"when": [1]}), "must have the time column 'time', got 'when'"),
        ([dt.date(2024, 1, 1), after(1)], "one type, got dates and naive datetimes"),
    ],
)
def test_a_wrong_query_is_rejected(long, times, message):
    with pytest.raises(InputError, match=message):
        read(long).query(times)


@pytest.mark.parametrize(
    ("queried", "found"),
    [("2024-03-31 02:30", "doesn't exist"), ("2024-10-27 02:30", "ambiguous")],
)
def test_local_times_that_are_skipped_or_repeated_are_rejected(queried, found):
    stamps = pa.array([0, 3600], pa.timestamp("s", "Europe/Berlin"))
    panel = read(pa.table({"time": stamps, "x": [1.0, 2.0]}))
    with pytest.raises(InputError, match=rf"occur exactly once .* Europe/Berlin, .*{found}"):
        panel.query([queried])


def test_the_result_of_a_query_cannot_be_queried():
    panel = read(np.zeros((3, 1))).query([0.5])
    with pytest.raises(InputError, match="a panel can be queried once"):
        panel.query([1.5])


def test_series_of_an_array_need_equally_many_times():
    panel = read(np.zeros((2, 3, 1)), times=np.array([[0, 1, 2], [0, 1, 9]]))
    with pytest.raises(InputError, match=r"queried at equally many times, .* got 3 to 10; query"):
        panel.query(every=1)


def test_times_too_fine_for_their_distance_are_rejected():
    far = pa.array([2**58, 2**58 + 1], pa.timestamp("us"))
    panel = read(pa.table({"time": far, "x": [1.0, 2.0]}))
    with pytest.raises(InputError, match="queried times must be no finer than us"):
        panel.query(np.array([1], "M8[ns]"))


def test_a_type_without_nulls_cannot_hold_a_missing_value():
    panel = read(pd.DataFrame({"time": [0, 1], "x": [1, 2]}), Columns(values=("x",))).query([0.5])
    with pytest.raises(
        InputError, match=r"column 'x' must be nullable or of floats, .* got int64"
    ):
        panel.write(np.full((3, 1), np.nan))
    panel = read(np.array([[1], [2]])).query([0.5])
    with pytest.raises(InputError, match="the array must hold floats, because"):
        panel.stack([np.full((3, 1), np.nan)], "draw", [0])
