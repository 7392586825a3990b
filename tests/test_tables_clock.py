"""Clocks, durations, timestamps as text, zones and precisions."""

import datetime as dt
import json
from dataclasses import asdict
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.errors import InputError
from nrtsi.tables import Clock, Columns, parse_duration, read

HOUR = 3_600_000_000_000
BERLIN = ZoneInfo("Europe/Berlin")


# Durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("15min", 900), ("10m", 600), ("1h", 3600), ("2d", 172_800), ("1h30m", 5400),
        ("1h 30min", 5400), ("0.5h", 1800), (".5s", 0.5), ("250ms", 0.25), ("1w", 604_800),
        ("90", 90), (90, 90), (1.5, 1.5), ("1H", 3600), ("1MIN", 60), ("2MS", 2e-3),
    ],
)  # fmt: skip
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "h", "1x", "-1h", "1h-", "0s", 0, -3, float("nan"), float("inf"), True, None, "1 2"],
)
def test_text_that_is_no_duration_is_rejected(text):
    with pytest.raises(InputError, match=r"a duration must be .* '15min', '1h', '2d' or '1h30m'"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1M", "1h30M", "6 M"])
def test_a_capital_m_is_rejected_because_it_could_mean_months(text):
    with pytest.raises(InputError, match=r"'M' could mean months: write minutes as '1min'"):
        parse_duration(text)


@given(st.integers(0, 30), st.integers(0, 23), st.integers(0, 59), st.integers(1, 59))
def test_parts_of_a_duration_add_up(days, hours, minutes, seconds):
    expected = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == expected.total_seconds()


# Clocks


@given(
    st.sampled_from(["datetime", "number"]),
    st.integers(-(2**70), 2**70),
    st.floats(min_value=1e-300, max_value=1e300),
)
def test_a_clock_survives_json(kind, origin, unit):
    clock = Clock(kind, origin, unit)
    assert Clock(**json.loads(json.dumps(asdict(clock)))) == clock


@pytest.mark.parametrize("record", [{"kind": "moon", "origin": 0, "unit": 1.0},
                                    {"kind": "number", "origin": 0, "unit": 0.0}])  # fmt: skip
def test_a_damaged_clock_is_rejected(record):
    with pytest.raises(InputError, match="a clock must have the kind 'datetime' or 'number'"):
        Clock(**record)


@given(st.integers(1, 10**6), st.sampled_from([1e9, 60e9, float(HOUR)]))
@settings(max_examples=25)
def test_a_length_is_the_same_in_units_as_text_and_as_a_duration(steps, unit):
    clock = Clock("datetime", 0, unit)
    assert clock.parse_length(clock.format_duration(float(steps)), "max_gap") == pytest.approx(
        steps
    )
    assert (
        clock.parse_length(steps, "max_gap") == clock.parse_length(str(steps), "max_gap") == steps
    )
    length = clock.to_durations(np.array([float(steps)]))[0]
    assert length == np.timedelta64(int(steps * unit), "ns")


def test_durations_are_timedeltas_or_numbers_and_infinite_ones_are_missing():
    units = np.array([0.0, 1.5, np.nan, np.inf, 1e9])
    hours = Clock("datetime", 0, float(HOUR)).to_durations(units)
    assert hours.dtype == np.dtype("timedelta64[ns]")
    assert hours[:2].tolist() == [0, 90 * 60 * 10**9]
    assert np.isnat(hours[2:]).all()
    np.testing.assert_array_equal(
        Clock("number", 0, 2.0).to_durations(units), [0.0, 3.0, np.nan, np.inf, 2e9]
    )


@pytest.mark.parametrize(
    ("unit", "units", "text"),
    [(HOUR, np.inf, "any"), (HOUR, 24.0, "1d"), (HOUR, 25.0, "25h"), (HOUR, 1 / 3600, "1s"),
     (1e9, 0.25, "250ms"), (1e3, 1.0, "1us"), (1.0, 1.0, "1ns")],
)  # fmt: skip
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(unit, units, text):
    assert Clock("datetime", 0, float(unit)).format_duration(units) == text


def test_a_length_of_plain_numbers_is_in_the_measure_of_the_time_column():
    clock = Clock("number", 0, 0.5)
    assert (clock.format_duration(3.0), clock.format_duration(np.inf)) == ("1.5", "any")
    assert clock.parse_length("3", "max_gap") == 3.0
    with pytest.raises(InputError, match="max_gap must be a number of steps where times are"):
        clock.parse_length("3h", "max_gap")
    with pytest.raises(InputError, match=r"max_gap must be a positive number of steps, .*got -3"):
        clock.parse_length(-3, "max_gap")


def test_periods_are_those_longer_than_two_units():
    assert Clock("datetime", 0, float(HOUR)).periods() == (24.0, 168.0, 8765.82)
    assert Clock("datetime", 0, 24.0 * HOUR).periods() == (7.0, 365.2425)
    assert Clock("datetime", 0, 24.0 * HOUR * 365).periods() == ()
    assert Clock("number", 0, 1.0).periods() == ()


@given(st.lists(st.integers(-(10**15), 10**15), min_size=2, max_size=8, unique=True))
@settings(max_examples=50, deadline=None)
def test_the_unit_is_the_median_spacing_and_numbers_keep_their_zero(times):
    panel = read(pl.DataFrame({"time": times, "x": [1.0] * len(times)}))
    ordered = np.sort(times)
    unit = float(np.median(np.diff(ordered)))
    assert panel.clock == Clock("number", 0, unit)
    np.testing.assert_allclose(panel.series.time, ordered / unit)


def test_the_unit_ignores_the_jump_from_one_series_to_the_next():
    frame = pl.DataFrame({"id": list("aabb"), "time": [0, 5, 1000, 1005], "x": [1.0] * 4})
    assert read(frame).clock.unit == 5.0


def test_without_spacings_the_unit_is_one_number_or_one_second():
    assert read(pl.DataFrame({"time": [4.0], "x": [1.0]})).clock == Clock("number", 0, 1.0)
    moment = dt.datetime(2024, 1, 1)
    assert read(pl.DataFrame({"time": [moment], "x": [1.0]})).clock.unit == 1e9


def test_a_named_unit_is_used():
    frame = hourly(3)
    assert read(frame, unit="30min").series.time.tolist() == [0.0, 2.0, 4.0]
    assert read(np.zeros((3, 1)), unit=2).series.time.tolist() == [0.0, 0.5, 1.0]
    assert read(np.zeros((3, 1)), unit="0.5").series.time.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("data", "unit", "message"),
    [
        ("hourly", 60, "unit must be a duration such as '15min' for datetimes, got 60; add"),
        ("hourly", "60", "unit must be a duration such as '15min' for datetimes, got 60; add"),
        ("hourly", "soon", "a duration must be"),
        (
            "numbers",
            "1h",
            "unit must be a positive number where times are plain numbers",
        ),
        ("numbers", 0, "unit must be a positive number"),
        ("numbers", float("nan"), "unit must be a positive number"),
    ],
)
def test_a_wrong_unit_is_rejected(data, unit, message):
    with pytest.raises(InputError, match=message):
        read(hourly(3) if data == "hourly" else np.zeros((3, 1)), unit=unit)


