"""What `read` detects, accepts and rejects."""

import datetime as dt
import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.errors import InputError
from nrtsi.tables import Clock, Columns, read

DAYS = [dt.datetime(2024, 1, day) for day in (1, 2, 3)]


def wide(**columns):
    return pl.DataFrame({"time": [0, 1, 2], "x": [1.0, None, 3.0], **columns})


# Column detection


def test_a_column_named_like_time_is_the_time():
    panel = read(pd.DataFrame({"Timestamp": DAYS, "other": DAYS, "x": [1.0, np.nan, 2.0]}))
    assert panel.columns == Columns("Timestamp", None, ("x",))
    assert panel.notes == (
        "time: column 'Timestamp' (detected)",
        "values: column 'x' (detected)",
    )


def test_the_only_column_with_datetimes_is_the_time():
    panel = read(pl.DataFrame({"x": [1.0, None, 2.0], "moment": DAYS}))
    assert panel.columns.time == "moment"
    assert panel.notes[0] == "time: column 'moment' (detected, the only one with datetimes)"


def test_without_a_time_column_rows_are_counted():
    panel = read(pl.DataFrame({"x": [1.0, None, 2.0]}))
    assert panel.series.time.tolist() == [0.0, 1.0, 2.0]
    assert panel.clock == Clock("number", 0, 1.0)
    assert panel.notes[0] == (
        "time: the row number (no time column was found; name one with time=)"
    )
    assert panel.by_row_number
    assert not read(wide()).by_row_number


@pytest.mark.parametrize(
    "dates",
    [
        ["01.02.2024 00:00", "01.02.2024 01:00", "01.02.2024 02:00"],
        ["2024-01-01", "2024-01-02", "2024-01-03"],
        ["3/12/2024", "3/13/2024", "3/14/2024"],
    ],
)
def test_text_of_any_name_that_holds_dates_is_the_time(dates):
    panel = read(pl.DataFrame({"note": list("abc"), "wann": dates, "x": [1.0, None, 2.0]}))
    assert panel.columns.time == "wann"
    assert panel.clock.kind == "datetime"
    assert panel.notes[0] == "time: column 'wann' (detected: it holds dates)"


def test_the_order_of_day_and_month_may_follow_from_a_late_row():
    days = [f"{day}/1/2024" for day in range(1, 32)]
    panel = read(pl.DataFrame({"tag": days, "x": [1.0, None, *range(29)]}, strict=False))
    assert panel.columns.time == "tag"
    np.testing.assert_array_equal(panel.series.time, np.arange(31.0))


def test_python_dates_in_a_pandas_column_are_the_time():
    panel = read(pd.DataFrame({"x": [1.0, None, 2.0], "tag": [day.date() for day in DAYS]}))
    assert panel.columns.time == "tag"


@pytest.mark.parametrize("last", ["soon", "", None])
def test_text_with_one_row_that_is_no_date_is_not_the_time(last):
    text = [f"2024-01-01 00:{minute:02}" for minute in range(59)] + [last]
    panel = read(pl.DataFrame({"when": text, "x": [1.0] * 60}))
    assert panel.by_row_number


@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=9))
@settings(max_examples=50, deadline=None)
def test_a_first_column_is_the_time_if_it_increases(numbers):
    rising = all(a < b for a, b in itertools.pairwise(numbers))
    panel = read(pl.DataFrame({"epoch": numbers, "x": [1.0] * len(numbers)}))
    assert (panel.columns.time == "epoch") == rising
    assert panel.by_row_number == (not rising)


def test_the_note_on_an_increasing_first_column_gives_the_reason():
    panel = read(pl.DataFrame({"epoch": [3, 5, 9], "x": [1.0, None, 2.0]}))
    assert panel.columns == Columns("epoch", None, ("x",))
    assert panel.notes[0] == "time: column 'epoch' (detected: it always increases)"


@pytest.mark.parametrize(
    "first",
    [
        [1.0, None, 3.0],
        [1.0, 2.0, float("nan")],
        [1.0, 2.0, 1e301],
        [2**62, 2**62 + 1, 2**62 + 2],  # one and the same float
    ],
)
def test_a_first_column_with_invalid_times_is_not_the_time(first):
    assert read(pl.DataFrame({"n": first, "x": [1.0, None, 2.0]})).by_row_number


