import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nrtsi.errors import InputError
from nrtsi.report import (
    Coverage,
    Gap,
    MethodUse,
    RefusalCount,
    ReportScore,
    SeriesShown,
    State,
    check_report,
    most_missing,
    render,
    write_report,
)
from nrtsi.report.packing import pack_series, pack_times
from nrtsi.report.page import SCRIPTS
from nrtsi.report.summary import likely_error, methods_used, pool, sentences
from nrtsi.report.words import number, share
from tests.report_samples import DAY, HOUR, report, shown

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


def unpacked(channel, state):
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
def test_what_is_packed_is_what_was_given_to_a_millionth_of_the_range(data, rows, scale, offset):
    state = data.draw(arrays.arrays(np.uint8, (rows, 1), elements=st.integers(0, 3)))
    units = arrays.arrays(float, (rows, 1), elements=st.floats(-1, 1) | st.just(np.nan))
    value = (data.draw(units) + offset) * scale
    lower, upper = value - 0.1 * scale, value + 0.1 * scale
    series = SeriesShown("a", np.arange(rows, dtype=float), value, state, lower, upper)
    packed = pack_series(series)["channels"][0]
    assert (numbers(packed["state"], "u1") == state[:, 0]).all()
    found = unpacked(packed, state[:, 0])
    shows = state[:, 0] <= State.IMPUTED
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
def test_no_value_however_odd_makes_a_page_that_json_cannot_read(value):
    state = np.ones((value.size, 1), np.uint8)
    cells = value[:, None]
    page = render(
        report(SeriesShown("a", np.arange(value.size, dtype=float), cells, state, cells, cells))
    )
    channel = data_of(page, "series-0")["channels"][0]
    assert np.isfinite([channel["offset"], channel["scale"]]).all()
    assert channel["scale"] > 0
    assert (np.isfinite(numbers(channel["value"], "<f4")) == np.isfinite(value)).all()


@QUICK
@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e9), st.integers(2, 50))
def test_even_times_are_a_start_and_a_step(start, step, rows):
    time = start + step * np.arange(rows)
    packed = pack_times(time)
    if "step" in packed:
        again = packed["start"] + packed["step"] * np.arange(rows)
    else:  # too large a start for so small a step: the rounding is uneven
        again = numbers(packed["all"], "<f8")
    np.testing.assert_allclose(again, time, rtol=0, atol=2e-6 * step)


def test_uneven_times_are_all_there():
    time = np.array([0.0, 1.0, 5.0])
    assert numbers(pack_times(time)["all"], "<f8").tolist() == time.tolist()


@QUICK
@given(st.text(max_size=30))
def test_no_name_changes_the_structure_of_the_page(name):
    def outline(name):
        page = render(report(shown(rows=20, channels=1), channels=(name,), source=name))
        return [tag for tag, _ in Outline(page).tags]

    assert outline(name) == outline("plain")


@QUICK
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(1, 5))
def test_the_series_shown_have_no_fewer_gaps_than_the_others(gaps, series):
    chosen = most_missing(gaps, [10] * len(gaps), series=series)
    assert len(chosen) == min(series, len(gaps))
    rest = [count for i, count in enumerate(gaps) if i not in chosen]
    assert min(gaps[i] for i in chosen) >= max(rest, default=0)
    assert chosen == sorted(chosen)


def test_large_series_are_left_out_but_never_all():
    assert most_missing([9, 8, 1], [50, 60, 20], most_cells=70) == [0, 2]
    assert most_missing([9], [50], most_cells=10) == [0]


@pytest.mark.parametrize("value", [0.0, -2.5, 99.95, 1e-300, 1e300, np.inf, 123456.0])
def test_numbers_are_short(value):
    assert len(number(value)) <= 9


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_share_is_none_or_all_only_where_it_is_so(part, whole):
    part = min(part, whole)
    assert (share(part, whole) == "0 %") == (part == 0)
    assert (share(part, whole) == "100 %") == (part == whole)


# --- what the page says


def test_the_headline_tells_how_much_and_how_wrong():
    full = report(channels=("warm", "wet"))
    assert sentences(full) == [
        "Of the 400 cells of a.csv, 94 (24 %) were missing: 24 were filled, 60 refused and 10 "
        "left as they were.",
        # linear at 1h (30 cells off by 0.4), nrtsi beyond (10 cells off by 1)
        "Where known values were hidden as a test, the filling was off by 0.55 in warm on "
        "average, in the units of the data.",
        "The 90 % intervals held 81 % of the hidden values.",
    ]
    text = " ".join(Outline(render(full)).text).replace("\xa0", " ")
    for sentence in [*sentences(full), *full.remarks, *full.caveats, full.command]:
        assert sentence in text


def test_nothing_missing_and_nothing_tested_is_said():
    state = np.zeros((5, 1), np.uint8)
    none = np.full((5, 1), np.nan)
    series = SeriesShown("a", np.arange(5.0), np.ones((5, 1)), state, none, none)
    plain = report(series, scores=(), choices=(), coverage=(), refusals=(), remarks=(), caveats=())
    assert sentences(plain) == [
        "None of the 5 cells of a.csv is missing; nothing was filled.",
        "How wrong the filled values are is not known: there was no back-test.",
    ]
    text = " ".join(Outline(render(plain)).text)
    for words in ("There was no back-test", "were not checked", "Nothing was refused"):
        assert words in text