def test_a_unit_with_a_fitted_clock_is_rejected():
    with pytest.raises(
        InputError, match="unit must be given when fitting, not with a fitted clock"
    ):
        read(np.zeros((3, 1)), unit=1, clock=Clock("number", 0, 1.0))


def test_a_fitted_clock_counts_from_its_own_origin():
    fitted = read(hourly(5)).clock
    later = read(hourly(3, start=dt.datetime(2024, 1, 2)), clock=fitted)
    assert later.clock is fitted
    assert later.series.time.tolist() == [24.0, 25.0, 26.0]


def test_an_origin_between_the_ticks_of_later_data_is_exact():
    halves = pa.array([500, 1500, 2500], pa.timestamp("ms"))
    fitted = read(pa.table({"time": halves, "x": [1.0] * 3})).clock
    later = pa.table({"time": pa.array([1, 4], pa.timestamp("s")), "x": [1.0] * 2})
    assert read(later, clock=fitted).series.time.tolist() == [0.5, 3.5]


def test_times_of_another_kind_than_fitted_are_rejected():
    with pytest.raises(
        InputError, match=r"must be datetimes, as in the data .* got plain numbers"
    ):
        read(np.zeros((3, 1)), clock=Clock("datetime", 0, 1e9))
    with pytest.raises(
        InputError, match=r"must be plain numbers, as in the data .* got datetimes"
    ):
        read(hourly(3), clock=Clock("number", 0, 1.0))