def test_the_only_column_of_numbers_is_a_value_even_if_it_increases():
    panel = read(pl.DataFrame({"x": [1.0, 2.5, 4.0], "flag": [True, False, True]}))
    assert panel.columns == Columns(None, None, ("x",))


def test_a_named_first_column_is_not_taken_as_the_time():
    frame = pl.DataFrame({"a": [1.0, 2.0, 4.0], "x": [1.0, None, 2.0]})
    assert read(frame, Columns(values=("a", "x"))).by_row_number


def test_two_datetime_columns_are_ambiguous():
    panel = read(pl.DataFrame({"a": DAYS, "b": DAYS, "x": [1.0, None, 2.0]}))
    assert (
        panel.notes[0]
        == "time: the row number (columns 'a', 'b' all hold datetimes; name one with time=)"
    )
    assert panel.by_row_number


def test_a_datetime_column_with_gaps_is_not_the_time():
    panel = read(pl.DataFrame({"serviced": [DAYS[0], None, None], "x": [1.0, None, 2.0]}))
    assert panel.columns.time is None


def test_rows_are_counted_inside_each_series():
    panel = read(pl.DataFrame({"k": list("abab"), "x": [1.0, 2.0, None, 4.0]}), Columns(id="k"))
    assert panel.series.time.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert panel.ids == ("a", "b")


@pytest.mark.parametrize("name", ["station", "ID", "unique_id"])
def test_repeating_times_require_an_id_column(name):
    frame = pl.DataFrame({"time": [0, 1, 0, 1], name: [7, 7, 3, 3], "x": [1.0, None, 3.0, 4.0]})
    panel = read(frame)
    assert panel.columns == Columns("time", name, ("x",))
    assert panel.ids == (7, 3)
    assert list(panel.series.keys) == ["7", "3"]
    assert f"id: column {name!r} (detected, 2 series)" in panel.notes


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["p", "q"])])
def test_repeating_times_make_the_only_text_column_the_id(kind):
    who = pl.Series(["p", "p", "q", "q"], dtype=kind)
    panel = read(pl.DataFrame({"time": [0, 1, 0, 1], "plot": who, "x": [1.0, None, 3.0, 4.0]}))
    assert panel.columns.id == "plot"
    assert panel.ids == ("p", "q")


def test_text_is_not_the_id_if_times_do_not_repeat():
    assert read(wide(note=["a", "a", "b"])).columns.id is None


def test_an_id_by_name_is_used_even_if_times_do_not_repeat():
    assert read(wide(station=["a", "a", "b"])).columns.id == "station"


def test_a_column_that_numbers_the_rows_is_neither_id_nor_value():
    panel = read(wide(id=[11, 12, 13]))
    assert panel.columns == Columns("time", None, ("x",))
    assert panel.notes[-1] == "left out: column 'id' (it counts the rows)"


def test_whole_numbers_that_increase_by_more_than_one_are_values():
    panel = read(wide(n=[1, 2, 3], m=[7, 8, 9], total=[10, 12, 13], top=[-(2**63), 0, 2**63 - 1]))
    assert panel.columns.values == ("x", "total", "top")
    assert panel.notes[-1] == "left out: columns 'n', 'm' (they count the rows)"


def test_parts_of_the_date_are_left_out_with_a_remedy():
    frame = pl.DataFrame({"Year": [2024] * 3, "month": [1, 1, 2], "x": [1.0, None, 2.0]})
    panel = read(frame)
    assert panel.columns.values == ("x",)
    assert panel.notes[-1] == (
        "left out: columns 'Year', 'month' (parts of the date; "
        "join them into one time column to use the real times)"
    )
    panel = read(frame.with_columns(time=pl.Series(DAYS)))
    assert panel.notes[-1] == "left out: columns 'Year', 'month' (parts of the date)"


@pytest.mark.parametrize("hours", [[5, None, 3], [5.0, 4.0, 3.0]])
def test_parts_of_the_date_with_gaps_or_fractions_are_values(hours):
    assert read(wide(hour=hours)).columns.values == ("x", "hour")


@pytest.mark.parametrize("kind", [pl.Float64, pl.Int64, pl.Null, pl.String])
def test_a_detected_column_without_observations_is_left_out(kind):
    panel = read(wide(empty=pl.Series([None] * 3, dtype=kind)))
    assert panel.columns.values == ("x",)
    assert panel.notes[-1] == "left out: column 'empty' (nothing observed)"


