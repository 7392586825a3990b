"""The pictures: what is drawn is what the library computed."""

import sys
from copy import copy
from functools import cache
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nrtsi import NRTSI
from nrtsi.errors import InputError
from nrtsi.network.attention import SetAttention
from nrtsi.report.plots import (
    check_picture,
    plot_attention,
    plot_draws,
    plot_filling,
    plot_gaps,
    plot_procedure,
    plot_series,
)
from nrtsi.report.plots.canvas import IMPUTED, OBSERVED, View
from nrtsi.report.plots.gaps import DistanceErrors, cell_distances
from nrtsi.report.plots.series import stages
from nrtsi.schedule.distances import distances
from nrtsi.schedule.plan import plan
from nrtsi.tables import Columns
from tests.strategies import seeds, some_series

TINY = {"preset": "tiny", "steps": 2, "unit": 1.0}


def table(rows=40, series=2, seed=0, *, partial=False):
    """Waves x and y of several series, about two thirds of them missing."""
    rng = np.random.default_rng(seed)
    time = np.tile(np.arange(float(rows)), series)
    value = np.stack([np.sin(time / 5), np.cos(time / 7)], axis=1) + rng.normal(size=(1, 2))
    missing = rng.random((time.size, 2 if partial else 1)) < 0.65
    missing[::rows] = False
    value[np.broadcast_to(missing, value.shape)] = np.nan
    x, y = (pa.array(column, from_pandas=True) for column in value.T)
    return pa.table({"id": np.repeat(np.arange(series), rows), "time": time, "x": x, "y": y})


def fitted(setting, frame, **more):
    return NRTSI(setting=setting, **TINY, **more).fit(frame)


@cache
def fitted_once(setting, *, partial):
    """A table, and a model of it."""
    frame = table(partial=partial)
    return frame, fitted(setting, frame)


@pytest.fixture(scope="module")
def frame():
    return fitted_once("regular", partial=False)[0]


@pytest.fixture(scope="module")
def model():
    return fitted_once("regular", partial=False)[1]


@pytest.fixture(scope="module")
def one(model, frame):
    return View.of(model.read_fitted(frame), 1, None)


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


def size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return [int.from_bytes(data[i : i + 4], "big") for i in (16, 20)]


# A series ----------------------------------------------------------------------------------------


def line(axes, label):
    """Coordinates of the line with this label."""
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found.get_xdata(), found.get_ydata()


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_series_of_any_length_is_drawn(tmp_path, rows):
    value = np.where(np.arange(rows) % 3 == 1, np.nan, 1.0)
    frame = pa.table({"time": np.arange(float(rows)), "x": pa.array(value, from_pandas=True)})
    full = frame.set_column(1, "x", pa.array(np.ones(rows)))
    figure = plot_series(tmp_path / "a.png", frame, full, columns=Columns(time="time"))
    np.testing.assert_array_equal(np.isnan(line(figure.axes[0], "observed")[1]), np.isnan(value))


@given(missing=npst.arrays(bool, st.integers(2, 20)))
@settings(max_examples=20)
def test_time_beside_missing_rows_is_shaded_and_no_other(tmp_path_factory, missing):
    assume(missing.mean() < 0.5)
    value = np.where(missing, np.nan, np.arange(missing.size))
    frame = pa.table({"time": np.arange(float(missing.size)), "x": pa.array(value)})
    full = frame.set_column(1, "x", pa.array(np.arange(float(missing.size))))
    path = tmp_path_factory.mktemp("shade") / "a.svg"
    (axes,) = plot_series(path, frame, full, columns=Columns(time="time")).axes
    (shade,) = axes.collections
    (outline,) = shade.get_paths()
    middle = np.arange(missing.size - 1) + 0.5
    inside = outline.contains_points(np.column_stack([middle, np.full(middle.size, 0.5)]))
    np.testing.assert_array_equal(inside, missing[:-1] | missing[1:])