def test_a_method_without_a_score_at_every_length_is_not_pooled():
    scores = [
        ReportScore("c", HOUR, "a", 10, 4.0, 1.0),
        ReportScore("c", DAY, "a", 30, 8.0, 2.0),
        ReportScore("c", HOUR, "b", 10, 0.1, 0.1),
        ReportScore("c", DAY, "b", 30, np.nan, np.nan),
    ]
    pooled = pool(scores)
    assert pooled["a"].mae == pytest.approx(1.75)
    assert pooled["a"].rmse == pytest.approx(7**0.5)
    assert np.isnan(pooled["b"].mae)


def test_without_choices_the_error_is_that_of_the_best_method():
    assert likely_error(report(choices=()), "c0").mae == pytest.approx((30 * 0.5 + 10) / 40)


def test_the_best_is_bold_and_the_doubtful_interval_is_pointed_out():
    page = render(report())
    assert '<span class="mae"><strong>0.625</strong></span>' in page
    assert "70 % ▾ too narrow" in page
    wide = report(coverage=(Coverage("c0", HOUR, 300, 200, 0.9, 0.99),))
    assert "99 % ▴ too wide" in render(wide)
    chance = report(coverage=(Coverage("c0", HOUR, 300, 10, 0.9, 0.99),))
    assert "too wide" not in render(chance)


def test_methods_are_told_with_the_length_they_were_used_to():
    assert methods_used([MethodUse("c", DAY, "nrtsi"), MethodUse("c", HOUR, "linear")]) == (
        "linear to 2h, then nrtsi"
    )
    assert methods_used([MethodUse("c", DAY, "nrtsi"), MethodUse("c", HOUR, "nrtsi")]) == "nrtsi"
    assert methods_used([]) == "–"


def test_lengths_of_gaps_in_words():
    assert [str(HOUR), str(DAY), str(Gap(1, 1, "1h", "1h"))] == ["1h – 2h", "over 2h", "1h"]


def test_it_is_said_when_not_all_series_are_shown():
    assert "1 of 40 series are shown: those with the most missing cells" in render(
        report(all_series=40)
    )
    assert "those with the most missing cells" not in render(report())


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


def test_all_of_the_code_is_in_the_page():
    assets = files("nrtsi.report") / "assets"
    assert {f"{name}.js" for name in SCRIPTS} == {
        each.name for each in assets.iterdir() if each.name.endswith(".js")
    }


def test_what_users_call_things_is_never_read_as_a_page():
    series = replace(shown(channels=1), id=EVIL)
    gap = Gap(1.0, 2.0, EVIL, EVIL + "2")
    page = render(
        report(
            series,
            channels=(EVIL,),
            title=EVIL,
            source=EVIL,
            version=EVIL,
            scores=(ReportScore(EVIL, gap, EVIL, 3, 1.0, 1.0),),
            choices=(MethodUse(EVIL, gap, EVIL),),
            coverage=(Coverage(EVIL, gap, 3, 3, 0.9, 0.9),),
            refusals=(RefusalCount(EVIL, 3, EVIL),),
            remarks=(EVIL,),
            caveats=(EVIL,),
            command=EVIL,
            settings={EVIL: EVIL},
        )
    )
    assert "<img" not in page
    assert page.count("</script>") == 3  # the facts, the series and the code
    assert data_of(page, "facts")["channels"] == [EVIL]
    assert data_of(page, "series-0")["id"] == EVIL


def test_a_million_cells_stay_small():
    rows = 100_000
    many = shown(rows=rows, channels=10)
    assert len(render(report(many))) < 10e6


def test_a_page_is_made_without_torch():
    code = "import sys, nrtsi.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- files and mistakes


def test_a_page_is_written_once_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "r.html"
    write_report(path, report(channels=("half \ud800 a character", "b")))
    assert path.read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(InputError, match="exists already"):
        write_report(path, report())
    write_report(path, report(title="new"), overwrite=True)
    assert "<title>new</title>" in path.read_text("utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_a_report_has_the_name_of_a_page(tmp_path):
    with pytest.raises(InputError, match=r"must end in .html, got 'r.pdf'; .* r.html"):
        check_report(tmp_path / "r.pdf")


def test_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr("nrtsi.report.page.MOST_CELLS", 399)
    with pytest.raises(InputError, match=r"at most 399 cells, got 400; show fewer series, col"):
        render(report())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": np.arange(3.0)}, r"a time for each row, got \[\(200, 2\)\] and \(3,\)"),
        ({"lower": np.zeros((200, 1))}, r"of one shape \(row, channel\)"),
        ({"time": -np.arange(200.0)}, r"'a' must have finite times that ascend.*sort"),
        ({"time": np.full(200, np.nan)}, r"finite times that ascend"),
        ({"state": np.full((200, 2), 4, np.uint8)}, r"states from 0 to 3, got 4; use State"),
    ],
)
def test_unusable_series_are_named(change, message):
    with pytest.raises(InputError, match=message):
        replace(shown(), **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tallies": ()}, r"one tally for each channel \['c0', 'c1'\], got \[\]"),
        ({"series": (shown(channels=3),)}, r"series 'a' must have 2 channels, got 3"),
        (
            {"refusals": (RefusalCount("x", 1, "why"),)},
            r"its channels \['c0', 'c1'\], got \['x'\]",
        ),
    ],
)
def test_unusable_reports_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        report(**change)