def test_a_detected_column_of_nan_is_left_out():
    assert read(wide(empty=[float("nan")] * 3)).columns.values == ("x",)


def test_a_note_reports_gaps_in_columns_that_are_not_numeric():
    panel = read(wide(flag=[True, None, False], wd=["mo", None, "we"], full=list("abc")))
    assert panel.notes[-1] == "not imputed: columns 'flag', 'wd' (not numeric)"


def test_flags_text_and_counters_are_no_values():
    panel = read(wide(flag=[True, False, True], text=list("abc"), n=[1, 2, 3], m=[3, 1, 2]))
    assert panel.columns.values == ("x", "m")


def test_named_columns_are_not_detected():
    panel = read(wide(n=[1, 2, 3]), Columns("time", None, ("n", "x")))
    assert panel.columns.values == ("n", "x")
    assert panel.notes == ()
    assert panel.series.value[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_detected_columns_read_the_same_again():
    frame = pl.DataFrame({"time": [0, 1, 0, 1], "id": [7, 7, 3, 3], "x": [1.0, None, 3.0, 4.0]})
    panel = read(frame)
    again = read(frame, panel.columns, clock=panel.clock)
    assert again.columns == panel.columns
    np.testing.assert_array_equal(again.series.time, panel.series.time)


def test_series_without_observations_are_listed():
    frame = pl.DataFrame(
        {"id": list("aabbcc"), "time": [0, 1] * 3, "x": [None, None, 1.0, 2.0, None, None]}
    )
    assert read(frame).empty == ("a", "c")


def test_a_fitted_clock_allows_a_column_without_observations():
    frame = wide(y=pl.Series([None] * 3, dtype=pl.Float64))
    panel = read(frame, Columns(values=("x", "y")), clock=Clock("number", 0, 1.0))
    assert not panel.series.observed[:, 1].any()


@given(st.permutations(range(8)))
@settings(max_examples=50, deadline=None)
def test_the_order_of_rows_changes_nothing_but_the_order_of_series(order):
    frame = pl.DataFrame(
        {
            "id": list("aaabbbbc"),
            "time": [3, 1, 2, 9, 8, 5, 6, 1],
            "x": [float(i) for i in range(8)],
        }
    )
    one = read(frame, Columns("time", "id", ("x",)))
    other = read(frame[list(order)], Columns("time", "id", ("x",)))
    place = [other.ids.index(each) for each in one.ids]
    mixed = other.series.select(np.array(place))
    np.testing.assert_array_equal(mixed.time, one.series.time)
    np.testing.assert_array_equal(mixed.value, one.series.value)
    assert one.clock == other.clock


# Errors


def rejects(message, data, columns=None, **settings):
    with pytest.raises(InputError, match=message):
        read(data, columns or Columns(), **settings)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pl.LazyFrame({"x": [1.0]}), r"got the lazy polars.LazyFrame; collect it first"),
        (pd.Series([1.0]), r"got the single column pandas.Series; use .to_frame\(\)"),
        ([1.0, 2.0], r"pandas, polars or pyarrow table or a numpy array .* got builtins.list"),
        ({"x": [1.0]}, r"must be a pandas, polars or pyarrow .* got builtins.dict; convert it"),
        (
            pl.DataFrame({"x": []}, schema={"x": pl.Float64}),
            "at least one row, got an empty table",
        ),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "column names must be unique"),
        (
            pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
            r"column names must have one level, got \('a', 1\); flatten the column",
        ),
        (np.zeros(3), r"\(series, step, dim\), got \(3,\); reshape it"),
        (np.zeros((2, 0)), r"at least one series, step and channel, got \(2, 0\)"),
        (np.array([["a"]]), "must hold integers or floats, got <U1; convert it with astype"),
        (np.array([[True]]), "must hold integers or floats, got bool"),
        (np.ma.masked_array([[1.0]], [[True]]), r"with NaN, got a masked array; use array"),
    ],
)
def test_other_data_is_rejected(data, message):
    rejects(message, data)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(time="when"), r"got no 'when'; its columns are 'time', 'x', 'note'"),
        (Columns(values=("y", "z")), r"every named column, got no 'y', 'z'; its columns are"),
        (Columns(values=("note",)), r"column 'note' must be numeric, got String; convert it"),
        (Columns(values=()), r"at least one numeric column to impute, got 'time', 'x', 'note'"),
        (Columns(time="note"), r"time column 'note' must hold timestamps .* got 'a' at row 0"),
    ],
)
def test_wrong_columns_are_rejected(columns, message):
    rejects(message, wide(note=["a", "b", "c"]), columns)