def test_a_panel_shows_times_and_values_and_which_are_observed(tmp_path):
    frame, filled = gappy()
    path = tmp_path / "a.png"
    figure = plot_series(path, frame, filled, title="two channels")
    assert size(path) == [1200, 800]
    assert list(tmp_path.iterdir()) == [path]
    assert [axes.get_ylabel() for axes in figure.axes] == ["x0", "x1"]
    time, value = line(figure.axes[0], "observed")
    np.testing.assert_array_equal(time, filled["time"].to_numpy())
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(value)), [5, 6, 7, 8])
    imputed = line(figure.axes[0], "imputed")[1]
    np.testing.assert_array_equal(imputed[4:10], filled["x0"].to_numpy()[4:10])
    assert np.isnan(np.delete(imputed, range(4, 10))).all()
    only = plot_series(path, frame, filled, shown=["x1"])
    assert [axes.get_ylabel() for axes in only.axes] == ["x1"]
    still_missing = plot_series(path, frame, frame)
    assert np.isnan(line(still_missing.axes[0], "imputed")[1][5:9]).all()


def test_one_of_several_series_is_drawn_at_its_own_times(tmp_path):
    frame = pa.table({"id": [1, 1, 2, 2], "t": [0.0, 10.0, 5.0, 20.0], "x": [1.0, None, 3.0, 4.0]})
    filled = frame.set_column(2, "x", pa.array([1.0, 2.0, 3.0, 4.0]))
    columns = Columns(time="t", id="id", values=("x",))
    figure = plot_series(tmp_path / "a.png", frame, filled, columns=columns, series=1)
    time, value = line(figure.axes[0], "observed")
    np.testing.assert_allclose(time, [5.0, 20.0])
    np.testing.assert_allclose(value, [3.0, 4.0])


def test_an_imputed_series_is_that_of_impute_with_its_interval(tmp_path, model, frame):
    figure = plot_filling(tmp_path / "a.png", model, frame, series=1)
    filled = model.impute(frame, interval=0.9)
    assert figure.get_suptitle() == "id 1, imputed by nrtsi"
    for name, axes in zip(("x", "y"), figure.axes, strict=True):
        value, lower, upper = (
            filled[column].to_numpy()[40:] for column in (name, f"{name}_lower", f"{name}_upper")
        )
        drawn = line(axes, "imputed")[1]
        missing = frame[name].is_null().to_numpy(zero_copy_only=False)[40:]
        np.testing.assert_allclose(drawn[missing], value[missing], atol=1e-5)
        (band,) = [each for each in axes.collections if each.get_label() == "90 % interval"]
        corners = np.concatenate([path.vertices for path in band.get_paths()])
        for row in np.flatnonzero(missing):
            found = corners[corners[:, 0] == row, 1]
            assert (found.min(), found.max()) == pytest.approx((lower[row], upper[row]), abs=1e-5)
    without = plot_filling(tmp_path / "b.png", model, frame, interval=None)
    assert "90 % interval" not in {each.get_label() for each in without.axes[0].collections}


# From coarse to fine -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "partial"),
    [("regular", False), ("irregular", False), ("stochastic", False), ("partial", True)],
)
@pytest.mark.parametrize("most", [2, 3, 100])
def test_stages_partition_the_missing_rows_and_end_with_the_result_of_impute(
    setting, partial, most
):
    frame, model = fitted_once(setting, partial=partial)
    one = View.of(model.read_fitted(frame), 1, None)
    shown = stages(model, one.series, most)
    rows = np.concatenate([stage.rows for stage in shown])
    np.testing.assert_array_equal(np.sort(rows), np.flatnonzero(~one.series.observed.all(axis=1)))
    assert len(shown) <= most
    filled = model.impute(frame)
    for dim, name in enumerate(("x", "y")):
        np.testing.assert_allclose(
            shown[-1].value[:, dim], filled[name].to_numpy()[40:], atol=1e-5
        )


def test_an_imputed_value_does_not_change_later(model, one):
    shown = stages(model, one.series, 100)
    for before, after in pairwise(shown):
        np.testing.assert_array_equal(before.value[before.rows], after.value[before.rows])


