import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nrtsi import NRTSI
from nrtsi.config import ReportConfig
from nrtsi.errors import InputError
from nrtsi.imputer.options import ImputeOptions, ImputeTask
from nrtsi.imputer.selection import backtest_panel
from nrtsi.report import check_report, render, write_report
from nrtsi.report.build import most_missing, report_of
from nrtsi.report.content import (
    CellState,
    Coverage,
    GapRange,
    MethodUse,
    ReportScore,
    ReportSeries,
)
from nrtsi.report.page import SCRIPTS, encode_series, encode_times
from nrtsi.report.sections import format_number, format_share, methods_used, summary
from tests.report_samples import DAY, HOUR, channel, report, series

EVIL = """</script><img src=x onerror="alert(1)"><!--&'{{script}}"""
QUICK = settings(max_examples=30, deadline=None)


class Outline(HTMLParser):
    """The elements of a page, and what stands in them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.text.append(data)


def data_of(page, name):
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', page, re.S)[1])


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind).astype(float)


def decoded(channel, state):
    """An independent reading of what the page carries of a channel."""
    value = numbers(channel["value"], "<f4") * channel["scale"] + channel["offset"]
    ends = []
    for name in ("lower", "upper"):
        end = np.full(state.size, np.nan)
        end[state > 0] = numbers(channel[name], "<f4") * channel["scale"] + channel["offset"]
        ends.append(end)
    return value, *ends


# --- laws


@QUICK
@given(
    st.data(),
    st.integers(0, 40),
    st.sampled_from([1e-290, 1e-3, 1.0, 1e9, 1e300]),
    st.sampled_from([0.0, 1.0, -1e6]),
)
def test_encoding_keeps_values_to_a_millionth_of_their_range(data, rows, scale, offset):
    state = data.draw(arrays.arrays(np.uint8, (rows, 1), elements=st.integers(0, 3)))
    units = arrays.arrays(float, (rows, 1), elements=st.floats(-1, 1) | st.just(np.nan))
    value = (data.draw(units) + offset) * scale
    lower, upper = value - 0.1 * scale, value + 0.1 * scale
    given_series = ReportSeries("a", np.arange(rows, dtype=float), value, state, lower, upper)
    packed = encode_series(given_series)["channels"][0]
    assert (numbers(packed["state"], "u1") == state[:, 0]).all()
    found = decoded(packed, state[:, 0])
    shows = state[:, 0] <= CellState.IMPUTED
    for array, given_, where in zip(
        found, (value, lower, upper), (shows, state[:, 0] > 0, state[:, 0] > 0), strict=True
    ):
        want = np.where(where, given_[:, 0], np.nan)
        room = 1e-6 * (packed["scale"] + np.nanmax(np.abs(want - packed["offset"]), initial=0))
        np.testing.assert_allclose(array, want, rtol=1e-12, atol=room)


@QUICK
@given(
    arrays.arrays(
        float,
        st.integers(0, 20),
        elements=st.floats(allow_nan=True, allow_infinity=True, width=64),
    )
)
def test_any_value_gives_a_page_with_valid_json(value):
    state = np.ones((value.size, 1), np.uint8)
    cells = value[:, None]
    page = render(
        report(ReportSeries("a", np.arange(value.size, dtype=float), cells, state, cells, cells))
    )
    channel = data_of(page, "series-0")["channels"][0]
    assert np.isfinite([channel["offset"], channel["scale"]]).all()
    assert channel["scale"] > 0
    assert (np.isfinite(numbers(channel["value"], "<f4")) == np.isfinite(value)).all()


@QUICK
@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e9), st.integers(2, 50))
def test_regular_times_are_a_start_and_a_step(start, step, rows):
    time = start + step * np.arange(rows)
    packed = encode_times(time)
    if "step" in packed:
        again = packed["start"] + packed["step"] * np.arange(rows)
    else:  # too large a start for so small a step: the rounding is uneven
        again = numbers(packed["all"], "<f8")
    np.testing.assert_allclose(again, time, rtol=0, atol=2e-6 * step)
    assert numbers(encode_times(np.array([0.0, 1.0, 5.0]))["all"], "<f8").tolist() == [0, 1, 5]


@QUICK
@given(st.text(max_size=30))
def test_no_name_changes_the_structure_of_the_page(name):
    def outline(name):
        page = render(report(series(rows=20, channels=1), names=[name], source=name))
        return [tag for tag, _ in Outline(page).tags]

    assert outline(name) == outline("plain")


@QUICK
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(1, 5))
def test_the_series_shown_have_the_most_missing_cells(gaps, count):
    chosen = most_missing(gaps, [10] * len(gaps), ReportConfig(max_series=count))
    assert len(chosen) == min(count, len(gaps))
    rest = [count for i, count in enumerate(gaps) if i not in chosen]
    assert min(gaps[i] for i in chosen) >= max(rest, default=0)
    assert chosen == sorted(chosen)
    # Large series are left out, except the first.
    assert most_missing([9, 8, 1], [50, 60, 20], ReportConfig(max_cells=70)) == [0, 2]
    assert most_missing([9], [50], ReportConfig(max_cells=10)) == [0]


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_share_is_0_or_100_percent_only_if_exact(part, whole):
    part = min(part, whole)
    assert (format_share(part, whole) == "0 %") == (part == 0)
    assert (format_share(part, whole) == "100 %") == (part == whole)


# --- text of the page


def text_of(content):
    return " ".join(Outline(render(content)).text).replace("\xa0", " ")


def test_the_summary_states_counts_error_and_coverage():
    full = report(names=["warm", "wet"])
    assert summary(full) == [
        "Of the 400 cells of a.csv, 94 (24 %) were missing: 24 were imputed, 60 refused and 10 "
        "left missing.",
        # linear at 1h (30 cells with an error of 0.4), nrtsi beyond (10 cells with an error of 1)
        "On known values that were held out as a test, the mean absolute error is 0.55 for warm, "
        "in the units of the data.",
        "The 90 % intervals contain 81 % of the held-out values.",
    ]
    for sentence in [*summary(full), *full.remarks, full.command, "the gap is longer than"]:
        assert sentence in text_of(full)
    assert "The charts show" not in text_of(full)
    many = report(channels=tuple(channel(f"c{i}") for i in range(6)), series_count=40)
    assert "the mean absolute error of each channel is in the table below" in summary(many)[1]
    assert "The charts show 1 of 40 series" in text_of(many)


def test_a_page_without_missing_cells_or_back_test_says_so():
    none = np.full((5, 1), np.nan)
    complete = ReportSeries(
        "a", np.arange(5.0), np.ones((5, 1)), np.zeros((5, 1), np.uint8), none, none
    )
    empty = {"scores": (), "methods": (), "coverage": (), "refusals": ()}
    plain = report(complete, first=empty, remarks=())
    assert summary(plain) == [
        "None of the 5 cells of a.csv is missing; nothing was imputed.",
        "The error of the imputed values is unknown because there was no back-test.",
    ]
    for words in ("There was no back-test", "were not tested", "No cells were refused"):
        assert words in text_of(plain)


def test_a_method_without_a_score_at_every_gap_length_has_no_mean_error():
    scores = (
        ReportScore(HOUR, "a", 10, 4.0, 1.0),
        ReportScore(DAY, "a", 30, 8.0, 2.0),
        ReportScore(HOUR, "b", 10, 0.1, 0.1),
        ReportScore(DAY, "b", 30, np.nan, np.nan),
    )
    errors = channel(scores=scores).errors
    assert errors["a"].mae == pytest.approx(1.75)
    assert errors["a"].rmse == pytest.approx(7**0.5)
    assert np.isnan(errors["b"].mae)
    # If the methods in use are unknown, the expected error is that of the best one.
    assert channel(methods=()).expected_error.mae == pytest.approx((30 * 0.5 + 10) / 40)


def test_labels_of_methods_gap_ranges_and_small_or_large_numbers():
    linear, nrtsi = MethodUse(HOUR, "linear"), MethodUse(DAY, "nrtsi")
    assert methods_used([nrtsi, linear]) == "linear up to 2h, then nrtsi"
    assert methods_used([nrtsi, MethodUse(HOUR, "nrtsi")]) == "nrtsi"
    assert methods_used([]) == "–"
    assert [str(HOUR), str(DAY), str(GapRange(1, 1, "1h", "1h"))] == ["1h – 2h", "over 2h", "1h"]
    values = [0.0, -2.5, 99.95, 1e-300, 1e300, np.inf, 123456.0]
    assert all(len(format_number(value)) <= 9 for value in values)


def test_the_lowest_error_is_bold_and_wrong_coverage_is_flagged():
    page = render(report())
    assert '<span class="mae"><strong>0.625</strong></span>' in page
    assert "70 % ▾ too narrow" in page
    wide = report(first={"coverage": (Coverage(HOUR, 300, 200, 0.9, 0.99),)})
    assert "99 % ▴ too wide" in render(wide)
    chance = report(first={"coverage": (Coverage(HOUR, 300, 10, 0.9, 0.99),)})
    assert "too wide" not in render(chance)


# --- from a model to the report


@pytest.fixture(scope="module")
def model_and_panel():
    time = np.arange(120.0)
    value = np.stack([np.sin(time / 5), np.cos(time / 7)], axis=1)
    value[10:14, 0] = value[50:70, 0] = value[30:33, 1] = np.nan
    model = NRTSI(preset="tiny", steps=1, unit=1.0)
    panel = model.read(
        pa.table({"time": time, "x": pa.array(value[:, 0]), "y": pa.array(value[:, 1])})
    )
    return model.fit_panel(panel), panel


@pytest.mark.parametrize("method", ["nrtsi", "linear", "auto"])
def test_a_report_agrees_with_the_result_and_the_back_test(model_and_panel, method):
    model, panel = model_and_panel
    options = ImputeOptions(method=method, max_gap=10, interval=0.8)
    backtest = backtest_panel(model, panel)
    result = model.run(ImputeTask.of(panel, options))
    made = report_of(panel, result, backtest, options, source="waves", settings=model.info())
    assert [each.counts for each in made.channels] == [(96, 4, 20, 0), (117, 3, 0, 0)]
    assert [each.refusals for each in made.channels] == [
        ((20, "the gap is longer than 10 steps"),),
        (),
    ]
    for each in made.channels:
        for name, error in each.errors.items():
            expected = backtest.methods[name].channels[each.name]
            assert (error.mae, error.rmse**2) == pytest.approx((expected.mae, expected.mse))
    assert {use.method for each in made.channels for use in each.methods} <= set(
        result.selection.used
    )
    (shown,) = made.series
    np.testing.assert_array_equal(shown.value, result.kept)
    missing = shown.state > CellState.OBSERVED
    assert (np.isfinite(shown.lower) == missing).all()
    assert (shown.lower <= shown.upper)[missing].all()
    assert "waves" in render(made)


@pytest.mark.parametrize(
    ("options", "remark", "refusals"),
    [
        (
            {"method": "forward"},
            r"squared error of \w+ is [\d.]+ times lower than that of forward, which was used",
            (),
        ),
        ({"max_width": {"x": 1e-9}}, "", ((24, "the 90 % interval is wider than 1e-09"),)),
    ],
)
def test_a_report_recommends_a_better_method_and_states_refusals(
    model_and_panel, options, remark, refusals
):
    model, panel = model_and_panel
    options = ImputeOptions(**options)
    result = model.run(ImputeTask.of(panel, options), intervals=True)
    made = report_of(panel, result, backtest_panel(model, panel), options, source="waves")
    assert re.search(remark, " ".join(made.remarks))
    assert made.channels[0].refusals == refusals


# --- safety and size


def test_a_page_needs_nothing_else():
    outline = Outline(render(report()))
    for tag, attributes in outline.tags:
        assert tag not in {"iframe", "object", "embed", "base"}
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
    assert not outline.open
    assert "http" not in render(report()).replace("http-equiv", "").replace(
        "http://www.w3.org/2000/svg", ""
    )


def test_every_script_is_in_the_page():
    assets = files("nrtsi.report") / "assets"
    assert {f"{name}.js" for name in SCRIPTS.split()} == {
        each.name for each in assets.iterdir() if each.name.endswith(".js")
    }


def test_names_are_never_read_as_markup():
    gap = GapRange(1.0, 2.0, EVIL, EVIL + "2")
    page = render(
        report(
            replace(series(channels=1), id=EVIL),
            names=[EVIL],
            first={
                "scores": (ReportScore(gap, EVIL, 3, 1.0, 1.0),),
                "methods": (MethodUse(gap, EVIL),),
                "coverage": (Coverage(gap, 3, 3, 0.9, 0.9),),
                "refusals": ((3, EVIL),),
            },
            source=EVIL,
            version=EVIL,
            remarks=(EVIL,),
            command=EVIL,
            settings={EVIL: EVIL},
        )
    )
    assert "<img" not in page
    assert page.count("</script>") == 3  # the facts, the series and the code
    assert data_of(page, "facts")["channels"] == [EVIL]
    assert data_of(page, "series-0")["id"] == EVIL


def test_a_page_of_a_million_cells_is_small():
    rows = 100_000
    many = series(rows=rows, channels=10)
    assert len(render(report(many))) < 10e6


def test_rendering_does_not_import_torch():
    code = "import sys, nrtsi.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- files and errors


def test_a_page_is_not_overwritten_has_a_suffix_and_a_limit(tmp_path):
    path = tmp_path / "r.html"
    write_report(path, report(names=["half \ud800 a character", "b"]))
    assert path.read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(InputError, match="exists already"):
        write_report(path, report())
    write_report(path, report(source="new"), overwrite=True)
    assert "<title>Imputation report: new</title>" in path.read_text("utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(InputError, match=r"must end in .html, got 'r.pdf'; .* r.html"):
        check_report(tmp_path / "r.pdf")
    with pytest.raises(InputError, match=r"at most 399 cells, got 400; show fewer series, col"):
        render(report(), ReportConfig(max_page_cells=399))