def test_booleans_are_no_values():
    rejects(
        "column 'b' must be numeric, got Boolean",
        wide(b=[True, False, None]),
        Columns(values=("b",)),
    )


def test_long_lists_of_columns_are_shortened():
    frame = pl.DataFrame({f"c{i}": [1.0] for i in range(20)})
    rejects("'c11' and 8 more", frame, Columns(time="when"))


def test_a_column_named_twice_is_rejected():
    with pytest.raises(InputError, match="must name different columns, got 'x' twice"):
        Columns(time="x", values=("x",))
    with pytest.raises(InputError, match="must name different columns, got 'a' twice"):
        Columns(values=("a", "b", "a"))
    with pytest.raises(InputError, match="must name different columns, got 'a' twice"):
        Columns(time="a", id="a")


def test_one_name_in_place_of_a_list_is_rejected():
    with pytest.raises(InputError, match=r"a list of names, got the text 'abc'; write \['abc'\]"):
        Columns(values="abc")


def test_a_table_without_numbers_is_rejected():
    rejects("at least one numeric column to impute, got 'time', 'a'", pl.DataFrame(
        {"time": [1, 2], "a": ["p", "q"]}
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([0.0, float("nan"), 1.0], r"column 'time' must be known and finite .* NaN time at row 1"),
        ([0.0, 1.0, float("inf")], r"got an infinite time at row 2"),
        ([0, None, 1], r"got a missing time at row 1 \(the first is row 0\); drop the row"),
        ([DAYS[0], None, None], r"got a missing time at row 1"),
        ([True, False, True], r"must hold datetimes, dates, numbers or text, got bool"),
        ([dt.time(1), dt.time(2), dt.time(3)], r"dates, numbers or text, got time64\[ns\]"),
        ([1e301, 0.0, 1.0], r"numbers of at most 1e\+300 in size, got 1e\+301; rescale them"),
        ([2**64 - 1, 2**64 - 2, 1], r"must hold numbers below 2\*\*63, got larger ones"),
    ],
)
def test_unusable_times_are_rejected(time, message):
    frame = pl.DataFrame({"time": pl.Series(time), "x": [1.0, None, 2.0]})
    rejects(message, frame, Columns(time="time"))


def test_missing_pandas_times_are_rejected():
    frame = pd.DataFrame({"time": [pd.NaT, DAYS[0]], "x": [1.0, 2.0]})
    rejects("got a missing time at row 0", frame)


def test_dates_and_datetimes_mixed_are_rejected():
    mixed = pd.Series([dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 5)], dtype=object)
    rejects(
        "one type, got dates and naive datetimes; convert it to one",
        pd.DataFrame({"t": mixed, "x": [1.0, 2.0]}),
        Columns(time="t"),
    )


def test_duplicate_times_are_rejected_with_the_series_and_the_time():
    frame = pl.DataFrame({"who": list("abbb"), "time": [1, 5, 5, 5], "x": [1.0, 2.0, 3.0, None]})
    rejects(
        r"got 3 rows at '5' in series 'b' \(repeated rows in total: 2\); remove or average them$",
        frame,
        Columns("time", "who"),
    )


def test_the_message_on_duplicate_times_without_ids_suggests_an_id_column():
    frame = pl.DataFrame({"time": [DAYS[0], DAYS[0]], "x": [1.0, 2.0]})
    rejects(
        r"got 2 rows at '2024-01-01 00:00:00' \(repeated rows in total: 1\); "
        r"remove or average them, or name the id column with id= "
        r"\(if an hour repeats at the end of summer time, give times with a zone\)$",
        frame,
    )


@pytest.mark.parametrize(
    "time", [["2024-10-27"] * 2, ["2024-10-27T02:30Z"] * 2, [DAYS[0]] * 3, [DAYS[0].date()] * 2]
)
def test_the_message_on_other_duplicates_does_not_mention_summer_time(time):
    frame = pl.DataFrame({"time": time, "x": [1.0] * len(time)})
    rejects(r"or name the id column with id=$", frame)