def hourly(rows, start=dt.datetime(2024, 1, 1)):
    moments = [start + dt.timedelta(hours=i) for i in range(rows)]
    return pl.DataFrame({"time": moments, "x": [1.0] * rows})


# Precisions and far dates


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
def test_every_precision_gives_the_same_times(unit, zone):
    base = pa.array([0, 3600, 5400, 9000], pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    panel = read(pa.table({"time": base, "x": [1.0, None, 2.0, 3.0]}))
    assert panel.clock == Clock("datetime", 0, float(HOUR))
    assert panel.series.time.tolist() == [0.0, 1.0, 1.5, 2.5]


def test_dates_count_in_days():
    days = [dt.date(1659, 1, 1), dt.date(1659, 1, 2), dt.date(1659, 1, 4)]
    panel = read(pl.DataFrame({"date": days, "x": [1.0, None, 2.0]}), unit="1d")
    assert panel.series.time.tolist() == [0.0, 1.0, 3.0]


def test_nanoseconds_may_span_more_than_64_bits_hold():
    ends = pa.array([-(2**62) - 2**61, 0, 2**62 + 2**61], pa.timestamp("ns"))
    panel = read(pa.table({"time": ends, "x": [1.0, None, 2.0]}))
    assert panel.series.time.tolist() == [0.0, 1.0, 2.0]


# Summer time


@pytest.mark.parametrize("day", [dt.datetime(2024, 3, 31), dt.datetime(2024, 10, 27)])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_summer_time_neither_repeats_nor_skips_an_hour(day, library):
    utc = [day.replace(tzinfo=dt.UTC) + dt.timedelta(hours=i - 3) for i in range(9)]
    table = pa.table({"time": pa.array(utc, pa.timestamp("us", "Europe/Berlin")), "x": [1.0] * 9})
    native = {"pandas": table.to_pandas, "polars": lambda: pl.from_arrow(table)}.get(
        library, lambda: table
    )()
    panel = read(native)
    assert panel.clock.unit == HOUR
    assert panel.series.time.tolist() == list(range(9))


def test_naive_times_that_occur_twice_are_duplicates():
    twice = [dt.datetime(2024, 10, 27, 2, 0)] * 2
    with pytest.raises(InputError, match="got 2 rows at '2024-10-27 02:00:00'"):
        read(pl.DataFrame({"time": twice, "x": [1.0, 2.0]}))


def test_a_duplicate_is_shown_in_the_zone_of_the_data():
    moment = dt.datetime(2024, 7, 1, 12, tzinfo=BERLIN)
    frame = pa.table(
        {"time": pa.array([moment] * 2, pa.timestamp("us", "Europe/Berlin")), "x": [1.0, 2.0]}
    )
    with pytest.raises(InputError, match=r"got 2 rows at '2024-07-01 12:00:00\+0200'"):
        read(frame)


# Text


def parsed(*texts):
    rows = [1.0] * len(texts)
    panel = read(pl.DataFrame({"time": list(texts), "x": rows}), clock=Clock("datetime", 0, 1e9))
    return panel.series.time.tolist()


def seconds(*moments):
    zoned = (m if m.tzinfo else m.replace(tzinfo=dt.UTC) for m in moments)
    return [moment.timestamp() for moment in zoned]


FORMATS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00",
    "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d %b %Y %H:%M:%S", "%B %d, %Y %H:%M:%S",
    "%d-%b-%Y %I:%M:%S %p", "%Y-%m-%dT%H:%M:%S.000",
)  # fmt: skip