def test_titles_state_step_distance_and_level(model):
    gap = [1.0, *[np.nan] * 7, 2.0]
    frame = pa.table({"id": [0] * 9, "time": np.arange(9.0), "x": gap, "y": gap})
    one = View.of(model.read_fitted(frame), 0, None)
    assert [stage.title for stage in stages(model, one.series, 9)] == [
        "step 1: distance 4, level 2",
        "step 2: distance 2, level 1",
        "step 3: distance 1, level 0",
    ]
    assert stages(model, one.series, 2)[-1].title == "steps 2–3: distance 2–1, level 1–0"


@pytest.mark.parametrize("plane", [False, True])
def test_every_missing_point_is_highlighted_in_one_panel(tmp_path, model, frame, one, plane):
    figure = plot_procedure(tmp_path / "a.svg", model, frame, series=1, plane=plane, panels=5)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [s.title for s in stages(model, one.series, 5)]
    new = [line for axes in panels for line in axes.lines if line.get_color() == IMPUTED]
    view = View.of(model.read_fitted(frame), 1, None, plane=plane, single=True)
    assert sum(line.get_xdata().size for line in new) == (~view.observed).sum()


@pytest.mark.slow
def test_a_picture_of_every_kind_is_1200_pixels_wide(tmp_path, model, frame):
    path = tmp_path / "a.png"
    for draw, options in product(
        (plot_procedure, plot_draws, plot_attention),
        ({"plane": False}, {"plane": True}, {"columns": ["y"]}),
    ):
        draw(path, model, frame, **options)
        assert size(path)[0] == 1200


def test_dates_fit_below_the_panels(tmp_path):
    frame, _ = gappy()
    model = NRTSI(preset="tiny", steps=2).fit(frame)
    plot_procedure(tmp_path / "a.png", model, frame)
    plot_attention(tmp_path / "b.png", model, frame)
    assert size(tmp_path / "b.png")[0] == 1200


# Draws -------------------------------------------------------------------------------------------


def test_the_draws_are_those_of_sample_and_the_bold_line_is_that_of_impute(tmp_path, model, frame):
    figure = plot_draws(tmp_path / "a.svg", model, frame, draws=3, series=1)
    sampled, filled = model.sample(frame, draws=3), model.impute(frame)
    for name, axes in zip(("x", "y"), figure.axes, strict=True):
        *paths, bold, dots = axes.lines
        for number, each in enumerate(paths):
            rows = slice(80 * number + 40, 80 * number + 80)
            np.testing.assert_allclose(each.get_ydata(), sampled[name].to_numpy()[rows], atol=1e-5)
        np.testing.assert_allclose(bold.get_ydata(), filled[name].to_numpy()[40:], atol=1e-5)
        assert len(paths) == 3
        assert dots.get_color() == OBSERVED


# Attention ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative", [False, True])
@given(seed=seeds)
@settings(max_examples=20)
def test_weights_are_what_the_network_mixes_by(relative, seed):
    rng = torch.Generator().manual_seed(seed)
    attention = SetAttention(8, 2, 4).double()
    tokens = torch.randn(2, 5, 8, generator=rng, dtype=torch.float64)
    attend = torch.rand(2, 5, 5, generator=rng) < 0.6
    attend |= torch.eye(5, dtype=torch.bool)
    angle = torch.rand(2, 5, 1, 2, generator=rng, dtype=torch.float64)
    turn = torch.polar(torch.ones_like(angle), angle) if relative else None
    bias = torch.where(attend, 0.0, -torch.inf).double().unsqueeze(1)
    given_all = (tokens, 0, bias, turn)
    with torch.no_grad():
        weights = attention.weights(*given_all)
        value = attention.value(tokens).reshape(2, 5, 2, 4)
        mixed = torch.einsum("whij,wjhc->wihc", weights, value).reshape(2, 5, 8)
        torch.testing.assert_close(attention.out(mixed), attention(*given_all))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64))
    assert (weights[~attend.unsqueeze(1).expand_as(weights)] == 0).all()


