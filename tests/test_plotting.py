import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nrtsi.errors import InputError
from nrtsi.frames import Columns
from nrtsi.plotting import _figure, _picture, _runs, plot_series


def gappy(rows=48, dims=2, start="2024-01-01T00"):
    hour = np.arange(rows)
    value = {f"x{d}": np.sin(hour / (4 + d)) for d in range(dims)}
    frame = {"time": np.datetime64(start, "ns") + hour * np.timedelta64(1, "h")}
    missing = {"x0": slice(5, 9), "x1": slice(0, 2)}
    for name, column in value.items():
        cells = column.copy()
        cells[missing.get(name, slice(0, 1))] = np.nan
        frame[name] = pa.array(cells, from_pandas=True)
    return pa.table(frame), pa.table({"time": frame["time"], **value})


@given(npst.arrays(bool, st.integers(0, 30)))
def test_runs_are_exactly_the_true_rows(missing):
    again = np.zeros_like(missing)
    for begin, end in _runs(missing):
        assert not again[max(begin - 1, 0) : end].any()  # apart from the run before
        again[begin:end] = True
    np.testing.assert_array_equal(again, missing)


def test_the_picture_is_a_png_of_1200_by_800(tmp_path):
    frame, filled = gappy()
    path = tmp_path / "a.png"
    plot_series(path, frame, filled, interval=(filled, filled), title="two channels")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(data[i : i + 4], "big") for i in (16, 20)] == [1200, 800]
    assert list(tmp_path.iterdir()) == [path]


def test_a_panel_shows_the_times_the_values_and_which_were_known():
    frame, filled = gappy()
    picture = _picture(frame, filled, Columns(), 0, None)
    assert picture.names == ("x0", "x1")
    np.testing.assert_array_equal(picture.time, filled["time"].to_numpy())
    np.testing.assert_array_equal(picture.value[:, 0], filled["x0"].to_numpy())
    np.testing.assert_array_equal(np.flatnonzero(~picture.observed[:, 0]), [5, 6, 7, 8])
    figure = _figure(picture, None)
    assert [axes.get_ylabel() for axes in figure.axes] == ["x0", "x1"]


def test_one_of_several_series_is_drawn_at_its_own_times():
    frame = pa.table({"id": [1, 1, 2, 2], "t": [0.0, 10.0, 5.0, 20.0], "x": [1.0, None, 3.0, 4.0]})
    filled = frame.set_column(2, "x", pa.array([1.0, 2.0, 3.0, 4.0]))
    columns = Columns(time="t", id="id", values=("x",))
    picture = _picture(frame, filled, columns, 1, None)
    np.testing.assert_allclose(picture.time, [5.0, 20.0])
    np.testing.assert_allclose(picture.value[:, 0], [3.0, 4.0])


def test_a_series_that_is_not_there_is_refused(tmp_path):
    frame, filled = gappy()
    with pytest.raises(InputError, match=r"series must be at least 0 and below 1, got 3"):
        plot_series(tmp_path / "a.png", frame, filled, series=3)


def test_without_matplotlib_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    frame, filled = gappy()
    with pytest.raises(InputError, match=r'pip install "nrtsi\[plot\]"'):
        plot_series(tmp_path / "a.png", frame, filled)
    assert list(tmp_path.iterdir()) == []
