"""The tables of the paper as data, and the masks of their settings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.datasets.dataset import Part
from nrtsi.bench.datasets.registry import DATASETS
from nrtsi.bench.methods import KINDS
from nrtsi.bench.table_page import LABELS
from nrtsi.bench.tables import EXPERT, Masks, Table, open_table, table_names
from nrtsi.bench.tasks import SCORES
from nrtsi.config import validated
from nrtsi.errors import InputError
from tests.strategies import seeds

NAMES = (
    "ablation air air-shuffled billiards billiards-irregular gas mujoco nfl sinusoids threshold "
    "traffic"
)


def test_every_table_of_the_paper_is_there():
    assert " ".join(table_names()) == NAMES


@pytest.mark.parametrize("name", table_names())
def test_a_table_names_only_what_there_is(name):
    table = open_table(name)
    assert set(table.metrics) <= set(SCORES) <= set(LABELS)
    for setting in table.settings:
        assert table.data_of(setting) in DATASETS
    for method in table.methods:
        assert table.method.get(method, {}).get("kind", method) in {*KINDS, EXPERT}
    assert len({setting.name for setting in table.settings}) == len(table.settings)
    assert any(row.method.startswith("nrtsi") for row in table.paper)


@pytest.mark.parametrize(
    ("table", "method", "metric", "figures"),
    [
        ("billiards", "nrtsi", "l2", [0.024]),
        ("billiards", "linear", "l2", [19.0]),
        ("billiards-irregular", "nrtsi", "l2", [0.042]),
        ("sinusoids", "nrtsi", "mse", [7.17e-4]),
        ("mujoco", "nrtsi", "l2", [4.06, 1.22, 0.63, 0.26]),
        ("traffic", "nrtsi", "mse", [math.nan, 3.22]),
        ("nfl", "nrtsi", "min_l2", [1.908e-3]),
        ("threshold", "nrtsi-16", "average_length", [0.179]),
        ("ablation", "nrtsi-smallest", "l2", [11.09]),
        ("air", "nrtsi", "mse", [0.1230, 0.1155, 0.1189, 0.1250, 0.1297, 0.1378, 0.1542, 0.1790]),
        ("gas", "nrtsi", "mse", [0.0165, 0.0195, 0.0196, 0.0229, 0.0286, 0.0311, 0.0362, 0.0445]),
    ],
)
def test_the_paper_s_own_figures_are_copied_right(table, method, metric, figures):
    row = next(row for row in open_table(table).paper if row.method == method)
    assert list(row.values[metric]) == pytest.approx(figures, nan_ok=True)


def test_a_table_there_is_not_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"table must be one of ablation, air, .*, got 'moon'"):
        open_table("moon")


def small(**changes):
    return {
        "name": "small",
        "title": "Small",
        "about": "",
        "data": "sinusoids",
        "training": {"rows": [5, 5]},
        "settings": [{"name": "half", "masks": {"rows": [50, 50]}}],
        "metrics": ["mse"],
        "methods": ["linear"],
    } | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"paper": [{"method": "linear", "values": {"mse": [1.0, 2.0]}}]},
            "paper figures of linear: mse must be one of the metrics and have a figure for each",
        ),
        ({"paper": [{"method": "linear", "values": {"mae": [1.0]}}]}, "one of the metrics"),
        ({"method": {"nrtsi": {}}}, "methods must include nrtsi, which have settings"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(changes, message):
    validated(Table, small())
    with pytest.raises(InputError, match=message):
        validated(Table, small(**changes))


def part(series, steps, dims, seed, missing=0.2):
    rng = np.random.default_rng(seed)
    value = rng.normal(size=(series, steps, dims))
    value[rng.random(value.shape) < missing] = np.nan
    return Part(np.tile(np.arange(steps, dtype=float), (series, 1)), value)


masks = st.one_of(
    st.tuples(st.integers(1, 30), st.integers(1, 30)).map(
        lambda ends: Masks(rows=(min(ends), max(ends)))
    ),
    st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)).map(
        lambda ends: Masks(cells=(min(ends), max(ends)))
    ),
)


@given(masks, seeds, st.integers(1, 5), st.integers(1, 12), st.integers(1, 3))
def test_only_observed_cells_are_hidden_and_something_of_every_series_stays(
    mask, seed, series, steps, dims
):
    data = part(series, steps, dims, seed)
    hidden = mask.draw(data, np.random.default_rng(seed))
    observed = ~np.isnan(data.value)
    assert not (hidden & ~observed).any()
    stays = (observed & ~hidden).any(axis=(1, 2))
    np.testing.assert_array_equal(stays, observed.any(axis=(1, 2)))


@given(seeds, st.integers(1, 9), st.integers(0, 9))
def test_whole_rows_are_hidden_by_number(seed, least, more):
    data = part(6, 20, 3, seed, missing=0.0)
    hidden = Masks(rows=(least, least + more)).draw(data, np.random.default_rng(seed))
    np.testing.assert_array_equal(hidden.all(axis=2), hidden.any(axis=2))
    count = hidden.any(axis=2).sum(axis=1)
    assert (count >= least).all()
    assert (count <= least + more).all()


def test_every_row_is_as_likely_as_any_other_and_every_number_too():
    data = part(20_000, 10, 1, seed=0, missing=0.0)
    hidden = Masks(rows=(2, 4)).draw(data, np.random.default_rng(0))[:, :, 0]
    np.testing.assert_allclose(hidden.mean(axis=0), 0.3, atol=0.015)
    share = np.bincount(hidden.sum(axis=1), minlength=5)[2:] / len(hidden)
    np.testing.assert_allclose(share, 1 / 3, atol=0.015)


def test_cells_are_hidden_each_by_itself_at_the_share_of_their_series():
    data = part(2_000, 50, 4, seed=0, missing=0.1)
    hidden = Masks(cells=(0.3, 0.3)).draw(data, np.random.default_rng(0))
    observed = ~np.isnan(data.value)
    assert hidden[observed].mean() == pytest.approx(0.3, abs=0.005)
    both = (hidden & observed)[:, :, 0] & (hidden & observed)[:, :, 1]
    assert both[observed[:, :, 0] & observed[:, :, 1]].mean() == pytest.approx(0.09, abs=0.005)


def test_the_same_generator_hides_the_same():
    data, mask = part(5, 20, 2, seed=1), Masks(rows=(5, 9))
    first, second = (mask.draw(data, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_mask_that_would_hide_all_rows_leaves_one():
    hidden = Masks(rows=(50, 50)).draw(part(3, 4, 1, 0, missing=0.0), np.random.default_rng(0))
    np.testing.assert_array_equal(hidden.sum(axis=(1, 2)), 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "masks must have either rows or cells"),
        ({"rows": (1, 2), "cells": (0.1, 0.2)}, "masks must have either rows or cells"),
        ({"rows": (3, 2)}, r"masks must be \(minimum, maximum\) and positive, got \(3, 2\)"),
        ({"cells": (0.5, 1.5)}, "cells"),
    ],
)
def test_masks_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        validated(Masks, fields)


def test_shares_of_rows_are_those_of_the_length():
    assert Masks(rows=(50, 90)).shares(100) == (0.5, 0.9)
    assert Masks(cells=(0.1, 0.8)).shares(100) == (0.1, 0.8)
