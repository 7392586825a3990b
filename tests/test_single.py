"""One table with gaps: what is asked, how it is scored, and how it is shown."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _the_scripts_see_each_other(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_what_is_asked_is_what_was_lost_and_known_before():
    data = import_module("singles.data")
    value = np.random.default_rng(0).normal(size=(40, 24, 3))
    value[5, 3, 1] = np.nan
    single = data._with_gaps(value, days=30)
    known = single.gappy.drop(columns="time").to_numpy()
    assert len(single.gappy) == 30 * 24
    assert np.isnan(known[single.asked]).all()
    assert not single.asked[5 * 24 + 3, 1]
    seen = ~np.isnan(known)
    np.testing.assert_array_equal(known[seen], single.truth[seen])
    assert 0.03 < single.asked.mean() < 0.3
    other = data._with_gaps(value + 1, days=30)
    assert single.digest != other.digest


def test_a_method_is_scored_and_its_row_replaced(tmp_path, monkeypatch, capsys):
    single, out = import_module("single"), tmp_path / "single.csv"
    name = "simulated weather, 60 days"
    words = [name, "--methods", "linear", "spline", "--out", out]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["single.py", *map(str, words)])
        single.main()
    assert f"{name}: linear 0." in capsys.readouterr().out
    lines = single.read_lines(out, single.COLUMNS)
    assert [line[:2] for line in lines] == [[name, "linear"], [name, "spline"]]
    page = import_module("singles.page")
    section = page.section(lines)
    assert section.startswith("## One table")
    row = next(line for line in section.splitlines() if line.startswith(f"| {name}"))
    figures = [cell.strip() for cell in row.split("|")[2:4]]
    assert figures[1].startswith("**")  # the spline is nearer
    assert not figures[0].startswith("**")
    assert page.section([]) == ""