def test_missing_ids_are_rejected():
    frame = pl.DataFrame({"who": ["a", None], "time": [1, 2], "x": [1.0, 2.0]})
    rejects("id column 'who' must be known in every row, got a missing id at row 1", frame,
            Columns("time", "who"))  # fmt: skip


def test_ids_of_several_types_are_rejected():
    frame = pd.DataFrame({"who": pd.Series([1, "a"], dtype=object), "x": [1.0, 2.0]})
    rejects("id column 'who' must hold values of one type", frame, Columns(id="who"))


@pytest.mark.parametrize("bad", [float("inf"), -float("inf")])
def test_infinite_values_are_rejected(bad):
    frame = pl.DataFrame({"who": ["a", "b"], "time": [1, 1], "x": [1.0, bad]})
    rejects(
        r"column 'x' must be finite, got -?inf at row 1 \(the first is row 0\) of series 'b'",
        frame,
    )


def test_a_named_column_without_observations_is_rejected_when_fitting():
    frame = wide(y=pl.Series([None] * 3, dtype=pl.Float64))
    message = "at least one observed value, got none in 'y'; leave it out with columns="
    rejects(message, frame, Columns(values=("x", "y")))
    rejects(message, frame.drop("x"))


def test_times_that_are_equal_as_floats_are_rejected():
    frame = pl.DataFrame({"time": [2**62, 2**62 + 1, 2**62 + 2], "x": [1.0, None, 2.0]})
    rejects("must be distinct as 64-bit floats .* subtract an offset", frame)


def test_a_frame_with_separate_times_is_rejected():
    rejects("times must be given with an array only", wide(), times=np.arange(3))


def test_an_array_of_times_must_fit_the_steps():
    rejects(r"shape \(4,\) or \(2, 4\), as the array's steps, got \(3,\)", np.zeros((2, 4, 1)),
            times=np.arange(3))  # fmt: skip


def test_the_columns_of_an_array_cannot_be_named():
    rejects("an array's columns must not be named", np.zeros((2, 1)), Columns(time="a"))
    assert read(np.zeros((2, 1)), Columns(values=("0",))).columns == Columns(values=("0",))


# Columns of a fitted model


def test_columns_of_a_fitted_model_must_be_present():
    fitted = Columns("time", None, ("x", "y"))
    clock = Clock("number", 0, 1.0)
    panel = read(wide(y=[1, 2, 3], z=[1, 2, 3]), fitted, clock=clock)
    assert panel.columns == fitted
    with pytest.raises(
        InputError, match=r"fitted on, 'time', 'x', 'y'; it lacks 'y' and has 'time', 'x'; rename"
    ):
        read(wide(), fitted, clock=clock)


def test_a_named_index_counts_as_the_fitted_time():
    frame = pd.DataFrame({"x": [1.0]}, index=pd.DatetimeIndex(["2024-01-01"], name="when"))
    panel = read(frame, Columns("when", None, ("x",)), clock=Clock("datetime", 0, 1e9))
    assert panel.columns == Columns(None, None, ("x",))


def test_arrays_must_have_the_fitted_channels():
    panel = read(np.zeros((3, 2)))
    fitted, clock = panel.columns, panel.clock
    assert read(np.zeros((5, 7, 2)), fitted, clock=clock).columns == fitted
    with pytest.raises(InputError, match="it lacks '1' and has '0'"):
        read(np.zeros((5, 1)), fitted, clock=clock)
    with pytest.raises(InputError, match="the 2 channels the model was fitted on, got 3"):
        read(np.zeros((5, 3)), fitted, clock=clock)


def test_pyarrow_tables_are_read():
    panel = read(pa.table({"ds": pa.array(DAYS, pa.timestamp("s")), "y": [1.0, None, 2.0]}))
    assert panel.columns == Columns("ds", None, ("y",))


def test_importing_tables_imports_neither_torch_nor_pandas_nor_polars():
    script = (
        "import sys; import nrtsi.tables; "
        "assert not {'torch', 'pandas', 'polars'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# One panel for several uses


def test_one_panel_gives_series_query_and_result():
    panel = read(pl.DataFrame({"time": DAYS, "x": [1.0, None, 3.0]}))
    query = panel.query(every="12h")
    assert panel.write(np.full((3, 1), 2.0))["x"].to_list() == [1.0, 2.0, 3.0]
    assert query.write(np.full((5, 1), 9.0))["x"].to_list() == [1.0, 9.0, 9.0, 9.0, 3.0]