@given(
    st.lists(
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)), min_size=1, max_size=5,
        unique_by=lambda moment: moment.replace(microsecond=0),
    ),
    st.sampled_from(FORMATS),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_written_times_are_read_as_python_reads_them(moments, form):
    moments = sorted(moment.replace(microsecond=0) for moment in moments)
    assert parsed(*(moment.strftime(form) for moment in moments)) == seconds(*moments)


def test_offsets_are_applied():
    texts = "2024-03-31 01:30:00+01:00", "2024-03-31 03:30:00+02:00"
    assert np.diff(parsed(*texts)).tolist() == [3600.0]


@pytest.mark.parametrize(
    ("texts", "moments"),
    [
        (("30/1/2024", "1/2/2024"), [(2024, 1, 30), (2024, 2, 1)]),
        (("1/30/2024", "2/1/2024"), [(2024, 1, 30), (2024, 2, 1)]),
        (("30-01-2024", "01-02-2024"), [(2024, 1, 30), (2024, 2, 1)]),
        (
            ("1/31/2024 12:05 AM", "1/31/2024 12:05 PM"),
            [(2024, 1, 31, 0, 5), (2024, 1, 31, 12, 5)],
        ),
        (("1/1/2024", "2/2/2024"), [(2024, 1, 1), (2024, 2, 2)]),
    ],
)
def test_slash_dates_are_read_if_only_one_order_fits(texts, moments):
    assert parsed(*texts) == seconds(*(dt.datetime(*moment) for moment in moments))


def test_slash_dates_that_fit_both_orders_are_rejected():
    with pytest.raises(
        InputError, match=r"column 'time' is ambiguous: '1/2/2024' and all other rows"
    ):
        parsed("1/2/2024", "1/3/2024")


@pytest.mark.parametrize(
    ("texts", "bad", "row"),
    [
        (["2024-01-01", "2024-01-02", "soon", "2024-01-04"], "soon", 2),
        (["2024-01-01"] * 5 + ["2024-02-30"], "2024-02-30", 5),
        (["2024-01-01T00:00Z"] * 4 + ["2024-01-01T01:00"] * 3, "2024-01-01T01:00", 4),
        (["31.01.2024", "31.02.2024"], "31.02.2024", 1),
        (["13/13/2024"], "13/13/2024", 0),
        (["1 Foo 2024"], "1 Foo 2024", 0),
        (["2024-01-01", "2/1/24"], "2/1/24", 1),
        (["5 Jan 2024 13:00 PM"], "5 Jan 2024 13:00 PM", 0),
        (["7"], "7", 0),
    ],
)
def test_text_that_is_no_timestamp_is_rejected_with_its_row(texts, bad, row):
    with pytest.raises(InputError) as caught:
        parsed(*texts)
    assert f"column 'time' must hold timestamps in one format, got {bad!r} at row {row}" in str(
        caught.value
    )
    assert "write them as 2024-01-31" in str(caught.value)


def test_nanoseconds_in_text_are_kept():
    texts = ["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000003"]
    frame = pl.DataFrame({"time": texts, "x": [1.0, 2.0]})
    assert read(frame).clock.unit == 2.0


def test_arrays_take_datetimes_numbers_and_text_as_times():
    array = np.zeros((2, 3, 1))
    stamps = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "M8[D]")
    for times in (stamps, stamps.astype("M8[ns]"), stamps.astype(str), stamps.astype(object)):
        panel = read(array, times=times)
        assert panel.clock.kind == "datetime"
        assert panel.series.time.tolist() == [0.0, 1.0, 2.0] * 2
    assert read(array, times=np.array([[0, 2, 4], [5, 7, 9]])).clock == Clock("number", 0, 2.0)


def test_negative_zero_is_zero():
    with pytest.raises(InputError, match="got 2 rows at '0'"):
        read(pl.DataFrame({"time": [0.0, -0.0], "x": [1.0, 2.0]}))


def test_categorical_text_is_read_as_time():
    frame = pd.DataFrame({"time": pd.Categorical(["2024-01-01", "2024-01-03"]), "x": [1.0, 2.0]})
    assert read(frame, Columns(time="time")).clock.unit == 48 * HOUR