@pytest.mark.parametrize("more", [{}, {"model": {"encode_targets": False}}])
@pytest.mark.parametrize(("setting", "partial"), [("regular", False), ("partial", True)])
def test_attention_sums_to_one_over_known_rows_and_the_target(setting, partial, more):
    frame = table(partial=partial)
    model = fitted(setting, frame, **more)
    series = View.of(model.read_fitted(frame), 1, None).series
    config = model.fitted_.engine.model
    for step in plan(series, model.fitted_.engine.schedule):
        row = int(step.rows[step.rows.size // 2])
        known, attention = model.fitted_.attention(series, row)
        blocks = config.blocks if config.encode_targets else 1
        assert attention.weight.shape == (blocks, config.heads, attention.rows.size)
        np.testing.assert_allclose(attention.weight.sum(axis=-1), 1, atol=1e-5)
        assert row in attention.rows
        others = attention.rows[attention.rows != row]
        if config.network == "cells":  # targets of a step read each other there
            others = others[~np.isin(others, step.rows)]
        assert known.observed[others].any(axis=1).all()
        assert step.sources[others].all()


def test_there_is_a_panel_for_every_head_of_every_block(tmp_path, model, frame, one):
    step = list(plan(one.series, model.fitted_.engine.schedule))[1]
    row = int(step.rows[step.rows.size // 2])
    weight = model.fitted_.attention(one.series, row)[1].weight
    figure = plot_attention(tmp_path / "a.svg", model, frame, series=1, step=2, plane=True)
    blocks, heads, _ = weight.shape
    assert {axes.get_title() for axes in figure.axes} == {
        f"block {b}, head {h}" for b in range(1, blocks + 1) for h in range(1, heads + 1)
    }
    areas = figure.axes[0].collections[0].get_sizes()
    np.testing.assert_allclose(areas / areas.sum(), weight[0, 0], atol=1e-5)


def test_attention_of_an_observed_row_is_refused(model, one):
    with pytest.raises(InputError, match="row must be one that misses something, got 0"):
        model.fitted_.attention(one.series, 0)
    step = next(iter(plan(one.series, model.fitted_.engine.schedule)))
    with pytest.raises(InputError, match=r"row must be a target of the step, got 0; take one of"):
        model.fitted_.engine.attention(one.series, one.series, step, 0)


# Errors by gap -----------------------------------------------------------------------------------


@given(seeds)
def test_distances_are_those_of_each_channel_alone(seed):
    series = some_series(seed)
    far = cell_distances(series, ~series.observed)
    for row, dim in np.argwhere(~series.observed):
        own = series.owner == series.owner[row]
        known = series.time[own & series.observed[:, dim]]
        nearest = np.abs(known - series.time[row]).min(initial=np.inf)
        assert far[row, dim] == pytest.approx(nearest)
    assert (far[series.observed] == 0).all()


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("mask", ["points", "empirical"])
def test_errors_by_distance_average_to_those_of_the_back_test(partial, mask):
    frame, model = fitted_once("partial" if partial else "regular", partial=partial)
    model = copy(model).set_params(mask=mask, seed=3)
    whole = model.backtest(frame, baselines=("linear", "forward", "mean"))
    errors = DistanceErrors.of(whole)
    assert errors.cells.sum() == whole.hidden
    assert list(errors.mse) == list(whole.methods)
    for name, score in whole.methods.items():
        assert errors.overall(name) == pytest.approx(score.mse, rel=1e-9)


def test_a_bin_contains_distances_up_to_its_power_of_two(model, frame):
    errors = DistanceErrors.of(model.backtest(frame, baselines=()))
    assert (np.diff(errors.distance_bin) > 0).all()
    series = model.read_fitted(frame).series
    rows = np.flatnonzero(~series.observed.any(axis=1))
    reach = distances(series.time, series.observed.any(axis=1), series.start, rows).max()
    assert 2.0 ** errors.distance_bin.max() <= 4 * max(reach, 1) + 4


def test_plot_gaps_fits_a_model_if_none_is_given(tmp_path, frame):
    path = tmp_path / "a.png"
    errors = plot_gaps(path, frame, **TINY, baselines=("linear",))
    assert size(path) == [1200, 700]
    assert list(errors.mse) == ["nrtsi", "linear"]


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plot", "options", "message"),
    [
        (plot_attention, {"columns": ["z"]}, "column must be one of x, y, got 'z'; choose one of"),
        (plot_attention, {"columns": ["x", "y"]}, "over time must have 1 column, got 2: x, y; "),
        (plot_attention, {"columns": ["x"], "plane": True}, "must have 2 columns, got 1: x; name"),
        (plot_attention, {"step": 99}, r"step must be at least 1 and at most \d+, got 99; choose"),
        (plot_attention, {"row": 99}, "row must be at least 0 and below 40, got 99; choose"),
        (plot_attention, {"row": 0}, "row must be missing, got 0, which is not; choose another"),
        (plot_attention, {"block": 9}, r"block must be at least 1 and at most \d, got 9; choose"),
        (plot_attention, {"head": 0}, r"head must be at least 1 and at most \d, got 0; choose"),
        (plot_draws, {"series": 3}, "series must be at least 0 and below 2, got 3; choose"),
        (plot_draws, {"draws": 0}, "draws must be at least 1, got 0; ask for more"),
        (plot_procedure, {"panels": 1}, "panels must be at least 2, got 1; ask for more"),
        (plot_filling, {"interval": 2}, "interval must be a probability between 0 and 1, got 2"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, model, frame, plot, options, message):
    with pytest.raises(InputError, match=message):
        plot(tmp_path / "a.png", model, frame, **options)
    assert list(tmp_path.iterdir()) == []


def test_settings_beside_a_model_and_filled_data_of_other_rows_are_refused(tmp_path, model, frame):
    with pytest.raises(InputError, match="budget must not be given with a model"):
        plot_gaps(tmp_path / "a.png", frame, model=model, budget="1s")
    observed, filled = gappy()
    message = "the filled data must have the rows of the data, 48 in 1 series, got 40 in 1; impute"
    with pytest.raises(InputError, match=message):
        plot_series(tmp_path / "a.png", observed, filled.slice(0, 40))


def test_a_row_belongs_to_one_step(tmp_path, model, frame):
    one = View.of(model.read_fitted(frame), 0, None)
    step = list(plan(one.series, model.fitted_.engine.schedule))[1]
    row = int(step.rows[0])
    message = rf"row must be imputed in step 1, got {row}, which is not; choose another"
    with pytest.raises(InputError, match=message):
        plot_attention(tmp_path / "a.png", model, frame, row=row, step=1)
    plot_attention(tmp_path / "a.png", model, frame, row=row, step=2)


def test_a_complete_series_is_refused(tmp_path, model, frame):
    full = model.impute(frame)
    for plot, aim in ((plot_procedure, "their imputation"), (plot_attention, "the attention to")):
        message = f"id 0 must have missing values to show {aim}.*, got none; choose another series"
        with pytest.raises(InputError, match=message):
            plot(tmp_path / "a.png", model, full)


def test_the_suffix_names_the_format(tmp_path):
    for suffix, start in {".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}.items():
        plot_series(tmp_path / f"a{suffix}", *gappy())
        assert (tmp_path / f"a{suffix}").read_bytes().startswith(start)
    message = r"a picture must end in one of .png, .svg, .pdf, got 'a.txt'; write a name such as a"
    with pytest.raises(InputError, match=message):
        plot_series(tmp_path / "a.txt", *gappy())
    with pytest.raises(InputError, match=message):
        check_picture(tmp_path / "a.txt", overwrite=True)


def test_without_matplotlib_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r'pip install "nrtsi\[plot\]"'):
        plot_series(tmp_path / "a.png", *gappy())
    with pytest.raises(InputError, match=r'pip install "nrtsi\[plot\]"'):
        check_picture(tmp_path / "a.png", overwrite=False)
    assert list(tmp_path.iterdir()) == []
