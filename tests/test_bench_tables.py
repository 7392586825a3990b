"""The tables of the paper, as data."""

import math

import pytest

from nrtsi.bench.datasets.registry import DATASETS
from nrtsi.bench.markdown import LABELS
from nrtsi.bench.methods import KINDS
from nrtsi.bench.scores import SCORES
from nrtsi.bench.tables import EXPERT, Table, open_table, table_names
from nrtsi.config import validated
from nrtsi.errors import InputError

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
        ({"method": {"nrtsi": {}}}, "methods must name nrtsi, whose settings are"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(changes, message):
    validated(Table, small())
    with pytest.raises(InputError, match=message):
        validated(Table, small(**changes))
